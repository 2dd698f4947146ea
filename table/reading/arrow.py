"""Read the rows of a plan's splits as Arrow batches.

Owns: `read_batches`, `SplitReader`, `arrow_schema_of`; the columns that a result and a filter need; partition columns.
Must not know: how files were chosen, formats. Source: format/data-files §1, §5.

Invariants: The value of a partition column is the manifest's, never the file's or the path's. The types of the result are those
of `core.rows.arrow`. Rows are filtered as Arrow columns. Memory holds the row groups of a few files, whatever the table's size.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from ...backends.store import Store
from ...coordinator.history.timeline import Timeline
from ...core import arguments
from ...core import options as opt
from ...core.arguments import plain
from ...core.errors import InvalidArgument, TableCorrupt
from ...core.expressions.evaluate import to_arrow_mask
from ...core.expressions.tree import Predicate, columns_of
from ...core.metadata.schema import ROW_ID, ROW_SEQUENCE, TableSchema
from ...core.metadata.schemas.merge_rules import merge_rules
from ...core.places import codec_of
from ...core.rows import sizes
from ...core.rows.arrow import arrow_schema, to_arrow
from ...core.rows.partition import closest
from ...core.rows.types import Field
from ...core.rows.values import to_arrow_scalar
from ..formats.data_source import BATCH_ROWS
from ..formats.external import located
from ..formats.file_rows import Rows
from ..scan.fallback import FileSchemas, file_schemas_of
from ..scan.index_pruning import IndexPruner
from ..scan.plan import ScanPlan
from ..scan.split import Split
from .deletion import deleted_rows, live_mask, selected_mask
from .read_ahead import in_order
from .referrers import with_referrer
from .run_reader import RunReader
from .section_reader import SectionReader

READ_THREADS = 8
"""The number of files that are read at once from a store across a network."""
LOCAL_READ_THREADS = 4
_SMALL_BATCH_ROWS = 1 << 12


def arrow_schema_of(schema: TableSchema, columns: Sequence[str] | None) -> pa.Schema:
    """The Arrow schema of a read. `InvalidArgument`: an unknown column (lists similar names), or one that is named twice.

    Tables with option `row-tracking.enabled` also have `_ROW_ID` and `_SEQUENCE_NUMBER`, which are read only if they are named.
    """
    return arrow_schema(fields_of(schema, columns))


def fields_of(schema: TableSchema, columns: Sequence[str] | None) -> tuple[Field, ...]:
    if columns is None:
        return schema.fields
    columns = arguments.names(columns, "columns", alone=False)
    known = schema.by_name
    if schema.options.get(opt.ROW_TRACKING):
        known = known | {ROW_ID.name: ROW_ID, ROW_SEQUENCE.name: ROW_SEQUENCE}
    for name in columns:
        if name not in known:
            raise InvalidArgument(f"there is no column '{name}'", next_step=closest(str(name), list(known)))
    if len(set(columns)) != len(columns):
        raise InvalidArgument(f"a column is named twice: {list(columns)}")
    return tuple(known[name] for name in columns)


def read_batches(
    timeline: Timeline,
    plan: ScanPlan,
    schema: TableSchema,
    columns: Sequence[str] | None = None,
    limit: int | None = None,
    merge_memory: int | str | None = None,
) -> Iterator[pa.RecordBatch]:
    """Read the rows of a plan that was made for the same schema; no columns give the right number of rows.

    `merge_memory` is as for `Table.to_batches`.

    Raises:
        TableCorrupt: a file is missing or damaged; names it.
        Unsupported: a column's type was changed, and there is no cast from the old type to the new one.
        InvalidArgument: `columns`, `limit` or `merge_memory` is not valid, or a text cannot be cast to its column's new type.
    """
    memory = None if merge_memory is None else _memory(merge_memory)
    reader = SplitReader(
        schema, columns, plan.residual, file_schemas_of(timeline, schema, plan.splits), merge_memory=memory
    )
    return reader.batches(timeline.store, plan.splits, limit)


def _memory(given: int | str) -> int:
    try:
        found = opt.parse_size(given) if isinstance(given, str) else plain(given)
    except ValueError as error:
        raise InvalidArgument(f"merge_memory: {error}") from None
    if type(found) is not int or found < 1:
        raise InvalidArgument(f"merge_memory {given!r} is not a size in bytes", next_step="give a text such as '64 mb'")
    return found


class SplitReader:
    """Reads splits into batches. It can be pickled to another machine, and needs no metadata there.

    Args:
        residual: the bound predicate that rows must fulfil; None if choosing the partitions was enough.
        file_schemas: the schemas that the splits' files name (see `file_schemas_of`).
        system: columns of the files themselves, which follow the others.
        merge_memory: about how many bytes rows that are merged by primary key may take; None for option `read.merge-memory`.
    """

    def __init__(
        self,
        schema: TableSchema,
        columns: Sequence[str] | None,
        residual: Predicate | None,
        file_schemas: FileSchemas,
        system: Sequence[Field] = (),
        merge_memory: int | None = None,
    ) -> None:
        self.schema = schema
        self._memory = schema.options.get(opt.MERGE_MEMORY) if merge_memory is None else merge_memory
        self.output = (*fields_of(schema, columns), *system)
        self.arrow_schema = arrow_schema(self.output)
        self.residual = residual
        looked_at = frozenset() if residual is None else columns_of(residual)
        self._tested = tuple(f for f in schema.fields if f.name in looked_at)
        self._read = tuple(dict.fromkeys((*self.output, *self._tested)))
        stored = [f for f in self._read if f.name not in schema.partition_keys]
        by_branch: dict[str, dict[int, TableSchema]] = {}
        for (branch, schema_id), written in file_schemas.items():
            by_branch.setdefault(branch, {})[schema_id] = written
        self._readers = {b: RunReader(stored, schemas, schema.options) for b, schemas in by_branch.items()}
        rules = merge_rules(schema)
        self._sections = (
            {}
            if rules is None
            else {b: SectionReader(schema, rules, stored, residual, schemas) for b, schemas in by_branch.items()}
        )
        self._indexes = {b: IndexPruner.of(residual, schema, schemas.__getitem__) for b, schemas in by_branch.items()}

    def batches(self, store: Store, splits: Iterable[Split], limit: int | None = None) -> Iterator[pa.RecordBatch]:
        """The rows of the splits, in the splits' order (see `read_batches`)."""
        limit = None if limit is None else arguments.number_of_rows(limit, "limit", 0)
        runs = [(split, run) for split in splits for run in split.runs]
        if limit is not None and self.residual is None:
            runs = _enough(runs, limit)
        for split, run in runs:  # refuse what cannot be read before yielding any row
            reader = self._sections[split.branch] if split.sections else self._readers[split.branch]
            reader.check([split.files[i] for i in run])
        local = store.capabilities.native_scheme == "file"
        threads = min(LOCAL_READ_THREADS if local else READ_THREADS, len(runs))
        if local and any(split.sections for split, _ in runs):
            threads = min(threads, os.cpu_count() or 1)  # merging computes more than it waits
        memory = self._memory // max(threads, 1)
        tasks = (partial(self._run_batches, store, split, run, threads < 2, memory) for split, run in runs)
        return gathered(_limited(in_order(tasks, threads), limit))

    def _run_batches(
        self, store: Store, split: Split, run: tuple[int, ...], alone: bool, memory: int
    ) -> Iterator[pa.RecordBatch]:
        """The rows of one run of files that belong to the result. An error about a missing file says who names it."""
        try:
            yield from self._rows_of_run(store, split, run, alone, memory)
        except TableCorrupt as error:
            told = with_referrer(error, store, split)
            if told is error:
                raise
            raise told from None

    def _rows_of_run(
        self, store: Store, split: Split, run: tuple[int, ...], alone: bool, memory: int
    ) -> Iterator[pa.RecordBatch]:
        if split.sections:
            yield from self._rows_of_section(store, split, run, alone, memory)
            return
        files = {split.files[i]: located(store, split.keys[i]) for i in run}
        constants = self._constants(split)
        wanted = self._wanted(store, split, run)
        if wanted is not None and not wanted:
            return
        deleted = deleted_rows(store, split, run)
        for position, rows in self._readers[split.branch].rows(files, self.residual, alone, wanted):
            live = None if deleted is None else live_mask(deleted, position, len(rows))
            if wanted is not None:
                chosen = selected_mask(wanted, position, len(rows))
                live = chosen if live is None else pc.and_(live, chosen)
            if live is not None:
                rows = rows.kept(live)
            if self.residual is not None:
                tested = self._columns(self._tested, rows, constants)
                rows = rows.kept(to_arrow_mask(self.residual, tested))
            if len(rows):
                yield self._columns(self.output, rows, constants)

    def _rows_of_section(
        self, store: Store, split: Split, section: tuple[int, ...], alone: bool, memory: int
    ) -> Iterator[pa.RecordBatch]:
        """The rows of files that are merged by primary key. Conditions on values hold for the merged rows only."""
        constants = self._constants(split)
        for rows in self._sections[split.branch].batches(store, split, section, alone, memory):
            part = rows
            if self.residual is not None:
                tested = self._columns(self._tested, part, constants)
                part = part.kept(to_arrow_mask(self.residual, tested))
            if len(part):
                yield self._columns(self.output, part, constants)

    def _wanted(self, store: Store, split: Split, run: tuple[int, ...]) -> BitMap | None:
        """The rows that a file's index does not rule out; None for all. Only a run of a single file is checked by its index."""
        pruner = self._indexes[split.branch]
        if pruner is None or len(run) > 1:
            return None
        return pruner.rows(store, split.keys[run[0]], split.files[run[0]])

    def _columns(self, fields: Sequence[Field], rows: Rows, constants: dict[str, Any]) -> pa.RecordBatch:
        if not fields:
            return _without_columns(len(rows))
        arrays = [
            pa.repeat(constants[f.name], len(rows)) if f.name in constants else rows.column(f.name) for f in fields
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(fields))

    def _constants(self, split: Split) -> dict[str, Any]:
        codec = codec_of(self.schema)
        if not any(f.name in codec.by_name for f in self._read):
            return {}
        values = codec.decode(split.partition)
        return {f.name: to_arrow_scalar(v, f.type, to_arrow(f.type)) for f, v in zip(codec.fields, values, strict=True)}


def _enough(runs: list[tuple[Split, tuple[int, ...]]], limit: int) -> list[tuple[Split, tuple[int, ...]]]:
    rows = 0
    for count, (split, run) in enumerate(runs):
        if rows >= limit:
            return runs[:count]
        rows += split.live_rows(run) or 0
    return runs


def _without_columns(rows: int) -> pa.RecordBatch:
    return pa.record_batch({"": pa.nulls(rows)}).select([])


def gathered(batches: Generator[pa.RecordBatch, None, None]) -> Generator[pa.RecordBatch, None, None]:
    """Join small batches into larger ones, so that small files do not slow down the steps that follow."""
    waiting: list[pa.RecordBatch] = []
    rows = held = 0
    with closing(batches):
        for batch in batches:
            size = batch.nbytes
            is_small = batch.num_rows < _SMALL_BATCH_ROWS and size < sizes.PIECE_BYTES
            if waiting and (not is_small or rows + batch.num_rows > BATCH_ROWS or held + size > sizes.PIECE_BYTES):
                yield _joined(waiting)
                waiting, rows, held = [], 0, 0
            if is_small:
                waiting.append(batch)
                rows, held = rows + batch.num_rows, held + size
            else:
                yield batch
        if waiting:
            yield _joined(waiting)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    if not batches[0].num_columns:
        return _without_columns(sum(b.num_rows for b in batches))
    columns = [pa.concat_arrays([b.column(i) for b in batches]) for i in range(batches[0].num_columns)]
    return pa.RecordBatch.from_arrays(columns, schema=batches[0].schema)


def _limited(
    batches: Generator[pa.RecordBatch, None, None], limit: int | None
) -> Generator[pa.RecordBatch, None, None]:
    """The first `limit` rows. Reading ahead stops as soon as there are enough."""
    left = limit
    with closing(batches):
        while left != 0:
            batch = next(batches, None)
            if batch is None:
                return
            if left is not None:
                batch = batch.slice(0, left)
                left -= batch.num_rows
            yield batch
