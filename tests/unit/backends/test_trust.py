"""H16: what a table's own files name outside of its folder is used only where the caller allowed it."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.backends import trust
from lakelatch.backends.elsewhere import delete_located, located, store_elsewhere
from lakelatch.backends.local import LocalStore
from lakelatch.backends.requests.refusals import DeletionRefused
from lakelatch.core.errors import InvalidArgument

EXTERNAL = "data-file.external-paths"
ROWS = pa.table({"v": pa.array([1, 2], pa.int64())})


@pytest.fixture(autouse=True)
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A settings file of its own, and a process that knows nothing."""
    monkeypatch.setattr(trust, "_KNOWN", trust._Known())
    monkeypatch.setenv(trust.SETTINGS, str(tmp_path / "conf" / "settings.json"))
    return tmp_path / "conf" / "settings.json"


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trust, "_KNOWN", trust._Known())


def test_a_place_is_allowed_for_a_table_or_for_all_below_a_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ll.allow("s3a://lake/air.db/t/", "file:///data/x") == ("file:/data/x",)
    ll.allow("s3://lake/air.db", "gcs://more")
    forget(monkeypatch)  # what remains is in the settings file
    assert trust.is_allowed("s3://lake/air.db/t", "FILE:/data//x/bucket-0/f")
    assert trust.is_allowed("s3://lake/air.db/t", "gs://more/f") and trust.is_allowed(
        "s3a://lake/air.db/u", "gs://more"
    )
    for table, place in (
        ("s3://lake/air.db/u", "file:/data/x/f"),
        ("s3://lake/air.db/t2", "file:/data/x/f"),
        ("s3://lake/air.db/t", "file:/data/xy/f"),
        ("s3://lake/air.db/t", "file:/data"),
        ("s3://lake/air.db2/t", "gs://more/f"),
        ("s3://lake/air.db/t", "gs://more/../other/f"),
        ("s3://lake/air.db/t", "file:/data/x/../y"),
    ):
        assert not trust.is_allowed(table, place), (table, place)


def test_what_lies_in_the_tables_own_folder_is_always_allowed(tmp_path: Path) -> None:
    assert trust.is_allowed(str(tmp_path / "t"), f"file:{tmp_path}/t/bucket-0/f")
    assert not trust.is_allowed(str(tmp_path / "t"), f"file:{tmp_path}/t2/bucket-0/f")


def test_the_environment_allows_for_all_tables_of_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(trust.PLACES, " file:/data/a , s3://b/c/")
    assert trust.is_allowed("/any/t", "/data/a/f") and trust.is_allowed("memory://m/t", "s3a://b/c/f")
    assert not trust.is_allowed("/any/t", "s3://b/cc/f")
    assert trust.allowed_now() == {"": ("file:/data/a", "s3://b/c")}


def test_processes_that_write_the_settings_at_once_lose_nothing(settings: Path) -> None:
    settings.parent.mkdir()
    settings.write_text(json.dumps({"another": 1}))
    code = "import sys, lakelatch as ll\nfor n in range(5): ll.allow(f'/lake/{sys.argv[1]}', f'/out/{sys.argv[1]}/{n}')"
    running = [subprocess.Popen([sys.executable, "-c", code, str(n)]) for n in range(3)]
    assert [process.wait(60) for process in running] == [0] * 3
    told = json.loads(settings.read_text())
    assert told["another"] == 1
    assert told[trust.FIELD] == {f"file:/lake/{n}": [f"file:/out/{n}/{i}" for i in range(5)] for n in range(3)}


@pytest.mark.parametrize(
    ("text", "told"),
    [("{", "cannot be read"), ("[]", "no JSON object"), ('{"allowed_places": []}', "'allowed_places'"),
     ('{"allowed_places": {"/t": "x"}}', "'allowed_places'"), ('{"allowed_places": {"/t": [1]}}', "'allowed_places'"),
     ("[" * 9999 + "]" * 9999, "nested too deeply")],
)  # fmt: skip
def test_damaged_settings_are_an_error_that_names_the_file(settings: Path, text: str, told: str) -> None:
    settings.parent.mkdir()
    settings.write_text(text)
    with pytest.raises(InvalidArgument, match=told) as raised:
        trust.is_allowed("/t", "/x")
    assert str(settings) in str(raised.value)
    with pytest.raises(InvalidArgument, match=told):
        ll.allow("/t", "/x")
    assert settings.read_text() == text


def test_settings_that_cannot_be_written_are_told_and_the_process_goes_on(
    tmp_path: Path, settings: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings.parent.write_text("no folder")
    with pytest.raises(InvalidArgument, match=r"cannot be written.*LAKELATCH_ALLOW"):
        ll.allow("/t", "/x")
    table = ll.create_table(str(tmp_path / "t"), ROWS.schema, options=outside(tmp_path / "out"))
    assert "in this process only" in caplog.text
    table.append(ROWS)
    assert ll.open_table(table.url).to_arrow().num_rows == 2


def outside(folder: Path) -> dict[str, str]:
    return {EXTERNAL: f"file://{folder}", f"{EXTERNAL}.strategy": "round-robin"}


def test_who_creates_a_table_has_allowed_its_places_and_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, out = str(tmp_path / "t"), tmp_path / "out"
    ll.create_table(url, ROWS.schema, options=outside(out)).append(ROWS)
    forget(monkeypatch)
    assert ll.open_table(url).to_arrow().num_rows == 2
    ll.rename_table(url, str(tmp_path / "u"))
    assert ll.open_table(str(tmp_path / "u")).to_arrow().num_rows == 2
    monkeypatch.setenv(trust.SETTINGS, str(tmp_path / "others.json"))
    forget(monkeypatch)
    table = ll.open_table(str(tmp_path / "u"))
    acts: list[Callable[[], Any]] = [
        lambda: table.to_arrow(),
        lambda: table.append(ROWS),
        lambda: table.clean(external=True),
    ]
    for act in acts:
        with pytest.raises(
            ll.LakelatchError, match=rf"was not allowed for this table.*lakelatch allow {tmp_path}/u file:"
        ):
            act()
    table.truncate()
    assert len([file for file in out.rglob("*") if file.is_file()]) == 1
    ll.allow(tmp_path, out)
    table.append(ROWS)
    assert table.to_arrow().num_rows == 2


def test_a_table_that_exists_is_not_trusted_by_whoever_wants_to_create_it(tmp_path: Path) -> None:
    """Its manifests may name any file in the place, whoever names the place today."""
    url, out = str(tmp_path / "t"), tmp_path / "out"
    ll.create_table(url, ROWS.schema)
    table = ll.create_table(url, ROWS.schema, options=outside(out), exist_ok=True)
    table.alter(ll.set_option(EXTERNAL, f"file://{out}"), ll.set_option(f"{EXTERNAL}.strategy", "round-robin"))
    with pytest.raises(ll.InvalidArgument, match="was not allowed for this table"):
        table.append(ROWS)
    assert not out.exists()


def test_a_clone_by_reference_is_read_by_who_made_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = ll.create_table(str(tmp_path / "t"), ROWS.schema)
    table.append(ROWS)
    table.clone(str(tmp_path / "c"), reference=True)
    forget(monkeypatch)
    assert ll.open_table(str(tmp_path / "c")).to_arrow().num_rows == 2
    monkeypatch.setenv(trust.SETTINGS, str(tmp_path / "others.json"))
    forget(monkeypatch)
    with pytest.raises(ll.InvalidArgument, match=rf"lakelatch allow {tmp_path}/c file:{tmp_path}/t"):
        ll.open_table(str(tmp_path / "c")).to_arrow()


def test_every_way_out_of_a_tables_folder_asks(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path / "t"))
    secret = tmp_path / "private"
    secret.write_text("x")
    for way in (
        lambda: located(store, f"file:{secret}"),
        lambda: store_elsewhere(store, f"file:{tmp_path}"),
        lambda: delete_located(store, [f"file:{secret}"]),
        lambda: delete_located(store, [str(secret)], named=False),
        lambda: located(store, f"file:{tmp_path}/t/../private"),
        lambda: located(store, "http://169.254.169.254/latest/meta-data"),
    ):
        with pytest.raises((InvalidArgument, DeletionRefused), match="was not allowed"):
            way()  # type: ignore[no-untyped-call]
    assert secret.exists()
    assert located(store, f"file://{tmp_path}/t/bucket-0/f") == (store, "bucket-0/f")


def test_links_in_an_allowed_place_are_not_followed_for_a_deletion(tmp_path: Path) -> None:
    (tmp_path / "private").mkdir()
    secret = tmp_path / "private" / "f"
    secret.write_text("x")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "bucket-0").symlink_to(tmp_path / "private")
    store = LocalStore(str(tmp_path / "t"))
    ll.allow(store.url, tmp_path / "out")
    with pytest.raises(DeletionRefused, match="behind the link"):
        delete_located(store, [f"file:{tmp_path}/out/bucket-0/f"])
    assert secret.exists()


def test_what_is_allowed_travels_to_the_workers_of_spark(tmp_path: Path) -> None:
    """Their machines have neither the settings file nor the environment."""
    from lakelatch.spark.sessions.shipping import _sealed

    ll.allow("/lake/t", "/out")
    payload = _sealed(trust.is_allowed, "/lake/t", "/out/f")
    (tmp_path / "payload").write_bytes(payload)
    code = "import pickle, sys; print(pickle.load(open(sys.argv[1], 'rb')))"
    environment = {**os.environ, trust.SETTINGS: str(tmp_path / "none")}
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "payload")],
        capture_output=True, text=True, timeout=60, check=True, env=environment,
    )  # fmt: skip
    assert done.stdout.split() == ["True"]
    assert pickle.loads(_sealed(trust.is_allowed, "/lake/t", "/other/f")) is False


def test_a_journal_is_allowed_by_its_own_name_alone(tmp_path: Path) -> None:
    """A folder that is allowed for data files may hold links of whoever writes there, and so may the table's own folder."""
    profile = tmp_path / "profile"
    profile.write_text("mine")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "journal").symlink_to(profile)
    for path in (tmp_path / "out" / "journal", tmp_path / "t" / "journal"):
        table = ll.create_table(str(tmp_path / "t"), ROWS.schema, options={"commit.journal": str(path)}, exist_ok=True)
        table.alter(ll.set_option("commit.journal", str(path)))
        ll.allow(table.url, tmp_path / "out")
        with pytest.raises(
            InvalidArgument, match=r"option 'commit.journal' of table .* was not allowed for this table"
        ):
            ll.open_table(str(tmp_path / "t")).append(ROWS)
        assert ll.recover(str(tmp_path / "t")).commits == ()
    assert profile.read_text() == "mine"
    ll.allow(str(tmp_path / "t"), tmp_path / "t" / "journal")
    ll.open_table(str(tmp_path / "t")).append(ROWS)
    assert (tmp_path / "t" / "journal").exists()
