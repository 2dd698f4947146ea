"""Folders of a local disk: listed, removed, renamed, and files copied between them.

Owns: `LocalFolders`, the part of `LocalStore` that catalogs and operations on whole tables use. Must not know: tables.
Invariants: no link below the root is followed. A rename is one call of the kernel, which refuses a target that holds anything.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, NoReturn

from ..core.errors import InvalidArgument, Unsupported
from .files.durable import Disk, is_temporary, remove
from .files.keys import key_defect, safe_key, safe_prefix

if TYPE_CHECKING:
    from .store import Store

NO_SUCH = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR)
_TAKEN = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR)


class LocalFolders(ABC):
    _disk: Disk
    _url: str

    @abstractmethod
    def _refuse(self, action: str, key: str, error: OSError) -> NoReturn:
        """Raise the store's error for an error of the disk."""

    def folders(self, prefix: str) -> list[str]:
        """The names of the folders directly below a prefix (see `folders.ListsFolders`)."""
        try:
            with os.scandir(os.path.join(self._disk.root, safe_prefix(prefix))) as entries:
                return [e.name for e in entries if key_defect(e.name) is None and e.is_dir(follow_symlinks=False)]
        except OSError as error:
            if error.errno in NO_SUCH:
                return []
            self._refuse("list", prefix, error)

    def remove_folders(self, prefix: str) -> None:
        """Remove empty folders, and temporary files in them (see `folders.RemovesFolders`)."""
        try:
            top = os.path.dirname(self._own_path(f"{safe_prefix(prefix)}x"))
        except Unsupported:  # what lies behind a link is not the table's to remove
            return
        for folder, _, names in os.walk(top, topdown=False):
            for name in filter(is_temporary, names):
                remove(os.path.join(folder, name))
            with contextlib.suppress(OSError):  # it holds a file, or somebody else removed it
                os.rmdir(folder)

    def move_to(self, url: str) -> bool:
        """Rename the root folder in one step (see `folders.MovesFolders`). An empty folder at the new place is replaced."""
        from .local import local_path

        target = local_path(url)
        if target == self._disk.root or target.startswith(self._disk.root + os.sep):
            raise InvalidArgument(f"{self._url} cannot be moved into itself")
        try:
            self._disk.make_folders(os.path.dirname(target))
            os.rename(self._disk.root, target)
        except OSError as error:
            if error.errno in _TAKEN and os.path.lexists(target):
                return False
            if error.errno == errno.EXDEV:
                raise Unsupported(
                    f"{self._url} and {url} are on different disks, between which nothing is renamed in one step",
                    next_step="clone() the table to the new place, then drop the old one",
                ) from error
            self._refuse("rename", "the folder", error)
        for folder in {os.path.dirname(target), os.path.dirname(self._disk.root)}:
            with contextlib.suppress(FileNotFoundError):
                self._disk.sync_folder(folder)
        return True

    def copy_from(self, source: Store, source_key: str, key: str) -> bool:
        """Copy a local file by the kernel (see `folders.CopiesObjects`)."""
        if not isinstance(source, LocalFolders):
            return False
        with source._reading(source_key) as descriptor:
            try:
                self._copy(descriptor, self._own_path(key))
            except OSError as error:
                self._refuse("write", key, error)
        return True

    @abstractmethod
    def _reading(self, key: str) -> Any:
        """A context in which an object is open for reading, as a file descriptor."""

    def _own_path(self, key: str) -> str:
        """The path of a key to write or delete. Raises Unsupported where a folder on the way to it is a link (H16)."""
        place, *folders = self._disk.root, *safe_key(key).split("/")[:-1]
        for folder in folders:
            place = os.path.join(place, folder)
            try:
                kind = os.lstat(place).st_mode
            except OSError:
                break  # it will be made, or the request will say what is wrong
            if stat.S_ISLNK(kind):
                raise Unsupported(
                    f"{self._url}: {key} lies behind the link {place}, and links inside of a folder are only read",
                    next_step="move the files into the folder, or name their location in option data-file.external-paths",
                )
        return os.path.join(self._disk.root, key)

    def _copy(self, descriptor: int, path: str) -> None:
        temporary, target = self._disk.create_temporary(path)
        try:
            left = os.fstat(descriptor).st_size
            while left > 0 and (sent := os.sendfile(target, descriptor, None, left)):
                left -= sent
            self._disk.sync(target)
            os.replace(temporary, path)
        except BaseException:
            remove(temporary)
            raise
        finally:
            os.close(target)
        self._disk.sync_folder(os.path.dirname(path))
