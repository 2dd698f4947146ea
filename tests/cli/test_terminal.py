"""Tables on a terminal of any width: nothing is cut off, nothing is left out."""

from __future__ import annotations

import re
from typing import Any

import pytest

import lakelatch as ll
from lakelatch.cli.frame.output import Output


@pytest.fixture
def terminal(run: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs a command as if on a terminal with that many columns; returns the lines, which are never longer."""
    monkeypatch.setattr(Output, "on_terminal", True)

    def shown(width: int, *words: object) -> list[str]:
        monkeypatch.setenv("COLUMNS", str(width))
        answer = run(*words)
        assert answer.code == 0, answer.err
        return [line.rstrip() for line in answer.out.splitlines()]

    return shown


def test_log_fits_80_columns_with_whole_headers_and_users(flights: ll.Table, terminal: Any) -> None:
    rows = flights.to_arrow(limit=1)
    flights.append(rows, commit_user="nightly-load", identifier=7)
    flights.append(rows, commit_user="a-user-whose-name-is-longer-than-the-column-that-is-left-for-it", identifier=1)
    lines = terminal(80, "log", flights.url)
    assert max(map(len, lines)) <= 80
    assert lines[1].split() == ["id", "time", "(UTC)", "kind", "user", "rows", "total", "tries"]
    assert any("nightly-load/7" in line for line in lines)
    at = lines[1].index("user")
    folded = "".join(line[at : lines[1].index("rows")].strip() for line in lines)
    assert "a-user-whose-name-is-longer-than-the-column-that-is-left-for-it/1" in folded
    wide = terminal(160, "log", flights.url)
    assert "identifier" in wide[1] and "attempts" in wide[1] and re.search(r"nightly-load +7 ", "\n".join(wide))


def test_a_table_that_does_not_fit_is_printed_one_fact_a_line(flights: ll.Table, terminal: Any) -> None:
    lines = terminal(40, "log", flights.url)
    blocks = [block.splitlines() for block in "\n".join(lines).strip().split("\n\n")]
    assert len(blocks) == 3
    assert [line.split()[0] for line in blocks[0]] == ["id", "time", "kind", "user", "rows", "total", "tries"]
    assert blocks[0][3].split()[1] == flights.history()[0]["commit_user"]


@pytest.mark.parametrize("width", [30, 60, 80, 120])
@pytest.mark.parametrize("command", ["files", "schema", "read", "show"])
def test_no_header_and_no_value_is_lost(flights: ll.Table, terminal: Any, command: str, width: int) -> None:
    shown = "".join("".join(terminal(width, command, flights.url)).split())
    expected = {
        "files": ["record_count", "file_size_in_bytes", "level"],
        "schema": ["carrier", "STRING", "month"],
        "read": ["carrier", "month", "AA"],
        "show": ["added_files", "manifest", "size"],
    }[command]
    for part in expected:
        assert part in shown, (part, shown)
