"""Names that the shell completes."""

from __future__ import annotations

import io
import itertools
import os
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.cli.frame.completion import complete
from lakelatch.cli.main import build_parser

COUNTER = itertools.count()
SCHEMA = pa.schema([("v", pa.int64())])


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What the shell gets for a line that ends where the cursor is."""

    open_ = os.fdopen
    # argcomplete takes descriptor 9 for its log, and closes it: in this process it may be anything
    monkeypatch.setattr(
        os, "fdopen", lambda fd, *more, **named: io.StringIO() if fd == 9 else open_(fd, *more, **named)
    )

    def ask(line: str) -> list[str]:
        monkeypatch.setenv("_ARGCOMPLETE", "1")
        monkeypatch.setenv("_ARGCOMPLETE_IFS", "\v")
        monkeypatch.setenv("_ARGCOMPLETE_COMP_WORDBREAKS", "")
        monkeypatch.setenv("COMP_LINE", line)
        monkeypatch.setenv("COMP_POINT", str(len(line)))
        told = io.StringIO()
        with pytest.raises(SystemExit) as ended:
            complete(build_parser(), exit_method=_end, output_stream=told)
        assert ended.value.code == 0
        return sorted(name.strip() for name in told.getvalue().split("\v") if name.strip())

    return ask


def _end(code: int) -> None:
    raise SystemExit(code)


@pytest.fixture
def table() -> ll.Table:
    made = ll.create_table(f"memory://completed-{next(COUNTER)}/air.db/flights", SCHEMA)
    made.append(pa.table({"v": [1]}))
    made.create_tag("eod")
    made.create_tag("eom")
    made.create_branch("staging", tag="eod")
    made.set_consumer("etl", 1)
    return made


def test_names_of_a_table(offered: Any, table: ll.Table) -> None:
    url = table.url
    assert offered(f"lakelatch read {url} --tag eo") == ["eod", "eom"]
    assert offered(f"lakelatch tag delete {url} eod") == ["eod"]
    assert offered(f"lakelatch tag {url} delete eo") == ["eod", "eom"]
    assert offered(f"lakelatch read {url} --branch ") == ["main", "staging"]
    assert offered(f"lakelatch read {url} --branch staging --tag eo") == ["eod"], "a branch has tags of its own"
    assert offered(f"lakelatch branch rename {url} s") == ["staging"]
    assert offered(f"lakelatch consumer delete {url} e") == ["etl"]


def test_tables_of_a_catalog(offered: Any, table: ll.Table) -> None:
    root = table.url.removesuffix("/air.db/flights")
    assert offered(f"lakelatch read {root}/") == [f"{root}/air.db/"]
    assert offered(f"lakelatch read {root}/air.db/f") == [table.url]
    assert offered(f"lakelatch ls {root} a") == ["air"]


def test_nothing_is_offered_where_nothing_is_found(offered: Any) -> None:
    assert offered("lakelatch read memory://nowhere/t --tag e") == []
    assert offered("lakelatch read memory://nowhere/t --storage-option broken --tag e") == []
    assert offered("lakelatch sch") == ["schema"]


def test_commands_run_as_ever_without_the_shell_asking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("_ARGCOMPLETE", raising=False)
    assert complete(build_parser()) is None
