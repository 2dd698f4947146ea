"""H19: credentials that were passed to lakelatch appear in no object, journal, log, span, metric, repr, error or output of
`explain`."""

from __future__ import annotations

import logging
import traceback
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from exported import Exported

import lakelatch as ll

from .conftest import Faulty

TOKEN = "ya29.token-of-somebody-5f3e"


def options_of(faulty: Faulty, monkeypatch: pytest.MonkeyPatch) -> tuple[dict[str, Any], list[str]]:
    """Storage options with explicit credentials, and the values that must not be shown."""
    if faulty.kind == "gcs":
        monkeypatch.setenv("FETCH_RAW_TOKEN_EXPIRY", "false")  # gcsfs would ask Google about the token
        return {**faulty.options, "token": TOKEN}, [TOKEN]
    if faulty.kind == "adls":
        connection = faulty.options["connection_string"]
        return faulty.options, [connection, connection.partition("AccountKey=")[2].partition(";")[0]]
    return faulty.options, [faulty.options["key"], faulty.options["secret"]]


def test_nothing_tells(
    faulty: Faulty, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    options, secrets = options_of(faulty, monkeypatch)
    url, journal = f"{faulty.url}/table", tmp_path / "journal.jsonl"
    shown: list[str] = []
    exported = Exported(monkeypatch)
    with caplog.at_level(logging.DEBUG, logger="lakelatch"):
        ll.create_table(url, pa.schema([("x", pa.int64())]), storage_options=options)
        table = ll.open_table(url, storage_options=options, journal=journal)
        faulty.proxy.plan("throttle_after", method="WRITE", path="/snapshot-1$")  # so that the commit logs something
        receipt = table.append(pa.table({"x": [1]}), commit_user="etl", identifier=1)
        shown += [repr(table), str(receipt), repr(receipt), str(table.explain()), str(table.plan()), repr(table.store)]
        for method in ("GET", "HEAD", "PUT", "POST"):
            faulty.proxy.plan("refuse", method=method, times=100, status=403, code="AccessDenied")
        with pytest.raises(ll.LakelatchError) as caught:
            table.append(pa.table({"x": [2]}))
        shown += ["".join(traceback.format_exception(caught.value)), repr(caught.value), caught.value.next_step]
    past = faulty.past()
    stored = [past.get(info.key) for info in past.list("")]
    assert len(stored) > 4
    assert "Publish" in journal.read_text()
    records = [record.__dict__ for record in caplog.records]
    assert any(record["lakelatch"]["at"] == "StoreRequest" for record in records)
    spans, metrics = exported.spans(), exported.metrics()
    assert {"lakelatch.commit", "lakelatch.request put_if_absent"} <= {span.name for span in spans}
    shown += [repr(records), *(span.to_json() for span in spans), repr(metrics)]
    everything = "\n".join([*shown, caplog.text, journal.read_text()]).encode() + b"\n".join(stored)
    for secret in secrets:
        assert secret.encode() not in everything
