"""What a write compacts after its commit: only what is due, only in its buckets, and at most as often as it must."""

from __future__ import annotations

import logging
from itertools import count
from typing import Any

import pyarrow as pa
import pytest
from unit.table.compaction.test_compact_keys import again, batch, created, kinds, levels, upsert, values

from lakelatch.backends.around.metered import MeteredStore
from lakelatch.coordinator.commit.aftercare import Aftercare
from lakelatch.coordinator.commit.committer import Committer
from lakelatch.coordinator.intents.claims import Claims
from lakelatch.coordinator.surroundings import MACHINE
from lakelatch.core.errors import CommitConflict
from lakelatch.core.paths import TablePaths
from lakelatch.core.places import codec_of
from lakelatch.table.compaction import inline
from lakelatch.table.table import Table

VECTORS = {"deletion_vectors__enabled": "true"}


def writing(**options: str) -> Table:
    return created(write_only="false", **options)


def share(table: Table, monkeypatch: pytest.MonkeyPatch, does: bool) -> None:
    """Whether it is this writer that compacts what can wait."""
    monkeypatch.setattr(Aftercare, "does_its_share", lambda self: does)


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> Any:
    """No compaction fails on the way, unless a test says so."""
    caplog.set_level(logging.WARNING, "lakelatch.compaction")
    return caplog


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "lakelatch.compaction"]


@pytest.mark.parametrize("trigger", [2, 3, 4])
def test_a_bucket_is_compacted_as_soon_as_it_has_as_many_runs_as_the_option_says(
    trigger: int, quiet: pytest.LogCaptureFixture
) -> None:
    table = writing(num_sorted_run__compaction_trigger=str(trigger))
    for number in range(trigger):
        table.upsert(batch("a", {1: number}))
    assert kinds(table) == ["APPEND"] * trigger + ["COMPACT"]
    assert values(table) == {("a", 1): trigger - 1} and warnings(quiet) == []


@pytest.mark.parametrize(
    ("option", "value", "compacts"),
    [
        ("compaction__total_size_threshold", "1 gb", True),
        ("compaction__total_size_threshold", "1 b", False),
        ("compaction__incremental_size_threshold", "1 b", True),
        ("compaction__incremental_size_threshold", "1 gb", False),
        ("compaction__optimization_interval", "1 h", True),
        ("full_compaction__delta_commits", "5", True),
        ("full_compaction__delta_commits", "0", False),
        ("compaction__force_up_level_0", "true", True),
        ("merge_engine", "first-row", True),
        ("changelog_producer", "lookup", True),
    ],
)
def test_options_that_compact_early_count_after_a_write(
    option: str, value: str, compacts: bool, quiet: pytest.LogCaptureFixture
) -> None:
    table = writing(**{option: value})
    table.upsert(batch("a", {1: 1}))
    table.upsert(batch("a", {2: 2}))
    assert ("COMPACT" in kinds(table)) == compacts
    assert values(table) == {("a", 1): 1, ("a", 2): 2} and warnings(quiet) == []


def test_the_interval_is_over_only_after_the_interval() -> None:
    table = writing(compaction__optimization_interval="1 h")
    for number in range(4):
        table.upsert(batch("a", {1: number}))
    assert kinds(table).count("COMPACT") == 1, "the first time there is none in the last level"


def test_postponed_rows_are_left_to_a_job_of_their_own(quiet: pytest.LogCaptureFixture) -> None:
    table = writing(bucket="-2", postpone__batch_write_fixed_bucket="false")
    for number in range(7):
        table.upsert(batch("a", {1: number}))
    assert kinds(table) == ["APPEND"] * 7 and warnings(quiet) == []


def test_only_buckets_of_the_write_are_compacted_and_all_of_them(quiet: pytest.LogCaptureFixture) -> None:
    table = writing(num_sorted_run__compaction_trigger="2", bucket="2")
    for part in ("a", "b", "c"):
        table.upsert(batch(part, dict.fromkeys(range(40), 0)))
    table.upsert(pa.concat_tables([batch("a", dict.fromkeys(range(40), 1)), batch("c", dict.fromkeys(range(40), 1))]))
    assert kinds(table) == ["APPEND"] * 4 + ["COMPACT"]
    assert [len(levels(table, part)) for part in ("a", "b", "c")] == [2, 2, 2]
    assert [{level for level, _, _ in levels(table, part)} for part in ("a", "b", "c")] == [{2}, {0}, {2}]
    assert values(table) == {(part, k): int(part != "b") for part in ("a", "b", "c") for k in range(40)}
    assert warnings(quiet) == []


def test_of_many_writers_only_those_whose_turn_it_is_compact_what_can_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    table = writing(num_sorted_run__compaction_trigger="2", num_sorted_run__stop_trigger="4")
    share(table, monkeypatch, False)
    for number in range(4):
        table.upsert(batch("a", {1: number}))
    assert kinds(table) == ["APPEND"] * 4
    table.upsert(batch("a", {1: 4}))
    assert kinds(table) == ["APPEND"] * 5 + ["COMPACT"], "a bucket never has more runs than the second option says"
    share(table, monkeypatch, True)
    table.upsert(batch("a", {1: 5}))
    assert kinds(table)[-1] == "COMPACT" and levels(table) == [(2, 1, 0)]


def test_rows_that_would_be_hidden_are_shown_by_every_writer(monkeypatch: pytest.MonkeyPatch) -> None:
    table = writing(**VECTORS)
    share(table, monkeypatch, False)
    table.upsert(batch("a", {1: 1}))
    assert values(table) == {("a", 1): 1} and kinds(table) == ["APPEND", "COMPACT"]
    later = writing(**VECTORS, lookup_wait="false")
    share(later, monkeypatch, False)
    later.upsert(batch("a", {1: 1}))
    assert values(later) == {} and kinds(later) == ["APPEND"], "where readers may wait, so may writers"


@pytest.mark.parametrize("rounds", [1, 2, 5])
def test_what_is_urgent_is_tried_again_and_it_is_told_when_others_always_come_first(
    rounds: int, monkeypatch: pytest.MonkeyPatch, quiet: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(inline, "_ROUNDS", rounds)
    table, tried = writing(**VECTORS), count(1)
    commit = table.committer.commit

    def lost(request: Any) -> Any:
        if request.kind != "COMPACT":
            return commit(request)
        next(tried)
        error = CommitConflict("others came first")
        error.sent = False
        raise error

    monkeypatch.setattr(table.committer, "commit", lost)
    receipt = table.upsert(batch("a", {1: 1}))
    assert receipt.snapshot_id == 1 and next(tried) == rounds + 1
    assert warnings(quiet) == [
        f"others changed the buckets of this commit {rounds} times: a later compaction has to finish them"
    ]
    monkeypatch.setattr(table.committer, "commit", commit)
    table.upsert(batch("a", {2: 2}))
    assert values(table) == {("a", 1): 1, ("a", 2): 2}


def test_what_can_wait_is_tried_once(monkeypatch: pytest.MonkeyPatch, quiet: pytest.LogCaptureFixture) -> None:
    table, tried = writing(num_sorted_run__compaction_trigger="2"), []
    commit = table.committer.commit

    def lost(request: Any) -> Any:
        if request.kind != "COMPACT":
            return commit(request)
        tried.append(request)
        error = CommitConflict("others came first")
        error.sent = False
        raise error

    monkeypatch.setattr(table.committer, "commit", lost)
    for number in range(2):
        table.upsert(batch("a", {1: number}))
    assert len(tried) == 1 and kinds(table) == ["APPEND"] * 2 and warnings(quiet) == []


def test_rows_that_a_rollback_brings_back_are_shown() -> None:
    table = writing(**VECTORS)
    table.upsert(batch("a", {1: 1}))
    table.upsert(batch("a", {1: 2, 3: 3}))
    first = [snapshot.id for snapshot in table.snapshots() if snapshot.commit_kind == "APPEND"][-1]
    table.rollback(snapshot=first)
    assert values(table) == {("a", 1): 2, ("a", 3): 3}
    assert kinds(table)[-2:] == ["OVERWRITE", "COMPACT"]


def test_a_rollback_of_a_table_that_shows_all_rows_compacts_nothing() -> None:
    table = writing(num_sorted_run__compaction_trigger="2")
    for number in range(3):
        table.upsert(batch("a", {1: number}))
    table.rollback(snapshot=2)
    assert kinds(table)[-1] == "OVERWRITE" and values(table) == {("a", 1): 1}


def test_a_compaction_of_buckets_that_have_nothing_to_compact_is_none() -> None:
    table = created()
    upsert(table, "a", {1: 1})
    (entry,) = table.entries()
    snapshot = table.snapshot()
    assert snapshot is not None
    due = [(entry.partition, entry.bucket)]
    assert inline.compact_buckets(table.committer, table.timeline, snapshot, due) is None
    for number in range(5):
        upsert(table, "a", {1: number})
        upsert(table, "b", {1: number})
    snapshot = again(table).snapshot()
    assert snapshot is not None
    done = inline.compact_buckets(table.committer, table.timeline, snapshot, due)
    assert done is not None and (done.files_before, done.plan.files_considered) == (6, 6)
    assert done.plan.target_bytes == 128 << 20
    assert len(levels(table, "a")) == 1 and len(levels(table, "b")) == 5


# ----------------------------------------------------------------------------------------------- where others commit, too


def crowded(table: Table) -> Table:
    """Its writer has just met two others."""
    table.committer.meet(2, 0.001)
    return table


def claimed(table: Table, *buckets: tuple[bytes, int]) -> Claims:
    claims = Claims(table.timeline, MACHINE)
    assert claims.take(buckets) == list(buckets)
    return claims


def place_of(table: Table, part: str) -> tuple[bytes, int]:
    return codec_of(table.schema).encode((part,)), 0


def tickets(table: Table) -> list[str]:
    table.committer.settle()
    return [info.key for info in table.store.list("lakelatch/intents/")]


def test_a_bucket_that_another_compacts_is_left_to_it(quiet: pytest.LogCaptureFixture) -> None:
    table = crowded(writing(num_sorted_run__compaction_trigger="2", num_sorted_run__stop_trigger="2"))
    other = claimed(table, place_of(table, "a"))
    for number in range(4):
        crowded(table).upsert(batch("a", {1: number}))
        crowded(table).upsert(batch("b", {1: number}))
    assert len(levels(table, "a")) == 4, "more runs than the second option says, because another is at them"
    assert len(levels(table, "b")) < 4
    other.give_back()
    crowded(table).upsert(batch("a", {1: 4}))
    assert len(levels(table, "a")) == 1 and tickets(table) == [] and warnings(quiet) == []


def test_rows_that_another_shows_are_waited_for(
    monkeypatch: pytest.MonkeyPatch, quiet: pytest.LogCaptureFixture
) -> None:
    """The other one compacts all buckets that hide rows; this writer then finds nothing left to do."""
    table = crowded(writing(**VECTORS))
    other, waits = again(table), list[int]()
    claims = claimed(other, (b"", -1))

    def wait(self: Aftercare, times: int) -> None:
        waits.append(times)
        if len(waits) == 3:
            other.refresh()
            snapshot = other.snapshot()
            assert snapshot is not None and values(again(table)) == {}
            inline.compact_buckets(other.committer, other.timeline, snapshot, [place_of(table, "a")])
            claims.give_back()

    monkeypatch.setattr(Aftercare, "wait", wait)
    table.upsert(batch("a", {1: 1}))
    assert waits == [0, 1, 2]
    assert values(again(table)) == {("a", 1): 1} and kinds(table) == ["APPEND", "COMPACT"]
    assert tickets(table) == [] and warnings(quiet) == []


def test_who_shows_rows_shows_those_of_others_too(quiet: pytest.LogCaptureFixture) -> None:
    table = writing(**VECTORS)
    upsert(table, "b", {2: 2})
    upsert(table, "a", {3: 3})
    table.upsert(batch("a", {1: 1}))
    assert ("b", 2) not in values(again(table)), "alone, it shows what it has written"
    crowded(table).upsert(pa.concat_tables([batch("b", {5: 5}), batch("a", {6: 6})]))
    assert values(again(table)) == {("a", 1): 1, ("a", 3): 3, ("a", 6): 6, ("b", 2): 2, ("b", 5): 5}
    assert tickets(table) == [] and warnings(quiet) == []


def test_a_claim_of_a_dead_writer_hides_no_rows_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    table = crowded(writing(**VECTORS))
    claimed(table, (b"", -1))
    monkeypatch.setattr(Claims, "counts", lambda self, bucket: False)  # it is older than it may be
    table.upsert(batch("a", {1: 1}))
    assert values(again(table)) == {("a", 1): 1}


def test_a_writer_that_is_alone_claims_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    table = writing(**VECTORS)
    monkeypatch.setattr(Claims, "take", lambda self, buckets: pytest.fail("a request too many"))
    table.upsert(batch("a", {1: 1}))
    assert values(table) == {("a", 1): 1}


def test_a_compaction_beside_upserts_reads_what_their_snapshots_say_and_no_manifests() -> None:
    """A compaction that was planned before others added rows lands above them."""
    table, asked = created(), list[str]()
    for number in range(3):
        table.upsert(batch("a", {1: number}))
    planned = again(table)
    snapshot = planned.snapshot()
    assert snapshot is not None
    committer = Committer(
        MeteredStore(table.store, lambda request: asked.append(request.key)), TablePaths(), table.schema
    )

    def beside(rewriter: Any) -> Any:
        def rewrite(groups: Any) -> Any:
            made = inline.rewritten_here(rewriter)(groups)
            for number in range(3, 6):
                table.upsert(batch("a", {1: number}))
            asked.clear()
            return made

        return rewrite

    done = inline.compact_buckets(committer, planned.timeline, snapshot, [place_of(table, "a")], beside)
    assert done is None, "three runs are fewer than the option says"
    planned = again(table)
    for number in range(6, 8):
        table.upsert(batch("a", {1: number}))
    snapshot = planned.snapshot()
    assert snapshot is not None
    done = inline.compact_buckets(committer, planned.timeline, snapshot, [place_of(table, "a")], beside)
    assert done is not None and not done.given_up
    assert values(again(table)) == {("a", 1): 5} and kinds(again(table))[-1] == "COMPACT"
    read = [key for key in asked if key.startswith("manifest/manifest-") and "-list-" not in key]
    assert len(read) <= 1, "its own manifest is written"
