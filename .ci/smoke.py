"""Tries an installed lakelatch: each argument is a function of this file. It needs the package alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

MOST_MODULES = 40
MOST_SECONDS = 0.05
"""Of CPU, for `import lakelatch`; an idle machine takes a fifth of it."""


def rows() -> Any:
    import pyarrow as pa

    return pa.table({"id": pa.array([1, 2, 3]), "text": ["a", None, "ü"]})


def use(url: str, options: dict[str, Any] | None = None) -> None:
    """Appends, replays, upserts, changes, reads and compacts."""
    import lakelatch as ll

    plain = ll.create_table(f"{url}/plain", rows().schema, storage_options=options)
    for _ in range(2):
        plain.append(rows(), commit_user="smoke", identifier=1)
    plain.append(rows())
    assert plain.delete(where="id = 1").rows_deleted == 2
    assert sorted(plain.to_arrow()["id"].to_pylist()) == [2, 2, 3, 3]
    schema = rows().schema.set(0, rows().schema.field(0).with_nullable(False))
    keyed = ll.create_table(
        f"{url}/keyed", schema, primary_key=["id"], options={"bucket": "1"}, storage_options=options
    )
    keyed.upsert(rows().cast(schema))
    keyed.upsert(rows().slice(1, 1).cast(schema))
    keyed.compact()
    assert keyed.to_arrow(where="id >= 2").num_rows == 2
    avro = ll.create_table(f"{url}/avro", rows().schema, options={"file.format": "avro"}, storage_options=options)
    avro.append(rows())
    assert avro.to_arrow().num_rows == 3
    assert list(plain.verify(data="deep")) == []
    for table in (plain, keyed, avro):
        table.settle()  # nobody may write when the folder goes


def local() -> None:
    with tempfile.TemporaryDirectory() as folder:
        use(folder)


def stores() -> None:
    """In the folders that the environment names, with their options, by each transport that is installed."""
    import importlib.util

    import lakelatch as ll

    for store, (root, told) in json.loads(os.environ["SMOKE_STORES"]).items():
        both = store in ("s3", "adls") and importlib.util.find_spec("obstore")
        for carrier in ["fsspec", *(["obstore"] if both else [])]:
            given = {**told, "transport": carrier} if both else told
            use(f"{root}/{carrier}", given)
            assert ll.is_table(f"{root}/{carrier}/plain", storage_options=given)


def shell() -> None:
    import lakelatch as ll

    command = Path(sys.executable).with_name("lakelatch")
    with tempfile.TemporaryDirectory() as folder:
        ll.create_table(f"{folder}/t", rows().schema)
        given = {**os.environ, "XDG_STATE_HOME": f"{folder}/state"}
        line = json.dumps({"id": 7, "text": "x"})
        subprocess.run(
            [command, "write", f"{folder}/t", "-", "--format", "json"], input=line, text=True, env=given, check=True
        )
        done = subprocess.run(
            [command, "read", f"{folder}/t", "--json"], capture_output=True, text=True, env=given, check=True
        )
        assert json.loads(done.stdout.splitlines()[0])["id"] == 7, done.stdout


def frames() -> None:
    import duckdb
    import polars as pl

    import lakelatch as ll

    with tempfile.TemporaryDirectory() as folder:
        table = ll.create_table(f"{folder}/t", rows().schema)
        table.append(pl.from_arrow(rows()))
        assert table.to_polars().height == 3
        connection = duckdb.connect()
        table.to_duckdb(connection, "t")
        assert connection.sql("SELECT count(*) FROM t").fetchall() == [(3,)]
        assert table.to_iceberg().scan().count() == 3
        table.settle()


def spark() -> None:
    from pyspark.sql import SparkSession

    import lakelatch.spark as lake

    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    with tempfile.TemporaryDirectory() as folder:
        frame = session.createDataFrame(rows().to_pylist(), "id BIGINT, text STRING")
        assert lake.write(frame, f"{folder}/t", options={}).snapshot_id == 1
        assert lake.read(session, f"{folder}/t").where("id > 1").count() == 2
        lake.register(session)
        frame.write.format("lakelatch").mode("append").save(f"{folder}/t")
        assert session.read.format("lakelatch").load(f"{folder}/t").count() == 6
    session.stop()


def sketches() -> None:
    import pyarrow as pa
    from datasketches import hll_sketch

    import lakelatch as ll

    schema = pa.schema([pa.field("k", pa.int64(), nullable=False), ("seen", pa.binary())])
    options = {"bucket": "1", "merge-engine": "aggregation", "fields.seen.aggregate-function": "hll_sketch"}
    with tempfile.TemporaryDirectory() as folder:
        table = ll.create_table(f"{folder}/t", schema, primary_key=["k"], options=options)
        for visitor in ("a", "b"):
            sketch = hll_sketch(12)
            sketch.update(visitor)
            table.upsert(pa.table({"k": [1], "seen": [sketch.serialize_compact()]}, schema=schema))
        merged = hll_sketch.deserialize(table.to_arrow()["seen"][0].as_py())
        assert round(merged.get_estimate()) == 2, merged
        table.settle()


def plugin() -> None:
    """The plug-in for pytest is imported by every run, also of an old pytest."""
    with tempfile.TemporaryDirectory() as folder:
        text = "def test_a(faulty_store): pass\n"
        Path(folder, "test_a.py").write_text(text)
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", folder]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert "1 passed" in done.stdout, done.stdout + done.stderr


def imports() -> None:
    """`import lakelatch` costs next to nothing."""
    text = (
        "import sys, time; begin, before = time.process_time(), len(sys.modules); import lakelatch;"
        " print(time.process_time() - begin, len(sys.modules) - before)"
    )
    runs = [subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True) for _ in range(3)]
    seconds = min(float(run.stdout.split()[0]) for run in runs)
    modules = int(runs[0].stdout.split()[1])
    assert modules <= MOST_MODULES and seconds <= MOST_SECONDS, (modules, seconds)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        globals()[name]()
    print(" ".join(sys.argv[1:]), "ok")
