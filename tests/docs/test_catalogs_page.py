"""Runs the code on the page about catalogs: the Python blocks, then the shell block, and the example for Airflow."""

from __future__ import annotations

import runpy
from pathlib import Path

import pyarrow as pa
import pytest
from pages import CHECKOUT, blocks, run_python, run_shell

import lakelatch as ll

PAGE = "docs/catalogs.md"


def test_the_page_runs_and_prints_what_it_says(tmp_path: Path) -> None:
    printed = run_python("\n".join(blocks(PAGE, "python")), tmp_path).splitlines()
    assert printed[0].startswith("lake/air.db/trips: 7 snapshots, ")
    assert printed.pop(1).startswith("lake/air.db/trips to lake/air.db/trial: 7 snapshots, ")
    assert printed.pop(1) == "snapshot 7 in plain: 1 files, 2 rows"
    assert "air.db/cheap: snapshot 7; 7 data files stay where they are" in printed.pop(1)
    assert printed[1].startswith("lake/air.db/more: 1 files in 1 partitions, 2 rows, ")
    assert printed[2] == "1 tables, 1 have something to do"
    assert printed[3].startswith("1 of 1: air.trips: compact: 5 files became 1, snapshot 8")
    shown = run_shell("\n".join(blocks(PAGE, "sh")), tmp_path)
    assert "air       trips" in shown
    assert "1 tables, 0 had something to do" in shown


def test_the_example_for_airflow_works_without_airflow(tmp_path: Path) -> None:
    lake = ll.open_catalog(str(tmp_path))
    lake.create_database("air")
    lake.create_table("air.a", pa.schema([("v", pa.int64())]))
    example = runpy.run_path(str(CHECKOUT / "examples/maintain_airflow.py"))
    assert example["databases"](lake.url) == ["air"]
    assert example["maintain_database"]("air", lake.url) == {"tables": 1, "had something to do": 0}
    (tmp_path / "air.db/a/schema/schema-0").write_text("{")
    with pytest.raises(RuntimeError, match=r"1 failed: air\.a"):
        example["maintain_database"]("air", lake.url)
