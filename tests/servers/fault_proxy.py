"""An HTTP proxy that lies in chosen ways and counts: lost answers, throttling, latency, late landings.

Owns: the proxy process, its faults, its log of requests. Must not know: what the requests mean.
Invariants:
* A request is in the log before its answer leaves; what the client has seen answered, `requests` shows as ended.
* Random faults depend on (seed, method, path, how often that path was asked) alone: a seed replays, whatever the order.
* The Host header goes through as the client sent it, so a signature made for the proxy's URL stays valid behind it.

The proxy itself (asyncio, `fault_proxy_server.py`) runs in a process of its own: its time is not the client's.
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
        method, path, query: as on the request line; the path is unquoted and begins with the bucket.
        start_s, end_s: when its head arrived and when the last byte of the answer left, seconds on this machine's
            monotonic clock; `end_s` is None while it is under way.
        status: what the client was told; 0 where the connection was cut.
        upstream_status: what the server said; 0 where it was never asked.
        conditional: it carried `If-None-Match` or `If-Match`.
        fault: the fault that was applied, or "".
        sent_bytes, received_bytes: length of the request's and the answer's body.
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
"""What can happen to a request.

drop_answer: the server does it, the connection is cut before the answer. drop_request: cut before the server sees it.
cut_answer: the server does it, the connection ends inside the answer's body. throttle: 503 SlowDown instead of doing it
(in the words of the dialect). throttle_after: the server does it, the client is told 503. conflict: 409
ConditionalRequestConflict instead of doing it. refuse: the status and code that the plan names, instead of doing it.
land_late: the connection is cut at once, the server gets the request `delay_ms` later. hang: the server gets the request
`delay_ms` later, and nobody is ever answered.
"""


class FaultProxy:
    """Runs while its block lasts; `url` is what clients are given.

    Args:
        upstream_url: `http://host:port` of the real server.
        drop_put_answers: share of PUTs (0 to 1) whose answer is dropped after the server did them; GCS's uploads are POSTs,
            and count.
        throttle_puts: share of PUTs that are answered 503 SlowDown instead.
        latency_ms: added to every request: half on the way there, half on the way back.
        strip_conditions: forward without `If-None-Match` and `If-Match`: a store that ignores conditions. The signature
            breaks with it, so the server behind must be one that does not check signatures (moto).
        seed: of the random faults.
        dialect: in whose words the proxy refuses: `s3`, `gcs` or `azure`.

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
    ) -> None:
        self._settings: dict[str, Any] = {
            "upstream": upstream_url,
            "drop_put_answers": drop_put_answers,
            "throttle_puts": throttle_puts,
            "latency_ms": latency_ms,
            "strip_conditions": strip_conditions,
            "seed": seed,
            "dialect": dialect,
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
        """Ends the proxy; open connections are cut."""
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
        """Empties the log."""
        self._ask(do="clear")

    def set(self, **settings: Any) -> None:
        """Changes settings while it runs: the constructor's keywords."""
        unknown = settings.keys() - self._settings.keys()
        if unknown:
            raise ValueError(f"the fault proxy has no setting {sorted(unknown)}")
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
        """Plans a fault for the next matching requests, whatever the shares say.

        Args:
            fault: one of `FAULTS`.
            method: the HTTP method that it waits for; `WRITE` is a PUT, or GCS's POST of an upload.
            path: a regular expression that is searched in the unquoted path, such as r"/snapshot/snapshot-2$"; an upload
                to GCS has its object's name at the end of it.
            times: how many requests it hits.
            skip: how many matching requests pass first.
            delay_ms: for `land_late` and `hang`.
            status, code: for `refuse`.
        """
        if fault not in FAULTS:
            raise ValueError(f"no fault is called {fault!r}: say one of {', '.join(FAULTS)}")
        order = {"fault": fault, "method": method, "path": path, "times": times, "skip": skip}
        self._ask(do="plan", **order, delay_ms=delay_ms, status=status, code=code)


def sequential_depth(requests: Iterable[Request]) -> int:
    """Round trips that were waited for: the longest chain of requests, each begun after the one before had ended.

    Requests that overlap count once. Requests under way are left out.
    """
    depth, last_end = 0, float("-inf")
    for request in sorted((r for r in requests if r.end_s is not None), key=lambda r: r.end_s or 0.0):
        if request.start_s >= last_end:
            depth, last_end = depth + 1, request.end_s or 0.0
    return depth
