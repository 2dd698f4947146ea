"""ORC and Avro data files: values, columns, positions, and the errors for each kind of damage."""

from __future__ import annotations

import datetime as dt
import io
import itertools
import random
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from pyarrow import orc

import lakelatch as ll
from lakelatch.backends.around.metered import MeteredStore
from lakelatch.backends.memory import MemoryStore
from lakelatch.core.errors import TableCorrupt, Unsupported
from lakelatch.core.metadata.data_file import DataFile
from lakelatch.core.options import TableOptions
from lakelatch.core.orc.protobuf import decode_message
from lakelatch.core.orc.tail import parse_tail, tail_size
from lakelatch.core.rows.arrow import to_arrow
from lakelatch.core.rows.types import Field, parse_type
from lakelatch.table.formats import avro_reader, data_source
from lakelatch.table.formats.avro_reader import AvroFile
from lakelatch.table.formats.orc_writer import OrcOutput
from lakelatch.table.formats.reading import OpenDataFile, open_data_file
from lakelatch.table.projection.plan import plan_projection
from lakelatch.table.writing.files.data_writer import SpillingSink

COUNTER = itertools.count()
COLUMNS = {"id": "INT", "s": "STRING", "d": "DECIMAL(9, 2)", "t": "TIMESTAMP(3)"}


def fields_of(columns: dict[str, Any]) -> list[Field]:
    return [Field(i, name, parse_type(kind)) for i, (name, kind) in enumerate(columns.items())]


def opened(data: bytes, rows: int, file_format: str, columns: dict[str, Any], wanted: Any = None) -> OpenDataFile:
    """A file of those bytes, whose manifest says `rows`."""
    store = MemoryStore(f"memory://formats-{next(COUNTER)}")
    name = f"data-1.{file_format}"
    store.put(name, data)
    fields = fields_of(columns)
    chosen = [f for f in fields if wanted is None or f.name in wanted]
    plan = plan_projection(fields, chosen)
    return open_data_file(store, name, DataFile(name, len(data), rows), plan, TableOptions({}))


def values_of(file: OpenDataFile) -> list[Any]:
    """The rows as tuples; their positions have no gap."""
    out: list[Any] = []
    for position, rows in file.batches():
        assert position == len(out)
        arrays = [rows.column(column.field.name) for column in file.projection.columns]
        for array in arrays:
            array.validate(full=True)
        out += list(zip(*(a.to_pylist() for a in arrays), strict=True))
    return out


def orc_bytes(columns: dict[str, Any], **more: Any) -> bytes:
    sink = io.BytesIO()
    orc.write_table(pa.table(columns), sink, **more)
    return sink.getvalue()


def avro_bytes(schema: Any, records: Any, **more: Any) -> bytes:
    sink = io.BytesIO()
    fastavro.writer(sink, fastavro.parse_schema(schema), records, **more)
    return sink.getvalue()


def record(*fields: tuple[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "record", "fields": [{"name": n, "type": t} for n, t in fields]}


def nullable(kind: Any) -> list[Any]:
    return ["null", kind]


# ---------------------------------------------------------------------------------------------------------------- ORC


def test_orc_stripes_are_read_one_by_one() -> None:
    """G8: positions go on from stripe to stripe, and from batch to batch inside of one."""
    count = 200_000
    data = orc_bytes(
        {"id": pa.array(range(count), pa.int32()), "s": [f"v{i}" * 9 for i in range(count)]}, stripe_size=1 << 19
    )
    assert orc.ORCFile(io.BytesIO(data)).nstripes > 2
    columns = {"id": "INT", "s": "STRING"}
    assert values_of(opened(data, count, "orc", columns, ["id"])) == [(i,) for i in range(count)]


@pytest.mark.parametrize("shape", ["r", "rr", "rrr", "ra", "rra"])
def test_orc_rows_within_rows_keep_their_nulls(shape: str) -> None:
    """G1: parts of a batch are written as they are; Arrow's own writer takes values of other rows (see `orc_writer`)."""
    rng, kind = random.Random(shape), {"type": "ROW", "fields": [{"id": 9, "name": "x", "type": "INT"}]}
    for letter in reversed(shape[:-1] if shape[-1] == "r" else shape):
        kind = {
            "r": {
                "type": "ROW",
                "fields": [{"id": 5, "name": "a", "type": kind}, {"id": 6, "name": "b", "type": "STRING"}],
            },
            "a": {"type": "ARRAY", "element": kind},
        }[letter]
    (field,) = fields_of({"v": kind})

    def value(kind: pa.DataType) -> Any:
        if rng.random() < 0.3:
            return None
        if pa.types.is_struct(kind):
            return {part.name: value(part.type) for part in kind}
        if pa.types.is_list(kind):
            return [value(kind.value_type) for _ in range(rng.randint(0, 3))]
        return rng.randint(0, 9) if pa.types.is_integer(kind) else "text"

    rows = pa.table({"v": pa.array([value(to_arrow(field.type)) for _ in range(60)], to_arrow(field.type))})
    for start, count in ((0, 60), (1, 59), *((start, 2 + start % 3) for start in range(55))):
        store, part = MemoryStore("memory://orc-rows"), rows.slice(start, count)
        sink = SpillingSink(store, "file")
        output = OrcOutput(sink, [field], "none", 1 << 20)
        output.write(part)
        output.close()
        sink.finish(travelling=False)
        found = values_of(opened(store.get("file"), count, "orc", {"v": kind}))
        assert [v for (v,) in found] == part["v"].to_pylist(), f"rows {start} to {start + count}"


def test_orc_names_with_dots() -> None:
    """G8: a column with the name `a.b` is read, although liborc reads `a.b` as the field of a column."""
    data = orc_bytes({"a.b": pa.array([1], pa.int32()), "a": pa.array([{"b": 2}], pa.struct([("b", pa.int32())]))})
    row = {"type": "ROW", "fields": [{"id": 9, "name": "b", "type": "INT"}]}
    columns = {"a.b": "INT", "a": row}
    assert values_of(opened(data, 1, "orc", columns, ["a.b"])) == [(1,)]
    assert values_of(opened(data, 1, "orc", columns, ["a"])) == [({"b": 2},)]


@pytest.mark.skipif(int(pa.__version__.split(".")[0]) < 24, reason="older Arrow wraps such times round")
def test_orc_times_that_arrow_cannot_hold() -> None:
    """G8: refused by name, never wrapped around; the other columns read."""
    far = pa.array([dt.datetime(9999, 12, 31), None], pa.timestamp("us"))
    data = orc_bytes({"id": pa.array([1, 2], pa.int32()), "t": far})
    with pytest.raises(Unsupported, match=r"data-1\.orc.*1677 to 2262"):
        values_of(opened(data, 2, "orc", COLUMNS))
    assert values_of(opened(data, 2, "orc", COLUMNS, ["id"])) == [(1,), (2,)]


def test_columns_that_a_file_lacks() -> None:
    """G8: they are null. If the file has none of the wanted columns, its rows are not read."""
    data = orc_bytes({"id": pa.array([1, None], pa.int32())})
    assert values_of(opened(data, 2, "orc", COLUMNS, ["id", "s"])) == [(1, None), (None, None)]
    assert not opened(data, 2, "orc", COLUMNS, ["s"]).has_columns
    data = avro_bytes(record(("id", "int")), [{"id": 1}])
    assert values_of(opened(data, 1, "avro", COLUMNS, ["id", "s"])) == [(1, None)]
    assert not opened(data, 1, "avro", COLUMNS, ["s"]).has_columns


def test_the_number_of_rows_is_the_manifest_s() -> None:
    """G8: a file with another number of rows is not the file of the manifest."""
    data = orc_bytes({"id": pa.array([1, 2], pa.int32())})
    with pytest.raises(TableCorrupt, match=r"data-1\.orc has 2 rows; its manifest says 3"):
        values_of(opened(data, 3, "orc", COLUMNS))
    data = avro_bytes(record(("id", "int")), [{"id": 1}])
    with pytest.raises(TableCorrupt, match=r"data-1\.avro has 1 rows; its manifest says 3"):
        values_of(opened(data, 3, "avro", COLUMNS))


@pytest.mark.parametrize("file_format", ["orc", "avro"])
def test_large_files_are_read_in_ranges(file_format: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is bounded: a large file is not fetched whole."""
    monkeypatch.setattr(data_source, "SMALL_FILE_BYTES", 100)
    monkeypatch.setattr(avro_reader, "_BUFFER_BYTES", 1 << 16)
    count = 300_000
    if file_format == "orc":
        data = orc_bytes(
            {"id": pa.array(range(count), pa.int32()), "s": [f"{i * 7919 % 1_000_003}" for i in range(count)]}
        )
    else:
        rows = [{"id": i, "s": f"{i * 7919 % 1_000_003}".encode()} for i in range(count)]
        data = avro_bytes(record(("id", "int"), ("s", "bytes")), rows)
    store = MeteredStore(MemoryStore(f"memory://formats-{next(COUNTER)}"))
    store.put("x." + file_format, data)
    store.reset()
    fields = fields_of({"id": "INT", "s": "STRING"})
    plan = plan_projection(fields, fields[:1])
    file = open_data_file(
        store, "x." + file_format, DataFile("x." + file_format, len(data), count), plan, TableOptions({})
    )
    _, rows = next(iter(file.batches()))
    assert rows.column("id")[:3].to_pylist() == [0, 1, 2]
    assert 0 < store.snapshot().bytes_in < len(data)


def test_orc_tails_are_checked_before_arrow_sees_them() -> None:
    """H11: a decimal of 80 digits would make Arrow abort the process. It is reported as an error instead."""
    data = orc_bytes({"d": pa.array([Decimal("1.5")], pa.decimal128(30, 2))}, compression="uncompressed")
    size = tail_size(data)
    assert [s.rows for s in parse_tail(data[-size:], len(data)).stripes] == [1]
    digits = bytes([0x28, 30, 0x30, 2])  # precision 30, scale 2
    assert data.count(digits) == 1
    damaged = data.replace(digits, bytes([0x28, 80, 0x30, 2]))
    with pytest.raises(TableCorrupt, match=r"data-1\.orc.*80 digits"):
        opened(damaged, 1, "orc", {"d": "DECIMAL(30, 2)"})
    with pytest.raises(ValueError, match="cut off"):
        decode_message(bytes([0x12, 5, 1]))


@pytest.mark.parametrize(
    ("damaged", "told"),
    [
        ("080d12020203", "column 1 has an unknown type"),  # a union
        ("080c12020302", "column 2 does not fit"),
        ("080c12020204", "column 3 does not fit"),
        ("080c12020202", "column 3 does not fit"),
        ("080c12020201", "column 3 does not fit"),
        ("080b12020203", None),  # a map
    ],
)
def test_orc_columns_are_one_tree(damaged: str, told: str | None) -> None:
    """H11: liborc numbers columns by their positions in the tree, so a file with other numbers would be misread."""
    kind = pa.struct([("x", pa.int32()), ("y", pa.int32())])
    data = orc_bytes({"r": pa.array([{"x": 1, "y": 2}], kind)}, compression="uncompressed")
    sound = bytes.fromhex("080c12020203")
    assert data.count(sound) == 1
    data = data.replace(sound, bytes.fromhex(damaged))
    tail = data[-tail_size(data) :]
    if told is None:
        assert [column.top for column in parse_tail(tail, len(data)).columns] == ["", "r", "r", "r"]
    else:
        with pytest.raises(ValueError, match=told):
            parse_tail(tail, len(data))


# --------------------------------------------------------------------------------------------------------------- Avro


def test_avro_values_mean_what_the_table_says() -> None:
    """G8: decimals of any length, swapped time zones, maps as pairs, whatever Avro's own words say (format/data-files §3)."""
    pair = {
        "type": "record",
        "name": "pair",
        "fields": [{"name": "key", "type": "int"}, {"name": "value", "type": nullable("string")}],
    }
    schema = record(
        ("d", nullable({"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 3})),
        ("t", nullable({"type": "long", "logicalType": "timestamp-micros"})),
        ("z", nullable({"type": "long", "logicalType": "local-timestamp-millis"})),
        ("dt", {"type": "int", "logicalType": "date"}),
        ("tm", {"type": "int", "logicalType": "time-millis"}),
        ("m", nullable({"type": "map", "values": nullable("double")})),
        ("p", nullable({"type": "array", "items": pair})),
        ("ti", "int"),
    )
    plain = record(
        ("d", nullable("bytes")), ("t", nullable("long")), ("z", nullable("long")), ("dt", "int"), ("tm", "int")
    )
    plain["fields"] += schema["fields"][5:]
    digits = 10**38 - 1
    first = {"d": (-digits).to_bytes(16, "big", signed=True), "t": -1, "z": 1, "dt": -719_162, "tm": 86_399_999}
    rows = [
        first | {"m": {"": 1.5, "k": None}, "p": [{"key": 7, "value": "x"}, {"key": -1, "value": None}], "ti": -128},
        {"d": b"", "t": None, "z": None, "dt": 0, "tm": 0, "m": {}, "p": [], "ti": 0},
        {"d": None, "t": 253_402_300_799_999_999, "z": None, "dt": 0, "tm": 0, "m": None, "p": None, "ti": 1},
    ]
    sync = {"sync_marker": b"0123456789abcdef"}
    blocks = avro_bytes(plain, rows, **sync)[len(avro_bytes(plain, [], **sync)) :]
    data = avro_bytes(schema, [], **sync) + blocks
    columns = {
        "d": "DECIMAL(38, 3)",
        "t": "TIMESTAMP(6)",
        "z": "TIMESTAMP(0) WITH LOCAL TIME ZONE",
        "dt": "DATE",
        "tm": "TIME(3)",
        "m": {"type": "MAP", "key": "STRING NOT NULL", "value": "DOUBLE"},
        "p": {"type": "MAP", "key": "INT NOT NULL", "value": "STRING"},
        "ti": "TINYINT",
    }
    utc = dt.timezone.utc
    assert values_of(opened(data, 3, "avro", columns)) == [
        (
            Decimal(f"-{'9' * 35}.999"),
            dt.datetime(1969, 12, 31, 23, 59, 59, 999999),
            dt.datetime(1970, 1, 1, 0, 0, 0, 1000, utc),
            dt.date(1, 1, 1),
            dt.time(23, 59, 59, 999000),
            [("", 1.5), ("k", None)],
            [(7, "x"), (-1, None)],
            -128,
        ),
        (Decimal("0.000"), None, None, dt.date(1970, 1, 1), dt.time(0), [], [], 0),
        (None, dt.datetime(9999, 12, 31, 23, 59, 59, 999999), None, dt.date(1970, 1, 1), dt.time(0), None, None, 1),
    ]


def test_avro_blocks_and_old_records() -> None:
    """G8: several blocks; 0.9 and before wrote records that may be null."""
    rows = [{"id": i, "s": None if i % 3 else f"text {i}"} for i in range(20_000)]
    schema = nullable(record(("id", "int"), ("s", nullable("string"))))
    data = avro_bytes(schema, rows, codec="deflate", sync_interval=1000)
    expected = [(r["id"], r["s"]) for r in rows]
    assert values_of(opened(data, len(rows), "avro", COLUMNS, ["id", "s"])) == expected
    with pytest.raises(TableCorrupt, match=r"data-1\.avro"):
        values_of(opened(avro_bytes(schema, [None]), 1, "avro", COLUMNS, ["id"]))


def test_avro_records_that_are_named_twice() -> None:
    """G8: the second use of an equal record is its name."""
    inner = {"type": "record", "name": "a.b.inner", "fields": [{"name": "x", "type": "int"}]}
    data = avro_bytes(record(("p", inner), ("q", nullable("a.b.inner"))), [{"p": {"x": 1}, "q": {"x": 2}}])
    row = {"type": "ROW", "fields": [{"id": 9, "name": "x", "type": "INT"}]}
    other = {"type": "ROW", "fields": [{"id": 10, "name": "x", "type": "INT"}]}
    assert values_of(opened(data, 1, "avro", {"p": row, "q": other})) == [({"x": 1}, {"x": 2})]


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        (record(("id", ["null", "int", "long"])), "union"),
        (record(("id", {"type": "enum", "name": "e", "symbols": ["a"]})), "enum"),
        ({"type": "record", "name": "node", "fields": [{"name": "id", "type": ["null", "node"]}]}, "node"),
        ("long", "records"),
    ],
)
def test_avro_types_that_the_format_never_writes(schema: Any, told: str) -> None:
    with pytest.raises(TableCorrupt, match=rf"data-1\.avro.*{told}"):
        opened(avro_bytes(schema, []), 0, "avro", COLUMNS, ["id"])


def test_unknown_avro_codecs() -> None:
    data = avro_bytes(record(("id", "int")), [{"id": 1}]).replace(b"\x14avro.codec\x08null", b"\x14avro.codec\x08nulx")
    with pytest.raises(Unsupported, match=r"data-1\.avro.*nulx"):
        values_of(opened(data, 1, "avro", COLUMNS, ["id"]))


def test_avro_counts_cannot_run_away() -> None:
    """H11: a block, or an array, that claims more than it holds ends at once."""
    schema = record(("a", {"type": "array", "items": "int"}))
    data = bytearray(avro_bytes(schema, [{"a": [1, 2]}], sync_marker=b"0123456789abcdef"))
    start = len(avro_bytes(schema, [], sync_marker=b"0123456789abcdef"))
    count = avro_reader.long_bytes(2**60)
    for hostile in (count + data[start + 1 : start + 2], data[start : start + 1] + bytes([2 * len(count)]) + count):
        before = time.monotonic()
        with pytest.raises(TableCorrupt, match=r"data-1\.avro"):
            damaged = bytes(data[:start]) + bytes(hostile) + bytes(data[start + 2 :])
            values_of(opened(damaged, 1, "avro", {"a": {"type": "ARRAY", "element": "INT"}}))
        assert time.monotonic() - before < 5
    assert isinstance(opened(bytes(data), 1, "avro", {"a": {"type": "ARRAY", "element": "INT"}}), AvroFile)


def test_maps_of_avro_files_at_any_depth(tmp_path: Path) -> None:
    """Avro's maps are Python's dicts; a key that stands twice in one would lose a value."""
    deep = pa.map_(pa.string(), pa.list_(pa.struct([("m", pa.map_(pa.int32(), pa.map_(pa.string(), pa.int64())))])))
    schema = pa.schema([("deep", deep), ("n", pa.int32())])
    rows = [{"deep": [("a", [{"m": [(1, [("x", None)])]}, None]), ("b", None)], "n": 1}, {"deep": None, "n": 2}]
    table = ll.create_table(str(tmp_path / "t"), schema, options={"file.format": "avro"})
    table.append(pa.Table.from_pylist(rows, schema))
    assert table.to_arrow().to_pylist() == rows
    with pytest.raises(ll.InvalidArgument, match="a map has the key 'a' twice"):
        table.append(pa.Table.from_pylist([{"deep": [("a", None), ("a", None)], "n": 3}], schema))
