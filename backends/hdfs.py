"""HDFS over hdfs-native (no JVM): `hdfs://name-node:port/path`, `hdfs://name-service/path`.

Owns: the atomic create by a rename that refuses an existing target, the table of the name node's exceptions. Must not know:
tables. Source: format/stores §1 (hdfs-native, 100 of 100 rounds; fsspec's own `webhdfs` create is exists-then-write).
Invariants: a name appears with all its bytes or not at all. The bytes go to a temporary file beside it, which is closed
before it is renamed, because an HDFS file is visible, and short, while it is written. A create never renames over an
existing file. A failure before the rename was sent is an error; a failure after it is unknown.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar, cast

from ..core.errors import InvalidArgument, LakelatchError, Unsupported
from .files.durable import is_temporary, temporary_name
from .files.keys import join, safe_key, safe_prefix
from .files.object_store import OWN_OPTIONS, FsspecStore, all_of
from .files.upload import Multipart, SpooledUpload
from .requests.answers import APPLIED_NOTHING, REPEATABLE, Answer, AnswerTable, chain
from .store import Capabilities, Listed, ObjectInfo, ObjectNotFound
from .transport.choice import ClientDied

T = TypeVar("T")

_CLIENT_OPTIONS = frozenset({"config_dir", "kerberos_principal", "kerberos_keytab", "kerberos_cache"})
_PIECE_BYTES = 4 << 20
_DELETES_AT_ONCE = 16

JAVA_EXCEPTIONS = MappingProxyType(
    {
        "FileAlreadyExistsException": Answer.EXISTS,
        "FileNotFoundException": Answer.MISSING,
        "ParentNotDirectoryException": Answer.MISSING,
        "PathIsNotDirectoryException": Answer.MISSING,
        "PathIsNotEmptyDirectoryException": Answer.MISSING,  # a folder is not an object
        "AccessControlException": Answer.DENIED,
        "QuotaExceededException": Answer.DENIED,
        "QuotaByStorageTypeExceededException": Answer.DENIED,
        "NSQuotaExceededException": Answer.DENIED,
        "DSQuotaExceededException": Answer.DENIED,
        "SafeModeException": Answer.BUSY,
        "StandbyException": Answer.BUSY,
        "RetriableException": Answer.BUSY,
        "ServerTooBusyException": Answer.BUSY,
    }
)

_TYPES = AnswerTable()


class _Connection(NamedTuple):
    client: Any
    loop: Any


class HdfsStore(FsspecStore):
    """Stores objects as HDFS files below one folder.

    Args:
        url: `hdfs://host:port/path`, or `hdfs://service/path` with a name service of the Hadoop configuration; `hdfs:/path` is in
            the file system that its `fs.defaultFS` names.
        storage_options: Hadoop's own settings (names with a dot, such as `dfs.ha.namenodes.ns`), `config_dir` (default:
            `HADOOP_CONF_DIR`), `kerberos_principal`, `kerberos_keytab`, `kerberos_cache`; and `request_timeout` (seconds,
            default 30) and `allow_unsafe`. The user is that of the Kerberos ticket, or `HADOOP_USER_NAME`.

    Raises:
        InvalidArgument: the URL has no folder, or no host while nothing names a default one; or an option is not known.

    >>> HdfsStore("hdfs://127.0.0.1:9000/lake/flights", {"dfs.replication": "1"})
    HdfsStore('hdfs://127.0.0.1:9000/lake/flights', StorageOptions(dfs.replication='1'))
    """

    delete_page = 1

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities("rename", "hdfs", "rename that refuses an existing target", self._allow_unsafe)

    def _root_of(self, url: str) -> str:
        scheme, _, rest = url.partition("://")
        host, _, path = rest.partition("/")
        if scheme != "hdfs":
            raise InvalidArgument(f"{url!r} is not an HDFS URL", next_step="use hdfs://host:port/path")
        if "@" in host:
            raise InvalidArgument("an hdfs URL names a user", next_step="use a Kerberos ticket or HADOOP_USER_NAME")
        if not path.strip("/"):
            raise InvalidArgument(f"{url!r} names no folder", next_step="use hdfs://host:port/path")
        self._host = host
        return f"/{safe_key(path.strip('/'))}"

    def _check_options(self) -> None:
        settings = {name for name in self._given if "." in name}
        self._given.only(_CLIENT_OPTIONS | settings | OWN_OPTIONS, "HDFS stores")
        _hdfs_native()

    async def _connect(self) -> Any:
        options = {name: str(value) for name, value in self._options.items()}
        own = {name: options.pop(name) for name in _CLIENT_OPTIONS if name in options}
        try:
            client = _hdfs_native().Client(f"hdfs://{self._host or '/'}", options, own.pop("config_dir", None), **own)
        except RuntimeError as error:
            if self._host:
                raise
            raise InvalidArgument(
                f"{self.url} names no host, and Hadoop's configuration has no default: {error}",
                next_step="use hdfs://host:port/path, or set fs.defaultFS, by storage_options or HADOOP_CONF_DIR",
            ) from error
        return _Connection(client, asyncio.get_running_loop())

    async def _create(self, fs: Any, path: str, data: bytes) -> None:
        if await _exists(fs, path):  # saves the loser of a race the write
            raise FileExistsError(path)
        temporary = await _written(fs, path, len(data), lambda offset, count: data[offset : offset + count])
        try:
            await _in_thread(fs.client.rename, temporary, path, False)
        except BaseException:
            # Also if the outcome is not known: a temporary file that is gone cannot be renamed later (H9).
            await _dropped(fs, temporary)
            raise

    def _classify(self, error: BaseException) -> Answer:
        if isinstance(error, _BeforeTheRename):
            answer = self._classify(error.__cause__ or error)
            if answer in APPLIED_NOTHING:
                return answer
            return Answer.BROKEN_OFF if answer in REPEATABLE else Answer.NOT_SENT
        for link in chain(error):
            for name, answer in JAVA_EXCEPTIONS.items():
                if name in str(link):
                    return answer
        return _TYPES.classify(error)

    async def _read(self, fs: Any, path: str) -> bytes:
        return await _in_thread(_read, fs.client, path, 0, None)

    async def _read_range(self, fs: Any, path: str, start: int, end: int) -> bytes:
        return await _in_thread(_read, fs.client, path, start, end)

    async def _stat(self, fs: Any, path: str) -> tuple[int, int]:
        found = await _in_thread(fs.client.get_file_info, path)
        if found.isdir:
            raise FileNotFoundError(path)
        return int(found.length), int(found.modification_time)

    async def _write(self, fs: Any, path: str, data: bytes) -> None:
        await _replaced(fs, path, len(data), lambda offset, count: data[offset : offset + count])

    async def _page(self, fs: Any, prefix: str, after: str | None) -> tuple[list[Listed], str | None]:
        found, _ = await self._whole_page(fs, prefix, after)
        return [one for one in found if not is_temporary(one[0].rpartition("/")[2])], None

    async def _whole_page(self, fs: Any, prefix: str, after: str | None) -> tuple[list[Listed], str | None]:
        found = await _in_thread(lambda: list(fs.client.list_status(prefix.rstrip("/"), True)))
        return [(one.path, int(one.length), int(one.modification_time), "") for one in found if not one.isdir], None

    def list_all(self, prefix: str) -> Iterator[ObjectInfo]:
        """As `list`, with the temporary files that `list` hides."""
        return self._listed(prefix, join(self._root, safe_prefix(prefix)), len(join(self._root, "")), self._whole_page)

    async def _folder_page(self, fs: Any, prefix: str, after: str | None) -> tuple[list[str], str | None]:
        found = await _in_thread(lambda: list(fs.client.list_status(prefix.rstrip("/"), False)))
        return [one.path for one in found if one.isdir], None

    def remove_folders(self, prefix: str) -> None:
        """Remove empty folders, and temporary files of dead writers, from the deepest up (see `folders.RemovesFolders`)."""
        top = join(self._root, safe_prefix(prefix)).rstrip("/")
        try:
            found = self._request("list", prefix, self._seconds(0), self._below, top)
        except ObjectNotFound:
            return
        for path in [*sorted(found, key=lambda path: -path.count("/")), top]:
            with contextlib.suppress(LakelatchError):  # it holds a file
                self._request("delete", path, self._seconds(0), self._delete, [path])

    async def _below(self, fs: Any, top: str) -> list[str]:
        found = await _in_thread(lambda: list(fs.client.list_status(top, True)))
        return [one.path for one in found if one.isdir or is_temporary(one.path.rpartition("/")[2])]

    def move_to(self, url: str) -> bool:
        """Rename the root folder in one step (see `folders.MovesFolders`)."""
        target = self.sibling(url)
        if not isinstance(target, HdfsStore) or target._host != self._host:
            raise InvalidArgument(f"{url} is on another name node than {self._url}")

        async def rename(fs: Any) -> None:
            await _in_thread(fs.client.mkdirs, target._root.rpartition("/")[0] or "/", 0o755, True)
            await _in_thread(fs.client.rename, self._root, target._root, False)

        try:
            self._bounded(
                self._seconds(0), rename
            )  # sent once: the answer to a second send would not tell who moved it
        except Exception as error:
            answer = self._classify(error)
            if answer is Answer.EXISTS:
                return False
            self._fail("rename", "the folder", answer, error)
        return True

    async def _delete(self, fs: Any, paths: list[str]) -> None:
        gate = asyncio.Semaphore(_DELETES_AT_ONCE)

        async def delete(path: str) -> None:
            async with gate:
                try:
                    await _in_thread(fs.client.delete, path, False)
                except Exception as error:
                    if self._classify(error) is not Answer.MISSING:
                        raise

        await all_of(map(delete, paths))

    def _multipart(self, path: str) -> Multipart:
        def send(size: int, read: Callable[[int, int], bytes]) -> None:
            async def write(fs: Any) -> None:
                await _replaced(fs, path, size, read)

            self._request("write", path, self._seconds(size), write)

        return SpooledUpload(send)


class _BeforeTheRename(Exception):
    """The temporary file could not be written, so the final name was not touched."""


async def _exists(fs: Any, path: str) -> bool:
    try:
        await _in_thread(fs.client.get_file_info, path)
    except FileNotFoundError:
        return False
    except Exception as error:
        raise _BeforeTheRename(str(error)) from error
    return True


async def _written(fs: Any, path: str, size: int, read: Callable[[int, int], bytes]) -> str:
    """Write a closed temporary file beside `path`, with missing folders."""
    folder, _, name = path.rpartition("/")
    temporary = f"{folder}/{temporary_name(name)}"
    try:
        await _in_thread(_write, fs.client, temporary, size, read)
    except BaseException as error:
        await _dropped(fs, temporary)
        if isinstance(error, Exception):
            raise _BeforeTheRename(str(error)) from error
        raise
    return temporary


async def _replaced(fs: Any, path: str, size: int, read: Callable[[int, int], bytes]) -> None:
    temporary = await _written(fs, path, size, read)
    try:
        await _in_thread(fs.client.rename, temporary, path, True)
    except BaseException:
        await _dropped(fs, temporary)
        raise


async def _dropped(fs: Any, temporary: str) -> None:
    with contextlib.suppress(Exception):
        await _in_thread(fs.client.delete, temporary, False)


def _read(client: Any, path: str, start: int, end: int | None) -> bytes:
    reader = client.read(path)
    end = reader.size if end is None else min(end, reader.size)
    return bytes(reader.read_range(start, end - start)) if start < end else b""


def _write(client: Any, path: str, size: int, read: Callable[[int, int], bytes]) -> None:
    options = _hdfs_native().WriteOptions(overwrite=False, create_parent=True)
    writer = client.inner.create(path, options)  # its Python wrapper would close it again when collected
    for offset in range(0, size, _PIECE_BYTES):
        writer.write(read(offset, min(_PIECE_BYTES, size - offset)))
    writer.close()


async def _in_thread(call: Callable[..., T], *args: Any) -> T:
    """Make a call of the client in a thread of its own, and await the result. Once cancelled, the result is ignored.

    The client's own coroutines are not used: after a cut connection they panic as soon as they have to wait before a retry.
    The thread is a daemon and does not belong to a pool: one that hangs must block neither the next call nor the process's end.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()

    def tell(result: T | None, error: BaseException | None) -> None:
        if answer.done():
            return
        if error is None:
            answer.set_result(cast("T", result))
        elif isinstance(error, Exception):
            answer.set_exception(error)
        else:
            answer.set_exception(ClientDied(f"{type(error).__name__}: {error}"))

    def work() -> None:
        result, failure = None, None
        try:
            result = call(*args)
        except BaseException as error:
            failure = error
        with contextlib.suppress(RuntimeError):  # the loop is closed because the process is ending
            loop.call_soon_threadsafe(tell, result, failure)

    try:
        threading.Thread(target=work, name="lakelatch-hdfs", daemon=True).start()
    except RuntimeError:  # the interpreter is ending, or the system refuses another thread (H23)
        work()
    return await answer


def _hdfs_native() -> Any:
    try:
        import hdfs_native
    except ImportError as error:
        raise Unsupported(
            "HDFS stores need hdfs-native, which is not installed", next_step="pip install 'lakelatch[hdfs]'"
        ) from error
    return hdfs_native
