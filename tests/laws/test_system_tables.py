"""What every system table has: its place on the page, its name in the shell's help.

The tables are those of `SYSTEM_TABLES`: one that is added is held to this without a change here.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from commands import commands

from lakelatch.table.system.read import SYSTEM_TABLES

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "system-tables.md").read_text()


@pytest.mark.parametrize("name", SYSTEM_TABLES)
def test_the_page_says_what_its_rows_are(name: str) -> None:
    rows = re.findall(r"^\| (`[^|]+) \|", PAGE.partition("| a row for each |")[2].partition("\n\n")[0], re.MULTILINE)
    assert name in re.findall(r"`(\w+)`", " ".join(rows)), f"docs/system-tables.md does not list `{name}`"


def test_the_help_of_the_shell_names_each() -> None:
    (name,) = (action for action in commands()["system"]._actions if action.dest == "name")
    assert sorted(re.findall(r"\w+", (name.help or "").replace(" or ", " "))) == sorted(SYSTEM_TABLES)
