"""Apache Paimon (Java 1.4.2) reads every snapshot of tables that lakelatch wrote, with the rows that the test expects (G8)."""

from __future__ import annotations

import random
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from interop.agreement import assert_agreed, assert_filters_agree
from interop.domains import ATOMIC, EVERY, NESTED, PARTITIONS, columns, edge_rows
from interop.filters import filters_of
from interop.histories import BUSY_MANIFESTS, HISTORY_COLUMNS, long_history
from interop.ledger import Lakelatch, Ledger, append, drop, dynamic, overwrite
from values import assert_same_rows, decode_rows, encode_rows

import lakelatch as ll

pytestmark = pytest.mark.java


# -------------------------------------------------------------------------------------------------------------- types


def test_every_type(tmp_path: Path, paimon_java: Any) -> None:
    """G8: each type with its edge values, nested ones too, in one table; nulls everywhere, and a row of nothing else."""
    names = list(EVERY)
    ll.create_table(str(tmp_path / "t"), ll.Schema(columns(names)))
    ledger = Ledger(tmp_path / "t")
    rows = edge_rows(names)
    ledger.change(Lakelatch(), append(rows))
    ledger.change(Lakelatch(), append(rows[-1:]))
    ledger.change(Lakelatch(), append(rows[::2], rows[1::2]))
    assert_agreed(paimon_java, ledger.path, ledger.expected)
    for position, name in enumerate(names):
        alone = paimon_java.rows(ledger.path, snapshot=1, columns=[name])
        assert_same_rows(alone, [[row[position]] for row in rows], name)


def test_types_that_may_not_be_null(tmp_path: Path, paimon_java: Any) -> None:
    """G8: required columns, elements, keys and fields."""
    names = list(ATOMIC)
    required = [(name, f"{data_type} NOT NULL") for name, data_type in columns(names)]
    required.append(("a", {"type": "ARRAY NOT NULL", "element": "BIGINT NOT NULL"}))
    required.append(("m", {"type": "MAP NOT NULL", "key": "INT NOT NULL", "value": "STRING NOT NULL"}))
    inner = {"type": "ROW", "fields": [{"id": 102, "name": "y", "type": "STRING NOT NULL"}]}
    stamp = {"id": 100, "name": "x", "type": "TIMESTAMP(9) NOT NULL"}
    required.append(("r", {"type": "ROW NOT NULL", "fields": [stamp, {"id": 101, "name": "i", "type": inner}]}))
    ll.create_table(str(tmp_path / "t"), ll.Schema(required))
    tails = [
        [[], [], ["1969-12-31T23:59:59.999999999", None]],
        [[1, 2], [[1, "x"]], ["2024-02-29T12:34:56.123456789", [""]]],
    ]
    rows = [[*(ATOMIC[n][1][i % len(ATOMIC[n][1])] for n in names), *tails[i % 2]] for i in range(12)]
    ledger = Ledger(tmp_path / "t")
    ledger.change(Lakelatch(), append(rows))
    assert_agreed(paimon_java, ledger.path, ledger.expected)


def test_tables_made_from_arrow_schemas(tmp_path: Path, paimon_java: Any) -> None:
    """G8: the field ids that lakelatch gives to nested columns are right, and Java makes the same of the schema."""
    names = [name for name in [*ATOMIC, *NESTED] if name not in ("ms", "ch", "vc", "b4", "v8", "tm0")]
    fields = ll.Schema(columns(names)).fields
    rows = edge_rows(names)
    table = ll.create_table(str(tmp_path / "t"), decode_rows(rows, fields).schema, comment="made of Arrow")
    table.append(decode_rows(rows, fields))
    assert_agreed(paimon_java, tmp_path / "t", {1: rows})
    schema = paimon_java.schema(tmp_path / "t")
    assert schema["highestFieldId"] == table.schema.highest_field_id >= len(names)
    paimon_java.commit_rows(tmp_path / "t", rows)
    assert_agreed(paimon_java, tmp_path / "t", {1: rows, 2: rows + rows})


def test_variants(tmp_path: Path, paimon_java: Any) -> None:
    """G8: VARIANT as value and metadata, alone and in a list."""
    from pyspark.sql.types import VariantVal

    list_type = {"type": "ARRAY", "element": "VARIANT"}
    table = ll.create_table(str(tmp_path / "t"), ll.Schema([("id", "INT"), ("v", "VARIANT"), ("l", list_type)]))
    texts = ['{"a":1,"b":[true,null,"x"]}', '"text"', "12345678901", "1.5", "null", None]
    parsed = [None if text is None else VariantVal.parseJson(text) for text in texts]
    values = [None if v is None else {"value": bytes(v.value), "metadata": bytes(v.metadata)} for v in parsed]
    kind = table.arrow_schema.field("v").type
    lists = pa.array([[v, None] for v in values], table.arrow_schema.field("l").type)
    table.append(pa.table({"id": pa.array(range(6), pa.int32()), "v": pa.array(values, kind), "l": lists}))
    assert_agreed(paimon_java, tmp_path / "t", {1: [[i, text, [text, None]] for i, text in enumerate(texts)]})


def test_the_vector_type_is_newer_than_java(tmp_path: Path, paimon_java: Any) -> None:
    """G8: the one type that 1.4.2 has a name for and cannot read in Parquet; lakelatch reads what it wrote."""
    vector = {"type": "VECTOR", "element": "FLOAT", "length": 2}
    table = ll.create_table(str(tmp_path / "t"), ll.Schema([("id", "INT"), ("v", vector)]))
    table.append(decode_rows([[1, [0.5, -1.0]], [2, None]], table.schema.fields))
    assert encode_rows(table.to_arrow(), table.schema.fields) == [[1, [0.5, -1.0]], [2, None]]
    with pytest.raises(Exception, match="Unsupported type: VECTOR"):
        paimon_java.rows(tmp_path / "t")
    with pytest.raises(Exception, match="Unsupported type: VECTOR"):
        paimon_java.create_table(tmp_path / "java", [("id", "INT"), ("v", vector)])


def test_parquet_columns_are_those_of_java(tmp_path: Path, paimon_java: Any) -> None:
    """G8: names of lists' and maps' parts, physical types, field ids, which may be null: column by column as Java writes."""
    names = list(EVERY)
    shapes = []
    for writer in ("ours", "java"):
        path = tmp_path / writer
        paimon_java.create_table(path, columns(names))
        if writer == "java":
            paimon_java.commit_rows(path, edge_rows(names))
        else:
            ll.open_table(str(path)).append(decode_rows(edge_rows(names), ll.open_table(str(path)).schema.fields))
        (file,) = path.rglob("*.parquet")
        text = str(pq.ParquetFile(file).schema).split("schema {", 1)[1]
        # Java annotates the pairs of a MAP with its old name, too, and TIME as adjusted to UTC: neither says anything.
        lines = [line.replace("key_value (Map)", "key_value") for line in text.splitlines()]
        shapes.append([re.sub(r"(Time\(isAdjustedToUTC=)true", r"\1false", line) for line in lines])
    assert shapes[0] == shapes[1]


def test_odd_names(tmp_path: Path, paimon_java: Any) -> None:
    """G8: columns and partition columns whose names would mean something elsewhere."""
    odd = ["a.b", "a", "A", "k=v", "select", "ü😀", "a/b", '"', "list", "key_value", "%41", "_x", "0"]
    row = {
        "type": "ROW",
        "fields": [{"id": 50, "name": "b", "type": "STRING"}, {"id": 51, "name": "a.b", "type": "INT"}],
    }
    schema = ll.Schema([(name, row if name == "a" else "STRING") for name in odd])
    ll.create_table(str(tmp_path / "t"), schema, partition_by=["k=v", "a/b"])
    ledger = Ledger(tmp_path / "t")
    for value in ("m", "z", None):
        ledger.change(Lakelatch(), append([[[value, 1] if name == "a" else value for name in odd]]))
    assert_agreed(paimon_java, ledger.path, ledger.expected)
    filters = [["=", name, "z"] for name in odd if name != "a"] + [["is_null", name] for name in odd]
    opened, there = assert_filters_agree(paimon_java, ledger.path, ledger.rows, filters)
    assert opened < there


# --------------------------------------------------------------------------------------------------------- partitions


@pytest.mark.parametrize("legacy", ["true", "false"])
def test_partitions_of_every_type(tmp_path: Path, paimon_java: Any, legacy: str) -> None:
    """G8: Java finds each partition's folder where lakelatch put it: both derive it from the value; filters prune by it."""
    for name, (data_type, values) in PARTITIONS.items():
        path = tmp_path / name
        schema = ll.Schema([("id", "INT"), ("p", data_type)])
        table = ll.create_table(str(path), schema, partition_by="p", options={"partition.legacy-name": legacy})
        rows = [[i, value] for i, value in enumerate([*values, None])]
        table.append(decode_rows(rows, schema.fields))
        assert_agreed(paimon_java, path, {1: rows})
        filters = [["=", "p", values[0]], ["=", "p", values[-1]], ["is_null", "p"], ["is_not_null", "p"]]
        opened, there = assert_filters_agree(paimon_java, path, rows, filters)
        assert opened < there


def test_several_partition_columns(tmp_path: Path, paimon_java: Any) -> None:
    """G8: folders in folders, partition columns in another order than the table's, nulls in some."""
    names = ["id", "d9", "vc", "bo", "dt"]
    schema = ll.Schema([("id", "BIGINT"), *columns(names[1:])])
    ll.create_table(str(tmp_path / "t"), schema, partition_by=["dt", "vc", "bo"])
    ledger, writer = Ledger(tmp_path / "t"), Lakelatch()
    rows = [[i, *row[1:]] for i, row in enumerate(edge_rows(["i64", *names[1:]]))]
    ledger.change(writer, append(rows))
    ledger.change(writer, overwrite([[100, None, "zz", None, None]], {"vc": "zz"}))
    ledger.change(writer, overwrite([[101, None, None, True, None]], {"bo": True, "dt": None}))
    ledger.change(writer, dynamic([[102, None, None, None, None], [103, "0.00", "ä", False, "1970-01-01"]]))
    ledger.change(writer, drop({"dt": "1969-12-31"}, {"vc": "", "bo": None}))
    assert_agreed(paimon_java, ledger.path, ledger.expected)
    filters = [["=", "vc", "zz"], ["is_null", "bo"], ["<", "dt", "1970-01-01"], ["=", "bo", True], ["=", "id", 3]]
    for snapshot in ledger.expected:
        opened, there = assert_filters_agree(
            paimon_java, ledger.path, ledger.expected[snapshot], filters, snapshot=snapshot
        )
        assert opened < there


# ---------------------------------------------------------------------------------------------------------- histories

LAYOUTS: dict[str, dict[str, str]] = {
    "defaults": {},
    "none": {"file.compression": "none", "metadata.stats-mode": "none"},
    "snappy": {"file.compression": "snappy", "metadata.stats-mode": "counts", "metadata.stats-dense-store": "false"},
    "gzip": {"file.compression": "gzip", "metadata.stats-mode": "full", "file.suffix.include.compression": "true"},
    "lz4": {"file.compression": "lz4", "metadata.stats-mode": "truncate(3)", "metadata.stats-dense-store": "false"},
    "mixed": {
        "file.compression.zstd-level": "9",
        "fields.s.stats-mode": "none",
        "fields.d.stats-mode": "full",
        "metadata.stats-keep-first-n-columns": "3",
        "manifest.compression": "snappy",
        "data-file.prefix": "part-",
        "data-file.path-directory": "data",
    },
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_history(tmp_path: Path, paimon_java: Any, layout: str) -> None:
    """G8: appends, transactions and every overwrite, manifests compacted again and again; each snapshot, and filters."""
    schema = ll.Schema(HISTORY_COLUMNS)
    options = BUSY_MANIFESTS | LAYOUTS[layout]
    ll.create_table(str(tmp_path / "t"), schema, partition_by=["p"], options=options)
    ledger = Ledger(tmp_path / "t")
    long_history(ledger, Lakelatch(warm=layout != "none"))
    assert len(ledger.expected) > 20
    assert_agreed(paimon_java, ledger.path, ledger.expected)
    literals = {"id": [0, 7, 30], "p": ["a", "b"], "s": ["value-1", "value-25"], "d": ["-0.0", 2.5, "NaN"]}
    filters = [f for name, values in literals.items() for f in filters_of(schema.fields["ipsd".index(name[0])], values)]
    for snapshot in (max(ledger.expected) // 2, max(ledger.expected)):
        some = random.Random(snapshot).sample(filters, 12)
        assert_filters_agree(paimon_java, ledger.path, ledger.expected[snapshot], some, snapshot=snapshot)


def test_manifests_are_compacted_minor_and_full(tmp_path: Path, paimon_java: Any) -> None:
    """G8: the histories above do what they say: both kinds of manifest compaction happen, and Java reads on."""
    table = ll.create_table(
        str(tmp_path / "t"), pa.schema([("id", pa.int64()), ("p", pa.int32())]), options=BUSY_MANIFESTS
    )
    ledger, lists, modes = Ledger(tmp_path / "t"), [], set()
    for i in range(30):
        ledger.change(Lakelatch(), append([[i, i % 3]]))
        snapshot = table.snapshot()
        assert snapshot is not None
        lists.append({m.file_name for m in table.timeline.manifest_list(snapshot.base_manifest_list)})
    for before, after in pairwise(lists):
        gone = before - after
        modes.add("none" if not gone else "all" if gone == before else "some")
    assert {"none", "all"} <= modes
    ledger.change(Lakelatch(), overwrite([[100, 0]], {}))
    for i in range(6):
        ledger.change(Lakelatch(), append([[i, i % 3]]))
    deletes = [m.num_deleted_files for m in table.timeline.manifests(table.snapshot())]
    assert sum(deletes) == 0, "a full compaction drops deletes with what they delete"
    assert_agreed(paimon_java, ledger.path, ledger.expected)


def test_rolling(tmp_path: Path, paimon_java: Any) -> None:
    """G8: one append in several files per partition, row groups in a file; statistics of each describe that file."""
    schema = ll.Schema([("id", "INT"), ("p", "INT"), ("s", "STRING"), ("t", "TIMESTAMP(9)")])
    options = {"target-file-size": "20 kb", "file.compression": "none"}
    table = ll.create_table(str(tmp_path / "t"), schema, partition_by=["p"], options=options)
    rows = [[i, i % 2, f"text {i}", f"2024-01-01T00:00:00.{i:09d}"] for i in range(8000)]
    table.append(decode_rows(rows, schema.fields))
    assert len(table.entries()) > 4
    assert_agreed(paimon_java, tmp_path / "t", {1: rows})
    filters = [["=", "id", 7777], ["between", "id", 3, 5], [">", "t", rows[7990][3]], ["=", "s", "text 1"]]
    opened, there = assert_filters_agree(paimon_java, tmp_path / "t", rows, filters)
    assert opened < there
