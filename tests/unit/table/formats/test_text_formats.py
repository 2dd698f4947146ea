"""CSV and JSON data files: what they cannot hold is refused, what others wrote is read, and damage names the file."""

from __future__ import annotations

import gzip
import itertools
from typing import Any

import pyarrow as pa
import pytest

from lakelatch.backends.memory import MemoryStore
from lakelatch.core.errors import InvalidArgument, TableCorrupt, Unsupported
from lakelatch.core.metadata.schema import new_schema
from lakelatch.core.rows.types import ArrayType, AtomicType, Field, MapType, string, timestamp
from lakelatch.table.table import Table

COUNTER = itertools.count()
FIELDS = [Field(0, "i", AtomicType("INT")), Field(1, "s", string()), Field(2, "b", AtomicType("BOOLEAN"))]
ROWS = pa.table({"i": pa.array([1, None, 3], pa.int32()), "s": ["a,b", None, "c"], "b": [True, None, False]})


def table_of(file_format: str, fields: Any = None, **options: str) -> Table:
    store = MemoryStore(f"memory://texts-{next(COUNTER)}")
    named = {name.replace("__", "."): value for name, value in options.items()}
    schema = new_schema(fields or FIELDS, options={"file.format": file_format, **named})
    store.put("schema/schema-0", schema.to_json())
    return Table(store, schema)


def key_of(table: Table) -> str:
    (entry,) = table.entries()
    return f"bucket-0/{entry.file.file_name}"


def put(table: Table, data: bytes) -> None:
    """Another file in the place of the table's only one."""
    table.store.put(key_of(table), data)


@pytest.mark.parametrize("file_format", ["csv", "json"])
def test_rows_come_back_whole_and_in_parts(file_format: str) -> None:
    """By default the files are not compressed; their names end like Apache Paimon's."""
    for options, suffix in (({}, file_format), ({"file__compression": "gzip"}, f"{file_format}.gz")):
        table = table_of(file_format, **options)
        table.append(ROWS)
        assert key_of(table).endswith(f"-0.{suffix}")
        assert table.to_arrow().equals(ROWS)
        assert table.to_arrow(columns=["b", "i"]).equals(ROWS.select(["b", "i"]))
        assert table.to_arrow(columns=["s"], where="i > 2").to_pylist() == [{"s": "c"}]
        assert (table.count("s is null"), table.count()) == (1, 3)
        assert table.files()["file_format"].to_pylist() == [file_format]
        assert table.verify(data="deep") == []


@pytest.mark.parametrize("text", ["", "back\\slash", "line\nbreak", "carriage\rreturn"])
def test_texts_that_csv_would_change_are_refused(text: str) -> None:
    """Apache Paimon writes them, and reads null or another text. Nothing is committed."""
    table = table_of("csv")
    with pytest.raises(InvalidArgument, match="column 's': csv files cannot hold the text"):
        table.append(ROWS.set_column(1, "s", pa.array([text, "x", "y"])))
    assert table.snapshot() is None
    named = table_of("json")
    named.append(ROWS.set_column(1, "s", pa.array([text, "x", "y"])))
    assert named.to_arrow(columns=["s"], limit=1).to_pylist() == [{"s": text}]


@pytest.mark.parametrize("file_format", ["csv", "json"])
@pytest.mark.parametrize("day", [-719_600, -719_163, 2_932_897])
def test_years_that_readers_do_not_understand_are_refused(file_format: str, day: int) -> None:
    """Apache Paimon fails at some of them: before year 1, and after 9999."""
    table = table_of(file_format, [Field(0, "d", AtomicType("DATE"))])
    with pytest.raises(InvalidArgument, match=r"column 'd': .* is not in the years 1 to 9999"):
        table.append(pa.table({"d": pa.array([day], pa.int32()).view(pa.date32())}))


def test_a_blank_line_is_a_row_of_nulls() -> None:
    table = table_of("csv", [FIELDS[1]])
    table.append(ROWS.select(["s"]))
    assert table.to_arrow().equals(ROWS.select(["s"]))
    with pytest.raises(InvalidArgument, match="cannot hold the text ' '"):
        table.append(pa.table({"s": [" "]}))


@pytest.mark.parametrize(
    ("file_format", "kind", "said"),
    [
        ("csv", ArrayType(AtomicType("INT")), "column 'v' is ARRAY<INT>, which csv files cannot hold"),
        ("csv", timestamp(3, local_zone=True), "without the time zone of the writer"),
        ("json", ArrayType(timestamp(3, local_zone=True)), "without the time zone of the writer"),
        ("json", MapType(AtomicType("DATE", nullable=False), string()), "which json files cannot hold"),
    ],
)
def test_columns_that_cannot_be_held_are_refused(file_format: str, kind: Any, said: str) -> None:
    table = table_of(file_format, [FIELDS[0], Field(7, "v", kind)])
    with pytest.raises(Unsupported, match=said):
        table.append(pa.Table.from_pylist([{"i": 1}], table.arrow_schema))


def test_options_that_change_the_form_are_refused() -> None:
    """Writing and reading: the rows would be others."""
    table = table_of("csv", csv__field_delimiter=";")
    for name, value in (("csv.field-delimiter", ";"), ("header", "true")):
        table = table_of("csv", **{name.replace(".", "__"): value})
        with pytest.raises(Unsupported, match=f"option '{name}' changes the form of csv files"):
            table.append(ROWS)
    with pytest.raises(Unsupported, match=r"'zstd' cannot be written with json.*none, uncompressed, null, gzip"):
        table_of("json", file__compression="zstd").append(ROWS)


def test_json_that_others_wrote() -> None:
    """Numbers and truth values without quotes, other columns, and none; a line without a line feed at the end."""
    table = table_of("json")
    table.append(ROWS)
    put(table, b'{"b":true,"x":[1],"i":7,"s":1.50}\n{}\n{"i":"-3","s":null,"b":"TRUE"}')
    assert table.to_arrow().to_pylist() == [
        {"i": 7, "s": "1.50", "b": True},
        {"i": None, "s": None, "b": None},
        {"i": -3, "s": None, "b": True},
    ]


@pytest.mark.parametrize(
    ("file_format", "data"),
    [
        ("csv", b"1,a,true\n2,b\n3,c,true\n"),
        ("csv", b"1,a,true\nx,b,true\n3,c,true\n"),
        ("csv", b"1,a,true\n"),
        ("csv", b'1,"a,true\n2,b,true\n3,c,true\n'),
        ("json", b'{"i":1}\n{"i":\n{"i":3}\n'),
        ("json", b'{"i":1}\n[]\n{"i":3}\n'),
        ("json", b'{"i":1},{"i":2}\n{"i":3}\n'),
        ("json", b'{"i":"x"}\n{}\n{}\n'),
        ("json", b'{"i":[1]}\n{}\n{}\n'),
        ("json", b"\xff\n\n\n"),
    ],
)
def test_damage_names_the_file(file_format: str, data: bytes) -> None:
    """H11: Apache Paimon reads null for a value that it cannot parse; here it is an error, also in deep verification."""
    table = table_of(file_format)
    table.append(ROWS)
    put(table, data)
    with pytest.raises(TableCorrupt, match=key_of(table)):
        table.to_arrow()
    assert any(key_of(table) in finding.file for finding in table.verify(data="deep") if finding.severity == "error")


def test_a_compressed_file_that_is_cut_off() -> None:
    table = table_of("json", file__compression="gzip")
    table.append(ROWS)
    data = table.store.get(key_of(table))
    assert gzip.decompress(data).count(b"\n") == 3
    put(table, data[:-9])
    with pytest.raises(TableCorrupt, match=key_of(table)):
        table.to_arrow()
