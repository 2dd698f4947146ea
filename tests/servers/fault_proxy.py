"""An HTTP proxy that injects faults and logs requests: lost answers, throttling, latency, late landings.

Owns: the proxy process, its faults, its log of requests. Must not know: what the requests mean.
Invariants:
* A request is in the log before its answer leaves. If the client has received the answer, `requests` shows it as ended.
* Random faults depend only on (seed, method, path, number of requests for that path), so a seed gives the same faults
  in any order of requests.
* The Host header is passed on as the client sent it, so a signature made for the proxy's URL stays valid at the server.

The proxy itself (asyncio, `fault_proxy_server.py`) runs in a separate process, so that it takes no time from the client.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any


@dataclass(frozen=True)
class Request:
    """A request that reached the proxy.

    Attributes:
        method, path, query: the parts of the request line; the path is unquoted and begins with the bucket.
        start_s, end_s: when its head arrived and when the last byte of the answer left, seconds on this machine's
            monotonic clock; `end_s` is None while it is under way.
        status: the status that the client received; 0 if the connection was cut.
        upstream_status: the status that the server sent; 0 if the server did not get the request.
        conditional: whether the request had `If-None-Match` or `If-Match`.
        fault: the injected fault, or "".
        sent_bytes, received_bytes: the lengths of the bodies of the request and the answer.
    """

    method: str
    path: str
    query: str
    start_s: float
    end_s: float | None
    status: int
    upstream_status: int
    conditional: bool
    fault: str
    sent_bytes: int
    received_bytes: int


FAULTS = (
    "drop_answer",
    "drop_request",
    "cut_answer",
    "throttle",
    "throttle_after",
    "conflict",
    "refuse",
    "land_late",
    "hang",
)
"""The faults.

* drop_answer: The server applies the request, and the connection is cut before the answer.
* drop_request: The connection is cut before the server gets the request.
* cut_answer: The server applies the request, and the connection ends within the body of the answer.
* throttle: The proxy answers 503 SlowDown, in the dialect of the store, and the server does not get the request.
* throttle_after: The server applies the request, and the client receives 503.
* conflict: The proxy answers 409 ConditionalRequestConflict, and the server does not get the request.
* refuse: The proxy answers with the status and code of the plan, and the server does not get the request.
* land_late: The connection is cut at once, and the server gets the request `delay_ms` later.
* hang: The server gets the request `delay_ms` later, and the client never gets an answer.
"""


class FaultProxy:
    """A proxy that runs within its `with` block. Clients connect to `url`.

    Args:
        upstream_url: `http://host:port` of the real server.
        drop_put_answers: share of PUTs (0 to 1) whose answer is dropped after the server applied them. The POSTs of uploads
            to GCS count as PUTs.
        throttle_puts: share of PUTs that are answered 503 SlowDown instead.
        latency_ms: latency added to every request, half before the server gets it and half after its answer.
        strip_conditions: forward without `If-None-Match` and `If-Match`, like a store that ignores conditions. This
            invalidates the signature, so the server must not check signatures (moto does not).
        seed: the seed of the random faults.
        dialect: the format of error answers: `s3`, `gcs` or `azure`.
        tokens: if given, a request in which none of these texts stands (in a header, or in the URL) is refused as one with
            credentials that have ended. `/token/<text>` hands one out, as the server does that a service account's file names.
        answer: if given, what every request is answered: the status, the code, what is said for people, and the headers.
        rest_s: a name takes no write or deletion so soon after the one before, as on GCS within a second.
        storms: if given, every request is refused with a status for so many seconds, again after so many: (5, 40, 503).

    Example:
        with s3_server() as s3, FaultProxy(s3.endpoint_url, drop_put_answers=0.1, latency_ms=20, seed=7) as proxy:
            ...
            assert sequential_depth(proxy.requests) == 3
    """

    def __init__(
        self,
        upstream_url: str,
        *,
        drop_put_answers: float = 0.0,
        throttle_puts: float = 0.0,
        latency_ms: float = 0.0,
        strip_conditions: bool = False,
        seed: int = 0,
        dialect: str = "s3",
        tokens: list[str] | None = None,
        answer: tuple[int, str, str, dict[str, str]] | None = None,
        rest_s: float = 0.0,
        storms: tuple[float, float, int] | None = None,
    ) -> None:
        self._settings: dict[str, Any] = {
            "upstream": upstream_url,
            "drop_put_answers": drop_put_answers,
            "throttle_puts": throttle_puts,
            "latency_ms": latency_ms,
            "strip_conditions": strip_conditions,
            "seed": seed,
            "dialect": dialect,
            "tokens": tokens,
            "answer": answer,
            "rest_s": rest_s,
            "storms": storms,
        }
        self._lock = threading.Lock()
        self._child: subprocess.Popen[str] | None = None
        self.url = ""

    def __enter__(self) -> FaultProxy:
        script = str(Path(__file__).with_name("fault_proxy_server.py"))
        self._child = subprocess.Popen(
            [sys.executable, script, json.dumps(self._settings)],
            env=dict(os.environ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._child.stdout is not None
        first_line = self._child.stdout.readline()
        if not first_line:
            raise RuntimeError("the fault proxy did not start")
        self.url = f"http://127.0.0.1:{json.loads(first_line)['port']}"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop the proxy and cut open connections."""
        child, self._child = self._child, None
        if child is not None:
            assert child.stdin is not None
            assert child.stdout is not None
            child.stdin.close()
            child.stdout.close()
            child.terminate()
            child.wait(10)

    def _ask(self, **message: Any) -> Any:
        with self._lock:
            if self._child is None:
                raise RuntimeError("the fault proxy is not running")
            assert self._child.stdin is not None
            assert self._child.stdout is not None
            self._child.stdin.write(json.dumps(message) + "\n")
            self._child.stdin.flush()
            answer = self._child.stdout.readline()
        if not answer:
            raise RuntimeError("the fault proxy died")
        return json.loads(answer)

    @property
    def requests(self) -> list[Request]:
        """Every request since the start or the last `clear()`, in the order in which they arrived."""
        return [Request(**entry) for entry in self._ask(do="requests")]

    def clear(self) -> None:
        """Empty the log."""
        self._ask(do="clear")

    def set(self, **settings: Any) -> None:
        """Change settings of the running proxy, by the keywords of the constructor."""
        unknown = settings.keys() - self._settings.keys()
        if unknown:
            raise ValueError(f"the fault proxy does not have the settings {sorted(unknown)}")
        self._ask(do="set", settings=settings)

    def plan(
        self,
        fault: str,
        *,
        method: str = "PUT",
        path: str = "",
        times: int = 1,
        skip: int = 0,
        delay_ms: float = 0.0,
        status: int = 503,
        code: str = "",
    ) -> None:
        """Plan a fault for the next matching requests, which takes precedence over the random shares.

        Args:
            fault: one of `FAULTS`.
            method: the HTTP method to match; `WRITE` means a PUT, or the POST of an upload to GCS.
            path: a regular expression to search in the unquoted path, such as r"/snapshot/snapshot-2$". For an upload to GCS,
                the path ends with the name of the object.
            times: the number of requests that get the fault.
            skip: the number of matching requests that pass first.
            delay_ms: for `land_late` and `hang`.
            status, code: for `refuse`.
        """
        if fault not in FAULTS:
            raise ValueError(f"unknown fault {fault!r}: use one of {', '.join(FAULTS)}")
        order = {"fault": fault, "method": method, "path": path, "times": times, "skip": skip}
        self._ask(do="plan", **order, delay_ms=delay_ms, status=status, code=code)


def sequential_depth(requests: Iterable[Request]) -> int:
    """The number of sequential round trips: the longest chain of requests that each began after the previous one ended.

    Requests that overlap count once. Requests without an answer yet are not counted.
    """
    depth, last_end = 0, float("-inf")
    for request in sorted((r for r in requests if r.end_s is not None), key=lambda r: r.end_s or 0.0):
        if request.start_s >= last_end:
            depth, last_end = depth + 1, request.end_s or 0.0
    return depth
