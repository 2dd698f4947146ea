"""A real server of Azure's Blob interface: Azurite, which npm installs into the cache.

Owns: installing and starting Azurite, its credentials and containers. Must not know: pytest, lakelatch.
Invariant: Of many simultaneous `Put Blob` requests with `If-None-Match: *` for one name, exactly one succeeds, because
Azurite checks and inserts in one step. It also checks signatures and shared access tokens.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from . import go_binaries, process

VERSION = "3.35.0"  # 3.37 needs Node 22
GIVEN_URL = "LAKELATCH_AZURE_URL"
"""Environment variable with the URL of an Azurite that is already running."""

ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The account and key of every Azurite; they are documented, so they are not a secret."""


@dataclass(frozen=True)
class AzureServer:
    """A running server.

    Attributes:
        name: program and version, for reports.
        endpoint_url: `http://127.0.0.1:<port>`.
    """

    name: str
    endpoint_url: str
    _run: str = field(default_factory=lambda: uuid.uuid4().hex[:6], repr=False, compare=False)
    _container_numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1), repr=False, compare=False)

    def connection_string(self, endpoint_url: str | None = None, credential: str = f"AccountKey={KEY}") -> str:
        """The connection string with which a client uses this server instead of Azure."""
        blob = f"BlobEndpoint={endpoint_url or self.endpoint_url}/{ACCOUNT}"
        return f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};{credential};{blob};"

    def storage_options(self, endpoint_url: str | None = None) -> dict[str, Any]:
        """Options for adlfs, through a proxy if its URL is given."""
        return {"account_name": ACCOUNT, "connection_string": self.connection_string(endpoint_url)}

    def shared_access_options(self, endpoint_url: str | None = None, permission: str = "rwdlac") -> dict[str, Any]:
        """Options with a shared access token that is valid for one hour, grants some permissions and signs no headers."""
        until = datetime.now(timezone.utc) + timedelta(hours=1)
        connection = self.shared_access_string(until, endpoint_url, permission)
        return {"account_name": ACCOUNT, "connection_string": connection}

    def shared_access_string(self, until: datetime, endpoint_url: str | None = None, permission: str = "rwdlac") -> str:
        """A connection string with a shared access token.

        Args:
            until: when the token ends, which it says in whole seconds.
            endpoint_url: the URL of a proxy, if there is one.
            permission: Azure's letters: r read, w write, d delete, l list, a add, c create.
        """
        from azure.storage.blob import AccountSasPermissions, ResourceTypes, generate_account_sas

        token = generate_account_sas(
            ACCOUNT,
            KEY,
            ResourceTypes(service=True, container=True, object=True),
            AccountSasPermissions.from_string(permission),  # type: ignore[no-untyped-call]
            until,
        )
        return self.connection_string(endpoint_url, f"SharedAccessSignature={token}")

    def create_container(self, name: str | None = None) -> str:
        """Create a container and return its name."""
        from azure.storage.blob import BlobServiceClient

        container = name or f"lake-{self._run}-{next(self._container_numbers)}"
        with BlobServiceClient.from_connection_string(self.connection_string()) as client:
            client.create_container(container)
        return container

    def new_root(self) -> str:
        """Create a container and return its URL."""
        return f"abfs://{self.create_container()}"


@contextmanager
def azure_server() -> Iterator[AzureServer]:
    """Run Azurite within the `with` block, or use the one whose URL the environment gives.

    Raises:
        process.NotInstalled: Node is missing, or npm cannot install Azurite.
    """
    given = os.environ.get(GIVEN_URL)
    if given:
        yield AzureServer(f"given: {given}", given)
        return
    node, script = shutil.which("node"), find()
    if node is None or script is None:
        raise process.NotInstalled("Azurite is not installed: install Node 18 or newer with npm, and run `make setup`")

    def start() -> Any:
        port = process.free_port()
        command = [node, str(script), "--blobHost", "127.0.0.1", "--blobPort", str(port)]
        # The client is newer than the emulator, which would reject its version of the interface.
        command += ["--inMemoryPersistence", "--silent", "--disableTelemetry", "--skipApiVersionCheck"]
        server = AzureServer(f"Azurite {VERSION}", f"http://127.0.0.1:{port}")
        return process.start(command, port, environment=os.environ), server

    child, server = process.with_a_free_port(start)
    try:
        yield server
    finally:
        process.stop(child)


def find() -> Path | None:
    """The script that starts Azurite's blob service, installed if missing; None if it cannot be installed."""
    folder = go_binaries.cache_folder() / f"azurite-{VERSION}"
    script = folder / "node_modules/azurite/dist/src/blob/main.js"
    if script.exists():
        return script
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        return None
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.with_name(f"azurite-{VERSION}.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two checkouts may install at the same time
        if not script.exists():
            _install(npm, folder)
    return script if script.exists() else None


def _install(npm: str, folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent) as place:
        command = [
            npm,
            "install",
            "--prefix",
            place,
            "--no-audit",
            "--no-fund",
            "--ignore-scripts",
            f"azurite@{VERSION}",
        ]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            print(f"npm install azurite@{VERSION} failed:\n{done.stderr[-2000:]}", file=sys.stderr)
            return
        Path(place).rename(folder)
        Path(place).mkdir()  # for the clean-up of the temporary folder


if __name__ == "__main__":
    print(f"azurite {VERSION}: {find() or 'not installed'}", flush=True)
