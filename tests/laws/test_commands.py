"""What every command of the shell has: help, an example, its place on the page, a test, and an answer where there is no table.

The commands are those of the parser: one that is added is held to this without a change here.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import PAGE, commands, page

from lakelatch.cli.frame.exit_codes import USAGE
from lakelatch.cli.main import main

COMMANDS = commands()
TESTS = "\n".join(path.read_text() for path in Path(__file__).parents[1].rglob("test_*.py"))
WITHOUT_A_TABLE = ("simulate", "allow", "doctor", "ls", "maintain")
"""What these do at a place without a table is no error: they look at a store, a catalog or a user's settings, or at no store."""


def test_the_page_of_the_reference_is_what_the_parser_says() -> None:
    assert PAGE.read_text() == page(), "write the page anew with `PYTHONPATH=.tools .venv/bin/python tests/commands.py`"


@pytest.mark.parametrize("name", COMMANDS)
def test_its_help_says_what_it_does_and_shows_it_at_work(name: str) -> None:
    parser = COMMANDS[name]
    assert parser.description and parser.description.endswith(".")
    assert f"lakelatch {name} " in f"{parser.epilog} ", f"no example of `lakelatch {name}` in its help"
    assert any("--json" in action.option_strings for action in parser._actions)
    unsaid = [action.option_strings for action in parser._actions if action.option_strings and not action.help]
    assert not unsaid, f"`lakelatch {name} --help` does not say what these are for"


@pytest.mark.parametrize("name", COMMANDS)
def test_a_test_runs_it(name: str) -> None:
    words = r",\s*".join(f'"{word}"' for word in name.split())
    assert re.search(rf"(run\(|main\(\[|program\()\s*{words}", TESTS), f"no test runs `lakelatch {name}`"


@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in WITHOUT_A_TABLE])
def test_where_there_is_no_table_it_says_so_and_makes_nothing(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    given = arguments(COMMANDS[name], str(tmp_path / "lake" / "none"))
    code = main([*name.split(), *given, "--json"])
    told = capsys.readouterr()
    assert (code, told.out) == (USAGE, "")
    error = json.loads(told.err)
    assert error["code"] in {"table-not-found", "invalid-argument"} and error["message"]
    assert not (tmp_path / "lake").exists()


def arguments(parser: argparse.ArgumentParser, url: str) -> Iterator[str]:
    """A value for whatever the command cannot do without."""
    for action in parser._actions:
        value = url if action.dest in ("url", "new_url") else str(next(iter(action.choices or ["1"])))
        if action.option_strings:
            yield from [action.option_strings[0], value] if action.required else []
        elif action.nargs in (None, "+"):
            yield value
