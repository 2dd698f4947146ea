"""docs/reference/spark.md: its code runs. docs/spark-by-habit.md lists the options of the source."""

from __future__ import annotations

import re
from pathlib import Path

import java_home
import pytest
from pages import CHECKOUT, blocks, run_python

from lakelatch.spark.options.source_options import KNOWN, PROPERTY_PREFIX, STORAGE_PREFIX

PAGE = "docs/reference/spark.md"
BEFORE = """
import pathlib
import lakelatch as ll
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
pathlib.Path("clicks").mkdir()
pathlib.Path("clicks/1.json").write_text('{"at": "2026-03-01T00:00:00Z", "page": "/"}')
"""
AFTER = "print('clicks', ll.open_table('lake/clicks').count())"


@pytest.mark.spark
def test_the_code_of_the_page_runs(tmp_path: Path) -> None:
    java_home.wire()
    code = blocks(PAGE, "python")
    assert len(code) == 2
    assert run_python("\n".join([BEFORE, *code, AFTER]), tmp_path).splitlines()[-1] == "clicks 1"


def test_every_option_of_the_source_is_listed() -> None:
    text = (CHECKOUT / "docs" / "spark-by-habit.md").read_text().partition("## Options")[2].partition("\n## ")[0]
    first_cells = re.findall(r"^\| (`.*?) \|", text, re.MULTILINE)
    listed = {name.lower() for cell in first_cells for name in re.findall(r"`([^`]+)`", cell)}
    assert listed == {*KNOWN, f"{PROPERTY_PREFIX}name", f"{STORAGE_PREFIX}name"}
