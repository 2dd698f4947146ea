"""What goes wrong before a table's first file is sent is *not committed*, and the error says what to check.

Real servers and real clients. Everything here used to be reported as *unknown* by `create_table`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from fragile import Fragile
from servers.hdfs import HdfsServer

import lakelatch as ll
from lakelatch.backends.files.object_store import FsspecStore
from lakelatch.backends.store import Unknown
from lakelatch.cli.frame.exit_codes import UNAVAILABLE, exit_code_of
from lakelatch.cli.main import main
from lakelatch.coordinator.schema_commit import create_first_schema, create_schema
from lakelatch.core.errors import OutcomeUnknown, StoreUnavailable

from .conftest import QUICK, Faulty

SCHEMA = pa.schema([("v", pa.int64())])
CONTAINER = "check that the bucket or container in the URL exists and is spelled correctly"
CREDENTIALS = "credentials"
NETWORK = "check the network and the endpoint"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clients' requests are repeated as often, with shorter waits between them."""
    begin = FsspecStore.__init__

    def made(self: FsspecStore, url: str, options: Any = None, patience: Any = None) -> None:
        begin(self, url, options, patience or QUICK)

    monkeypatch.setattr(FsspecStore, "__init__", made)


def refused(url: str, options: dict[str, Any]) -> StoreUnavailable:
    """The error of `create_table`, which must say that nothing was created."""
    with pytest.raises(StoreUnavailable, match=r"not created|no table was created") as caught:
        ll.create_table(url, SCHEMA, storage_options=options)
    assert exit_code_of(caught.value) == UNAVAILABLE
    assert url in caught.value.message
    return caught.value


def endpoint_of(options: dict[str, Any]) -> str:
    """The server's own endpoint, without the proxy."""
    text = options.get("endpoint_url") or options["connection_string"].partition("BlobEndpoint=")[2]
    return "/".join(text.split("/")[:3])


def elsewhere(options: dict[str, Any], endpoint: str) -> dict[str, Any]:
    """The options with another endpoint."""
    if "connection_string" in options:
        key = "".join(part for part in options["connection_string"].split(";") if part.startswith("AccountKey="))
        name = options["account_name"]
        text = f"DefaultEndpointsProtocol=http;AccountName={name};{key};BlobEndpoint={endpoint}/{name};"
        return {**options, "connection_string": text}
    return {**options, "endpoint_url": endpoint}


def test_a_missing_bucket(faulty: Faulty) -> None:
    error = refused(f"{faulty.url}-is-not-there/table", faulty.options)
    assert error.next_step == CONTAINER


ENDPOINTS: dict[str, Callable[[Faulty], str]] = {
    "refused connection": lambda faulty: "http://127.0.0.1:9",
    "unknown host": lambda faulty: "http://no-such-host.invalid",
    "no TLS there": lambda faulty: endpoint_of(faulty.past_options).replace("http://", "https://"),
}


@pytest.mark.parametrize("endpoint", ENDPOINTS.values(), ids=ENDPOINTS)
def test_an_endpoint_that_cannot_be_reached(faulty: Faulty, endpoint: Callable[[Faulty], str]) -> None:
    error = refused(f"{faulty.url}/table", elsewhere(faulty.options, endpoint(faulty)))
    assert NETWORK in str(error)
    assert faulty.writes() == 0


REFUSALS = [
    ("s3", 403, "InvalidAccessKeyId"),
    ("s3", 403, "SignatureDoesNotMatch"),
    ("s3", 403, "RequestTimeTooSkewed"),
    ("s3", 400, "ExpiredToken"),
    ("s3", 301, "PermanentRedirect"),
    ("gcs", 401, "authError"),
    ("gcs", 403, "forbidden"),
    ("adls", 403, "AuthenticationFailed"),
    ("adls", 401, "NoAuthenticationInformation"),
]


@pytest.mark.parametrize(("kind", "status", "code"), REFUSALS, ids=[f"{k} {c}" for k, _, c in REFUSALS])
def test_refused_credentials_and_clocks(faulty: Faulty, status: int, code: str) -> None:
    for method in ("GET", "WRITE"):
        faulty.proxy.plan("refuse", method=method, times=100, status=status, code=code)
    words = "clock" if code == "RequestTimeTooSkewed" else CREDENTIALS
    assert words in refused(f"{faulty.url}/table", faulty.options).next_step
    assert faulty.writes() == 0


READ_ONLY = [("s3", "AccessDenied"), ("gcs", "forbidden"), ("adls", "AuthorizationPermissionMismatch")]


@pytest.mark.parametrize(("kind", "code"), READ_ONLY)
def test_credentials_that_may_only_read(faulty: Faulty, code: str) -> None:
    """The one request that would create the table is refused: it is not repeated, and nothing is unknown."""
    faulty.proxy.plan("refuse", method="WRITE", times=100, status=403, code=code)
    assert CREDENTIALS in refused(f"{faulty.url}/table", faulty.options).next_step
    assert faulty.writes() == 1


def test_a_table_that_may_only_be_read_is_not_altered(faulty: Faulty) -> None:
    table = ll.create_table(f"{faulty.url}/table", SCHEMA, storage_options=faulty.options)
    faulty.proxy.plan("refuse", method="WRITE", times=100, status=403, code="AccessDenied")
    with pytest.raises(StoreUnavailable, match="schema-1 was not created"):
        table.alter(ll.add_column("w", "INT"))


def test_a_local_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    assert "permissions" in refused(f"{tmp_path}/file/table", {}).next_step
    refused("/proc/no-folder/can-be-made/here", {})


def test_an_hdfs_folder_of_another_user(hdfs_host: HdfsServer) -> None:
    """The name node refuses the folder before anything is sent. The user is the process's, so that it has one of its own."""
    ll.create_table(f"{hdfs_host.new_root()}/table", SCHEMA, storage_options=hdfs_host.storage_options())
    options = [f"{name}={value}" for name, value in hdfs_host.storage_options().items()]
    command = [sys.executable, "-m", "lakelatch", "create", f"{hdfs_host.new_root()}/table", "--column", "v:BIGINT"]
    command += [part for option in options for part in ("--storage-option", option)]
    environment = {**os.environ, "HADOOP_USER_NAME": "somebody-else"}
    told = subprocess.run(command, check=False, env=environment, capture_output=True, text=True, timeout=60)
    assert told.returncode == UNAVAILABLE, told.stderr
    assert "schema/schema-0 was not created" in told.stderr


def test_the_command_line_says_that_nothing_was_created(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("in the way")
    assert main(["create", f"{tmp_path}/file/table", "--column", "v:BIGINT"]) == UNAVAILABLE
    assert "schema/schema-0 was not created" in capsys.readouterr().err


# -------------------------------------------------------------------------------- what does not prove that nothing was sent


class Refusing(Fragile):
    """A store whose creates get the answers of a script; None lets one through."""

    def __init__(self, *answers: Unknown | StoreUnavailable | None) -> None:
        super().__init__()
        self.answers = list(answers)

    def put_if_absent(self, key: str, data: bytes) -> Any:
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, StoreUnavailable):
            raise answer
        return answer if answer is not None else super().put_if_absent(key, data)


def test_a_refusal_after_a_send_without_an_answer_is_unknown() -> None:
    """H2: the first send may still arrive, whatever the second one is told."""
    denied = [StoreUnavailable("denied")] * 999
    with pytest.raises(OutcomeUnknown) as caught:
        create_schema(Refusing(Unknown("no answer"), *denied), "schema/schema-0", b"{}")
    with pytest.raises(OutcomeUnknown):
        caught.value.resolve(timeout=0.1)


def test_a_send_without_an_answer_is_sent_again() -> None:
    store = Refusing(Unknown("no answer"), StoreUnavailable("denied"), None)
    assert create_first_schema(store, "schema/schema-0", b"{}")
    assert store.get("schema/schema-0") == b"{}"
