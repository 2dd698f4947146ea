"""docs/stores/: every scheme is listed, every option on a page is accepted by the store, and every link has a target."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import pyspark
import pytest

from lakelatch.backends.registry import _ADAPTERS, open_store
from lakelatch.spark.sessions.session import _hadoop_of

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


def test_the_hadoop_of_the_installed_pyspark_is_on_the_page() -> None:
    """It is told by the jars; a session of another version, as of a server of Connect, has no jars here."""
    section = (PAGES / "s3.md").read_text().partition("\n## spark-submit")[2]
    versions = dict(re.findall(r"^\| (\d\.\d) \| `(\d+\.\d+\.\d+)` \|$", section, re.MULTILINE))
    installed = SimpleNamespace(version=pyspark.__version__)
    assert _hadoop_of(installed) == versions[pyspark.__version__[:3]]
    assert f"hadoop-aws:{versions['4.1']}" in section
    assert _hadoop_of(SimpleNamespace(version="4.0.0")) == "VERSION in the version of Spark's own Hadoop"
