"""Runs the code on the page about system tables; that for Spark in the session of this run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pages import blocks, run_python, run_shell

import lakelatch as ll

PAGE = "docs/system-tables.md"


@pytest.mark.spark
def test_the_page_runs_and_prints_what_it_says(tmp_path: Path, spark: Any) -> None:
    *parts, frames = blocks(PAGE, "python")
    printed = run_python("\n".join(parts), tmp_path).splitlines()
    assert printed[0] == "{'snapshot_id': 2, 'commit_kind': 'APPEND', 'total_record_count': 4}"
    assert printed[1].startswith("[{'partition': '{2}', 'bucket': ") and printed[1].endswith("'level': 0}]")
    assert printed[2] == "[{'rowkind': '+I', 'month': 1, 'carrier': 'AA', 'delay': 4.0}]"
    assert printed[-2].startswith("2 manifests (") and printed[-2].endswith("of 2 would be merged")
    assert printed[-1] == "4 of 4 files, 4 rows, get other indexes"
    url = str(tmp_path / "lake" / "board")
    names: dict[str, Any] = {"board": ll.open_table(url)}
    exec(frames.replace("lake/board", url), names)
    assert names["frame"].columns[0] == "partition" and names["spark"] is spark
    shown = run_shell(blocks(PAGE, "sh")[0], tmp_path)
    assert "distinct" in shown and "nothing to index: 4 files" in shown
    assert "tag_name" in shown and '"partition": "{' in shown
