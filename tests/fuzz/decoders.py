"""Everything that turns bytes of a store, or text of a user, into values: by name, with sound inputs to begin from.

Owns: the list. Must not know: how inputs are damaged, what is counted.
"""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from file_indexes import answer, built, columns_of_file, spec
from fuzz.mutations import mutated, mutated_json
from golden_tables import packed, unpack
from pyarrow import orc

from lakelatch.backends.memory import MemoryStore
from lakelatch.coordinator.journal.lines import Entry, parse_journal
from lakelatch.coordinator.protocol import events as ev
from lakelatch.core.avro.records import read_records
from lakelatch.core.blob_file import decode_lengths, index_size
from lakelatch.core.errors import TableCorrupt
from lakelatch.core.expressions.columns import col
from lakelatch.core.expressions.sql import parse_expression
from lakelatch.core.file_index.options import KINDS, takes
from lakelatch.core.file_index.reading import FileIndex
from lakelatch.core.json_text import parse_json
from lakelatch.core.metadata.data_file import DataFile, DeletionVectorRange
from lakelatch.core.metadata.deletion_vector import decode_vector
from lakelatch.core.metadata.manifest import (
    decode_index_manifest,
    decode_manifest,
    decode_manifest_list,
    decode_manifests,
)
from lakelatch.core.metadata.manifest_columns import EntryColumns
from lakelatch.core.metadata.schema import parse_schema
from lakelatch.core.metadata.snapshot import parse_snapshot
from lakelatch.core.options import COMMIT_TIMEOUT, DATA_EVOLUTION, TARGET_FILE_SIZE, Option, TableOptions
from lakelatch.core.rows.binary.binary_row import decode_row, encode_row
from lakelatch.core.rows.types import AtomicType, Field, parse_type, string
from lakelatch.core.statistics.collect import SimpleStats, decode_stats
from lakelatch.table.formats.blob_reader import blob_values
from lakelatch.table.formats.data_source import DataSource
from lakelatch.table.formats.reading import open_data_file
from lakelatch.table.projection.plan import plan_projection

Mutation = Callable[[bytes, random.Random], bytes]
Build = Callable[[list[Path]], "Decoder"]
"""Makes a decoder; the golden tables give it what it takes."""


@dataclass(frozen=True)
class Decoder:
    """One way in.

    Attributes:
        decode: takes one input; may raise errors of the tree only.
        sound: inputs that it takes.
        mutation: what is done to one of them.
        where: the name of the file, which each error must tell.
    """

    decode: Callable[[bytes], Any]
    sound: Sequence[bytes]
    mutation: Mutation = mutated
    where: str = ""


def unpacked(folder: Path) -> list[Path]:
    """The golden tables that inputs are taken from, below `folder`."""
    return [unpack(table_id, folder).path for table_id in packed("append_", "paimon-java-1.4.2")]


# ------------------------------------------------------------------------------------------------------------ metadata


MANIFESTS = "manifest/manifest-[0-9a-f]*-[0-9]*"


def _on_columns(data: bytes, name: str) -> None:
    for found in decode_manifests([(name, data)]):
        if isinstance(found, EntryColumns):
            found.entries()


def _vector(data: bytes, name: str) -> None:
    """The first vector of an index file."""
    found = DeletionVectorRange("data-1", 1, int.from_bytes(data[1:5], "big"), None)
    decode_vector(data[1:], found, 1000, name)


def _file(pattern: str, parse: Callable[[bytes, str], Any], mutation: Mutation = mutated) -> Build:
    """What reads the files of that pattern."""
    name = f"{pattern.rpartition('/')[2].partition('-[')[0].removesuffix('-*')}-7"

    def build(tables: list[Path]) -> Decoder:
        found = [path.read_bytes() for table in tables for path in sorted(table.glob(pattern))]
        return Decoder(lambda data: parse(data, name), found[:: max(1, len(found) // 40)], mutation, name)

    return build


def _without_null(kind: pa.DataType) -> pa.DataType:
    """ORC has no type of which all values are null."""
    if pa.types.is_struct(kind):
        return pa.struct([(part.name, _without_null(part.type)) for part in kind])
    if pa.types.is_list(kind):
        return pa.list_(_without_null(kind.value_type))
    return pa.string() if pa.types.is_null(kind) else kind


def _orc_manifest(tables: list[Path]) -> Decoder:
    """Manifests of older tables come in ORC too."""
    found = []
    for path in [path for table in tables for path in sorted(table.glob(MANIFESTS))][::20]:
        sink = io.BytesIO()
        records = pa.Table.from_pylist(read_records(path.read_bytes(), path.name))
        orc.write_table(records.cast(pa.schema([(f.name, _without_null(f.type)) for f in records.schema])), sink)
        found.append(sink.getvalue())
    return Decoder(lambda data: decode_manifest(data, "manifest-7"), found, where="manifest-7")


METADATA: dict[str, Build] = {
    "snapshot": _file("snapshot/snapshot-*", lambda data, name: parse_snapshot(data, name).to_json(), mutated_json),
    "schema": _file("schema/schema-*", lambda data, name: parse_schema(data, name).to_json(), mutated_json),
    "manifest": _file(MANIFESTS, decode_manifest),
    "ORC manifest": _orc_manifest,
    "manifest on columns": _file(MANIFESTS, _on_columns),
    "manifest list": _file("manifest/manifest-list-*", decode_manifest_list),
    "index manifest": _file("manifest/index-manifest-*", decode_index_manifest),
    "deletion vector": _file("index/index-*", _vector),
}


# ------------------------------------------------------------------------------------------------------ rows and texts

ROW_TYPES = [
    parse_type(text)
    for text in ("INT", "STRING", "DECIMAL(9, 2)", "DECIMAL(30, 4)", "TIMESTAMP(9)", "BOOLEAN", "BYTES", "DOUBLE")
]
ROW = encode_row([7, "a longer text than eight", None, None, None, True, b"bytes that are many", 1.5], ROW_TYPES)
FIELDS = [Field(i, f"f{i}", kind) for i, kind in enumerate(ROW_TYPES)]
JOURNAL = json.dumps(Entry("a", "/t", 1, ev.CommitRequested("me", 7, "APPEND", False)).to_json()).encode()
CONDITIONS = (
    b"a = 1 and b like 'x%'",
    b"(c is not null or d in (1, 2.5, 'x')) and not e between -1 and 1e9",
    b"1 < `a b`",
)
TYPES = (b'"DECIMAL(10, 2) NOT NULL"', b'{"type": "ROW", "fields": [{"id": 0, "name": "a", "type": "VARCHAR(5)"}]}')


def _one_line_hurt(data: bytes, rng: random.Random) -> bytes:
    lines = data.split(b"\n")
    number = rng.randrange(len(lines))
    lines[number] = mutated_json(lines[number], rng)
    return b"\n".join(lines)


def _type(data: bytes) -> None:
    try:
        value = parse_json(data)
    except ValueError as error:
        raise TableCorrupt(f"no JSON, which its file's reader tells: {error}") from None
    parse_type(value, "schema-7: field.f")


def _of_text(parse: Callable[[str], Any], *texts: bytes) -> Decoder:
    return Decoder(lambda data: parse(data.decode(errors="replace")), texts)


def _of_option(option: Option[Any], *texts: bytes) -> Decoder:
    return _of_text(lambda text: TableOptions({option.key: text}).get(option), *texts)


TEXTS: dict[str, Build] = {
    "binary row": lambda _: Decoder(lambda data: decode_row(data, ROW_TYPES), [ROW]),
    "statistics": lambda _: Decoder(lambda data: decode_stats(SimpleStats(data, ROW, (0,) * 8), FIELDS), [ROW]),
    "journal": lambda _: Decoder(
        lambda data: list(parse_journal(data.split(b"\n"), "journal")),
        [JOURNAL + b"\n" + JOURNAL],
        _one_line_hurt,
        "journal",
    ),
    "type": lambda _: Decoder(_type, TYPES, mutated_json),
    "condition": lambda _: _of_text(parse_expression, *CONDITIONS),
    "size": lambda _: _of_option(TARGET_FILE_SIZE, b"128 mb", b"1g", b"7"),
    "duration": lambda _: _of_option(COMMIT_TIMEOUT, b"1 h", b"30 s"),
}


# ---------------------------------------------------------------------------------------------------------- data files


def _data_files(kind: str, rows_of: Callable[[Path], int]) -> Build:
    """Inputs begin with a byte that says which file they were made from: its columns and rows are what is expected."""

    def build(tables: list[Path]) -> Decoder:
        files: list[tuple[bytes, list[Field], int]] = []
        for table in tables:
            schemas = list(table.glob("schema/schema-*"))
            paths = sorted(p for p in table.rglob(f"data-*.{kind}") if p.parent.name.startswith("bucket-"))
            if len(schemas) == 1 and paths:
                schema = parse_schema(schemas[0].read_bytes(), "schema-0")
                if not schema.options.get(DATA_EVOLUTION):
                    files.append((paths[0].read_bytes(), list(schema.fields), rows_of(paths[0])))

        def decode(data: bytes) -> None:
            _, fields, rows = files[data[0] % len(files)]
            name, store = f"data-7.{kind}", MemoryStore("memory://fuzz")
            store.put(name, data[1:])
            file = DataFile(name, len(data) - 1, rows)
            opened = open_data_file(store, name, file, plan_projection(fields, fields), TableOptions({}))
            for _, found in opened.batches():
                for field in fields:
                    found.column(field.name)

        sound = [bytes([number]) + data for number, (data, _, _) in enumerate(files)]
        return Decoder(decode, sound, lambda data, rng: data[:1] + mutated(data[1:], rng), f"data-7.{kind}")

    return build


DATA_FILES = {
    "Parquet file": _data_files("parquet", lambda path: pq.ParquetFile(path).metadata.num_rows),
    "ORC file": _data_files("orc", lambda path: orc.ORCFile(path).nrows),
    "Avro file": _data_files("avro", lambda path: len(list(fastavro.reader(io.BytesIO(path.read_bytes()))))),
}


def _blobs(tables: list[Path]) -> Decoder:
    def decode(data: bytes) -> None:
        name, store = "data-7.blob", MemoryStore("memory://fuzz")
        store.put(name, data)
        source = DataSource(store, name, DataFile(name, len(data), rows, first_row_id=0), TableOptions({}))
        list(blob_values([source], 0, rows))

    (path,) = [path for table in tables for path in sorted(table.rglob("*.blob"))[:1]]
    sound = path.read_bytes()
    rows = len(decode_lengths(sound[-index_size(sound[-5:]) - 5 : -5], len(sound) - index_size(sound[-5:]) - 5))
    return Decoder(decode, [sound], where="data-7.blob")


def _shredded(_: list[Path]) -> Decoder:
    """What is left of an object of which field `a` was shredded; an input is the metadata's length, the metadata, the value."""
    fields = [Field(0, "v", AtomicType("VARIANT"))]
    plan = plan_projection(fields, fields)
    member = pa.struct([("value", pa.binary()), ("typed_value", pa.int32())])
    typed = pa.array([{"a": {"value": None, "typed_value": 7}}], pa.struct([("a", member)]))

    def decode(data: bytes) -> None:
        parts = [pa.array([data[1 : 1 + data[0]]]), pa.array([data[1 + data[0] :]]), typed] if data else []
        if parts:
            array = pa.StructArray.from_arrays(parts, names=["metadata", "value", "typed_value"])
            plan.column("v", pa.record_batch({"v": array}), "data-7.parquet")

    names = [b"a", b"b", b"other"]
    metadata = bytes([1, 3, 0, 1, 2, 7]) + b"".join(names)
    values = [bytes([2, 2, 1, 2, 0, 1, 4, 4, 12, 9]) + b"xy", bytes([2, 0, 0]), bytes([2, 1, 1, 0, 2, 12, 7])]
    return Decoder(decode, [bytes([len(metadata)]) + metadata + value for value in values], where="data-7.parquet")


# -------------------------------------------------------------------------------------------------------- file indexes


def _file_index(kind: str) -> Build:
    """A container with one kind of index over numbers and over texts."""
    types = {"i": AtomicType("INT"), "s": string()}
    numbers = [None if i % 7 == 0 else i * i % 23 - 9 for i in range(300)]
    rows = pa.table({"i": pa.array(numbers, pa.int32()), "s": [None if n is None else f"text {n}" for n in numbers]})
    questions = [
        (col("i") == 3) | (col("s") == "text 3"),
        (col("i") < 2) & ~col("s").is_in(["text 1", "text 4"]),
        col("i").is_null() | (col("s") > "text 5"),
    ]
    asked = columns_of_file([Field(i, n, t) for i, (n, t) in enumerate(types.items())])

    def decode(data: bytes) -> None:
        index = FileIndex(lambda start, end: data[start:end], len(data), len(numbers), "data-7.index")
        for question in questions:
            answer(index, question, asked)
        index.check(types.get)

    def build(_: list[Path]) -> Decoder:
        versions = "12" if kind == "bitmap" else "1"
        specs = [[spec(kind, t, n, items="9", version=v) for n, t in types.items() if takes(kind, t)] for v in versions]
        return Decoder(decode, [built(each, rows) for each in specs], where="data-7.index")

    return build


FILE_INDEXES = {f"file index {kind}": _file_index(kind) for kind in KINDS}

DECODERS = METADATA | TEXTS | DATA_FILES | FILE_INDEXES | {"BLOB file": _blobs, "shredded VARIANT": _shredded}
