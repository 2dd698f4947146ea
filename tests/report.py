"""What a run tells at its end: the figures that it saw, the servers and runtimes that it used, what it did not test."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest

USED: dict[str, str] = {}
"""What was started in this run."""
TOLD: list[str] = []
"""Figures that tests saw."""
SKIPPED: list[str] = []
"""Tests that did not run."""


def tell(figure: str) -> None:
    """Have the report say this, whether or not the test passes."""
    TOLD.extend(figure.strip("\n").splitlines())


def not_here(what: str, why: object) -> NoReturn:
    """Skip a test for what this machine lacks, and have the report say so; where none may be skipped, fail it."""
    USED[what] = f"NOT TESTED: {why}"
    if none_may_be_skipped():
        pytest.fail(f"{what}: {why}; LAKELATCH_NO_SKIPS is set, so this machine must have it", pytrace=False)
    pytest.skip(f"{what}: {why}")


def none_may_be_skipped() -> bool:
    """Where LAKELATCH_NO_SKIPS is set, as CI does, what the machine lacks is an error."""
    return bool(os.environ.get("LAKELATCH_NO_SKIPS"))
