"""Undo: one commit is taken back, every other one stays; a later commit that builds on it is named."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pytest
from bent_store import Bent
from changes import delete_rows, index_of, publish, vector_file

import lakelatch as ll
from lakelatch.coordinator.commit.message import PendingUpload
from lakelatch.coordinator.maintenance.expiry.expire import apply_expiry, plan_expiry
from lakelatch.coordinator.maintenance.expiry.retention import Retention
from lakelatch.coordinator.maintenance.orphans import plan_orphans
from lakelatch.coordinator.maintenance.undo import UndoPlan
from lakelatch.core.errors import CommitConflict, InvalidArgument, OutcomeUnknown, TableCorrupt, Unsupported
from lakelatch.core.metadata.data_file import ADD, IndexEntry, IndexFile
from lakelatch.table.table import Table

COUNTER = itertools.count()
SCHEMA = pa.schema([("p", pa.string()), ("v", pa.int64())])
KEYED = pa.schema([pa.field("k", pa.int32(), nullable=False), ("v", pa.string())])
NEVER_MS = 2**62


def rows(part: str, *values: int) -> pa.Table:
    return pa.table({"p": [part] * len(values), "v": list(values)})


def made(**options: str) -> Table:
    """1: a=1; 2: a=1,2; 3: a=3; 4: a=3, b=4."""
    store = Bent(f"memory://undo-{next(COUNTER)}/t")
    found = ll.create_table(store.url, SCHEMA, partition_by=["p"], options={"commit.min-retry-wait": "1 ms", **options})
    table = Table(store, found.schema)
    table.append(rows("a", 1))
    table.append(rows("a", 2))
    table.overwrite(rows("a", 3), partition={"p": "a"})
    table.append(rows("b", 4))
    table.committer.settle()
    return table


@pytest.fixture
def table() -> Table:
    return made()


def bent(table: Table) -> Bent:
    assert isinstance(table.store, Bent)
    return table.store


def values(table: Table) -> list[int]:
    return sorted(table.to_arrow()["v"].to_pylist())


def tags(table: Table) -> list[str]:
    return [tag.name for tag in table.tags()]


def expire(table: Table, keep: int) -> None:
    newest = table.timeline.latest()
    assert newest is not None
    retention = Retention.of(table.schema.options, newest.time_ms + 10**9, retain_max=keep, retain_min=keep)
    apply_expiry(table.timeline, plan_expiry(table.timeline, table.schema, retention))


def assert_sound(table: Table) -> None:
    assert table.verify("all", data=True) == []
    assert plan_orphans(table.timeline, table.schema, NEVER_MS).files == ()


# ------------------------------------------------------------------------------------------------------- what it does


def test_an_append_is_taken_back(table: Table) -> None:
    """Nothing comes back, so nothing needs a tag."""
    receipt = table.undo(4)
    assert (receipt.snapshot_id, receipt.kind) == (5, "OVERWRITE")
    assert values(table) == [3]
    newest = table.snapshot()
    assert newest is not None
    assert (newest.total_record_count, newest.properties["undo.snapshot"]) == (1, "4")
    assert tags(table) == []
    assert_sound(table)


def test_an_overwrite_is_taken_back_under_a_later_append(table: Table) -> None:
    assert str(table.plan_undo(3)).startswith("without snapshot 3 (OVERWRITE by ")
    assert table.plan_undo(3).to_dict()["comes_back"]["rows"] == 2
    table.undo(3)
    assert values(table) == [1, 2, 4]
    assert [values(table.at(snapshot=n)) for n in (1, 2, 3, 4)] == [[1], [1, 2], [3], [3, 4]]
    assert len(tags(table)) == 2, "of the state that came back, and of the undo itself"
    assert_sound(table)
    table.append(rows("a", 9))
    expire(table, 1)
    assert values(table) == [1, 2, 4, 9]
    assert table.verify("all", data=True) == []


def test_an_undo_is_undone_and_undone_again(table: Table) -> None:
    for number, wanted in ((3, [1, 2, 4]), (5, [3, 4]), (6, [1, 2, 4])):
        table.undo(number)
        assert values(table) == wanted
    table.undo(4)
    assert values(table) == [1, 2]
    assert_sound(table)


def test_a_rollback_is_undone(table: Table) -> None:
    table.rollback(snapshot=1)
    table.append(rows("c", 7))
    table.undo(5)
    assert values(table) == [3, 4, 7]
    assert_sound(table)


def test_a_compaction_is_undone(table: Table) -> None:
    table.append(rows("b", 5))
    table.compact(full=True)
    assert table.snapshot().commit_kind == "COMPACT"  # type: ignore[union-attr]
    table.undo(6)
    assert values(table) == [3, 4, 5]
    table.undo(4)
    assert values(table) == [3, 5]
    assert_sound(table)


def test_the_first_commit_and_dropped_partitions() -> None:
    table = made()
    table.drop_partitions([{"p": "b"}])
    table.undo(5)
    assert values(table) == [3, 4]
    one = ll.create_table(f"memory://undo-{next(COUNTER)}/t", SCHEMA)
    one.append(rows("a", 1))
    one.undo(1)
    assert values(one) == []


def test_deleted_rows_are_live_again() -> None:
    """Deletion vectors: those of other files in the same index file stay."""
    table = made(**{"deletion-vectors.enabled": "true"})
    table.append(rows("b", 5, 6))
    files = {row["file_path"].rpartition("/")[2]: row["record_count"] for row in table.files().to_pylist()}
    two = next(name for name, count in files.items() if count == 2)
    delete_rows(table, {two: [0]})
    others = [row["file_path"] for row in table.files().to_pylist() if "p=b" in row["file_path"]]
    one = next(path.rpartition("/")[2] for path in others if not path.endswith(two))
    delete_rows(table, {one: [0]})
    assert values(table) == [3, 6]
    table.undo(6)
    assert values(table) == [3, 5, 6]
    assert table.verify("all", data=True) == []
    table.undo(7)
    assert values(table) == [3, 4, 5, 6]
    table.undo(9)
    assert values(table) == [3, 5, 6]
    assert_sound(table)


def test_by_identity_and_exactly_once(table: Table) -> None:
    """G3."""
    table.append(rows("c", 9), commit_user="etl", identifier=3)
    first = table.undo(("etl", 3), commit_user="ops", identifier=1)
    again = table.undo(("etl", 3), commit_user="ops", identifier=1)
    assert (again.replayed, again.snapshot_id) == (True, first.snapshot_id)
    assert values(table) == [3, 4]
    with pytest.raises(InvalidArgument, match="no commit 9 of 'etl'"):
        table.undo(("etl", 9))


# ---------------------------------------------------------------------------------------------------- what depends on it


def overwritten(table: Table) -> None:
    table.overwrite(rows("b", 8), partition={"p": "b"})


def compacted(table: Table) -> None:
    table.append(rows("b", 5))
    table.compact("p = 'b'", full=True)


def undone(table: Table) -> None:
    table.undo(4)


@pytest.mark.parametrize(
    ("later", "named"),
    [
        (overwritten, r"snapshot 5 \(OVERWRITE by '.*'\) deleted or rewrote files that it added"),
        (compacted, r"snapshot 6 \(COMPACT by '.*'\) deleted or rewrote files that it added"),
        (undone, r"snapshot 5 \(OVERWRITE by '.*'\) deleted or rewrote files that it added"),
    ],
)
def test_a_later_commit_that_builds_on_it_is_named(table: Table, later: Callable[[Table], None], named: str) -> None:
    later(table)
    before = {info.key for info in table.store.list("")}
    with pytest.raises(CommitConflict, match=f"snapshot 4 cannot be undone: {named}"):
        table.undo(4)
    assert {info.key for info in table.store.list("")} == before


def test_files_that_are_there_again_are_not_brought_back_twice(table: Table) -> None:
    table.rollback(snapshot=2)
    with pytest.raises(CommitConflict, match=r"snapshot 5 \(OVERWRITE by '.*'\)"):
        table.undo(3)


def test_rows_that_were_deleted_since_are_a_conflict() -> None:
    table = made(**{"deletion-vectors.enabled": "true"})
    table.append(rows("c", 5, 6))
    name = next(row["file_path"] for row in table.files().to_pylist() if "p=c" in row["file_path"])
    delete_rows(table, {name.rpartition("/")[2]: [0]})
    with pytest.raises(CommitConflict, match=r"snapshot 6 \(.*\) deleted rows of files that it changed"):
        table.undo(5)


def test_updated_columns_are_a_conflict() -> None:
    options = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
    table = ll.create_table(f"memory://undo-{next(COUNTER)}/t", SCHEMA, options=options)
    table.append(rows("a", 1))
    table.append(rows("a", 2))
    ids = table.to_arrow(columns=["_ROW_ID"], where="v = 2")
    table.update_columns(ids.append_column("v", pa.array([20])))
    with pytest.raises(CommitConflict, match=r"snapshot 3 \(.*\) updated rows that it added"):
        table.undo(2)
    table.undo(3)
    assert values(table) == [1, 2]
    table.undo(2)
    assert values(table) == [1]


def test_a_commit_that_lands_meanwhile(table: Table) -> None:
    """An append stays; what builds on the commit is a conflict, also at the last moment."""
    bent(table).before = [lambda: ll.open_table(table.url).append(rows("n", 7))]
    receipt = table.undo(3)
    assert (receipt.snapshot_id, receipt.attempts) == (6, 2)
    assert values(table) == [1, 2, 4, 7]
    bent(table).before = [lambda: overwritten(ll.open_table(table.url))]
    with pytest.raises(CommitConflict, match=r"snapshot 7 \(.*\) deleted or rewrote files"):
        table.undo(4)
    assert values(table) == [1, 2, 7, 8]
    assert len(tags(table)) == 2


def test_two_at_once_bring_nothing_back_twice(table: Table) -> None:
    bent(table).before = [lambda: ll.open_table(table.url).undo(3)]
    with pytest.raises(CommitConflict, match="snapshot 5"):
        table.undo(3)
    dropped = made()
    dropped.truncate()
    bent(dropped).before = [lambda: ll.open_table(dropped.url).undo(5)]
    with pytest.raises(CommitConflict, match=r"snapshot 6 \(.*\) brought back files that it deleted"):
        dropped.undo(5)
    assert values(dropped) == [3, 4]
    assert dropped.verify("all", data=True) == []


def test_an_unknown_outcome_keeps_the_tag(table: Table) -> None:
    """H5."""
    bent(table).silent = True
    with pytest.raises(OutcomeUnknown) as unknown:
        table.undo(3)
    assert len(tags(table)) == 1
    bent(table).silent = False
    assert unknown.value.resolve(timeout=5).snapshot_id == 5
    assert values(table) == [1, 2, 4]
    assert len(tags(table)) == 2


# ------------------------------------------------------------------------------------------------------------- refused


def test_what_cannot_be_undone(table: Table) -> None:
    for number in (0, 9):
        with pytest.raises(InvalidArgument, match="there is no snapshot"):
            table.undo(number)
    with pytest.raises(InvalidArgument, match="read only"):
        table.at(snapshot=2).undo(1)


def test_what_it_deleted_has_expired_unless_a_tag_keeps_it(table: Table) -> None:
    table.create_tag("kept", snapshot=2)
    expire(table, 2)
    table.undo(3)
    assert values(table) == [1, 2, 4]
    other = made()
    expire(other, 2)
    with pytest.raises(InvalidArgument, match="snapshot 2 has expired, which has what snapshot 3 deleted"):
        other.undo(3)
    other.undo(4)
    assert values(other) == [3], "an append needs nothing of what was before"


def test_deleted_rows_come_back_only_if_what_was_marked_before_is_known() -> None:
    """The commit deletes no file, but the snapshot before it has the rows that were marked earlier."""
    table = made(**{"deletion-vectors.enabled": "true"})
    name = next(row["file_path"].rpartition("/")[2] for row in table.files().to_pylist())
    delete_rows(table, {name: [0]})
    expire(table, 1)
    with pytest.raises(InvalidArgument, match="snapshot 4 has expired, which has what snapshot 5 deleted") as caught:
        table.undo(5)
    assert caught.value.next_step == "choose a later commit; a tag of that snapshot would have kept it"


def test_rows_marked_in_another_partition_stay_marked() -> None:
    table = made(**{"deletion-vectors.enabled": "true"})
    table.append(rows("c", 5, 6))
    names = {row["partition"]: row["file_path"].rpartition("/")[2] for row in table.files().to_pylist()}
    for name in names.values():
        delete_rows(table, {name: [0]})
    assert values(table) == [6]
    for number, wanted in ((6, 1), (7, 2), (8, 3)):
        table.undo(number)
        assert len(values(table)) == 1 + wanted
        assert table.verify("all", data=True) == []


def test_a_commit_without_files_has_nothing_to_undo(table: Table) -> None:
    publish(table, "OVERWRITE")
    with pytest.raises(InvalidArgument, match="snapshot 5 changed no file: there is nothing to undo"):
        table.undo(5)


def test_index_files_that_cannot_be_split_are_named_by_type(table: Table) -> None:
    partition = table.entries()[0].partition
    found = [other_index(partition, kind) for kind in ("HASH", "BITMAP")]
    found.append(vector_file(partition, 0, {table.entries()[0].file.file_name: [0]}))
    publish(table, "APPEND", [], [entry for entry, _ in found], [upload for _, upload in found])
    types = "BITMAP, DELETION_VECTORS, HASH"
    with pytest.raises(Unsupported, match=f"snapshot 5 changed index files of type {types}, which cannot be undone"):
        table.undo(5)


def other_index(partition: bytes, kind: str) -> tuple[IndexEntry, PendingUpload]:
    name = f"index-{kind}"
    return IndexEntry(ADD, partition, 0, IndexFile(kind, name, 4, 1)), PendingUpload(f"index/{name}", b"1234")


def test_index_files_that_an_undo_writes_itself_need_no_protection(table: Table) -> None:
    """They are not there yet, in whichever folder they will lie (option `index-file-in-data-file-dir`)."""
    before, commit = (table.timeline.snapshot(number) for number in (3, 4))
    entry, _ = vector_file(table.entries()[0].partition, 0, {table.entries()[0].file.file_name: [0]})
    plan = UndoPlan(commit, before, commit, (), (), index=(entry,))
    assert plan.restored is not None and plan.restored.index == (entry,)
    for folder in ("index", "p=a/bucket-0"):
        upload = PendingUpload(f"{folder}/{entry.file.file_name}", b"vectors")
        assert replace(plan, uploads=(upload,)).restored is None


def test_index_files_of_another_type_stay_as_they_are() -> None:
    table = made(**{"deletion-vectors.enabled": "true"})
    first, second = table.entries()
    entry, upload = other_index(second.partition, "HASH")
    publish(table, "APPEND", [], [entry], [upload])
    delete_rows(table, {first.file.file_name: [0]})
    table.undo(6)
    assert values(table) == [3, 4]
    assert index_of(table) == [entry]


def test_files_come_back_with_the_rows_that_were_marked_before() -> None:
    table = made(**{"deletion-vectors.enabled": "true"})
    table.append(rows("b", 5, 6))
    two = next(entry.file.file_name for entry in table.entries() if entry.file.row_count == 2)
    delete_rows(table, {two: [0]})
    overwritten(table)
    assert values(table) == [3, 8]
    table.undo(7)
    assert values(table) == [3, 4, 6]
    assert table.verify("all", data=True) == []


def test_rows_that_were_appended_since_do_not_hinder_files_from_coming_back(table: Table) -> None:
    """Without a primary key no row hides another."""
    table.append(rows("a", 9))
    table.undo(3)
    assert values(table) == [1, 2, 4, 9]


def test_files_that_are_gone_are_named(table: Table) -> None:
    gone = table.at(snapshot=2).files()["file_path"].to_pylist()[0]
    table.store.delete_many([gone])
    with pytest.raises(TableCorrupt, match=gone):
        table.undo(3)
    assert tags(table) == []


# ------------------------------------------------------------------------------------------------------- primary keys

KINDS = {
    "fixed buckets": {"bucket": "1"},
    "changelog": {"bucket": "1", "changelog-producer": "input"},
    "dynamic buckets": {"bucket": "-1", "dynamic-bucket.target-row-num": "3"},
}
HIDING = {
    "deletion vectors": {"deletion-vectors.enabled": "true"},
    "first row": {"merge-engine": "first-row"},
}
TELLING = {
    "lookup": {"changelog-producer": "lookup"},
    "full compaction": {"changelog-producer": "full-compaction", "full-compaction.delta-commits": "1"},
}


def keyed(v: str, *keys: int) -> pa.Table:
    return pa.table({"k": list(keys), "v": [v] * len(keys)}).cast(KEYED)


def held(table: Table) -> dict[int, str]:
    found = Table(table.store, table.timeline.latest_schema()).to_arrow()
    return dict(zip(found["k"].to_pylist(), found["v"].to_pylist(), strict=True))


@pytest.mark.parametrize("options", KINDS.values(), ids=KINDS)
def test_upserts_overwrites_and_compactions_by_key(options: dict[str, str]) -> None:
    """Step by step from the end, each commit is taken back, and each state is the one before it."""
    url = f"memory://undo-{next(COUNTER)}/t"
    table = ll.create_table(url, KEYED, primary_key=["k"], options={"commit.min-retry-wait": "1 ms", **options})
    table.append(keyed("a", 1, 2, 3, 4, 5))
    table.upsert(keyed("b", 2, 6))
    table.delete(pa.table({"k": pa.array([1], pa.int32())}))
    table.compact(full=True)
    table.overwrite(keyed("o", 1, 9), partition={})
    table.upsert(keyed("c", 3, 7, 8))
    ids = table.timeline.snapshot_ids()
    states = {n: _at(table, n) for n in ids}
    for number in reversed(ids):
        table.undo(number)
        assert held(table) == states.get(number - 1, {}), number
        assert Table(table.store, table.timeline.latest_schema()).verify(data=True) == []
    table.upsert(keyed("z", 1, 2, 3, 6))
    assert held(table) == {1: "z", 2: "z", 3: "z", 6: "z"}


def _at(table: Table, snapshot: int) -> dict[int, str]:
    found = table.at(snapshot=snapshot).to_arrow()
    return dict(zip(found["k"].to_pylist(), found["v"].to_pylist(), strict=True))


def test_an_upsert_below_a_newer_one_is_taken_back() -> None:
    url = f"memory://undo-{next(COUNTER)}/t"
    table = ll.create_table(url, KEYED, primary_key=["k"], options={"bucket": "1", "write-only": "true"})
    for v, keys in (("a", (1, 2)), ("b", (1, 2, 3)), ("c", (1,))):
        table.upsert(keyed(v, *keys))
    table.undo(2)
    assert held(table) == {1: "c", 2: "a"}


def test_older_keys_do_not_come_back_below_newer_ones() -> None:
    """Their sequence numbers may be larger than those of rows that came later."""
    url = f"memory://undo-{next(COUNTER)}/t"
    table = ll.create_table(url, KEYED, primary_key=["k"], options={"bucket": "1", "write-only": "true"})
    table.upsert(keyed("a", 1, 2))
    table.overwrite(keyed("o", 1), partition={})
    table.upsert(keyed("c", 2))
    with pytest.raises(CommitConflict, match=r"snapshot 3 \(APPEND by '.*'\) added files where files come back"):
        table.undo(2)
    table.undo(3)
    table.undo(2)
    assert held(table) == {1: "a", 2: "a"}


def visible(table: Table) -> dict[int, str]:
    return held(ll.open_table(table.url))


@pytest.mark.parametrize("options", [*HIDING.values(), *TELLING.values()], ids=[*HIDING, *TELLING])
def test_a_compaction_that_shows_rows_or_tells_of_them_is_not_undone(options: dict[str, str]) -> None:
    """Readers do not see level 0, to which its files would go back; or would be told of the same changes again."""
    url = f"memory://undo-{next(COUNTER)}/t"
    table = ll.create_table(url, KEYED, primary_key=["k"], options={"bucket": "1", **options})
    table.upsert(keyed("a", 1, 2))
    table.upsert(keyed("b", 3))
    shown = visible(table)
    newest = table.snapshots()[-1]
    assert newest.commit_kind == "COMPACT" and shown == {1: "a", 2: "a", 3: "b"}
    with pytest.raises(InvalidArgument, match=f"snapshot {newest.id} is a compaction") as refused:
        table.undo(newest.id)
    assert "roll the table back" in refused.value.next_step
    assert visible(table) == shown and len(table.snapshots()) == newest.id


@pytest.mark.parametrize("options", HIDING.values(), ids=HIDING)
def test_files_that_come_back_to_level_0_are_compacted_at_once(options: dict[str, str]) -> None:
    """As after an upsert: readers of these tables do not see level 0."""
    url = f"memory://undo-{next(COUNTER)}/t"
    table = ll.create_table(url, KEYED, primary_key=["k"], options={"bucket": "1", **options})
    states = {}
    for v, key in (("a", 1), ("b", 2)):
        table.upsert(keyed(v, key))
        states[table.snapshots()[-2].id] = visible(table)  # the APPEND before the compaction
    assert list(states) == [1, 3] and [s.commit_kind for s in table.snapshots()] == ["APPEND", "COMPACT"] * 2
    for number, state in states.items():
        table.rollback(snapshot=number)
        assert visible(table) == state
    hidden = ll.create_table(
        f"memory://undo-{next(COUNTER)}/t", KEYED, primary_key=["k"], options={"bucket": "1", **options}
    )
    apart = ll.open_table(hidden.url)
    apart.alter(ll.set_option("write-only", "true"))
    ll.open_table(hidden.url).upsert(keyed("a", 1))
    ll.open_table(hidden.url).overwrite(keyed("o", 9), partition={})
    ll.open_table(hidden.url).alter(ll.set_option("write-only", "false"))
    ll.open_table(hidden.url).undo(2)
    assert visible(hidden) == {1: "a"}
    assert ll.open_table(hidden.url).verify("all", data=True) == []


# -------------------------------------------------------------------------------------------- below later overwrites


def partitions(table: Table) -> dict[str, int]:
    return dict(sorted(zip(table.to_arrow()["p"].to_pylist(), table.to_arrow()["v"].to_pylist(), strict=True)))


LATER: dict[str, Callable[[Table], object]] = {
    "an overwrite": lambda t: t.overwrite(rows("b", 9), partition={"p": "b"}),
    "a dynamic overwrite": lambda t: t.overwrite(rows("b", 9), dynamic=True),
    "an overwrite of everything": lambda t: t.overwrite(rows("a", 9), partition={}),
    "a truncation": lambda t: t.truncate(),
    "another drop that finds nothing": lambda t: t.drop_partitions([{"p": "b"}]),
    "another drop that finds something elsewhere": lambda t: t.drop_partitions([{"p": "b"}, {"p": "a"}]),
    "an append, and a drop of it": lambda t: (t.append(rows("b", 8)), t.drop_partitions([{"p": "b"}])),
    "an overwrite without rows": lambda t: t.overwrite(rows("b"), partition={"p": "b"}),
}


@pytest.mark.parametrize("later", LATER.values(), ids=LATER)
def test_a_drop_below_a_later_overwrite_of_its_partition_is_not_undone(
    table: Table, later: Callable[[Table], object]
) -> None:
    """Decision 85: the later commit meant all rows of the partition, so that it would have replaced those that come back."""
    table.drop_partitions([{"p": "b"}])
    later(table)
    before = partitions(table)
    newest = table.snapshots()[-1].id
    with pytest.raises(CommitConflict, match=rf"snapshot 5 cannot be undone: snapshot {newest} \("):
        table.undo(5)
    assert partitions(table) == before
    if before.get("b") != 8:
        for number in range(newest, 4, -1):
            table.undo(number)
        assert partitions(table) == {"a": 3, "b": 4}, "one after another from the end"


def test_overwrites_of_other_partitions_do_not_hinder_an_undo(table: Table) -> None:
    table.drop_partitions([{"p": "b"}])
    table.overwrite(rows("a", 9), partition={"p": "a"})
    table.drop_partitions([{"p": "c"}])
    table.append(rows("b", 5))
    table.undo(5)
    assert sorted(table.to_arrow()["v"].to_pylist()) == [4, 5, 9]


def test_an_undo_that_meets_an_overwrite_at_the_last_moment(table: Table) -> None:
    table.drop_partitions([{"p": "b"}])
    bent(table).before = [lambda: overwritten(ll.open_table(table.url))]
    with pytest.raises(CommitConflict, match=r"snapshot 6 \(OVERWRITE by .*\) replaced"):
        table.undo(5)
    assert partitions(table) == {"a": 3, "b": 8}
    assert tags(table) == []
