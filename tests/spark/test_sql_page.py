"""Runs the page "SQL": every statement, with the first row that the page shows. Runs again under Spark Connect."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pages import CHECKOUT

import lakelatch as ll
import lakelatch.spark as spark_lake

pytestmark = pytest.mark.spark
PAGE = CHECKOUT / "docs" / "sql.md"
_BLOCK = re.compile(r"^```(sql|python)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_STATEMENT = re.compile(r"(.+?);[ \t]*(?:-->[ ]*([^\n]*))?\n", re.DOTALL)


def statements(block: str) -> list[tuple[str, str | None]]:
    """Each statement, and the first row that the page shows."""
    return [(found[1].strip(), found[2] or None) for found in _STATEMENT.finditer(block)]


def test_every_statement_runs_and_shows_what_the_page_says(
    spark: Any, no_views: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    spark_lake.unregister(spark)
    ran, wrong, names = 0, [], {"spark": spark}
    try:
        for language, code in _BLOCK.findall(PAGE.read_text()):
            if language == "python":
                code = code.replace('warehouse="warehouse"', f'warehouse="{tmp_path}/warehouse"')
                code = code.replace('Location="checkpoint"', f'Location="{tmp_path}/checkpoint"')
                code = re.sub(r"^spark = .*\n", "", code, flags=re.MULTILINE)
                exec(compile(code, PAGE.name, "exec"), names)
                continue
            for text, shown in statements(code):
                frame = spark.sql(text)
                rows = frame.collect()
                first = ", ".join(map(str, rows[0])) if rows else ""
                if shown is not None and not first.startswith(shown):
                    wrong.append(f"{text}: {first}, not {shown}")
                ran += 1
        assert ran > 75 and wrong == []
        assert ll.open_catalog(str(tmp_path / "warehouse")).tables("air") == [
            "board",
            "copied",
            "flights",
            "late",
            "made",
            "saved",
        ]
    finally:
        spark_lake.unregister(spark)


def test_the_reference_of_procedures_is_made_of_their_table() -> None:
    from lakelatch.spark.procedures.reference import page

    assert (CHECKOUT / "docs" / "reference" / "procedures.md").read_text() == page(), (
        "run python -m lakelatch.spark.procedures.reference > docs/reference/procedures.md"
    )
