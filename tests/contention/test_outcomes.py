"""A real S3 server that hangs: the caller gets "unknown" in time, and another process finds the true outcome (story e)."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from servers.fault_proxy import FaultProxy
from servers.s3 import S3Server

import lakelatch as ll

ROWS = pa.table({"v": [1]})
BUDGET_S = 6


def resolve_elsewhere(url: str, options: dict[str, Any], *more: str) -> tuple[int, dict[str, Any]]:
    """Run `lakelatch resolve` in another process that reaches the server without faults."""
    given = [f"--storage-option={k}={v if isinstance(v, str) else json.dumps(v)}" for k, v in options.items()]
    command = [sys.executable, "-m", "lakelatch", "resolve", url, "--json", *given, *more]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode in (0, 3, 4), done.stderr
    return done.returncode, json.loads(done.stdout)


def until_landed(proxy: FaultProxy) -> None:
    """Wait until the server has answered the PUT that hangs in the proxy."""
    deadline = time.monotonic() + 60
    while not any(r.fault == "hang" and r.method == "PUT" and r.upstream_status for r in proxy.requests):
        assert time.monotonic() < deadline, "the late request never arrived"
        threading.Event().wait(0.05)


@pytest.mark.parametrize(("lands_after_s", "journal"), [(0, "object"), (30, "file")], ids=["applied", "delayed"])
def test_a_hanging_server_is_unknown_in_time_and_resolves_elsewhere(
    faulty_s3: tuple[str, dict[str, Any], FaultProxy],
    s3_host: S3Server,
    tmp_path: Path,
    lands_after_s: int,
    journal: str,
) -> None:
    """H2, H9: The PUT and all reads of snapshots hang. The journal leads to the true outcome, which never changes."""
    bucket, through, proxy = faulty_s3
    url, direct = f"{bucket}/table", s3_host.storage_options()
    ll.create_table(url, ROWS.schema, options={"commit.timeout": f"{BUDGET_S} s"}, storage_options=direct)
    where = str(tmp_path / "journal.jsonl") if journal == "file" else "object"
    table = ll.open_table(url, storage_options=through, journal=where)
    table.append(ROWS)
    table.committer.settle()
    proxy.plan("hang", path="/snapshot/snapshot-2$", delay_ms=lands_after_s * 1000)
    proxy.plan("hang", method="GET", path="/snapshot/snapshot-2$", times=1000)
    with at_most(BUDGET_S + 4), pytest.raises(ll.OutcomeUnknown) as unknown:
        table.append(ROWS, commit_user="etl", identifier=7)
    assert unknown.value.identity["snapshot_id"] == 2
    code, told = resolve_elsewhere(url, direct, "--journal", where, "--writers-are-gone")
    assert code == 0
    assert told["outcome"] == ("finished" if lands_after_s else "landed")
    assert (told["snapshot_id"], told["snapshot_uuid"]) == (2, unknown.value.identity["snapshot_uuid"])
    until_landed(proxy)
    audited = ll.open_table(url, storage_options=direct)
    assert [s.id for s in audited.snapshots()] == [1, 2]
    assert audited.to_arrow().num_rows == 2
    assert audited.append(ROWS, commit_user="etl", identifier=7).replayed
    assert not [finding for finding in audited.verify("all") if finding.severity == "error"]


def test_every_wait_ends_in_time(faulty_s3: tuple[str, dict[str, Any], FaultProxy], s3_host: S3Server) -> None:
    """`append`, `resolve(timeout=)` and the look-up before a commit end in time even if the server never answers."""
    bucket, through, proxy = faulty_s3
    table = ll.create_table(f"{bucket}/table", ROWS.schema, options={"commit.timeout": "6 s"}, storage_options=through)
    table.append(ROWS)
    table.committer.settle()
    proxy.plan("hang", path="/snapshot/snapshot-2$")

    def hang_once_sent() -> None:
        until_landed(proxy)
        proxy.set(latency_ms=600_000)

    watcher = threading.Thread(target=hang_once_sent)
    watcher.start()
    with at_most(6 + 4), pytest.raises(ll.OutcomeUnknown) as unknown:
        table.append(ROWS)
    watcher.join()
    with at_most(3 + 4), pytest.raises(ll.OutcomeUnknown) as still:
        unknown.value.resolve(timeout=3)
    with at_most(6 + 4), pytest.raises(ll.StoreUnavailable):
        table.append(ROWS, commit_user="etl", identifier=7)
    proxy.set(latency_ms=0)
    assert still.value.resolve(timeout=60).snapshot_id == 2
    direct = ll.open_table(table.url, storage_options=s3_host.storage_options())
    assert direct.to_arrow().num_rows == 2


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    began = time.monotonic()
    yield
    assert time.monotonic() - began < seconds
