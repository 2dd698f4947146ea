"""A table that was dropped, moved or made again is another table, and every handle of the old one reports it (H21)."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from fragile import Fragile
from histories import (
    FIELDS,
    copied,
    delete,
    filled,
    ids,
    make,
    opened,
    rows,
    sent_late,
    values,
)

import lakelatch as ll
from lakelatch.backends.memory import MemoryStore
from lakelatch.backends.store import PutOutcome, Unknown
from lakelatch.core.errors import OutcomeUnknown, TableNotFound


def drop(store: MemoryStore) -> None:
    store.delete_many([info.key for info in store.list("")])


def dropped_and_made(store: MemoryStore, *commits: int) -> Callable[[], None]:
    def happen() -> None:
        drop(store)
        make(store)
        filled(store, *commits)

    return happen


@pytest.mark.parametrize("commits", [0, 1, 3, 5], ids=["empty", "with one commit", "as many commits", "more commits"])
@pytest.mark.parametrize("when", ["before the commit", "at the publish"])
def test_a_table_that_was_dropped_and_made_again_is_another_one(store: Fragile, commits: int, when: str) -> None:
    """H21, G2: a warm writer of the old table gets an error each time, and the new table stays readable and writable."""
    table = filled(store, 1, 2, 3)
    again = [100 + n for n in range(commits)]
    if when == "at the publish":
        store.before["create snapshot/snapshot-4"] = dropped_and_made(store, *again)
    else:
        dropped_and_made(store, *again)()
    for _ in range(2):
        with pytest.raises(TableNotFound, match=r"dropped and made again.*open the table again"):
            table.append(rows(4))
        assert ids(store) == list(range(1, commits + 1))
        assert values(store) == again
    assert opened(store).append(rows(5)).snapshot_id == commits + 1
    assert values(store) == [5, *again]


@pytest.mark.parametrize("commits", [0, 1, 5])
def test_a_cold_writer_of_a_dropped_table_gets_an_error_before_it_writes(store: Fragile, commits: int) -> None:
    """H21."""
    filled(store, 1, 2, 3)
    cold = opened(store)
    dropped_and_made(store, *range(commits))()
    before = [info.key for info in store.list("")]
    with pytest.raises(TableNotFound, match="dropped and made again"):
        cold.append(rows(4))
    assert [info.key for info in store.list("")] == before


@pytest.mark.parametrize("warm", [True, False])
def test_a_table_that_was_dropped_is_not_made_again_by_its_writer(store: Fragile, warm: bool) -> None:
    """H21: no phantom table: nothing that was written is left."""
    table = filled(store, 1, 2)
    table = table if warm else opened(store)
    drop(store)
    with pytest.raises(TableNotFound, match="dropped or renamed"):
        table.append(rows(3))
    table.committer.settle()
    assert [info.key for info in store.list("")] == []


def test_a_renamed_table_gets_no_phantom_at_its_old_location(tmp_path: Path) -> None:
    """H21: on a local disk a rename is one step, and the writer's next publish creates the folder again."""
    old, new = tmp_path / "old", tmp_path / "new"
    table = ll.create_table(str(old), FIELDS)
    table.append(rows(1))
    table.append(rows(2))
    table.committer.settle()
    os.rename(old, new)
    for _ in range(2):
        with pytest.raises(TableNotFound, match="dropped or renamed"):
            table.append(rows(3))
        table.committer.settle()
        assert [path for path in old.rglob("*") if path.is_file()] == []
    assert not ll.is_table(str(old))
    moved = ll.open_table(str(new))
    assert moved.append(rows(4)).snapshot_id == 3
    assert sorted(moved.to_arrow()["v"].to_pylist()) == [1, 2, 4]


def test_a_table_that_moves_after_the_publish_takes_the_commit_along_so_nothing_is_denied(store: Fragile) -> None:
    """G2: the rows are in the renamed table: reported as not committed, they would be written twice."""
    table = filled(store, 1, 2)
    moved: list[Fragile] = []

    def move() -> None:
        moved.append(copied(store))
        drop(store)

    store.before["get snapshot/snapshot-2"] = move
    with pytest.raises(OutcomeUnknown, match="may have moved with the table"):
        table.append(rows(3))
    assert values(moved[0]) == [1, 2, 3]


def test_a_table_that_is_being_moved_is_left_alone(store: Fragile) -> None:
    """G2: copied with this snapshot, and only partly deleted: the rows may exist somewhere."""
    table = filled(store, 1, 2)

    def moving() -> None:
        store.delete_many([info.key for info in store.list("") if not info.key.startswith("snapshot/")])
        delete(store, 2)

    store.before["get snapshot/snapshot-2"] = moving
    with pytest.raises(OutcomeUnknown, match="on its way to another location"):
        table.append(rows(3))
    assert ids_of(store) == [1, 3]


def ids_of(store: MemoryStore) -> list[int]:
    names = [info.key.rpartition("-")[2] for info in store.list("snapshot/")]
    return sorted(int(name) for name in names if name.isdigit())


def test_a_snapshot_that_others_built_on_is_not_denied(store: Fragile) -> None:
    """G2: a writer of the new table took this snapshot for its own before it could be deleted."""
    table = filled(store, 1, 2)
    before = {info.key for info in store.list("")}

    def made_and_built_on() -> None:
        ours = {info.key: store.get(info.key) for info in store.list("") if info.key not in before}
        dropped_and_made(store)()
        for key, data in ours.items():
            store.put(key, data)
        MemoryStore.put_if_absent(store, "snapshot/snapshot-3", sent[-1])
        opened(store).append(rows(9))

    sent = sent_late(store, 3)
    store.before["create snapshot/snapshot-3"] = made_and_built_on
    with pytest.raises(OutcomeUnknown, match="snapshot 4 may have been built on it"):
        table.append(rows(3))


def test_a_late_send_may_still_land_on_the_new_table_so_nothing_is_denied(store: Fragile) -> None:
    """G2, H9: one send was never answered; the existing snapshot is deleted all the same."""
    table = filled(store, 1, 2)

    def lost() -> PutOutcome:
        dropped_and_made(store)()
        MemoryStore.put_if_absent(store, "snapshot/snapshot-3", sent[-1])
        return Unknown("timeout")

    sent = sent_late(store, 3)
    store.before["create snapshot/snapshot-3"] = lost
    with pytest.raises(OutcomeUnknown) as unknown:
        table.append(rows(3))
    assert ids(store) == []
    MemoryStore.put_if_absent(store, "snapshot/snapshot-3", sent[-1])
    with pytest.raises(OutcomeUnknown, match="made again"):
        unknown.value.resolve(timeout=0)
    assert ids(store) == []
    assert opened(store).append(rows(5)).snapshot_id == 1


def test_a_handle_that_was_opened_after_an_alter_knows_the_table_too(store: Fragile) -> None:
    """H21: the identity is schema 0, whichever schema is the newest."""
    filled(store, 1).alter(ll.add_column("w", "INT"))
    table = filled(store, 2)
    dropped_and_made(store, 5)()
    with pytest.raises(TableNotFound, match="made again"):
        table.append(rows(4))
    assert values(store) == [5]


def test_resolving_asks_the_table_for_its_identity(store: Fragile) -> None:
    """H21, G2: the name is free and there is no snapshot, as when it was sent; but it is another table."""
    table = opened(store)
    store.put_if_absent = lambda key, data: (  # type: ignore[method-assign]
        Unknown("timeout") if "snapshot-1" in key else MemoryStore.put_if_absent(store, key, data)
    )
    with pytest.raises(OutcomeUnknown) as unknown:
        table.append(rows(1))
    del store.put_if_absent
    dropped_and_made(store)()
    with pytest.raises(OutcomeUnknown, match="made again"):
        unknown.value.resolve(timeout=0)
    assert ids(store) == []


def test_a_table_without_a_trace_of_its_base_is_not_believed(store: Fragile) -> None:
    """G1, H25: this snapshot is alone, and EARLIEST does not show that older ones expired: perhaps a rollback to a tag."""
    table = filled(store, 1, 2)
    store.before["create snapshot/snapshot-3"] = lambda: delete(store, 1, 2)
    with pytest.raises(OutcomeUnknown, match="EARLIEST does not say that it was expired"):
        table.append(rows(3))


def test_a_move_of_the_table_has_time_to_reach_the_snapshot(store: Fragile) -> None:
    """G2: everything else is deleted, and this snapshot, which was copied, is deleted a moment later."""
    table = filled(store, 1, 2)

    def nearly_moved() -> None:
        store.delete_many([info.key for info in store.list("") if info.key != "snapshot/snapshot-3"])
        store.before["get snapshot/snapshot-2"] = lambda: delete(store, 3)

    store.before["get snapshot/snapshot-2"] = nearly_moved
    with pytest.raises(OutcomeUnknown, match="may have moved with the table"):
        table.append(rows(3))


def test_a_snapshot_that_others_build_on_while_it_is_deleted_is_not_denied(store: Fragile) -> None:
    """G2: the next snapshot is looked for once more after this one was deleted."""
    table = filled(store, 1, 2)
    before = {info.key for info in store.list("")}

    def made_again() -> None:
        ours = {info.key: store.get(info.key) for info in store.list("") if info.key not in before}
        dropped_and_made(store)()
        for key, data in ours.items():
            store.put(key, data)

    def built_on() -> None:
        other = copied(store)
        filled(other, 9)
        for info in other.list(""):
            store.put(info.key, other.get(info.key))

    store.before["create snapshot/snapshot-3"] = made_again
    store.before["delete snapshot/snapshot-3"] = built_on
    with pytest.raises(OutcomeUnknown, match="snapshot 4 may have been built on it"):
        table.append(rows(3))


def test_a_process_that_never_wrote_gets_an_error_that_the_table_is_gone(store: Fragile) -> None:
    """H21: before the store is probed with a schema that does not exist."""
    table = opened(store)
    drop(store)
    with pytest.raises(TableNotFound, match="dropped or renamed"):
        table.append(rows(1))
