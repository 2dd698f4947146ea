"""An undo or a rollback whose process dies at any of its requests lands once when it runs again, and leaves one tag
(G1, G3, G7, H5).

By day every ninth request is tried, each case beginning with another one; `LAKELATCH_NIGHTLY=1` tries all.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from changes import delete_rows
from dying_store import Died, DyingStore, contents
from figures import NIGHTLY

import lakelatch as ll
from lakelatch.backends.memory import MemoryStore
from lakelatch.coordinator.maintenance.orphans import apply_clean, plan_orphans
from lakelatch.core.errors import InvalidArgument
from lakelatch.table.table import Table

COUNTER = itertools.count()
SCHEMA = pa.schema([("p", pa.string()), ("v", pa.int64())])
KEYED = pa.schema([pa.field("k", pa.int32(), nullable=False), ("v", pa.string())])
STEP = 1 if NIGHTLY else 9
NEVER_MS = 2**62


def overwritten() -> Table:
    """1: 1; 2: 1, 2; 3: 3; 4: 3, 4."""
    table = ll.create_table(f"memory://undo-at-requests-{next(COUNTER)}/t", SCHEMA, partition_by=["p"])
    table.append(pa.table({"p": ["a"], "v": [1]}))
    table.append(pa.table({"p": ["a"], "v": [2]}))
    table.overwrite(pa.table({"p": ["a"], "v": [3]}), partition={"p": "a"})
    table.append(pa.table({"p": ["b"], "v": [4]}))
    return table


def marked() -> Table:
    """1: 1, 2; 2: 3, 4; 3: 2, 3, 4; 4: 2, 4. The vectors of both files are in one index file."""
    url, options = f"memory://undo-at-requests-{next(COUNTER)}/t", {"deletion-vectors.enabled": "true"}
    table = ll.create_table(url, SCHEMA, options=options)
    for values in ([1, 2], [3, 4]):
        table.append(pa.table({"p": ["a", "a"], "v": values}))
    names = [row["file_path"].rpartition("/")[2] for row in table.files().to_pylist()]
    for name in names:
        delete_rows(table, {name: [0]})
    return table


def keyed() -> Table:
    """1: 1 2; 2: a compaction; 3: 2 with another value."""
    url = f"memory://undo-at-requests-{next(COUNTER)}/t"
    table = ll.create_table(
        url, KEYED, primary_key=["k"], options={"bucket": "-1", "dynamic-bucket.target-row-num": "3"}
    )
    table.upsert(pa.table({"k": [1, 2], "v": ["a", "a"]}).cast(KEYED))
    table.compact(full=True)
    table.upsert(pa.table({"k": [2], "v": ["b"]}).cast(KEYED))
    return table


def undo(commit: int) -> Callable[[Table], Any]:
    return lambda table: table.undo(commit, commit_user="ops", identifier=7)


def roll_back(table: Table) -> Any:
    return table.rollback(snapshot=2, commit_user="ops", identifier=7)


CASES: dict[str, tuple[Callable[[], Table], Callable[[Table], Any], bool]] = {
    "an overwrite": (overwritten, undo(3), False),
    "an overwrite, answered": (overwritten, undo(3), True),
    "an append": (overwritten, undo(4), True),
    "deleted rows": (marked, undo(3), False),
    "an upsert": (keyed, undo(3), True),
    "a rollback": (overwritten, roll_back, False),
}
"""Table, operation, and whether the request at which it dies still takes effect."""


def filled(objects: dict[str, bytes]) -> DyingStore:
    store = DyingStore(f"memory://undo-at-requests-{next(COUNTER)}/t")
    for key, data in objects.items():
        MemoryStore.put(store, key, data)
    return store


def opened(store: Any) -> Table:
    return Table(store, ll.open_table(store.url).schema)


def rows(table: Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.to_arrow().to_pylist())


def state(store: DyingStore) -> Any:
    """Rows, snapshots and tags, and, once orphans are deleted, the number of files in each folder."""
    table = opened(MemoryStore(store.url))
    assert table.verify("all", data=True) == []
    apply_clean(plan_orphans(table.timeline, table.schema, NEVER_MS))
    assert table.verify("all", data=True) == []
    kinds = [(s.id, s.commit_kind, s.commit_user == "ops") for s in table.snapshots()]
    folders = Counter(key.rpartition("/")[0] for key in contents(store))
    return rows(table), kinds, [(tag.name, tag.snapshot.id) for tag in table.tags()], folders


@pytest.mark.parametrize("case", CASES)
def test_an_undo_that_dies_at_any_request_lands_once_when_it_runs_again(case: str) -> None:
    make, operate, applied = CASES[case]
    made = make()
    made.committer.settle()
    objects, before = contents(made.store), rows(made)  # type: ignore[arg-type]
    whole = filled(objects)
    _ended(operate, opened(whole))
    wanted = state(whole)
    assert wanted[0] != before and len(wanted[2]) == 2 * (case not in ("an append", "deleted rows", "an upsert"))
    for last in itertools.count(1 + len(case) % STEP, STEP):
        store = filled(objects)
        table = opened(store)
        store.requests, store.last, store.applied = 0, last, applied
        died = True
        try:
            _ended(operate, table)
            died = False
        except Died:
            pass
        store.last = 10**9
        if died:
            seen = opened(store)
            assert rows(seen) in (before, wanted[0]), f"died at request {last}"
            assert seen.verify("all", data=True) == [], f"died at request {last}"
            _ended(operate, seen)
        assert state(store) == wanted, f"died at request {last}"
        if not died:
            break
    assert last > 8


def _ended(operate: Callable[[Table], Any], table: Table) -> None:
    operate(table)
    table.committer.settle()


def test_a_tag_of_its_name_that_holds_another_snapshot_is_named() -> None:
    table = overwritten()
    undo(3)(table)
    tag, _ = table.tags()
    other = overwritten()
    other.create_tag(tag.name, snapshot=1)
    with pytest.raises(InvalidArgument, match=f"{tag.name} holds another snapshot than 2"):
        undo(3)(other)
    assert [(t.name, t.snapshot.id) for t in other.tags()] == [(tag.name, 1)]
