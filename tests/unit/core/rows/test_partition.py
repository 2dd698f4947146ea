"""Tests partitions: their bytes, directories and specs."""

from __future__ import annotations

import datetime as dt
import struct
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from lakelatch.core.avro.records import read_records
from lakelatch.core.errors import InvalidArgument, TableCorrupt, Unsupported
from lakelatch.core.metadata.schema import parse_schema
from lakelatch.core.options import PARTITION_DEFAULT_NAME, PARTITION_LEGACY_NAME
from lakelatch.core.rows.dates import FarDate
from lakelatch.core.rows.java_text import float_text
from lakelatch.core.rows.partition import PartitionCodec, escape_path_name, unescape_path_name
from lakelatch.core.rows.types import Field, parse_atomic
from lakelatch.tests.golden_filters import golden_folder


def codec(*columns: tuple[str, str], **options: Any) -> PartitionCodec:
    return PartitionCodec(tuple(Field(i, n, parse_atomic(t)) for i, (n, t) in enumerate(columns)), **options)


NOON = 1_720_180_800_000_000_000


@pytest.mark.parametrize(
    ("type_text", "value", "legacy", "plain"),
    [
        ("STRING", "abc", "abc", "abc"),
        ("STRING", None, "__DEFAULT_PARTITION__", "__DEFAULT_PARTITION__"),
        ("STRING", "", "__DEFAULT_PARTITION__", "__DEFAULT_PARTITION__"),
        ("STRING", " \t\u2003", "__DEFAULT_PARTITION__", "__DEFAULT_PARTITION__"),
        ("STRING", "\u00a0", "\u00a0", "\u00a0"),
        ("STRING", "a/b=c%d e&ü", "a%2Fb%3Dc%25d e&ü", "a%2Fb%3Dc%25d e&ü"),
        ("STRING", "../x", "..%2Fx", "..%2Fx"),
        ("INT", -7, "-7", "-7"),
        ("BOOLEAN", True, "true", "true"),
        ("DATE", dt.date(2024, 7, 5), "19909", "2024-07-05"),
        ("TIME(3)", dt.time(0, 0, 1, 500000), "1500", "00%3A00%3A01.5"),
        ("TIME(0)", dt.time(0, 0, 1), "1000", "00%3A00%3A01"),
        ("TIME(2)", dt.time(0, 0, 1, 9000), "1009", "00%3A00%3A01.00"),
        ("TIME(0)", dt.time(0, 0, 1, 9000), "1009", "00%3A00%3A01"),
        ("TIMESTAMP(3)", NOON, "2024-07-05T12%3A00", "2024-07-05 12%3A00%3A00.000"),
        ("DATE", FarDate(-719_164), "-719164", "0000-12-30"),
        ("DATE", FarDate(-719_831), "-719831", "000%2F-03-04"),
        ("DATE", FarDate(2_932_897), "2932897", "0000-01-01"),
        ("TIMESTAMP(3)", -719_831 * 86_400 * 10**9, "-0001-03-04T00%3A00", "000%2F-03-04 00%3A00%3A00.000"),
        ("TIMESTAMP(3)", -1_000_000, "1969-12-31T23%3A59%3A59.999", "1969-12-31 23%3A59%3A59.999"),
        ("TIMESTAMP(6)", NOON + 1_000, "2024-07-05T12%3A00%3A00.000001", "2024-07-05 12%3A00%3A00.000001"),
        ("TIMESTAMP(9)", NOON + 1, "2024-07-05T12%3A00%3A00.000000001", "2024-07-05 12%3A00%3A00.000000001"),
        ("TIMESTAMP(0)", NOON + 10**9, "2024-07-05T12%3A00%3A01", "2024-07-05 12%3A00%3A01"),
        ("TIMESTAMP(6) WITH LOCAL TIME ZONE", NOON, "2024-07-05T12%3A00", "2024-07-05 12%3A00%3A00.000000"),
        ("DECIMAL(10, 2)", Decimal("-12345678.20"), "-12345678.20", "-12345678.20"),
        ("DECIMAL(38, 10)", Decimal("0E-10"), "0.0000000000", "0.0000000000"),
        ("DOUBLE", 1e10, "1.0E10", "1.0E10"),
        ("FLOAT", struct.unpack("<f", struct.pack("<f", 0.1))[0], "0.1", "0.1"),
    ],
)
def test_directory_names(type_text: str, value: Any, legacy: str, plain: str) -> None:
    """G8: A row is stored in the same directory as by Apache Paimon, and never outside the table (H16)."""
    assert codec(("p", type_text)).path([value]) == f"p={legacy}"
    assert codec(("p", type_text), legacy_name=False).path([value]) == f"p={plain}"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.001, "0.001"),
        (9.999e-4, "9.999E-4"),
        (123456.75, "123456.75"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (1.5e300, "1.5E300"),
        (5e-324, "4.9E-324"),
        (2e-323, "2.0E-323"),
        (-0.0, "-0.0"),
        (float("-inf"), "-Infinity"),
        (float("nan"), "NaN"),
        (100.0, "100.0"),
        (2.0**63, "9.223372036854776E18"),
    ],
)
def test_doubles_as_java_prints_them(value: float, text: str) -> None:
    """G8: The directories of FLOAT and DOUBLE partitions have these names."""
    assert float_text(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(1.17549435e-38, "1.1754944E-38"), (1.4e-45, "1.4E-45"), (16777216.0, "1.6777216E7")]
)
def test_floats_as_java_prints_them(value: float, text: str) -> None:
    """G8: A FLOAT has fewer digits than a DOUBLE of the same value."""
    assert float_text(struct.unpack("<f", struct.pack("<f", value))[0], single=True) == text


def test_null_and_blank_share_a_directory_but_are_three_partitions() -> None:
    """G4: Rows of '' are never shown as null, and rows of null never as ''."""
    strings = codec(("p", "STRING"))
    encoded = [strings.encode([v]) for v in (None, "", " ")]
    assert len(set(encoded)) == 3
    assert [strings.decode(e) for e in encoded] == [(None,), ("",), (" ",)]
    assert len({strings.path(e) for e in encoded}) == 1


def test_default_name_is_escaped_too() -> None:
    """G8: The name is escaped like any value (format/binary-row §3)."""
    assert codec(("dt", "DATE"), default_name="_un known/").path([None]) == "dt=_un known%2F"


def test_binary_partitions_have_no_legacy_directory() -> None:
    """G8: Java would print a memory address, so the error names the column."""
    with pytest.raises(Unsupported, match="partition column 'p'"):
        codec(("p", "BYTES")).path([b"x"])
    assert codec(("p", "BYTES"), legacy_name=False).path([b"x/"]) == "p=x%2F"


@pytest.mark.parametrize("text", ["plain", "a%zz", "100%", "%", "a=b/c:d*e?f\\g{h}i[j]k^l'm\"n#o\x00p\x7f", "ü 漢 &<|"])
def test_escaping_can_be_reversed(text: str) -> None:
    """H16: An escaped name contains no separator."""
    escaped = escape_path_name(text)
    assert "/" not in escaped and "=" not in escaped
    assert unescape_path_name(escaped) == text


TWO = codec(("dt", "DATE"), ("c", "STRING"), ("ok", "BOOLEAN"), ("ts", "TIMESTAMP(3)"))


@pytest.mark.parametrize(
    ("spec", "values"),
    [
        ({}, {}),
        ({"c": "x", "dt": "2024-07-05"}, {"dt": dt.date(2024, 7, 5), "c": "x"}),
        ("dt=19909/c=a%2Fb", {"dt": dt.date(2024, 7, 5), "c": "a/b"}),
        ("c=", {"c": ""}),
        ("c=__DEFAULT_PARTITION__", {"c": None}),
        ({"c": None, "ok": "yes"}, {"c": None, "ok": True}),
        ("ok=0", {"ok": False}),
        ("ts=1720180800000", {"ts": NOON}),
        ("ts=2024-07-05T12%3A00", {"ts": NOON}),
        ({"ts": dt.datetime(2024, 7, 5, 12)}, {"ts": NOON}),
    ],
)
def test_specs(spec: Any, values: dict[str, Any]) -> None:
    """G7: Only partitions that the user named are dropped or overwritten."""
    parsed = TWO.parse_spec(spec)
    assert parsed == values and list(parsed) == [f.name for f in TWO.fields if f.name in values]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"d": 1}, "did you mean 'dt'"),
        ({"zzz": 1}, "available: dt, c, ok, ts"),
        ("dt", "is not column=value"),
        ("c=1/c=2", "twice"),
        ({"dt": "today"}, "partition column 'dt'"),
        ("dt=9999999999", "32 bits"),
        ({"ts": 5}, "partition column 'ts'"),
    ],
)
def test_invalid_specs(spec: Any, message: str) -> None:
    """G7: A misspelt partition is an error, and never means all partitions."""
    with pytest.raises(InvalidArgument, match=message):
        TWO.parse_spec(spec)


def test_a_table_without_partitions_says_so() -> None:
    with pytest.raises(InvalidArgument, match="'dt' is not a partition column: the table has no partitions"):
        codec().parse_spec({"dt": 1})


def test_a_partition_of_points_in_time_needs_a_zone() -> None:
    """G7: Another hour's partition is never dropped. A number counts from an instant, as in the legacy directory name."""
    hours = codec(("h", "TIMESTAMP(3) WITH LOCAL TIME ZONE"))
    for spec in ("h=2024-07-05T12:00:00Z", {"h": "2024-07-05T14:00:00+02:00"}, f"h={NOON // 10**6}"):
        assert hours.parse_spec(spec) == {"h": NOON}
    for spec in ("h=2024-07-05T12:00:00", {"h": "2024-07-05"}):
        with pytest.raises(InvalidArgument, match=r"partition column 'h'.*has no zone.*Z' for UTC"):
            hours.parse_spec(spec)
    parsed = hours.parse_spec("h=2024-07-05T08:00:00", ZoneInfo("America/New_York"))
    assert parsed == hours.parse_spec(parsed) == {"h": NOON}


def test_matching() -> None:
    """G7: Null equals only null, and -0.0 and 0.0 are different partitions."""
    two = codec(("a", "DOUBLE"), ("b", "STRING"))
    assert two.matches((1.0, "x"), {}) and two.matches((1.0, "x"), {"b": "x"})
    assert not two.matches((1.0, None), {"b": ""}) and two.matches((1.0, None), {"b": None})
    assert two.matches((float("nan"), "x"), {"a": float("nan")}) and not two.matches((-0.0, "x"), {"a": 0.0})


def test_arity_is_checked() -> None:
    """H11: The partition row of another table is rejected."""
    with pytest.raises(InvalidArgument, match="2 partition values for 1"):
        codec(("a", "INT")).encode([1, 2])
    with pytest.raises(TableCorrupt, match="manifest-7"):
        codec(("a", "INT")).decode(codec(("a", "INT"), ("b", "INT")).encode([1, 2]), "manifest-7")
    assert codec().path(codec().encode([])) == ""


@pytest.mark.given
def test_directories_of_apache_paimon(tmp_path: Path) -> None:
    """G8: Every partition of the golden tables encodes to the same bytes, and is in the directory that the codec names."""
    checked = 0
    for table in sorted(golden_folder(tmp_path).glob("paimon-java-*/*/table")):
        schemas = [parse_schema(p.read_bytes(), str(p)) for p in table.glob("schema/schema-*")]
        if not schemas or not schemas[0].partition_keys:
            continue
        schema = schemas[0]
        partitions = PartitionCodec(
            schema.partition_fields,
            schema.options.get(PARTITION_DEFAULT_NAME),
            schema.options.get(PARTITION_LEGACY_NAME),
        )
        directories = {p.name: p.parent.parent.relative_to(table).as_posix() for p in table.rglob("bucket-*/*")}
        for path in table.glob("manifest/manifest-[0-9a-f]*"):
            for entry in read_records(path.read_bytes(), path.name):
                name = entry["_FILE"]["_FILE_NAME"]
                assert partitions.encode(partitions.decode(entry["_PARTITION"])) == entry["_PARTITION"]
                if name in directories and "data-file.path-directory" not in schema.option_texts:
                    assert partitions.path(entry["_PARTITION"]) == directories[name], table
                    checked += 1
    assert checked > 50
