"""G1, G2, G3, G6 for changes of rows: many jobs merge, delete, append and compact at once, and the end is that of a serial order.

The order is that of the snapshots. `LAKELATCH_NIGHTLY=1` kills 100 processes in each test, and adds a store that loses answers;
`LAKELATCH_KILLS=10` kills fewer.
"""

from __future__ import annotations

import os
from pathlib import Path
from random import Random
from typing import Any

import pytest
from contention.changers import FIRST, Change, Changers, Verdict, contradictions
from figures import NIGHTLY
from report import tell
from servers import FaultProxy, S3Server

EACH = 4
KILLS = int(os.environ.get("LAKELATCH_KILLS", "100" if NIGHTLY else "0"))
COMMITS = 1_000_000 if KILLS else 2
OPTIONS = {"copies": {}, "vectors": {"deletion-vectors.enabled": "true"}}


def check(verdict: Verdict, what: str) -> None:
    tell(f"{EACH} mergers, {EACH} appenders, 1 compactor, {what}: {verdict}")
    assert (verdict.lost, verdict.doubled, verdict.unasked, verdict.wrong, verdict.errors) == ([], [], [], [], [])
    assert verdict.acknowledged >= (KILLS // 2 if KILLS else 2 * EACH * COMMITS)


@pytest.mark.parametrize("kind", OPTIONS)
def test_mergers_appenders_and_a_compactor_end_in_a_serial_order(kind: str, tmp_path: Path, folder: Path) -> None:
    """H12: Each is a process, with default options."""
    run = Changers(folder, str(tmp_path / "table"), {}, each=EACH, commits=COMMITS, options=OPTIONS[kind])
    check(run.until_done(KILLS, Random(16), pause_s=0.5), f"local, {kind}")


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", OPTIONS)
def test_the_same_on_s3_with_dropped_answers(kind: str, s3_host: S3Server, folder: Path) -> None:
    """H2, H3: In addition, the server applies every tenth PUT, but its answer is cut off."""
    url = f"s3://{s3_host.create_bucket()}/table"
    with FaultProxy(s3_host.endpoint_url, drop_put_answers=0.1, seed=7) as proxy:
        through = s3_host.storage_options(proxy.url)
        own: Any = s3_host.storage_options()
        run = Changers(folder, url, own, through=through, each=EACH, commits=COMMITS, options=OPTIONS[kind])
        check(run.until_done(KILLS, Random(17), pause_s=4.0), f"S3, a tenth of the answers to PUT dropped, {kind}")
        assert any(request.fault == "drop_answer" for request in proxy.requests)


def test_what_no_serial_order_explains_is_found() -> None:
    """The judge of the tests above: a change that is missing, done twice, or before one that had ended when it began."""
    first, second = ("appender-0", 0), ("appender-1", 0)
    rows = [(i, 1) for i in range(FIRST)]
    both = [*rows, *Change.of(*first).rows, *Change.of(*second).rows]
    apart, at_once = {first: (0.0, 1.0), second: (2.0, 3.0)}, {first: (0.0, 3.0), second: (0.0, 3.0)}
    assert contradictions([first, second], apart, both) == contradictions([second, first], at_once, both) == []
    assert "no order" in contradictions([second, first], apart, both)[0]
    assert len(contradictions([first, second], apart, both[:-1])) == 1
    assert len(contradictions([first, second], apart, [*both, both[-1]])) == 1
    merge = next(("merger-0", n) for n in range(99) if Change.of("merger-0", n).kind == "merge")
    assert contradictions([merge], {merge: (0.0, 1.0)}, rows) != []
