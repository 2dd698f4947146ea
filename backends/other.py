"""Any store that fsspec knows and lakelatch does not: for reading, and for a single writer with `allow_unsafe`.

Owns: the `FsspecStore` over an arbitrary fsspec URL. Must not know: tables, any particular store.
Invariant: `capabilities.atomic_create` is None, because fsspec's own create checks first and writes then (26 right rounds in
50 on one such store, format/stores §1). Writing to a table here is refused (`UnsafeBackend`, G9) unless the user accepts
the risk with the storage option `allow_unsafe`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.errors import InvalidArgument, Unsupported
from .files.object_store import OWN_OPTIONS, FsspecStore
from .files.upload import Multipart, SpooledUpload
from .requests.answers import Answer, AnswerTable
from .store import Capabilities

_ANSWERS = AnswerTable()


class OtherStore(FsspecStore):
    """The files of any fsspec file system.

    Args:
        url: a URL that fsspec understands.
        storage_options: the options of that file system, and `request_timeout` (seconds, default 30) and `allow_unsafe`.

    Raises:
        InvalidArgument: fsspec does not understand the URL.
        Unsupported: the package that fsspec needs for it is not installed.
    """

    @property
    def capabilities(self) -> Capabilities:
        detail = f"{self._url.partition('://')[0]}:// has no atomic create: two writers can both win"
        return Capabilities(None, None, detail, self._allow_unsafe)

    def _root_of(self, url: str) -> str:
        from fsspec import get_filesystem_class

        scheme = url.partition("://")[0]
        try:
            self._kind: Any = get_filesystem_class(scheme)
        except ImportError as error:
            raise Unsupported(f"{scheme}:// needs a package that is not installed: {error}") from error
        root: str = self._kind._strip_protocol(url).rstrip("/")
        if ".." in root.split("/"):
            raise InvalidArgument(f"the path of {url!r} leads out of its root")
        return root

    def _check_options(self) -> None:
        """Does nothing: the signature does not list every option, so the file system checks them when it is made."""

    async def _connect(self) -> Any:
        from fsspec.implementations.asyn_wrapper import AsyncFileSystemWrapper

        named = self._kind._get_kwargs_from_urls(self._url)
        options = {
            **named,
            **self._options.without(*OWN_OPTIONS),
            "skip_instance_cache": True,
            "use_listings_cache": False,
        }
        fs = self._kind(**options)
        return fs if fs.async_impl else AsyncFileSystemWrapper(fs=fs, asynchronous=False)

    async def _create(self, fs: Any, path: str, data: bytes) -> None:
        # Reached with `allow_unsafe` only: two writers between the check and the write overwrite each other (H1).
        if await fs._exists(path):
            raise FileExistsError(path)
        await self._write(fs, path, data)

    async def _write(self, fs: Any, path: str, data: bytes) -> None:
        await fs._makedirs(path.rpartition("/")[0], exist_ok=True)
        await fs._pipe_file(path, data)

    def _classify(self, error: BaseException) -> Answer:
        return _ANSWERS.classify(error)

    def _multipart(self, path: str) -> Multipart:
        def send(size: int, read: Callable[[int, int], bytes]) -> None:
            self.put(path[len(self._root) + 1 :], read(0, size))

        return SpooledUpload(send)
