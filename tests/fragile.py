"""Writers that die in the midst of a commit, and what another process then makes of it."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa

from lakelatch.backends.memory import MemoryStore
from lakelatch.backends.store import PutOutcome
from lakelatch.coordinator.recovery.recover import RecoveredCommit, Recovery, recover_journal
from lakelatch.coordinator.surroundings import MACHINE
from lakelatch.core.metadata.schema import new_schema
from lakelatch.core.rows.arrow import from_arrow_schema
from lakelatch.table.table import Table

COUNTER = itertools.count()
ROWS = pa.table({"v": [1]})


class Died(BaseException):
    """The writer's process is gone."""


def die() -> None:
    raise Died


class Fragile(MemoryStore):
    """A store in memory that does what a test says just before, or instead of, a request."""

    def __init__(self) -> None:
        super().__init__(f"memory://fragile-{next(COUNTER)}/table")
        self.before: dict[str, Callable[[], Any]] = {}

    def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
        instead = self._strike("create", key)
        return instead if instead is not None else super().put_if_absent(key, data)

    def put(self, key: str, data: bytes) -> None:
        self._strike("put", key)
        super().put(key, data)

    def get(self, key: str) -> bytes:
        self._strike("get", key)
        return super().get(key)

    def delete_many(self, keys: Any) -> None:
        names = list(keys)
        for key in names:
            self._strike("delete", key)
        super().delete_many(names)

    def _strike(self, operation: str, key: str) -> Any:
        planned = next((p for p in list(self.before) if f"{operation} {key}".startswith(p)), "")
        strike = self.before.pop(planned, None)  # of two uploads at once only one meets it
        return strike() if strike is not None else None


def opened(store: Fragile, journal: Any = None, **options: str) -> Table:
    """The table of one process; made by the first."""
    schema = new_schema(from_arrow_schema(ROWS.schema), options={"commit.min-retry-wait": "1 ms", **options})
    store.put_if_absent("schema/schema-0", schema.to_json())
    return Table(store, schema, journal=journal)


def dying_in_the_second_attempt(table: Table) -> None:
    """Lets the table's writer die once it has lost a race and begins again."""
    make = table.committer._run

    def made(*args: Any, **kwargs: Any) -> Any:
        run = make(*args, **kwargs)
        collect = run.collect_changes
        run.collect_changes = lambda effect: die() if run.lost else collect(effect)
        return run

    table.committer._run = made  # type: ignore[method-assign]


def recovered(journal: Any, store: Fragile, gone: bool = True) -> Recovery:
    """As somebody sees it who says whether the writers are gone."""
    return recover_journal(journal(), store, MACHINE, writers_are_gone=gone)


def recovered_later(journal: Any, store: Fragile, seconds: float = 60.0) -> Recovery:
    """As somebody sees it who does not know whether the writers live."""
    later = replace(MACHINE, wall_s=lambda: time.time() + seconds)
    return recover_journal(journal(), store, later, writers_are_gone=False)


def only(recovery: Recovery) -> RecoveredCommit:
    (commit,) = recovery.commits
    return commit


def snapshots(store: Fragile) -> list[int]:
    return [s.id for s in opened(store).snapshots()]


def names(store: Fragile, folder: str) -> list[str]:
    return sorted(info.key for info in store.list(folder))
