"""Figures of a run replace those of the run before, and nothing else of the page."""

from __future__ import annotations

import pytest
from figures import DOCS, replaced


def test_a_block_is_replaced_alone() -> None:
    page = "# a\n<!-- x -->\nold\n<!-- /x -->\n<!-- y -->\nkept\n<!-- /y -->\n"
    assert replaced(page, "x", "new\n") == page.replace("old", "new")


def test_a_page_without_the_block_is_refused() -> None:
    with pytest.raises(LookupError, match="0 blocks 'z'"):
        replaced("# a\n", "z", "new")


@pytest.mark.parametrize("block", ["exploration", "mutants", "mutation score", "seeds", "torture"])
def test_the_guarantees_have_a_place_for_every_figure(block: str) -> None:
    assert replaced((DOCS / "guarantees.md").read_text(), block, "new").count("new\n") == 1


def test_many_writers_have_a_place_for_theirs() -> None:
    assert "new\n" in replaced((DOCS / "many-writers.md").read_text(), "writers", "new")
