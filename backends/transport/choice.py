"""The client that carries requests: obstore where it can, else the store's client for fsspec.

Owns: `Transport`, which client a store uses and why; `ObstoreRequests`, one request each through obstore; how obstore's
errors are read. Must not know: any particular store, retries, tables. Source: format/stores §4; decision 70.

Invariants: obstore sends each request once. A deadline is set from outside, as for fsspec. Its errors become the statuses and
codes that the store gave, so that the one table of answers decides; what cannot be read proves nothing (H2). `NotExpressed`
means that fsspec is to do it, and is raised only if nothing was sent, or for a listing. obstore's runtime does not survive a
fork: a request in a child waits forever or crashes the parent, so the child of a process with obstore uses fsspec.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Callable
from concurrent.futures import TimeoutError as NoResult
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

from ...core.errors import InvalidArgument, Unsupported
from ..requests.threads import Threads, forked_lock, this_process
from ..store import Listed

T = TypeVar("T")

CHOICES = ("auto", "obstore", "fsspec")

SMALL_BYTES = 16 << 20
"""Larger bodies go through fsspec. obstore's client has one time limit for all requests, which must not grow with theirs."""

SLOWEST_BYTES_PER_SECOND = 256 << 10
CONNECT_SECONDS = 5
REQUESTS_AT_ONCE = 32
PAGE = 1000

_CLIENTS_LIMIT = 16


@dataclass(frozen=True, slots=True)
class Transport:
    """The client that carries a store's requests, `obstore` or `fsspec`, and why.

    Attributes:
        next_step: how to get the faster one; "" if it is in use, or cannot be had.
    """

    name: str
    reason: str
    next_step: str = ""


class NotExpressed(Exception):
    """obstore cannot do this, so fsspec is to do it. The text says what."""


class Refused(Exception):
    """An answer of the store that is not a success, in the shape of botocore's errors (see `answers.facts_of`)."""

    def __init__(self, status: int, code: str | None, message: str) -> None:
        super().__init__(f"{status} {code or ''}: {message}")
        self.status, self.code = status, code or str(status)
        error = {"Code": self.code, "Message": message}
        self.response = {"Error": error, "ResponseMetadata": {"HTTPStatusCode": status}}


class NoAnswer(Exception):
    """obstore reports no answer of the store."""


class NoCredentials(Exception):
    """The credentials could not be had, so that nothing was sent."""


class ClientDied(Exception):
    """The client raised something other than an `Exception`, such as a panic of native code. It proves nothing (H2)."""


class After(str):
    """The path after which a listing goes on, as a token of `_page`."""


class _Rest(After):
    """The same, what obstore has not listed yet, and the path up to which that was listed before."""

    stream: Any = None
    passed: str = ""


class ObstoreRequests:
    """The requests of one store object through obstore, by the names that they have in `FsspecStore`.

    Args:
        client: makes the client of a bucket: `client(bucket)`.
        fits: whether an ETag can be the store's for an object of these bytes: `fits(tag, data)`. obstore follows redirections,
            so that the page of a proxy could pass for the answer to a write; its ETag shows that (H2).
        by_fsspec: names of requests that fsspec is to do.
        resumes: whether every such store can begin a listing behind an object. If not, its listings must be in order.
        with_checksums: makes a client that sends a checksum with each object, for buckets that want one.
    """

    def __init__(
        self,
        client: Callable[[str], Any],
        fits: Callable[[str, bytes], bool],
        by_fsspec: tuple[str, ...] = (),
        resumes: bool = True,
        with_checksums: Callable[[str], Any] | None = None,
    ) -> None:
        self._client = client
        self._with_checksums = with_checksums
        self._resumes = resumes
        self._fits = fits
        self._clients: dict[str, Any] = {}
        self._marked: set[str] = set()
        self._full: set[str] = set()
        self.is_writing = True
        """False once an ETag was not as predicted. Then fsspec writes."""
        self.named: dict[str, Callable[..., Any]] = {
            "_read": self.read,
            "_read_range": self.read_range,
            "_stat": self.stat,
            "_write": self.write,
            "_create": self.create,
            "_page": self.page,
            "_glance": self.glance,
            "_delete": self.delete,
        }
        for name in by_fsspec:
            del self.named[name]

    def read(self, path: str) -> bytes:
        obs, client, key = self._at(path)
        return bytes(obs.get(client, key).bytes())

    def read_range(self, path: str, start: int, end: int) -> bytes:
        if end - start > SMALL_BYTES:
            raise NotExpressed("a large range")
        obs, client, key = self._at(path)
        return bytes(obs.get_range(client, key, start=start, end=end))

    def stat(self, path: str) -> tuple[int, int]:
        obs, client, key = self._at(path)
        found = obs.head(client, key)
        return int(found["size"]), int(found["last_modified"].timestamp() * 1000)

    def write(self, path: str, data: bytes) -> None:
        self._put(path, data, "overwrite")

    def create(self, path: str, data: bytes) -> None:
        self._put(path, data, "create")

    def page(self, prefix: str, after: str | None, is_checked: bool = True) -> tuple[list[Listed], str | None]:
        if prefix in self._marked or (after is not None and not isinstance(after, _Rest)):
            raise NotExpressed("a listing that fsspec began")
        obs, client, start = self._at(prefix)
        bucket, passed, stream = prefix.partition("/")[0], "", None
        if after is not None:
            passed = after.passed
            stream, after.stream = after.stream, None  # after a failure it would seem to be at its end
        if stream is None:
            offset = after.partition("/")[2] if after is not None else None
            stream = obs.list(client, start or None, offset=offset, chunk_size=PAGE)
            passed = after if after is not None and not self._resumes else ""
        found = [
            (f"{bucket}/{o['path']}", int(o["size"]), int(o["last_modified"].timestamp() * 1000), str(o["e_tag"] or ""))
            for o in next(stream, ())
        ]
        listed: list[Listed] = [one for one in found if one[0] > passed]
        if any(one[1] == 0 for one in listed):
            self._marked.add(prefix)
            raise NotExpressed("an empty object may be the mark of a folder, whose last slash obstore does not show")
        if not found and after is None and is_checked and not self._is_empty(prefix):
            raise NotExpressed("obstore takes any answer in XML for an empty listing, which must not be believed (H11)")
        if len(found) < PAGE:
            return listed, None
        rest = _Rest(max(found[-1][0], passed))
        rest.stream, rest.passed = stream, passed
        return listed, rest

    def _is_empty(self, prefix: str) -> bool:
        """Whether a listing of the folder around this one proves that it is empty: it names other objects, and all of them."""
        around = prefix.rstrip("/").rpartition("/")[0]
        if not around or around in self._full:
            return False
        obs, client, start = self._at(around)
        try:
            others = next(obs.list(client, start or None, chunk_size=PAGE), ())
        except Exception:  # not everybody who may list the one folder may list the other
            return False
        if len(others) == PAGE:
            self._full.add(around)  # it would take several requests: fsspec takes one
        within = prefix.partition("/")[2]
        return 0 < len(others) < PAGE and not any(str(o["path"]).startswith(within) for o in others)

    def glance(self, prefix: str, after: str | None) -> tuple[list[Listed], str | None]:
        return self.page(prefix, after, is_checked=False)

    def delete(self, paths: list[str]) -> None:
        if any(path.endswith("/") for path in paths):
            raise NotExpressed("the mark of a folder, whose last slash obstore would leave out")
        obs, client, _ = self._at(paths[0])
        obs.delete(client, [path.partition("/")[2] for path in paths])

    def _put(self, path: str, data: bytes, mode: str) -> None:
        if len(data) > SMALL_BYTES or not self.is_writing:
            raise NotExpressed("a large object, or a store with other ETags")
        obs, client, key = self._at(path)
        try:
            put = obs.put(client, key, data, mode=mode, use_multipart=False)
        except Exception as error:
            if self._with_checksums is None or not _wants_checksum(error):
                raise
            client = self._clients[path.partition("/")[0]] = self._with_checksums(path.partition("/")[0])
            put = obs.put(client, key, data, mode=mode, use_multipart=False)
        if not self._fits(str(put["e_tag"]).strip('"'), data):
            self.is_writing = False
            raise NoAnswer("the answer has an unexpected ETag, so that it may be about something else")

    def _at(self, path: str) -> tuple[Any, Any, str]:
        bucket, _, key = path.partition("/")
        client = self._clients.get(bucket)
        if client is None:
            client = self._clients.setdefault(bucket, self._client(bucket))
        return sys.modules["obstore"], client, key

    def run(self, seconds: float, name: str, *args: Any) -> Any:
        """Run a request to its end or its deadline; an interrupt ends the wait. Raises NotExpressed where fsspec is to do it."""
        outcome = _THREADS.submit(_translated, self.named[name], *args)
        try:
            return outcome.result(seconds)
        except NoResult:
            outcome.cancel()  # if it has not begun, it must not be sent later
            raise
        except (Exception, KeyboardInterrupt, SystemExit):
            outcome.cancel()
            raise
        except BaseException as error:
            raise ClientDied(f"{type(error).__name__}: {error}") from None


def _wants_checksum(error: Exception) -> bool:
    """Whether a bucket with Object Lock and a default retention has refused an object without a checksum. It wrote nothing."""
    found = meaning(error, "write")
    return isinstance(found, Refused) and found.code == "InvalidRequest" and "x-amz-checksum-" in str(found)


def _translated(request: Callable[..., T], *args: Any) -> T:
    try:
        return request(*args)
    except (NotExpressed, NoAnswer):
        raise
    except Exception as error:
        raise meaning(error, request.__name__) from None  # obstore's text repeats URLs, which may hold secrets (H19)


_STATUS = re.compile(r"Server returned [^:]{1,80}: (\d{3})\b[^:]{0,60}:? ?(.*)", re.DOTALL)
_CODE = re.compile(r"<Code>([^<]{1,100})</Code>")
_MESSAGE = re.compile(r"<Message>([^<]{1,500})</Message>")
_NOT_DELETED = re.compile(r"DeleteObjects request failed for key (.{1,1024}?): (.*) \(code: (\w+)\)", re.DOTALL)
_QUERY = re.compile(r"\?[^\s\"')]*")
_BARE_REDIRECT = "redirect without LOCATION"
_PAST_END = "Wanted range starting at"


def meaning(error: Exception, request: str) -> Exception:
    """The answer of the store that an error of obstore tells of, or the error that says what else happened. Its text
    begins with a sentence and ends with a dump for developers.
    """
    kind, text = type(error).__name__, str(error).partition("\n\nDebug source:")[0]
    if kind == "InvalidPathError" or (isinstance(error, ValueError) and "parse path" in text):
        return NotExpressed("a name that obstore does not accept")
    refused = _NOT_DELETED.search(text)
    if refused:
        if refused[3] == "NoSuchKey":
            return NotExpressed("a deletion of objects that are partly missing")
        return Refused(403, refused[3], f"{refused[1]}: {refused[2]}")  # the code decides, if it is known
    answered = _STATUS.search(text)
    if answered:
        code, message = _CODE.search(answered[2]), _MESSAGE.search(answered[2])
        said = message[1] if message else " ".join(_QUERY.sub("", answered[2]).split())[:300]
        return Refused(int(answered[1]), code[1] if code else None, said)
    if _PAST_END in text:
        return Refused(416, None, "the range starts past the end of the object")
    if _BARE_REDIRECT in text:
        return Refused(301, "PermanentRedirect", "the bucket is in another region")
    shown = " ".join(_QUERY.sub("", text).split())[:500]
    if kind == "UnauthenticatedError":
        return NoCredentials(shown)
    if kind == "AlreadyExistsError" and request == "create":
        return FileExistsError(shown)  # without a status it may be a conflict, so what is read back decides (H3)
    return NoAnswer(shown)


def settings(deadline_seconds: float) -> dict[str, Any]:
    """The settings of every client: each request is sent once, within limits that are wider than the deadlines from outside."""
    longest = max(4 * deadline_seconds, deadline_seconds + SMALL_BYTES / SLOWEST_BYTES_PER_SECOND)
    return {
        "retry_config": {"max_retries": 0, "retry_timeout": timedelta(seconds=longest)},
        "client_options": {
            "timeout": timedelta(seconds=longest + 1),
            "connect_timeout": timedelta(seconds=CONNECT_SECONDS),
            "allow_http": True,
            "pool_idle_timeout": timedelta(seconds=20),
        },
    }


def checked_choice(value: Any) -> str:
    """The value of storage option `transport`.

    >>> checked_choice("obstore")
    'obstore'
    """
    if value not in CHOICES:
        raise InvalidArgument(f"storage option 'transport' is {value!r}", next_step=f"use one of {', '.join(CHOICES)}")
    return str(value)


def require_obstore() -> None:
    """Raises NotExpressed where it was imported before a fork, so that it cannot be used here; Unsupported where it is
    not installed.
    """
    if _before_fork:
        raise NotExpressed(
            "this process was forked from one that had loaded obstore, whose threads do not survive a fork"
        )
    try:
        import obstore
        import obstore.store  # noqa: F401
    except ImportError as error:
        raise Unsupported(
            "the faster transport needs obstore, which is not installed", next_step="pip install 'lakelatch[fast]'"
        ) from error


def shared(identity: str, make: Callable[[], ObstoreRequests]) -> ObstoreRequests:
    """One object for each identity in this process, so that opening another table needs no new connections."""
    key = (this_process(), identity)
    with _LOCK:
        held = _SHARED.get(key)
        if held is None:
            while len(_SHARED) >= _CLIENTS_LIMIT:
                _SHARED.pop(next(iter(_SHARED)))
            held = _SHARED[key] = make()
        return held


def is_md5(tag: str, data: bytes) -> bool:
    """Whether an ETag is that of S3 for an object that was sent whole and is not encrypted with a key of one's own.

    >>> is_md5("d41d8cd98f00b204e9800998ecf8427e", b"")
    True
    """
    return tag == hashlib.md5(data, usedforsecurity=False).hexdigest()


def _forked() -> None:
    global _before_fork
    _before_fork = _before_fork or "obstore" in sys.modules
    _ANCESTORS.append(dict(_SHARED))


_before_fork = False
_ANCESTORS: list[dict[tuple[object, str], ObstoreRequests]] = []
"""Clients of the processes that this one was forked from. They are kept, since ending them could disturb these processes."""

_SHARED: dict[tuple[object, str], ObstoreRequests] = {}
_LOCK = forked_lock()
_THREADS = Threads(REQUESTS_AT_ONCE, "lakelatch-obstore", is_awaited=False)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
