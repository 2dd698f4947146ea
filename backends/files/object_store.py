"""The base of every object store over fsspec: one request per operation, each with a deadline, retries and outcomes.

Owns: `FsspecStore`. A subclass provides the file system, the create request, the table of answers and uploads in parts, and
may replace any request by a cheaper one. Must not know: any particular store, tables.
Invariants: the client does not retry and caches no listing. Every request has a deadline set from outside, because a client's
own read timeout did not end a request whose answer was lost (format/stores §4). `Created` means that the store said so.
Synchronous file systems are wrapped in `fsspec.implementations.asyn_wrapper.AsyncFileSystemWrapper`.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, NoReturn, TypeVar, cast

from ...core.errors import InvalidArgument, LakelatchError, StoreUnavailable, UnsafeBackend
from ..requests.advice import is_of_the_client, next_step
from ..requests.answers import (
    APPLIED_NOTHING,
    BUSY,
    REPEATABLE,
    REPEATABLE_CREATE,
    Answer,
    chain,
    create_outcome,
    facts_of,
    told,
)
from ..requests.deadline import OPERATION_SECONDS, left_s, operation_told
from ..requests.patience import BUSY_SECONDS, Patience
from ..requests.refusals import DeletionRefused
from ..requests.renewal import Lease
from ..requests.threads import LoopThreads, Threads, this_process
from ..requests.throttle import Throttle, throttle_of
from ..storage_options import StorageOptions
from ..store import Capabilities, Created, Listed, ObjectInfo, ObjectNotFound, PutOutcome
from ..transport.carrier import ChoosesTransport
from ..transport.choice import ClientDied, NotExpressed, checked_choice
from .keys import join, key_defect, safe_key, safe_prefix
from .object_folders import ObjectFolders
from .open_files import RangeInput, checked_range
from .upload import BufferedOutput, Multipart

T = TypeVar("T")

OWN_OPTIONS = frozenset({"allow_unsafe", "operation_timeout", "request_timeout", "transport"})
"""Storage options that lakelatch uses itself. The others are passed to the client."""

FIXED_OPTIONS = frozenset({"skip_instance_cache", "use_listings_cache"})
"""Options of every client that are accepted and ignored, because a commit needs fixed values."""

_NOT_OPTIONS = frozenset({"self", "kwargs", "asynchronous", "loop", "session"})

SLOWEST_BYTES_PER_SECOND = 256 << 10
"""The rate at which a deadline grows with the bytes that are sent or requested."""

CONNECT_SECONDS = 60.0
"""The limit for making a client, which may fetch credentials and loads large models of its own on a busy machine."""

CREATE_LIMIT_BYTES = 64 << 20
"""The largest object of a conditional create, which is one request. Snapshots, schemas and tags are small."""

_DELETE_PAGE = 1000
_DELETES_AT_ONCE = 32
_ASKING = Threads(_DELETES_AT_ONCE, "lakelatch-delete", is_awaited=False)
_RENEWALS = 3
"""How many times one request is sent with new credentials."""
_KEPT = frozenset({Answer.DENIED, Answer.EXISTS, Answer.CONFLICT, Answer.ARCHIVED})
"""What a store answers to the deletion of an object under a hold, a lease or a retention policy, or without the permission."""
_READS = ("read", "look at", "list")


class FsspecStore(ChoosesTransport, ObjectFolders, ABC):
    """A store over an asynchronous fsspec file system.

    Args:
        url: the root, without credentials.
        storage_options: fsspec's options for this store, and `request_timeout` and `operation_timeout` (seconds), `allow_unsafe`
            and `transport`: `auto` (obstore carries the requests if it is installed and can express the options, else fsspec),
            `obstore` or `fsspec`.
        patience: deadlines and repeats. `request_timeout` overrides its deadline.

    A store can be pickled to another process or machine. The child of a fork makes its own connections.
    """

    delete_page = _DELETE_PAGE

    def __init__(
        self, url: str, storage_options: Mapping[str, Any] | None = None, patience: Patience | None = None
    ) -> None:
        given = StorageOptions(storage_options)
        patience = patience or Patience(busy_seconds=BUSY_SECONDS)
        deadline = given.seconds("request_timeout", patience.deadline_seconds)
        self._patience = replace(patience, deadline_seconds=deadline)
        self.operation_seconds = given.seconds("operation_timeout", OPERATION_SECONDS)
        self._url = url
        self._given = given
        self._options = given.without(*OWN_OPTIONS)
        self._allow_unsafe = given.flag("allow_unsafe", False)
        self._root = self._root_of(url)
        self._wanted = checked_choice(given.get("transport", "auto"))
        self._check_options()
        self._connection = None
        self._carrier = None
        if self._wanted == "obstore":
            self._insist()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._url, self._given, self._patience)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._url!r}, {self._options!r})"

    def sibling(self, url: str) -> FsspecStore:
        """The store at another URL of the same scheme, with the same options."""
        return type(self)(url, self._given, self._patience)

    # What a particular store provides.

    @abstractmethod
    def _root_of(self, url: str) -> str:
        """The path of the root inside the file system (`bucket/path`). Raises `InvalidArgument`."""

    @abstractmethod
    def _check_options(self) -> None:
        """Refuse options that the client does not know (`InvalidArgument`), or a missing client (`Unsupported`)."""

    @abstractmethod
    async def _connect(self) -> Any:
        """Make a new file system for this process: no listing cache, no retries, not shared."""

    @abstractmethod
    async def _create(self, fs: Any, path: str, data: bytes) -> None:
        """Send ONE request that creates the object if it is absent. Raises on any other result."""

    @abstractmethod
    def _classify(self, error: BaseException) -> Answer:
        """The answer that an error stands for: a pure function over a table."""

    @abstractmethod
    def _multipart(self, path: str) -> Multipart:
        """Begin a new upload in parts."""

    @property
    @abstractmethod
    def capabilities(self) -> Capabilities: ...

    # One request each, in terms of fsspec; a subclass overrides those for which its store has a cheaper one.

    async def _read(self, fs: Any, path: str) -> bytes:
        return bytes(await fs._cat_file(path))

    async def _read_range(self, fs: Any, path: str, start: int, end: int) -> bytes:
        return bytes(await fs._cat_file(path, start=start, end=end))

    async def _stat(self, fs: Any, path: str) -> tuple[int, int]:
        """Size in bytes and modification time in milliseconds."""
        info = await fs._info(path)
        if info.get("type") == "directory":
            raise FileNotFoundError(path)
        return int(info["size"]), modified_ms(info)

    async def _write(self, fs: Any, path: str, data: bytes) -> None:
        await fs._pipe_file(path, data)

    async def _delete(self, fs: Any, paths: list[str]) -> None:
        """Delete up to 1000 objects, `delete_page` in one request. Missing objects are ignored."""
        for path in paths:
            try:
                await fs._rm_file(path)
            except Exception as error:
                if self._classify(error) is not Answer.MISSING:
                    raise

    async def _glance(self, fs: Any, prefix: str, after: str | None) -> tuple[list[Listed], str | None]:
        return await self._page(fs, prefix, after)

    async def _page(self, fs: Any, prefix: str, after: str | None) -> tuple[list[Listed], str | None]:
        """One page of a listing, and the token to request the next page with."""
        found = await fs._find(prefix, detail=True)
        return [(path, int(info["size"]), modified_ms(info), "") for path, info in found.items()], None

    # The `Store` protocol.

    @property
    def url(self) -> str:
        return self._url

    def get(self, key: str) -> bytes:
        seconds = self._patience.deadline_seconds * 2  # the size is not known
        return self._request("read", key, seconds, self._read, self._path(key))

    def get_range(self, key: str, start: int, end: int) -> bytes:
        checked_range(key, start, end)
        path = self._path(key)
        if start == end:
            return b""
        try:
            return self._request("read", key, self._seconds(end - start), self._read_range, path, start, end)
        except _PastEnd:
            return b""

    def head(self, key: str) -> ObjectInfo:
        size, modified = self._request("look at", key, self._seconds(0), self._stat, self._path(key))
        return ObjectInfo(key, size, modified)

    def put(self, key: str, data: bytes) -> None:
        self._request("write", key, self._seconds(len(data)), self._write, self._path(key), data)

    def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
        path, seconds = self._path(key), self._seconds(len(data))
        answers: list[Answer] = []
        if len(data) > CREATE_LIMIT_BYTES:
            raise InvalidArgument(f"{key}: {len(data)} bytes cannot be created in one conditional request")

        def send() -> None:
            try:
                self._bounded(seconds, self._create, path, data)
            except Exception as error:
                answers.append(self._classify(error))
                raise

        try:
            # Also bounded in time: the longer a create retries, the older are the facts behind its bytes (H6).
            within = min(seconds, left_s())
            self._retrying(REPEATABLE_CREATE, within)(send)
        except LakelatchError:  # no connection could be made, so nothing was sent
            raise
        except Exception as error:
            answer = self._classify(error)
            earlier_send = any(earlier not in APPLIED_NOTHING for earlier in answers[:-1])
            outcome = create_outcome(answer, f"creating {key}: {self._line(answer, error)}", earlier_send)
            if outcome is None:
                self._fail("create", key, answer, error)
            return outcome
        return Created()

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        return self._listed(prefix, join(self._root, safe_prefix(prefix)), len(join(self._root, "")))

    def glance(self, prefix: str) -> Iterator[ObjectInfo]:
        """As `list`, for objects that may be missed without harm: an empty answer is believed, and costs no second request."""
        return self._listed(prefix, join(self._root, safe_prefix(prefix)), len(join(self._root, "")), self._glance)

    def delete_many(self, keys: Iterable[str]) -> None:
        paths, kept = [self._path(key) for key in keys], dict[str, str]()
        size = min(_DELETE_PAGE, self.delete_page * _DELETES_AT_ONCE)  # all of them share one deadline
        for first in range(0, len(paths), size):
            kept.update(self._refused(paths[first : first + size]))
        if kept:
            cut = len(join(self._root, ""))
            raise DeletionRefused({path[cut:]: why for path, why in kept.items()}, self._url)

    def _refused(self, page: Sequence[str]) -> dict[str, str]:
        """Delete a page. Returns what the store refused to delete, with its reason: then each is asked for by itself, as clients
        tell of one refusal, and some stop at it.
        """
        label = f"{len(page)} objects" if len(page) > 1 else page[0][len(join(self._root, "")) :]
        try:
            self._request("delete", label, self._seconds(0), self._delete, page, refusals=_KEPT | {Answer.MISSING})
        except _Kept as refused:
            if len(page) == 1 and refused.answer is Answer.MISSING:
                return {}
            if len(page) == 1:
                return {page[0]: refused.why}
            parts = self._each(lambda path: self._refused([path]), page)
            return {path: why for part in parts for path, why in part.items()}
        return {}

    def _each(self, ask: Callable[[str], T], paths: Sequence[str]) -> Iterable[T]:
        return _ASKING.map(ask, paths)

    def open_input(self, key: str, size: int | None = None) -> Any:
        return RangeInput(self, safe_key(key), size)

    def open_output(self, key: str) -> Any:
        path = self._path(key)
        return BufferedOutput(key, lambda data: self.put(key, data), lambda: self._multipart(path))

    # Helpers.

    def _path(self, key: str) -> str:
        return join(self._root, safe_key(key))

    def _listed(
        self, prefix: str, start: str, cut: int, page: Callable[..., Awaitable[Any]] | None = None
    ) -> Iterator[ObjectInfo]:
        after: str | None = None
        while True:
            try:
                found, after = self._request("list", prefix, self._seconds(0), page or self._page, start, after)
            except ObjectNotFound:
                return
            for path, size, modified, tag in found:
                key = path[cut:]
                # Skip folder markers, and names that no lakelatch store can have written or could open (H16).
                if path.startswith(start) and key_defect(key) is None:
                    yield ObjectInfo(key, size, modified, tag)
            if after is None:
                return

    def _seconds(self, size: int) -> float:
        return self._patience.deadline_seconds + size / SLOWEST_BYTES_PER_SECOND

    def _is(self, error: BaseException, answers: frozenset[Answer]) -> bool:
        return not isinstance(error, LakelatchError) and self._classify(error) in answers

    def _filesystem(self) -> Any:
        return self._connected()[0]

    def _connected(self) -> tuple[Any, Lease]:
        """The client, and what it was made with. A fork's child makes its own: event loops and sockets do not survive."""
        held = self._connection
        if held is None or held[0] != this_process():
            lease = self._leased()
            try:
                made = shared_filesystem(self._connect, type(self), self._given, lease.number)
            except LakelatchError:
                raise
            except Exception as error:
                self._fail("open", "a connection", Answer.NOT_SENT, error)
            held = self._connection = (this_process(), made, lease)
        return held[1:]

    def warm_up(self) -> None:
        """Import what requests need before they are sent by threads. If a thread imports while Ctrl-C ends the process, Python
        forgets that it was an interrupt, and the process ends as if it had failed.
        """
        with contextlib.suppress(LakelatchError):  # the first request says so
            if self._carried()[0] is None:
                self._import_client()

    def _import_client(self) -> None:
        """Import the client of fsspec."""

    def _bounded(self, seconds: float, call: Callable[..., Awaitable[T]], *args: Any) -> T:
        """Run one request to its end or to its deadline, from any thread. One that was refused because its credentials have ended
        did nothing, and is sent again with new ones. On a busy machine these may end, too, before the request goes out.
        """
        renewals = 0
        while True:
            used: list[Lease] = []
            try:
                with self._throttle().request(self._asks_for_fewer, call.__name__ != "_create", left_s()):
                    return self._sent(used.append, seconds, call, *args)
            except Exception as error:
                if isinstance(error, LakelatchError) or renewals == _RENEWALS or not used:
                    raise
                if not self._is_renewed(used[-1], error):
                    raise
                renewals += 1

    def _throttle(self) -> Throttle:
        return throttle_of(f"{type(self).__qualname__} {self._root.partition('/')[0]}")

    def _asks_for_fewer(self, error: Exception) -> bool:
        return self._is(error, BUSY)

    def _sent(
        self, using: Callable[[Lease], object], seconds: float, call: Callable[..., Awaitable[T]], *args: Any
    ) -> T:
        """`using` is told what each client was made with that sends the request: obstore's and fsspec's may differ in age."""
        fast, _, lease = self._carried()
        if fast is not None and lease is not None and call.__name__ in fast.named:
            using(lease)
            with contextlib.suppress(NotExpressed):
                return cast("T", self._through(fast, min(seconds, left_s()), call.__name__, *args))
        from fsspec.asyn import sync

        fs, lease = self._connected()
        using(lease)
        return cast("T", sync(fs.loop, _alive, call, fs, *args, timeout=min(seconds, left_s())))

    def _request(
        self,
        action: str,
        key: str,
        seconds: float,
        call: Callable[..., Awaitable[T]],
        *args: Any,
        refusals: frozenset[Answer] = frozenset(),
    ) -> T:
        """Send an idempotent request, and repeat it while that may help. Answers in `refusals` are raised as `_Kept`.

        Raises:
            ObjectNotFound: a read found no object. For a write, a missing bucket or path is `StoreUnavailable`.
            StoreUnavailable: the message names the store, the key and the next step, without secrets (H19).
        """
        began_s = time.monotonic()
        try:
            return cast("T", self._retrying(REPEATABLE, left_s())(self._bounded, seconds, call, *args))
        except LakelatchError:
            raise
        except Exception as error:
            answer, facts = self._classify(error), facts_of(error, self.carriers)
            if answer in refusals and not is_of_the_client(facts):
                raise _Kept(answer, self._given.redact(told(error, facts)[:300])) from None
            # No store answers 404 to a listing of a bucket that is there. Only clients say so of a folder.
            if answer is Answer.MISSING and (action != "list" or facts.status is None) and action in _READS:
                raise ObjectNotFound(key) from None
            if answer is Answer.PAST_END and call.__name__ == "_read_range":
                raise _PastEnd from None
            asked_s = time.monotonic() - began_s if answer in REPEATABLE else 0.0
            self._fail(action, key, answer, error, f", after {asked_s:.0f} s" if asked_s >= 1 else "")

    def _retrying(self, answers: frozenset[Answer], within: float) -> Any:
        return self._patience.retrying(
            lambda error: self._is(error, answers),
            within,
            busy=lambda error: self._is(error, BUSY),
            told_s=lambda error: facts_of(error, self.carriers).retry_after_s,
            silent=lambda error: "TimeoutError" in facts_of(error, {}).types,
        )

    def _line(self, answer: Answer, error: BaseException) -> str:
        return self._given.redact(f"{answer.value}: {told(error, facts_of(error, self.carriers))}")

    def _fail(self, action: str, key: str, answer: Answer, error: BaseException, more: str = "") -> NoReturn:
        if answer is Answer.EXISTS and action != "create":
            answer = Answer.DENIED  # a lease, a retention policy, a condition of somebody in between
        message = f"{self._url}: cannot {action} {key or 'the folder'}: {self._line(answer, error)}{more}"
        # The client's error is not chained if its text holds a secret (H19).
        text = "\n".join(repr(link) for link in chain(error))
        cause = error if self._given.redact(text) == text else None
        if answer is Answer.NO_CONDITION and action == "create":
            raise UnsafeBackend(message) from cause
        late, step = operation_told() if answer in REPEATABLE else "", next_step(answer, facts_of(error, self.carriers))
        raise StoreUnavailable(message, next_step=f"{step}; {late}" if late else step) from cause


async def _alive(call: Callable[..., Awaitable[T]], *args: Any) -> T:
    """Await the call. fsspec would turn a failure that is not an `Exception` into the result None, a success (H2)."""
    try:
        return await call(*args)
    except (Exception, asyncio.CancelledError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        raise ClientDied(f"{type(error).__name__}: {error}") from error


async def all_of(requests: Iterable[Awaitable[object]]) -> None:
    """Await requests side by side, all of them to their end: one that went on behind an error would do its work later, unseen."""
    answers = await asyncio.gather(*requests, return_exceptions=True)
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer


class _Kept(Exception):
    """The store refused to delete an object, for the reason `why`."""

    def __init__(self, answer: Answer, why: str) -> None:
        super().__init__(why)
        self.answer, self.why = answer, why


class _PastEnd(Exception):
    """The range starts past the end of the object. `get_range` returns no bytes then."""


_SHARED: dict[tuple[object, str], Any] = {}
_SHARED_LIMIT = 16


def shared_filesystem(
    connect: Callable[[], Awaitable[Any]], kind: type[FsspecStore], options: StorageOptions, lease: int = 0
) -> Any:
    """One file system per process, kind of store, options and credentials, so that opening another table needs no new client."""
    from fsspec.asyn import get_loop, sync

    identity = (this_process(), f"{kind.__module__}.{kind.__qualname__} {lease} {sorted(options.items())!r}")
    held = _SHARED.get(identity)
    if held is None:
        loop = get_loop()
        if getattr(loop, "_default_executor", None) is None:
            loop.call_soon_threadsafe(loop.set_default_executor, LoopThreads(thread_name_prefix="lakelatch-loop"))
        made = sync(loop, connect, timeout=CONNECT_SECONDS)
        while len(_SHARED) >= _SHARED_LIMIT:
            _SHARED.pop(next(iter(_SHARED)), None)
        held = _SHARED.setdefault(identity, made)  # if two threads connected at once, both use the first one
    return held


def known_options(client: Any) -> frozenset[str]:
    """The storage options in the signature of an fsspec class, and those that every store takes."""
    return frozenset(inspect.signature(client.__init__).parameters) - _NOT_OPTIONS | FIXED_OPTIONS | OWN_OPTIONS


def bucket_root(url: str, schemes: tuple[str, ...], store: str) -> str:
    """`bucket/path` of a URL whose first part is a bucket. Raises InvalidArgument: another scheme, no bucket,
    credentials in the URL (not repeated, H19), or an invalid path.

    >>> bucket_root("s3a://lake/flights/", ("s3", "s3a"), "S3")
    'lake/flights'
    """
    scheme, _, rest = url.partition("://")
    example = f"use {schemes[0]}://bucket/path"
    if scheme not in schemes:
        raise InvalidArgument(f"{url!r} is not a URL of {store}", next_step=example)
    bucket, _, path = rest.partition("/")
    if "@" in bucket:
        raise InvalidArgument(
            f"a {scheme} URL must not hold credentials",
            next_step="give them as storage options, or better, by the environment",
        )
    if not bucket:
        raise InvalidArgument(f"{url!r} names no bucket", next_step=example)
    return f"{bucket}/{safe_key(path.strip('/'))}" if path.strip("/") else bucket


def modified_ms(info: Mapping[str, Any]) -> int:
    """The modification time in fsspec's info, in milliseconds since 1970, or 0 if it has none."""
    for name in ("LastModified", "last_modified", "mtime", "updated", "modified", "created"):
        value = info.get(name)
        if isinstance(value, datetime):
            return int(value.timestamp() * 1000)
        if isinstance(value, int | float):
            return int(value * 1000)
    return 0
