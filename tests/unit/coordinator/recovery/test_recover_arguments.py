"""What a caller of `recover` can ask for: which journals, whether files are deleted, which commits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from fragile import ROWS, Died, die

import lakelatch as ll
from lakelatch.backends.local import LocalStore
from lakelatch.core.errors import StoreUnavailable
from lakelatch.table.table import Table


def files(url: Path) -> set[str]:
    return {path.name for path in (url / "manifest").iterdir()}


def append_and_die(table: Table) -> None:
    """A commit whose writer dies after its metadata is written and before its snapshot is sent."""
    make = table.committer._run

    def made(*args: Any, **kwargs: Any) -> Any:
        run = make(*args, **kwargs)
        run.prepare_snapshot = lambda effect: die()
        return run

    table.committer._run = made  # type: ignore[method-assign]
    with pytest.raises(Died):
        table.append(ROWS)


@pytest.fixture
def url(tmp_path: Path) -> Path:
    """A table that names a journal file, and has one commit."""
    made = tmp_path / "table"
    options = {"commit.journal": str(tmp_path / "journal")}
    ll.allow(made, tmp_path / "journal")
    ll.create_table(str(made), ROWS.schema, options=options).append(ROWS)
    return made


def test_files_of_lost_commits_are_left_where_the_caller_wants_to_see_them(url: Path) -> None:
    before = files(url)
    append_and_die(ll.open_table(str(url)))
    written = files(url) - before
    assert written
    *_, kept = ll.recover(str(url), writers_are_gone=True, clean=False).commits
    assert (kept.outcome, kept.cleaned) == ("not landed", ())
    assert files(url) == before | written


def test_files_of_lost_commits_are_deleted_otherwise(url: Path) -> None:
    before = files(url)
    append_and_die(ll.open_table(str(url)))
    *_, cleaned = ll.recover(str(url), writers_are_gone=True).commits
    assert cleaned.outcome == "not landed"
    assert cleaned.cleaned
    assert files(url) == before


def test_a_journal_file_of_another_machine_is_left_out(url: Path, tmp_path: Path) -> None:
    """The option names a path that this machine does not have: the journal beside the table is read all the same."""
    append_and_die(ll.open_table(str(url)))
    (tmp_path / "journal").unlink()
    assert ll.recover(str(url), writers_are_gone=True).commits == ()
    assert not (tmp_path / "journal").exists(), "recovery makes no journal"


def test_only_the_commits_that_are_asked_for_are_looked_up(url: Path) -> None:
    append_and_die(ll.open_table(str(url)))
    before = files(url)
    assert ll.recover(str(url), writers_are_gone=True, only=lambda commit: False).commits == ()
    assert files(url) == before
    assert ll.open_table(str(url)).to_arrow().equals(pa.table(ROWS))


def test_files_that_the_store_does_not_delete_are_not_reported(url: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The outcome is known all the same, and orphan cleaning finds the files later."""
    append_and_die(ll.open_table(str(url)))
    before = files(url)

    def refused(self: LocalStore, keys: object) -> None:
        raise StoreUnavailable("the disk is read-only")

    with monkeypatch.context() as broken:
        broken.setattr(LocalStore, "delete_many", refused)
        *_, lost = ll.recover(str(url), writers_are_gone=True).commits
    assert (lost.outcome, lost.cleaned) == ("not landed", ())
    assert files(url) == before
