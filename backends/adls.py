"""Azure Data Lake Storage and Azure Blob Storage over adlfs: `abfs://`, `abfss://` and `az://` URLs.

Owns: URL forms, the requests of Azure's own client, the table of its answers. Must not know: tables. Source:
format/stores §1, §4, §5. Invariants: one operation is one request to the Blob endpoint (adlfs sometimes lists first, or
deletes in order to overwrite). A create is one `Put Blob` with `If-None-Match: *`. The client does not retry. A folder
of an account with a hierarchical namespace is not an object.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Mapping
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any

from ..core.errors import InvalidArgument, LakelatchError, Unsupported
from .client_import import import_client
from .files.keys import join, safe_key, safe_prefix
from .files.object_store import FIXED_OPTIONS, FsspecStore, all_of, known_options, modified_ms
from .files.upload import Multipart
from .requests.answers import COMMON_STATUSES, Answer, AnswerTable
from .store import Capabilities, Listed
from .transport.adls_obstore import are_common, azure_requests
from .transport.choice import After, ObstoreRequests

_SCHEMES = ("abfs", "abfss", "az")
_PAGE = 1000
_DELETES_AT_ONCE = 32
"""Each delete is a request, since Azurite and some kinds of account do not have the batch interface."""

_READERS = 8
"""Concurrent requests for a range that is larger than the client fetches at once (32 MiB)."""

_CONNECT_SECONDS = 10
_TO_DEFAULT_CREDENTIAL = (
    "exclude_",
    "managed_identity_",
    "workload_identity_",
    "interactive_browser_",
    "process_timeout",
)

_DENIED, _EXISTS, _BUSY = Answer.DENIED, Answer.EXISTS, Answer.BUSY

ADLS_ANSWERS = AnswerTable(
    codes=MappingProxyType(
        {
            "BlobAlreadyExists": _EXISTS,
            "ConditionNotMet": _EXISTS,
            "ResourceAlreadyExists": _EXISTS,
            "UnauthorizedBlobOverwrite": _EXISTS,  # 403 for a SAS that may create but not overwrite
            "BlobImmutableDueToPolicy": _EXISTS,
            "LeaseIdMissing": _EXISTS,
            "BlobArchived": Answer.ARCHIVED,
            "BlobBeingRehydrated": Answer.ARCHIVED,
            # 409 for what waiting does not change
            **dict.fromkeys(
                (
                    "SnapshotsPresent",
                    "InvalidBlobType",
                    "ResourceTypeMismatch",
                    "PathConflict",
                    "DirectoryNotEmpty",
                    "LeaseAlreadyPresent",
                    "BlobTierInadequateForContentLength",
                ),
                _DENIED,
            ),
            "BlobNotFound": Answer.MISSING,
            "ResourceNotFound": Answer.MISSING,
            "PathNotFound": Answer.MISSING,
            "ContainerNotFound": Answer.NO_CONTAINER,
            "ContainerBeingDeleted": Answer.NO_CONTAINER,
            "FilesystemNotFound": Answer.NO_CONTAINER,
            "InvalidRange": Answer.PAST_END,
            "ServerBusy": _BUSY,
            "OperationTimedOut": _BUSY,
            "InternalError": _BUSY,
            "Md5Mismatch": _BUSY,  # the bytes were damaged in transit: send them again
            "AuthenticationFailed": _DENIED,
            "AuthorizationFailure": _DENIED,
            "AuthorizationPermissionMismatch": _DENIED,
            "AccountIsDisabled": _DENIED,
        }
    ),
    # A 404 with another code concerns something else.
    statuses=MappingProxyType({**COMMON_STATUSES, 404: _DENIED}),
    # A refused connection proves nothing: the HTTP client resends by itself when a kept connection breaks (H2).
    types=MappingProxyType(
        {"ClientAuthenticationError": Answer.NOT_SENT, "CredentialUnavailableError": Answer.NOT_SENT}
    ),
    carriers=MappingProxyType({"HttpResponseError": ("status_code", "error_code")}),
)


class AdlsStore(FsspecStore):
    """Stores blobs in a container, with or without a hierarchical namespace.

    Args:
        url: `abfs://container/path` or `abfs://container@account.dfs.core.windows.net/path`; also with `abfss` and `az`.
        storage_options: the options of adlfs (`account_name`, `account_key`, `sas_token`, `connection_string`, `tenant_id`,
            `client_id`, `client_secret`, `anon`, `account_host`, …), and `request_timeout` (seconds, default 30) and
            `allow_unsafe`. Without keys, adlfs uses Azure's default credential: environment, workload or managed
            identity, `az login` (H19).

    Raises:
        InvalidArgument: the URL has no container or names another account than the options, or an option is not known.

    >>> AdlsStore("abfs://lake@shop.dfs.core.windows.net/flights", {"account_key": "do not show"})
    AdlsStore('abfs://lake@shop.dfs.core.windows.net/flights', StorageOptions(account_key=***))
    """

    delete_page = 1
    carriers = ADLS_ANSWERS.carriers

    @property
    def capabilities(self) -> Capabilities:
        # Hadoop's client needs the account in the URL. Without it, Spark reads through Arrow.
        scheme, _, rest = self._url.partition("://")
        native = ("abfs" if scheme == "az" else scheme) if "@" in rest.partition("/")[0] else None
        return Capabilities("If-None-Match", native, "one Put Blob with If-None-Match: *", self._allow_unsafe)

    def _root_of(self, url: str) -> str:
        scheme, _, rest = url.partition("://")
        if scheme not in _SCHEMES:
            raise InvalidArgument(f"{url!r} is not an Azure URL", next_step="use abfs://container/path")
        place, _, path = rest.partition("/")
        container, _, self._host = place.partition("@")
        if ":" in container or "@" in self._host:
            raise InvalidArgument(f"a {scheme} URL must not hold credentials", next_step="give them as storage options")
        if not container:
            raise InvalidArgument(f"{url!r} names no container", next_step="use abfs://container/path")
        return f"{container}/{safe_key(path.strip('/'))}" if path.strip("/") else container

    def _path(self, key: str) -> str:
        path = super()._path(key)
        if "\\" in key:
            raise InvalidArgument(
                f"key {key!r} has a backslash, which Azure treats as a slash, so that two keys would name one blob"
            )
        return path

    def _check_options(self) -> None:
        if not are_common(self._given) or find_spec("adlfs") is None:  # loading it takes a third of a second
            known = known_options(_adlfs().AzureBlobFileSystem)
            passed = {name for name in self._given if name.startswith(_TO_DEFAULT_CREDENTIAL)}
            self._given.only(known | passed, "Azure stores")
        account, said = self._host.partition(".")[0], self._given.get("account_name")
        if account and said and account != said:
            raise InvalidArgument(f"{self._url} is in account {account!r}, but storage option account_name is {said!r}")

    def _obstore(self) -> Callable[[], ObstoreRequests]:
        return azure_requests(self._options, self._host, self._patience.deadline_seconds)

    async def _connect(self) -> Any:
        options = dict(self._options.without(*FIXED_OPTIONS))
        account, _, domain = self._host.partition(".")
        if account and not options.get("connection_string"):
            options.setdefault("account_name", account)
            if domain not in ("dfs.core.windows.net", "blob.core.windows.net"):  # another cloud
                options.setdefault("account_host", f"{account}.{domain.replace('dfs.', 'blob.', 1)}")
        return _adlfs().AzureBlobFileSystem(**options, skip_instance_cache=True, use_listings_cache=False)

    async def _create(self, fs: Any, path: str, data: bytes) -> None:
        await self._blob(fs, path).upload_blob(data, length=len(data), overwrite=False, **self._once)

    def _classify(self, error: BaseException) -> Answer:
        return ADLS_ANSWERS.classify(error)

    async def _read(self, fs: Any, path: str) -> bytes:
        found = await self._blob(fs, path).download_blob(max_concurrency=_READERS, **self._once)
        return bytes(await found.readall())

    async def _read_range(self, fs: Any, path: str, start: int, end: int) -> bytes:
        found = await self._blob(fs, path).download_blob(start, end - start, max_concurrency=_READERS, **self._once)
        return bytes(await found.readall())

    async def _stat(self, fs: Any, path: str) -> tuple[int, int]:
        found = await self._blob(fs, path).get_blob_properties(**self._once)
        if _is_folder(found.metadata):
            raise FileNotFoundError(path)
        return int(found.size), modified_ms(found)

    async def _write(self, fs: Any, path: str, data: bytes) -> None:
        await self._blob(fs, path).upload_blob(data, length=len(data), overwrite=True, **self._once)

    def _import_client(self) -> None:
        _adlfs()

    async def _page(self, fs: Any, prefix: str, after: str | None) -> tuple[list[Listed], str | None]:
        container, _, start = prefix.partition("/")
        client = fs.service_client.get_container_client(container)
        passed, token = (after, None) if isinstance(after, After) else ("", after)
        while True:
            pages = client.list_blobs(
                name_starts_with=start, include=["metadata"], results_per_page=_PAGE, **self._once
            ).by_page(token)
            listed = [
                (path, int(one.size), modified_ms(one), one.etag or "")
                async for one in await _first(pages)
                if not _is_folder(one.metadata) and (path := f"{container}/{one.name}") > passed
            ]
            token = pages.continuation_token or None
            if listed or token is None or not passed:  # else what obstore has listed already, in the same order
                return listed, token

    async def _folder_page(self, fs: Any, prefix: str, after: str | None) -> tuple[list[str], str | None]:
        container, _, start = prefix.partition("/")
        client = fs.service_client.get_container_client(container)
        pages = client.walk_blobs(name_starts_with=start, delimiter="/", results_per_page=_PAGE, **self._once)
        return [f"{container}/{one.name}" async for one in pages if one.name.endswith("/")], None

    def remove_folders(self, prefix: str) -> None:
        """Folders are marked blobs with a hierarchical namespace, and without one what other clients left: empty blobs named
        `folder/`. They are deleted from the deepest up.
        """
        start = join(self._root, safe_prefix(prefix)).rstrip("/")
        marks = self._request("list", prefix, self._seconds(0), self._folder_marks, start)
        for path in sorted(marks, key=lambda path: -path.count("/")):
            with contextlib.suppress(LakelatchError):  # it holds a file
                self._request("delete", path, self._seconds(0), self._delete, [path])

    async def _folder_marks(self, fs: Any, start: str) -> list[str]:
        container, _, prefix = start.partition("/")
        client = fs.service_client.get_container_client(container)
        blobs = client.list_blobs(name_starts_with=prefix, include=["metadata"], **self._once)
        below = [
            f"{container}/{one.name}"
            async for one in blobs
            if _is_folder(one.metadata) or (one.name.endswith("/") and one.size == 0)
        ]
        return [path for path in below if path == start or path.startswith(f"{start}/")]

    async def _delete(self, fs: Any, paths: list[str]) -> None:
        gate = asyncio.Semaphore(self._throttle().allowed(_DELETES_AT_ONCE))

        async def delete(path: str) -> None:
            async with gate:
                try:
                    await self._blob(fs, path).delete_blob(**self._once)
                except Exception as error:
                    if self._classify(error) is not Answer.MISSING:
                        raise

        await all_of(map(delete, paths))

    def _multipart(self, path: str) -> Multipart:
        return _Blocks(self, path)

    @property
    def _once(self) -> dict[str, Any]:
        """The arguments of every call: no retries, and no timeout before the deadline from outside."""
        return {
            "retry_total": 0,
            "connection_timeout": _CONNECT_SECONDS,
            "read_timeout": self._patience.deadline_seconds,
        }

    def _blob(self, fs: Any, path: str) -> Any:
        container, _, name = path.partition("/")
        return fs.service_client.get_blob_client(container, name)


class _Blocks:
    """An upload in blocks. Every request of it can be repeated. Azure drops uncommitted blocks after a week."""

    costs = (0, 1)

    def __init__(self, store: AdlsStore, path: str) -> None:
        self._store = store
        self._path = path

    def start(self) -> None:
        """Choose a prefix for block names that no other writer uses. Blocks need no upload that they belong to."""
        self._prefix = os.urandom(8).hex()

    def part(self, number: int, data: bytes) -> Any:
        name = f"{self._prefix}-{number:06}"
        self._send(len(data), "stage_block", name, data, length=len(data))
        return name

    def finish(self, parts: list[Any], size: int) -> None:
        from azure.storage.blob import BlobBlock

        self._send(0, "commit_block_list", [BlobBlock(name) for name in parts])

    def abandon(self) -> None:
        """Does nothing: Azure drops uncommitted blocks by itself."""

    def _send(self, size: int, method: str, *args: Any, **named: Any) -> None:
        store = self._store

        async def call(fs: Any) -> None:
            await getattr(store._blob(fs, self._path), method)(*args, **named, **store._once)

        store._request("write", self._path, store._seconds(size), call)


async def _first(pages: AsyncIterator[Any]) -> AsyncIterator[Any]:
    """The entries of the first page. An empty listing has a page too."""
    async for page in pages:
        return page  # type: ignore[no-any-return]
    raise AssertionError("a listing without a page")


def _is_folder(metadata: Mapping[str, str] | None) -> bool:
    return bool(metadata) and str((metadata or {}).get("hdi_isfolder", "")).lower() == "true"


def _adlfs() -> Any:
    try:
        return import_client("adlfs")
    except ImportError as error:
        raise Unsupported(
            "Azure stores need adlfs, which is not installed", next_step="pip install 'lakelatch[adls]'"
        ) from error
