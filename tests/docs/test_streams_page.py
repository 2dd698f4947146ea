"""Runs the code on the page about streams."""

from __future__ import annotations

from pathlib import Path

from pages import blocks, run_python

PAGE = "docs/streams.md"


def test_the_part_without_spark_runs(tmp_path: Path) -> None:
    plain = [block for block in blocks(PAGE, "python") if "spark" not in block]
    assert len(plain) >= 2
    assert run_python("\n".join([*plain, "print('done')"]), tmp_path).strip().endswith("done")
