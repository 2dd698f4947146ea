"""Every type of Spark into every type of column: what is read back is what Spark's own cast says, or the column is named and
nothing was committed.

A value is expected to be taken only where Spark's casts, there and back, lose nothing of it; a value that is taken must then be
what Spark makes of it. By night, types are nested too, and each value that does not fit is tried alone.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F
from unit.table.conforming import door

import lakelatch as ll
import lakelatch.spark as lake
from lakelatch.core.errors import InvalidArgument

COLUMNS = [column for column in door.COLUMNS if not column.startswith("TIME(")]  # a type that Spark 4.1 does not have
NIGHTLY = bool(os.environ.get("LAKELATCH_NIGHTLY"))
VALUES: dict[str, list[str]] = {
    "BOOLEAN": ["true", "false"],
    "TINYINT": ["1Y", "-128Y", "127Y"],
    "SMALLINT": ["1S", "-32768S", "32767S"],
    "INT": ["1", "0", "-2147483648", "2147483647"],
    "BIGINT": ["1L", "0L", "-9223372036854775808L", "9223372036854775807L"],
    "FLOAT": ["1.5F", "CAST('NaN' AS FLOAT)", "CAST('-Infinity' AS FLOAT)", "CAST('-0.0' AS FLOAT)", "0.1F"],
    "DOUBLE": ["1.5D", "0.1D", "1e300D", "CAST('NaN' AS DOUBLE)", "CAST('-0.0' AS DOUBLE)", "1e10D"],
    "DECIMAL(10, 2)": ["1.50BD", "-99999999.99BD", "7.00BD"],
    "DECIMAL(38, 10)": ["1.5BD", "9999999999999999999999999999.9999999999BD", "0.0000000001BD"],
    "STRING": ["'1'", "''", "'1.5'", "'true'", "'2024-02-29'", "'2024-02-29 12:30:01'", "'a''b'", "'x '"],
    "BINARY": ["X'6162'", "X''", "X'FF00'"],
    "DATE": ["DATE '2024-02-29'", "DATE '0001-01-01'", "DATE '9999-12-31'"],
    "TIMESTAMP": ["TIMESTAMP_LTZ '2024-02-29 00:00:00'", "TIMESTAMP_LTZ '1960-01-01 12:30:01.000007'"],
    "TIMESTAMP_NTZ": ["TIMESTAMP_NTZ '2024-02-29 00:00:00'", "TIMESTAMP_NTZ '9999-12-31 23:59:59.999999'"],
    "INTERVAL DAY TO SECOND": ["INTERVAL '1 02:00:00' DAY TO SECOND"],
    "INTERVAL YEAR TO MONTH": ["INTERVAL '1-2' YEAR TO MONTH"],
    "VOID": ["NULL"],
}
NESTINGS = {
    "flat": ("{}", "{}", "{}"),
    "list": ("array({})", "ARRAY<{}>", "{}[0]"),
    "struct": ("named_struct('f', {})", "ROW<f {}>", "{}.f"),
    "map": ("map('k', {})", "MAP<STRING, {}>", "{}['k']"),
}
SPARK_TYPES = {
    "BYTES": "BINARY",
    "TIMESTAMP_LTZ(6)": "TIMESTAMP",
    **{f"TIMESTAMP({n})": "TIMESTAMP_NTZ" for n in (3, 6, 9)},
}


def cast(column: str) -> str:
    """A type of ours in Spark's words."""
    return SPARK_TYPES.get(column, column)


def shown(value: str, column: str) -> Any:
    """A value as text, so that NaN is itself, -0.0 is not 0.0, and Python need not know the year."""
    return F.expr(f"hex({value})" if column == "BYTES" else f"CAST({value} AS STRING)")


def frame_of(spark: Any, kind: str, values: list[str]) -> Any:
    """One row for each value: k, and v of that type."""
    rows = ", ".join(f"({number}, CAST({value} AS {kind}))" for number, value in enumerate(values))
    return spark.sql(f"SELECT * FROM VALUES {rows} AS t(k, v)")


def lossless(spark: Any, kind: str, column: str) -> list[str]:
    """The values that Spark casts to the column's type and back without a loss."""
    if kind == "VOID":
        return VALUES[kind]  # NULL is a value of each type, though none can be cast back
    there = f"try_cast(v AS {cast(column)})"
    try:
        kept = (
            frame_of(spark, kind, VALUES[kind]).selectExpr("k", f"try_cast({there} AS {kind}) <=> v AS kept").collect()
        )
    except Exception as error:
        assert "DATATYPE_MISMATCH" in str(error), error  # Spark has no such cast
        return []
    return [VALUES[kind][row.k] for row in kept if row.kept]


def named(error: InvalidArgument, columns: list[str]) -> list[str]:
    """The columns that an error names."""
    return [name for name in columns if f"'{name}'" in str(error) or f"'{name}." in str(error)]


def write(spark: Any, url: str, kind: str, values: list[str], columns: dict[str, str], form: str) -> dict[str, str]:
    """Write one frame with a column for each type. Returns the columns that were not refused."""
    value, text, _ = NESTINGS[form]
    left = dict(columns)
    for _ in columns:
        table = ll.create_table(
            f"{url}-{len(left)}", ll.Schema([("k", "INT"), *((n, text.format(c)) for n, c in left.items())])
        )
        frame = frame_of(spark, kind, values)
        try:
            lake.write(frame.select("k", *(F.expr(value.format("v")).alias(name) for name in left)), table.url)
        except InvalidArgument as error:
            refused = named(error, list(left))
            assert refused, error
            assert table.refresh().snapshots() == []
            left = {name: column for name, column in left.items() if name not in refused}
        else:
            return left
    return {}


@pytest.mark.parametrize("form", list(NESTINGS) if NIGHTLY else ["flat"])
@pytest.mark.parametrize("kind", VALUES)
def test_a_value_of_spark_comes_back_or_its_column_is_named(spark: Any, tmp_path: Path, kind: str, form: str) -> None:
    by_values: dict[tuple[str, ...], dict[str, str]] = {}
    for number, column in enumerate(COLUMNS):
        good = tuple(lossless(spark, kind, column))
        if good:
            by_values.setdefault(good, {})[f"x{number}"] = column
    for number, (good, columns) in enumerate(by_values.items()):
        url = f"{tmp_path}/t{number}"
        taken = write(spark, url, kind, list(good), columns, form)
        assert kind not in map(cast, columns.values()) or kind in map(cast, taken.values()), (
            f"{kind} into itself is refused"
        )
        if taken:
            unwrap = NESTINGS[form][2]
            read = lake.read(spark, f"{url}-{len(taken)}").orderBy("k")
            found = read.select(*(shown(unwrap.format(name), c).alias(name) for name, c in taken.items())).collect()
            as_cast = frame_of(spark, kind, list(good)).orderBy("k")
            cast_there = {name: shown(f"CAST(v AS {cast(c)})", c).alias(name) for name, c in taken.items()}
            wanted = as_cast.select(*cast_there.values()).collect()
            assert found == wanted, (kind, good, taken)


@pytest.mark.parametrize("kind", VALUES if NIGHTLY else ["DOUBLE", "STRING", "BIGINT"])
def test_a_value_that_does_not_fit_is_refused_by_name(spark: Any, tmp_path: Path, kind: str) -> None:
    """Or it is what Spark's cast makes of it: text that is parsed, or a number that is rounded to the nearest FLOAT."""
    for number, column in enumerate(COLUMNS if NIGHTLY else ["TINYINT", "DECIMAL(10, 2)", "VARCHAR(12)"]):
        good = lossless(spark, kind, column)
        for bad, value in enumerate(v for v in VALUES[kind] if v not in good):
            url = f"{tmp_path}/t{number}-{bad}"
            if write(spark, url, kind, [value], {"x": column}, "flat"):
                read = lake.read(spark, f"{url}-1").select(shown("x", column).alias("x")).collect()
                cast_there = frame_of(spark, kind, [value]).select(
                    shown(f"CAST(v AS {cast(column)})", column).alias("x")
                )
                assert read == cast_there.collect(), (kind, column, value)
                assert kind == "STRING" or column in ("FLOAT", "DOUBLE"), (kind, column, value, read)
