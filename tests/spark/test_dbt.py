"""The project of examples/dbt runs twice against a registered session: a table, two incremental models, a snapshot and tests.

By night, because dbt has an environment of its own.
"""

from __future__ import annotations

import os
import subprocess
import sysconfig
from pathlib import Path

import java_home
import pyarrow as pa
import pytest
from environments import clean_environment, environment

import lakelatch as ll

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1800)]
ROOT = Path(__file__).parents[2]
PACKAGES = ["dbt-core==1.10.23", "dbt-spark==1.10.3"]
"""The newest whose packages are whole: those of 1.11 fetch a part from elsewhere when they are installed."""


def _install(python: Path, folder: Path) -> None:
    subprocess.run([str(python), "-m", "pip", "install", "-q", *PACKAGES], check=True, env=clean_environment())
    beside = next(folder.glob("lib/python*/site-packages")) / "beside.pth"
    beside.write_text(sysconfig.get_path("purelib") + "\n")  # Spark and Arrow, behind dbt's own packages


def _dbt(warehouse: Path, *command: str) -> str:
    python = environment("dbt-1.10", _install)
    given = {
        **os.environ,
        "PYTHONPATH": str(ROOT / ".tools"),
        "JAVA_HOME": str(java_home.wire()),
        "PYSPARK_PYTHON": str(python),
        "PYSPARK_DRIVER_PYTHON": str(python),
        "DBT_TARGET_PATH": str(warehouse.parent / "target"),
        "DBT_LOG_PATH": str(warehouse.parent / "logs"),
    }
    asked = [str(python), str(ROOT / "examples" / "dbt" / "run.py"), str(warehouse), *command]
    done = subprocess.run(asked, capture_output=True, text=True, env=given, cwd=warehouse.parent, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
    return done.stdout


def _flights(first: int, *carriers: str) -> pa.Table:
    ids = list(range(first, first + len(carriers)))
    return pa.table(
        {
            "id": pa.array(ids, pa.int32()),
            "month": pa.array([1 + i // 3 for i in ids], pa.int32()),
            "carrier": list(carriers),
            "delay": pa.array([float(i) for i in ids]),
        }
    )


def test_a_project_is_built_twice(tmp_path: Path) -> None:
    warehouse = tmp_path / "lake"
    catalog = ll.open_catalog(str(warehouse))
    catalog.create_database("raw")
    first = _flights(0, "AA", "UA", "AA", "DL")
    catalog.create_table("raw.flights", first.schema).append(first)

    assert "PASS=8" in _dbt(warehouse, "build")
    assert _rows(catalog, "air.carriers") == [("AA", 2, 2), ("DL", 1, 3), ("UA", 1, 1)]
    assert _rows(catalog, "air.months", "month", "flights") == [(1, 3), (2, 1)]
    assert _rows(catalog, "air.carrier_history", "carrier", "flights") == [("AA", 2), ("DL", 1), ("UA", 1)]

    catalog["raw.flights"].append(_flights(4, "AA", "B6"))
    assert "PASS=8" in _dbt(warehouse, "build")
    assert _rows(catalog, "air.flights", "id") == [(i,) for i in range(6)]
    assert _rows(catalog, "air.carriers") == [("AA", 3, 4), ("B6", 1, 5), ("DL", 1, 3), ("UA", 1, 1)]
    assert _rows(catalog, "air.months", "month", "flights") == [(1, 3), (2, 3)]
    history = catalog["air.carrier_history"].to_arrow().to_pylist()
    assert sorted((r["carrier"], r["flights"], r["dbt_valid_to"] is None) for r in history) == [
        *(("AA", 2, False), ("AA", 3, True), ("B6", 1, True), ("DL", 1, True), ("UA", 1, True)),
    ]
    assert len(catalog["air.carriers"].snapshots()) == 2, "each run is one commit"


def _rows(catalog: ll.Catalog, table: str, *columns: str) -> list[tuple[object, ...]]:
    found = catalog[table].to_arrow().to_pylist()
    return sorted(tuple(row[name] for name in columns or row) for row in found)
