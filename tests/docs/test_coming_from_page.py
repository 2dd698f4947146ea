"""Runs the code on the page for users of other formats, and holds its table to methods that there are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pages import CHECKOUT, blocks, run_python

import lakelatch as ll

PAGE = "docs/coming-from.md"
TEXT = (CHECKOUT / PAGE).read_text()


def test_the_page_runs(tmp_path: Path) -> None:
    (python,) = blocks(PAGE, "python")
    shown = run_python(f"{python}\nprint(table.count(), table.refresh().schema.names)", tmp_path)
    assert shown.strip() == "3 ('d', 'v', 'x')"


@pytest.mark.parametrize("name", sorted(set(re.findall(r"\b(?:table|ll)\.(\w+)\(", TEXT))))
def test_each_name_is_one_of_the_package_or_of_a_table(name: str) -> None:
    assert hasattr(ll, name) or hasattr(ll.Table, name)
