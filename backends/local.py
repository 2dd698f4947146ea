"""A store in a folder of a POSIX file system: local disks and NFS.

Owns: the atomic create by hard link, the meaning of each errno for it, URL forms. Must not know: tables. Source: format/stores
§3. Invariants: a name appears with all its bytes or not at all. A synced temporary file gets its name by `os.link` (create) or
`os.replace` (put). A create never uses `os.rename`, which overwrites, nor `O_EXCL`, with which readers would see half a file.
An acknowledged write survives a crash. Links below the root are read, but nothing is written or deleted through them.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NoReturn

from ..core.errors import InvalidArgument, StoreUnavailable, UnsafeBackend, Unsupported
from .files.durable import Disk, is_temporary, remove
from .files.keys import key_defect, safe_key, safe_prefix
from .files.open_files import OutputFile, checked_range
from .local_folders import NO_SUCH as _NO_SUCH
from .local_folders import LocalFolders
from .requests.refusals import DeletionRefused
from .storage_options import StorageOptions
from .store import AlreadyThere, Capabilities, Created, ObjectInfo, ObjectNotFound, PutOutcome, Unknown

_KNOWN_OPTIONS = frozenset({"fsync", "allow_unsafe"})
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
_NOT_APPLIED = (
    errno.EACCES, errno.EDQUOT, errno.ENAMETOOLONG, errno.ENOENT, errno.ENOSPC, errno.ENOTDIR, errno.EROFS, errno.EXDEV,
)  # fmt: skip
"""The kernel refused, so nothing was linked. Any other errno (EIO, ESTALE or ETIMEDOUT of NFS) proves nothing (H2)."""

_REFUSED = (errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY)

_OUTPUT_BUFFER = 1 << 20


class LocalStore(LocalFolders):
    """Stores objects as files below one folder.

    Args:
        url: a path, `file:/x` or `file:///x`. `~` is expanded, and a relative path is made absolute at once.
        storage_options: `fsync` (default true): false gives up durability, for tests and benchmarks only.
            `allow_unsafe`: accept a file system without hard links, where two writers can overwrite each other.

    Raises:
        InvalidArgument: the URL is not local, or an option is not known.
        Unsupported: the system is not POSIX, such as Windows.

    >>> import tempfile
    >>> store = LocalStore(tempfile.mkdtemp())
    >>> store.put_if_absent("snapshot/snapshot-1", b"one"), store.put_if_absent("snapshot/snapshot-1", b"two")
    (Created(), AlreadyThere())
    >>> store.get("snapshot/snapshot-1")
    b'one'
    """

    def __init__(self, url: str, storage_options: Mapping[str, Any] | None = None) -> None:
        if not hasattr(os, "pread"):
            raise Unsupported(
                "local folders need Linux or macOS: this system cannot create a file by a hard link to a synced one, and read it"
                " by position",
                next_step="work in WSL or a container, or keep the table on an object store",
            )
        options = StorageOptions(storage_options)
        options.only(_KNOWN_OPTIONS, "local stores")
        self._url = url
        self._disk = Disk(local_path(url), fsync=options.flag("fsync", True))
        self._allow_unsafe = options.flag("allow_unsafe", False)
        self._links = True  # until the file system reports otherwise

    def __reduce__(self) -> tuple[Any, ...]:
        # The absolute path is pickled, so that a worker with another working directory uses the same folder.
        return _restored, (self._url, self._disk.root, self._disk.fsync, self._allow_unsafe)

    def __repr__(self) -> str:
        return f"LocalStore({self._url!r})"

    @property
    def url(self) -> str:
        return self._url

    @property
    def root(self) -> str:
        return self._disk.root

    @property
    def capabilities(self) -> Capabilities:
        if self._links:
            return Capabilities("link", "file", "hard link of a synced temporary file", self._allow_unsafe, near=True)
        detail = f"the file system of {self._disk.root} has no hard links: a create cannot be made atomic"
        return Capabilities(None, "file", detail, self._allow_unsafe, near=True)

    def get(self, key: str) -> bytes:
        with self._reading(key) as descriptor:
            return _read(descriptor, 0, os.fstat(descriptor).st_size)

    def get_range(self, key: str, start: int, end: int) -> bytes:
        checked_range(key, start, end)
        with self._reading(key) as descriptor:
            return _read(descriptor, start, end - start)

    def head(self, key: str) -> ObjectInfo:
        try:
            found = os.stat(self._path(key))
        except OSError as error:
            self._refuse("look at", key, error)
        if not stat.S_ISREG(found.st_mode):
            raise ObjectNotFound(key)
        return _info(key, found)

    def put(self, key: str, data: bytes) -> None:
        path = self._own_path(key)
        try:
            temporary = self._disk.write_temporary(path, data)
            self._replace(temporary, path)
        except OSError as error:
            self._refuse("write", key, error)

    def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
        path = self._own_path(key)
        if os.path.lexists(path):  # saves the loser of a race the write and the sync
            return AlreadyThere()
        try:
            temporary = self._disk.write_temporary(path, data)
        except OSError as error:
            self._refuse("create", key, error)
        return self._link(temporary, path, key)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        safe_prefix(prefix)
        folders = [prefix]
        while folders:
            folder = folders.pop()
            try:
                with os.scandir(os.path.join(self._disk.root, folder)) as entries:
                    found = sorted(entries, key=lambda entry: entry.name)
            except OSError as error:
                if error.errno in _NO_SUCH:
                    continue
                self._refuse("list", folder, error)
            for entry in found:
                if is_temporary(entry.name) or key_defect(entry.name) is not None:
                    continue
                if entry.is_dir(follow_symlinks=False):  # a linked folder could lead out of the root, or loop (H16)
                    folders.append(f"{folder}{entry.name}/")
                    continue
                with contextlib.suppress(FileNotFoundError):  # deleted since the scan
                    found_stat = entry.stat()
                    if stat.S_ISREG(found_stat.st_mode):
                        yield _info(folder + entry.name, found_stat)

    def list_all(self, prefix: str) -> Iterator[ObjectInfo]:
        """As `list`, with the temporary files that `list` hides, in the order of the disk. Memory does not grow with a folder."""
        safe_prefix(prefix)
        folders = [prefix]
        while folders:
            folder = folders.pop()
            try:
                with os.scandir(os.path.join(self._disk.root, folder)) as entries:
                    for entry in entries:
                        if key_defect(entry.name) is not None:
                            continue
                        if entry.is_dir(follow_symlinks=False):  # as in `list`
                            folders.append(f"{folder}{entry.name}/")
                            continue
                        with contextlib.suppress(FileNotFoundError):
                            found = entry.stat()
                            if stat.S_ISREG(found.st_mode):
                                yield _info(folder + entry.name, found)
            except OSError as error:
                if error.errno not in _NO_SUCH:
                    self._refuse("list", folder, error)

    def delete_many(self, keys: Iterable[str]) -> None:
        for folder in self._unlinked(keys):
            with contextlib.suppress(FileNotFoundError):
                self._disk.sync_folder(folder)

    def forget_many(self, keys: Iterable[str]) -> None:
        """As `delete_many`, for files that nothing names: after a power cut some may be there again."""
        self._unlinked(keys)

    def _unlinked(self, keys: Iterable[str]) -> set[str]:
        folders, kept = set(), dict[str, str]()
        for key in keys:
            try:
                path = self._own_path(key)
                os.unlink(path)
            except Unsupported as error:
                kept[key] = error.message
                continue
            except OSError as error:
                if error.errno in _NO_SUCH or os.path.isdir(path):
                    continue
                if error.errno not in _REFUSED:
                    self._refuse("delete", key, error)
                kept[key] = error.strerror or str(error)
                continue
            folders.add(os.path.dirname(path))
        if kept:
            raise DeletionRefused(kept, self.url)
        return folders

    def second_name(self, key: str, to: str) -> bool:
        """Give the bytes of a file a second name, with the time of now. Nothing happens if that name exists.

        False if the file system has no hard links. Raises ObjectNotFound.
        """
        source, path = self._own_path(key), self._own_path(to)
        try:
            self._disk.make_folders(os.path.dirname(path))
            os.link(source, path, follow_symlinks=False)
            os.utime(path)
            self._disk.sync_folder(os.path.dirname(path))
        except FileExistsError:
            return True
        except OSError as error:
            if error.errno in (*_NO_LINKS, errno.EXDEV):
                return False
            self._refuse("read", key, error)
        return True

    def open_input(self, key: str, size: int | None = None) -> Any:
        import pyarrow

        # Not a memory map: deleting the file on an NFS server would then raise SIGBUS instead of an error.
        try:
            return pyarrow.OSFile(self._path(key), "rb")
        except OSError as error:
            if os.path.isdir(self._path(key)):  # pyarrow sets no errno for a folder
                raise ObjectNotFound(key) from None
            self._refuse("open", key, error)

    def open_output(self, key: str) -> Any:
        path = self._own_path(key)
        try:
            temporary, descriptor = self._disk.create_temporary(path)
        except OSError as error:
            self._refuse("create", key, error)
        return _LocalOutput(self, key, path, temporary, descriptor)

    def _path(self, key: str) -> str:
        return os.path.join(self._disk.root, safe_key(key))

    @contextlib.contextmanager
    def _reading(self, key: str) -> Iterator[int]:
        try:
            descriptor = os.open(self._path(key), os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        except OSError as error:
            self._refuse("read", key, error)
        try:
            yield descriptor
        except OSError as error:
            self._refuse("read", key, error)
        finally:
            os.close(descriptor)

    def _replace(self, temporary: str, path: str) -> None:
        try:
            os.replace(temporary, path)
        except OSError:
            remove(temporary)
            raise
        self._disk.sync_folder(os.path.dirname(path))

    def _link(self, temporary: str, path: str, key: str) -> PutOutcome:
        refusal = None
        try:
            os.link(temporary, path)
        except OSError as error:
            # NFS may refuse a call that it repeated itself, or lose the answer. The inode shows whose file has the name.
            refusal = None if _same_file(temporary, path) else error
        if refusal is not None and refusal.errno in _NO_LINKS:
            return self._without_links(temporary, path, key, refusal)
        remove(temporary)  # before the sync, so that one sync covers both
        if refusal is None:
            try:
                self._disk.sync_folder(os.path.dirname(path))
            except OSError as error:
                return Unknown(f"{key} exists, but its folder could not be synced: {error.strerror}")
            return Created()
        if refusal.errno == errno.EEXIST:
            return AlreadyThere()
        if refusal.errno in _NOT_APPLIED:
            self._refuse("create", key, refusal)
        return Unknown(f"creating {key}: {refusal.strerror or refusal}")

    def _without_links(self, temporary: str, path: str, key: str, refusal: OSError) -> PutOutcome:
        self._links = False
        if not self._allow_unsafe:
            remove(temporary)
            raise UnsafeBackend(f"{self._url}: {self.capabilities.detail}") from refusal
        # The user accepted this risk: two creates between the check and the rename overwrite each other (H1).
        if os.path.lexists(path):
            remove(temporary)
            return AlreadyThere()
        try:
            self._replace(temporary, path)
        except OSError as error:
            return Unknown(f"creating {key}: {error.strerror or error}")
        return Created()

    def _refuse(self, action: str, key: str, error: OSError) -> NoReturn:
        if error.errno in _NO_SUCH and action in ("read", "look at", "open"):
            raise ObjectNotFound(key) from None
        raise StoreUnavailable(
            f"{self._url}: cannot {action} {key or 'the folder'}: {error.strerror or error}",
            next_step="check the path, its permissions and the free space, then run it again",
        ) from error


class _LocalOutput(OutputFile):
    def __init__(self, store: LocalStore, key: str, path: str, temporary: str, descriptor: int) -> None:
        super().__init__(key)
        self._store = store
        self._path = path
        self._temporary = temporary
        self._file = os.fdopen(descriptor, "wb", buffering=_OUTPUT_BUFFER)

    def _append(self, data: memoryview) -> None:
        try:
            self._file.write(data)
        except OSError as error:
            self._store._refuse("write", self.key, error)

    def _publish(self) -> None:
        try:
            self._file.flush()
            self._store._disk.sync(self._file.fileno())
            self._file.close()
            self._store._replace(self._temporary, self._path)
        except OSError as error:
            self._store._refuse("write", self.key, error)
        self.requests += 1

    def _discard(self) -> None:
        with contextlib.suppress(OSError):
            self._file.close()
        remove(self._temporary)


def local_path(url: str) -> str:
    """The absolute path of a local URL. Raises InvalidArgument where it has another scheme, another host, no path, or a NUL.

    >>> local_path("file:///data/lake"), local_path("file:/data/lake/"), local_path("/data/lake")
    ('/data/lake', '/data/lake', '/data/lake')
    """
    path = url
    if url.startswith("file:"):
        path = url[len("file:") :]
        if path.startswith("//"):
            host, slash, rest = path[2:].partition("/")
            if host not in ("", "localhost") or not slash:
                raise InvalidArgument(f"{url!r} names a host", next_step="use file:///path for a path of this machine")
            path = slash + rest
        if not path.startswith("/"):
            raise InvalidArgument(f"{url!r} is not an absolute path", next_step="use file:///path, or the path alone")
    elif "://" in url:
        raise InvalidArgument(f"{url!r} is not a local URL")
    if not path or "\x00" in path:
        raise InvalidArgument(f"{url!r} is not a path")
    return os.path.abspath(os.path.expanduser(path))


def _restored(url: str, root: str, fsync: bool, allow_unsafe: bool) -> LocalStore:
    store = LocalStore(root, {"fsync": fsync, "allow_unsafe": allow_unsafe})
    store._url = url
    return store


def _same_file(temporary: str, path: str) -> bool:
    try:
        ours, theirs = os.stat(temporary), os.stat(path, follow_symlinks=False)
    except OSError:
        return False
    return (ours.st_dev, ours.st_ino) == (theirs.st_dev, theirs.st_ino)


def _read(descriptor: int, start: int, size: int) -> bytes:
    data = os.pread(descriptor, size, start)
    if len(data) == size:
        return data
    pieces = [data]  # one call returns 2 GiB at most, and less at the end of the file
    while data:
        start += len(data)
        size -= len(data)
        data = os.pread(descriptor, size, start)
        pieces.append(data)
    return b"".join(pieces)


def _info(key: str, found: os.stat_result) -> ObjectInfo:
    return ObjectInfo(key, found.st_size, found.st_mtime_ns // 1_000_000, f"{found.st_ino}-{found.st_ctime_ns}")
