"""Other readers of Iceberg than PyIceberg find the rows of an export: DuckDB with its extension, and Iceberg's own in Java.

By night, because each has an environment of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import java_home
import pyarrow as pa
import pytest
from environments import clean_environment, environment
from interop.java.jvm import fetched_jar, pyspark_jars

import lakelatch as ll

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
DUCKDB = ["duckdb==1.4.4", "duckdb-ext-iceberg==1.4.4.20260205", "duckdb-ext-avro==1.4.4.20260205", "pytz"]
"""The newest whose extensions are packages."""
ICEBERG = ("org.apache.iceberg", "iceberg-spark-runtime-4.0_2.13", "1.10.1")
IN_DUCKDB = """
import duckdb, duckdb_ext, json, pathlib, sys
connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
for extension in ("avro", "iceberg"):
    (found,) = pathlib.Path(duckdb_ext.__path__[0]).glob(f"extensions/*/*/{extension}.duckdb_extension*")
    connection.execute(f"LOAD '{found}'")
rows = connection.execute(f"SELECT k, CAST(p AS VARCHAR), CAST(d AS VARCHAR) FROM iceberg_scan('{sys.argv[1]}')").fetchall()
print(json.dumps(sorted(rows)))
"""
IN_JAVA = """
import json, sys
import jpype
jpype.startJVM("-Dlog4j2.level=OFF", classpath=sys.argv[2:])
tables = jpype.JClass("org.apache.iceberg.hadoop.HadoopTables")(jpype.JClass("org.apache.hadoop.conf.Configuration")())
rows = jpype.JClass("org.apache.iceberg.data.IcebergGenerics").read(tables.load(sys.argv[1])).build()
text = lambda value: None if value is None else str(value)
print(json.dumps(sorted([int(row.getField("k")), text(row.getField("p")), text(row.getField("d"))] for row in rows)))
"""


def _install(python: Path, _: Path) -> None:
    subprocess.run([str(python), "-m", "pip", "install", "-q", *DUCKDB], check=True, env=clean_environment())


def _duckdb(folder: Path) -> object:
    python = environment("duckdb-1.4", _install)
    return _told([str(python), "-c", IN_DUCKDB, str(folder)], clean_environment())


def _java(folder: Path) -> object:
    jars = [str(fetched_jar(*ICEBERG)), *map(str, pyspark_jars().glob("*.jar"))]
    given = {**clean_environment(), "JAVA_HOME": str(java_home.wire())}
    return _told([sys.executable, "-c", IN_JAVA, str(folder), *jars], given)


def _told(command: list[str], variables: dict[str, str]) -> object:
    done = subprocess.run(command, capture_output=True, text=True, env=variables, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def _append_table(path: Path) -> ll.Table:
    schema = pa.schema([("k", pa.int64()), ("p", pa.string()), ("x", pa.int32()), ("d", pa.decimal128(9, 2))])
    options = {"deletion-vectors.enabled": "true"}
    table = ll.create_table(f"{path}/append", schema, partition_by=["p", "d"], options=options)
    for n in range(3):
        parts = ["a b/%", None, "", "\u017e"]
        prices = [Decimal("-1.50"), None, Decimal("0.00"), Decimal("9999999.99")]
        table.append(pa.table({"k": range(4 * n, 4 * n + 4), "p": parts, "x": [n] * 4, "d": prices}, schema=schema))
    table.delete(where="k IN (1, 6)")
    table.alter(ll.update_type("x", pa.int64()), ll.rename_column("x", "wider"))
    return table


def _keyed_table(path: Path) -> ll.Table:
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False), ("p", pa.string()), ("d", pa.decimal128(9, 2))])
    options = {"bucket": "2", "deletion-vectors.enabled": "true"}
    table = ll.create_table(f"{path}/keyed", schema, primary_key=["k"], options=options)
    table.upsert(pa.table({"k": range(30), "p": ["old"] * 30, "d": [Decimal("1.00")] * 30}, schema=schema))
    table.compact()
    table.upsert(pa.table({"k": [3, 40], "p": ["new"] * 2, "d": [None, Decimal("2.00")]}, schema=schema))
    table.compact()
    return table


@pytest.mark.parametrize("made", [_append_table, _keyed_table])
@pytest.mark.parametrize("reader", [_duckdb, _java])
def test_the_rows_of_an_export(tmp_path: Path, made: object, reader: object) -> None:
    assert callable(made) and callable(reader)
    table = made(tmp_path)
    table.export(f"{tmp_path}/out", format="iceberg")
    rows = table.to_arrow(["k", "p", "d"]).to_pylist()
    wanted = sorted([row["k"], row["p"], None if row["d"] is None else str(row["d"])] for row in rows)
    assert reader(tmp_path / "out") == wanted
