"""Which fsync calls make files survive a power cut, on a real disk whose system calls are watched."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from lakelatch.backends.files.durable import Disk, is_temporary, remove, temporary_name


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths that fsync was called for, in order."""
    seen: list[str] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        seen.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    return seen


def names(root: Path, paths: list[str]) -> list[str]:
    return [os.path.relpath(path, root) for path in paths]


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_the_entry_of_a_folder_is_synced_once(tmp_path: Path, synced: list[str]) -> None:
    """G1: its entries are synced each time; its entry in its parent, and so on up to the root's parent, the first time."""
    (tmp_path / "t" / "a" / "b").mkdir(parents=True)
    disk = Disk(str(tmp_path / "t"))
    disk.sync_folder(str(tmp_path / "t" / "a" / "b"))
    assert names(tmp_path, synced) == ["t/a/b", "t/a", "t", "."]
    del synced[:]
    disk.sync_folder(str(tmp_path / "t" / "a" / "b"))
    assert names(tmp_path, synced) == ["t/a/b"]
    del synced[:]
    disk.sync_folder(str(tmp_path / "t" / "a"))
    assert names(tmp_path, synced) == ["t/a"], "its entry in its parent was synced before"
    del synced[:]
    (tmp_path / "t" / "a" / "c").mkdir()
    disk.sync_folder(str(tmp_path / "t" / "a" / "c"))
    assert names(tmp_path, synced) == ["t/a/c", "t/a"], "only new entries are synced"


def test_a_folder_that_was_made_again_is_synced_again(tmp_path: Path, synced: list[str]) -> None:
    """Knowledge about a deleted folder says nothing about a new folder of the same name."""
    disk, folder = Disk(str(tmp_path)), tmp_path / "a"
    folder.mkdir()
    disk.sync_folder(str(folder))
    (tmp_path / "keeps its number").mkdir()
    folder.rename(tmp_path / "elsewhere")
    folder.mkdir()
    del synced[:]
    disk.sync_folder(str(folder))
    assert names(tmp_path, synced) == ["a", "."]


def test_above_the_root_only_its_parent_is_synced(tmp_path: Path, synced: list[str]) -> None:
    (tmp_path / "above" / "t").mkdir(parents=True)
    Disk(str(tmp_path / "above" / "t")).sync_folder(str(tmp_path / "above" / "t"))
    assert names(tmp_path, synced) == ["above/t", "above"]


def test_a_folder_beside_the_root_is_synced_in_its_parent_only(tmp_path: Path, synced: list[str]) -> None:
    (tmp_path / "above" / "t").mkdir(parents=True)
    (tmp_path / "above" / "u").mkdir()
    Disk(str(tmp_path / "above" / "t")).sync_folder(str(tmp_path / "above" / "u"))
    assert names(tmp_path, synced) == ["above/u", "above"]


def test_folders_above_the_root_are_synced_as_they_are_made(tmp_path: Path, synced: list[str]) -> None:
    """They are not synced later, whereas folders below the root are synced before the first write returns."""
    disk = Disk(str(tmp_path / "above" / "t"))
    disk.make_folders(str(tmp_path / "above" / "t" / "a" / "b"))
    assert (tmp_path / "above" / "t" / "a" / "b").is_dir()
    assert names(tmp_path, synced) == [".", "above"]
    disk.make_folders(str(tmp_path / "above" / "t" / "a" / "b"))


def test_a_neighbour_whose_name_begins_like_the_root_is_above_it(tmp_path: Path, synced: list[str]) -> None:
    Disk(str(tmp_path / "t")).make_folders(str(tmp_path / "t2"))
    assert names(tmp_path, synced) == ["."]


def test_without_fsync_nothing_is_synced(tmp_path: Path, synced: list[str]) -> None:
    disk = Disk(str(tmp_path / "t"), fsync=False)
    disk.write_temporary(str(tmp_path / "t" / "a" / "x"), b"1")
    disk.sync_folder(str(tmp_path / "t" / "a"))
    assert synced == []


def test_a_file_instead_of_a_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"")
    disk = Disk(str(tmp_path))
    with pytest.raises(FileExistsError):
        disk.make_folders(str(tmp_path / "a"))
    with pytest.raises(NotADirectoryError):
        disk.make_folders(str(tmp_path / "a" / "b"))


def test_a_parent_that_is_missing_again_and_again_is_an_error_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some file systems say that a parent is missing which is there; and another process may remove one that was made."""
    tried: list[str] = []
    real = os.mkdir

    def missing(path: str) -> None:
        if os.path.basename(path) != "t":
            return real(path)
        tried.append(path)
        raise FileNotFoundError(errno.ENOENT, "the parent is missing", path)

    monkeypatch.setattr(os, "mkdir", missing)
    with pytest.raises(FileNotFoundError, match="the parent is missing"):
        Disk(str(tmp_path / "t")).make_folders(str(tmp_path / "t"))
    assert len(tried) == 8


def test_a_parent_that_another_process_removes_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, removals = os.mkdir, [1, 2, 3]

    def removed_first(path: str) -> None:
        if os.path.basename(path) == "b" and os.path.isdir(os.path.dirname(path)) and removals:
            removals.pop()
            os.rmdir(os.path.dirname(path))
        real(path)

    monkeypatch.setattr(os, "mkdir", removed_first)
    Disk(str(tmp_path)).make_folders(str(tmp_path / "a" / "b"))
    assert (tmp_path / "a" / "b").is_dir() and not removals


def test_bytes_are_written_whole_and_synced_before_the_path_is_returned(
    tmp_path: Path, synced: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk may write fewer bytes than it was given."""
    real = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: real(descriptor, bytes(data[:3])))
    path = Disk(str(tmp_path)).write_temporary(str(tmp_path / "x"), b"12345678")
    assert Path(path).read_bytes() == b"12345678"
    assert synced == [path]
    assert is_temporary(os.path.basename(path))


def test_a_failed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int, data: Any) -> int:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="full"):
        Disk(str(tmp_path)).write_temporary(str(tmp_path / "x"), b"1")
    assert os.listdir(tmp_path) == []


def test_no_file_stays_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk, before = Disk(str(tmp_path / "t")), open_files()
    disk.write_temporary(str(tmp_path / "t" / "a" / "x"), b"1")
    disk.sync_folder(str(tmp_path / "t" / "a"))
    assert open_files() == before

    def broken(descriptor: int) -> None:
        raise OSError(errno.EIO, "disk")

    monkeypatch.setattr(os, "fsync", broken)
    for act in (lambda: disk.write_temporary(str(tmp_path / "t" / "y"), b"1"), lambda: disk.sync_folder(str(tmp_path))):
        with pytest.raises(OSError, match="disk"):
            act()
    assert open_files() == before


def test_the_umask_decides_who_may_read_a_file(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        for folder in (tmp_path, tmp_path / "new"):
            path = Disk(str(tmp_path)).write_temporary(str(folder / "x"), b"1")
            assert os.stat(path).st_mode & 0o777 == 0o666
    finally:
        os.umask(before)


def test_a_new_file_never_replaces_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that is already taken is an error: the file of another writer is never truncated."""
    monkeypatch.setattr("lakelatch.backends.files.durable.temporary_name", lambda name: ".taken.tmp")
    (tmp_path / ".taken.tmp").write_bytes(b"another's")
    with pytest.raises(FileExistsError):
        Disk(str(tmp_path)).write_temporary(str(tmp_path / "x"), b"1")


def test_a_parent_that_cannot_be_read_is_not_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "t").mkdir()
    real, opened = os.open, list[str]()

    def guarded(path: Any, flags: int, *mode: int) -> int:
        opened.append(path)
        if path == str(tmp_path):
            raise PermissionError(errno.EACCES, "no right to read")
        return real(path, flags, *mode)

    monkeypatch.setattr(os, "open", guarded)
    Disk(str(tmp_path / "t")).sync_folder(str(tmp_path / "t"))
    assert set(opened) == {str(tmp_path / "t"), str(tmp_path)}, "the folder is synced, and the refusal is not an error"


def test_only_folders_are_synced_as_folders(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"")
    with pytest.raises(NotADirectoryError):
        Disk(str(tmp_path)).sync_folder(str(tmp_path / "x"))


def test_names_of_temporary_files() -> None:
    assert temporary_name("x").startswith(".x.")
    assert not is_temporary("x.tmp")
    assert not is_temporary(".x")
    long = temporary_name("x" * 300)
    assert long.startswith("." + "x" * 200 + ".")
    assert len(long) <= 255
    for letters in ("é" * 150, "x" + "é" * 150, "€" * 100):
        kept = temporary_name(letters)[1:].partition(".")[0]
        assert letters.startswith(kept), "no letter is cut in two"
        assert 197 < len(kept.encode()) <= 200


def test_removing_never_fails(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"")
    (tmp_path / "folder").mkdir()
    for name in ("x", "x", "folder", "not/there"):
        remove(str(tmp_path / name))
    assert sorted(os.listdir(tmp_path)) == ["folder"]
