"""G1, G3, H13: No row is lost or doubled while writers and compactors share a table and compactors are killed at random."""

from __future__ import annotations

from pathlib import Path

import pytest
from figures import NIGHTLY
from report import tell
from torture.compacting import Compacting

import lakelatch as ll

COMMITS, KILLS = (200, 100) if NIGHTLY else (12, 6)


@pytest.fixture
def table(tmp_path: Path) -> Compacting:
    folder = tmp_path / "writers"
    folder.mkdir()
    return Compacting(folder, str(tmp_path / "table"), writers=3, commits=COMMITS)


@pytest.mark.timeout(1800)
def test_compactors_beside_writers(table: Compacting) -> None:
    """The next compactor finishes the work of a killed one; in the end, all rows are in one file."""
    kills, books = table.torture(KILLS)
    found = ll.open_table(table.url)
    compactions = table.compactions(found)
    tell(f"torture of compaction: {books}; {compactions} compactions landed, {kills} compactors killed")
    assert books.acknowledged == books.visible == 3 * COMMITS
    assert (books.lost, books.doubled, books.errors) == (0, 0, [])
    assert compactions > 0 and kills > 0
    found.compact(min_files=2)
    assert len(found.entries()) == 1 and found.count() == 3 * COMMITS
    assert found.verify(data=True) == []
