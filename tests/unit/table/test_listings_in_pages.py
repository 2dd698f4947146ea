"""Listings that take several requests, while others commit between two of them: in the order of keys, or in none, as directory
buckets of S3 list. A listing may then show a later snapshot, and not the one before it."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.backends.memory import MemoryStore
from lakelatch.backends.store import ObjectInfo
from lakelatch.table.table import Table

COUNTER = itertools.count()
BEGUN = 9
"""Snapshots at the beginning: those that come have longer names, which sort before others."""


def row(number: int) -> pa.Table:
    return pa.table({"v": [number]})


class Paged(MemoryStore):
    """Between the two pages of each listing of a folder something happens."""

    salt = -1
    between: Callable[[], object] = staticmethod(lambda: None)
    folder = "snapshot/"

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        if not self.folder.startswith(prefix):
            yield from super().list(prefix)
            return
        first = sorted(super().list(prefix), key=self._order)
        first = first[: len(first) // 2]
        yield from first
        self.between()
        passed = self._order(first[-1]) if first else ""
        yield from sorted((i for i in super().list(prefix) if self._order(i) > passed), key=self._order)

    def _order(self, info: ObjectInfo) -> str:
        return info.key if self.salt < 0 else hashlib.md5(f"{self.salt} {info.key}".encode()).hexdigest()


@pytest.fixture(params=[-1, 0, 1, 3])
def table(request: pytest.FixtureRequest) -> Table:
    """A table whose listings another writer meets with two commits, three times."""
    url = f"memory://pages-{next(COUNTER)}/t"
    made = ll.create_table(url, row(0).schema)
    for number in range(BEGUN):
        made.append(row(number))
    made.settle()
    other, commits = ll.open_table(url), iter(range(100, 106))

    def commit() -> None:
        for number in itertools.islice(commits, 2):
            other.append(row(number))
        other.settle()  # or the hint comes later, and a repair that looks in between plans to write it

    store = Paged(url)
    store.salt, store.between = request.param, commit
    return Table(store, made.schema, first_schema=made._first_schema)


LOOKS: dict[str, Callable[[Table], object]] = {
    "read": lambda t: t.to_arrow(),
    "append": lambda t: t.append(row(50)),
    "once more": lambda t: t.append(row(50), commit_user="u", identifier=1),
    "delete": lambda t: t.delete(where="v = 3"),
    "overwrite": lambda t: t.overwrite(row(7)),
    "undo": lambda t: t.undo(5),
    "tag": lambda t: t.create_tag("now"),
    "branch": lambda t: t.create_branch("dev"),
    "expire": lambda t: t.expire(retain_max=2, retain_min=1),
    "clean": lambda t: t.clean(),
    "verify": lambda t: t.verify(snapshots="all"),
    "follow": lambda t: list(t.follow("earliest", poll=0.01, wait=0)),
    "snapshots": lambda t: t.snapshots(),
    "changes": lambda t: t.changes(start=1).read_all(),
    "compact": lambda t: t.compact(),
    "explain": lambda t: t.explain(),
    "repair": lambda t: t.repair(),
}


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
def test_commits_between_two_pages_break_nothing(table: Table, look: Callable[[Table], object]) -> None:
    if (found := look(table)) is not None and isinstance(found, list) and found and hasattr(found[0], "severity"):
        assert found == []
    plain = ll.open_table(table.url)
    assert plain.verify(snapshots="all", data=True) == []
    ids = [snapshot.id for snapshot in plain.snapshots()]
    assert ids == list(range(ids[0], ids[-1] + 1)) and ids[-1] >= BEGUN
    kept = set(plain.to_arrow()["v"].to_pylist())
    taken = {"delete": {3}, "undo": {4}}
    if look is not LOOKS["overwrite"]:
        gone = next((rows for name, rows in taken.items() if look is LOOKS[name]), set[int]())
        assert set(range(BEGUN)) - gone <= kept
    repaired = LOOKS["repair"](table)
    assert repaired.steps == ()  # type: ignore[attr-defined]
