"""A real S3 server with an atomic `If-None-Match: *`: versitygw where Go built it, else moto with a lock.

Owns: starting one, its credentials, its buckets. Must not know: pytest, lakelatch.
Invariant: of many simultaneous conditional PUTs on one key exactly one is answered with success. versitygw 1.8 holds
that by itself; moto checks and then puts, so `moto_server.py` wraps those calls in a lock.
"""

from __future__ import annotations

import itertools
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import go_binaries, process

REGION = "us-east-1"
KINDS = ("versitygw", "moto")


@dataclass(frozen=True)
class S3Server:
    """A running S3 server.

    Attributes:
        name: program and version, for reports.
        endpoint_url: `http://127.0.0.1:<port>`; path-style buckets.
        key, secret: its credentials.
    """

    name: str
    endpoint_url: str
    key: str = "testkey12345"
    secret: str = "testsecret12345"
    _bucket_numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1), repr=False, compare=False)

    def storage_options(self, endpoint_url: str | None = None) -> dict[str, Any]:
        """Options for s3fs, through a proxy if its URL is given.

        Listings are never cached: a commit machine that trusts an old listing sees a table that is gone.
        """
        return {
            "key": self.key,
            "secret": self.secret,
            "endpoint_url": endpoint_url or self.endpoint_url,
            "client_kwargs": {"region_name": REGION},
            "use_listings_cache": False,
        }

    def environment(self, endpoint_url: str | None = None) -> dict[str, str]:
        """The same as environment variables, for child processes and command lines."""
        return {
            "AWS_ACCESS_KEY_ID": self.key,
            "AWS_SECRET_ACCESS_KEY": self.secret,
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_ENDPOINT_URL": endpoint_url or self.endpoint_url,
            "AWS_ALLOW_HTTP": "true",
        }

    def client(self, endpoint_url: str | None = None) -> Any:
        """A boto3 client, without retries: one call is one request."""
        import boto3
        from botocore.config import Config

        return boto3.client(
            "s3",
            endpoint_url=endpoint_url or self.endpoint_url,
            aws_access_key_id=self.key,
            aws_secret_access_key=self.secret,
            region_name=REGION,
            config=Config(retries={"total_max_attempts": 1}, s3={"addressing_style": "path"}),
        )

    def create_bucket(self, name: str | None = None) -> str:
        """A new bucket, and its name."""
        bucket = name or f"lake-{next(self._bucket_numbers)}"
        self.client().create_bucket(Bucket=bucket)
        return bucket


@contextmanager
def s3_server(kind: str | None = None) -> Iterator[S3Server]:
    """Runs an S3 server for as long as the block lasts.

    Args:
        kind: `versitygw` or `moto`; by default `LAKELATCH_S3_SERVER`, else versitygw where it is built or can be.

    Raises:
        RuntimeError: versitygw was asked for and cannot be built, or the server does not start.
    """
    kind = kind or os.environ.get("LAKELATCH_S3_SERVER") or None
    if kind is not None and kind not in KINDS:
        raise ValueError(f"no S3 server is called {kind!r}: say one of {', '.join(KINDS)}")
    binary = None if kind == "moto" else go_binaries.find("versitygw")
    if kind == "versitygw" and binary is None:
        raise RuntimeError("versitygw is not built: install Go and run `make setup`")
    with tempfile.TemporaryDirectory(prefix="lakelatch-s3-") as folder:
        start = _start_moto if binary is None else lambda: _start_versitygw(binary, Path(folder))
        child, server = _with_a_free_port(start)
        try:
            yield server
        finally:
            process.stop(child)


def _with_a_free_port(start: Any) -> Any:
    for attempt in (1, 2, 3):
        try:
            return start()
        except RuntimeError:  # somebody else took the port in between
            if attempt == 3:
                raise
    raise AssertionError("unreachable")


def _start_versitygw(binary: Path, folder: Path) -> Any:
    port = process.free_port()
    server = S3Server(f"versitygw {go_binaries.VERSITYGW[1]}", f"http://127.0.0.1:{port}")
    objects = folder / "objects"
    objects.mkdir(exist_ok=True)
    command = [str(binary), "--port", f"127.0.0.1:{port}", "--quiet", "posix"]
    if not _has_extended_attributes(objects):
        (folder / "metadata").mkdir(exist_ok=True)
        command += ["--sidecar", str(folder / "metadata")]
    secrets = {"ROOT_ACCESS_KEY": server.key, "ROOT_SECRET_KEY": server.secret}
    return process.start([*command, str(objects)], port, environment={**os.environ, **secrets}), server


def _has_extended_attributes(folder: Path) -> bool:
    try:
        os.setxattr(folder, "user.lakelatch", b"1")
    except (OSError, AttributeError):
        return False
    os.removexattr(folder, "user.lakelatch")
    return True


def _start_moto() -> Any:
    from importlib.metadata import version

    port = process.free_port()
    server = S3Server(f"moto {version('moto')} with a lock", f"http://127.0.0.1:{port}")
    script = Path(__file__).with_name("moto_server.py")
    return process.start([sys.executable, str(script), str(port)], port, environment=os.environ, timeout_s=60), server
