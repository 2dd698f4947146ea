"""What a commit to a table with a primary key reads for its checks, and what becomes of rows that are numbered again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from keyed import FIELDS, NO_PARTITION, Keyed, merged, run_of

from lakelatch.backends.memory import MemoryStore
from lakelatch.coordinator.commit.checks.conflicts import Conflict, Followed
from lakelatch.coordinator.commit.checks.key_order import KeyOrder, restored_over_what_stays
from lakelatch.coordinator.commit.checks.key_rules import KeyRules
from lakelatch.coordinator.commit.message import PendingUpload
from lakelatch.coordinator.commit.request import CommitRequest, KeyedRows, Renumbered, Restoration
from lakelatch.coordinator.history.base import Base
from lakelatch.coordinator.history.timeline import Timeline
from lakelatch.core.errors import CommitConflict
from lakelatch.core.metadata.change import Change, Landed
from lakelatch.core.metadata.data_file import ManifestEntry
from lakelatch.core.metadata.schema import TableSchema, new_schema
from lakelatch.core.metadata.snapshot import Snapshot
from lakelatch.core.paths import TablePaths
from lakelatch.core.rows.arrow import from_arrow_schema

ZERO = (NO_PARTITION, 0)
GONE = Conflict("history_is_visible", "snapshots are gone")


def snapshot(number: int) -> Snapshot:
    return Snapshot(number, 0, f"base-{number}", f"delta-{number}", "job", 7, "APPEND", 0, 1, 1)


def base(number: int) -> Base:
    return Base(snapshot(number), (), 0, 0.0)


def schema_of(options: dict[str, str] | None = None) -> TableSchema:
    return new_schema(from_arrow_schema(FIELDS), primary_keys=["k"], options={"bucket": "2", **(options or {})})


PLAIN = schema_of()
STRICT = schema_of({"merge-engine": "aggregation"})
BY_COLUMN = schema_of({"sequence.field": "v"})
BY_SNAPSHOT = schema_of({"sequence.snapshot-ordering": "true", "write-only": "true"})
CLUSTERED = schema_of({"pk-clustering-override": "true"})
WITHOUT_KEY = new_schema(from_arrow_schema(FIELDS))


class Changes:
    """What others changed since a snapshot, given by hand; what was asked for is remembered."""

    def __init__(self, found: Any = None) -> None:
        self.found = found
        self.asked: list[tuple[int, int]] = []

    def since(self, read: Snapshot | None, last: Snapshot | None, passes: Any = None) -> Any:
        self.asked.append((read.id if read else 0, last.id if last else 0))
        return self.found


def rules(request: CommitRequest, changes: Any = None, schema: TableSchema | None = None) -> KeyRules:
    since: Any = changes if changes is not None else Changes([])
    timeline = Timeline(MemoryStore("memory://key-rules/t"), TablePaths())
    return KeyRules(request, schema or PLAIN, timeline, since)


def landed(*entries: ManifestEntry) -> Landed:
    return Landed(2, "APPEND", "another-job", Change(entries, (), 0))


OLD = run_of("old", (1, 200))
COMPACTED = (OLD.deletion(), merged("big", OLD))
COMPACTION = CommitRequest("COMPACT", COMPACTED, "compactor", read_snapshot=snapshot(1))
LATE = landed(run_of("late", (100, 110)), run_of("theirs", (1, 2), level=5))


# ------------------------------------------------------------------------------------------------------ what is read


def test_older_rows_are_looked_for_where_something_came_since() -> None:
    changes = Changes([LATE])
    found = rules(COMPACTION, changes, STRICT).older_rows(COMPACTED, base(2))
    assert found is not None and found.check == "older_rows_appended"
    assert changes.asked == [(1, 2)]


@pytest.mark.parametrize(
    ("entries", "newest", "schema"),
    [(COMPACTED, 1, STRICT), (COMPACTED[1:], 2, STRICT), (COMPACTED, 2, BY_COLUMN), (COMPACTED, 2, BY_SNAPSHOT)],
    ids=["nothing came", "nothing is deleted", "ordered by a column", "ordered by snapshots"],
)
def test_nothing_is_read_where_no_row_can_be_older(entries: Any, newest: int, schema: TableSchema) -> None:
    changes = Changes([LATE])
    assert rules(COMPACTION, changes, schema).older_rows(entries, base(newest)) is None
    assert changes.asked == []


def test_older_rows_of_a_history_that_is_gone_are_not_judged() -> None:
    """Another check has found by then that the files are still live."""
    assert rules(COMPACTION, Changes(GONE), STRICT).older_rows(COMPACTED, base(2)) is None


def test_levels_are_compared_with_what_came_since() -> None:
    changes = Changes([LATE])
    found = rules(COMPACTION, changes).runs_overlap(COMPACTED, base(2))
    assert found is not None and found.files == ("data-big.parquet", "data-theirs.parquet")
    assert changes.asked == [(1, 2)]


@pytest.mark.parametrize(
    ("entries", "newest", "schema"),
    [(COMPACTED, 1, PLAIN), ((OLD,), 2, PLAIN), (COMPACTED, 2, WITHOUT_KEY), (COMPACTED, 2, CLUSTERED)],
    ids=["nothing came", "level 0 only", "no primary key", "clustered by other columns"],
)
def test_nothing_is_read_where_no_level_can_be_spoilt(entries: Any, newest: int, schema: TableSchema) -> None:
    changes = Changes([LATE])
    assert rules(COMPACTION, changes, schema).runs_overlap(entries, base(newest)) is None
    assert changes.asked == []


def test_the_numbers_of_partitions_are_needed_only_where_rows_are_ordered_by_them() -> None:
    entries = (run_of("new", (1, 2)), run_of("postponed", (1, 2), bucket=-2)._replace(partition=b"another"))
    assert rules(COMPACTION).numbered_partitions(entries) == {NO_PARTITION}
    assert rules(COMPACTION, schema=BY_COLUMN).numbered_partitions(entries) == {NO_PARTITION}, "ties are"
    assert rules(COMPACTION, schema=BY_SNAPSHOT).numbered_partitions(entries) == set()
    replaces = replace(COMPACTION, target=lambda partition: True)
    assert rules(replaces, schema=BY_SNAPSHOT).numbered_partitions(entries) == {NO_PARTITION}, "beside what stays"


def test_a_compaction_keeps_numbers_even_if_its_writer_does_not_say_what_it_is() -> None:
    """Older writers leave out where a file comes from."""
    made = run_of("big", (1, 2), level=5)
    entries = (made._replace(file=made.file._replace(file_source=None)),)
    assert rules(COMPACTION, schema=BY_SNAPSHOT).stamped(entries, 9) == entries
    append = replace(COMPACTION, kind="APPEND")
    (stamped,) = rules(append, schema=BY_SNAPSHOT).stamped(entries, 9)
    assert (stamped.file.min_sequence_number, stamped.file.max_sequence_number) == (9, 9)
    assert rules(append).stamped(entries, 9) == entries, "other tables keep the numbers of their rows"


def test_levels_are_compared_with_the_whole_table_where_the_history_is_gone() -> None:
    world = Keyed()
    theirs = run_of("theirs", (1, 2))
    world.upsert(theirs)
    world.compact([theirs], [merged("level-5", theirs)], world.read())
    latest = world.read()
    assert latest is not None
    newest = Base(latest, tuple(world.timeline.manifests(latest)), 0, 0.0)
    since: Any = Changes(GONE)
    found = KeyRules(COMPACTION, PLAIN, world.timeline, since).runs_overlap(COMPACTED, newest)
    assert found is not None and set(found.files) == {"data-big.parquet", "data-level-5.parquet"}


# ------------------------------------------------------------------------------------------------ rows that come back

NEWER = run_of("newer", (100, 110))
RESTORES = Restoration(
    "OVERWRITE", (OLD,), "restorer", target=lambda partition: True, read_snapshot=snapshot(1)
)  # fmt: skip
UNDOES = replace(RESTORES, target=None)
STAYS = Followed({}, {NEWER.identity: NEWER})


def test_a_rollback_gives_way_to_rows_that_its_own_would_hide() -> None:
    """Restored rows keep their numbers, and somebody else's have smaller ones."""
    found = rules(RESTORES).restored((OLD,), STAYS, base(2))
    assert found is not None
    assert (found.check, found.files) == ("newer_rows_stay", ("data-newer.parquet",))
    assert rules(RESTORES).restored((OLD,), Followed({}), base(2)) is None


def test_a_rollback_gives_way_to_rows_that_came_back_below_those_that_it_removes() -> None:
    removes = (run_of("removed", (1, 200)).deletion(), OLD)
    found = rules(RESTORES, Changes([LATE])).restored(removes, Followed({}), base(2))
    assert found is not None and found.check == "older_rows_appended"


@pytest.mark.parametrize(
    ("made", "schema"), [(UNDOES, PLAIN), (RESTORES, WITHOUT_KEY)], ids=["an undo leaves them", "no primary key"]
)
def test_other_rows_matter_only_to_a_rollback_of_a_table_with_a_key(made: CommitRequest, schema: TableSchema) -> None:
    changes = Changes([LATE])
    removes = (run_of("removed", (1, 200)).deletion(), OLD)
    assert rules(made, changes, schema).restored(removes, STAYS, base(2)) is None
    assert changes.asked == []


@pytest.mark.parametrize(
    ("newer", "stays"),
    [
        (run_of("newer", (200, 205)), False),
        (run_of("newer", (201, 205)), True),
        (run_of("newer", (0, 300)), False),
        (run_of("newer", (0, 2), bucket=1), True),
    ],
    ids=["the same number", "above", "around", "another bucket"],
)
def test_rows_stay_beside_restored_ones_if_all_their_numbers_are_larger(newer: ManifestEntry, stays: bool) -> None:
    files = Followed({}, {newer.identity: newer})
    found = restored_over_what_stays((OLD, run_of("older", (1, 20))), files, KeyOrder(by_number=True))
    assert (found is None) is stays


@pytest.mark.parametrize(
    ("deletes", "left", "bucket", "final", "stays"),
    [(1, 0, 0, False, False), (1, 1, 0, False, True), (0, 0, 0, True, False), (1, 0, 1, True, True)],
    ids=["a delete was dropped", "it was kept", "merged rows are final", "another bucket"],
)
def test_rows_that_were_merged_without_the_restored_ones(
    deletes: int, left: int, bucket: int, final: bool, stays: bool
) -> None:
    """What a dropped delete hid would come back, and rows that were merged once count as a whole."""
    inputs = [
        run_of(name, numbers, bucket=bucket, deletes=deletes)
        for name, numbers in (("a", (300, 301)), ("b", (302, 303)))
    ]
    output = merged("big", *inputs, deletes=2 * left)
    change = Landed(2, "COMPACT", "compactor", Change((*(e.deletion() for e in inputs), output), (), 0))
    files = Followed({}, {output.identity: output}, list(change.groups(lambda partition: True)))
    found = restored_over_what_stays((OLD,), files, KeyOrder(by_number=True, merged_is_final=final))
    assert (found is None) is stays
    if found is not None:
        assert found.files == ("data-big.parquet",)
        assert "merged without the restored ones" in found.reason


def test_a_merge_that_left_nothing_is_told_by_what_it_took() -> None:
    gone = run_of("gone", (300, 301), deletes=10)
    change = Landed(2, "COMPACT", "compactor", Change((gone.deletion(),), (), 0))
    files = Followed({}, {}, list(change.groups(lambda partition: True)))
    found = restored_over_what_stays((OLD,), files, KeyOrder(by_number=True))
    assert found is not None and found.files == ("data-gone.parquet",)


# --------------------------------------------------------------------------------------------------- numbered again


def renumber(asked: list[int]) -> Any:
    def again(entries: Sequence[ManifestEntry], above: int, by_clock: bool) -> Renumbered:
        asked.append(above)
        made = tuple(
            e._replace(
                file=e.file._replace(
                    file_name=f"again-{len(asked)}.parquet",
                    min_sequence_number=above + 1,
                    max_sequence_number=above + 9,
                )
            )
            for e in entries
        )
        return Renumbered(made, tuple(PendingUpload(f"bucket-0/{e.file.file_name}", b"again") for e in made))

    return again


def names(entries: Any) -> set[str]:
    return {e.file.file_name for e in entries}


def test_rows_that_are_numbered_again_take_the_place_of_the_old_ones_in_the_request() -> None:
    """All else stays in it, and the next attempt looks only at what came later."""
    new, asked = run_of("new", (100, 110)), list[int]()
    uploads = (PendingUpload("bucket-0/data-new.parquet", b"rows"), PendingUpload("index/index-1", b"index"))
    request = CommitRequest(
        "APPEND", (*COMPACTED, new), "job", uploads=uploads, read_snapshot=snapshot(1), keyed=KeyedRows(renumber=renumber(asked))
    )  # fmt: skip
    elsewhere = run_of("elsewhere", (500, 900))._replace(partition=b"another partition")
    changes = Changes([landed(run_of("theirs", (105, 120))), landed(elsewhere), landed(*COMPACTED)])
    made = rules(request, changes)
    entries = made.in_order(request.entries, base(2), {ZERO: 120})
    assert asked == [900], "above everything that landed since, in whichever partition"
    wanted = {"data-old.parquet", "data-big.parquet", "again-1.parquet"}
    assert not isinstance(entries, Conflict)
    assert names(entries) == names(made.request.entries) == wanted
    assert len(entries) == len(made.request.entries) == 3
    assert {u.key: u.data for u in made.request.uploads} == {
        "index/index-1": b"index",
        "bucket-0/again-1.parquet": b"again",
    }
    assert made.superseded == ["bucket-0/data-new.parquet"]
    assert [(f.key, f.data) for f in made.new_data] == [("bucket-0/again-1.parquet", b"again")]

    changes.found = [landed(run_of("third", (905, 905)))]
    again = made.in_order(made.request.entries, base(3), {ZERO: 905})
    assert changes.asked == [(1, 2), (2, 3)]
    assert asked == [900, 905]
    assert not isinstance(again, Conflict) and "again-2.parquet" in names(again)
    assert made.superseded == ["bucket-0/data-new.parquet", "bucket-0/again-1.parquet"]


def test_the_largest_number_counts_where_nothing_that_landed_since_has_a_larger_one() -> None:
    new, asked = run_of("new", (100, 110)), list[int]()
    request = CommitRequest(
        "APPEND", (new,), "job", read_snapshot=snapshot(1), keyed=KeyedRows(renumber=renumber(asked))
    )
    rules(request, Changes([landed(run_of("theirs", (105, 120)))])).in_order((new,), base(2), {ZERO: 700})
    assert asked == [700]


@pytest.mark.parametrize("can_renumber", [True, False])
def test_rows_are_numbered_again_where_the_history_is_gone(can_renumber: bool) -> None:
    """Nobody can tell any more what came since. Without a way to number them again, that is the conflict."""
    world = Keyed()
    world.upsert(run_of("base", (1, 10)))
    read = world.read()
    world.upsert(run_of("theirs", (200, 210)))
    world.upsert(run_of("more", (211, 220)))
    world.store.delete_many(["snapshot/snapshot-1", "snapshot/snapshot-2"])
    if can_renumber:
        world.upsert(run_of("ours", (100, 110)), read=read)
        assert world.asked == [220] and world.files()["ours'"].min_sequence_number > 220
    else:
        with pytest.raises(CommitConflict, match="history_is_visible"):
            world.upsert(run_of("ours", (100, 110)), read=read, renumber=None)


def test_numbers_above_all_others_are_kept_and_nothing_is_read_for_them() -> None:
    new, changes = run_of("new", (100, 110)), Changes([])
    request = CommitRequest("APPEND", (new,), "job", read_snapshot=snapshot(1))
    assert rules(request, changes).in_order((new,), base(2), {ZERO: 99}) == (new,)
    assert changes.asked == []


OVERWRITE = CommitRequest("OVERWRITE", (OLD,), "job", target=lambda partition: True, read_snapshot=snapshot(1))


@pytest.mark.parametrize(
    ("entries", "newest"), [((OLD,), 1), ((OLD.deletion(),), 2)], ids=["nothing came", "it adds no rows"]
)
def test_an_overwrite_reads_nothing_where_its_rows_are_newer_than_none(entries: Any, newest: int) -> None:
    changes = Changes(GONE)
    assert rules(OVERWRITE, changes).in_order(entries, base(newest), {}) == entries
    assert changes.asked == []


def test_an_overwrite_gives_way_where_it_cannot_be_told_what_stays() -> None:
    assert rules(OVERWRITE, Changes(GONE)).in_order((OLD,), base(2), {}) is GONE


def test_a_column_that_orders_rows_makes_their_numbers_irrelevant() -> None:
    """Its compactions mind no older rows either."""
    world = Keyed({"sequence.field": "v", "merge-engine": "partial-update"})
    base_, theirs = run_of("base", (1, 10)), run_of("theirs", (200, 210), deletes=1)
    world.upsert(base_)
    world.upsert(theirs)
    world.meanwhile(lambda: world.upsert(run_of("late", (100, 110)), renumber=None))
    world.compact([base_, theirs], [merged("big", base_, theirs)], world.read())
    assert set(world.files()) == {"big", "late"} and world.asked == []
