"""System tables that have rows of the table itself: ro, audit_log, binlog, changelog, row_tracking.

Owns: their columns, and which rows they have. Must not know: how rows are merged, files. Source: format/primary-keys §2, §7;
format/snapshot §6. Invariant: rows are streamed, so memory is that of an ordinary read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from ...core import options as opt
from ...core.errors import InvalidArgument
from ...core.expressions.tree import Predicate
from ...core.metadata.folding import live
from ...core.metadata.schema import ROW_ID, ROW_SEQUENCE, TableSchema
from ...core.metadata.schemas.merge_rules import VALUE_KIND, merge_rules
from ...core.places import codec_of
from ...core.rows.types import ArrayType, Field, string, with_nullable
from ...core.statistics.pruning import split_predicate
from ..changelog.key_changes import top_level
from ..changelog.reading import DESCRIPTION_FIELDS, KINDS, read_changes
from ..changelog.window import window_of
from ..reading.arrow import read_batches
from ..reading.key_rows import KeyRowReader
from ..scan.fallback import file_schemas_of
from ..scan.file_pruning import FilePruner
from ..scan.plan import ScanPlan, plan_scan
from ..scan.split_planning import SplitPlanner
from .definition import Rows, SystemTable, View, Wanted, with_rows

ROW_KIND = Field(2_147_483_643, "rowkind", string())
_SEQUENCE = replace(ROW_SEQUENCE, type=with_nullable(ROW_SEQUENCE.type, False))
_SEQUENCE_OPTION = "table-read.sequence-number.enabled"


def _own(wanted: Wanted, schema: TableSchema) -> tuple[list[str], Predicate | None]:
    """The columns of the table that are wanted, and the part of the predicate that concerns only these."""
    names = [f.name for f in schema.fields if f.name in wanted.names]
    where = None if wanted.where is None else split_predicate(wanted.where, schema.names)[0]
    return names, where


def _tables(batches: Iterable[pa.RecordBatch]) -> Rows:
    return (with_rows(pa.Table.from_batches([batch]), batch.num_rows) for batch in batches)


# ----------------------------------------------------------------------------------------------------------------- ro


def _read_optimized(view: View, wanted: Wanted) -> Rows:
    """The rows of a read; of a table with a primary key only those of the highest level, which need no merge."""
    names, where = _own(wanted, view.schema)
    plan = read_optimized_plan(view, where, names)
    return _tables(read_batches(view.timeline, plan, view.schema, names))


def read_optimized_plan(view: View, where: Predicate | None, columns: Sequence[str] | None) -> ScanPlan:
    """The plan of a read of `ro`, for whoever reads its splits; `where` is bound."""
    if merge_rules(view.schema) is None:
        return plan_scan(view.timeline, view.snapshot, view.schema, where, columns)
    schema, snapshot, timeline = view.schema, view.snapshot, view.timeline
    if snapshot is None:
        return ScanPlan(None, schema.id)
    top = top_level(schema)
    entries = [e for e in live(timeline.entries(timeline.manifests(snapshot))) if e.file.level == top]
    if where is not None:
        pruner = FilePruner(where, schema, view.schema_of, codec_of(schema))
        entries = [e for e in entries if pruner.may_match(e)]
    index = timeline.index_entries(snapshot)
    planner = SplitPlanner(schema, view.schema_of, index, timeline.paths.branch, timeline.file_of(snapshot))
    return ScanPlan(snapshot, schema.id, splits=planner.splits(entries), where=where, residual=where)


# ---------------------------------------------------------------------------------------------- audit_log and binlog


def _special(schema: TableSchema) -> tuple[Field, ...]:
    numbered = schema.primary_keys and schema.options.texts.get(_SEQUENCE_OPTION, "").strip().lower() == "true"
    return (ROW_KIND, _SEQUENCE) if numbered else (ROW_KIND,)


def _audit_fields(schema: TableSchema) -> tuple[Field, ...]:
    return (*_special(schema), *schema.fields)


def _binlog_fields(schema: TableSchema) -> tuple[Field, ...]:
    return (*_special(schema), *(replace(f, type=ArrayType(with_nullable(f.type, True))) for f in schema.fields))


def _audit_log(view: View, wanted: Wanted) -> Rows:
    """The newest row of each key with its kind, also where it deletes; of other tables each row as "+I"."""
    names, where = _own(wanted, view.schema)
    rules = merge_rules(view.schema)
    if rules is None:
        plan = plan_scan(view.timeline, view.snapshot, view.schema, where, names)
        for batch in read_batches(view.timeline, plan, view.schema, names):
            kinds = pa.repeat(pa.scalar("+I"), batch.num_rows)
            yield pa.table([*batch.columns, kinds], names=[*batch.schema.names, ROW_KIND.name])
        return
    on_keys = None if where is None else split_predicate(where, rules.key_names)[0]
    plan = plan_scan(view.timeline, view.snapshot, view.schema, on_keys)
    schemas = file_schemas_of(view.timeline, view.schema, plan.splits)
    kept = [ROW_SEQUENCE.name, *view.schema.names]
    for split in plan.splits:
        of_branch = {schema_id: found for (branch, schema_id), found in schemas.items() if branch == split.branch}
        reader = KeyRowReader(view.schema, rules, of_branch)
        for section in split.runs:
            for batch in reader.batches(view.timeline.store, split, section, drop_deletes=False):
                kinds = pa.array(KINDS).take(batch.column(VALUE_KIND.name))
                yield pa.Table.from_batches([batch.select(kept)]).append_column(ROW_KIND.name, kinds)


def _binlog(view: View, wanted: Wanted) -> Rows:
    """As `audit_log`, with each value in a list, which in a stream would have a row before and after its update."""
    own = frozenset(view.schema.names)
    for rows in _audit_log(view, Wanted(wanted.names)):
        columns = {
            name: _wrapped(column, rows.num_rows) if name in own else column
            for name, column in zip(rows.column_names, rows.columns, strict=True)
        }
        yield pa.table(columns)


def _wrapped(column: pa.ChunkedArray, rows: int) -> pa.Array:
    values = column.combine_chunks()
    values = values if isinstance(values, pa.Array) else pa.concat_arrays(values.chunks)
    return pa.ListArray.from_arrays(pa.array(np.arange(rows + 1, dtype=np.int32)), values)


# ------------------------------------------------------------------------------------------ changelog, row_tracking


def _changelog_fields(schema: TableSchema) -> tuple[Field, ...]:
    kind, *others = DESCRIPTION_FIELDS
    return (replace(kind, name=ROW_KIND.name), *others, *schema.fields)


def _changelog(view: View, wanted: Wanted) -> Rows:
    """Every change that is still there, by snapshot. Apache Paimon has no such table: it streams `audit_log`."""
    if view.snapshot is None:
        return
    names, where = _own(wanted, view.schema)
    first = min([*view.timeline.snapshot_ids(), *view.timeline.changelog_ids(), view.snapshot.id])
    ids = wanted.among("_snapshot_id", range(first, view.snapshot.id + 1))
    if not ids:
        return
    window = window_of(view.timeline, ids[0] - 1, ids[-1], view.snapshot, "auto")
    for batch in read_changes(view.timeline, window, view.schema, names, where):
        yield pa.Table.from_batches([batch]).rename_columns(
            [*names, *(f.name for f in _changelog_fields(view.schema)[:3])]
        )


def _row_tracking_fields(schema: TableSchema) -> tuple[Field, ...]:
    if not schema.options.get(opt.ROW_TRACKING):
        raise InvalidArgument(
            f"system table 'row_tracking' needs option '{opt.ROW_TRACKING.key}', which this table does not have",
            next_step="set it when a table is created",
        )
    identity = (replace(f, type=with_nullable(f.type, False)) for f in (ROW_ID, ROW_SEQUENCE))
    return (*schema.fields, *identity)


def _row_tracking(view: View, wanted: Wanted) -> Rows:
    names, where = _own(wanted, view.schema)
    names += [f.name for f in (ROW_ID, ROW_SEQUENCE) if f.name in wanted.names]
    plan = plan_scan(view.timeline, view.snapshot, view.schema, where, names)
    return _tables(read_batches(view.timeline, plan, view.schema, names))


TABLES = (
    SystemTable("ro", lambda schema: schema.fields, _read_optimized),
    SystemTable("audit_log", _audit_fields, _audit_log),
    SystemTable("binlog", _binlog_fields, _binlog),
    SystemTable("changelog", _changelog_fields, _changelog),
    SystemTable("row_tracking", _row_tracking_fields, _row_tracking),
)
