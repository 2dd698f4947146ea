"""Data files in ORC and Avro: Apache Paimon (Java) reads what lakelatch writes, every type and codec, and the reverse (G8)."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import fastavro
import pyarrow.parquet as pq
import pytest
from figures import NIGHTLY
from interop.agreement import assert_agreed, assert_filters_agree
from interop.domains import ATOMIC, EVERY, columns, edge_rows, has_year, storable
from interop.filters import java_filters_of, order_of
from interop.ledger import Java, Lakelatch, Ledger, append, overwrite
from pyarrow import orc
from values import Row, decode_rows

import lakelatch as ll

pytestmark = pytest.mark.java

FINE = [name for name in ATOMIC if name[:2] in ("ts", "tz") and int(name[2:]) > 6]
NAMES = {
    "orc": list(EVERY),
    "avro": [name for name in EVERY if name not in (*FINE, "at", "rr")],
}
"""Avro has no timestamps finer than microseconds."""
CODECS = {
    "orc": ["zstd", "none", "snappy", "zlib", "lz4"],
    "avro": ["zstd", "null", "snappy", "deflate", "bzip2"],
}
PLAIN_ZONE = {"orc.timestamp-ltz.legacy.type": "false"}

FIRST_YEAR = {"orc": 1582, "avro": -(10**7)}
"""Java's push-down into ORC files takes dates before for others, in its own files too."""


def rows_of(names: list[str], file_format: str) -> list[Row]:
    return [[storable(value, file_format) for value in row] for row in edge_rows(names)]


def made(path: Path, names: list[str], file_format: str, **options: str) -> Ledger:
    ll.create_table(str(path), ll.Schema(columns(names)), options={"file.format": file_format, **PLAIN_ZONE, **options})
    return Ledger(path)


@pytest.mark.parametrize("file_format", ["orc", "avro"])
def test_every_type(tmp_path: Path, paimon_java: Any, file_format: str) -> None:
    """G8: each type with its edge values and nulls everywhere. Java appends the same rows. Filters lose none."""
    names = NAMES[file_format]
    ledger = made(tmp_path / "t", names, file_format)
    rows = rows_of(names, file_format)
    ledger.change(Lakelatch(), append(rows))
    ledger.change(Java(paimon_java), append(rows))
    ledger.change(Lakelatch(), append(rows[:3]))
    assert_agreed(paimon_java, ledger.path, ledger.expected)


@pytest.mark.parametrize("file_format", [pytest.param("orc", marks=pytest.mark.slow), "avro"])
def test_filters(tmp_path: Path, paimon_java: Any, file_format: str) -> None:
    """G8: by our statistics, and by what stands in the files, NaN and signed zeros too. By day three for each column."""
    # Not CHAR: bounds of ORC files may be of values that are filled up with blanks, so that lakelatch does not believe them.
    names = [name for name in ATOMIC if name in NAMES[file_format] and name != "ch"]
    ledger = made(tmp_path / "t", names, file_format)
    rows = rows_of(names, file_format)
    for start in (0, len(rows) // 2):
        ledger.change(Lakelatch(), append(rows[start : start + len(rows) // 2]))
    filters, rng = [], random.Random(file_format)
    for field in ledger.fields:
        values = {storable(v, file_format) for v in ATOMIC[field.name][1]} - {None}
        values = {value for value in values if has_year(value, FIRST_YEAR[file_format], 10**7)}
        literals = sorted(values, key=order_of(field))
        possible = list(java_filters_of(field, [literals[0], literals[-1]]))
        filters += possible if NIGHTLY else rng.sample(possible, min(3, len(possible)))
    assert_filters_agree(paimon_java, ledger.path, ledger.rows, filters)


@pytest.mark.parametrize("file_format", ["orc", "avro"])
def test_codecs(tmp_path: Path, paimon_java: Any, file_format: str) -> None:
    """G8: each codec of the format, named in the suffix; small files by a small target size."""
    for codec in CODECS[file_format]:
        options = {"file.compression": codec, "file.suffix.include.compression": "true", "target-file-size": "1 kb"}
        ledger = made(tmp_path / codec, ["i64", "st", "d28"], file_format, **options)
        ledger.change(Lakelatch(), append(rows_of(["i64", "st", "d28"], file_format) * 100))
        ledger.change(Lakelatch(), overwrite([[1, "x", "1.0000"]], {}))
        assert len(ll.open_table(str(ledger.path)).at(snapshot=1).entries()) > 1
        assert_agreed(paimon_java, ledger.path, ledger.expected)


def test_columns_without_a_codec_in_files_that_have_one(tmp_path: Path, paimon_java: Any) -> None:
    """G8: nobody named a codec, so numbers that it does not make smaller do without (decision 81). Java filters them, too."""
    names, dice = ["i32", "f64", "st"], random.Random(81)
    rows = [[number, dice.random(), f"text {number}"] for number in range(5_000)]
    ledger = made(tmp_path / "t", names, "parquet")
    ledger.change(Lakelatch(), append(rows))
    ledger.change(Java(paimon_java), append(rows[:100]))
    assert_agreed(paimon_java, ledger.path, ledger.expected)
    ours = min(ledger.path.rglob("bucket-0/*.parquet"), key=lambda file: -file.stat().st_size)
    group = pq.ParquetFile(ours).metadata.row_group(0)
    assert [group.column(i).compression for i in range(3)] == ["ZSTD", "UNCOMPRESSED", "ZSTD"]


def test_formats_mixed_in_one_table(tmp_path: Path, paimon_java: Any) -> None:
    """G8: the option may change at any time. Existing files do not change."""
    names = ["i32", "st", "f64", "ar", "ro"]
    ledger = made(tmp_path / "t", names, "orc")
    rows = rows_of(names, "orc")
    for file_format in ("orc", "avro", "parquet"):
        ll.open_table(str(ledger.path)).alter(ll.set_option("file.format", file_format))
        ledger.change(Lakelatch(), append(rows))
        ledger.change(Java(paimon_java), append(rows))
    assert_agreed(paimon_java, ledger.path, ledger.expected)
    suffixes = [e.file.file_name.rpartition(".")[2] for e in ll.open_table(str(ledger.path)).entries()]
    assert sorted(suffixes) == ["avro", "avro", "orc", "orc", "parquet", "parquet"]


def test_files_look_like_java_s(tmp_path: Path, paimon_java: Any) -> None:
    """G8: Avro headers are the same letter by letter; ORC columns have the same types, and the ids of ROW fields."""
    headers, schemas = [], []
    names = {**NAMES, "orc": [n for n in NAMES["orc"] if n not in ("at", "rr")]}
    for writer in ("ours", "java"):
        for file_format in ("avro", "orc"):
            path = tmp_path / f"{writer}-{file_format}"
            options = {"file.format": file_format, **PLAIN_ZONE}
            paimon_java.create_table(path, columns(names[file_format]), options=options)
            rows = rows_of(names[file_format], file_format)
            if writer == "java":
                paimon_java.commit_rows(path, rows)
            else:
                table = ll.open_table(str(path))
                table.append(decode_rows(rows, table.schema.fields))
            (file,) = path.rglob(f"data-*.{file_format}")
            if file_format == "avro":
                with file.open("rb") as source:
                    headers.append(json.loads(fastavro.reader(source).metadata["avro.schema"]))
            else:
                schemas.append(orc.ORCFile(file).schema)
    assert headers[0] == headers[1]
    ours, java = schemas
    assert [f.name for f in ours] == [f.name for f in java]
    for mine, theirs in zip(ours, java, strict=True):
        assert mine.type.equals(theirs.type), mine.name
        assert mine.metadata == theirs.metadata, mine.name


def test_what_a_format_cannot_hold(tmp_path: Path) -> None:
    """The column is named before anything is written."""
    for file_format, kind, options in (
        ("avro", "TIMESTAMP(9)", PLAIN_ZONE),
        ("avro", {"type": "MULTISET", "element": "INT"}, PLAIN_ZONE),
        ("avro", "VARIANT", PLAIN_ZONE),
        ("orc", "VARIANT", PLAIN_ZONE),
        ("orc", "TIMESTAMP(3) WITH LOCAL TIME ZONE", {"orc.timestamp-ltz.legacy.type": "true"}),
    ):
        path = tmp_path / f"{file_format}-{str(kind)[:12]}"
        table = ll.create_table(str(path), ll.Schema([("c", kind)]), options={"file.format": file_format, **options})
        with pytest.raises(ll.Unsupported, match="column 'c'"):
            table.append(decode_rows([[None]], table.schema.fields))
        assert table.snapshot() is None
    table = ll.create_table(
        str(tmp_path / "far"), ll.Schema([("c", "TIMESTAMP(3)")]), options={"file.format": "orc", **PLAIN_ZONE}
    )
    with pytest.raises(ll.InvalidArgument, match="column 'c'"):
        table.append(decode_rows([["9999-12-31T23:59:59.999000000"]], table.schema.fields))
    assert not list((tmp_path / "far").rglob("data-*"))
