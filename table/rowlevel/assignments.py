"""New values for some columns of rows: the part after SET, and the values of an INSERT.

Owns: `Assignment`. Must not know: which rows are changed, files.
Source: architecture §5 (columns are matched by name); format/schema §1 (defaults).
Invariants: All right-hand sides see the row as it was before. A number is rounded to the scale of a DECIMAL column; every other
value is stored exactly or refused, with an error that names the column. Types are checked before any row is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, tzinfo
from functools import cached_property
from typing import Any

import pyarrow as pa

from ...core import arguments
from ...core.errors import InvalidArgument
from ...core.expressions.binding import Binder
from ...core.expressions.evaluate import Tables, evaluate, type_of
from ...core.expressions.functions import rounded
from ...core.expressions.names import Names
from ...core.expressions.scope import Scope, as_instant, as_local
from ...core.expressions.sql import parse_expression
from ...core.expressions.tree import TARGET, Expression, InZone, Literal, Reference, lit
from ...core.rows.arrow import to_arrow
from ...core.rows.literals import coerce_literal
from ...core.rows.partition import closest
from ...core.rows.types import TIMESTAMP_ROOTS, AtomicType, Field
from ...core.rows.values import root_of, to_arrow_scalar
from ..conforming.conform import Conformer
from ..conforming.rules import check_type

_is = pa.types


@dataclass(frozen=True)
class Assignment:
    """A value for each of some columns.

    Attributes:
        values: for each column that gets a value, a bound expression.
        whole: those of them that take the column of a source as it is, by the rules of all rows that come in.
        keeps: do the other columns keep their values (UPDATE), or do they get their defaults (INSERT)?
        zone: in which a time of the clock is a point in time, and the other way round; None: as for rows that come in.
    """

    fields: tuple[Field, ...]
    values: Mapping[str, Expression]
    keeps: bool
    zone: tzinfo | None = None
    whole: frozenset[str] = frozenset()

    @staticmethod
    def of(
        given: Mapping[str, Any],
        fields: Sequence[Field],
        names: Names,
        schemas: Mapping[str, pa.Schema],
        where: str,
        *,
        keeps: bool,
        only: str | None = None,
        zone: tzinfo | None = None,
    ) -> Assignment:
        """Assignments from what the caller gave for each column: SQL text, `ll.lit(…)`, `ll.in_zone(…)`, or any other value.

        Args:
            where: what they are for, for errors.
            only: the one table whose columns may be named.
            zone: of values that are points in time and have none; None refuses them.
        """
        if not isinstance(given, Mapping) or not given:
            raise InvalidArgument(f"{where} is {given!r}", next_step="give a dict: {'column': 'expression'}")
        by_name = {f.name: f for f in fields}
        values: dict[str, Expression] = {}
        whole = set()
        for key, value in arguments.mapping(given, where).items():
            name = _column_of(key, by_name, names, where)
            if name in values:
                raise InvalidArgument(f"{where}: column '{name}' gets two values")
            if isinstance(value, (str, InZone)):
                about = f"{where}: column '{name}'"
                bound = names.bound(parse_expression(value, about), about, only)
                values[name] = Binder(fields, zone, about).value(bound)
            elif isinstance(value, Reference):
                values[name] = value
                whole.add(name)
            else:
                values[name] = lit(value)
        made = Assignment(tuple(fields), _in_zone(values, by_name, zone), keeps, zone, frozenset(whole))
        made.check(schemas)
        return made

    def check(self, schemas: Mapping[str, pa.Schema]) -> None:
        """Refuse values whose types do not fit their columns, without any row."""
        for field in self.fields:
            value = self.values.get(field.name)
            if value is None:
                if not self.keeps and not field.type.nullable and field.default_value is None:
                    raise InvalidArgument(f"column '{field.name}' is NOT NULL, but the new rows give it no value")
                continue
            where = f"column '{field.name}'"
            if isinstance(value, Literal):
                found = self._literal(value, field)
                if not found.is_valid and not field.type.nullable:
                    raise InvalidArgument(f"{where} is NOT NULL, but its new value is null")
                continue
            given = type_of(value, schemas, where)
            if self._met_zone(given, field) is None:
                _check_fits(given, field, field.name in self.whole)

    def _met_zone(self, given: pa.DataType, field: Field) -> tzinfo | None:
        """The zone that says what a time means in the column, if one does."""
        if root_of(field.type) not in (*TIMESTAMP_ROOTS, "DATE") or not _is.is_temporal(given):
            return None
        value = self.values[field.name]
        return value.zone if isinstance(value, InZone) else self.zone

    @cached_property
    def _conform(self) -> Conformer:
        """A null that is assigned stays null, whatever the column's default is."""
        return Conformer([replace(f, default_value=None) for f in self.fields] if self.keeps else self.fields)

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k != "_conform"}

    def applied(self, tables: Tables, rows: int) -> pa.RecordBatch:
        """The rows with their new values, in all columns of the table. An error names the column.

        `tables` has the rows of each table; those of the target with all columns, if columns keep their values.
        """
        arrays, fields = [], []
        for field in self.fields:
            value = self.values.get(field.name)
            if value is not None:
                array = self._column(value, field, tables, rows)
            elif self.keeps:
                array = tables[TARGET].column(field.name)
            else:
                continue
            arrays.append(array)
            fields.append(pa.field(field.name, array.type))
        return self._conform(pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields)))

    def _column(self, value: Expression, field: Field, tables: Tables, rows: int) -> pa.Array:
        where = f"column '{field.name}'"
        found = self._literal(value, field) if isinstance(value, Literal) else evaluate(value, tables, rows, where)
        if isinstance(found, pa.Scalar):
            found = pa.repeat(found, rows)
        if (zone := self._met_zone(found.type, field)) is not None:
            meant = as_instant if root_of(field.type) == "TIMESTAMP_LTZ" else as_local
            found = meant(Scope(where, zone), found)
        return found if field.name in self.whole else _rounded(found, to_arrow(field.type))

    @staticmethod
    def _literal(value: Literal, field: Field) -> pa.Scalar:
        target = to_arrow(field.type)
        if value.value is None:
            return pa.scalar(None, target)
        if not isinstance(field.type, AtomicType):
            return pa.scalar(value.value, target)
        given = value.value
        if isinstance(given, str) and value.kind:
            given = given.strip()
        return to_arrow_scalar(coerce_literal(given, field.type, f"column '{field.name}'"), field.type, target)


def _column_of(key: str, by_name: Mapping[str, Field], names: Names, where: str) -> str:
    """The column that is assigned: its name, or the alias of the table and its name."""
    if key in by_name:
        return key
    alias, _, name = key.partition(".")
    if name in by_name and (names.aliases.get(alias, alias) == TARGET):
        return name
    raise InvalidArgument(f"{where}: there is no column '{key}'", next_step=closest(str(key), list(by_name)))


def _rounded(values: pa.Array, target: pa.DataType) -> pa.Array:
    if _is.is_decimal(target) and _is.is_decimal(values.type) and values.type.scale > target.scale:
        return rounded(values, target.scale)
    if _is.is_decimal(target) and _is.is_floating(values.type):
        return rounded(values, target.scale)
    return values


def _check_fits(given: pa.DataType, field: Field, whole: bool) -> None:
    """Refuse types of which no value can be stored in a column. Only columns of a source are parsed, or become text."""
    rules = check_type(given, field.type, field.name)
    if not whole and {"parsed", "written"}.intersection(rules):
        raise InvalidArgument(
            f"column '{field.name}' is of type {to_arrow(field.type)}, but its new value is of type {given}",
            next_step="CAST the value",
        )


def _in_zone(
    values: Mapping[str, Expression], by_name: Mapping[str, Field], zone: tzinfo | None
) -> dict[str, Expression]:
    """Texts and dates that are assigned to points in time are read in a zone."""
    made = dict(values)
    for name, value in values.items():
        field = by_name[name]
        literal, meant = (value.value, value.zone) if isinstance(value, InZone) else (value, zone)
        if not isinstance(literal, Literal):
            continue
        made[name] = literal
        if meant is not None and isinstance(literal.value, (str, date)) and root_of(field.type) == "TIMESTAMP_LTZ":
            made[name] = Literal(coerce_literal(literal.value, field.type, f"column '{name}'", meant))
    return made
