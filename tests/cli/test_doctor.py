"""`doctor` and its race: whether a store keeps what it promises."""

from __future__ import annotations

import re
import shlex
import time
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.backends import registry
from lakelatch.backends.around.race import race
from lakelatch.backends.memory import MemoryStore
from lakelatch.backends.store import Capabilities, Created, ObjectInfo, PutOutcome
from lakelatch.cli.inspect.riding import advice, busy
from lakelatch.core.errors import StoreUnavailable

COUNT = count()


class IgnoresConditions(MemoryStore):
    """A store like old S3 servers: it ignores the condition, so every create overwrites."""

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
    """A store that checks and then writes: correct with one writer, wrong in a race (H1)."""

    def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
        absent = not any(info.key == key for info in self.list(""))
        time.sleep(0.002)
        return self._write(key, data) if absent else super().put_if_absent(key, data)

    def _write(self, key: str, data: bytes) -> PutOutcome:
        self.put(key, data)
        return Created()


class OtherClock(MemoryStore):
    """A store whose clock is an hour late."""

    def head(self, key: str) -> ObjectInfo:
        found = super().head(key)
        return ObjectInfo(found.key, found.size, found.modified_ms - 3_600_000)


class Refusing(MemoryStore):
    """A store that denies the operation that the URL names: `refusing://delete/…`."""

    def __init__(self, url: str, storage_options: Any = None) -> None:
        super().__init__(url, storage_options)
        self.refused = url.partition("://")[2].partition("/")[0]

    def _allowed(self, what: str) -> None:
        if what == self.refused:
            raise StoreUnavailable(f"{self.url} refused to {what}: AccessDenied")

    def put(self, key: str, data: bytes) -> None:
        self._allowed("write")
        super().put(key, data)

    def delete_many(self, keys: Any) -> None:
        self._allowed("delete")
        super().delete_many(keys)


class LateListings(MemoryStore):
    """A store whose listings omit the newest object and still show the last one that was deleted."""

    newest = ""

    def put(self, key: str, data: bytes) -> None:
        super().put(key, data)
        self.newest = key

    def delete_many(self, keys: Any) -> None:
        doomed = list(keys)
        super().delete_many(doomed)
        self.ghost = doomed[-1]

    def list(self, prefix: str) -> Any:
        found = [info for info in super().list(prefix) if info.key != self.newest]
        ghost = getattr(self, "ghost", "")
        return iter([*found, ObjectInfo(ghost, 1, 0)] if ghost and ghost.startswith(prefix) else found)


class Silent(MemoryStore):
    """A store that never answers."""

    def list(self, prefix: str) -> Any:
        raise StoreUnavailable(f"{self.url} did not answer")


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Registers the stores of this file as an installed package would."""
    kinds = {"late": OtherClock, "silent": Silent, "refusing": Refusing, "lagging": LateListings}
    stores = {"careless": IgnoresConditions, **{scheme: _of(scheme, kind) for scheme, kind in kinds.items()}}
    points = [SimpleNamespace(name=name, load=lambda store=store: store) for name, store in stores.items()]
    monkeypatch.setattr(registry, "entry_points", lambda group: points)


def _of(scheme: str, kind: type[MemoryStore]) -> Any:
    return lambda url, options: kind(url.replace(f"{scheme}://", "memory://"), options)


def checks(answer: Any) -> dict[str, str]:
    return {check["check"]: check["status"] for check in answer.json["checks"]}


def test_a_good_store(run: Any, flights: ll.Table) -> None:
    """Every check is ok, and no object remains."""
    before = sorted(Path(flights.url).rglob("*"))
    answer = run("doctor", flights.url, "--json")
    assert answer.code == 0, answer
    assert list(answer.json) == ["url", "ok", "checks"]
    assert checks(answer) == dict.fromkeys(
        (
            "reach",
            "credentials",
            "table",
            "permissions",
            "atomic create",
            "list",
            "write",
            "clock",
            "expect",
            "riding",
            "history",
        ),
        "ok",
    )
    assert all(list(check) == ["check", "status", "detail", "next_step"] for check in answer.json["checks"])
    assert sorted(Path(flights.url).rglob("*")) == before
    assert run("doctor", flights.url).out.splitlines()[0].split() == ["check", "status", "detail", "next"]


def test_a_store_without_a_table(run: Any) -> None:
    answer = run("doctor", "memory://doctor-empty/t", "--json")
    assert (answer.code, checks(answer)["table"], checks(answer)["atomic create"]) == (0, "warn", "ok")
    assert list(MemoryStore("memory://doctor-empty").list("")) == []


@pytest.mark.usefixtures("offered")
def test_a_store_that_ignores_conditions(run: Any) -> None:
    """G9: `doctor` reports that the store is unsafe."""
    answer = run("doctor", "careless://doctor-careless/t", "--json")
    assert (answer.code, checks(answer)["atomic create"]) == (1, "fail")
    failed = next(c for c in answer.json["checks"] if c["check"] == "atomic create")
    assert "ignores the condition" in failed["detail"]
    assert "allow_unsafe" in failed["next_step"]


def detail_of(answer: Any, name: str) -> str:
    return str(next(check["detail"] for check in answer.json["checks"] if check["check"] == name))


@pytest.mark.usefixtures("offered")
@pytest.mark.parametrize(("right", "code", "status"), [("write", 1, "fail"), ("delete", 1, "warn")])
def test_a_missing_permission(run: Any, right: str, code: int, status: str) -> None:
    """`doctor` names the refused operation; without permission to delete, it also reports the objects that remain."""
    answer = run("doctor", f"refusing://{right}/t", "--json")
    assert (answer.code, checks(answer)["permissions"]) == (code, status)
    assert detail_of(answer, "permissions").startswith(f"may not {right}: ")
    assert checks(answer)["atomic create"] == "ok"
    assert ("clean up" in checks(answer)) is (right == "delete")


@pytest.mark.usefixtures("offered")
def test_listings_that_lag(run: Any) -> None:
    """H7: `doctor` detects listings that are out of date."""
    answer = run("doctor", "lagging://doctor-lagging/t", "--json")
    assert (answer.code, checks(answer)["list"]) == (1, "fail")
    assert detail_of(answer, "list").startswith(
        "4 of 4 listings lacked an object that was just created, 1 deleted objects"
    )


def test_the_commits_per_minute_to_expect(run: Any, flights: ll.Table) -> None:
    """`doctor` estimates the throughput of one and of many writers at the latency that it measured."""
    few, many = (run("doctor", flights.url, "--json", "--writers", n) for n in (1, 16))
    numbers = [
        re.findall(r"(\d+) times a minute, (\d+) at once (\d+) together", detail_of(a, "expect")) for a in (few, many)
    ]
    ((one, writers, together),) = numbers[0]
    assert (writers, one) == ("1", together)
    assert int(one) > 100
    assert numbers[1][0][1] == "16"
    assert run("doctor", flights.url, "--writers", 0).code == 2


def test_what_riding_would_bring(run: Any, tmp_path: Path) -> None:
    """Simulated for the writers that are asked for; advised where several of them commit all the time."""
    url, one = str(tmp_path / "busy"), pa.table({"v": [1]})
    ll.create_table(url, one.schema)
    for _ in range(4):
        ll.open_table(url).append(one)
    answer = run("doctor", url, "--json", "--writers", 12)
    detail = detail_of(answer, "riding")
    found = re.match(r"12 writers of appends that ride make (\d+) commits a minute instead of (\d+), ", detail)
    assert found is not None and int(found[1]) > int(found[2]) > 0
    assert re.search(r"the newest snapshots show \d+ commits a minute by 4 writers$", detail)
    assert checks(answer)["riding"] == "warn"
    said = next(c["next_step"] for c in answer.json["checks"] if c["check"] == "riding")
    assert run(*shlex.split(said)[1:]).code == 0
    assert detail_of(run("doctor", url, "--json", "--writers", 2), "riding").endswith("option 'commit.group' is on")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, "option 'commit.group' is off, and few writers commit at once"),
        ({"commit.group": "auto"}, "option 'commit.group' is on"),
        ({"bucket": "2", "bucket-key": "v"}, "option 'commit.group' is off, and few writers commit at once"),
        ({"row-tracking.enabled": "true"}, "commits to this table go alone"),
    ],
    ids=["off", "auto", "buckets", "row ids"],
)
def test_a_quiet_table_needs_no_advice(flights: ll.Table, options: dict[str, str], told: str) -> None:
    schema = ll.create_table(f"memory://quiet-{next(COUNT)}/t", pa.schema([("v", pa.int64())]), options=options).schema
    one = flights.timeline.latest()
    assert one is not None
    detail, next_step = advice(schema, [one], "memory://t")
    assert detail.startswith(told)
    assert next_step == ""


@pytest.mark.parametrize(
    ("writers", "apart_ms", "busy_by"),
    [(3, 2_000, 3), (2, 2_000, None), (3, 2_001, None), (3, 0, 3)],
)
def test_a_table_is_busy_where_three_writers_make_thirty_commits_a_minute(
    flights: ll.Table, writers: int, apart_ms: int, busy_by: int | None
) -> None:
    one = flights.timeline.latest()
    assert one is not None
    made = [replace(one, time_ms=n * apart_ms, properties={"lakelatch.writer": f"w{n % writers}"}) for n in range(6)]
    found = busy(made)
    assert (found and found[1]) == busy_by
    if apart_ms == 2_000 and found:
        assert found[0] == 30
    assert busy(made[:1]) is None


@pytest.mark.usefixtures("offered")
def test_a_wrong_clock(run: Any) -> None:
    answer = run("doctor", "late://doctor-late/t", "--json")
    assert (answer.code, checks(answer)["clock"]) == (0, "warn")
    assert "3600 s behind" in next(c["detail"] for c in answer.json["checks"] if c["check"] == "clock")


@pytest.mark.usefixtures("offered")
def test_a_store_that_does_not_answer(run: Any) -> None:
    """`doctor` and every other command end with exit code 5."""
    assert run("doctor", "silent://doctor-silent/t").code == 5
    asked = run("log", "silent://doctor-silent/t", "--json")
    assert (asked.code, asked.error["code"]) == (5, "store-unavailable")


def test_race_of_threads() -> None:
    """H1: a race detects a store that checks and then puts; a single probe cannot."""
    good = race(MemoryStore("memory://race-good"), 4, 10, "r-", threads=True)
    assert (good.right, good.is_safe) == (10, True)
    bad = race(ChecksThenPuts("memory://race-bad"), 4, 10, "r-", threads=True)
    assert not bad.is_safe
    assert bad.several_won > 0
    assert list(MemoryStore("memory://race-bad").list("")) == []


def test_race_of_processes(run: Any, flights: ll.Table) -> None:
    """Processes race on a local disk: every round has one winner, and no file remains."""
    before = sorted(p for p in Path(flights.url).rglob("*") if p.is_file())
    answer = run("doctor", flights.url, "--race", 3, "--rounds", 5, "--json")
    assert (answer.code, checks(answer)["race"]) == (0, "ok")
    assert "3 processes: 5 of 5" in answer.json["checks"][-1]["detail"]
    assert sorted(p for p in Path(flights.url).rglob("*") if p.is_file()) == before
    assert run("doctor", flights.url, "--race", 1).code == 2


def test_race_with_a_racer_that_fails() -> None:
    """A racer that cannot reach the store ends the race with its error, and no other racer waits for ever."""

    class Failing(MemoryStore):
        def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
            if data == b"1":
                raise StoreUnavailable("no answer")
            return super().put_if_absent(key, data)

    with pytest.raises(StoreUnavailable, match="no answer"):
        race(Failing("memory://race-failing"), 3, 2, "r-", threads=True)


def test_doctor_leaves_nothing_behind_and_its_advice_works(run: Any, tmp_path: Path) -> None:
    """A path where nothing is yet stays so; the command that doctor suggests can be run as it is."""
    url = tmp_path / "new lake" / "flights"
    answer = run("doctor", url, "--json")
    assert (answer.code, checks(answer)["table"]) == (0, "warn")
    assert list(tmp_path.iterdir()) == []
    advice = next(check for check in answer.json["checks"] if check["check"] == "table")["next_step"]
    words = shlex.split(advice.partition("lakelatch ")[2])
    assert run(*words).code == 0
    assert checks(run("doctor", url, "--json"))["table"] == "ok"
    assert ll.open_table(str(url)).schema.by_name.keys() == {"id", "name"}


def test_doctor_keeps_folders_that_were_there(run: Any, tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    assert run("doctor", tmp_path / "lake" / "flights").code == 0
    assert list(tmp_path.rglob("*")) == [tmp_path / "lake"]
