"""toxiproxy: faults of the network itself (cut in the middle, black holes, slow lines), below HTTP.

Owns: running it and calling its HTTP interface. Must not know: pytest, stores.
It needs a binary that Go builds, so use it only for faults that `FaultProxy` does not have.
S3 clients send `Expect: 100-continue`, and the 25 bytes of `100 Continue` come before the answer. `limit_data` with
`bytes=26` downstream lets them pass and cuts the answer, so the object is stored but the client gets no answer. `bytes=0`
cuts before the client sends the body.
"""

from __future__ import annotations

import itertools
import json
import os
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from . import go_binaries, process


class ToxicProxy:
    """One proxied server.

    Attributes:
        url: the URL for clients.
    """

    def __init__(self, owner: Toxiproxy, name: str, url: str) -> None:
        self._owner = owner
        self._name = name
        self.url = url

    @contextmanager
    def toxic(
        self, kind: str, *, stream: str = "downstream", toxicity: float = 1.0, **attributes: Any
    ) -> Iterator[None]:
        """Inject a fault within the `with` block.

        Args:
            kind: `limit_data`, `reset_peer`, `timeout`, `latency`, `bandwidth`, `slicer`, `slow_close`.
            stream: `downstream` (server to client) or `upstream`.
            toxicity: share of connections, 0 to 1.
            attributes: the attributes of the kind, such as `bytes=26`, `latency=200` (ms), `timeout=0` (ms).
        """
        name = f"{kind}-{stream}"
        body = {"name": name, "type": kind, "stream": stream, "toxicity": toxicity, "attributes": attributes}
        self._owner.call("POST", f"/proxies/{self._name}/toxics", body)
        try:
            yield
        finally:
            self._owner.call("DELETE", f"/proxies/{self._name}/toxics/{name}")

    def enable(self, enabled: bool) -> None:
        """Accept or refuse connections."""
        self._owner.call("POST", f"/proxies/{self._name}", {"enabled": enabled})


class Toxiproxy:
    """A running toxiproxy."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._numbers = itertools.count(1)

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Send one request to the HTTP interface."""
        request = urllib.request.Request(
            self._url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"User-Agent": "lakelatch-tests", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=10) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def proxy(self, upstream_url: str) -> ToxicProxy:
        """A new proxy in front of `http://host:port`."""
        name = f"proxy-{next(self._numbers)}"
        upstream = upstream_url.split("//", 1)[1].rstrip("/")
        body = {"name": name, "listen": "127.0.0.1:0", "upstream": upstream, "enabled": True}
        return ToxicProxy(self, name, "http://" + self.call("POST", "/proxies", body)["listen"])


@contextmanager
def toxiproxy() -> Iterator[Toxiproxy]:
    """Run toxiproxy within the `with` block.

    Raises:
        RuntimeError: toxiproxy is not built, and Go is missing.
    """
    binary = go_binaries.find("toxiproxy")
    if binary is None:
        raise RuntimeError("toxiproxy is not built: install Go and run `make setup`")
    port = process.free_port()
    command = [str(binary), "-host", "127.0.0.1", "-port", str(port)]
    child = process.start(command, port, environment={**os.environ, "LOG_LEVEL": "error"})
    try:
        yield Toxiproxy(f"http://127.0.0.1:{port}")
    finally:
        process.stop(child)
