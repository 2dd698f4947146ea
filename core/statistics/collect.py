"""Collect the statistics of a data file's columns while it is written, and decode them again.

Owns: `StatsMode`, `StatsCollector`, `ColumnStats`, truncation. Must not know: how files are written, how bounds are used
(see `pruning`). Source: format/statistics §1.

Invariants: A minimum is never above, and a maximum never below, any value of the column in the format's order
(format/binary-row §2: NaN is the largest, -0.0 is below 0.0, text is compared by UTF-8 bytes). An unknown bound is null, which is
always safe. Binary columns are written without bounds, as by Apache Paimon, whose filters would give wrong results with them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from ..errors import InvalidArgument, TableCorrupt
from ..metadata.data_file import SimpleStats
from ..rows.binary.binary_row import check_arity, decode_field, encode_row, row_arity
from ..rows.types import BINARY_ROOTS, STRING_ROOTS, AtomicType, DataType, Field
from ..rows.values import order_key, root_of
from .bounds import Bounds, array_bounds, footer_bounds, has_bounds, truncated

_MODE = re.compile(r"truncate\((\d+)\)")


@dataclass(frozen=True, slots=True)
class StatsMode:
    """The statistics that are recorded for a column: `kind` is "none", "counts", "truncate" (to `length` characters) or "full".

    >>> StatsMode.parse("truncate(16)")
    StatsMode(kind='truncate', length=16)
    """

    kind: str
    length: int = 0

    @classmethod
    def parse(cls, text: str, where: str = "metadata.stats-mode") -> StatsMode:
        folded = text.strip().lower()
        if folded in ("none", "counts", "full"):
            return cls(folded)
        found = _MODE.fullmatch(folded)
        if not found or int(found[1]) < 1:
            raise InvalidArgument(f"option '{where}' = {text!r}: use none, counts, full or truncate(16)")
        return cls("truncate", int(found[1]))

    @property
    def wants_bounds(self) -> bool:
        return self.kind in ("truncate", "full")


NONE = StatsMode("none")
COUNTS = StatsMode("counts")
FULL = StatsMode("full")
DEFAULT = StatsMode("truncate", 16)
KEY_MODE = StatsMode("truncate", 128)


@dataclass(frozen=True, slots=True)
class ColumnStats:
    """The statistics of a file's column. None means unknown or that there is no value. All values are from `min` to `max`."""

    min: Any = None
    max: Any = None
    null_count: int | None = None


UNKNOWN = ColumnStats()


# ---------------------------------------------------------------------------------------------------------- collecting


class StatsCollector:
    """Collects the statistics of one file from the batches that are written to it.

    Args:
        fields: the columns to describe, in the order of the file's schema.
        modes: the mode by column name; other columns have the default `truncate(16)`.
        dense: leave out columns with mode `none`, and name the others (`_VALUE_STATS_COLS`); option
            `metadata.stats-dense-store`.
        parquet_footer: the file is Parquet, and `finish` will get its footer. The bounds of text columns are taken from it,
            because the encoder has already computed them.

    >>> import pyarrow as pa
    >>> collector = StatsCollector((Field(0, "a", AtomicType("INT")),), {})
    >>> collector.update(pa.record_batch({"a": pa.array([3, None, 1], pa.int32())}))
    >>> stats, columns = collector.finish()
    >>> decode_stats(stats, (Field(0, "a", AtomicType("INT")),)), columns
    ([ColumnStats(min=1, max=3, null_count=1)], None)
    """

    def __init__(
        self,
        fields: Sequence[Field],
        modes: Mapping[str, StatsMode],
        dense: bool = True,
        *,
        parquet_footer: bool = False,
    ) -> None:
        self._columns = [_Column(f, modes.get(f.name, DEFAULT), parquet_footer) for f in fields]
        self._dense = dense
        self._parquet_footer = parquet_footer
        self.row_count = 0

    def update(self, batch: Any) -> None:
        self.row_count += batch.num_rows
        for column in self._columns:
            if column.mode.kind != "none":
                column.update(batch.column(column.field.name))

    def finish(self, footer: Any = None) -> tuple[SimpleStats, tuple[str, ...] | None]:
        """The statistics, and `_VALUE_STATS_COLS`: None if they are all columns of the file."""
        if self._parquet_footer and footer is not None:
            for column in self._columns:
                if column.from_footer:
                    column.take_footer(footer)
        columns = [c for c in self._columns if c.mode.kind != "none"] if self._dense else self._columns
        types = [c.field.type for c in columns]
        bounds = [c.final_bounds() for c in columns]
        stats = SimpleStats(
            encode_row([b.min for b in bounds], types),
            encode_row([b.max for b in bounds], types),
            tuple(None if c.mode.kind == "none" else c.null_count for c in columns),
        )
        left_out = len(columns) != len(self._columns)
        return stats, tuple(c.field.name for c in columns) if left_out else None


class _Column:
    def __init__(self, field: Field, mode: StatsMode, parquet_footer: bool) -> None:
        self.field = field
        self.mode = mode
        self.null_count = 0
        root = root_of(field.type)
        self.from_footer = parquet_footer and mode.wants_bounds and root in STRING_ROOTS
        # Apache Paimon compares binary literals as signed bytes, so with bounds it would miss rows, even for "=".
        bounded = has_bounds(field.type) and root not in BINARY_ROOTS
        self._measured = mode.wants_bounds and bounded and not self.from_footer
        self._unknown = self.from_footer
        self._bounds: Bounds | None = None

    def update(self, array: Any) -> None:
        self.null_count += array.null_count
        if self._measured and array.null_count < len(array):
            self._merge(array_bounds(array, self.field.type))

    def take_footer(self, footer: Any) -> None:
        self._unknown = False
        self._merge(footer_bounds(footer, self.field))

    def _merge(self, found: Bounds | None) -> None:
        if found is None:
            return
        if found.min is None or found.max is None:
            self._unknown = True
        elif self._bounds is None:
            self._bounds = found
        else:
            mine = self._bounds
            self._bounds = Bounds(min(mine.min, found.min, key=order_key), max(mine.max, found.max, key=order_key))

    def final_bounds(self) -> Bounds:
        if self._unknown or self._bounds is None or not self.mode.wants_bounds:
            return Bounds(None, None)
        if not all(_fits(bound, self.field.type) for bound in (self._bounds.min, self._bounds.max)):
            return Bounds(None, None)
        return truncated(self._bounds, self.mode.length) if self.mode.kind == "truncate" else self._bounds


def _fits(bound: Any, kind: DataType) -> bool:
    """A sum of decimals may have more digits than its type, which has no room for them as a bound."""
    return (
        not isinstance(bound, Decimal)
        or not isinstance(kind, AtomicType)
        or bound.adjusted() < kind.precision - kind.scale
    )


# ------------------------------------------------------------------------------------------------------------ reading


def decode_stats(stats: SimpleStats, fields: Sequence[Field], where: str = "statistics") -> list[ColumnStats]:
    """The statistics of `fields` (see `file_stats_fields`), or `UNKNOWN` if there are none. Raises TableCorrupt."""
    if row_arity(stats.min_values, where) == 0:
        return [UNKNOWN] * len(fields)
    return [decode_column_stats(stats, i, fields, where) for i in range(len(fields))]


def decode_column_stats(
    stats: SimpleStats, index: int, fields: Sequence[Field], where: str = "statistics"
) -> ColumnStats:
    if row_arity(stats.min_values, where) == 0:
        return UNKNOWN
    counts = stats.null_counts
    if counts and len(counts) != len(fields):
        raise TableCorrupt(f"{where}: {len(counts)} null counts for {len(fields)} columns")
    return ColumnStats(
        _decode_bound(stats.min_values, index, fields, where),
        _decode_bound(stats.max_values, index, fields, where),
        counts[index] if counts else None,
    )


def _decode_bound(row: bytes, index: int, fields: Sequence[Field], where: str) -> Any:
    data_type = fields[index].type
    if not has_bounds(data_type):
        check_arity(row, len(fields), where)
        return None
    return decode_field(row, index, len(fields), data_type, where)


SYSTEM_FIELDS = {
    "_ROW_ID": Field(2_147_483_642, "_ROW_ID", AtomicType("BIGINT")),
    "_SEQUENCE_NUMBER": Field(2_147_483_646, "_SEQUENCE_NUMBER", AtomicType("BIGINT")),
}
"""Columns that `_WRITE_COLS` may name in addition to those of the schema."""


def file_stats_fields(
    fields: Sequence[Field], write_cols: Sequence[str] | None, stats_cols: Sequence[str] | None
) -> list[Field] | None:
    """The columns of a file's value statistics in order (format/statistics §1): those of `_VALUE_STATS_COLS`, else of
    `_WRITE_COLS`, else of its schema; None if one is unknown, so that the statistics cannot be used.
    """
    by_name = {f.name: f for f in fields}
    names = stats_cols if stats_cols is not None else write_cols if write_cols is not None else tuple(by_name)
    found = [by_name.get(name) or SYSTEM_FIELDS.get(name) for name in names]
    return None if any(f is None for f in found) else [f for f in found if f is not None]
