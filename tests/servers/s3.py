"""A real S3 server with an atomic `If-None-Match: *`: versitygw or MinIO if Go has built it, else moto with a lock.

Owns: starting a server, its credentials and buckets. Must not know: pytest, lakelatch.
Invariant: Of many simultaneous conditional PUTs on one key, exactly one succeeds. versitygw 1.8 and MinIO ensure this
themselves. moto checks the condition before it stores the object, so `moto_server.py` wraps these calls in a lock. The two
real servers cover both forms of the error answer: with `<Condition>` (versitygw) and without it (MinIO).
"""

from __future__ import annotations

import functools
import itertools
import os
import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import go_binaries, process

REGION = "us-east-1"
KINDS = ("versitygw", "minio", "moto")
GIVEN_URL = "LAKELATCH_S3_URL"
"""Environment variable with a running S3 server's URL; AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are its credentials."""


@dataclass(frozen=True)
class S3Server:
    """A running S3 server.

    Attributes:
        name: program and version, for reports.
        endpoint_url: `http://127.0.0.1:<port>`; path-style buckets.
        key, secret: the credentials.
    """

    name: str
    endpoint_url: str
    key: str = "testkey12345"
    secret: str = "testsecret12345"
    _run: str = field(default_factory=lambda: uuid.uuid4().hex[:6], repr=False, compare=False)
    _bucket_numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1), repr=False, compare=False)

    def storage_options(self, endpoint_url: str | None = None) -> dict[str, Any]:
        """Options for s3fs, through a proxy if its URL is given.

        Listings are never cached, because an old listing would show the commit machine an old table.
        """
        return {
            "key": self.key,
            "secret": self.secret,
            "endpoint_url": endpoint_url or self.endpoint_url,
            "client_kwargs": {"region_name": REGION},
            "use_listings_cache": False,
        }

    def environment(self, endpoint_url: str | None = None) -> dict[str, str]:
        """The same options as environment variables, for child processes and command lines."""
        return {
            "AWS_ACCESS_KEY_ID": self.key,
            "AWS_SECRET_ACCESS_KEY": self.secret,
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_ENDPOINT_URL": endpoint_url or self.endpoint_url,
            "AWS_ALLOW_HTTP": "true",
        }

    def client(self, endpoint_url: str | None = None) -> Any:
        """A boto3 client without retries, so that one call is one request."""
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
        """Create a bucket and return its name."""
        bucket = name or f"lake-{self._run}-{next(self._bucket_numbers)}"
        self.client().create_bucket(Bucket=bucket)
        return bucket

    def new_root(self) -> str:
        """Create a bucket and return its URL."""
        return f"s3://{self.create_bucket()}"


@contextmanager
def s3_server(kind: str | None = None) -> Iterator[S3Server]:
    """Run an S3 server within the `with` block.

    Args:
        kind: one of `KINDS`; by default the running server whose URL the environment gives, else the kind that
            `LAKELATCH_S3_SERVER` names, else versitygw if it is or can be built, else moto.

    Raises:
        RuntimeError: The requested server cannot be built, or does not start.
    """
    given = os.environ.get(GIVEN_URL)
    if kind is None and given:
        yield S3Server(f"given: {given}", given, os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"])
        return
    kind = kind or os.environ.get("LAKELATCH_S3_SERVER") or None
    if kind is not None and kind not in KINDS:
        raise ValueError(f"unknown S3 server {kind!r}: use one of {', '.join(KINDS)}")
    binary = None if kind == "moto" else go_binaries.find(kind or "versitygw")
    if kind not in (None, "moto") and binary is None:
        raise process.NotInstalled(f"{kind} is not built: install Go and run `make setup`")
    with tempfile.TemporaryDirectory(prefix="lakelatch-s3-") as folder:
        if binary is None:
            start = _start_moto
        else:
            start = functools.partial(_start_minio if kind == "minio" else _start_versitygw, binary, Path(folder))
        child, server = process.with_a_free_port(start)
        try:
            yield server
        finally:
            process.stop(child)


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


def _start_minio(binary: Path, folder: Path) -> Any:
    port, console = process.free_port(), process.free_port()
    server = S3Server(f"MinIO {go_binaries.MINIO[1].split('-')[1][:8]}", f"http://127.0.0.1:{port}")
    command = [str(binary), "server", "--quiet", "--address", f"127.0.0.1:{port}"]
    command += ["--console-address", f"127.0.0.1:{console}", str(folder / "objects")]
    settings = {"MINIO_ROOT_USER": server.key, "MINIO_ROOT_PASSWORD": server.secret, "MINIO_CI_CD": "1"}
    return process.start(command, port, environment={**os.environ, **settings}), server


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
