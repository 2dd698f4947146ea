"""Credentials that end again and again while processes write: what a provider of each store says, and a server that believes
only the newest.

The new credentials are there for a moment before the old ones end, as with the providers of clouds. Requests that are on their
way, and clients that hold the old ones, are refused.
"""

from __future__ import annotations

import json
import os
import pickle
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
from servers import FaultProxy

import lakelatch as ll

from .writer import Orders

OVERLAP_S = 0.6
CONNECTION = "AZURE_STORAGE_CONNECTION_STRING"


@dataclass(frozen=True)
class Provider:
    """One way in which credentials reach a process.

    Attributes:
        dialect: the store's, as the proxy has it.
        token: the text by which the server knows the credentials of a number.
        say: writes them where a process looks for them; its arguments are the server, the proxy's URL, the file and the number.
        options: the storage options, which hold no secret; the arguments are the server, the proxy's URL and the file.
        environment: variables of the writers that never change; the argument is the file.
    """

    dialect: str
    token: Callable[[int], str]
    say: Callable[[Any, str, Path, int], None]
    options: Callable[[Any, str, Path], dict[str, Any]]
    environment: Callable[[Path], dict[str, str]] = lambda file: {}


def _replace(file: Path, text: str) -> None:
    new = file.with_suffix(".new")
    new.write_text(text)
    new.replace(file)


def _session(number: int) -> str:
    return f"session-{number:06}"


def _say_keys(server: Any, url: str, file: Path, number: int) -> None:
    keys = f"aws_access_key_id={server.key}\naws_secret_access_key={server.secret}\n"
    _replace(file, f"[default]\n{keys}aws_session_token={_session(number)}\n")


def _s3_options(server: Any, url: str, file: Path) -> dict[str, Any]:
    return {k: v for k, v in server.storage_options(url).items() if k not in ("key", "secret")}


def _until(number: int) -> datetime:
    return datetime(2100, 1, 1, tzinfo=timezone.utc) + timedelta(seconds=number)


def _say_string(server: Any, url: str, file: Path, number: int) -> None:
    _replace(file, server.shared_access_string(_until(number), url))


def _say_account(server: Any, url: str, file: Path, number: int) -> None:
    account = {"type": "service_account", "client_email": "jobs@test.example", "project_id": "test"}
    account |= {
        "private_key": _private_key(),
        "private_key_id": str(number),
        "token_uri": f"{url}/token/{_session(number)}",
    }
    _replace(file, json.dumps(account))


_KEYS: list[str] = []


def _private_key() -> str:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    if not _KEYS:
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        _KEYS.append(key.private_bytes(*form).decode())
    return _KEYS[0]


PROVIDERS = {
    "s3": Provider(
        "s3",
        _session,
        _say_keys,
        _s3_options,
        lambda file: {"AWS_SHARED_CREDENTIALS_FILE": str(file), "AWS_EC2_METADATA_DISABLED": "true"},
    ),
    "adls": Provider("azure", lambda number: f"se={_until(number):%Y-%m-%dT%H:%M:%SZ}", _say_string, lambda *_: {}),
    "gcs": Provider(
        "gcs",
        _session,
        _say_account,
        lambda server, url, file: {"endpoint_url": url, "token": str(file), "project": "test"},
    ),
}


class Ending:
    """The credentials of one table's writers. `renew` says new ones and lets the old ones end."""

    def __init__(self, provider: Provider, server: Any, file: Path) -> None:
        self.provider, self.server, self.file, self.number = provider, server, file, 0
        self.proxy = FaultProxy(server.endpoint_url, dialect=provider.dialect, tokens=[provider.token(0)])

    def __enter__(self) -> Ending:
        self.proxy.__enter__()
        self.provider.say(self.server, self.proxy.url, self.file, 0)
        return self

    def __exit__(self, *error: object) -> None:
        self.proxy.__exit__(*error)

    def renew(self) -> None:
        token, was = self.provider.token, self.number
        self.number += 1
        self.proxy.set(tokens=[token(was), token(self.number)])
        self.provider.say(self.server, self.proxy.url, self.file, self.number)
        time.sleep(OVERLAP_S)
        self.proxy.set(tokens=[token(self.number)])

    def refused(self) -> int:
        """How many requests were refused since this was asked last; the log is emptied, which a long run would fill."""
        found = sum(request.fault == "stranger" for request in self.proxy.requests)
        self.proxy.clear()
        return found


@dataclass(frozen=True)
class Renewed:
    """What a writer does first in its process, and then for each commit (see `Orders.write`).

    Attributes:
        environment: variables that it sets.
        string: the file with Azure's connection string, which a thread copies into the environment; None for other stores.
    """

    environment: dict[str, str]
    string: Path | None

    def enter(self) -> None:
        os.environ.update(self.environment)
        if self.string is not None:
            os.environ[CONNECTION] = self.string.read_text()
            threading.Thread(target=self._copy, args=(self.string,), daemon=True).start()

    def _copy(self, file: Path) -> None:
        while True:
            time.sleep(0.05)
            os.environ[CONNECTION] = file.read_text()


@dataclass(frozen=True)
class RenewedOrders(Orders):
    """The orders of a writer whose credentials end."""

    provided: Renewed | None = None


def run(orders: RenewedOrders) -> None:
    """The main function of the process."""
    from . import writer

    assert orders.provided is not None
    orders.provided.enter()
    writer.run(orders)


def append_and_look(table: ll.Table, name: str, number: int) -> ll.Receipt:
    """One row, and now and then a table that is opened anew, and a read of it all."""
    if number % 10 == 9:
        table = pickle.loads(pickle.dumps(table))
        assert table.count(where=f"writer = '{name}'") == number
    rows = pa.table({"writer": [name], "number": pa.array([number], pa.int32())})
    return table.append(rows, commit_user=name, identifier=number)


@contextmanager
def renewed_every(endings: list[Ending], seconds: float, refused: list[int]) -> Iterator[None]:
    """Renew the credentials of all within the block; the counts of refused requests go to the list."""
    over = threading.Event()

    def renew() -> None:
        while not over.wait(seconds):
            for at, ending in enumerate(endings):
                ending.renew()
                refused[at] += ending.refused()

    thread = threading.Thread(target=renew)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        for at, ending in enumerate(endings):
            refused[at] += ending.refused()
