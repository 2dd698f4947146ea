"""Keys that were wrong and are right by now: stores that are open, and those that are opened later, on real servers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.core.errors import StoreUnavailable

ROWS = pa.table({"v": [1]})


@pytest.mark.parametrize("transport", ["obstore", "fsspec"])
@pytest.mark.parametrize("provider", ["environment", "file"])
def test_renewed_keys_of_s3_are_seen(
    s3_host: Any, provider: str, transport: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"s3://{s3_host.create_bucket()}/t"
    ll.create_table(url, ROWS.schema, storage_options=s3_host.storage_options()).append(ROWS)
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))

    def say(secret: str) -> None:
        if provider == "environment":
            monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3_host.key)
            monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret)
        else:
            text = f"[default]\naws_access_key_id={s3_host.key}\naws_secret_access_key={secret}\n"
            (tmp_path / "credentials").write_text(text)

    given = {k: v for k, v in s3_host.storage_options().items() if k not in ("key", "secret")}
    given["transport"] = transport
    say(s3_host.secret)
    table = ll.open_table(url, storage_options=given)
    say("expired")
    with pytest.raises(StoreUnavailable):
        ll.open_table(url, storage_options=given)
    say(s3_host.secret)
    assert table.append(ROWS).snapshot_id == 2 and ll.open_table(url, storage_options=given).count() == 2


@pytest.mark.parametrize("transport", ["obstore", "fsspec"])
def test_an_open_store_of_s3_goes_on_with_renewed_keys(
    s3_host: Any, transport: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lakelatch.backends.registry import open_store

    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3_host.key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "expired")
    given = {k: v for k, v in s3_host.storage_options().items() if k not in ("key", "secret")}
    store = open_store(f"s3://{s3_host.create_bucket()}/t", {**given, "transport": transport})
    for request in (lambda: store.put("k", b"1"), lambda: store.get("k"), lambda: list(store.list(""))):
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "expired")
        store._connection = store._carrier = None
        with pytest.raises(StoreUnavailable):
            request()
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3_host.secret)
        request()
    assert store.transport.name == transport


@pytest.mark.parametrize("transport", ["fsspec", "obstore"])
def test_an_open_store_of_azure_goes_on_with_a_renewed_connection_string(
    azure_host: Any, monkeypatch: pytest.MonkeyPatch, transport: str
) -> None:
    from lakelatch.backends.registry import open_store

    url = azure_host.new_root()
    text = azure_host.connection_string()
    key = next(part for part in text.split(";") if part.startswith("AccountKey="))
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", text.replace(key, "AccountKey=ZXhwaXJlZA=="))
    store = open_store(f"{url}/t", {"transport": transport})
    assert store.transport.name == transport  # type: ignore[attr-defined]
    with pytest.raises(StoreUnavailable):
        store.put("k", b"1")
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", text)
    store.put("k", b"1")
    assert store.get("k") == b"1"
