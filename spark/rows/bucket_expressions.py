"""The fixed bucket of each row as expressions of Spark, which need no Python worker.

Owns: `with_bucket`. Must not know: how rows are brought together, files. Source: format/binary-row §4.

Apache Paimon hashes the whole BinaryRow of the bucket key with murmur, four bytes at a time. Whole numbers, dates and booleans
are hashed by arithmetic on BIGINT, written so that no step overflows in ANSI mode. For one text or binary key the bytes of its
row are put together, and Spark's own `hash` of BINARY is the same function. All other keys take a function on Arrow columns.

Invariant: A row has the bucket that `core.rows.bucket` gives it, whatever the settings of the session. The writer computes it
again: a mistake here would cost more files, and would put no row into a wrong bucket.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import functions as F  # noqa: N812 - Spark's users know it by this name
from pyspark.sql import types as spark
from pyspark.sql.pandas.functions import arrow_udf

from ...core import options as opt
from ...core.metadata.schema import TableSchema
from ...core.rows.binary.binary_row import INLINE_BYTES, null_area_bytes
from ...core.rows.bucket import SEED, BucketFunction
from ...core.rows.types import DataType, Field
from ...core.rows.values import root_of
from ..sessions.shipping import shipped_function
from .incoming import BucketTask

BUCKET = "bucket"
_MASK = 0xFFFFFFFF
_C1, _C2 = 0xCC9E2D51, 0x1B873593
_ADDED = 0xE6546B64
_FINAL = (0x85EBCA6B, 0xC2B2AE35)
_WHOLE = (spark.ByteType, spark.ShortType, spark.IntegerType, spark.LongType)
_BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64, "DATE": 32, "BOOLEAN": 8}
_NUMBERED = frozenset(("TINYINT", "SMALLINT", "INT", "BIGINT"))
_MOST_NUMBERS = 4
"""Keys of more columns than this are hashed on Arrow columns, because each column adds steps to Spark's plan."""
_EACH_BYTE = bytearray(range(256))


def with_bucket(frame: Any, table: TableSchema, places: Mapping[str, str]) -> Any:
    """The frame with the column `BUCKET`, an INT. `places` has the frame's name of each of the table's columns."""
    fields = [table.by_name[name] for name in table.bucket_keys]
    types = {f.name: f.dataType for f in frame.schema.fields}
    if not fields or table.bucket == 1:
        return frame.withColumn(BUCKET, F.lit(0))
    given = [(field, types[places[field.name]]) for field in fields if field.name in places]
    if not given:
        return frame.withColumn(BUCKET, F.lit(0))  # all rows have the same key: nulls or defaults
    function = BucketFunction.parse(table.options.get(opt.BUCKET_FUNCTION))
    if len(given) == len(fields) and not any(f.default_value is not None for f in fields):
        if function is BucketFunction.MOD and len(fields) == 1 and isinstance(given[0][1], _WHOLE):
            number = F.coalesce(F.col(places[fields[0].name]).cast("bigint"), F.lit(0))
            return frame.withColumn(BUCKET, F.pmod(number, F.lit(table.bucket)).cast("int"))
        if function is BucketFunction.DEFAULT and all(_is_number(f, kind) for f, kind in given):
            return _by_numbers(frame, fields, places, table.bucket)
        if function is BucketFunction.DEFAULT and len(fields) == 1 and _is_bytes(*given[0]):
            hash_ = F.hash(_row_of_bytes(F.col(places[fields[0].name])))
            return frame.withColumn(BUCKET, _bucket(hash_.cast("bigint"), table.bucket))
    return _by_arrow(frame, table, [field.name for field, _ in given], places)


def _by_arrow(frame: Any, table: TableSchema, names: list[str], places: Mapping[str, str]) -> Any:
    task = shipped_function(BucketTask(table, tuple(names)).buckets)
    bucket_of = arrow_udf(task, spark.IntegerType())  # type: ignore[call-overload] # its stub knows iterators only
    return frame.withColumn(BUCKET, bucket_of(F.struct(*(places[name] for name in names))))


def _bucket(hash_: Any, total: int) -> Any:
    """As `core.rows.bucket.bucket_of`, of a signed hash in a BIGINT."""
    return (F.abs(hash_) % F.lit(total)).cast("int")


# ------------------------------------------------------------------------------------------------------ whole numbers


def _is_number(field: Field, kind: spark.DataType) -> bool:
    root = root_of(field.type)
    if root in _NUMBERED:
        return isinstance(kind, _WHOLE)
    return (root == "DATE" and isinstance(kind, spark.DateType)) or (
        root == "BOOLEAN" and isinstance(kind, spark.BooleanType)
    )


def _by_numbers(frame: Any, fields: list[Field], places: Mapping[str, str], total: int) -> Any:
    """Murmur step by step. Each step is a column, since Spark would repeat an expression wherever its value is used."""
    steps = _Steps(frame)
    state = SEED
    words = _header(fields, places)
    for field in fields:
        words.extend(_words(F.col(places[field.name]), field.type))
    column: Any = None
    for word in words:
        if isinstance(word, int) and column is None:
            state = _mixed(state, word)
            continue
        column = _mix(steps, F.lit(state).cast("bigint") if column is None else column, word)
    if column is None:
        column = F.lit(state).cast("bigint")
    column = column.bitwiseXOR(F.lit(4 * len(words)).cast("bigint"))
    for shift, factor in zip((16, 13), _FINAL, strict=True):
        column = steps.keep(column)
        column = steps.keep(column.bitwiseXOR(F.shiftrightunsigned(column, shift)))
        column = _times(column, factor)
    column = steps.keep(column)
    column = steps.keep(column.bitwiseXOR(F.shiftrightunsigned(column, 16)))
    signed = F.when(column > F.lit(0x7FFFFFFF), column - F.lit(1 << 32)).otherwise(column)
    return steps.finish(BUCKET, _bucket(signed, total))


class _Steps:
    """Columns with values in between, which are dropped at the end."""

    def __init__(self, frame: Any) -> None:
        self._frame, self._names, self._count = frame, list(frame.columns), 0

    def keep(self, column: Any) -> Any:
        name = f"murmur{self._count}"
        self._count += 1
        self._frame = self._frame.withColumn(name, column)
        return F.col(name)

    def finish(self, name: str, column: Any) -> Any:
        return self._frame.select(*self._names, column.alias(name))


def _header(fields: list[Field], places: Mapping[str, str]) -> list[Any]:
    """The first words of a row: a byte for the row's kind, and a bit for each null."""
    words: list[Any] = [0] * (null_area_bytes(len(fields)) // 4)
    for i, field in enumerate(fields):
        if field.type.nullable:
            place, bit = divmod(8 + i, 32)
            is_null = F.when(F.col(places[field.name]).isNull(), F.lit(1 << bit)).otherwise(F.lit(0)).cast("bigint")
            words[place] = is_null if isinstance(words[place], int) else words[place].bitwiseOR(is_null)
    return words


def _words(column: Any, data_type: DataType) -> list[Any]:
    """The two words of a column's slot, from 0 to 2^32 - 1 in BIGINT. A null is 0."""
    root = root_of(data_type)
    whole = F.unix_date(column) if root == "DATE" else column
    number = F.coalesce(whole.cast("bigint"), F.lit(0).cast("bigint"))
    bits = _BITS[root]
    if bits == 64:
        return [number.bitwiseAND(F.lit(_MASK)), F.shiftrightunsigned(number, 32)]
    return [number.bitwiseAND(F.lit((1 << bits) - 1)), 0]


def _mix(steps: _Steps, state: Any, word: Any) -> Any:
    if isinstance(word, int):
        k = _scrambled(word)
        mixed = steps.keep(state.bitwiseXOR(F.lit(k).cast("bigint")))
    else:
        k = steps.keep(_times(steps.keep(word), _C1))
        k = steps.keep(_rotated(k, 15))
        mixed = steps.keep(state.bitwiseXOR(_times(k, _C2)))
    return (_rotated(mixed, 13) * F.lit(5) + F.lit(_ADDED)).bitwiseAND(F.lit(_MASK))


def _times(column: Any, factor: int) -> Any:
    """The product modulo 2^32, in two parts that stay below 2^49. The column must be cheap, for it is used twice."""
    high = F.shiftleft(column.bitwiseAND(F.lit(0xFFFF)) * F.lit(factor >> 16).cast("bigint"), 16)
    return (column * F.lit(factor & 0xFFFF).cast("bigint") + high).bitwiseAND(F.lit(_MASK))


def _rotated(column: Any, places: int) -> Any:
    low = F.shiftrightunsigned(column, 32 - places)
    return F.shiftleft(column, places).bitwiseAND(F.lit(_MASK)).bitwiseOR(low)


def _scrambled(word: int) -> int:
    k = word * _C1 & _MASK
    return (k << 15 | k >> 17) * _C2 & _MASK


def _mixed(state: int, word: int) -> int:
    mixed = state ^ _scrambled(word)
    return ((mixed << 13 | mixed >> 19) * 5 + _ADDED) & _MASK


# -------------------------------------------------------------------------------------------------------------- bytes


def _is_bytes(field: Field, kind: spark.DataType) -> bool:
    root = root_of(field.type)
    return not field.type.nullable and (
        (root == "VARCHAR" and type(kind) is spark.StringType)
        or (root == "VARBINARY" and type(kind) is spark.BinaryType)
    )


def _row_of_bytes(column: Any) -> Any:
    """The BinaryRow of one text or binary column: up to seven bytes are in the slot, others follow it."""
    value = column.cast("binary")
    length = F.octet_length(value)
    header = F.lit(bytearray(null_area_bytes(1)))
    nothing = F.lit(bytearray(8))
    marks = F.lit(bytearray(0x80 | n for n in range(INLINE_BYTES + 1)))
    short = F.concat(
        header,
        value,
        F.substring(nothing, F.lit(1), F.lit(INLINE_BYTES) - length),
        F.substring(marks, length + F.lit(1), F.lit(1)),
    )
    each = F.lit(_EACH_BYTE)

    def byte(number: Any) -> Any:
        return F.substring(each, number.bitwiseAND(F.lit(0xFF)) + F.lit(1), F.lit(1))

    offset = F.lit(bytearray((null_area_bytes(1) + 8).to_bytes(4, "little")))
    padding = F.substring(nothing, F.lit(1), F.pmod(-length, F.lit(8)))
    small = F.concat(header, byte(length), F.lit(bytearray(3)), offset, value, padding)
    sizes = [byte(F.shiftrightunsigned(length, shift)) for shift in (0, 8, 16, 24)]
    large = F.concat(header, *sizes, offset, value, padding)
    return F.when(length <= INLINE_BYTES, short).when(length < 256, small).otherwise(large)
