"""Durable files and folders on a local disk.

Owns: temporary files, folders made on demand, and the fsync calls that make them survive a power cut. Must not know: keys.
Invariants: `sync_folder` returns only when the entries of the folder, and its own entries in its parents, would survive.
A visible folder is not assumed to be durable, because another process may just have made it.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterator

_NAME_BYTES = 200
"""How many bytes of a name its temporary file repeats. File systems allow 255 bytes."""

_WRITE_MODE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)
_FOLDER_MODE = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)


def is_temporary(name: str) -> bool:
    """Whether a file name is that of a temporary file of lakelatch. Listings never show those.

    >>> is_temporary(temporary_name("snapshot-1")), is_temporary("snapshot-1")
    (True, False)
    """
    return name.startswith(".") and name.endswith(".tmp")


def temporary_name(name: str) -> str:
    """A unique name, `.<name>.<uuid>.tmp`, within the length that file systems allow."""
    kept = name.encode("utf-8")[:_NAME_BYTES].decode("utf-8", "ignore")
    return f".{kept}.{uuid.uuid4()}.tmp"


class Disk:
    """Durable writes under one root folder, which is made on demand, with its parents. Thread-safe.

    Without `fsync` it is not durable (but atomic), for tests and benchmarks.
    """

    def __init__(self, root: str, fsync: bool = True) -> None:
        self.root = root
        self.fsync = fsync
        self._known: dict[str, tuple[int, int]] = {}  # folder -> (device, inode), if its entry is synced

    def create_temporary(self, path: str) -> tuple[str, int]:
        """Create a file beside `path`, open for writing, and missing folders. Returns its path and descriptor."""
        folder, name = os.path.split(path)
        temporary = os.path.join(folder, temporary_name(name))
        try:
            return temporary, os.open(temporary, _WRITE_MODE, 0o666)
        except FileNotFoundError:
            self.make_folders(folder)
            return temporary, os.open(temporary, _WRITE_MODE, 0o666)

    def write_temporary(self, path: str, data: bytes) -> str:
        """Write a new durable file beside `path` and return its path. After an error no file is left."""
        temporary, descriptor = self.create_temporary(path)
        try:
            try:
                view = memoryview(data)
                while view:
                    view = view[os.write(descriptor, view) :]
                self.sync(descriptor)
            finally:
                os.close(descriptor)
        except BaseException:
            remove(temporary)
            raise
        return temporary

    def sync(self, descriptor: int) -> None:
        if self.fsync:
            os.fsync(descriptor)

    def sync_folder(self, folder: str) -> None:
        if not self.fsync:
            return
        with _opened(folder) as descriptor:
            os.fsync(descriptor)
            found = os.fstat(descriptor)
        if self._known.get(folder) != (found.st_dev, found.st_ino):
            self._sync_place(folder, (found.st_dev, found.st_ino))

    def make_folders(self, folder: str, tries: int = 8) -> None:
        """Make a folder and its missing parents, and sync each new entry in its parent. Another process may remove an
        empty parent meanwhile, and some file systems (`/proc`) say that an existing parent is missing: hence the tries.
        """
        try:
            os.mkdir(folder)
        except FileExistsError:
            if not os.path.isdir(folder):
                raise
            return
        except FileNotFoundError:
            if tries == 1:
                raise
            self.make_folders(os.path.dirname(folder))
            self.make_folders(folder, tries - 1)
            return
        if self.fsync and not folder.startswith(self.root + os.sep):
            # Folders above the root are synced here only. Those below are synced by `sync_folder` before a write returns.
            self._sync_entry(folder)

    def _sync_place(self, folder: str, identity: tuple[int, int]) -> None:
        parent = os.path.dirname(folder)
        self._sync_entry(folder)
        if folder != self.root and folder.startswith(self.root):
            found = os.stat(parent)
            if self._known.get(parent) != (found.st_dev, found.st_ino):
                self._sync_place(parent, (found.st_dev, found.st_ino))
        self._known[folder] = identity

    def _sync_entry(self, folder: str) -> None:
        # A parent without read permission cannot be opened. It existed before, so it needs no sync from us.
        with contextlib.suppress(PermissionError), _opened(os.path.dirname(folder)) as descriptor:
            os.fsync(descriptor)


@contextlib.contextmanager
def _opened(folder: str) -> Iterator[int]:
    descriptor = os.open(folder, _FOLDER_MODE)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def remove(path: str) -> None:
    """Delete a file, ignoring every error: temporary files that stay are swept later."""
    with contextlib.suppress(OSError):
        os.unlink(path)
