"""Ranges as an engine of streams asks for them, with crashes between its steps: no change twice, none lost."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.table.following.consumer import start_of_consumer
from lakelatch.table.following.position import Position
from lakelatch.table.following.ranges import Limits, Ranges
from lakelatch.table.methods.streams import watched_timeline

COUNTER = itertools.count()
SCHEMA = pa.schema([("k", pa.int64())])


class Crash(Exception):
    """The engine's process ends."""


def ranges_of(table: ll.Table, start: Any, full: bool = False, limits: Limits | None = None) -> Ranges:
    timeline = watched_timeline(table)

    def begin(newest: Any) -> tuple[Position, bool]:
        return start_of_consumer(timeline, None, start, newest, full)[0], start == "latest"

    return Ranges(timeline, table.schema, begin, limits=limits)


def rows_of(ranges: Ranges, start: Position, end: Position) -> list[str]:
    """The changes of a range as texts, such as "3: +I 7"."""
    found = []
    for steps, reader in ranges.planned(ranges.between(start, end)):
        for step in steps:
            for batch in reader.batches(ranges.timeline.store, step):
                found += [f"{row['_snapshot_id']}: {row['_row_kind']} {row['k']}" for row in batch.to_pylist()]
    return sorted(found)


class Engine:
    """Runs batches as Spark does: offsets are logged before a batch, and its number is logged after it.

    Args:
        meanwhile: called between two questions to the table; another job may commit.
        tells_start: as from Spark 4.2 on, the beginning of a batch is told when its end is asked for. Earlier versions ask after
            a restart for the empty range at the last offset.
    """

    def __init__(
        self, table: ll.Table, chance: random.Random, tells_start: bool, meanwhile: Callable[[], Any], **about: Any
    ) -> None:
        self.table, self.chance, self.tells_start, self.about = table, chance, tells_start, about
        self.meanwhile = meanwhile
        self.offsets: list[Position] = []
        self.done = 0
        self.sink: dict[int, list[str]] = {}

    def life(self, batches: int) -> None:
        """One life of the engine's process."""
        ranges = ranges_of(self.table, **self.about)
        if self.offsets and not self.tells_start:
            assert ranges.between(self.offsets[-1], self.offsets[-1]) == []
        if self.done < len(self.offsets):
            self._batch(ranges, self.done)
        for _ in range(batches):
            if self.tells_start:
                start = self.offsets[-1] if self.offsets else ranges.initial()
                self.meanwhile()
                end = ranges.latest(start)
            else:
                end = ranges.latest()
            if self.offsets and end == self.offsets[-1]:
                continue
            self.offsets.append(Position.from_json(end.as_json()))
            self._batch(ranges, self.done)

    def _batch(self, ranges: Ranges, number: int) -> None:
        self._may_crash()
        start = self.offsets[number - 1] if number else Position.from_json(ranges.initial().as_json())
        rows = rows_of(ranges, start, self.offsets[number])
        if number in self.sink:
            assert self.sink[number] == rows, "a batch that is repeated has the same rows"
        else:
            self.sink[number] = rows
        self._may_crash()
        self.done = number + 1

    def _may_crash(self) -> None:
        if self.chance.random() < 0.3:
            raise Crash


def everything(table: ll.Table, after: int = 0) -> list[str]:
    changes = table.changes(after).read_all().to_pylist() if table.snapshot() is not None else []
    return sorted(f"{row['_snapshot_id']}: {row['_row_kind']} {row['k']}" for row in changes)


@pytest.mark.parametrize("tells_start", [False, True], ids=["4.1", "4.2"])
@pytest.mark.parametrize("start", ["earliest", "latest"])
@pytest.mark.parametrize("seed", range(6))
def test_an_engine_that_crashes_reads_each_change_once(start: str, tells_start: bool, seed: int) -> None:
    """Beside appends, overwrites, compactions and rollbacks, with limits and without."""
    chance = random.Random(seed)
    table = ll.create_table(f"memory://ranges-{next(COUNTER)}/t", SCHEMA)
    keys = itertools.count()

    def change() -> None:
        what = chance.random()
        newest = table.snapshot()
        if newest is None or newest.id == 1 or what < 0.7:
            table.append(pa.table({"k": [next(keys)]}))
        elif what < 0.8:
            table.overwrite(pa.table({"k": [next(keys)]}), partition={})
        elif what < 0.9:
            table.compact(full=True)
        else:
            table.rollback(snapshot=chance.randint(1, newest.id - 1))

    if seed:
        change()
    limits = Limits(snapshots=2) if seed % 3 == 1 else Limits(files=2) if seed % 3 == 2 else None
    engine = Engine(table, chance, tells_start, lambda: chance.random() < 0.5 and change(), start=start, limits=limits)
    for _ in range(6):
        for _ in range(chance.randint(0, 3)):
            change()
        try:
            engine.life(chance.randint(1, 3))
        except Crash:
            continue
    engine.meanwhile = lambda: None
    engine.chance = random.Random(0)
    engine.chance.random = lambda: 1.0  # type: ignore[method-assign]
    for _ in range(30):
        engine.life(3)
    first = 0 if start == "earliest" else engine.offsets[0].snapshot_id
    assert sorted(itertools.chain(*engine.sink.values())) == everything(table, first)
    if start == "latest":
        assert engine.sink[0] == [], "its beginning may be forgotten, so it has nothing that could be lost"


def test_a_state_is_a_range_of_its_own_and_is_repeated_as_it_was() -> None:
    table = ll.create_table(f"memory://ranges-{next(COUNTER)}/t", SCHEMA)
    table.append(pa.table({"k": [1]}))
    ranges = ranges_of(table, "latest", full=True)
    start, end = ranges.initial(), ranges.latest(ranges.initial())
    table.append(pa.table({"k": [2]}))
    assert rows_of(ranges, start, end) == ["1: +I 1"]
    again = ranges_of(table, "latest", full=True)  # after a crash, the initial place is asked for anew
    assert again.initial().snapshot_id == 2
    assert rows_of(again, again.initial(), end) == ["1: +I 1"]
    assert rows_of(again, end, again.latest()) == ["2: +I 2"]


def test_limits_end_a_range_before_the_snapshot_that_exceeds_them() -> None:
    table = ll.create_table(f"memory://ranges-{next(COUNTER)}/t", SCHEMA)
    for count in (1, 2, 3, 50, 1):
        table.append(pa.table({"k": list(range(count))}))
    size = sum(file.file.file_size for file in table.entries())

    def ends(limits: Limits) -> list[int]:
        ranges, found = ranges_of(table, "earliest", limits=limits), [0]
        while found[-1] < 5:
            end = ranges.latest()
            ranges.between(Position(found[-1]), end)
            found.append(end.snapshot_id)
        return found[1:]

    assert ends(Limits(snapshots=2)) == [2, 4, 5]
    assert ends(Limits(files=3)) == [3, 5]
    assert ends(Limits(rows=6)) == [3, 4, 5]
    assert ends(Limits(rows=1)) == [1, 2, 3, 4, 5], "a snapshot is never divided"
    assert ends(Limits(size=size)) == ends(Limits()) == [5]
    assert ends(Limits(snapshots=4, rows=3)) == [2, 3, 4, 5]


def test_a_frozen_stream_ends_at_what_was_newest() -> None:
    table = ll.create_table(f"memory://ranges-{next(COUNTER)}/t", SCHEMA)
    table.append(pa.table({"k": [1]}))
    ranges = ranges_of(table, "earliest")
    ranges.freeze()
    table.append(pa.table({"k": [2]}))
    end = ranges.latest(ranges.initial())
    assert end.snapshot_id == 1
    assert ranges.latest(end) == end


def test_a_range_that_has_expired_or_was_rolled_back_is_an_error() -> None:
    table = ll.create_table(f"memory://ranges-{next(COUNTER)}/t", SCHEMA)
    for key in range(4):
        table.append(pa.table({"k": [key]}))
    ranges = ranges_of(table, "earliest")
    end = ranges.latest()
    table.store.delete_many(["snapshot/snapshot-1", "snapshot/snapshot-2"])
    with pytest.raises(ll.InvalidArgument, match="after snapshot 1 are not all there"):
        ranges.between(Position(1), end)
    table.store.delete_many(["snapshot/snapshot-4", "snapshot/LATEST"])
    for ask in (lambda: ranges.between(Position(2), end), lambda: ranges_of(table, "earliest").latest(end)):
        with pytest.raises(ll.InvalidArgument, match="no longer part of the table's history"):
            ask()
    ll.open_table(table.url).append(pa.table({"k": [9]}))
    with pytest.raises(ll.InvalidArgument, match="no longer part of the table's history"):
        ranges_of(table, "earliest").between(Position(2), end)
    assert Counter(table.to_arrow()["k"].to_pylist())[9] == 1
