"""Orphans in every folder of the format, in little memory, beside jobs under way; moved aside and brought back."""

from __future__ import annotations

import os
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from fragile import Died, Fragile, die
from hypothesis import given, settings
from hypothesis import strategies as st
from killed_store import KilledStore, contents, copied, each_kill

import lakelatch as ll
from lakelatch.backends.memory import MemoryStore
from lakelatch.backends.store import ObjectInfo
from lakelatch.coordinator.history.timeline import Timeline
from lakelatch.coordinator.journal.object_journal import FOLDER, ObjectJournal
from lakelatch.coordinator.maintenance import orphans as orphans_module
from lakelatch.coordinator.maintenance.orphans import DAY_MS, OrphanPlan, apply_clean, plan_orphans
from lakelatch.coordinator.maintenance.quarantine import FOLDER as QUARANTINE
from lakelatch.coordinator.maintenance.quarantine import (
    expire_quarantines,
    move_orphans,
    quarantines,
    restore,
)
from lakelatch.coordinator.maintenance.reach import names as names_module
from lakelatch.coordinator.maintenance.reach.names import FileSpool, NameSet
from lakelatch.coordinator.recovery.recover import recover_journal
from lakelatch.coordinator.surroundings import MACHINE
from lakelatch.core.errors import InvalidArgument, TableCorrupt
from lakelatch.core.paths import TablePaths
from lakelatch.table.table import Table

NEVER_MS = 2**62
SCHEMA = pa.schema([("p", pa.string()), ("v", pa.int64())])
LEFT = {
    "p=a/bucket-0/data-left-0.parquet",
    "p=a/bucket-0/.data-left-1.parquet.0000.tmp",
    "p=never/bucket-7/data-left-2.parquet",
    "p=a/bucket-postpone/data--u-left-3.avro",
    "manifest/manifest-left-0",
    "manifest/lakelatch-clock-0000",
    "index/index-left-0",
    "statistics/stat-left-0",
    "snapshot/.snapshot-9.0000.tmp",
    "snapshot/.LATEST.0000.tmp",
    "changelog/.changelog-9.0000.tmp",
    "tag/.tag-x.0000.tmp",
    "schema/.schema-9.0000.tmp",
    "consumer/.consumer-x.0000.tmp",
    "branch/branch-dev/tag/.tag-x.0000.tmp",
    "branch/branch-dev/snapshot/.snapshot-9.0000.tmp",
    "branch/branch-dev/schema/.schema-9.0000.tmp",
    "branch/branch-dev/consumer/.consumer-9.0000.tmp",
    "lakelatch/identities/identities-left-0",
    "lakelatch/untagged/main/eod/0000",
    "lakelatch/journal/.00000000-0000-1.jsonl.0000.tmp",
    "lakelatch/intents/intent-1-left.json",
    "lakelatch/intents/ticket-1-left",
    "lakelatch/intents/.intent-1-left.json.0000.tmp",
    "branch/branch-dev/lakelatch/intents/intent-1-left.json",
    "branch/branch-dev/lakelatch/intents/ticket-1-left",
    "branch/branch-dev/lakelatch/intents/.intent-1-left.json.0000.tmp",
}
OTHERS = {"README.md", "p=a/notes.txt", "snapshot/snapshot-1.bak", "consumer/notes", ".hidden.tmp", "lakelatch/other/x"}


def rows(part: str, *values: int) -> pa.Table:
    return pa.table({"p": [part] * len(values), "v": list(values)})


def filled(url: str, left: set[str] = LEFT) -> Table:
    """A table with four snapshots, a tag, and files that nothing names."""
    made = ll.create_table(url, SCHEMA, partition_by=["p"])
    made.append(rows("a", 1))
    made.overwrite(rows("a", 2), partition={"p": "a"})
    made.append(rows("b", 3))
    made.store.put("tag/tag-eod", made.store.get("snapshot/snapshot-1"))
    made.store.delete_many(["snapshot/snapshot-1"])
    made.committer.settle()
    made.store.put("snapshot/EARLIEST", b"2")
    for key in (*left, *(OTHERS if left else ())):
        made.store.put(key, b"left over")
    return made


def planned(table: Table, until_ms: int = NEVER_MS, **more: Any) -> OrphanPlan:
    table.committer.settle()  # the hint of its last commit may still be under way
    return plan_orphans(table.timeline, table.schema, until_ms, **more)


def keys(plan: OrphanPlan) -> set[str]:
    return {info.key for info in plan.files}


def on(store: MemoryStore) -> Table:
    return Table(store, Timeline(store, TablePaths()).latest_schema())


# --------------------------------------------------------------------------------------------------------- every folder


def test_orphans_of_every_folder_on_a_local_disk(tmp_path: Path) -> None:
    """Temporary files, which a listing of a local disk hides, are found as well."""
    table = filled(str(tmp_path / "t"))
    plan = planned(table)
    assert keys(plan) == LEFT
    apply_clean(plan)
    left = {os.path.relpath(os.path.join(d, f), tmp_path / "t") for d, _, fs in os.walk(tmp_path / "t") for f in fs}
    assert left >= OTHERS
    assert not LEFT & left
    assert table.verify("all", data=True) == []
    assert planned(table).files == ()


def test_a_deletion_of_orphans_does_not_wait_for_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Should some be there again after a power cut, the next run finds them; every other deletion is synced."""
    table = filled(str(tmp_path / "t"))
    plan, synced = planned(table), list[str]()
    monkeypatch.setattr(table.store._disk, "sync_folder", synced.append)  # type: ignore[attr-defined]
    assert len(apply_clean(plan).files) == len(LEFT)
    assert synced == []
    assert planned(table).files == ()
    table.store.delete_many(["README.md"])
    assert synced == [str(tmp_path / "t")]


def test_earlier_locations_outside_the_table_are_searched_too(tmp_path: Path) -> None:
    """The option named another location once: its used files stay, its orphans go, and only if asked for."""
    old, new = tmp_path / "old", tmp_path / "new"
    option = "data-file.external-paths"
    options = {option: f"file://{old}", f"{option}.strategy": "round-robin"}
    table = ll.create_table(str(tmp_path / "t"), SCHEMA, partition_by=["p"], options=options)
    table.append(rows("a", *range(10)))
    (named,) = old.rglob("*.parquet")
    table.alter(ll.set_option(option, f"file://{new}"))
    ll.allow(table.url, new)
    left = old / "p=a/bucket-0/data-left-0.parquet"
    left.write_bytes(b"left over")
    assert planned(table).files == ()
    found = planned(table, external=True)
    assert keys(found) == {f"file:{left}"}
    move_orphans(found, 1, 1, "x")
    assert not left.exists()
    assert table.restore_quarantine().lost == ()
    assert left.read_bytes() == b"left over"
    apply_clean(planned(table, external=True))
    assert not left.exists()
    assert named.exists()


# ------------------------------------------------------------------------------------------------------------- journals


@pytest.mark.parametrize("where", ["beside", "option", "environment"])
def test_files_of_a_commit_that_a_journal_holds_stay(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H10: the writer died, or waits, before its snapshot was created; recovery can still send it, however old its files are."""
    store = Fragile()
    setting = "object" if where == "beside" else str(tmp_path / "journal")
    options = {} if where == "environment" else {"commit.journal": setting}
    monkeypatch.setenv("LAKELATCH_JOURNAL", setting if where == "environment" else "")
    table = ll.create_table(store.url, SCHEMA, partition_by=["p"], options=options)
    ll.allow(store.url, *options.values()) if where == "option" else None
    writer = Table(store, table.schema)
    before = set(contents(store))
    store.before["create snapshot/snapshot-1"] = die
    with pytest.raises(Died):
        writer.append(rows("a", 1))
    written = {key for key in set(contents(store)) - before if not key.startswith(FOLDER)}
    assert any(key.startswith("p=a/") for key in written)
    assert planned(table).files == ()
    journal = ObjectJournal(store) if where == "beside" else writer._committer.journal  # type: ignore[union-attr]
    done = recover_journal(journal, store, MACHINE, writers_are_gone=True)  # type: ignore[arg-type]
    assert [c.outcome for c in done.commits] == ["finished"]
    assert planned(table).files == ()
    assert ll.open_table(store.url).to_arrow().num_rows == 1


def test_a_journal_that_cannot_be_read_stops_the_run() -> None:
    """H11: the commit under way may name files that look unused."""
    table = filled("memory://cleaning-journal/t")
    table.store.put(f"{FOLDER}0000-1.jsonl", b'{"event": "?", "commit": "0000"}\n')
    with pytest.raises(TableCorrupt, match=r"lakelatch/journal/0000-1\.jsonl.*nothing was deleted"):
        planned(table)


def test_journals_of_commits_that_ended_go_a_day_later() -> None:
    """Their names stay taken as long as a writer may wake up."""
    table = filled("memory://cleaning-journals/t", set())
    key = f"{FOLDER}0000-2.jsonl"  # left over from a conclusion: its predecessor is gone
    table.store.put(key, b"")
    modified_ms = table.store.head(key).modified_ms
    assert keys(planned(table, modified_ms + DAY_MS)) == set()
    assert keys(planned(table, modified_ms + DAY_MS + 1)) == {key}


# --------------------------------------------------------------------------------------------------------------- memory


@given(st.lists(st.sampled_from([f"f{i}\n'\\" for i in range(60)]), max_size=80), st.sets(st.integers(0, 70)))
@settings(max_examples=60, deadline=None)
def test_names_on_disk_are_those_that_were_added(added: list[str], used: set[int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(names_module, "CHUNK", 5)
        patch.setattr(names_module, "HELD", 10)
        patch.setattr(names_module, "RUN", 7)
        files = [ObjectInfo(name, i, i + 1) for i, name in enumerate(added)]
        spool = FileSpool(files)
        assert list(spool) == spool[:] == files
        assert spool == files
        assert [spool[i] for i in range(-len(files), len(files))] == files + files
        assert spool.size == sum(range(len(files)))
        names = NameSet()
        for i in sorted(used):
            names.add([f"f{i}\n'\\"])
        assert names.holds(added).tolist() == [int(name[1:-3]) in used for name in added]


def test_memory_does_not_grow_with_the_number_of_orphans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As objects 20 000 listed files take 7 MB; they are kept on disk."""
    monkeypatch.setattr(names_module, "HELD", 2_000)
    table = ll.create_table(str(tmp_path / "t"), SCHEMA, partition_by=["p"])
    table.append(rows("a", 1))

    def many(prefix: str) -> Any:
        for i in range(20_000):
            yield ObjectInfo(f"p=a/bucket-0/data-{i:060d}.parquet", 10**12 + i, 10**12 + i)

    monkeypatch.setattr(table.store, "list_all", many)
    tracemalloc.start()
    try:
        plan = planned(table)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(plan.files) == 20_000
    assert peak < 3_000_000


# --------------------------------------------------------------------------------------------------------- other writers


def test_roots_are_looked_at_again_while_files_are_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    """H10: a commit with old files that lands in the midst of a long deletion keeps those that are left."""
    monkeypatch.setattr(names_module, "CHUNK", 1)
    for module, name in ((orphans_module, "DELETED_AT_ONCE"), (orphans_module, "LOOK_EVERY")):
        monkeypatch.setattr(module, name, 1)
    table = filled("memory://cleaning-midst/t", {f"p=0/bucket-0/data-left-{i}.parquet" for i in range(3)})
    snapshot = table.store.get("snapshot/snapshot-3")
    table.store.delete_many(["snapshot/snapshot-3"])
    plan = planned(table)
    assert {key[:4] for key in keys(plan)} == {"p=0/", "p=b/", "mani"}
    names = sorted(plan.files, key=lambda info: not info.key.startswith("p=0/"))
    landed: list[str] = []

    def land(done: int, total: int) -> None:
        if done == 3 and not landed:
            table.store.put("snapshot/snapshot-3", snapshot)
            landed.append("now")

    done = apply_clean(replace(plan, files=FileSpool(names)), land)
    assert landed == ["now"]
    assert {key[:4] for key in keys(done)} == {"p=0/"}
    assert table.verify("all", data=True) == []


@given(st.data())
@settings(max_examples=25, deadline=None)
def test_random_garbage_goes_and_nothing_else(data: st.DataObject) -> None:
    """G7: whatever lies about in whatever folder, the table reads on, and a second run finds nothing."""
    folders = [key.rpartition("/")[0] for key in LEFT] + [
        "",
        "p=a",
        "q=a/bucket-0",
        "manifest/deep",
        "branch/branch-dev",
    ]
    names = ["data-1.parquet", ".x.tmp", "manifest-1", "snapshot-77.json", "LATEST.bak", "index-0", "x y%3D"]
    made = data.draw(st.sets(st.tuples(st.sampled_from(folders), st.sampled_from(names)), max_size=12))
    moved = data.draw(st.booleans())
    store = copied(GARDEN)
    for folder, name in made:
        store.put(f"{folder}/{name}".lstrip("/"), b"garbage")
    table = on(store)
    before = contents(store)
    plan = planned(table)
    done = move_orphans(plan, 5, 1, "x") if moved else apply_clean(plan)
    assert before.keys() - contents(store).keys() == keys(done) == keys(plan)
    assert not keys(plan) & GARDEN.keys()
    assert table.to_arrow().num_rows == table.at(tag="eod").to_arrow().num_rows + 1 == 2
    assert planned(table).files == ()
    if moved:
        restore(table.timeline, table.schema)
        assert contents(store) == before


GARDEN = contents(filled("memory://cleaning-garden/t", set()).store)  # type: ignore[arg-type]


# ----------------------------------------------------------------------------------------------------------- quarantine


def test_files_are_moved_aside_and_come_back() -> None:
    table = filled("memory://cleaning-quarantine/t")
    before = contents(table.store)  # type: ignore[arg-type]
    done = move_orphans(planned(table), 1_700_000_000_000, DAY_MS, "abcd")
    assert keys(done) == LEFT
    assert done.quarantine == "20231114T221320Z-abcd"
    after = contents(table.store)  # type: ignore[arg-type]
    assert {key for key in before if key not in after} == LEFT
    assert all(key.startswith(QUARANTINE) for key in after.keys() - before.keys())
    (listed,) = table.quarantines()
    assert (listed.name, listed.files, listed.size) == (done.quarantine, len(LEFT), len(LEFT) * len("left over"))
    assert str(listed).endswith(": 27 files, 243 bytes, until 2023-11-15T22:13:20+00:00")
    assert planned(table).files == ()
    with pytest.raises(InvalidArgument, match="there is no quarantine 'x'") as refused:
        table.restore_quarantine("x")
    assert listed.name in str(refused.value.next_step)
    back = table.restore_quarantine(listed.name)
    assert (back.files, back.size, back.lost) == (len(LEFT), 243, ())
    assert contents(table.store) == before  # type: ignore[arg-type]
    assert table.quarantines() == []
    assert str(table.restore_quarantine()) == "0 files of 0 quarantines: 0 bytes"


def test_a_local_disk_moves_by_a_second_name_and_ages_begin_anew(tmp_path: Path) -> None:
    table = filled(str(tmp_path / "t"))
    for key in LEFT:
        os.utime(tmp_path / "t" / key, (0, 1_000_000))
    inode = (tmp_path / "t/manifest/manifest-left-0").stat().st_ino
    done = table.clean(quarantine=True)
    assert keys(done) == LEFT
    assert done.quarantine is not None
    moved = tmp_path / "t" / QUARANTINE / "files" / done.quarantine / "manifest/manifest-left-0"
    assert moved.stat().st_ino == inode
    assert table.clean().files == ()
    assert table.restore_quarantine().files == len(LEFT)
    assert all((tmp_path / "t" / key).read_bytes() == b"left over" for key in LEFT)
    assert table.orphans().files == ()


def test_a_quarantine_ends_and_gives_back_what_is_needed_by_then() -> None:
    """A commit with old files landed after they were moved: they come back when the quarantine ends, at the latest."""
    table = filled("memory://cleaning-ends/t")
    snapshot = table.store.get("snapshot/snapshot-3")
    table.store.delete_many(["snapshot/snapshot-3"])
    plan = planned(table)
    data = FileSpool(info for info in plan.files if info.key in LEFT or info.key.startswith("p=b/"))
    done = move_orphans(replace(plan, files=data), 1_000, 500, "abcd")
    assert keys(done) > LEFT
    table.store.put("snapshot/snapshot-3", snapshot)
    assert table.verify("all") != []
    assert expire_quarantines(planned_at_two(table), 1_499).expired == ()
    assert expire_quarantines(planned_at_two(table), 1_500).expired == (done.quarantine,)
    assert table.verify("all", data=True) == []
    assert not any(info.key.startswith(QUARANTINE) for info in table.store.list(""))
    assert planned(table).files == ()


def planned_at_two(table: Table) -> OrphanPlan:
    """A plan without candidates; the roots are those of a moment before snapshot 3."""
    plan = planned(table, 1)
    return replace(plan, seen=frozenset(info for info in plan.seen if not info.key.endswith("-3")))


@pytest.mark.parametrize(
    "file", ["snapshot/snapshot-9", "../x", "lakelatch/journal", "s3://elsewhere/bucket-0/data-1.orc"]
)
def test_a_list_that_names_another_place_is_refused(file: str) -> None:
    """H16: nothing is put where no orphan can have been."""
    table = filled(KilledStore().url)
    move_orphans(planned(table), 1_000, 500, "abcd")
    (page,) = (info.key for info in table.store.list(f"{QUARANTINE}lists/"))
    told = table.store.get(page)
    table.store.put(page, told.replace(b"manifest/manifest-left-0", file.encode(), 1))
    before = contents(table.store)  # type: ignore[arg-type]
    with pytest.raises(TableCorrupt, match="no run of"):
        table.restore_quarantine()
    assert contents(table.store) == before  # type: ignore[arg-type]


# -------------------------------------------------------------------------------------------------------- killed and rerun


def test_a_run_killed_at_any_request_is_finished_by_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same end after a kill at each request of a deletion; nothing that the table needs is missing in between."""
    monkeypatch.setattr(names_module, "CHUNK", 4)
    start = contents(filled("memory://cleaning-killed/t").store)  # type: ignore[arg-type]
    wanted = {key: data for key, data in start.items() if key not in LEFT}

    def act(store: KilledStore) -> None:
        apply_clean(planned(on(store)))

    killed = 0
    for killed, store in each_kill(start, act):
        assert wanted.items() <= contents(store).items()
        act(store)
        assert contents(store) == wanted, f"killed at request {killed}"
    assert killed > 20


def test_a_quarantine_killed_at_any_request_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever a move, a restore or an end is killed, running restore gives every file back."""
    monkeypatch.setattr(names_module, "CHUNK", 3)
    left = set(sorted(LEFT)[::3])
    start = contents(filled("memory://cleaning-moved/t", left).store)  # type: ignore[arg-type]

    def move(store: KilledStore, unique: str = "abcd") -> None:
        move_orphans(planned(on(store)), 1_000, 500, unique)

    def back(store: KilledStore) -> None:
        restore(on(store).timeline, on(store).schema)

    for killed, store in each_kill(start, move):
        found = contents(store)
        assert start.items() <= {**found, **originals(found)}.items(), f"killed at request {killed}"
        move(store, "efgh")
        assert not left & contents(store).keys()
        back(store)
        assert contents(store) == start
    moved = copied(start)
    move(moved)
    moved_contents, killed = contents(moved), 0
    for killed, store in each_kill(moved_contents, back):
        back(store)
        assert contents(store) == start, f"killed at request {killed}"
    assert killed > 30

    def end(store: KilledStore) -> None:
        expire_quarantines(planned(on(store), 1), 2_000)

    for killed, store in each_kill(moved_contents, end):
        end(store)
        assert contents(store).keys() == start.keys() - left, f"killed at request {killed}"


def originals(found: dict[str, bytes]) -> dict[str, bytes]:
    """The moved files under the keys that they had."""
    store = copied(found)
    lines = [line for q in quarantines(store) for _, page in _pages_of(store, q.name) for line in page]
    return {line.file: found[line.moved_to] for line in lines if line.moved_to in found}


def _pages_of(store: KilledStore, name: str) -> Any:
    from lakelatch.coordinator.maintenance.quarantine import _pages

    return _pages(store, name, lambda key: True)
