"""Dropping and renaming whole tables: beside writers, cut off at any request, and next to files of others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from at_each_request import Struck
from fragile import Died, die
from histories import filled, make, opened, rows

import lakelatch as ll
from lakelatch.backends.memory import MemoryStore
from lakelatch.coordinator.maintenance.drop import apply_drop, plan_drop
from lakelatch.coordinator.maintenance.rename import rename
from lakelatch.core.errors import (
    InvalidArgument,
    LakelatchError,
    OutcomeUnknown,
    StoreUnavailable,
    TableExists,
    TableNotFound,
)

Change = Callable[[ll.Table], Any]

CHANGES: dict[str, tuple[int, Change]] = {
    "an append of a warm writer": (2, lambda table: table.append(rows(9))),
    "the first append": (0, lambda table: table.append(rows(9))),
    "an overwrite": (2, lambda table: table.overwrite(rows(9), partition={})),
    "a change of the schema": (2, lambda table: table.alter(ll.add_column("w", "INT"))),
    "a change of the layout": (
        0,
        lambda table: table.alter(ll.set_option("bucket", "2"), ll.set_option("bucket-key", "v")),
    ),
    "a compaction": (5, lambda table: table.compact()),
}


def started(count: int, cold: bool = False) -> tuple[Struck, ll.Table]:
    """A table with some commits, and a handle of it whose requests are counted from now on."""
    store = Struck()
    make(store)
    table = filled(store, *range(count))
    table = opened(store) if cold else table
    store.asked.clear()
    return store, table


def drop(store: MemoryStore) -> None:
    apply_drop(store, plan_drop(store))


def looks_like_a_table(store: MemoryStore) -> list[str]:
    """The files by which somebody could take the folder for a table."""
    return [info.key for info in store.list("") if "schema-" in info.key or "snapshot-" in info.key]


@pytest.mark.parametrize("what", list(CHANGES))
def test_a_drop_at_any_request_of_a_change_leaves_no_phantom(what: str) -> None:
    """H21, G2: the change is told so, or it was done before the drop; nothing of it makes the folder look like a table."""
    count, change = CHANGES[what]
    store, table = started(count)
    change(table)
    table.committer.settle()
    requests = len(store.asked)
    told, done, unknown = 0, 0, 0
    for at in range(1, requests + 1):
        store, table = started(count)
        plain = store.plain()
        store.at, store.strike = at, lambda plain=plain: drop(plain)
        try:
            change(table)
            done += 1
        except TableNotFound as error:
            told += 1
            assert "dropped" in error.message or "there is no table" in error.message
        except (OutcomeUnknown, StoreUnavailable) as error:
            unknown += 1
            assert any(asked.startswith("create snapshot/") for asked in store.asked[: at - 1])
            assert "dropped or renamed" in error.message, "it landed, and the table may have been renamed instead"
        except LakelatchError as error:
            pytest.fail(f"request {at}, {store.asked[at - 1]}: {error!r}")
        table.committer.settle()
        assert looks_like_a_table(plain) == [], store.asked[at - 1]
        assert not ll.is_table(plain.url)
    assert told >= 3
    assert told + done + unknown == requests


@pytest.mark.parametrize("what", ["an append of a warm writer", "a change of the schema"])
def test_a_change_never_lands_on_the_table_that_was_made_anew(what: str) -> None:
    """H21: dropped and made again by another process, at any request of the change."""
    count, change = CHANGES[what]
    store, table = started(count)
    change(table)
    table.committer.settle()
    for at in range(1, len(store.asked) + 1):
        store, table = started(count)
        plain = store.plain()

        def again(plain: MemoryStore = plain) -> None:
            drop(plain)
            make(plain)

        store.at, store.strike = at, again
        try:
            change(table)
        except TableNotFound:
            pass
        except OutcomeUnknown as error:
            assert "moved with the table" in error.message
        table.committer.settle()
        assert looks_like_a_table(plain) == ["schema/schema-0"], store.asked[at - 1] if at <= len(store.asked) else at
        plain.put("snapshot/LATEST", b"7")  # the old writer's hint may come late; it proves nothing
        new = opened(plain)
        assert new.append(rows(5)).snapshot_id == 1
        new.committer.settle()
        assert plain.get("snapshot/LATEST") == b"1", "Apache Paimon believes a hint above every snapshot"


def test_a_change_beside_a_slow_drop_is_told_so() -> None:
    """The change acts at any request of the drop: it lands before the mark, or is refused; the drop removes all of it."""
    store, _ = started(2)
    drop(store)
    requests = len(store.asked)
    outcomes = set()
    for at in range(1, requests + 1):
        store, _ = started(2)
        writer = filled(store.plain(), 7)

        def write(writer: ll.Table = writer, outcomes: set[str] = outcomes) -> None:
            try:
                writer.append(rows(9))
                outcomes.add("landed")
            except TableNotFound as error:
                outcomes.add("told")
                assert "dropped" in error.message
            writer.committer.settle()

        store.asked.clear()
        store.at, store.strike = at, write
        drop(store)
        assert looks_like_a_table(store.plain()) == [], at
    assert outcomes == {"landed", "told"}


def test_a_drop_that_dies_at_any_request_is_finished_by_the_next() -> None:
    """Until then nobody opens the table, and none is made among its remains."""
    store, _ = started(2)
    drop(store)
    for at in range(1, len(store.asked) + 1):
        store, _ = started(2)
        plain = store.plain()
        store.at, store.strike = at, die
        with pytest.raises(Died):
            drop(store)
        if ll.is_table(plain.url):
            with pytest.raises(LakelatchError):
                made = ll.create_table(plain.url, pa.schema([("other", pa.string())]))
                pytest.fail(f"{made} was made among the remains")
            assert _opens(plain) == (at <= _mark_at(store))
        drop(plain)
        assert list(plain.list("")) == []
    with pytest.raises(TableNotFound, match="there is no table"):
        drop(plain)


def _mark_at(store: Struck) -> int:
    """The number of the request with which the drop marks the table."""
    return (
        next(n for n, asked in enumerate(store.asked, 1) if asked == "put schema/schema-0")
        if ("put schema/schema-0" in store.asked)
        else len(store.asked)
    )


def _opens(store: MemoryStore) -> bool:
    try:
        return len(opened(store).snapshots()) == 2
    except TableNotFound as error:
        assert "being dropped" in error.message
        return False


def test_a_warm_handle_of_a_table_that_is_being_dropped_reports_it() -> None:
    store, table = started(2)
    store.at, store.strike = 6, die
    with pytest.raises(Died):
        drop(store)
    for use in (lambda: table.append(rows(1)), lambda: opened(store)):
        with pytest.raises(TableNotFound, match="being dropped"):
            use()


def test_only_files_of_the_format_are_deleted() -> None:
    """H16: others stay and are named; a table that lies below is never deleted."""
    store, table = started(2)
    table.create_branch("dev") if hasattr(table, "create_branch") else None
    for key in ("README.md", "notes/bucket.txt", "snapshots/x"):
        store.put(key, b"mine")
    for key in ("dt=1/bucket-0/data-1.parquet", "dt=1/_SUCCESS", "branch/branch-x/schema/schema-0", "lakelatch/j/1"):
        store.put(key, b"the table's")
    plan = plan_drop(store)
    assert plan.foreign == ("README.md", "notes/bucket.txt", "snapshots/x")
    assert (plan.snapshots, str(plan).endswith("3 files that are not the table's stay")) == (2, True)
    store.put("inner/schema/schema-0", b"{}")
    with pytest.raises(InvalidArgument, match="another table lies below it, at inner"):
        plan_drop(store)
    store.delete_many(["inner/schema/schema-0"])
    calls: list[tuple[int, int]] = []
    apply_drop(store, plan_drop(store), lambda *told: calls.append(told))
    assert calls[-1][0] == calls[-1][1] == len(plan.files)
    assert sorted(info.key for info in store.list("")) == ["README.md", "notes/bucket.txt", "snapshots/x"]


def test_a_table_in_a_data_directory_is_dropped_whole(tmp_path: Path) -> None:
    """Also its folders, and temporary files of writers that died; a damaged schema does not save a table."""
    url = f"{tmp_path}/t"
    table = ll.create_table(url, pa.schema([("v", pa.int64())]), options={"data-file.path-directory": "data"})
    table.append(rows(1))
    table.committer.settle()
    (tmp_path / "t/snapshot/.snapshot-2.x.tmp").write_text("half")
    assert ll.drop_table(url, dry_run=True).foreign == ()
    (tmp_path / "t/schema/schema-0").write_text("garbage")
    assert ll.drop_table(url, dry_run=True).foreign == (
        "data/bucket-0/" + next(tmp_path.glob("t/data/bucket-0/*")).name,
    )
    (tmp_path / "t/schema/schema-0").unlink()
    ll.drop_table(url)
    assert [path.name for path in (tmp_path / "t").iterdir()] == ["data"]


def test_a_rename_at_any_request_of_a_commit_loses_nothing() -> None:
    """H21: the commit is told so and is nowhere, or it is in the renamed table; the old place is no table."""
    store, table = started(2)
    table.append(rows(9))
    table.committer.settle()
    outcomes = set()
    for at in range(1, len(store.asked) + 1):
        store, table = started(2)
        plain, new = store.plain(), f"{store.url}-renamed"
        store.at, store.strike = at, lambda plain=plain, new=new: rename(plain, new)
        try:
            table.append(rows(9))
            landed: bool | None = True
        except TableNotFound as error:
            landed = False
            assert "dropped or renamed" in error.message
        except OutcomeUnknown as error:
            landed = None
            assert "moved with the table" in error.message or "on its way" in error.message
        table.committer.settle()
        outcomes.add(landed)
        moved = ll.open_table(new)
        held = sorted(moved.to_arrow()["v"].to_pylist())
        assert held in ([0, 1], [0, 1, 9])
        assert landed is None or (held == [0, 1, 9]) == landed
        assert looks_like_a_table(plain) == []
        assert moved.append(rows(5)).snapshot_id == len(held) + 1
    assert {True, False} <= outcomes


def test_a_rename_takes_no_place_that_holds_anything(tmp_path: Path) -> None:
    table = ll.create_table(f"{tmp_path}/a", pa.schema([("v", pa.int64())]))
    table.append(rows(1))
    (tmp_path / "b").mkdir()
    (tmp_path / "b/file").write_text("mine")
    with pytest.raises(TableExists, match="something is at"):
        ll.rename_table(f"{tmp_path}/a", f"{tmp_path}/b")
    with pytest.raises(InvalidArgument, match="into itself"):
        ll.rename_table(f"{tmp_path}/a", f"{tmp_path}/a/b")
    with pytest.raises(TableNotFound):
        ll.rename_table(f"{tmp_path}/none", f"{tmp_path}/c")
    assert ll.rename_table(f"{tmp_path}/a", f"{tmp_path}/deep/c").to_arrow().num_rows == 1
    assert (tmp_path / "b/file").read_text() == "mine"
