"""`doctor`, and the race that it can run: what a store promises, and whether it keeps it."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import lakelatch as ll
from lakelatch.backends import registry
from lakelatch.backends.memory import MemoryStore
from lakelatch.backends.race import race
from lakelatch.backends.store import Capabilities, Created, ObjectInfo, PutOutcome
from lakelatch.core.errors import StoreUnavailable


class IgnoresConditions(MemoryStore):
    """A store as old S3 servers are: the condition is not known, and every create overwrites."""

    def __init__(self, url: str, storage_options: Any = None) -> None:
        self.outer_url = url
        super().__init__(url.replace("careless://", "memory://"), storage_options)

    @property
    def url(self) -> str:
        return self.outer_url

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities("If-None-Match", None, "says that it can")

    def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
        self.put(key, data)
        return Created()


class ChecksThenPuts(MemoryStore):
    """A store that looks first and writes then: alone it is right, in a race it is not (H1)."""

    def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
        absent = not any(info.key == key for info in self.list(""))
        time.sleep(0.002)
        return self._write(key, data) if absent else super().put_if_absent(key, data)

    def _write(self, key: str, data: bytes) -> PutOutcome:
        self.put(key, data)
        return Created()


class OtherClock(MemoryStore):
    """A store whose clock is an hour behind."""

    def head(self, key: str) -> ObjectInfo:
        found = super().head(key)
        return ObjectInfo(found.key, found.size, found.modified_ms - 3_600_000)


class Silent(MemoryStore):
    """A store that answers nothing."""

    def list(self, prefix: str) -> Any:
        raise StoreUnavailable(f"{self.url} did not answer")


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stores of this file, as an installed package would offer them."""
    stores = {"careless": IgnoresConditions, "late": _of("late", OtherClock), "silent": _of("silent", Silent)}
    points = [SimpleNamespace(name=name, load=lambda store=store: store) for name, store in stores.items()]
    monkeypatch.setattr(registry, "entry_points", lambda group: points)


def _of(scheme: str, kind: type[MemoryStore]) -> Any:
    return lambda url, options: kind(url.replace(f"{scheme}://", "memory://"), options)


def checks(answer: Any) -> dict[str, str]:
    return {check["check"]: check["status"] for check in answer.json["checks"]}


def test_a_good_store(run: Any, flights: ll.Table) -> None:
    """Everything is ok, and nothing is left behind."""
    before = sorted(Path(flights.url).rglob("*"))
    answer = run("doctor", flights.url, "--json")
    assert answer.code == 0, answer
    assert list(answer.json) == ["url", "ok", "checks"]
    assert checks(answer) == dict.fromkeys(
        ("reach", "credentials", "table", "atomic create", "write", "clock", "history"), "ok"
    )
    assert all(list(check) == ["check", "status", "detail", "next_step"] for check in answer.json["checks"])
    assert sorted(Path(flights.url).rglob("*")) == before
    assert run("doctor", flights.url).out.splitlines()[0].split() == ["check", "status", "detail", "next"]


def test_where_no_table_is_yet(run: Any) -> None:
    answer = run("doctor", "memory://doctor-empty/t", "--json")
    assert (answer.code, checks(answer)["table"], checks(answer)["atomic create"]) == (0, "warn", "ok")
    assert list(MemoryStore("memory://doctor-empty").list("")) == []


@pytest.mark.usefixtures("offered")
def test_a_store_that_ignores_conditions(run: Any) -> None:
    """G9: it is called unsafe, by `doctor` and by the first commit."""
    answer = run("doctor", "careless://doctor-careless/t", "--json")
    assert (answer.code, checks(answer)["atomic create"]) == (1, "fail")
    failed = next(c for c in answer.json["checks"] if c["check"] == "atomic create")
    assert "ignores the condition" in failed["detail"]
    assert "allow_unsafe" in failed["next_step"]


@pytest.mark.usefixtures("offered")
def test_a_clock_that_is_wrong(run: Any) -> None:
    answer = run("doctor", "late://doctor-late/t", "--json")
    assert (answer.code, checks(answer)["clock"]) == (0, "warn")
    assert "3600 s behind" in next(c["detail"] for c in answer.json["checks"] if c["check"] == "clock")


@pytest.mark.usefixtures("offered")
def test_a_store_that_does_not_answer(run: Any) -> None:
    """Exit code 5, for `doctor` and for any command."""
    assert run("doctor", "silent://doctor-silent/t").code == 5
    asked = run("log", "silent://doctor-silent/t", "--json")
    assert (asked.code, asked.error["code"]) == (5, "store-unavailable")


def test_race_of_threads() -> None:
    """H1: a race tells a store that checks and then puts from one that creates atomically; a single probe cannot."""
    good = race(MemoryStore("memory://race-good"), 4, 10, "r-", threads=True)
    assert (good.right, good.is_safe) == (10, True)
    bad = race(ChecksThenPuts("memory://race-bad"), 4, 10, "r-", threads=True)
    assert not bad.is_safe
    assert bad.several_won > 0
    assert list(MemoryStore("memory://race-bad").list("")) == []


def test_race_of_processes(run: Any, flights: ll.Table) -> None:
    """Processes race on a local disk: one winner each time, and nothing is left."""
    before = sorted(p for p in Path(flights.url).rglob("*") if p.is_file())
    answer = run("doctor", flights.url, "--race", 3, "--rounds", 5, "--json")
    assert (answer.code, checks(answer)["race"]) == (0, "ok")
    assert "3 processes: 5 of 5" in answer.json["checks"][-1]["detail"]
    assert sorted(p for p in Path(flights.url).rglob("*") if p.is_file()) == before
    assert run("doctor", flights.url, "--race", 1).code == 2


def test_race_with_a_racer_that_fails() -> None:
    """A racer that cannot reach the store ends the race with its error, and none of the others waits for ever."""

    class Failing(MemoryStore):
        def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
            if data == b"1":
                raise StoreUnavailable("no answer")
            return super().put_if_absent(key, data)

    with pytest.raises(StoreUnavailable, match="no answer"):
        race(Failing("memory://race-failing"), 3, 2, "r-", threads=True)
