"""The local store when the disk, the kernel or another process misbehaves."""

from __future__ import annotations

import errno
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lakelatch.backends.elsewhere import location_of
from lakelatch.backends.files.durable import is_temporary, temporary_name
from lakelatch.backends.local import LocalStore, local_path
from lakelatch.backends.requests.refusals import DeletionRefused
from lakelatch.backends.store import AlreadyThere, Created, ObjectNotFound, Unknown
from lakelatch.core.errors import InvalidArgument, StoreUnavailable, UnsafeBackend, Unsupported

KEY = "snapshot/snapshot-1"


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(str(tmp_path / "lake" / "table"))


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The system calls that make something durable or visible, in order. They are carried out as well."""
    seen: list[str] = []

    def watched(name: str) -> Any:
        real = getattr(os, name)

        def call(*args: Any, **keywords: Any) -> Any:
            about = args[0]
            if name == "fsync":
                about = os.readlink(f"/proc/self/fd/{about}")
            label = "temporary" if is_temporary(os.path.basename(about)) else os.path.basename(about)
            seen.append(f"{name} {label}")
            return real(*args, **keywords)

        return call

    for name in ("fsync", "link", "replace", "unlink", "mkdir"):
        monkeypatch.setattr(os, name, watched(name))
    return seen


def test_create_is_durable_before_it_answers(store: LocalStore, calls: list[str]) -> None:
    """G1: bytes before name, name before answer. New folders and their parents are synced on the first create only."""
    assert store.put_if_absent(KEY, b"1") == Created()
    assert calls[calls.index("fsync temporary") + 1 :] == [
        "link temporary", "unlink temporary", "fsync snapshot", "fsync table", "fsync lake",
    ]  # fmt: skip
    assert {"mkdir lake", "mkdir table", "mkdir snapshot"} <= set(calls)
    del calls[:]
    assert store.put_if_absent("snapshot/snapshot-2", b"1") == Created()
    assert calls == ["fsync temporary", "link temporary", "unlink temporary", "fsync snapshot"]


def test_put_is_durable_before_it_answers(store: LocalStore, calls: list[str]) -> None:
    """G4: the same as for a create, with a rename over the old object."""
    store.put(KEY, b"1")
    del calls[:]
    store.put(KEY, b"2")
    assert calls == ["fsync temporary", "replace temporary", "fsync snapshot"]
    del calls[:]
    with store.open_output(KEY) as file:
        file.write(b"3")
    assert calls == ["fsync temporary", "replace temporary", "fsync snapshot"]


def test_a_folder_that_another_process_made_is_synced_too(tmp_path: Path, calls: list[str]) -> None:
    """G1: a visible folder may not be durable yet, because its maker may not have synced it."""
    (tmp_path / "table" / "data").mkdir(parents=True)
    del calls[:]
    LocalStore(str(tmp_path / "table")).put("data/x", b"1")
    assert calls[2:] == ["fsync data", "fsync table", f"fsync {tmp_path.name}"]


def test_a_loser_writes_nothing(store: LocalStore, calls: list[str]) -> None:
    store.put(KEY, b"1")
    del calls[:]
    assert store.put_if_absent(KEY, b"2") == AlreadyThere()
    assert calls == []


def test_fsync_off_for_benchmarks(tmp_path: Path, calls: list[str]) -> None:
    store = LocalStore(str(tmp_path), {"fsync": "false"})
    assert store.put_if_absent("a", b"1") == Created()
    store.put("a", b"2")
    store.delete_many(["a"])
    assert not [call for call in calls if call.startswith("fsync")]


def fails(monkeypatch: pytest.MonkeyPatch, name: str, code: int, first: Any = None) -> None:
    """Let the call fail, after calling `first` with its arguments."""

    def call(*args: Any, **keywords: Any) -> Any:
        if first is not None:
            first(*args, **keywords)
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, name, call)


@pytest.mark.parametrize("code", [errno.EEXIST, errno.EIO, errno.ESTALE], ids=errno.errorcode.get)
def test_a_link_that_exists_although_the_call_failed(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """H3: NFS refuses its own repeated call, or loses the answer. The inode shows that the file is ours."""
    fails(monkeypatch, "link", code, first=os.link)
    assert store.put_if_absent(KEY, b"mine") == Created()
    assert store.get(KEY) == b"mine"


@pytest.mark.parametrize("code", [errno.EIO, errno.ESTALE, errno.ETIMEDOUT], ids=errno.errorcode.get)
def test_a_link_that_may_exist(store: LocalStore, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """H2: the outcome is unknown, because nothing is proved."""
    fails(monkeypatch, "link", code)
    outcome = store.put_if_absent(KEY, b"mine")
    assert isinstance(outcome, Unknown)
    assert KEY in outcome.reason


def test_folder_that_cannot_be_synced(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """G1: the object is visible, but may not survive a crash."""
    store.put("snapshot/x", b"")
    real = os.fsync

    def fsync(descriptor: int) -> None:
        if os.path.isdir(f"/proc/self/fd/{descriptor}"):
            raise OSError(errno.EIO, "disk")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    assert isinstance(store.put_if_absent(KEY, b"mine"), Unknown)
    assert store.get(KEY) == b"mine"


@pytest.mark.parametrize("call", ["link", "write", "fsync", "open"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES, errno.EROFS], ids=errno.errorcode.get)
def test_a_disk_that_refuses(store: LocalStore, monkeypatch: pytest.MonkeyPatch, call: str, code: int) -> None:
    """G2: certainly nothing was created, no file is left, and the message names the store and the key."""
    store.put("snapshot/x", b"")
    with monkeypatch.context() as patched:
        fails(patched, call, code)
        with pytest.raises(StoreUnavailable, match=f"cannot create {KEY}"):
            store.put_if_absent(KEY, b"mine")
    assert files(Path(local_path(store.url))) == ["snapshot/x"]


@pytest.mark.parametrize("code", [errno.EPERM, errno.EOPNOTSUPP], ids=errno.errorcode.get)
def test_file_systems_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """G9, H1: such a store is refused with the reason, and used only with `allow_unsafe`."""
    fails(monkeypatch, "link", code)
    store = LocalStore(str(tmp_path))
    with pytest.raises(UnsafeBackend, match="no hard links"):
        store.put_if_absent(KEY, b"1")
    assert files(tmp_path) == []
    assert store.capabilities.atomic_create is None
    assert "no hard links" in store.capabilities.detail
    risky = LocalStore(str(tmp_path), {"allow_unsafe": True})
    assert [risky.put_if_absent(KEY, data) for data in (b"1", b"2")] == [Created(), AlreadyThere()]
    assert files(tmp_path) == [KEY]


def test_a_writer_that_is_killed_leaves_no_object(tmp_path: Path) -> None:
    """G4: the key of a writer that died is free, and listings do not show its temporary file."""
    program = (
        "import os, sys; from lakelatch.backends.local import LocalStore\n"
        "file = LocalStore(sys.argv[1]).open_output('snapshot/snapshot-1'); file.write(b'x' * 5_000_000); os._exit(9)"
    )
    assert subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False).returncode == 9
    assert len(files(tmp_path)) == 1
    store = LocalStore(str(tmp_path))
    assert list(store.list("")) == []
    assert store.put_if_absent(KEY, b"other") == Created()


def test_temporary_names() -> None:
    """They fit wherever the name itself fits, and are unique."""
    long = "é" * 120 + ".parquet"
    assert len(temporary_name(long).encode()) <= 255
    assert temporary_name("a") != temporary_name("a")
    assert is_temporary(temporary_name(long))


def test_links_out_of_the_root_are_not_listed(tmp_path: Path) -> None:
    """H16: a linked folder could lead out of the root, or loop."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_bytes(b"1")
    store = LocalStore(str(tmp_path / "table"))
    store.put("a", b"1")
    (tmp_path / "table" / "linked").symlink_to(tmp_path / "outside")
    (tmp_path / "table" / "loop").symlink_to(tmp_path / "table")
    (tmp_path / "table" / "dangling").symlink_to(tmp_path / "nowhere")
    assert [info.key for info in store.list("")] == ["a"]


def test_folders_are_not_objects(store: LocalStore) -> None:
    store.put("data/x", b"1")
    store.delete_many(["data"])
    for read in (store.get, store.head):
        with pytest.raises(ObjectNotFound):
            read("data")
    assert store.get("data/x") == b"1"
    with pytest.raises(StoreUnavailable, match="cannot write data"):
        store.put("data", b"1")


def test_urls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert local_path("lake/t") == str(tmp_path / "lake" / "t")
    assert local_path("~/lake") == str(tmp_path / "home" / "lake")
    assert local_path("file://localhost/x y/%20") == "/x y/%20"
    for url in ("file://host/x", "file:x", "file://", "s3://bucket/x", "", "a\x00b"):
        with pytest.raises(InvalidArgument):
            local_path(url)


def test_a_relative_root_stays_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stores are pickled to workers with another working directory."""
    monkeypatch.chdir(tmp_path)
    store = LocalStore("lake")
    store.put("a", b"1")
    monkeypatch.chdir("/")
    copy = pickle.loads(pickle.dumps(store))
    assert (store.get("a"), copy.get("a"), copy.url) == (b"1", b"1", "lake")
    assert location_of(store) == location_of(copy) == f"file:{tmp_path}/lake"


def test_unknown_options_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="fsink"):
        LocalStore(str(tmp_path), {"fsink": True})
    with pytest.raises(InvalidArgument, match="perhaps"):
        LocalStore(str(tmp_path), {"fsync": "perhaps"})


def test_nothing_is_written_or_deleted_through_a_link(tmp_path: Path) -> None:
    """H16: a folder of the table that is a link leads out of it. Reading follows it; a root that is a link is as any other."""
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "f").write_bytes(b"theirs")
    (tmp_path / "real" / "t").mkdir(parents=True)
    (tmp_path / "lake").symlink_to(tmp_path / "real")
    store = LocalStore(str(tmp_path / "lake" / "t"))
    (tmp_path / "real" / "t" / "bucket-0").symlink_to(tmp_path / "private")
    (tmp_path / "real" / "t" / "p=1").mkdir()
    (tmp_path / "real" / "t" / "p=1" / "bucket-0").symlink_to("../../../private")
    store.put("ours", b"x")
    other = LocalStore(str(tmp_path / "other"))
    for folder in ("bucket-0", "p=1/bucket-0", "bucket-0/deep"):
        for act in (
            lambda f: store.put(f"{f}/f", b"x"),
            lambda f: store.put_if_absent(f"{f}/new", b"x"),
            lambda f: store.delete_many([f"{f}/f"]),
            lambda f: store.forget_many([f"{f}/f"]),
            lambda f: store.open_output(f"{f}/new"),
            lambda f: store.second_name("ours", f"{f}/new"),
            lambda f: store.second_name(f"{f}/f", "mine"),
            lambda f: store.copy_from(store, "ours", f"{f}/new"),
        ):
            with pytest.raises((Unsupported, DeletionRefused), match="lies behind the link"):
                act(folder)
        store.remove_folders(f"{folder}/")
    assert store.get("bucket-0/f") == b"theirs"
    assert other.copy_from(store, "bucket-0/f", "f")
    assert {path.name for path in (tmp_path / "private").iterdir()} == {"f"}
    (tmp_path / "real" / "t" / "link").symlink_to(tmp_path / "private" / "f")
    store.put("link", b"ours")
    assert (tmp_path / "private" / "f").read_bytes() == b"theirs" and store.get("link") == b"ours"
    assert store.get("ours") == b"x" and [info.key for info in store.list("")] == ["link", "ours"]
