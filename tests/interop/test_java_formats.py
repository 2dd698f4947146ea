"""lakelatch reads what Apache Paimon (Java) writes in every format: types, codecs, zones, changed columns, locations (G8)."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import combinations, product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from figures import NIGHTLY
from golden_filters import golden_predicate
from interop.agreement import our_rows
from interop.domains import EVERY, NESTED, columns, edge_rows, storable
from interop.filters import filters_of, kept
from values import assert_same_rows, encode_rows

import lakelatch as ll
from lakelatch.coordinator.maintenance.expiry.expire import apply_expiry, plan_expiry
from lakelatch.coordinator.maintenance.expiry.retention import Retention

pytestmark = pytest.mark.java

_NOT_AVRO = ("at", "rr", *(f"{kind}{p}" for kind in ("ts", "tz") for p in range(7, 10)))
TYPES = {
    "parquet": list(EVERY),
    "orc": list(EVERY),
    "avro": [name for name in EVERY if name not in _NOT_AVRO],
}
CODECS = [("parquet", "gzip"), ("parquet", "lz4"), ("orc", "zlib"), ("orc", "lz4"), ("orc", "snappy"), ("orc", "none")]
CODECS += [("avro", "deflate"), ("avro", "snappy"), ("avro", "xz"), ("avro", "bzip2"), ("avro", "null")]
ORC_TIMES = ["1971-01-01T00:00:00.123000000", "2024-02-29T12:34:56.789000000", "1955-01-01T00:00:00.000000000", None]


@pytest.mark.parametrize("file_format", TYPES)
def test_every_type(tmp_path: Path, paimon_java: Any, file_format: str) -> None:
    """G8: each type with its edge values, nested ones too; one column alone; filters on every column that has an order.

    By day there are four filters for each column.
    """
    names, rng = TYPES[file_format], random.Random(file_format)
    path = tmp_path / "t"
    rows = [[storable(value, file_format) for value in row] for row in edge_rows(names)]
    paimon_java.create_table(path, columns(names), options={"file.format": file_format})
    paimon_java.commit_rows(path, rows)
    table = ll.open_table(str(path))
    assert_same_rows(our_rows(table), rows, file_format)
    for position, name in enumerate(names):
        field = table.schema.by_name[name]
        alone = our_rows_of(table, name)
        assert_same_rows(alone, [[row[position]] for row in rows], name)
        if name in NESTED:
            continue
        types = {name: field.type}
        filters = list(filters_of(field, EVERY[name][1][:2]))
        for wanted in filters if NIGHTLY else rng.sample(filters, min(4, len(filters))):
            found = table.to_arrow(where=golden_predicate(wanted, types), columns=[]).num_rows
            expected = kept(rows, wanted, table.schema.fields)
            assert found == len(expected), f"{wanted} in {file_format}"
    assert table.verify("all", data=True) == []


def our_rows_of(table: ll.Table, name: str) -> list[Any]:
    return encode_rows(table.to_arrow(columns=[name]), [table.schema.by_name[name]])


@pytest.mark.parametrize(("file_format", "codec"), CODECS)
def test_every_codec(tmp_path: Path, paimon_java: Any, file_format: str, codec: str) -> None:
    """G8: many blocks or stripes of each."""
    path = tmp_path / "t"
    options = {"file.format": file_format, "file.compression": codec, "file.block-size": "64 kb"}
    paimon_java.create_table(path, [("id", "INT"), ("s", "STRING"), ("d", "DECIMAL(20, 3)")], options=options)
    rows = [[i, f"text {i * 7919 % 10_007}", f"{i}.125"] for i in range(11_000)]
    paimon_java.commit_rows(path, rows)
    table = ll.open_table(str(path))
    assert_same_rows(our_rows(table), rows)
    assert table.to_arrow(limit=7).num_rows == 7
    assert table.to_arrow(where="id >= 10000", columns=["id"]).num_rows == 1000


def test_formats_and_schemas_in_one_table(tmp_path: Path, paimon_java: Any) -> None:
    """G8: each commit in another format, with a schema that has changed since."""
    path = tmp_path / "t"
    inner = {"type": "ROW", "fields": [{"id": 5, "name": "x", "type": "INT"}, {"id": 6, "name": "y", "type": "STRING"}]}
    paimon_java.create_table(path, [("id", "INT"), ("a", "STRING"), ("n", "INT"), ("r", inner)])
    rows: list[list[Any]] = []
    formats = ("orc", "avro", "parquet")
    for number, file_format in enumerate(formats):
        paimon_java.alter(path, "setOption", "file.format", file_format)
        new = [[number, str(number), number * 2**20, [number, None]], [None, None, None, None]]
        paimon_java.commit_rows(path, new, identifier=number + 1)
        rows += new
    paimon_java.alter(path, "renameColumn", "a", "b")
    paimon_java.alter(path, "updateColumnType", "b", paimon_java.data_type("INT"))
    paimon_java.alter(path, "updateColumnType", "n", paimon_java.data_type("SMALLINT"))
    paimon_java.alter(path, "addColumn", "a", paimon_java.data_type("DOUBLE"))
    for number, file_format in enumerate(formats):
        paimon_java.alter(path, "setOption", "file.format", file_format)
        paimon_java.commit_rows(path, [[9, 9, 9, [9, "new"], 1.5]], identifier=number + 10)
    theirs = paimon_java.rows(path)
    assert len(theirs) == len(rows) + 3
    table = ll.open_table(str(path))
    assert_same_rows(our_rows(table), theirs)
    for where in (["=", "b", 2], ["is_null", "a"], ["=", "n", 0], [">", "a", 1.0]):
        predicate = golden_predicate(where, {f.name: f.type for f in table.schema.fields})
        assert table.to_arrow(where=predicate).num_rows == len(paimon_java.rows(path, predicate=where))


# --------------------------------------------------------------------------------------------------------------- zones


def test_orc_chars_are_pruned_and_none_is_lost(tmp_path: Path, paimon_java: Any) -> None:
    """G8: their bounds count blanks that no value has; values with characters below a blank lie on either side of them."""
    path, values = tmp_path / "t", ["", "a", "a\t", "a\tb", "\x00", "ab", "b", "b\x1f"]
    paimon_java.create_table(path, [("c", "CHAR(3)")], options={"file.format": "orc"})
    pairs = list(combinations(values, 2))
    for number, pair in enumerate(pairs):
        paimon_java.commit_rows(path, [[value] for value in pair], identifier=number + 1)
    table, rows = ll.open_table(str(path)), [value for pair in pairs for value in pair]
    planned = 0
    for op, value in product(["=", "<", "<=", ">", ">="], values):
        expected = kept([[row] for row in rows], [op, "c", value], table.schema.fields)
        where = golden_predicate([op, "c", value], {"c": table.schema.fields[0].type})
        assert_same_rows(encode_rows(table.to_arrow(where=where), table.schema.fields), expected, f"{op} {value!r}")
        planned += table.plan(where=where).file_count
    assert planned < 0.75 * len(pairs) * 5 * len(values)


@contextmanager
def java_zone(name: str) -> Iterator[None]:
    """The JVM's own time zone; back to UTC afterwards."""
    from jpype import JClass

    zones = JClass("java.util.TimeZone")
    before = zones.getDefault()
    zones.setDefault(zones.getTimeZone(name))
    try:
        yield
    finally:
        zones.setDefault(before)


@pytest.mark.parametrize("zone", ["Asia/Shanghai", "America/St_Johns", "UTC"])
@pytest.mark.parametrize("legacy", ["true", "false"])
def test_orc_times_of_writers_in_other_zones(tmp_path: Path, paimon_java: Any, zone: str, legacy: str) -> None:
    """G8: a writer's zone is undone, which Apache Paimon does only for readers of the same zone (format/data-files §3)."""
    path = tmp_path / "t"
    options = {"file.format": "orc", "orc.timestamp-ltz.legacy.type": legacy}
    local = "TIMESTAMP(3) WITH LOCAL TIME ZONE"
    paimon_java.create_table(
        path, [("t", "TIMESTAMP(3)"), ("z", local), ("l", {"type": "ARRAY", "element": local})], options=options
    )
    moments = [None if t is None else f"{t}Z" for t in ORC_TIMES]
    rows = [[t, z, [z, None]] for t, z in zip(ORC_TIMES, moments, strict=True)]
    with java_zone(zone):
        paimon_java.commit_rows(path, rows)
    assert_same_rows(our_rows(ll.open_table(str(path))), rows)


# ----------------------------------------------------------------------------------------------------------- manifests


MANIFESTS = [("avro", codec) for codec in ("zstd", "snappy", "deflate", "bzip2", "xz", "null")]
MANIFESTS += [("orc", codec) for codec in ("zstd", "snappy", "zlib", "lz4", "none")]
MANIFESTS += [("parquet", codec) for codec in ("zstd", "snappy", "gzip", "lz4", "none")]


@pytest.mark.parametrize(("form", "codec"), MANIFESTS)
def test_manifests_of_every_form(tmp_path: Path, paimon_java: Any, form: str, codec: str) -> None:
    """G8: read, and pruned by partition and by bounds; written on, and merged, in the same form."""
    path, options = tmp_path / "t", {"manifest.format": form, "manifest.compression": codec}
    paimon_java.create_table(path, [("p", "INT"), ("s", "STRING")], partition_keys=["p"], options=options)
    rows = [[i % 3, f"text {i}"] for i in range(60)]
    for number in range(3):
        paimon_java.commit_rows(path, rows[20 * number : 20 * number + 20], identifier=number + 1)
    table = ll.open_table(str(path))
    assert_same_rows(our_rows(table), rows)
    assert table.plan(where="p = 1").file_count == 3
    assert table.plan(where="s >= 'text 55'").file_count == 6
    assert table.verify("all", data=True) == []
    more = pa.table({"p": [7, 1], "s": ["ours", None]}).cast(table.arrow_schema)
    table.append(more)
    assert_same_rows(paimon_java.rows(path), [*rows, [7, "ours"], [1, None]])
    table.overwrite(more.slice(1), partition={"p": 1})
    assert str(table.compact(where="p = 0", min_files=2)).startswith("3 files became 1")
    table.committer.settle()  # a hint that is written later would name a snapshot that expires below, until it is looked at again
    paimon_java.commit_rows(path, [[0, "Java's"]], identifier=4)
    paimon_java.compact_manifests(path)
    table.append(more.slice(0, 0))
    retention = Retention.of(table.schema.options, 2**62, retain_max=2, retain_min=2)
    assert apply_expiry(table.timeline, plan_expiry(table.timeline, table.schema, retention)).snapshot_ids
    wanted = [*(row for row in rows if row[0] != 1), [7, "ours"], [1, None], [0, "Java's"]]
    assert_same_rows(paimon_java.rows(path), wanted)
    assert_same_rows(our_rows(table), wanted)
    assert table.verify("all", data=True) == []
    heads = {file.read_bytes()[:4] for file in (path / "manifest").iterdir()}
    assert {head[:3] for head in heads} == {{"avro": b"Obj", "orc": b"ORC", "parquet": b"PAR"}[form]}
