"""A real server of Google Cloud Storage's JSON interface: fake-gcs-server, which Go builds.

Owns: starting a server, its buckets. Must not know: pytest, lakelatch.
Invariant: Of many simultaneous uploads with `ifGenerationMatch=0` to one name, exactly one succeeds, in all three forms of
an upload. The server keeps objects in memory, and does not check credentials.
"""

from __future__ import annotations

import itertools
import json
import os
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from . import go_binaries, process

GIVEN_URL = "LAKELATCH_GCS_URL"
"""Environment variable with the URL of a server that is already running."""


@dataclass(frozen=True)
class GcsServer:
    """A running server.

    Attributes:
        name: program and version, for reports.
        endpoint_url: `http://127.0.0.1:<port>`.
    """

    name: str
    endpoint_url: str
    _run: str = field(default_factory=lambda: uuid.uuid4().hex[:6], repr=False, compare=False)
    _bucket_numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1), repr=False, compare=False)

    def storage_options(self, endpoint_url: str | None = None) -> dict[str, Any]:
        """Options for gcsfs, through a proxy if its URL is given."""
        return {"endpoint_url": endpoint_url or self.endpoint_url, "token": "anon", "project": "test"}

    def create_bucket(self, name: str | None = None) -> str:
        """Create a bucket and return its name."""
        bucket = name or f"lake-{self._run}-{next(self._bucket_numbers)}"
        request = urllib.request.Request(
            f"{self.endpoint_url}/storage/v1/b?project=test",
            data=json.dumps({"name": bucket}).encode(),
            headers={"Content-Type": "application/json"},
        )
        urllib.request.urlopen(request, timeout=10).close()
        return bucket

    def new_root(self) -> str:
        """Create a bucket and return its URL."""
        return f"gs://{self.create_bucket()}"


@contextmanager
def gcs_server() -> Iterator[GcsServer]:
    """Run a server within the `with` block, or use the one whose URL the environment gives.

    Raises:
        process.NotInstalled: The server is not built, and Go is missing.
    """
    given = os.environ.get(GIVEN_URL)
    if given:
        yield GcsServer(f"given: {given}", given)
        return
    binary = go_binaries.find("fake-gcs-server")
    if binary is None:
        raise process.NotInstalled("fake-gcs-server is not built: install Go and run `make setup`")

    def start() -> Any:
        port = process.free_port()
        url = f"http://127.0.0.1:{port}"
        command = [str(binary), "-scheme", "http", "-host", "127.0.0.1", "-port", str(port), "-backend", "memory"]
        command += ["-public-host", f"127.0.0.1:{port}", "-external-url", url, "-log-level", "error"]
        name = f"fake-gcs-server {go_binaries.FAKE_GCS_SERVER[1]}"
        return process.start(command, port, environment=os.environ), GcsServer(name, url)

    child, server = process.with_a_free_port(start)
    try:
        yield server
    finally:
        process.stop(child)
