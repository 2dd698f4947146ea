"""Fixtures of the tests with many processes.

Owns: the folder through which processes talk. Must not know: what they do.
"""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty folder beside the table, in which each process writes down what it did."""
    made = tmp_path / "writers"
    made.mkdir()
    return made
