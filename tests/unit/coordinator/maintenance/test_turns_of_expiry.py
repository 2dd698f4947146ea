"""Whose turn it is to expire after a commit: pauses, other processes, failures. The clock is a test's; there is no thread."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pytest

from lakelatch.backends.memory import MemoryStore
from lakelatch.backends.store import ObjectInfo
from lakelatch.coordinator.history.timeline import Timeline
from lakelatch.coordinator.maintenance.expiry import automatic
from lakelatch.coordinator.maintenance.expiry.automatic import AfterCommit
from lakelatch.coordinator.maintenance.expiry.changelogs import ChangelogPlan
from lakelatch.coordinator.maintenance.expiry.expire import ExpiryPlan
from lakelatch.coordinator.maintenance.expiry.retention import is_automatic
from lakelatch.coordinator.surroundings import MACHINE
from lakelatch.core.errors import CommitConflict, StoreUnavailable, TableCorrupt
from lakelatch.core.metadata.schema import new_schema
from lakelatch.core.options import TableOptions
from lakelatch.core.paths import TablePaths
from lakelatch.core.rows.arrow import from_arrow_schema

COUNTER = itertools.count()
FIELDS = from_arrow_schema(pa.schema([("v", pa.int64())]))
NOW_MS = 1_700_000_000_000
QUICK = {"snapshot.time-retained": "1 ms"}


class Dated(MemoryStore):
    """A store in memory whose files have the ages that a test gives them.

    Attributes:
        times: when files were written, by key; `NOW_MS` for all others.
        asked: the requests so far, as operation and key.
        refused: the requests that fail.
    """

    def __init__(self) -> None:
        super().__init__(f"memory://turns-of-expiry-{next(COUNTER)}/t")
        self.times: dict[str, int] = {}
        self.asked: list[str] = []
        self.refused: set[str] = set()

    def _ask(self, asked: str) -> None:
        self.asked.append(asked)
        if asked in self.refused:
            raise StoreUnavailable("away")

    def _dated(self, info: ObjectInfo) -> ObjectInfo:
        return replace(info, modified_ms=self.times.get(info.key, NOW_MS))

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        self._ask(f"list {prefix}")
        return map(self._dated, super().list(prefix))

    def head(self, key: str) -> ObjectInfo:
        return self._dated(super().head(key))

    def put(self, key: str, data: bytes) -> None:
        self._ask(f"put {key}")
        super().put(key, data)


class AtOnce:
    """Stands for the thread: what it is offered has ended before it answers, or waits where `is_busy`."""

    def __init__(self) -> None:
        self.answers: list[bool | Exception] = []
        self.is_busy = False
        self.waiting: list[Callable[[], object]] = []

    def offer(self, work: Callable[..., Any], *args: Any) -> bool:
        answer = self.answers.pop(0) if self.answers else True
        if isinstance(answer, Exception):
            raise answer
        if answer and self.is_busy:
            self.waiting.append(lambda: work(*args))
        elif answer:
            work(*args)
        return answer


@dataclass
class World:
    """A table without a commit, and what happens to it.

    Attributes:
        found: what the next expiries end with: so many snapshots, a plan, or an error.
        meanwhile: what happens during them.
        expiries: how often an expiry ran.
    """

    store: Dated = field(default_factory=Dated)
    thread: AtOnce = field(default_factory=AtOnce)
    now_s: float = 1000.0
    found: list[int | ExpiryPlan | Exception] = field(default_factory=list)
    meanwhile: list[Callable[[], object]] = field(default_factory=list)
    expiries: int = 0

    def table(self, branch: str = "main", **options: str) -> AfterCommit:
        """What is called after each commit to the table. The options hold from now on."""
        named = {name.replace("__", "-").replace("_", "."): value for name, value in options.items()} or QUICK
        schema, paths = new_schema(FIELDS, options=named).to_json(), TablePaths(branch)
        self.store.put(paths.schema(0), schema)
        self.store.asked.clear()
        around = replace(MACHINE, monotonic_s=lambda: self.now_s)
        return AfterCommit(Timeline(self.store, paths, first_schema=schema), TableOptions(named), around)

    def newest(self, **options: str) -> None:
        """Another job changes the options."""
        named = {name.replace("__", "-").replace("_", "."): value for name, value in options.items()}
        self.store.put("schema/schema-1", replace(new_schema(FIELDS, options=named), id=1).to_json())

    def expire(self, *about: Any) -> ExpiryPlan:
        self.expiries += 1
        if self.meanwhile:
            self.meanwhile.pop(0)()
        found = self.found.pop(0) if self.found else 0
        if isinstance(found, Exception):
            raise found
        return found if isinstance(found, ExpiryPlan) else ExpiryPlan(tuple(range(found)))


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()
    monkeypatch.setattr(automatic, "_THREADS", made.thread)
    monkeypatch.setattr(automatic, "expire", made.expire)
    return made


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Callable[[], list[tuple[str, str]]]:
    """Level and text of each record of the expiry's logger."""
    caplog.set_level(logging.INFO, logger="lakelatch.expiry")
    return lambda: [(r.levelname, r.getMessage()) for r in caplog.records if r.name == "lakelatch.expiry"]


# ----------------------------------------------------------------------------------------------------------- its turn


@pytest.mark.parametrize("kind", ["snapshot", "changelog"])
@pytest.mark.parametrize("what", ["time-retained", "num-retained.min", "num-retained.max"])
def test_whoever_says_how_much_is_kept_asks_for_it(kind: str, what: str) -> None:
    assert is_automatic(TableOptions({f"{kind}.{what}": "5 h" if what == "time-retained" else "5"}))


def test_a_table_that_is_only_written_leaves_it_to_others() -> None:
    for more in ({}, {"snapshot.expire.automatic": "true"}):
        assert not is_automatic(TableOptions({"snapshot.num-retained.max": "5", "write-only": "true", **more}))
    assert not is_automatic(TableOptions({"snapshot.num-retained.max": "5", "snapshot.expire.automatic": "false"}))


def test_an_expiry_that_has_ended_before_the_commit_goes_on_leaves_the_next_one_its_turn(world: World) -> None:
    """The thread may be quicker than the caller, who must not mark it as running afterwards."""
    after = world.table()
    assert after() is True
    world.now_s += 1
    assert after() is True
    assert world.expiries == 2


def test_while_one_waits_for_its_thread_no_other_is_begun(world: World) -> None:
    after = world.table()
    world.thread.is_busy = True
    assert (after(), after(), after()) == (True, False, False)
    (expiry,) = world.thread.waiting
    expiry()
    assert world.expiries == 1
    world.now_s += 1
    assert after() is True


def test_a_machine_that_has_just_started_has_its_turn(world: World) -> None:
    world.now_s = 0.5
    assert world.table()() is True


@pytest.mark.parametrize(("kept", "pause_s"), [("50 s", 0.5), ("200 s", 2.0), ("1 h", 36.0), ("10 h", 60.0)])
def test_the_next_turn_comes_after_a_hundredth_of_the_time_kept_or_a_minute(
    world: World, kept: str, pause_s: float
) -> None:
    after = world.table(snapshot_time__retained=kept)
    assert after() is True
    world.now_s += pause_s - 0.001
    assert after() is False
    assert world.expiries == 1
    world.now_s = 1000.0 + pause_s
    assert after() is True
    assert world.expiries == 2


def test_the_pause_goes_by_the_newest_options_and_after_a_failure_by_those_of_the_commit(world: World) -> None:
    after = world.table(snapshot_time__retained="200 s")
    world.newest(snapshot_time__retained="400 s")
    assert after() is True
    world.now_s += 3.999
    assert after() is False
    world.now_s += 0.001
    world.store.refused = {"list schema/"}
    assert after() is True
    assert world.expiries == 1
    world.store.refused = set()
    world.now_s += 1.999
    assert after() is False
    world.now_s += 0.001
    assert after() is True
    assert world.expiries == 2


def test_each_branch_has_its_own_turn(world: World) -> None:
    main, dev = (world.table(branch, snapshot_time__retained="200 s") for branch in ("main", "dev"))
    assert (main(), dev(), main(), dev()) == (True, True, False, False)


def test_a_table_that_does_not_ask_has_no_turn(world: World) -> None:
    assert world.table(snapshot_expire_limit="5")() is False
    assert world.expiries == 0


@pytest.mark.parametrize("answer", [False, MemoryError("no thread can be started")], ids=["none", "an error"])
def test_without_a_thread_the_turn_is_left_to_the_next_commit(
    world: World, said: Callable[[], list[tuple[str, str]]], answer: bool | Exception
) -> None:
    after = world.table()
    world.thread.answers = [answer]
    assert after() is False
    told = [("WARNING", "expiry after a commit could not begin: no thread can be started")]
    assert said() == (told if answer else [])
    assert after() is True
    assert world.expiries == 1


# ------------------------------------------------------------------------------------------------------------- rounds


@pytest.mark.parametrize(
    ("found", "commits_in", "expiries"),
    [
        ([6], [], 1),
        ([7, 0], [], 2),
        ([8, 7, 2], [], 3),
        ([0], [1], 1),
        ([3, 2, 1], [1], 2),
        ([3, 3, 1, 1], [1, 2], 3),
        ([7, 1, 1], [1], 2),
    ],
)
def test_it_goes_on_at_the_limit_or_if_a_commit_came_while_it_found_something(
    world: World, found: list[int | ExpiryPlan | Exception], commits_in: list[int], expiries: int
) -> None:
    after = world.table(snapshot_time__retained="1 ms", snapshot_expire_limit="7")

    def commit() -> None:
        assert after() is False, "one runs"

    world.found = found
    world.meanwhile = [commit if number in commits_in else lambda: None for number in range(1, 9)]
    assert after() is True
    assert world.expiries == expiries


def test_a_table_that_always_has_more_gives_the_thread_back_after_a_hundred_rounds(world: World) -> None:
    world.found = [7] * 500
    world.table(snapshot_time__retained="1 ms", snapshot_expire_limit="7")()
    assert world.expiries == 100


def test_a_table_whose_newest_options_do_not_ask_is_looked_at_once(world: World) -> None:
    after = world.table()
    world.newest(snapshot_expire_automatic="false", snapshot_expire_limit="1")
    world.store.asked.clear()
    assert after() is True
    assert world.expiries == 0
    assert world.store.asked.count("list schema/") == 1


# ----------------------------------------------------------------------------------------------------- other processes


@pytest.mark.parametrize(
    ("kept", "earliest_ms", "newest_ms", "expiries"),
    [
        ("200 s", 10_000, 11_999, 0),
        ("200 s", 10_000, 12_000, 1),
        ("200 s", 12_000, 10_000, 0),
        ("200 s", None, 10_000, 1),
        ("100 s", 10_000, 10_999, 0),
        ("100 s", 10_000, 11_000, 1),
        ("99 s", 10_000, 10_000, 1),
    ],
)
def test_an_expiry_that_another_process_began_within_the_pause_is_enough(
    world: World, kept: str, earliest_ms: int | None, newest_ms: int, expiries: int
) -> None:
    """It has written EARLIEST, and the store's own clock says when. Pauses below a second are not worth the look."""
    after, times = world.table(snapshot_time__retained=kept), {"snapshot/snapshot-1": newest_ms}
    if earliest_ms is not None:
        times["snapshot/EARLIEST"] = earliest_ms
    world.store.times = times
    for key in times:
        world.store.put(key, b"1")
    after()
    assert world.expiries == expiries
    assert after() is False, "its turn is over in any case"


def test_the_expiry_of_a_table_that_was_made_again_is_not_begun(
    world: World, said: Callable[[], list[tuple[str, str]]]
) -> None:
    """H21."""
    after = world.table()
    world.store.put("schema/schema-0", new_schema(FIELDS, options=QUICK, time_ms=7).to_json())
    after()
    assert world.expiries == 0
    ((level, text),) = said()
    assert level == "WARNING" and "dropped and made again" in text


# ----------------------------------------------------------------------------------------------------------- failures


@pytest.mark.parametrize(
    ("error", "level", "text", "traced"),
    [
        (CommitConflict("others"), "INFO", "the expiry after a commit is left to the next one: others", False),
        (StoreUnavailable("away", next_step=""), "WARNING", "the commit has landed, but the expiry after it failed: away", False),
        (RuntimeError("a bug"), "WARNING", "the commit has landed, but the expiry after it failed", True),
    ],
    ids=["conflict", "store", "bug"],
)  # fmt: skip
def test_how_a_failure_is_logged(
    world: World, caplog: pytest.LogCaptureFixture, error: Exception, level: str, text: str, traced: bool
) -> None:
    after = world.table()
    world.found = [error]
    with caplog.at_level(logging.INFO, logger="lakelatch.expiry"):
        assert after() is True
    (record,) = caplog.records
    assert record.levelname == level
    assert record.getMessage().startswith(text)
    assert bool(record.exc_info) is traced
    world.now_s += 1
    assert after() is True, "the next one has its turn"


@pytest.mark.parametrize(
    ("ids", "earliest", "level"),
    [
        ((), None, "WARNING"),
        ((), b"1", "INFO"),
        ((1, 2), None, "WARNING"),
        ((1, 2), b"1", "WARNING"),
        ((1, 2), b"2", "INFO"),
        ((3, 4), b"2", "WARNING"),
    ],
)
def test_lists_that_another_process_deleted_are_no_news(
    world: World, said: Callable[[], list[tuple[str, str]]], ids: tuple[int, ...], earliest: bytes | None, level: str
) -> None:
    """An EARLIEST above the oldest snapshot says that somebody is deleting those below."""
    after = world.table()
    for number in ids:
        world.store.put(f"snapshot/snapshot-{number}", b"{}")
    if earliest is not None:
        world.store.put("snapshot/EARLIEST", earliest)
    world.found = [TableCorrupt("manifest/x is missing", next_step="")]
    after()
    assert said() == [(level, "the commit has landed, but the expiry after it ended: manifest/x is missing")]


def test_a_damage_in_a_store_that_does_not_answer_is_a_warning(
    world: World, said: Callable[[], list[tuple[str, str]]]
) -> None:
    after = world.table()
    world.store.refused = {"list snapshot/"}
    world.found = [TableCorrupt("manifest/x is missing")]
    after()
    assert [level for level, _ in said()] == ["WARNING"]


def test_what_has_expired_is_logged(world: World, said: Callable[[], list[tuple[str, str]]]) -> None:
    after = world.table()
    for found in (2, 0, ExpiryPlan(changelogs=ChangelogPlan((4, 5)))):
        world.found = [found]
        after()
        world.now_s += 1
    told = [text for level, text in said() if level == "INFO"]
    assert len(told) == len(said()) == 2
    assert all(text.startswith(f"expired after a commit to {world.store.url}: ") for text in told)


# ---------------------------------------------------------------------------------------------------------- consumers


def consumers(world: World) -> list[str]:
    return sorted(info.key.rpartition("consumer-")[2] for info in world.store.list("consumer/"))


def test_consumers_that_have_been_idle_for_too_long_expire_with_it(world: World) -> None:
    after = world.table(snapshot_time__retained="1 ms", consumer_expiration__time="1 h")
    for name, age_ms in (("idle", 3_600_001), ("still", 3_600_000), ("busy", 5)):
        world.store.put(f"consumer/consumer-{name}", b'{"nextSnapshot": 1}')
        world.store.times[f"consumer/consumer-{name}"] = NOW_MS - age_ms
    during: list[list[str]] = []
    world.meanwhile = [lambda: during.append(consumers(world))]
    after()
    assert during == [["busy", "still"]], "snapshots come after them"


@pytest.mark.parametrize(
    ("options", "there"),
    [({}, ["ancient"]), ({"consumer_expiration__time": "1 h"}, [])],
    ids=["no option", "no consumer"],
)
def test_without_the_option_or_without_consumers_the_store_is_not_asked_for_its_time(
    world: World, options: dict[str, str], there: list[str]
) -> None:
    after = world.table(snapshot_time__retained="1 ms", **options)
    for name in there:
        world.store.put(f"consumer/consumer-{name}", b'{"nextSnapshot": 1}')
        world.store.times[f"consumer/consumer-{name}"] = 1
    world.store.asked.clear()
    after()
    assert world.expiries == 1
    assert [asked for asked in world.store.asked if asked.startswith("put")] == []
    assert consumers(world) == there
