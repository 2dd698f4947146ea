"""An object store as a value: the effect of each request, and of each fault on a request.

Owns: `Request`, `Reply`, the pure functions `answer` and `strike`, and `SimulatedStore`: the whole shipped object-store adapter
(retries, classification of errors) over a simulated wire. Must not know: tables, schedules, actors.
Source: format/stores §1, architecture §4; H1–H4, H9. Invariants: `answer` and `strike` do not change their arguments. A fault
that is described as "applied" has the same effect as the request without the fault.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import tenacity

from ...backends.files.object_store import FsspecStore
from ...backends.files.upload import Multipart
from ...backends.requests.answers import COMMON_STATUSES, Answer, AnswerTable
from ...backends.requests.patience import Asks, Patience
from ...backends.store import Capabilities, Listed
from ...coordinator.surroundings import Surroundings
from ...core.errors import Unsupported

T = TypeVar("T")

Objects: TypeAlias = Mapping[str, bytes]

_URL = "sim://lab/"
OK, NOT_FOUND, EXISTS, SILENCE = 200, 404, 412, 0
HELD = "\0held"
"""No key of an object. What it holds is the key of the one object that the store never deletes."""
REFUSED = "refused for ever: "
"""The fault of a deletion, followed by the key that the store does not delete from then on."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request on the wire.

    Attributes:
        operation: create, read, write, delete, list or drop (which removes everything below a prefix at once, like
            renaming a folder).
        key: of the object, or the prefix of a list or drop; a delete has `keys`.
    """

    operation: str
    key: str
    data: bytes = b""
    keys: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        return f"{self.operation} {self.key or ', '.join(self.keys)}"


@dataclass(frozen=True, slots=True)
class Reply:
    """The reply to a request, with the HTTP status (0 for no answer), the bytes of a read or (key, size) pairs of a
    list, and the seconds that passed for the actor.
    """

    status: int
    body: Any = None
    nap_s: float = 0.0


def answer(objects: Objects, request: Request) -> tuple[Objects, Reply]:
    """The behaviour of a store without faults.

    >>> answer({}, Request("create", "a", b"x"))
    ({'a': b'x'}, Reply(status=200, body=None, nap_s=0.0))
    >>> answer({"a": b"x"}, Request("create", "a", b"y"))[1].status
    412
    """
    key = request.key
    match request.operation:
        case "create" if key in objects:
            return objects, Reply(EXISTS)
        case "create" | "write":
            return {**objects, key: request.data}, Reply(OK)
        case "read":
            return objects, Reply(OK, objects[key]) if key in objects else Reply(NOT_FOUND)
        case "delete":
            gone = set(request.keys)
            held = objects.get(HELD, b"").decode()
            left = {k: v for k, v in objects.items() if k not in gone or k == held}
            return left, Reply(403 if held in gone and held in objects else OK)
        case "drop":
            return {k: v for k, v in objects.items() if not k.startswith(key)}, Reply(OK)
        case "list":
            return objects, Reply(
                OK, tuple(sorted((k, len(v)) for k, v in objects.items() if k.startswith(key) and k != HELD))
            )
    raise ValueError(f"no operation is called {request.operation!r}")


NAP_S = 3_600.0

FAULTS: Mapping[str, tuple[str, ...]] = {
    "create": (
        "crash before",
        "crash after",
        "answer lost",
        "cut",
        "lands late",
        "409",
        "409, and lands late",
        "503",
        "503 though applied",
        "403",
        "an hour passes",
    ),
    "write": ("crash before", "crash after", "answer lost", "lands late", "403", "an hour passes"),
    "read": ("crash before", "403", "cut"),
    "list": ("crash before", "403", "misses the newest", "misses the newest two"),
    "delete": ("crash before", "crash after", "403"),
    "drop": ("crash before", "crash after"),
}
HINT_FAULTS = ("garbage", "stale low", "stale high", "gone")


@dataclass(frozen=True, slots=True)
class Struck:
    """The effect of a request under a fault; without a reply the actor died. `in_flight` is applied later."""

    objects: Objects
    reply: Reply | None
    in_flight: Request | None = None


def faults_of(request: Request) -> tuple[str, ...]:
    """The faults that can strike a request, apart from refusals of a deletion, which last."""
    hint = request.operation == "read" and request.key.rpartition("/")[2] in ("LATEST", "EARLIEST")
    return FAULTS[request.operation] + (HINT_FAULTS if hint else ())


def strike(objects: Objects, request: Request, fault: str) -> Struck:
    if fault.startswith(REFUSED):
        return Struck(*answer({**objects, HELD: fault.removeprefix(REFUSED).encode()}, request))
    applied, reply = answer(objects, request)
    match fault:
        case "":
            return Struck(applied, reply)
        case "crash before":
            return Struck(objects, None)
        case "crash after":
            return Struck(applied, None)
        case "answer lost":
            return Struck(applied, Reply(SILENCE))
        case "cut":
            return Struck(objects, Reply(SILENCE))
        case "lands late":
            return Struck(objects, Reply(SILENCE), request)
        case "503 though applied":
            return Struck(applied, Reply(503))
        case "409, and lands late":
            return Struck(objects, Reply(409), request)
        case "403" | "409" | "503":
            return Struck(objects, Reply(int(fault)))
        case "an hour passes":
            return Struck(applied, Reply(reply.status, reply.body, NAP_S))
        case "misses the newest" | "misses the newest two":
            return Struck(objects, Reply(OK, _without_newest(reply.body, 1 if fault.endswith("newest") else 2)))
        case "garbage" | "stale low" | "stale high":
            return Struck(objects, Reply(OK, {"garbage": b"\xffx", "stale low": b"1", "stale high": b"99"}[fault]))
        case "gone":
            return Struck(objects, Reply(NOT_FOUND))
    raise ValueError(f"no fault is called {fault!r}")


def _without_newest(listed: tuple[tuple[str, int], ...], count: int) -> tuple[tuple[str, int], ...]:
    numbered = [(int(n), k) for k, _ in listed for n in [k.rpartition("-")[2]] if n.isdigit()]
    hidden = {key for _, key in sorted(numbered)[-count:]}
    return tuple(line for line in listed if line[0] not in hidden)


class WireError(Exception):
    """An unsuccessful answer, as a client raises it."""

    def __init__(self, status: int) -> None:
        super().__init__(f"HTTP {status}")
        self.status, self.code = status, None


ANSWERS = AnswerTable(statuses=COMMON_STATUSES, carriers={"WireError": ("status", "code")})


class SimulatedStore(FsspecStore):
    """The shipped adapter over a simulated wire.

    Args:
        wire: takes a request and returns its reply. An error that it raises ends the actor.
        around: takes the waits between sends.
        sends: how often the adapter sends a request.
        folder: of a table beside the one at the root.

    >>> held: dict[str, bytes] = {}
    >>> def wire(request: Request) -> Reply:
    ...     after, reply = answer(dict(held), request)
    ...     held.clear(); held.update(after)
    ...     return reply
    >>> store = SimulatedStore(wire, Surroundings())
    >>> store.put_if_absent("a", b"1"), store.put_if_absent("a", b"2"), store.get("a")
    (Created(), AlreadyThere(), b'1')
    """

    def __init__(
        self, wire: Callable[[Request], Reply], around: Surroundings, sends: int = 2, folder: str = ""
    ) -> None:
        super().__init__(f"{_URL}{folder}")
        self._wire = wire
        self._patience = _VirtualPatience(sends=sends)
        self._patience.bind(around)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities("If-None-Match: *", None, "simulated")

    def _root_of(self, url: str) -> str:
        return url.removeprefix(_URL).strip("/")

    def _check_options(self) -> None:
        return

    async def _connect(self) -> Any:
        return self

    def _filesystem(self) -> Any:
        return self

    def _bounded(self, seconds: float, call: Callable[..., Awaitable[T]], *args: Any) -> T:
        running: Any = call(self, *args)
        try:
            running.send(None)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]
        raise AssertionError("a simulated request waited")

    def _classify(self, error: BaseException) -> Answer:
        return ANSWERS.classify(error)

    def _multipart(self, path: str) -> Multipart:
        raise Unsupported("the simulated store takes small objects only")

    def _each(self, ask: Callable[[str], T], paths: Sequence[str]) -> Iterable[T]:
        """An actor has one thread, so its requests come one after the other."""
        return [ask(path) for path in paths]

    async def _create(self, fs: Any, path: str, data: bytes) -> None:
        self._exchange(Request("create", path, data))

    async def _read(self, fs: Any, path: str) -> bytes:
        return bytes(self._exchange(Request("read", path)))

    async def _read_range(self, fs: Any, path: str, start: int, end: int) -> bytes:
        return bytes(self._exchange(Request("read", path)))[start:end]

    async def _stat(self, fs: Any, path: str) -> tuple[int, int]:
        return len(self._exchange(Request("read", path))), 0

    async def _write(self, fs: Any, path: str, data: bytes) -> None:
        self._exchange(Request("write", path, data))

    async def _delete(self, fs: Any, paths: list[str]) -> None:
        self._exchange(Request("delete", "", keys=tuple(paths)))

    async def _page(self, fs: Any, prefix: str, after: str | None) -> tuple[list[Listed], str | None]:
        return [(key, size, 0, "") for key, size in self._exchange(Request("list", prefix))], None

    def _exchange(self, request: Request) -> Any:
        reply = self._wire(request)
        if reply.status == OK:
            return reply.body
        if reply.status == SILENCE:
            raise TimeoutError("no answer")
        raise WireError(reply.status)


class _VirtualPatience(Patience):
    """The shipped policy with virtual waits. An error that ends an actor is not an error of a store, and is never retried."""

    def bind(self, around: Surroundings) -> None:
        object.__setattr__(self, "around", around)

    def retrying(self, again: Asks, within: float = float("inf"), *about: Any, **more: Any) -> Any:
        return lambda call, *args: self._sent(again, within, call, *args)

    def _sent(self, again: Callable[[BaseException], bool], within: float, call: Callable[..., T], *args: Any) -> T:
        failures: list[Exception] = []
        try:
            return call(*args)
        except Exception as error:
            failures.append(error)

        def once_more() -> T:
            if failures:
                raise failures.pop()
            return call(*args)

        around: Surroundings = self.around  # type: ignore[attr-defined]
        policy = super().retrying(lambda error: isinstance(error, Exception) and again(error), within)
        wait = tenacity.wait_exponential(self.first_wait_seconds, self.longest_wait_seconds)
        return policy.copy(sleep=around.sleep, wait=lambda state: around.uniform(0, wait(state)))(once_more)
