"""`lakelatch allow`: what the error about a table's places advises."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.backends import trust

ROWS = pa.table({"v": pa.array([1, 2], pa.int64())})


def test_who_follows_the_advice_reads_the_files_elsewhere(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, out = str(tmp_path / "t"), tmp_path / "out"
    options = {"data-file.external-paths": f"file://{out}", "data-file.external-paths.strategy": "round-robin"}
    ll.create_table(url, ROWS.schema, options=options).append(ROWS)
    monkeypatch.setattr(trust, "_KNOWN", trust._Known())
    monkeypatch.setenv(trust.SETTINGS, str(tmp_path / "conf" / "of-another-user.json"))
    assert run("allow", url, "--json").json == {"url": url, "places": []}
    refused = run("read", url)
    assert refused.code == 2
    assert re.search(rf"run `lakelatch allow {url} file:{out}/\S+` or allow a folder above it", refused.err)
    allowed = run("allow", url, out, "--json")
    assert (allowed.code, allowed.json) == (0, {"url": url, "places": [f"file:{out}"]})
    assert len(run("read", url, "--json").lines) == 2
    assert run("allow", url).out == f"{url} may use file:{out}\n"
