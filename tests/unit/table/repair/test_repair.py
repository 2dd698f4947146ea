"""Repair: every kind of damage gets steps or the reason why there are none; what is lost is named; nothing else changes."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import damage
import golden_tables
import pyarrow as pa
import pytest
from damage import DAMAGES, Damage, flights_table
from dying_store import Died, DyingStore, contents
from planted import Planted

import lakelatch as ll
from lakelatch.backends.local import LocalStore
from lakelatch.backends.memory import MemoryStore
from lakelatch.core.errors import CommitConflict, InvalidArgument, LakelatchError
from lakelatch.table.repair.apply import ASIDE, apply_repair
from lakelatch.table.repair.plan import plan_repair
from lakelatch.table.repair.steps import RepairPlan
from lakelatch.table.verify.whole import verify_store

COUNTER = itertools.count()

BEYOND = {
    "missing_schema", "garbage_schema", "schema_version", "schema_that_is_not_there", "schema_without_fields", "unknown_type",
    "version_is_int", "commitKind_is_str", "climbing_file_name", "missing_index_file", "missing_statistics", "size_of_list",
    "total_count", "delta_count",
}  # fmt: skip
"""Damages about which nothing is done: no copy exists, a newer format, tampering, or only a number is wrong."""
LOSSES = {
    "cut_manifest": [1, 2], "missing_manifest": [1], "cut_list": [1, 2], "empty_snapshot": [1, 2], "gap": [1],
    "snapshot_of_another_id": [3], "climbing_manifest_name": [1, 2], "missing_index_manifest": [1, 2],
    "half_a_snapshot": [1, 2], "a_list_for_a_manifest": [1, 2], "noise_for_a_manifest": [1, 2], "empty_list": [1, 2],
    "id_is_str": [1, 2], "deltaManifestList_is_str": [1, 2], "baseManifestList_is_NoneType": [1, 2],
}  # fmt: skip
"""The snapshots that are left where others had to go."""


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table to be copied and broken."""
    return Path(flights_table(str(tmp_path_factory.mktemp("sound") / "t")).url)


def files_of(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def errors_of_newest(store: Any) -> list[Any]:
    return verify_store(store, snapshots=[max(ll.open_table(store.url).timeline.snapshot_ids())])


def rows_of(url: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in ll.open_table(url).to_arrow().to_pylist()), key=str)


@pytest.mark.parametrize("damaged", DAMAGES, ids=lambda d: d.__name__)
def test_every_finding_gets_a_step_or_a_reason(damaged: Damage, sound: Path, tmp_path: Path) -> None:
    """The plan changes nothing. Without `accept_loss` no row goes. With it, the newest state is sound, and no step is left."""
    root = Path(shutil.copytree(sound, tmp_path / "t"))
    damaged(Planted(ll.open_table(str(root))))
    store, name, before = LocalStore(str(root)), damaged.__name__, files_of(root)
    plan = plan_repair(store)
    assert files_of(root) == before
    assert [r.finding for r in plan.remedies] == verify_store(store, snapshots="all")
    assert all(bool(r.steps) != bool(r.told) for r in plan.remedies)
    assert bool(plan.steps) == (name not in BEYOND)
    if name in LOSSES or "data_file" in name:
        assert all(step.loses for step in plan.steps)
        assert apply_repair(store, "main", plan) == ()
        assert files_of(root) == before
    kept = files_of(root)
    assert apply_repair(store, "main", plan, accept_loss=True) == plan.steps
    after = files_of(root)
    aside = {key.split("/", 3)[3]: data for key, data in after.items() if key.startswith(ASIDE)}
    gone = {
        key: data
        for key, data in kept.items()
        if after.get(key) != data and "/LATEST" not in key and "/EARLIEST" not in key
    }
    assert {key: aside.get(key) for key in gone} == gone, "what a repair deletes is copied before"
    if name in BEYOND:
        assert after == before
        return
    assert errors_of_newest(store) == [] or name in ("lost_files", "adds_twice", "deletes_what_never_was")
    assert plan_repair(store).steps == ()
    table = ll.open_table(str(root))
    wanted = LOSSES.get(name, [1, 2, 3] if name == "high_hint" else [1, 2, 3, 4])
    assert table.timeline.snapshot_ids() == wanted
    rows = {1: 3, 2: 5, 3: 5, 4: 5}[wanted[-1]]
    assert len(rows_of(table.url)) == (3 if "data_file" in name else rows)
    table.append(table.to_arrow())
    table.committer.settle()


@pytest.mark.parametrize("table_id", golden_tables.packed("", "bad"))
def test_damaged_tables_of_apache_paimon(table_id: str, tmp_path: Path) -> None:
    """Six rows are in the file that is damaged or gone; a hostile name and a gap are left to a person."""
    root = golden_tables.unpack(table_id, tmp_path).path
    store, before, name = LocalStore(str(root)), files_of(root), table_id.rpartition("/")[2]
    plan = plan_repair(store, data="deep")
    assert files_of(root) == before
    assert all(bool(r.steps) != bool(r.told) for r in plan.remedies)
    assert plan.remedies
    reasons = {"manifest_path_traversal": "outside of the table's folder", "snapshot_gap": "it cannot be told which"}
    if name in reasons:
        assert plan.steps == ()
        assert reasons[name] in str(plan)
        return
    assert [step.kind for step in plan.steps if step.loses] == ["cut" if name == "truncated_manifest" else "drop"]
    apply_repair(store, "main", plan, accept_loss=True)
    assert errors_of_newest(store) == []
    ll.open_table(str(root)).to_arrow()


def test_rows_that_are_gone_are_named_by_partition_and_number(sound: Path, tmp_path: Path) -> None:
    root = Path(shutil.copytree(sound, tmp_path / "t"))
    file = next(iter(root.glob("month=1/bucket-0/*.parquet")))
    file.unlink()
    table = ll.open_table(str(root))
    plan = table.repair()
    (step,) = plan.steps
    assert (step.kind, step.loses) == ("drop", "2 rows")
    assert [(p.partition, p.rows, p.files) for p in step.lost] == [("month=1", 2, (file.name,))]
    assert f"month=1: 2 rows in 1 files ({file.name})" in str(plan)
    table.append(pa.table({"carrier": ["ZZ"], "delay": pa.nulls(1), "month": [1]}))
    with pytest.raises(CommitConflict, match="another snapshot"):
        apply_repair(table.store, "main", plan, accept_loss=True)
    assert table.repair(dry_run=False).steps == ()
    assert table.repair(dry_run=False, accept_loss=True).steps[0].kind == "drop"
    assert sorted(table.to_arrow()["month"].to_pylist()) == [1, 2, 2, 3], "the append is kept"
    newest = table.snapshot()
    assert newest is not None
    assert newest.properties["repair.rows-lost"] == "2"
    assert newest.total_record_count == 4
    assert errors_of_newest(table.store) == []


def test_a_table_with_a_primary_key_says_what_may_come_back(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("k", pa.int32(), nullable=False), ("v", pa.int32())])
    table = ll.create_table(str(tmp_path / "t"), schema, primary_key=["k"], options={"bucket": "1"})
    for value in (1, 2):
        table.upsert(pa.table({"k": pa.array([1], pa.int32()), "v": pa.array([value], pa.int32())}))
    (newest,) = [
        e
        for e in table.entries()
        if e.file.max_sequence_number == max(x.file.max_sequence_number for x in table.entries())
    ]
    (tmp_path / "t" / "bucket-0" / newest.file.file_name).unlink()
    assert "1 rows; older rows of the same keys" in str(table.repair())
    table.repair(dry_run=False, accept_loss=True)
    assert table.to_arrow()["v"].to_pylist() == [1]


def in_memory() -> ll.Table:
    """Five appends in memory; tag `two` is on the second snapshot."""
    table = ll.create_table(f"memory://repair-{next(COUNTER)}/t", pa.schema([("v", pa.int64())]))
    for value in range(1, 6):
        table.append(pa.table({"v": [value]}))
    table.committer.settle()
    table.store.put("tag/tag-two", table.store.get("snapshot/snapshot-2"))
    return table


def values(table: ll.Table) -> list[int]:
    return sorted(table.to_arrow()["v"].to_pylist())


def repaired(table: ll.Table, accept_loss: bool = False) -> RepairPlan:
    plan = plan_repair(table.store)
    apply_repair(table.store, "main", plan, accept_loss=accept_loss)
    assert verify_store(table.store, snapshots="all") == []
    assert plan_repair(table.store).steps == ()
    return plan


@pytest.mark.parametrize("broken", [b"", None])
def test_a_snapshot_that_a_tag_still_holds_is_written_again(broken: bytes | None) -> None:
    table = in_memory()
    whole = table.store.get("snapshot/snapshot-2")
    table.store.delete_many(["snapshot/snapshot-2"])
    if broken is not None:
        table.store.put("snapshot/snapshot-2", broken)
    plan = repaired(table)
    assert [step.kind for step in plan.steps] == ["restore"]
    assert table.store.get("snapshot/snapshot-2") == whole
    assert values(table) == [1, 2, 3, 4, 5]


def test_another_snapshot_of_the_same_id_is_not_taken_for_it() -> None:
    """A tag of the id is no copy, unless the next snapshot names its identity."""
    table = in_memory()
    table.store.delete_many(["snapshot/snapshot-2"])
    table.store.put("tag/tag-two", table.store.get("tag/tag-two").replace(b'"uuid": "', b'"uuid": "0'))
    assert "restore" not in [step.kind for step in plan_repair(table.store).steps]


def test_leftovers_of_an_expiry_go_without_a_loss() -> None:
    """H25: snapshots below EARLIEST whose lists are gone."""
    table = in_memory()
    table.store.delete_many([f"manifest/{table.timeline.snapshot(n).delta_manifest_list}" for n in (1, 3)])
    table.store.delete_many(["tag/tag-two"])
    table.store.put("snapshot/EARLIEST", b"4")
    plan = repaired(table)
    assert [(step.kind, step.loses) for step in plan.steps] == [("retire", "")]
    assert table.timeline.snapshot_ids() == [4, 5]
    assert values(table) == [1, 2, 3, 4, 5]
    assert values(table.at(tag="repair-snapshot-2")) == [1, 2], "it could still be read"


def test_states_that_cannot_be_read_any_more_leave_the_history_with_consent() -> None:
    table = in_memory()
    table.store.delete_many([f"manifest/{table.timeline.snapshot(3).base_manifest_list}"])
    plan = plan_repair(table.store)
    assert "the states of snapshot 3, which cannot be read any more" in str(plan)
    repaired(table, accept_loss=True)
    assert table.timeline.snapshot_ids() == [4, 5]
    assert table.store.get("snapshot/EARLIEST") == b"4"
    assert values(table) == [1, 2, 3, 4, 5]
    assert [values(table.at(tag=f"repair-snapshot-{n}")) for n in (1, 2)] == [[1], [1, 2]]


def test_what_a_cut_takes_away_can_be_brought_back() -> None:
    """A gap whose lower side is the history: the upper side stays as tags."""
    table = in_memory()
    table.store.delete_many(["snapshot/snapshot-3", "tag/tag-two"])
    assert values(table) == [1, 2]
    plan = plan_repair(table.store)
    (step,) = plan.steps
    assert (step.kind, [key for key, _ in step.deletes]) == ("cut", ["snapshot/snapshot-5", "snapshot/snapshot-4"])
    assert "the changes of snapshots 4 to 5 (4: +1 rows, 5: +1 rows)" in step.loses
    repaired(table, accept_loss=True)
    assert values(table) == [1, 2]
    ll.open_table(table.url).rollback(tag="repair-snapshot-5")
    assert values(table) == [1, 2, 3, 4, 5]


def test_a_gap_that_nothing_decides_is_left_to_a_person() -> None:
    table = in_memory()
    table.store.delete_many(["snapshot/snapshot-3", "tag/tag-two", "snapshot/EARLIEST", "snapshot/LATEST"])
    plan = plan_repair(table.store)
    assert plan.steps == ()
    assert "it cannot be told which of them are the table" in str(plan)


@pytest.mark.parametrize("hint", ["LATEST", "EARLIEST"])
@pytest.mark.parametrize("says", [None, b"", b"x", b"99", b"2"])
def test_hints(hint: str, says: bytes | None) -> None:
    table = in_memory()
    table.store.delete_many([f"snapshot/{hint}"])
    if says is not None:
        table.store.put(f"snapshot/{hint}", says)
    plan = repaired(table)
    right = {"LATEST": b"5", "EARLIEST": b"2" if says == b"2" else b"1"}[hint]
    assert table.store.get(f"snapshot/{hint}") == right
    assert [step.kind for step in plan.steps] == ([] if says == right else ["hint"])


def test_a_schema_comes_back_from_a_branch() -> None:
    table = in_memory()
    table.alter(ll.add_column("x", "INT"))
    table.create_branch("b")
    for broken in (None, b"{"):
        whole = table.store.get("schema/schema-0")
        table.store.delete_many(["schema/schema-0"])
        if broken is not None:
            table.store.put("schema/schema-0", broken)
        assert [step.kind for step in repaired(table).steps] == ["restore"]
        assert table.store.get("schema/schema-0") == whole
    assert values(table) == [1, 2, 3, 4, 5]


def test_a_tag_that_cannot_be_read_stops_expiry_until_it_goes() -> None:
    table = in_memory()
    table.store.put("tag/tag-two", b"{")
    with pytest.raises(LakelatchError, match="tag-two"):
        table.orphans()
    plan = repaired(table, accept_loss=True)
    assert [(step.kind, step.loses) for step in plan.steps] == [("untag", "tag 'two'")]
    table.orphans()


def test_files_of_a_replaced_snapshot_come_back() -> None:
    """A fork: an overwritten snapshot 2 had been built upon, so that 3 lacks the rows of the new 2."""
    table = in_memory()
    other = ll.create_table(f"memory://repair-{next(COUNTER)}/t", pa.schema([("v", pa.int64())]))
    copy = contents(table.store)  # type: ignore[arg-type]
    store = other.store
    for key, data in copy.items():
        store.put(key, data)
    store.delete_many([f"snapshot/snapshot-{n}" for n in (2, 3, 4, 5)] + ["tag/tag-two"])
    store.put("snapshot/LATEST", b"1")
    forked = ll.open_table(other.url)
    forked.append(pa.table({"v": [20]}))
    forked.committer.settle()
    for n in (3, 4, 5):
        store.put(f"snapshot/snapshot-{n}", copy[f"snapshot/snapshot-{n}"])
    store.put("snapshot/LATEST", b"5")
    forked = ll.open_table(other.url)
    assert values(forked) == [1, 2, 3, 4, 5]
    plan = forked.repair(dry_run=False)
    assert [(step.kind, step.lost[0].rows) for step in plan.steps] == [("bring_back", 1)]
    assert values(forked) == [1, 2, 3, 4, 5, 20]
    assert forked.repair().steps == ()
    assert [(f.file, f.field) for f in forked.verify(snapshots=[6])] == [("snapshot/snapshot-3", "lakelatch.base")]


def test_only_what_was_planned_is_deleted() -> None:
    table = in_memory()
    table.store.put("tag/tag-two", b"{")
    plan = plan_repair(table.store)
    table.store.put("tag/tag-two", table.store.get("snapshot/snapshot-2"))
    with pytest.raises(CommitConflict, match="has changed"):
        apply_repair(table.store, "main", plan, accept_loss=True)
    with pytest.raises(InvalidArgument, match="read only"):
        table.at(snapshot=1).repair()


BROKEN: dict[str, Callable[[MemoryStore, ll.Table], Any]] = {
    "retire": lambda store, table: store.delete_many([f"manifest/{table.timeline.snapshot(3).base_manifest_list}"]),
    "cut": lambda store, table: store.delete_many([f"manifest/{table.timeline.snapshot(5).delta_manifest_list}"]),
    "restore": lambda store, table: store.put("snapshot/snapshot-2", b""),
    "untag": lambda store, table: store.put("tag/tag-two", b""),
    "drop": lambda store, table: store.delete_many(
        [f"bucket-0/{next(e for e in table.entries() if e.file.row_count).file.file_name}"]
    ),
}


@pytest.mark.parametrize(("kind", "applied"), [(kind, applied) for kind in BROKEN for applied in (False, True)][:-1])
def test_a_repair_that_dies_at_any_request_is_finished_by_the_next(kind: str, applied: bool) -> None:
    """Afterwards the table is as sound as without the crash, and shows the same rows."""
    table = in_memory()
    BROKEN[kind](table.store, table)  # type: ignore[arg-type]
    space = contents(table.store)  # type: ignore[arg-type]

    def fresh() -> DyingStore:
        store = DyingStore(f"memory://repair-{next(COUNTER)}/t")
        for key, data in space.items():
            store.put(key, data)
        return store

    store = fresh()
    plan = plan_repair(store)
    assert kind in [step.kind for step in plan.steps]
    store.requests = 0
    apply_repair(store, "main", plan, accept_loss=True)
    wanted, requests = values(ll.open_table(store.url)), store.requests
    for last in range(1, requests + 1, 4 if kind == "drop" else 1):  # a commit dies at every request in other tests
        store = fresh()
        plan = plan_repair(store)
        store.requests, store.last, store.applied = 0, last, applied
        try:
            apply_repair(store, "main", plan, accept_loss=True)
        except (Died, LakelatchError):
            pass
        store.last = 10**9
        apply_repair(store, "main", plan_repair(store), accept_loss=True)
        again = ll.open_table(store.url)
        assert values(again) == wanted, f"died at request {last}"
        assert errors_of_newest(store) == []
        assert plan_repair(store).steps == ()


def test_a_plan_in_json(sound: Path, tmp_path: Path) -> None:
    root = Path(shutil.copytree(sound, tmp_path / "t"))
    damage.missing_data_file(Planted(ll.open_table(str(root))))
    told = plan_repair(LocalStore(str(root))).to_dict()
    (step,) = told["steps"]
    assert step | {"partitions": []} == {
        "kind": "drop", "does": step["does"], "gives_up": "2 rows", "writes": [], "deletes": [], "partitions": [],
    }  # fmt: skip
    assert step["partitions"][0]["rows"] == 2
    assert told["findings"][0]["steps"] == [0]
    assert replace(plan_repair(LocalStore(str(root))), steps=()).to_dict()["steps"] == []


def reworded(url: str) -> Any:
    """A table with a snapshot, its tag and its branch, as an earlier version left them after `rescale`."""
    table = ll.create_table(url, pa.schema([("v", pa.int64())]))
    for value in (1, 2, 3):
        table.append(pa.table({"v": [value]}))
    table.create_tag("kept", snapshot=2)
    table.committer.settle()
    for key in ("snapshot/snapshot-2", "tag/tag-kept"):
        table.store.put(key, table.store.get(key).replace(b'"WRITE"', b'"RESCALE"'))
    return table


def test_a_word_that_others_cannot_parse_is_taken_out_in_its_place() -> None:
    """The snapshots stay what they are, also for a writer that is at work and an identity that is looked up."""
    url = f"memory://repair-{next(COUNTER)}/t"
    table = reworded(url)
    warm = ll.open_table(url)
    warm.append(pa.table({"v": [4]}), commit_user="etl", identifier=1)
    found = table.verify("all")
    assert [(f.severity, f.file, f.field) for f in found] == [
        ("error", key, "operation") for key in ("snapshot/snapshot-2", "tag/tag-kept")
    ]
    assert rows_of(url) == [(1,), (2,), (3,), (4,)] and ll.open_table(url).at(snapshot=2).to_arrow().num_rows == 2
    identity, plan = table.timeline.snapshot(2).identity, plan_repair(table.store)
    assert not any(step.loses for step in plan.steps) and plan.steps[0].to_dict()["kind"] == "reword"
    assert apply_repair(table.store, "main", plan) == plan.steps
    assert table.verify("all") == [] and plan_repair(table.store).steps == ()
    assert table.timeline.snapshot(2).identity == identity == table.timeline.tag("kept").identity
    for key in ("snapshot/snapshot-2", "tag/tag-kept"):
        assert b"operation" not in table.store.get(key)
    assert sorted(i.key.split("/", 3)[3] for i in table.store.list(ASIDE)) == ["snapshot/snapshot-2", "tag/tag-kept"]
    warm.append(pa.table({"v": [5]}))
    assert ll.open_table(url).append(pa.table({"v": [4]}), commit_user="etl", identifier=1).replayed
    assert ll.open_table(url).verify("all", data=True) == []


@pytest.mark.parametrize("expired", [False, True])
def test_a_word_is_taken_out_of_a_changelog_that_outlives_its_snapshot(expired: bool) -> None:
    """One that expires at this moment does not come again."""
    table = reworded(f"memory://repair-{next(COUNTER)}/t")
    key = "changelog/changelog-2"
    table.store.put(key, table.store.get("snapshot/snapshot-2"))
    plan = plan_repair(table.store)
    table.store.put("changelog/EARLIEST", b"3" if expired else b"2")
    apply_repair(table.store, "main", plan)
    assert table.timeline.changelog_ids() == ([] if expired else [2])
    assert expired or b"operation" not in table.store.get(key)
    assert plan_repair(table.store).steps == ()


def test_a_word_is_not_taken_out_of_what_has_changed_or_expired_meanwhile() -> None:
    url = f"memory://repair-{next(COUNTER)}/t"
    table = reworded(url)
    plan, key = plan_repair(table.store), "snapshot/snapshot-2"
    held = table.store.get(key)
    table.store.put(key, held + b" ")
    with pytest.raises(CommitConflict, match="has changed since the repair was planned"):
        apply_repair(table.store, "main", plan)
    table.store.put(key, held)
    table.store.put("snapshot/EARLIEST", b"3")  # an expiry goes on at this moment
    apply_repair(table.store, "main", plan)
    assert table.timeline.snapshot_ids() == [1, 3]
    assert b"RESCALE" not in table.store.get("tag/tag-kept")


def test_a_word_of_another_engine_is_its_own_affair() -> None:
    table = reworded(f"memory://repair-{next(COUNTER)}/t")
    for key in ("snapshot/snapshot-2", "tag/tag-kept"):
        table.store.put(key, table.store.get(key).replace(b'"lakelatch-', b'"paimon-'))
    assert not any(finding.field == "operation" for finding in table.verify("all"))
