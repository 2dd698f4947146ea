"""Runs the code on the page about streams, in the Spark session of this run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pages import blocks, run_python

PAGE = "docs/streams.md"


def test_the_part_without_spark_runs(tmp_path: Path) -> None:
    plain = [block for block in blocks(PAGE, "python") if "spark" not in block and "checkpoints/" not in block]
    assert len(plain) == 4
    assert run_python("\n".join([*plain, "print('done')"]), tmp_path).strip().endswith("done")


@pytest.mark.slow
@pytest.mark.spark
def test_the_page_runs(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code = "\n".join(blocks(PAGE, "python"))
    assert code.count('"checkpoints/') == 4
    names: dict[str, Any] = {}
    exec(code.replace('"checkpoints/', f'"{tmp_path}/checkpoints/'), names)
    assert names["mirror"].count() == 1
