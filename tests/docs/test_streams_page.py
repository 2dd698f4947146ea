"""Runs the code on the page about streams, in the Spark session of this run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pages import blocks

PAGE = "docs/streams.md"


@pytest.mark.spark
def test_the_page_runs(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code = "\n".join(blocks(PAGE, "python"))
    assert code.count('"checkpoints/') == 4
    names: dict[str, Any] = {}
    exec(code.replace('"checkpoints/', f'"{tmp_path}/checkpoints/'), names)
    assert names["mirror"].count() == 1
