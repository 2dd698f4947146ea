"""Every cast that Apache Paimon (Java) has, value by value: the same result, null, or failure (G8)."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from interop.domains import ATOMIC, is_far
from values import decode, encode_column

from lakelatch.core.casts.columns import CastFailure
from lakelatch.core.casts.texts import nested_text
from lakelatch.core.rows.arrow import to_arrow
from lakelatch.core.rows.types import STRING_ROOTS, AtomicType, DataType, parse_type, string
from lakelatch.table.projection.physical import OutOfRange
from lakelatch.table.projection.type_changes import can_change, changed

pytestmark = pytest.mark.java

FAILS = "fails"
NUMBERS = [
    "0",
    "1",
    "-1",
    "127",
    "128",
    "-128",
    "32768",
    "2147483647",
    "2147483648",
    "-9223372036854775808",
    "9223372036854775808",
]
TEXTS = [
    *NUMBERS,
    *(
        "",
        " ",
        "-",
        "+",
        "+7",
        ".",
        "-.5",
        "1.",
        "1.99",
        "-1.99",
        " -7 ",
        "1e3",
        "1E-3",
        "1.5f",
        "2d",
        "0x10",
        "0x1p3",
        "NaN",
    ),
    *(
        "nan",
        "Infinity",
        "-Infinity",
        "inf",
        "1_0",
        "12.345",
        "12.355",
        "-12.355",
        "99999999.995",
        "1e400",
        "1e-400",
        "0.1",
    ),
    *("t", "TRUE", "Yes", "f", "False", "n", "no", "maybe", "1.0"),
    *(
        "2024-02-29",
        "2023-02-29",
        "2024-2-9",
        "2024-13-01",
        "2024-04-31",
        "2024",
        "2024-05",
        " 2024-05-06",
        "0001-01-01",
    ),
    *("9999-12-31", "2024-01-01 10:11:12", "2024-01-01 1:2:3", "2024-01-01 10:11:12.123456789", "2024-01-01 10:11:12."),
    *(
        "2024-01-01 24:00:00",
        "2024-01-01 24:00:01",
        "2024-01-01 10:11",
        "2024-01-01 10:60:00",
        "1969-12-31 23:59:59.999999",
    ),
    *("10:11:12", "10:11:12.9876", "1:2", "10:11:12+01:00", "10:11:12-0:30", "23:59:59.9996", "x:y", "10:11:12.5x"),
    *("äöü", "😀😀😀😀", "abcdefghijklmnop", "\x00"),
]
DOMAINS: dict[str, list[Any]] = {
    "BOOLEAN": [True, False],
    "TINYINT": [-128, -1, 0, 1, 127],
    "SMALLINT": [-32768, -129, 0, 128, 32767],
    "INT": [-(2**31), -32769, -1, 0, 383, 2**31 - 1],
    "BIGINT": [-(2**62), -(2**31) - 1, 0, 2**31, 2**53 + 1],
    "FLOAT": [*ATOMIC["f32"][1], 16777216.0, 1e10, 12.345000267028809, -200.75],
    "DOUBLE": [*ATOMIC["f64"][1], 1e10, 12.345, 12.355, -200.75, 3e9, -3e9, 1e19, -1e19, 123456789.5],
    "DECIMAL(1, 0)": ["-9", "0", "9"],
    "DECIMAL(9, 2)": ["-9999999.99", "-12.35", "-0.05", "0.00", "12.35", "9999999.99"],
    "DECIMAL(18, 18)": ATOMIC["d18"][1],
    "DECIMAL(38, 10)": [*ATOMIC["d38"][1], "-200.7500000000", "9223372036854775808.5000000000", "0.0000000001"],
    "CHAR(3)": ["abc", "ä  ", "1  "],
    "VARCHAR(10)": ["", "0123456789", "äöüäöüäöüß", "1"],
    "STRING": TEXTS,
    "BINARY(4)": ["0x00000000", "0x61626364", "0xffffffff"],
    "VARBINARY(8)": ["0x", "0x00", "0x6162", "0xc3a4"],
    "BYTES": ["0x", "0x61", "0x" + "62" * 20],
    "DATE": ATOMIC["dt"][1],
    "TIME(0)": ATOMIC["tm0"][1],
    "TIME(3)": [*ATOMIC["tm3"][1], "12:34:56.700", "12:34:56.070"],
    **{f"TIMESTAMP({p})": ATOMIC[f"ts{p}"][1] for p in (0, 1, 3, 6, 7, 9)},
    **{f"TIMESTAMP({p}) WITH LOCAL TIME ZONE": ATOMIC[f"tz{p}"][1] for p in (0, 3, 6, 9)},
}
TARGETS = [
    *DOMAINS,
    "CHAR(5)",
    "VARCHAR(2)",
    "DECIMAL(5, 1)",
    "DECIMAL(38, 38)",
    "BINARY(2)",
    "VARBINARY(1)",
    "TIMESTAMP(4)",
]
NESTED: list[tuple[Any, list[Any]]] = [
    ({"type": "ARRAY", "element": "INT"}, [[], [1, None]]),
    ({"type": "ARRAY", "element": {"type": "ARRAY", "element": "DOUBLE"}}, [[[1e10, None], None, []]]),
    (
        {"type": "MAP", "key": "STRING", "value": "TIMESTAMP(3)"},
        [[], [["a", "1969-12-31T23:59:59.120000000"]], [["b", None]]],
    ),
    (
        {
            "type": "ROW",
            "fields": [{"id": 1, "name": "a", "type": "DATE"}, {"id": 2, "name": "b", "type": "DECIMAL(9, 2)"}],
        },
        [[None, None], ["2024-01-01", "1.50"]],
    ),
]


class JavaCasts:
    """Apache Paimon's `CastExecutors`."""

    def __init__(self, paimon_java: Any) -> None:
        from interop.java.java_values import build, reader
        from jpype import JClass

        self.type_of = paimon_java.data_type
        self._class, self._build, self._reader = JClass, build, reader
        self._executors = JClass("org.apache.paimon.casting.CastExecutors")

    def executor(self, source: Any, target: Any) -> Any:
        return self._executors.resolve(source, target)

    def result(self, executor: Any, value: Any, source: Any, target: Any) -> Any:
        try:
            made = executor.cast(self._build(value, source))
        except Exception:
            return FAILS
        row = self._class("org.apache.paimon.data.GenericRow")(1)
        row.setField(0, made)
        return self._reader(target)(row, 0)


@pytest.fixture(scope="module")
def java_casts(paimon_java: Any) -> JavaCasts:
    return JavaCasts(paimon_java)


def our_result(value: Any, source: AtomicType, target: AtomicType) -> Any:
    array = pa.array([decode(value, source), None], to_arrow(source))
    try:
        made = changed(array, source, target)
    except CastFailure:
        return FAILS
    assert made.type == to_arrow(target)
    made.validate(full=True)
    result, null = encode_column(made, target)
    assert null is None
    return result


def is_later_than_java(source: AtomicType, target: AtomicType, value: Any) -> bool:
    """What 1.4.2 does wrong, later versions do as lakelatch: digits below a TIMESTAMP's, times of day
    before 1970, text of far dates."""
    if is_far(value) and (target.root in STRING_ROOTS or target.root == "TIMESTAMP_LTZ"):
        return True
    if source.root == "TIMESTAMP" and target.root == "DATE" and value < "1970":
        return True
    if source.root.startswith("TIMESTAMP") and target.root == "TIME":
        return value < "1970"
    return (
        source.root.startswith("TIMESTAMP")
        and target.root.startswith("TIMESTAMP")
        and target.precision < source.precision
    )


@pytest.mark.parametrize("source_sql", DOMAINS)
def test_every_cast(java_casts: JavaCasts, source_sql: str) -> None:
    """G8: the same pairs of types have a cast, and each value becomes the same."""
    source = parse_type(source_sql)
    assert isinstance(source, AtomicType)
    java_source = java_casts.type_of(source_sql)
    wrong, compared = [], 0
    for target_sql in TARGETS:
        target = parse_type(target_sql)
        assert isinstance(target, AtomicType)
        java_target = java_casts.type_of(target_sql)
        executor = java_casts.executor(java_source, java_target)
        if source == target:
            continue
        if (executor is None) == can_change(source, target) and source.root != "TIME":  # ours reads TIME(0) as TIME(3)
            wrong.append(f"{source_sql} -> {target_sql}: Java has {'no' if executor is None else 'a'} cast")
        for value in DOMAINS[source_sql] if executor is not None else []:
            try:
                theirs = java_casts.result(executor, value, java_source, java_target)
                ours = our_result(value, source, target)
            except (OverflowError, OutOfRange, ValueError):  # no room for it in Arrow's units, or in Python's dates
                assert target.root in ("DATE", "TIMESTAMP", "TIMESTAMP_LTZ")
                continue
            compared += 1
            if target.root == "TIME" and ours == FAILS:  # hours that no day has: Java lets them pass
                continue
            if ours != theirs and not is_later_than_java(source, target, value):
                wrong.append(f"{source_sql} -> {target_sql}: {value!r} is {theirs!r}, ours {ours!r}")
    assert not wrong, "\n".join(wrong)
    assert compared


def test_nested_values_as_text(java_casts: JavaCasts) -> None:
    """G8: ARRAY, MAP and ROW become text, whatever they hold."""
    for kind, values in NESTED:
        source: DataType = parse_type(kind)
        java_source, java_target = java_casts.type_of(kind), java_casts.type_of("STRING")
        executor = java_casts.executor(java_source, java_target)
        as_text = nested_text(source)
        assert as_text is not None
        for value in values:
            made = as_text(pa.array([decode(value, source), None], to_arrow(source)))
            theirs = java_casts.result(executor, value, java_source, java_target)
            assert encode_column(made, string()) == [theirs, None]
