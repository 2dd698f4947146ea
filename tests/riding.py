"""A table with a primary key on which an upsert loses a race, asks to be carried, and meets the commit that carries it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pyarrow as pa
from unit.coordinator.commit.test_group import Hooked

import lakelatch as ll
from lakelatch.backends.memory import MemoryStore
from lakelatch.coordinator.history.row_numbers import RowNumbers, row_numbers
from lakelatch.coordinator.intents.carried import riders_of
from lakelatch.core.metadata.data_file import ManifestEntry
from lakelatch.core.metadata.snapshot import Snapshot
from lakelatch.table.table import Table
from lakelatch.table.writing.beginning import Beginning

FIELDS = pa.schema([pa.field("k", pa.int64(), nullable=False), ("a", pa.int64()), ("b", pa.string())])
OPTIONS = {"commit.group": "auto", "commit.min-retry-wait": "1 ms", "bucket": "2", "write-only": "true"}
ENGINES: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "partial-update": {"merge-engine": "partial-update"},
    "aggregation": {"merge-engine": "aggregation", "fields.a.aggregate-function": "sum"},
    "first-row": {"merge-engine": "first-row"},
}
NOON = 1_800_000_000_000
ASKED = "lakelatch/intents/"
Row = tuple[int, int | None, str | None]
Job = Callable[[Table], ll.Receipt]


def data(*rows: Row) -> pa.Table:
    return pa.table([pa.array(column, kind.type) for column, kind in zip(zip(*rows, strict=True), FIELDS, strict=True)],
                    schema=FIELDS)  # fmt: skip


@contextmanager
def began(ms: int) -> Iterator[None]:
    """Jobs of this block begin so many milliseconds after noon."""
    with patch.object(Beginning, "now", lambda: Beginning(NOON + ms, 0.5)):
        yield


def upserts(*rows: Row, at: int = 0, **more: Any) -> Job:
    """A job that began at a moment. A row whose last value is "-" deletes its key."""

    def job(table: Table) -> ll.Receipt:
        with began(at):
            kinds = pa.array(["-D" if row[2] == "-" else "+I" for row in rows])
            changes = data(*rows).append_column("op", kinds) if "-D" in kinds.to_pylist() else data(*rows)
            receipt = table.upsert(changes, row_kind="op" if "op" in changes.column_names else None, **more)
        table.committer.settle()
        return receipt

    return job


BASE = upserts((1, 10, "base"), (2, 20, "base"), at=-1000)
WINNER = upserts((3, 30, "winner"), at=50)


class Keys:
    """A table with one snapshot, a writer whose next create of a snapshot loses, and another that carries it."""

    def __init__(self, options: Mapping[str, str] | None = None, *, partition_by: Sequence[str] = ()) -> None:
        self.url = f"memory://riding-{uuid.uuid4()}/t"
        made = ll.create_table(
            self.url, FIELDS, primary_key=["k", *partition_by], partition_by=list(partition_by),
            options={**OPTIONS, **(options or {})},
        )  # fmt: skip
        BASE(made)
        self.store = Hooked(self.url)
        self.schema = made.schema
        self.table = Table(self.store, self.schema)
        self.other = Table(MemoryStore(self.url), self.schema)

    def loses(self, to: Job | None = None) -> None:
        """The next snapshot of the table is another's."""
        job = to or WINNER
        self.store.before["snapshot/snapshot-"] = lambda: job(self.other)

    def lead(self, job: Job) -> ll.Receipt:
        """Another commits that looks whom it can carry."""
        self.other.committer.meet(3, 0.001)
        return job(self.other)

    def meets(self, first: Job, second: Job, *, winner: Job | None = None) -> tuple[ll.Receipt, ll.Receipt]:
        """The first job loses to a winner and asks to be carried; then the second commits, which looks whom it can carry."""
        led = list[ll.Receipt]()
        self.loses(winner)
        self.store.after[ASKED] = lambda: led.append(self.lead(second))
        receipt = first(self.table)
        assert led, "the first job asked nobody"
        return receipt, led[0]

    @property
    def fresh(self) -> Table:
        return ll.open_table(self.url)

    @property
    def latest(self) -> Snapshot:
        found = self.fresh.timeline.latest()
        assert found is not None
        return found

    @property
    def said(self) -> RowNumbers | None:
        return row_numbers(self.latest)

    @property
    def riders(self) -> list[str]:
        return [str(one) for one in riders_of(self.latest)]

    @property
    def has_asked(self) -> bool:
        return ASKED not in self.store.after

    @property
    def entries(self) -> list[ManifestEntry]:
        return self.fresh.entries()

    def rows(self, *, compacted: bool = False) -> list[Row]:
        """The rows that readers see, by key."""
        if compacted:
            self.fresh.compact(full=True)
        found = self.fresh.to_arrow(columns=["k", "a", "b"])
        return sorted(zip(*(column.to_pylist() for column in found.columns), strict=True)) if found.num_rows else []

    def whole(self) -> bool:
        return not self.problems

    @property
    def problems(self) -> list[str]:
        """What a check of the whole table finds."""
        return [str(found) for found in self.fresh.verify("all", data=True)]


def in_turn(options: Mapping[str, str], *jobs: Job) -> list[Row]:
    """The rows after some jobs, each of which began after the one before had ended."""
    world = Keys(options)
    for job in jobs:
        job(world.fresh)
    return world.rows(compacted=True)
