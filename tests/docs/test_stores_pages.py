"""docs/stores/: every scheme is listed, every option on a page is accepted by the store, and every link has a target."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lakelatch.backends.registry import _ADAPTERS, open_store

PAGES = Path(__file__).parents[2] / "docs" / "stores"
URLS = {"s3": "s3://b/x", "gcs": "gs://b/x", "adls": "abfs://c/x", "hdfs": "hdfs://h:1/x"}


def test_every_scheme_is_on_the_page() -> None:
    text = (PAGES / "README.md").read_text()
    for scheme in set(_ADAPTERS) - {"memory", "file"}:
        assert f"`{scheme}://`" in text
    for target in re.findall(r"\]\(([^)#h][^)#]*)", text):
        assert (PAGES / target).exists(), target


@pytest.mark.parametrize("store", URLS)
def test_every_option_exists(store: str) -> None:
    """The store accepts every option name that a reader can copy from its page."""
    section = (PAGES / f"{store}.md").read_text().partition("## Credentials")[2].partition("\n## ")[0]
    cells = [line.strip("| ").split("|")[-1] for line in section.splitlines() if line.startswith("| ")][1:]
    names = re.findall(r"`([a-z_]+)(?:=[^`]*)?`", " ".join(cells))
    assert names
    for name in names:
        open_store(URLS[store], {name: "x"})
