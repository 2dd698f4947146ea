"""Many writers of the same keys: no acknowledged row is lost, no key is there twice, and some serial order explains the table.

`LAKELATCH_NIGHTLY=1` kills 100 processes in each test of killed ones, on S3, too; `LAKELATCH_KILLS=10` kills fewer.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from contention.upserts import Ledger, Upserts, contradictions, keys_of
from figures import NIGHTLY
from report import tell
from servers import FaultProxy, S3Server

WRITERS, COMMITS = (8, 25) if NIGHTLY else (4, 8)
KILLS = int(os.environ.get("LAKELATCH_KILLS", "100" if NIGHTLY else "6"))
FIXED = {"bucket": "4"}
DYNAMIC = {"bucket": "-1", "dynamic-bucket.target-row-num": "300"}


def check(ledger: Ledger, what: str) -> None:
    tell(f"upserts, {what}: {ledger}")
    assert ledger.acknowledged == WRITERS * COMMITS
    assert (ledger.lost, ledger.doubled_keys, ledger.errors) == ([], 0, [])
    assert ledger.compactions > 0


@pytest.mark.parametrize("options", [FIXED, DYNAMIC], ids=["fixed buckets", "dynamic buckets"])
def test_upserts_of_the_same_keys_on_local_disk(options: dict[str, str], tmp_path: Path, folder: Path) -> None:
    """H12, H14: Many processes and two compactors, with default options."""
    run = Upserts(folder, str(tmp_path / "table"), {}, writers=WRITERS, commits=COMMITS, options=options)
    check(run.beside_compactors(), f"local, {WRITERS} x {COMMITS}, bucket {options['bucket']}")


def test_upserts_on_s3_with_dropped_answers(s3_host: S3Server, folder: Path) -> None:
    """In addition, the server applies every tenth PUT, but its answer is cut off (H2, H3)."""
    url = f"s3://{s3_host.create_bucket()}/table"
    with FaultProxy(s3_host.endpoint_url, drop_put_answers=0.1, seed=7) as proxy:
        through = s3_host.storage_options(proxy.url)
        own: Any = s3_host.storage_options()
        run = Upserts(folder, url, own, through=through, writers=WRITERS, commits=COMMITS, options=FIXED)
        check(run.beside_compactors(), "S3, a tenth of the answers to PUT dropped")
        assert any(request.fault == "drop_answer" for request in proxy.requests)


def check_killed(ledger: Ledger, what: str) -> None:
    tell(f"upserts, {what}: {ledger}")
    assert ledger.kills == KILLS and ledger.acknowledged >= KILLS // 2
    assert (ledger.lost, ledger.doubled_keys, ledger.errors) == ([], 0, [])


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("options", [FIXED, DYNAMIC], ids=["fixed buckets", "dynamic buckets"])
def test_killed_writers_and_compactors_on_local_disk(options: dict[str, str], tmp_path: Path, folder: Path) -> None:
    """G3: each process that is killed is started again, and makes its commit exactly once."""
    run = Upserts(folder, str(tmp_path / "table"), {}, writers=WRITERS, commits=10**6, options=options)
    check_killed(run.beside_compactors(KILLS, pause_s=1.0), f"local, bucket {options['bucket']}")


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_killed_writers_and_compactors_on_s3_with_dropped_answers(s3_host: S3Server, folder: Path) -> None:
    url = f"s3://{s3_host.create_bucket()}/table"
    with FaultProxy(s3_host.endpoint_url, drop_put_answers=0.1, seed=8) as proxy:
        through = s3_host.storage_options(proxy.url)
        own: Any = s3_host.storage_options()
        run = Upserts(folder, url, own, through=through, writers=WRITERS, commits=10**6, options=FIXED)
        check_killed(run.beside_compactors(KILLS, pause_s=4.0), "S3, a tenth of the answers to PUT dropped")


def test_what_no_serial_order_explains_is_found() -> None:
    """The judge of the tests above: a row of an older commit, and two rows that each say that they came last."""
    first, second = ("a", 0), ("b", 0)
    shared = sorted(set(keys_of(*first)) & set(keys_of(*second)))
    assert len(shared) >= 2
    rows = dict.fromkeys(keys_of(*first), first) | dict.fromkeys(keys_of(*second), second)
    one_after_the_other = {first: (0.0, 1.0), second: (2.0, 3.0)}
    at_once = {first: (0.0, 3.0), second: (0.0, 3.0)}
    assert contradictions(rows, one_after_the_other) == contradictions(rows, at_once) == []
    assert contradictions(rows | dict.fromkeys(shared, first), at_once) == []
    assert contradictions(rows | dict.fromkeys(shared, first), one_after_the_other) != []
    assert contradictions(rows | {shared[0]: first}, at_once) != []
    assert contradictions({key: c for key, c in rows.items() if key != shared[0]}, at_once) == [
        f"key {shared[0]} has no row"
    ]
