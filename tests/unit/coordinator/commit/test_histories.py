"""Random histories of concurrent jobs, compared with a simple model of the isolation table.

The model knows files, rows and deletion marks, and for each commit the changes of other writers between its start and its
publish. It decides whether the commit must land or must conflict, and which rows exist afterwards. It is written from
architecture §3, not from the code.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from changes import index_of, marked_rows, rewritten, vector_file, written
from hypothesis import example, given, settings
from hypothesis import strategies as st

import lakelatch as ll
from lakelatch.backends.memory import MemoryStore
from lakelatch.backends.store import PutOutcome
from lakelatch.coordinator.commit.request import CommitRequest
from lakelatch.coordinator.commit.settling.index_files import with_vectors_of
from lakelatch.core.errors import CommitConflict
from lakelatch.core.metadata.change import owner_of
from lakelatch.core.metadata.data_file import DELETE, SOURCE_COMPACT, ManifestEntry
from lakelatch.core.places import FileKeys, codec_of
from lakelatch.table.table import Table

COUNTER = itertools.count()
SCHEMA = pa.schema([("part", pa.string()), ("v", pa.int64())])
OPTIONS = {"commit.min-retry-wait": "1 ms", "commit.max-retry-wait": "2 ms", "manifest.merge-min-count": "4"}
PARTS = ("a", "b")


# ---------------------------------------------------------------------------------------------------------- the model


@dataclass
class Held:
    """A data file in the model: its rows in order, and the marked positions."""

    part: str
    rows: tuple[int, ...]
    marks: set[int] = field(default_factory=set)

    @property
    def left(self) -> list[int]:
        return [row for position, row in enumerate(self.rows) if position not in self.marks]


State = dict[str, Held]


@dataclass
class Done:
    """The effects of a commit that landed, as the isolation table sees them."""

    what: str
    added: dict[str, str]
    removed: dict[str, str]
    marked: set[str]
    empty: set[str] = field(default_factory=set)
    """Those of the removed files that held no row any more, all of them being marked: no row changes with them."""

    def changes(self, parts: Iterable[str]) -> bool:
        """Are there other rows in these partitions afterwards?"""
        removed = (part for name, part in self.removed.items() if name not in self.empty)
        return bool({*self.added.values(), *removed}.intersection(parts))

    def touches(self, parts: Iterable[str]) -> bool:
        return bool({*self.added.values(), *self.removed.values()}.intersection(parts))


def replaced_by(read: State, parts: Sequence[str], since: Sequence[Done], serializable: bool) -> set[str] | None:
    """The files that an overwrite of partitions removes; None where it is a conflict."""
    ours = {name for name, held in read.items() if held.part in parts}
    for done in since:
        reaches = done.touches if done.what == "rollback" else done.changes
        if done.what in ("overwrite", "drop", "rollback") and reaches(parts):
            return None
        ours -= done.empty
        if done.marked & ours or (done.what == "append" and serializable and done.touches(parts)):
            return None
        if done.what == "compact":
            mixed = ours & set(done.removed)
            if mixed and mixed != set(done.removed):
                return None
            if mixed:
                ours = (ours - mixed) | set(done.added)
    return ours


# -------------------------------------------------------------------------------------------------------- the real one


class Raced(MemoryStore):
    """Runs the changes of other writers before the first, second, … create of a snapshot."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.windows: list[Callable[[], None]] = []

    def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
        if key.startswith("snapshot/snapshot-") and self.windows:
            others, rest = self.windows[0], self.windows[1:]
            self.windows = []
            others()
            self.windows = rest
        return super().put_if_absent(key, data)


@dataclass(frozen=True)
class Step:
    """A job: its operation, its partition, and the jobs that run between its start and its first, second, … publish."""

    what: str
    parts: tuple[str, ...]
    number: int
    serializable: bool
    windows: tuple[tuple[Step, ...], ...] = ()


class Histories:
    """The table and the model beside it."""

    def __init__(self) -> None:
        self.store = Raced(f"memory://histories-{next(COUNTER)}/t")
        made = ll.create_table(self.store.url, SCHEMA, partition_by=["part"], options=OPTIONS)
        self.schema = made.schema
        self.state: State = {}
        self.states: dict[int, State] = {}
        self.done: list[Done] = []
        self.values = itertools.count(1)
        self.told: list[str] = []

    def open(self) -> Table:
        return Table(self.store, self.schema)

    def entries(self, part: str) -> list[ManifestEntry]:
        return [e for e in self.open().entries() if self.state[e.file.file_name].part == part]

    def new_rows(self, parts: Iterable[str], count: int) -> dict[str, tuple[int, ...]]:
        return {part: tuple(next(self.values) for _ in range(count)) for part in parts}

    # ------------------------------------------------------------------------------------------------------- one job

    def run(self, step: Step) -> None:
        """Run the job, with the other jobs in between, and compare it with the model."""
        began, read = len(self.done), deepcopy(self.state)
        rows = self.new_rows(step.parts, 1 + step.number % 3)
        job: Callable[[], Any] | None
        wanted: Callable[[Sequence[Done]], tuple[str, State, set[str]]]
        job, wanted = getattr(self, f"plan_{step.what}")(step, read, rows)
        if job is None:
            return
        self.store.windows = [lambda steps=steps: [self.run(s) for s in steps] for steps in step.windows]  # type: ignore[misc]
        try:
            job()
            landed = True
        except CommitConflict as conflict:
            landed = False
            self.told.append(str(conflict))
        finally:
            self.store.windows = []
        verdict, state, fresh = wanted(self.done[began:])
        assert verdict in (("lands", "either") if landed else ("conflicts", "either")), (step, verdict, self.told[-1:])
        if landed:
            self.land(step.what, state, fresh, rows)
        self.check()

    def land(self, what: str, state: State, fresh: set[str], rows: dict[str, tuple[int, ...]]) -> None:
        """Apply a landed commit to the model; new files have the table's names."""
        names = {e.file.file_name: e for e in self.open().entries()}
        before = self.state
        unknown = set(names) - set(state)
        assert len(unknown) == len(fresh), (what, unknown, fresh)
        for name in unknown:
            part = self.part_of(names[name])
            state[name] = Held(part, rows[part])
        assert set(state) == set(names), what
        self.state = state
        marked = {n for n in set(before) & set(state) if before[n].marks != state[n].marks}
        added = {n: state[n].part for n in set(state) - set(before)}
        removed = {n: before[n].part for n in set(before) - set(state)}
        empty = {n for n in removed if not before[n].left}
        self.done.append(Done(what, added, removed, marked, empty))
        snapshot = self.open().timeline.latest()
        assert snapshot is not None
        self.states[snapshot.id] = deepcopy(state)

    def part_of(self, entry: ManifestEntry) -> str:
        return str(codec_of(self.schema).decode(entry.partition)[0])

    def check(self) -> None:
        """The table's rows and counts equal the model's."""
        table = self.open()
        snapshot = table.timeline.latest()
        if snapshot is None:
            return
        assert sorted(table.to_arrow()["v"].to_pylist()) == sorted(v for h in self.state.values() for v in h.left)
        assert snapshot.total_record_count == sum(len(h.rows) for h in self.state.values())
        assert table.count() == sum(len(h.left) for h in self.state.values())
        marks = {name: held.marks for name, held in self.state.items() if held.marks}
        assert {n: m for n, m in marked_rows(table).items() if m} == marks
        assert table.verify() == []

    # ----------------------------------------------------------------------------------------------- what jobs there are

    def plan_append(self, step: Step, read: State, rows: dict[str, tuple[int, ...]]) -> Any:
        part = step.parts[0]
        only = {part: rows[part]}
        return lambda: self.open().append(data_of(only)), lambda since: ("lands", dict(self.state), {part})

    def plan_overwrite(self, step: Step, read: State, rows: dict[str, tuple[int, ...]]) -> Any:
        """Replace one partition, or dynamically all partitions of the rows."""
        isolation: Any = "serializable" if step.serializable else "snapshot"
        more: Any = {"dynamic": True} if len(step.parts) > 1 else {"partition": {"part": step.parts[0]}}

        def wanted(since: Sequence[Done]) -> tuple[str, State, set[str]]:
            gone = replaced_by(read, step.parts, since, step.serializable)
            if gone is None:
                return "conflicts", {}, set()
            return "lands", {n: h for n, h in self.state.items() if n not in gone}, set(step.parts)

        return lambda: self.open().overwrite(data_of(rows), isolation=isolation, **more), wanted

    def plan_drop(self, step: Step, read: State, rows: dict[str, tuple[int, ...]]) -> Any:
        def wanted(since: Sequence[Done]) -> tuple[str, State, set[str]]:
            gone = replaced_by(read, step.parts, since, False)
            if gone is None:
                return "conflicts", {}, set()
            return "lands", {n: h for n, h in self.state.items() if n not in gone}, set()

        return lambda: self.open().drop_partitions([{"part": p} for p in step.parts]), wanted

    def plan_rollback(self, step: Step, read: State, rows: dict[str, tuple[int, ...]]) -> Any:
        latest = self.open().timeline.latest()
        if latest is None or latest.id < 2:
            return None, None
        target = 1 + step.number % (latest.id - 1)
        back = deepcopy(self.states[target])

        def wanted(since: Sequence[Done]) -> tuple[str, State, set[str]]:
            gone = replaced_by(read, PARTS, since, step.serializable)
            if gone is None:
                return "conflicts", {}, set()
            return "lands", {**{n: h for n, h in self.state.items() if n not in gone}, **back}, set()

        isolation: Any = "serializable" if step.serializable else "snapshot"
        return lambda: self.open().rollback(snapshot=target, isolation=isolation), wanted

    def plan_compact(self, step: Step, read: State, rows: dict[str, tuple[int, ...]]) -> Any:
        """Compact all or some files of a partition into one."""
        part = step.parts[0]
        inputs = self.entries(part)[: 1 + step.number]
        if not inputs:
            return None, None
        table, names = self.open(), {e.file.file_name for e in inputs}
        left = tuple(row for e in inputs for row in read[e.file.file_name].left)
        output = written(table, data_of({part: left})) if left else ()
        owners = {owner_of(e) for e in inputs}
        index, uploads = with_vectors_of(
            self.store,
            FileKeys(self.schema),
            index_of(table),
            lambda owner: owner not in owners,
            lambda: f"index-compacted-{next(COUNTER)}",
        )
        request = CommitRequest(
            "COMPACT",
            tuple(rewritten(inputs, output, SOURCE_COMPACT)),
            "compactor",
            index_entries=index,
            uploads=uploads,
            read_snapshot=table.timeline.latest(),
        )
        rows[part] = left

        def wanted(since: Sequence[Done]) -> tuple[str, State, set[str]]:
            if any(names & (set(done.removed) | done.marked) for done in since):
                return "conflicts", {}, set()
            verdict = "either" if index and any(self.in_index(done, part) for done in since) else "lands"
            return verdict, {n: h for n, h in self.state.items() if n not in names}, {part} if left else set()

        return lambda: table.committer.commit(request), wanted

    def plan_delete(self, step: Step, read: State, rows: dict[str, tuple[int, ...]]) -> Any:
        """Delete one row of one file like Apache Paimon: the vector files of the partition are merged into one."""
        part, table = step.parts[0], self.open()
        found = [e for e in self.entries(part) if read[e.file.file_name].left]
        if not found:
            return None, None
        entry = found[step.number % len(found)]
        name, held = entry.file.file_name, read[entry.file.file_name]
        position = next(p for p in range(len(held.rows)) if p not in held.marks)
        old = [e for e in index_of(table) if e.partition == entry.partition]
        marks = {v.data_file: read[v.data_file].marks for e in old for v in e.file.deletion_vectors or ()}
        new, upload = vector_file(entry.partition, entry.bucket, {**marks, name: {*held.marks, position}})
        request = CommitRequest(
            ("OVERWRITE", "APPEND", "COMPACT")[step.number % 3],  # type: ignore[arg-type]
            (),
            "deleter",
            index_entries=(*(replace(e, kind=DELETE) for e in old), new),
            uploads=(upload,),
            read_snapshot=table.timeline.latest(),
        )

        def wanted(since: Sequence[Done]) -> tuple[str, State, set[str]]:
            if any(name in done.removed or name in done.marked for done in since):
                return "conflicts", {}, set()
            state = deepcopy(self.state)
            if name in state:
                state[name].marks = {*held.marks, position}
            return ("either" if any(self.in_index(done, part) for done in since) else "lands"), state, set()

        return lambda: table.committer.commit(request), wanted

    def in_index(self, done: Done, part: str) -> bool:
        """Whether a commit may have changed the vector files of a partition."""
        return done.what != "append" and (done.touches([part]) or bool(done.marked) or done.what == "rollback")


def data_of(rows: dict[str, tuple[int, ...]]) -> pa.Table:
    pairs = [(part, value) for part, found in rows.items() for value in found]
    return pa.table({"part": [p for p, _ in pairs], "v": pa.array([v for _, v in pairs], pa.int64())})


# -------------------------------------------------------------------------------------------------------- the histories

KINDS = ("append", "append", "overwrite", "overwrite", "drop", "compact", "compact", "delete", "delete", "rollback")
WHERE = st.sampled_from([("a",), ("a",), ("a",), ("b",), ("a", "b")])


def steps(windows: st.SearchStrategy[Any]) -> st.SearchStrategy[Step]:
    return st.builds(Step, st.sampled_from(KINDS), WHERE, st.integers(0, 7), st.booleans(), windows)


ALONE = steps(st.just(()))
BESIDE_OTHERS = steps(st.lists(st.lists(ALONE, min_size=1, max_size=3).map(tuple), max_size=3).map(tuple))


def story(*others: tuple[str, int], first: tuple[tuple[str, int], ...] = ()) -> list[Step]:
    """An overwrite of partition a, the changes before it, and the changes of other writers while it runs."""
    before = [Step(what, ("a",), number, False) for what, number in first]
    return [*before, Step("overwrite", ("a",), 1, False, (tuple(Step(w, ("a",), n, False) for w, n in others),))]


@example(story(("drop", 0), first=(("delete", 0), ("delete", 0), ("delete", 0))))
@example(story(("append", 2), ("compact", 7)))
@example(story(("append", 2), ("delete", 1)))
@example(story(("append", 2), ("delete", 1), first=(("delete", 0),)))
@example(story(("compact", 0)))
@example(story(("compact", 7), first=(("delete", 0),)))
@example(story(("compact", 7), ("delete", 0)))
@example(story(("rollback", 1), first=(("append", 0), ("delete", 0))))
@example(story(("rollback", 1), first=(("append", 0), ("delete", 1))))
@settings(max_examples=25, deadline=None)
@given(st.lists(BESIDE_OTHERS, min_size=2, max_size=8))
def test_every_commit_lands_or_conflicts_as_the_isolation_table_says(history: list[Step]) -> None:
    """G1, H13, H22: and the rows and all counts are exactly those that the table promises."""
    both = Histories()
    for part in PARTS:
        both.run(Step("append", (part,), 2, False))
    for step in history:
        both.run(step)
    assert both.open().verify(data=True) == []
