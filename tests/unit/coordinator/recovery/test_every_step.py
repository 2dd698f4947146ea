"""A writer is struck at each of its steps, on store and journal alike; reports, recovery and the table must agree."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from fragile import COUNTER, Died, Fragile, opened, recovered

from lakelatch.backends.memory import MemoryStore
from lakelatch.backends.store import Unknown
from lakelatch.coordinator.journal.file_journal import FileJournal
from lakelatch.coordinator.journal.object_journal import ObjectJournal
from lakelatch.coordinator.recovery.recover import Recovery
from lakelatch.coordinator.surroundings import MACHINE
from lakelatch.core.errors import LakelatchError, OutcomeUnknown, StoreUnavailable

MINE, THEIRS = pa.table({"v": [7]}), pa.table({"v": [8]})
WAYS = ("dies before it", "dies after it", "refused", "done, and not heard of", "not done, and not heard of")


@dataclass
class Strike:
    """Counts the steps of a writer, and makes one of them fail.

    Attributes:
        at: the step, from 1.
        way: one of `WAYS`.
    """

    at: int
    way: str
    steps: int = 0
    armed: bool = False
    dead: bool = False

    def step(self, do: Any, unheard: Any) -> Any:
        """Take a step, given its action and the error for a caller that does not hear of it."""
        if self.dead:
            raise Died
        self.steps += self.armed
        if not self.armed or self.steps != self.at:
            return do()
        if self.way.startswith("dies"):
            self.dead = True
            if "after" in self.way:
                do()
            raise Died
        if self.way == "refused":
            raise StoreUnavailable("refused")
        if self.way.startswith("done"):
            do()
        return unheard()


def silent() -> Any:
    raise StoreUnavailable("no answer")


class Struck(MemoryStore):
    """A store in memory, as the writer sees it; a rival commits just before the writer's first snapshot."""

    def __init__(self, strike: Strike, store: Fragile, contended: bool) -> None:
        super().__init__(store.url)
        self._strike, self._store, self._contended = strike, store, contended

    def put_if_absent(self, key: str, data: bytes) -> Any:
        if key.startswith("snapshot/snapshot-") and self._contended and not self._strike.dead:
            self._contended = False
            opened(self._store).append(THEIRS)
        return self._strike.step(lambda: self._store.put_if_absent(key, data), lambda: Unknown("no answer"))

    def put(self, key: str, data: bytes) -> None:
        self._strike.step(lambda: self._store.put(key, data), silent)

    def get(self, key: str) -> bytes:
        return self._strike.step(lambda: self._store.get(key), silent)  # type: ignore[no-any-return]

    def list(self, prefix: str) -> Iterator[Any]:
        return self._strike.step(lambda: self._store.list(prefix), silent)  # type: ignore[no-any-return]

    def delete_many(self, keys: Any) -> None:
        self._strike.step(lambda: self._store.delete_many(keys), silent)


class StruckFile(FileJournal):
    """A journal file as the writer sees it; a write without an answer was truncated by a full disk."""

    def __init__(self, path: Path, strike: Strike) -> None:
        super().__init__(path)
        self._strike = strike

    def _append(self, line: bytes) -> None:
        def cut() -> None:
            FileJournal._append(self, line[: len(line) // 2])
            raise StoreUnavailable("the disk is full")

        whole = self._strike.way.startswith("done")
        self._strike.step(lambda: FileJournal._append(self, line), (lambda: None) if whole else cut)


@dataclass
class Told:
    """The answer that the writer's caller got."""

    word: str
    error: LakelatchError | None = None


def written(strike: Strike, store: Fragile, journal: Any, contended: bool) -> Told:
    """One commit of a struck writer, to the end of its clean-up."""
    seen = Struck(strike, store, contended)
    table = opened(seen, journal(seen), **{"manifest.merge-min-count": "2"})  # type: ignore[arg-type]
    table.committer._around = replace(MACHINE, sleep=lambda seconds: None)
    strike.armed = True
    try:
        table.append(MINE, commit_user="etl", identifier=1)
    except Died:
        return Told("died")
    except OutcomeUnknown as error:
        return Told("unknown", error)
    except LakelatchError as error:
        return Told("not committed", error)
    finally:
        with suppress(Died):
            table.committer.settle()
    return Told("committed")


def fresh() -> Fragile:
    store = Fragile()
    table = opened(store)
    for value in range(2):
        table.append(pa.table({"v": [value]}))
    table.committer.settle()
    return store


def outcome_of(recovery: Recovery) -> str:
    """The outcome of the writer's commit; empty if the journal does not know it."""
    return next((c.outcome for c in recovery.commits if c.commit_user == "etl"), "")


@pytest.mark.parametrize("kind", ["file", "object"])
@pytest.mark.parametrize("contended", [False, True], ids=["alone", "contended"])
@pytest.mark.parametrize("way", WAYS)
def test_after_a_failure_at_any_step_all_reports_agree_with_the_table(
    tmp_path: Path, kind: str, contended: bool, way: str
) -> None:
    """G1, G2, G3, G5: at each step; recovery twice, then `resolve()`, then the same job once more."""
    words = set()
    for number in itertools.count(1):
        store, path = fresh(), tmp_path / f"{next(COUNTER)}.jsonl"
        strike = Strike(number, way)

        def journal(seen: Any, path: Path = path, strike: Strike = strike) -> Any:
            return StruckFile(path, strike) if kind == "file" else ObjectJournal(seen)

        told = written(strike, store, journal, contended)
        words.add(told.word)
        check(told, store, lambda path=path, store=store: journal_of(kind, path, store), f"{way} {number}")
        if strike.steps < number:
            break
    assert number > 10, "steps were counted"
    assert ("died" in words) == way.startswith("dies")


def journal_of(kind: str, path: Path, store: Fragile) -> Any:
    return FileJournal(path) if kind == "file" else ObjectJournal(store)


def check(told: Told, store: Fragile, journal: Any, step: str) -> None:
    first, kept = outcome_of(recovered(journal, store)), len(journal().lines())
    second = outcome_of(recovered(journal, store))
    assert len(journal().lines()) == kept, f"{step}: what is known is not said again"
    rows = opened(store).to_arrow()["v"].to_pylist()
    landed = rows.count(7)
    assert first in ("", "landed", "finished", "not landed"), step
    if first:
        assert landed == (first != "not landed"), step
    assert second in ("", "not landed" if first == "not landed" else "landed"), f"{step}: run twice, it tells the same"
    match told.word:
        case "committed":
            assert landed == 1, step
        case "not committed":
            assert landed == 0, step
        case "unknown":
            assert isinstance(told.error, OutcomeUnknown)
            assert resolved(told.error) in ({"committed"} if landed else {"not committed", "unknown"}), step
    receipt = opened(store).append(MINE, commit_user="etl", identifier=1)
    assert receipt.replayed == bool(landed), step
    after = opened(store).to_arrow()["v"].to_pylist()
    assert sorted(after) == sorted([*(v for v in rows if v != 7), 7]), step
    assert not [f for f in opened(store).verify("all") if f.severity == "error"], step


def resolved(unknown: OutcomeUnknown) -> str:
    try:
        unknown.resolve(0)
    except OutcomeUnknown:
        return "unknown"
    except LakelatchError:
        return "not committed"
    return "committed"
