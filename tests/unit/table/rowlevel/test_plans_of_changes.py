"""How often a change of rows is planned again, how long it waits before, and what it tells when it gives up."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.coordinator.surroundings import MACHINE
from lakelatch.core.errors import CommitConflict, InvalidArgument, Unsupported
from lakelatch.table.rowlevel import run
from lakelatch.table.rowlevel.receipt import RowReceipt
from lakelatch.table.rowlevel.run import Retrying

_names = count()
SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.int64())])
VECTORS = {"deletion-vectors.enabled": "true"}


class Clock:
    """A clock that only sleeping moves. The dice always show the largest number."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s, self.slept = 1000.0, list[float]()
        machine = replace(MACHINE, monotonic_s=lambda: self.now_s, sleep=self.sleep, uniform=self.highest)
        monkeypatch.setattr(run, "MACHINE", machine)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now_s += seconds

    @staticmethod
    def highest(low: float, high: float) -> float:
        assert low == 0
        return high


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def rows(values: dict[int, int]) -> pa.Table:
    return pa.table({"k": [*values], "v": [*values.values()]}, SCHEMA)


def made(key: bool = False, **options: str) -> ll.Table:
    texts = {name.replace("__", ".").replace("_", "-"): text for name, text in options.items()}
    about: dict[str, Any] = {"primary_key": ["k"]} if key else {}
    texts = ({"bucket": "1"} if key else {}) | texts
    return ll.create_table(f"memory://plans-of-changes/{next(_names)}", SCHEMA, options=texts, **about)


def state(table: ll.Table) -> dict[int, int]:
    return {row["k"]: row["v"] for row in ll.open_table(table.url).to_arrow().to_pylist()}


def lost(sent: bool = False) -> CommitConflict:
    error = CommitConflict("others came first", next_step="plan again")
    error.sent = sent
    return error


def test_waits_grow_up_to_a_second(clock: Clock) -> None:
    retrying = Retrying(made().schema)
    for _ in range(8):
        assert retrying.again(lost())
    assert clock.slept == pytest.approx([0.04, 0.08, 0.16, 0.32, 0.64, 1.0, 1.0, 1.0])
    assert retrying.plans == 9


@pytest.mark.parametrize(("options", "least_s"), [({}, 600), ({"commit__timeout": "5 s"}, 5)])
def test_it_is_planned_again_until_the_time_is_over(options: dict[str, str], least_s: float, clock: Clock) -> None:
    retrying = Retrying(made(**options).schema)
    clock.now_s += least_s
    assert retrying.again(lost()), "the last moment still counts"
    error = lost()
    assert not retrying.again(error)
    assert str(error).startswith("others came first; it was planned 2 times (change fewer rows at once")
    assert "'commit.timeout'" in error.next_step


def test_there_is_a_largest_number_of_plans(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "MOST_PLANS", 3)
    retrying = Retrying(made().schema)
    assert [retrying.again(lost()) for _ in range(3)] == [True, True, False]
    assert retrying.plans == 3 and len(clock.slept) == 2


def test_that_a_plan_may_have_been_sent_is_not_forgotten(clock: Clock) -> None:
    retrying = Retrying(made().schema)
    assert not retrying.sent
    for sent in (False, True, False):
        retrying.again(lost(sent))
    assert retrying.sent


@pytest.mark.parametrize("key", [False, True])
def test_what_identifies_a_change_is_checked_before_anything_is_read(key: bool) -> None:
    table = made(key)
    table.append(rows({1: 1}))
    with pytest.raises(InvalidArgument, match="isolation 'none': use 'snapshot' or 'serializable'"):
        table.update("k = 1", set={"v": "2"}, isolation="none")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="identifier"):
        table.update("k = 1", set={"v": "2"}, identifier=5)
    with pytest.raises(InvalidArgument, match="properties"):
        table.update("k = 1", set={"v": "2"}, properties=["x"])  # type: ignore[arg-type]
    assert state(table) == {1: 1} and len(list(table.snapshots())) == 1
    done = table.update("k = 1", set={"v": "2"}, commit_user="job", identifier=5, properties={"why": "asked"})
    snapshot = table.timeline.latest()
    assert snapshot is not None and snapshot.properties["why"] == "asked"
    assert (snapshot.commit_user, snapshot.commit_identifier, done.plans) == ("job", 5, 1)
    again = table.update("k = 1", set={"v": "v + 1"}, commit_user="job", identifier=5)
    assert (again.replayed, again.plans, again.rows_updated, again.files_read) == (True, 0, None, None)
    assert state(table) == {1: 2}


@pytest.mark.parametrize("key", [False, True])
@pytest.mark.parametrize("kind", ["update", "delete", "merge"])
def test_a_job_that_runs_again_gets_its_receipt_although_its_change_would_be_refused_now(key: bool, kind: str) -> None:
    """It is neither planned nor checked again, and leaves no file behind: the table has changed since."""
    table = made(key)
    table.append(rows({1: 1, 2: 2}))
    job: dict[str, Any] = {"commit_user": "job", "identifier": 5}

    def runs(table: ll.Table) -> RowReceipt:
        if kind == "update":
            return table.update("v = 1", set={"v": "v + 1"}, **job)  # type: ignore[return-value]
        if kind == "delete":
            return table.delete(where="v = 1", **job)  # type: ignore[return-value]
        merge = table.merge(rows({1: 7}), on=["k"], **job)
        return merge.when_matched_update({"v": "s.v"}, condition="t.v = 1").execute()  # type: ignore[return-value]

    def data() -> list[str]:
        return sorted(info.key for info in table.store.list("bucket-0/"))

    first = runs(table)
    table.append(rows({3: 1}))
    before, newest = data(), len(list(table.snapshots()))
    again = runs(ll.open_table(table.url))
    assert (again.replayed, again.snapshot_id, again.plans) == (True, first.snapshot_id, 0)
    table.alter(ll.drop_column("v"))
    again = runs(ll.open_table(table.url))
    assert (again.replayed, again.snapshot_id, again.plans) == (True, first.snapshot_id, 0)
    assert (data(), len(list(table.snapshots()))) == (before, newest)


def unseen(**options: str) -> ll.Table:
    """A table with a row that is committed, and hidden until a compaction."""
    table = made(key=True, deletion_vectors__enabled="true", write_only="true")
    table.upsert(rows({1: 1, 2: 2}))
    table.compact(full=True)
    table.upsert(rows({1: 10}))
    assert state(table) == {1: 1, 2: 2}
    table.alter(*(ll.set_option(name.replace("_", "-"), text) for name, text in options.items()))
    return ll.open_table(table.url)


def test_a_row_that_cannot_be_read_yet_is_compacted_and_then_changed() -> None:
    table = unseen(write_only="false")
    done = table.update("k = 1", set={"v": "v + 1"})
    assert done.plans == 2 and state(table) == {1: 11, 2: 2}


def test_a_row_that_cannot_be_read_yet_does_not_matter_to_a_change_of_others() -> None:
    table = unseen(write_only="false")
    assert table.update("k = 2", set={"v": "v + 1"}).plans == 1
    assert state(table)[2] == 3


def test_where_others_compact_a_row_that_cannot_be_read_yet_is_an_error() -> None:
    table = unseen()
    before = len(list(table.snapshots()))
    with pytest.raises(
        Unsupported, match="1 files with rows that this change may concern cannot be read before they"
    ) as told:
        table.delete(where="k = 1")
    assert "compact the table" in told.value.next_step and len(list(table.snapshots())) == before
    table.compact()
    table.delete(where="k = 1")
    table.compact()
    assert state(table) == {2: 2}


def test_postponed_rows_that_a_change_may_concern_are_an_error() -> None:
    table = made(key=True, bucket="-2", postpone__batch_write_fixed_bucket="false")
    table.upsert(rows({1: 1}))
    with pytest.raises(Unsupported, match="1 files with rows"):
        table.update(set={"v": "v + 1"})


def test_a_receipt_says_in_words_what_was_done() -> None:
    table = made()
    table.append(rows({1: 1, 2: 2, 3: 3}))
    table.append(rows({4: 4}))
    assert "0 rows inserted, 2 updated, 0 deleted, 1 file rewritten, " in str(table.update("k < 3", set={"v": "0"}))
    assert "0 rows inserted, 2 updated, 0 deleted, 2 files rewritten, " in str(table.update("k > 2", set={"v": "0"}))
    assert "0 rows inserted, 0 updated, 2 deleted, 1 file rewritten, " in str(table.delete(where="k + 0 IN (1, 2)"))
    done = table.update("k = 3", set={"v": "1"}, commit_user="job", identifier=1)
    assert isinstance(done, RowReceipt) and RowReceipt.of(done) is done
    replayed = table.update("k = 3", set={"v": "1"}, commit_user="job", identifier=1)
    assert "rows inserted" not in str(replayed)
    nothing = table.update("k = 99", set={"v": "1"})
    assert "0 updated, 0 deleted, 0 files rewritten" in str(nothing)
