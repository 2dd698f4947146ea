"""What `verify` says of data files: checksums, sums, bounds, missing columns, BLOBs, files in external paths."""

from __future__ import annotations

import io
import itertools
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from golden_tables import unpack
from pyarrow import orc

import lakelatch as ll
from lakelatch.backends.memory import MemoryStore
from lakelatch.core.errors import InvalidArgument
from lakelatch.core.metadata.schema import new_schema
from lakelatch.core.orc.blocks import framed, plain
from lakelatch.core.orc.checksum import checksum_in, with_checksum
from lakelatch.core.orc.protobuf import encode_message, fields_of, number_of
from lakelatch.core.orc.tail import postscript_of
from lakelatch.core.rows.types import AtomicType, Field, string
from lakelatch.table.table import Table

COUNTER = itertools.count()
ROWS = pa.table({"i": pa.array([1, None, 5, 9], pa.int32()), "s": ["alpha", "beta", None, "delta"]})


def table_of(**options: str) -> tuple[Table, str]:
    """A table of one file, and the file's key."""
    store = MemoryStore(f"memory://data-files-{next(COUNTER)}")
    named = {name.replace("_", "."): value for name, value in options.items()}
    schema = new_schema([Field(0, "i", AtomicType("INT")), Field(1, "s", string())], options=named)
    store.put("schema/schema-0", schema.to_json())
    table = Table(store, schema)
    table.append(ROWS)
    (entry,) = table.entries()
    return table, f"bucket-0/{entry.file.file_name}"


def messages(table: Table, data: Any = "deep") -> list[str]:
    return [str(finding) for finding in table.verify(data=data)]


def test_a_depth_that_is_not_known_is_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"data='rows' is no depth.*deep"):
        table_of()[0].verify(data="rows")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"file_format": "parquet", "file_compression": "none"}, "CRC checksum verification failed"),
        ({"file_format": "orc", "file_compression": "none"}, "do not have the checksum in its footer"),
        ({"file_format": "avro", "file_compression": "null"}, "do not have the checksum in its header"),
        ({"file_format": "avro", "file_compression": "zstd"}, "checksum"),
    ],
)
def test_one_byte_of_a_value_is_found(options: dict[str, str], said: str) -> None:
    """The bounds, counts and sums stay the same: only a checksum tells. A footer alone tells nothing."""
    table, key = table_of(**options)
    data = table.store.get(key)
    at = data.find(b"beta") if b"beta" in data else len(data) - 20
    table.store.put(key, data[:at] + bytes((data[at] ^ 0x04,)) + data[at + 1 :])
    assert messages(table, True) == [] or options["file_compression"] == "zstd"
    (found,) = messages(table)
    assert found.startswith(f"error: {key}: ") and said in found


def test_files_that_others_wrote_have_no_checksum_and_are_compared_by_rows() -> None:
    """Another file under the same name: the bounds, nulls and missing columns of its rows."""
    for columns, said in (
        (
            {"i": [1, None, 5, 9], "s": ["alpha", "beta", None, "zeta"]},
            "of column 's' span 'alpha' to 'delta', but its values",
        ),
        (
            {"i": [1, None, 5, 8], "s": ["alpha", "beta", None, "delta"]},
            "span 1 to 9, which is wider than its values 1 to 8",
        ),
        ({"i": [1, 2, 5, 9], "s": ["alpha", "beta", None, "delta"]}, "count 1 nulls in column 'i', but the file has 0"),
        ({"i": [1, None, 5, 9], "t": ["alpha", "beta", None, "delta"]}, "lacks column 's', which is read as null"),
    ):
        rows = pa.table({n: pa.array(v, pa.int32() if n == "i" else pa.string()) for n, v in columns.items()})
        for file_format, write in (("parquet", pq.write_table), ("orc", orc.write_table)):
            table, key = table_of(file_format=file_format)
            sink = io.BytesIO()
            write(rows, sink)
            table.store.put(key, sink.getvalue())
            assert any(said in message and key in message for message in messages(table)), (file_format, said)


def with_sum(data: bytes, total: int) -> bytes:
    """An ORC file whose footer states another sum of the first column."""
    script = postscript_of(data)
    end = len(data) - 1 - data[-1]
    start = end - number_of(script, 1)
    footer = plain(data[start:end], number_of(script, 2), number_of(script, 3))
    fields, column = [], 0
    for key, value in fields_of(footer):
        if key >> 3 == 7:
            column += 1
            if column == 2:
                parts = [(k, _with_total(v, total) if k >> 3 == 2 else v) for k, v in fields_of(value)]  # type: ignore[arg-type]
                value = encode_message(parts)
        fields.append((key, value))
    made = framed(encode_message(fields), number_of(script, 2), number_of(script, 3))
    told = encode_message((k, len(made) if k >> 3 == 1 else v) for k, v in fields_of(data[end:-1]))
    return data[:start] + made + told + bytes((len(told),))


def _with_total(kind: Any, total: int) -> bytes:
    return encode_message((k, total << 1 if k >> 3 == 3 else v) for k, v in fields_of(kind))


def test_sums_in_the_footer_of_orc_are_compared() -> None:
    """They are all that a file without a checksum has to tell a number between the bounds."""
    table, key = table_of(file_format="orc", file_compression="none")
    sink = io.BytesIO()
    orc.write_table(ROWS, sink)
    table.store.put(key, with_sum(sink.getvalue(), 15))
    assert not any("[footer]" in m for m in messages(table))
    table.store.put(key, with_sum(sink.getvalue(), 14))
    assert [m.partition("[footer]: ")[2] for m in messages(table) if "[footer]" in m] == [
        "says that column 'i' adds up to 14, but it adds up to 15"
    ]


@pytest.mark.parametrize("compression", ["uncompressed", "zstd", "zlib"])
def test_a_checksum_in_an_orc_file_is_invisible_to_readers(compression: str) -> None:
    sink = io.BytesIO()
    orc.write_table(ROWS, sink, compression=compression)
    plain_file = sink.getvalue()
    assert checksum_in(plain_file, len(plain_file)) is None
    data = with_checksum(plain_file)
    assert orc.read_table(io.BytesIO(data)).equals(orc.read_table(io.BytesIO(plain_file)))
    found = checksum_in(data[-300:] if len(data) > 300 else data, len(data))
    assert found is not None
    assert found.matches(zlib.crc32(data[: found.footer_start]))
    assert not found.matches(zlib.crc32(data[: found.footer_start - 1]))


def test_blobs_are_opened(tmp_path: Path) -> None:
    """The index of a file of BLOBs, and with "deep" the checksum of each value. It was only said that the format is unknown."""
    table = ll.open_table(str(unpack("paimon-java-1.4.2/append_blob", tmp_path).path))
    assert table.verify("all", data=True) == table.verify("all", data="deep") == []
    path = min(Path(table.url).rglob("*.blob"))
    sound = path.read_bytes()
    path.write_bytes(sound[:6] + bytes((sound[6] ^ 1,)) + sound[7:])
    assert table.verify(data=True) == []
    (found,) = table.verify(data="deep")
    assert found.file.endswith(path.name) and "a value's checksum is wrong" in found.message
    path.write_bytes(sound[:-6] + b"\x00" + sound[-5:])
    assert [f.file.rpartition("/")[2] for f in table.verify(data=True) if f.severity == "error"] == [path.name]


def test_files_in_external_paths_are_looked_at(tmp_path: Path) -> None:
    """Missing, of another size, or damaged, as for files inside the table. They were only said to be outside."""
    options = {
        "data-file.external-paths": f"file://{tmp_path}/more",
        "data-file.external-paths.strategy": "round-robin",
    }
    table = ll.create_table(str(tmp_path / "t"), pa.schema([("i", pa.int32())]), options=options)
    table.append(ROWS.select(["i"]))
    path = next((tmp_path / "more").rglob("*.parquet"))
    assert table.verify(data="deep") == table.verify() == []
    sound = path.read_bytes()
    chunk = pq.ParquetFile(path).metadata.row_group(0).column(0)
    at = chunk.data_page_offset + chunk.total_compressed_size - 1
    path.write_bytes(sound[:at] + bytes((sound[at] ^ 1,)) + sound[at + 1 :])
    assert any(path.name in f.file and f.severity == "error" for f in table.verify(data="deep"))
    path.write_bytes(sound + b"x")
    assert any(path.name in f.file and f.field == "_FILE_SIZE" for f in table.verify())
    path.unlink()
    (found,) = table.verify()
    assert found.file.endswith(path.name) and "is missing; manifest/" in found.message
