"""`lakelatch allow`: what the error about a table's places advises."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.backends import trust
from lakelatch.backends.elsewhere import delete_located

ROWS = pa.table({"v": pa.array([1, 2], pa.int64())})


@pytest.mark.parametrize("to_the_letter", [True, False])
def test_who_follows_the_advice_reads_and_deletes_the_files_elsewhere(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, to_the_letter: bool
) -> None:
    url, out = str(tmp_path / "t"), tmp_path / "out"
    options = {"data-file.external-paths": f"file://{out}", "data-file.external-paths.strategy": "round-robin"}
    ll.create_table(url, ROWS.schema, options=options).append(ROWS)
    monkeypatch.setattr(trust, "_KNOWN", trust._Known())
    monkeypatch.setenv(trust.SETTINGS, str(tmp_path / "conf" / "of-another-user.json"))
    assert run("allow", url, "--json").json == {"url": url, "places": []}
    refused = run("read", url)
    assert refused.code == 2
    advice = re.search(rf"run `lakelatch allow {url} (file:{out}/\S+)` or allow a folder above it", refused.err)
    assert advice
    place = advice[1] if to_the_letter else f"file:{out}"
    allowed = run("allow", url, place, "--json")
    assert (allowed.code, allowed.json) == (0, {"url": url, "places": [place]})
    assert len(run("read", url, "--json").lines) == 2
    assert run("allow", url).out == f"{url} may use {place}\n"
    assert run("verify", url, "--data").code == 0
    table = ll.open_table(url)
    assert delete_located(table.store, [advice[1]]) == frozenset()
    assert [path for path in out.rglob("*") if path.is_file()] == []
