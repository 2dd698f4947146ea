"""Buckets with Object Lock and a default retention take no object without a checksum."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest

from lakelatch.backends.s3 import S3Store
from lakelatch.backends.store import AlreadyThere, Created

SAID = b"<Error><Code>InvalidRequest</Code><Message>Content-MD5 OR x-amz-checksum- HTTP header is required</Message></Error>"


class Locked(BaseHTTPRequestHandler):
    """Such a bucket, as far as single PUTs go."""

    objects: ClassVar[dict[str, bytes]] = {}
    refusals: ClassVar[list[str]] = []

    def do_PUT(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        if not any(name.lower().startswith(("x-amz-checksum-", "content-md5")) for name in self.headers):
            self.refusals.append(self.path)
            self.answer(400, SAID)
        elif self.headers["If-None-Match"] and self.path in self.objects:
            self.answer(412, b"<Error><Code>PreconditionFailed</Code></Error>")
        else:
            self.objects[self.path] = data
            self.answer(200, b"", hashlib.md5(data, usedforsecurity=False).hexdigest())

    def answer(self, status: int, body: bytes, tag: str = "") -> None:
        self.send_response(status)
        if tag:
            self.send_header("ETag", f'"{tag}"')
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *about: object) -> None:
        return


@pytest.fixture
def endpoint() -> Iterator[str]:
    Locked.objects, Locked.refusals = {}, []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Locked)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_a_bucket_that_wants_checksums_gets_them_after_one_refusal(endpoint: str) -> None:
    keys = {"key": "k", "secret": "s", "endpoint_url": endpoint, "client_kwargs": {"region_name": "us-east-1"}}
    store = S3Store("s3://locked/t", {**keys, "transport": "obstore"})
    assert store.put_if_absent("a", b"1") == Created()
    assert store.put_if_absent("a", b"2") == AlreadyThere()
    store.put("b", b"3")
    assert Locked.objects == {"/locked/t/a": b"1", "/locked/t/b": b"3"}
    assert Locked.refusals == ["/locked/t/a"] and store.transport.name == "obstore"
