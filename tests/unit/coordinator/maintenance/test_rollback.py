"""Rollback as a forward commit: the earlier state becomes the newest, whatever came in between, and nothing is removed (H6)."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from bent_store import Bent
from damage import deletes_what_never_was, flights_table
from planted import Planted

import lakelatch as ll
from lakelatch.backends.store import PutOutcome, Unknown
from lakelatch.coordinator.maintenance.expiry.expire import apply_expiry, plan_expiry
from lakelatch.coordinator.maintenance.expiry.retention import Retention
from lakelatch.core.errors import (
    CommitConflict,
    InvalidArgument,
    OutcomeUnknown,
    StoreUnavailable,
    TableCorrupt,
    Unsupported,
)
from lakelatch.table.table import Table

COUNTER = itertools.count()
SCHEMA = pa.schema([("p", pa.string()), ("v", pa.int64())])


def rows(part: str, *values: int) -> pa.Table:
    return pa.table({"p": [part] * len(values), "v": list(values)})


@pytest.fixture
def table() -> Table:
    """1: a=1; 2: a=1,2; 3: a=3; 4: a=3, b=4."""
    store = Bent(f"memory://rollback-{next(COUNTER)}/t")
    made = ll.create_table(store.url, SCHEMA, partition_by=["p"], options={"manifest.merge-min-count": "3"})
    made = Table(store, made.schema)
    made.append(rows("a", 1))
    made.append(rows("a", 2))
    made.overwrite(rows("a", 3), partition={"p": "a"})
    made.append(rows("b", 4))
    made.committer.settle()
    return made


def values(table: Table) -> list[int]:
    return sorted(table.to_arrow()["v"].to_pylist())


def tags(table: Table) -> list[str]:
    return [info.key for info in table.store.list("tag/")]


@pytest.mark.parametrize(("target", "wanted"), [(1, [1]), (2, [1, 2]), (3, [3])])
def test_an_earlier_state_is_the_newest(table: Table, target: int, wanted: list[int]) -> None:
    receipt = table.rollback(snapshot=target)
    assert (receipt.snapshot_id, receipt.kind) == (5, "OVERWRITE")
    assert values(table) == wanted
    assert [s.id for s in table.snapshots()] == [1, 2, 3, 4, 5]
    assert values(table.at(snapshot=4)) == [3, 4]
    newest = table.snapshot()
    assert newest is not None
    assert newest.total_record_count == len(wanted)
    assert newest.properties["rollback.snapshot"] == str(target)
    named = newest.properties["rollback.tag"]
    assert tags(table) == [f"tag/tag-{named}", f"tag/tag-rollback-5-{named[-8:]}"]
    table.append(rows("z", 9))
    assert values(table) == [*wanted, 9]
    assert table.verify("all", data=True) == []


def test_rolling_back_and_forth(table: Table) -> None:
    """A file may be deleted and restored again and again: each state reads right, each base is folded (format/manifests §4)."""
    for target in (1, 3, 2, 4, 2, 1):
        wanted = values(table.at(snapshot=target))
        table.rollback(snapshot=target)
        assert values(table) == wanted
    assert table.verify("all") == []


def test_by_tag_and_by_time(table: Table) -> None:
    second = table.at(snapshot=2).snapshot()
    assert second is not None
    table.store.put("tag/tag-eod", table.store.get("snapshot/snapshot-2"))
    table.store.delete_many(["snapshot/snapshot-1", "snapshot/snapshot-2"])
    table.rollback(tag="eod")
    assert values(table) == [1, 2]
    third = table.at(snapshot=3).snapshot()
    assert third is not None
    with pytest.raises(InvalidArgument, match="the earliest is snapshot 3"):
        table.rollback(timestamp=third.time_ms - 10_000)
    table.rollback(timestamp=third.time_ms)
    assert values(table) in ([3], [3, 4]), "the newest of that millisecond"


def test_a_plan_changes_nothing(table: Table) -> None:
    before = {info.key for info in table.store.list("")}
    plan = table.plan_rollback(snapshot=2)
    assert str(plan) == "back to snapshot 2, as snapshot 5: 2 files with 2 rows come back, 2 with 2 go"
    assert plan.to_dict()["comes_back"]["rows"] == 2
    assert {info.key for info in table.store.list("")} == before


def test_exactly_once(table: Table) -> None:
    """G3."""
    first = table.rollback(snapshot=1, commit_user="ops", identifier=7)
    again = table.rollback(snapshot=1, commit_user="ops", identifier=7)
    assert (again.replayed, again.snapshot_id) == (True, first.snapshot_id)
    assert len(tags(table)) == 2


# ------------------------------------------------------------------------------------------------------------- others


def bent(table: Table) -> Bent:
    assert isinstance(table.store, Bent)
    return table.store


def test_rows_that_are_appended_meanwhile_stay(table: Table) -> None:
    """Isolation of an overwrite: the append stays, as if it had come after."""
    bent(table).before = [lambda: ll.open_table(table.url).append(rows("n", 7))]
    receipt = table.rollback(snapshot=1)
    assert (receipt.snapshot_id, receipt.attempts) == (6, 2)
    assert values(table) == [1, 7]
    assert table.verify("all") == []


def test_serializable_makes_a_concurrent_append_a_conflict(table: Table) -> None:
    bent(table).before = [lambda: ll.open_table(table.url).append(rows("n", 7))]
    with pytest.raises(CommitConflict, match="added rows"):
        table.rollback(snapshot=1, isolation="serializable")
    assert values(table) == [3, 4, 7]
    assert tags(table) == []


def test_another_overwrite_is_a_conflict(table: Table) -> None:
    """The first committer wins; the tag of the loser is removed."""
    bent(table).before = [lambda: ll.open_table(table.url).truncate()]
    with pytest.raises(CommitConflict, match="changed the same partitions"):
        table.rollback(snapshot=1)
    assert values(table) == []
    assert tags(table) == []


def test_an_unknown_outcome_keeps_the_tag(table: Table) -> None:
    """H5: it may have landed, and then its files need the tag; `resolve()` finds out."""
    bent(table).silent = True
    with pytest.raises(OutcomeUnknown) as unknown:
        table.rollback(snapshot=1)
    assert len(tags(table)) == 1
    bent(table).silent = False
    assert unknown.value.resolve(timeout=5).snapshot_id == 5
    assert values(table) == [1]


# ------------------------------------------------------------------------------------------------------------ refused


def test_a_state_whose_files_are_gone_is_refused(table: Table) -> None:
    """The files are named, and nothing is changed."""
    gone = table.at(snapshot=2).files()["file_path"].to_pylist()[0]
    table.store.delete_many([gone])
    before = {info.key for info in table.store.list("")}
    with pytest.raises(TableCorrupt, match=gone):
        table.rollback(snapshot=2)
    assert {info.key for info in table.store.list("")} == before


def test_files_outside_the_folder_come_back(tmp_path: Path) -> None:
    """They are not listed with the table's own, and their absence from that listing does not mean that they are gone."""
    options = {
        "data-file.external-paths": f"file://{tmp_path / 'out'}",
        "data-file.external-paths.strategy": "round-robin",
    }
    made = ll.create_table(str(tmp_path / "t"), SCHEMA, options=options)
    made.append(rows("a", 1))
    made.truncate()
    made.rollback(snapshot=1)
    assert values(made) == [1]


def test_which_states_cannot_be_restored(table: Table) -> None:
    with pytest.raises(InvalidArgument, match="nothing to roll back"):
        table.rollback(snapshot=4)
    with pytest.raises(InvalidArgument, match="there is no snapshot 9"):
        table.rollback(snapshot=9)
    with pytest.raises(InvalidArgument, match="exactly one of"):
        table.rollback()
    with pytest.raises(InvalidArgument, match="read only"):
        table.at(snapshot=2).rollback(snapshot=1)


def test_tables_that_cannot_be_written_are_refused(tmp_path: Path) -> None:
    """Here because some columns are stored as references, by an option that another writer set."""
    made = ll.create_table(str(tmp_path / "t"), SCHEMA)
    made.append(rows("a", 1))
    changed = replace(made.schema, id=1, option_texts={"blob-descriptor-field": "v"})
    made.store.put("schema/schema-1", changed.to_json())
    with pytest.raises(Unsupported, match="blob-descriptor-field"):
        ll.open_table(made.url).rollback(snapshot=1)


# ------------------------------------------------------------------------------------------------------------- expiry


def test_expiry_keeps_restored_files(table: Table) -> None:
    """G7: the DELETE of a file that is live again expires; the file stays, with the tag and without it."""
    table.rollback(snapshot=2)
    table.append(rows("z", 9))
    table.committer.settle()
    table.store.delete_many(tags(table))
    newest = table.snapshot()
    assert newest is not None
    retention = Retention.of(table.schema.options, newest.time_ms + 10**9, retain_max=1)
    apply_expiry(table.timeline, plan_expiry(table.timeline, table.schema, retention))
    assert [s.id for s in table.snapshots()] == [6]
    assert values(table) == [1, 2, 9]
    assert table.verify("all", data=True) == []


def test_a_state_that_cannot_be_read_is_left_for_an_earlier_one(tmp_path: Path) -> None:
    """A manifest of the newest snapshot deletes a file that nobody added: a rollback is the way back."""
    table = flights_table(str(tmp_path / "t"))
    deletes_what_never_was(Planted(table))
    broken = ll.open_table(table.url)
    with pytest.raises(TableCorrupt, match="data-ghost-0"):
        broken.to_arrow()
    assert broken.rollback(snapshot=2).snapshot_id == 4
    again = ll.open_table(table.url)
    assert again.to_arrow().num_rows == 5
    again.append(again.to_arrow())
    assert again.to_arrow().num_rows == 10


def test_a_tag_without_an_answer_stops_the_rollback(table: Table) -> None:
    """G7: without its tag, an expiry could delete the restored files; the tag may have been written, and is removed."""
    create = table.store.put_if_absent

    def unanswered(key: str, data: bytes) -> PutOutcome:
        outcome = create(key, data)
        return Unknown("timeout") if key.startswith("tag/") else outcome

    table.store.put_if_absent = unanswered  # type: ignore[method-assign]
    with pytest.raises(StoreUnavailable, match=r"tag/tag-rollback-2-.* may not have been written: timeout"):
        table.rollback(snapshot=2)
    assert tags(table) == []
    assert values(table) == [3, 4]
