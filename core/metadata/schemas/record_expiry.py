"""Rows that leave a table some time after the time in one of their columns: options `record-level.*` as data.

Owns: `RecordExpiry`. Must not know: how rows are read, clocks. Source: format/primary-keys §7.

Only compactions leave rows out. Reads show a row until one has.
"""

from __future__ import annotations

from dataclasses import dataclass

from ... import options as opt
from ...errors import InvalidArgument
from ...rows.types import TIMESTAMP_ROOTS, AtomicType, Field, sql
from ...rows.values import NANOS_PER_MILLI
from ..schema import TableSchema

FIRST_MILLIS = 1_000_000_000_000
"""A BIGINT from here on is a number of milliseconds, a smaller one of seconds."""


@dataclass(frozen=True)
class RecordExpiry:
    """A row stays so many seconds after the time in its column; one without a time stays for ever."""

    column: Field
    seconds: int

    @property
    def root(self) -> str:
        assert isinstance(self.column.type, AtomicType)
        return self.column.type.root

    def second_of(self, value: int) -> int:
        """The second of a value of the column; of a timestamp in nanoseconds.

        >>> RecordExpiry(Field(0, "t", AtomicType("BIGINT")), 1).second_of(1_700_000_000_123)
        1700000000
        """
        if self.root in TIMESTAMP_ROOTS:
            millis = value // NANOS_PER_MILLI
            return millis // 1000 if millis >= 0 else -(-millis // 1000)
        return value // 1000 if self.root == "BIGINT" and value >= FIRST_MILLIS else value


def record_expiry(schema: TableSchema) -> RecordExpiry | None:
    """None if rows do not expire. Raises InvalidArgument where the time field is missing, or is no time."""
    millis, name = schema.options.get(opt.RECORD_EXPIRE_TIME), schema.options.get(opt.RECORD_TIME_FIELD).strip()
    if millis is None or not schema.primary_keys:
        return None
    if not name:
        raise InvalidArgument("option 'record-level.expire-time' needs option 'record-level.time-field'")
    if name not in schema.by_name:
        raise InvalidArgument(f"option 'record-level.time-field': there is no column '{name}'")
    column = schema.by_name[name]
    if not isinstance(column.type, AtomicType) or column.type.root not in ("INT", "BIGINT", *TIMESTAMP_ROOTS):
        raise InvalidArgument(
            f"option 'record-level.time-field': column '{name}' is of type {sql(column.type)}",
            next_step="use a column of type INT, BIGINT or TIMESTAMP",
        )
    return RecordExpiry(column, millis // 1000)
