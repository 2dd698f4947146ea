"""Runs the page "Spark by habit": each of its sections, in the session of these tests. Runs again under Spark Connect."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pages import CHECKOUT

pytestmark = pytest.mark.spark
PAGE = CHECKOUT / "docs" / "spark-by-habit.md"
TOP = "\n# what every section begins with ends here\n"
_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def sections() -> dict[str, str]:
    """The Python code of each section, which begins with the code at the top of the page."""
    top, *parts = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)
    first = "\n".join(_BLOCK.findall(top))
    codes = {part.partition("\n")[0]: "\n".join(_BLOCK.findall(part)) for part in parts}
    return {title: first + TOP + code for title, code in codes.items() if code}


@pytest.mark.parametrize("section", sections())
def test_every_block_runs(spark: Any, section: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each section shows its result with an `assert` of its own, and its last line is reached."""
    monkeypatch.chdir(tmp_path)
    code, names = sections()[section], {"spark": spark}
    assert re.search("^ *assert ", code.rpartition(TOP)[2], re.MULTILINE), "the section shows no result"
    exec(compile(f"{code}\nthe_end = True", f"{PAGE.name}: {section}", "exec"), names)
    assert names.get("the_end")


def test_every_option_of_the_source_is_on_the_page() -> None:
    from lakelatch.spark.options.source_options import KNOWN, PROPERTY_PREFIX, STORAGE_PREFIX

    _, _, section = PAGE.read_text().partition("\n## Options\n")
    rows = [line for line in section.partition("\n## ")[0].splitlines() if line.startswith("| `")]
    named = {name.lower() for row in rows for name in re.findall(r"`([^`]+)`", row.split("|")[1])}
    assert named == {*KNOWN, f"{PROPERTY_PREFIX}name", f"{STORAGE_PREFIX}name"}
