"""Credentials that end while a process runs: a refusal is no error where new ones are there (decision 96)."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from planned_store import FileSystem, PlannedStore, options

from lakelatch.backends.requests import renewal
from lakelatch.backends.requests.answers import Answer, AnswerTable, Facts
from lakelatch.backends.store import AlreadyThere, Created
from lakelatch.backends.transport import carrier
from lakelatch.backends.transport.choice import ObstoreRequests
from lakelatch.core.errors import StoreUnavailable

VARIABLE = "AWS_TEST_TOKEN"


class Refusal(Exception):
    """A refusal in the shape of botocore's."""

    def __init__(self, code: str, status: int = 403) -> None:
        super().__init__(code)
        self.response = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}


class Server:
    """Accepts one token. Counts the clients that were made."""

    def __init__(self) -> None:
        self.token = "1"
        self.code = "ExpiredToken"
        self.clients: list[Guarded] = []
        self.objects: dict[str, bytes] = {}


class Guarded(FileSystem):
    """A client with the token that its provider had when it was made."""

    def __init__(self, server: Server) -> None:
        super().__init__()
        self.server, self.token, self.objects = server, os.environ[VARIABLE], server.objects
        server.clients.append(self)

    def answer(self, *call: Any) -> None:
        super().answer(*call)
        if self.token != self.server.token:
            raise Refusal(self.server.code)


class GuardedStore(PlannedStore):
    server: Server

    async def _connect(self) -> FileSystem:
        return Guarded(self.server)

    def _classify(self, error: BaseException) -> Answer:
        return AnswerTable().classify(error) if isinstance(error, Refusal) else super()._classify(error)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    monkeypatch.setenv(VARIABLE, "1")
    GuardedStore.server = made = Server()
    return made


def opened(run: dict[str, Any]) -> GuardedStore:
    return GuardedStore("planned://b/t", run)


def test_what_is_open_goes_on_with_new_credentials(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    store = opened(options())
    assert isinstance(store.put_if_absent("k", b"1"), Created)
    server.token = "2"
    monkeypatch.setenv(VARIABLE, "2")
    assert store.get("k") == b"1" and len(server.clients) == 2
    server.token = "3"
    monkeypatch.setenv(VARIABLE, "3")
    assert isinstance(store.put_if_absent("l", b"2"), Created), "the refused one has created nothing"
    assert isinstance(store.put_if_absent("l", b"3"), AlreadyThere) and len(server.clients) == 3


def test_new_credentials_that_end_before_the_request_goes_out(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client is made on a busy machine, and the credentials that it is made with end meanwhile."""
    store = opened(options())
    store.put("k", b"1")
    server.token = "2"
    monkeypatch.setenv(VARIABLE, "2")
    refuse = Guarded.answer

    def renew_again(self: Guarded, *call: Any) -> None:
        if self.token == server.token == "2":
            server.token = "3"
            monkeypatch.setenv(VARIABLE, "3")
        refuse(self, *call)

    monkeypatch.setattr(Guarded, "answer", renew_again)
    assert store.get("k") == b"1" and len(server.clients) == 3


def test_a_request_ends_although_there_are_new_credentials_after_each_refusal(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A provider that is out of step with the store hands them out for ever: four requests tell enough."""
    store = opened(options())
    store.put("k", b"1")
    server.token = "never"
    refuse = Guarded.answer

    def renewed_in_vain(self: Guarded, *call: Any) -> None:
        monkeypatch.setenv(VARIABLE, f"{self.token}+")
        refuse(self, *call)

    monkeypatch.setattr(Guarded, "answer", renewed_in_vain)
    with pytest.raises(StoreUnavailable):
        store.get("k")
    assert [client.token for client in server.clients] == ["1", "1+", "1++", "1+++"]


class Fast(ObstoreRequests):
    """obstore's requests, with the token that the store had read when they were made; listings are fsspec's."""

    def __init__(self, server: Server, token: str) -> None:
        super().__init__(lambda bucket: None, lambda tag, data: True, ("_page", "_glance"))
        self.server, self.token = server, token
        self.named = {"_read": self.read}

    def run(self, seconds: float, name: str, *args: Any) -> Any:
        if self.token != self.server.token:
            raise Refusal(self.server.code)
        return self.server.objects[args[0]]


class MixedStore(GuardedStore):
    """Reads go through obstore, the rest through fsspec."""

    late: Callable[[], None] = staticmethod(lambda: None)  # type: ignore[assignment]

    def _obstore(self) -> Callable[[], ObstoreRequests]:
        token = os.environ[VARIABLE]
        MixedStore.late()
        return lambda: Fast(self.server, token)


@pytest.fixture
def mixed(server: Server, monkeypatch: pytest.MonkeyPatch) -> MixedStore:
    monkeypatch.setattr(carrier, "require_obstore", lambda: None)
    server.objects["b/t/k"] = b"1"
    return MixedStore("planned://b/t", options())


def test_a_store_with_two_clients_knows_which_of_them_is_older(
    mixed: MixedStore, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """fsspec's is first needed after a renewal; it is new, and says nothing of the one that was there."""
    assert mixed.get("k") == b"1"
    server.token = "2"
    monkeypatch.setenv(VARIABLE, "2")
    assert [found.key for found in mixed.list("")] == ["k"]
    assert mixed.get("k") == b"1"
    server.token = "3"
    monkeypatch.setenv(VARIABLE, "3")
    assert mixed.get("k") == b"1"
    assert [found.key for found in mixed.list("")] == ["k"]


def test_credentials_that_are_renewed_while_a_client_is_made(
    mixed: MixedStore, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The options were read before; the client is not taken for a new one."""

    def renew() -> None:
        if os.environ[VARIABLE] == "1":
            server.token = os.environ[VARIABLE] = "2"

    monkeypatch.setattr(MixedStore, "late", staticmethod(renew))
    assert mixed.get("k") == b"1"


def test_a_store_that_is_opened_later_asks_the_provider(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    run = options()
    monkeypatch.setenv(VARIABLE, "old")
    with pytest.raises(StoreUnavailable, match="ExpiredToken"):
        opened(run).put("k", b"")
    monkeypatch.setenv(VARIABLE, "1")
    opened(run).put("k", b"")
    opened(run).put("l", b"")
    assert len(server.clients) == 2, "stores with the same credentials share a client"


def test_a_provider_that_shows_no_change_is_asked_again_once_the_client_has_served(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as the metadata service of a machine."""
    store = opened(options())
    store.put("k", b"")
    monkeypatch.setattr(renewal, "OLD_ENOUGH_S", 0.0)
    monkeypatch.setattr(renewal, "_state", lambda options: "")
    store = opened(options())
    store.put("k", b"")
    server.token = os.environ[VARIABLE] = "2"
    store.put("k", b"")
    assert len(server.clients) == 3


def test_a_client_that_is_refused_from_its_beginning_is_made_once(server: Server) -> None:
    store = opened(options())
    server.token = "another"
    for _ in range(3):
        with pytest.raises(StoreUnavailable):
            store.put("k", b"")
    assert len(server.clients) == 1


def test_a_right_that_is_lacking_makes_no_new_client(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renewal, "OLD_ENOUGH_S", 0.0)
    store, server.code, server.token = opened(options()), "AccessDenied", "another"
    for _ in range(3):
        with pytest.raises(StoreUnavailable):
            store.put("k", b"")
    assert len(server.clients) == 1
    monkeypatch.setenv(VARIABLE, "another")  # another role has it
    store.put("k", b"")
    assert len(server.clients) == 2


def test_threads_that_are_refused_together_share_the_new_client(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opened(options())
    store.put("k", b"")
    first = store._leased().number
    server.token = "2"
    monkeypatch.setenv(VARIABLE, "2")
    failed: list[BaseException] = []

    def read() -> None:
        try:
            store.get("k")
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=read) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == [] and store._leased().number == first + 1


@pytest.mark.parametrize("named", ["variable", "option", "default"])
def test_a_file_that_was_written_again_may_say_something_else(
    named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    file = tmp_path / ".aws" / "credentials"
    file.parent.mkdir()
    if named == "variable":
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file := tmp_path / "keys"))
    given = {"token": str(file := tmp_path / "account.json")} if named == "option" else {}
    file.write_text("one")
    before = renewal._state(given)
    assert renewal._state(given) == before
    file.write_text("another")
    assert renewal._state(given) != before


@pytest.mark.parametrize(
    ("facts", "who"),
    [
        (Facts(403, "SignatureDoesNotMatch", ()), True),
        (Facts(400, "ExpiredToken", ()), True),
        (Facts(401, "anything", ()), True),
        (Facts(403, "AuthenticationFailed", ()), True),
        (Facts(403, None, ()), True),  # a HEAD
        (Facts(400, "400", ()), True),
        (Facts(None, None, ("NoCredentials",)), True),
        (Facts(403, "AccessDenied", ()), False),
        (Facts(404, None, ()), False),
        (Facts(400, "InvalidRequest", ()), False),
        (Facts(503, "SlowDown", ()), False),
        (Facts(None, None, ("TimeoutError",)), False),
    ],
)
def test_a_refusal_of_who_asks(facts: Facts, who: bool) -> None:
    assert renewal._refuses_who_asks(facts) == who


def test_other_answers_make_no_new_client(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    store = opened(options())
    store.put("k", b"")
    monkeypatch.setenv(VARIABLE, "2")  # what the open client has is still accepted
    server.clients[0].planned = [Refusal("SlowDown", 503), Refusal("InvalidRequest", 400)]
    with pytest.raises(StoreUnavailable, match="InvalidRequest"):
        store.put("k", b"")
    assert len(server.clients) == 1
