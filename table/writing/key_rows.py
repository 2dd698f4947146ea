"""Convert the caller's rows to rows of a table with a primary key: with their kinds, and without those that do not count.

Owns: `KeyConformer`, the columns that a row needs to delete another. Must not know: buckets, sequence numbers, files.
Source: format/primary-keys §9.
Invariant: A row has its kind in `_VALUE_KIND`, before the columns of the table.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...core import options as opt
from ...core.arguments import text
from ...core.errors import InvalidArgument
from ...core.metadata.schema import TableSchema
from ...core.metadata.schemas.merge_rules import VALUE_KIND, MergeRules
from ...core.rows.arrow import to_arrow, to_arrow_field
from ...core.rows.types import Field, with_nullable
from ..conforming.conform import Conformer
from .row_kinds import DELETE, INSERT, check_retracts, columns_to_delete, counted, kinds_of, retracts

_KIND = pa.field(VALUE_KIND.name, pa.int8(), nullable=False)


class KeyConformer:
    """Makes batches fit a table with a primary key.

    Args:
        row_kind: the column of the data that names the kind of each row. It need not be a column of the table.
        deletes: the rows have the keys of the rows to delete. Other columns may be missing.
    """

    def __init__(
        self, schema: TableSchema, rules: MergeRules, *, row_kind: str | None = None, deletes: bool = False
    ) -> None:
        own = schema.options.get(opt.ROW_KIND_FIELD) or None
        if row_kind is not None and own is not None and row_kind != own:
            raise InvalidArgument(
                f"row_kind: the table takes the kinds of its rows from column '{own}' (option 'rowkind.field')",
                next_step="leave row_kind out",
            )
        self._schema, self._rules = schema, rules
        named = own if row_kind is None else text(row_kind, "row_kind")
        self._row_kind = None if deletes else named
        self._deletes, self._own = deletes, own
        self._needed = columns_to_delete(rules) if deletes else ()
        self._conform = Conformer(schema.fields)
        self.schema = pa.schema([_KIND, *self._conform.schema])

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with the kinds of its rows and the table's columns, in their order and types. Refuses what does not fit."""
        kinds = self._kinds(batch)
        name = self._row_kind
        if name is not None and name not in self._schema.by_name:
            batch = batch.drop_columns([name])
        if self._deletes:
            batch = self._with_any_values(batch)
        elif name is not None:
            batch = self._with_values_of_gone_rows(batch, kinds)
        batch = self._conform(batch)
        made = pa.RecordBatch.from_arrays([kinds, *batch.columns], schema=self.schema)
        left = counted(kinds, self._rules, self._schema.options)
        if left is not None:
            made, kinds = made.filter(left), kinds.filter(left)
        if pc.any(retracts(kinds)).as_py():
            check_retracts(self._rules)
        return made

    def _kinds(self, batch: pa.RecordBatch) -> pa.Array:
        if self._row_kind is None:
            return pa.array(np.full(batch.num_rows, DELETE if self._deletes else INSERT, np.int8))
        index = batch.schema.get_field_index(self._row_kind)
        if index < 0:
            raise InvalidArgument(f"the data has no column '{self._row_kind}', which names the kind of each row")
        return kinds_of(batch.column(index), self._row_kind)

    def _with_any_values(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows that delete, with some value in each column that must not be null: nobody looks at it."""
        given = set(batch.schema.names)
        for needed in (*self._rules.key_names, *self._needed):
            if needed not in given:
                what = "the primary key" if needed in self._rules.key_names else "what orders the rows of a key"
                raise InvalidArgument(
                    f"the data has no column '{needed}', which is part of {what}",
                    next_step="give it for each row to delete",
                )
        for field in self._schema.fields:
            if field.name in given:
                continue
            if field.name == self._own:
                batch = batch.append_column(field.name, pa.repeat("-D", batch.num_rows))
            elif not field.type.nullable and field.default_value is None:
                batch = batch.append_column(to_arrow_field(_nullable(field)), _any_values(field, batch.num_rows))
        return batch

    def _with_values_of_gone_rows(self, batch: pa.RecordBatch, kinds: pa.Array) -> pa.RecordBatch:
        """Databases send rows that delete with nulls outside of the key: columns that must not be null get some value there."""
        kept = {*self._rules.key_names, *self._rules.sequence_fields}
        for i, column in enumerate(batch.columns):
            field = self._schema.by_name.get(batch.schema.names[i])
            if field is None or field.type.nullable or field.name in kept:
                continue
            fill = pc.and_(column.is_null(), retracts(kinds))
            if pc.any(fill).as_py():
                with suppress(pa.ArrowException):  # a type that does not fit is told by what follows
                    filled = pc.if_else(fill, _any_values(field, batch.num_rows).cast(column.type), column)
                    batch = batch.set_column(i, batch.schema.field(i).name, filled)
        return batch


def _nullable(field: Field) -> Field:
    return replace(field, type=with_nullable(field.type, True))


def _any_values(field: Field, count: int) -> pa.Array:
    """Values of a column that must not be null: 0, false, an empty text."""
    target = to_arrow(field.type)
    anything = pa.array([None], pa.struct([pa.field("part", target, nullable=False)])).field(0)
    return anything.take(pa.array(np.zeros(count, np.int64)))
