"""Read the changes between two states as rows with their kind, snapshot and time.

Owns: `read_changes`, `ChangeReader`, the columns that describe a change. Must not know: how a range was chosen, which files hold
changes, how rows are compared. Source: format/snapshot §4; format/primary-keys §8.
Invariants: The changes of a snapshot come together, in the order of the snapshots; where states are compared, rows that went come
before rows that came: within a range of keys, if there is a primary key. Memory holds the changed files of one partition where
rows without a key are compared, a range of keys where rows with one are, and a few row groups elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ...backends.store import Store
from ...coordinator.history.timeline import Timeline
from ...core import options as opt
from ...core.errors import InvalidArgument, TableCorrupt
from ...core.expressions.binding import condition_of
from ...core.expressions.evaluate import to_arrow_mask
from ...core.expressions.tree import Predicate
from ...core.metadata.schema import TableSchema
from ...core.metadata.schemas.merge_rules import VALUE_KIND, merge_rules
from ...core.rows.types import AtomicType, Field, string, timestamp
from ..formats.data_source import BATCH_ROWS
from ..reading.arrow import LOCAL_READ_THREADS, READ_THREADS, SplitReader, arrow_schema_of, fields_of, gathered
from ..reading.read_ahead import in_order
from ..scan.fallback import FileSchemas, file_schemas_of
from ..scan.refusals import check_schema_readable
from .key_changes import Mode, check_has_changelog
from .key_difference import KeyDifference
from .planning import ChangePlanner
from .row_difference import differing_rows
from .steps import ChangeStep
from .window import Window

ROW_KIND, SNAPSHOT_ID, COMMIT_TIME = "_row_kind", "_snapshot_id", "_commit_time"
DESCRIPTION_FIELDS = (
    Field(0, ROW_KIND, string()),
    Field(1, SNAPSHOT_ID, AtomicType("BIGINT")),
    Field(2, COMMIT_TIME, timestamp(3, local_zone=True)),
)
DESCRIPTION = pa.schema(
    [
        pa.field(ROW_KIND, pa.string(), nullable=False),
        pa.field(SNAPSHOT_ID, pa.int64(), nullable=False),
        pa.field(COMMIT_TIME, pa.timestamp("ms", tz="UTC"), nullable=False),
    ]
)
"""The columns that follow the rows' own: "+I", "-U", "+U" or "-D"; the snapshot that made the change, and its time."""
INSERT, BEFORE, AFTER, DELETE = "+I", "-U", "+U", "-D"
KINDS = (INSERT, BEFORE, AFTER, DELETE)


def changes_schema(schema: TableSchema, columns: Sequence[str] | None) -> pa.Schema:
    """The columns that were asked for, then `DESCRIPTION`, whose names no other column may have (`InvalidArgument`)."""
    chosen = arrow_schema_of(schema, columns)
    for name in DESCRIPTION.names:
        if name in chosen.names:
            raise InvalidArgument(
                f"column '{name}' of the table has a name that reads of changes need",
                next_step="leave it out with columns=[...], or rename it",
            )
    return pa.schema([*chosen, *DESCRIPTION])


def read_changes(
    timeline: Timeline,
    window: Window,
    schema: TableSchema,
    columns: Sequence[str] | None = None,
    where: Predicate | str | None = None,
    overwrites: bool = True,
    mode: Mode = "auto",
) -> pa.RecordBatchReader:
    """The changes of a range of snapshots, or between two states, in batches that are read as they are asked for.

    Args:
        window: made by `window_of` for the same mode.
        columns: the columns of the rows in the result. Rows are compared in all columns.
        overwrites: if False, only what Apache Paimon reads: appended rows, changelogs, and of a difference the rows of the
            later state.
        mode: where the changes of a table with a primary key are taken from (see `KeyChanges`).
    """
    planner = planner_of(timeline, window, schema, where, overwrites, mode)
    bound = condition_of(where, schema.fields)
    result = changes_schema(schema, columns)
    later_only = not overwrites and not window.by_snapshot

    def changes(steps: Callable[[], Iterator[ChangeStep]]) -> Iterator[pa.RecordBatch]:
        for step in steps():
            schemas = file_schemas_of(timeline, schema, step.splits)
            reader = ChangeReader(schema, columns, bound, schemas, later_only, memory)
            yield from reader.batches(timeline.store, step)

    local = timeline.store.capabilities.native_scheme == "file"
    threads = min(LOCAL_READ_THREADS if local else READ_THREADS, len(window.snapshots))
    memory = schema.options.get(opt.MERGE_MEMORY) // max(threads, 1)
    tasks = (partial(changes, steps) for steps in planner.steps_of(window))
    return pa.RecordBatchReader.from_batches(result, gathered(in_order(tasks, threads)))


def plan_changes(
    timeline: Timeline,
    window: Window,
    schema: TableSchema,
    columns: Sequence[str] | None = None,
    where: Predicate | str | None = None,
    overwrites: bool = True,
    mode: Mode = "auto",
    memory: int | None = None,
) -> tuple[list[ChangeStep], ChangeReader]:
    """All steps of a read of changes, and what reads them; arguments and errors as for `read_changes` and `ChangeReader`."""
    planner = planner_of(timeline, window, schema, where, overwrites, mode)
    planned = timeline.parallel(lambda steps: list(steps()), planner.steps_of(window))
    steps = [part for found in planned for step in found for part in step.parts()]
    schemas = file_schemas_of(timeline, schema, [split for step in steps for split in step.splits])
    bound = condition_of(where, schema.fields)
    return steps, ChangeReader(schema, columns, bound, schemas, not overwrites and not window.by_snapshot, memory)


def planner_of(
    timeline: Timeline, window: Window, schema: TableSchema, where: Predicate | str | None, overwrites: bool, mode: Mode
) -> ChangePlanner:
    check_schema_readable(schema)
    if mode == "changelog":
        check_has_changelog(window.snapshots, schema)
    bound = condition_of(where, schema.fields)
    return ChangePlanner(timeline, schema, bound, overwrites, mode)


class ChangeReader:
    """Reads steps into batches of changes. It can be pickled to another machine, and needs no metadata there.

    Args:
        where: a bound predicate that the rows of the result fulfil.
        file_schemas: the schemas that the steps' files name (see `file_schemas_of`).
        later_only: of rows that are compared by key, only those of the later state are told, as rows that came.
        memory: about how many bytes a comparison by key may take; None for option `read.merge-memory`.
    """

    def __init__(
        self,
        schema: TableSchema,
        columns: Sequence[str] | None,
        where: Predicate | None,
        file_schemas: FileSchemas,
        later_only: bool = False,
        memory: int | None = None,
    ) -> None:
        self.schema, self._where, self._file_schemas, self._later_only = schema, where, file_schemas, later_only
        self._rules = merge_rules(schema)
        self._memory = schema.options.get(opt.MERGE_MEMORY) if memory is None else memory
        self._columns = list(schema.names) if columns is None else list(columns)
        self.result = changes_schema(schema, columns)

    @property
    def output(self) -> tuple[Field, ...]:
        return (*fields_of(self.schema, self._columns), *DESCRIPTION_FIELDS)

    def check(self, store: Store, steps: Iterable[ChangeStep]) -> None:
        """Refuse (`Unsupported`), before any file is opened, a changed type from which there is no cast to the new one."""
        reader = SplitReader(self.schema, self._columns, self._where, self._file_schemas)
        reader.batches(store, [split for step in steps for split in step.splits])

    def batches(self, store: Store, step: ChangeStep) -> Iterator[pa.RecordBatch]:
        """The changes of a step. Errors as for `SplitReader`."""
        if step.gone:
            compared = self._compared(store, step) if self._rules is None else self._compared_by_key(store, step)
            for rows, kinds in compared:
                told = rows.append_column(ROW_KIND, kinds)
                for batch in told.to_batches(BATCH_ROWS):
                    yield self._described(batch, batch.column(ROW_KIND), step)
            return
        system = (VALUE_KIND,) if step.holds_kinds else ()
        reader = SplitReader(self.schema, self._columns, self._where, self._file_schemas, system)
        for batch in reader.batches(store, step.came):
            yield self._described(batch, _kinds_of(batch) if step.holds_kinds else INSERT, step)

    def _compared(self, store: Store, step: ChangeStep) -> Iterator[tuple[pa.Table, pa.Array]]:
        names = self.schema.names
        read = [*names, *(name for name in self._columns if name not in names)]
        reader = SplitReader(self.schema, read, self._where, self._file_schemas)
        old, new = (
            pa.Table.from_batches(reader.batches(store, splits), schema=reader.arrow_schema)
            for splits in (step.gone, step.came)
        )
        lost, added = differing_rows(old.select(names), new.select(names))
        for rows, positions, kind in ((old, lost, DELETE), (new, added, INSERT)):
            yield rows.take(pa.array(positions)), pa.repeat(pa.scalar(kind), len(positions))

    def _compared_by_key(self, store: Store, step: ChangeStep) -> Iterator[tuple[pa.Table, pa.Array]]:
        assert self._rules is not None
        difference = KeyDifference(self.schema, self._rules, self._file_schemas)
        for old, new, was_updated, is_updated in difference.ranges(store, step, self._memory):
            if self._later_only:
                sides = [(new, pa.repeat(pa.scalar(INSERT), new.num_rows))]
            else:
                sides = [(old, _chosen(was_updated, BEFORE, DELETE)), (new, _chosen(is_updated, AFTER, INSERT))]
            for rows, kinds in sides:
                if self._where is not None:
                    wanted = to_arrow_mask(self._where, rows)
                    rows, kinds = rows.filter(wanted), kinds.filter(wanted)
                yield rows, kinds

    def _described(self, rows: pa.RecordBatch, kinds: Any, step: ChangeStep) -> pa.RecordBatch:
        values: list[Any] = [step.snapshot_id, step.time_ms]
        told = [
            pa.repeat(pa.scalar(v, f.type), rows.num_rows) for v, f in zip(values, list(DESCRIPTION)[1:], strict=True)
        ]
        if isinstance(kinds, str):
            kinds = pa.repeat(pa.scalar(kinds), rows.num_rows)
        columns = [rows.column(name) for name in self._columns]
        return pa.RecordBatch.from_arrays([*columns, kinds, *told], schema=self.result)


def _kinds_of(batch: pa.RecordBatch) -> pa.Array:
    numbers = batch.column(VALUE_KIND.name)
    if numbers.null_count or not pc.all(pc.and_(pc.greater_equal(numbers, 0), pc.less(numbers, len(KINDS)))).as_py():
        raise TableCorrupt(f"a row has a kind (_VALUE_KIND) that is none of 0 to {len(KINDS) - 1}")
    return pa.array(KINDS).take(numbers)


def _chosen(mask: Any, yes: str, no: str) -> pa.Array:
    return pc.if_else(pa.array(mask), pa.scalar(yes), pa.scalar(no))
