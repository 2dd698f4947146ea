"""The maintenance of many tables in one call: what is due for each, and what was done.

Owns: the steps and their order, `Upkeep`. Must not know: how a table is compacted, expired or cleaned.
Invariants: every step can be repeated, so a run that was cut off is finished by the next. A table that fails does not keep the
others from their turn. Tags are made before snapshots expire, so that they protect theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import as_completed
from dataclasses import dataclass
from typing import Any

from ...coordinator.surroundings import MACHINE
from ...core.arguments import whole_number
from ...core.errors import LakelatchError, StoreUnavailable, TableNotFound, Unsupported
from ...core.html_text import ShownAsText
from ..table import Table


@dataclass(frozen=True)
class Step:
    """One operation on one table.

    Attributes:
        name: `expire-partitions`, `compact`, `expire-consumers`, `tag`, `expire` or `clean`.
        due: whether there is, or was, something to do; `told` says what, on one line.
        skipped: the table does not support it; `told` says why.
    """

    name: str
    due: bool
    told: str
    error: LakelatchError | None = None
    skipped: bool = False

    def to_dict(self) -> dict[str, Any]:
        """The step with stable keys, ready for JSON."""
        error = None if self.error is None else {"code": self.error.code, "message": self.error.message}
        return {"step": self.name, "due": self.due, "told": self.told, "skipped": self.skipped, "error": error}


@dataclass(frozen=True)
class TableUpkeep(ShownAsText):
    table: str
    steps: tuple[Step, ...]

    @property
    def failed(self) -> bool:
        return any(step.error is not None for step in self.steps)

    @property
    def due(self) -> bool:
        return any(step.due for step in self.steps)

    def __str__(self) -> str:
        told = [f"{s.name}: {s.told}" for s in self.steps if s.due or s.error is not None]
        return f"{self.table}: {'; '.join(told) or 'nothing to do'}"

    def to_dict(self) -> dict[str, Any]:
        """The steps with stable keys, ready for JSON."""
        return {"table": self.table, "failed": self.failed, "steps": [step.to_dict() for step in self.steps]}


@dataclass(frozen=True)
class Upkeep(ShownAsText):
    """The maintenance of some tables, in the order of their names. It is only planned if `applied` is False."""

    applied: bool
    tables: tuple[TableUpkeep, ...]

    @property
    def failed(self) -> tuple[str, ...]:
        """The tables of which a step failed."""
        return tuple(one.table for one in self.tables if one.failed)

    def __str__(self) -> str:
        due = sum(one.due for one in self.tables)
        verb = "had" if self.applied else "have"
        failed = f", {len(self.failed)} failed: {', '.join(self.failed)}" if self.failed else ""
        return f"{len(self.tables)} tables, {due} {verb} something to do{failed}"


Told = Callable[[int, int, TableUpkeep], None]


def maintain(
    names: Iterable[str], opened: Callable[[str], Table], *, dry_run: bool, jobs: int, progress: Told | None
) -> Upkeep:
    todo, jobs = list(names), whole_number(jobs, "jobs", 1)
    done: dict[str, TableUpkeep] = {}
    with MACHINE.executor(max(1, min(jobs, len(todo))), "lakelatch-maintain") as pool:
        for future in as_completed([pool.submit(_maintained, name, opened, dry_run) for name in todo]):
            one = future.result()
            done[one.table] = one
            if progress is not None:
                progress(len(done), len(todo), one)
    return Upkeep(not dry_run, tuple(done[name] for name in todo))


def _maintained(name: str, opened: Callable[[str], Table], dry_run: bool) -> TableUpkeep:
    try:
        table = opened(name)
    except TableNotFound:
        return TableUpkeep(name, (Step("open", False, "dropped meanwhile", skipped=True),))
    except Exception as error:
        return TableUpkeep(name, (_failed("open", error),))
    return TableUpkeep(name, tuple(_steps(table, dry_run)))


def _steps(table: Table, dry_run: bool) -> Iterator[Step]:
    for name, run in _STEPS.items():
        try:
            answer = run(table, dry_run)
        except Unsupported as error:
            yield Step(name, False, error.message, skipped=True)
        except TableNotFound as error:
            yield Step(name, False, error.message, skipped=True)
            return
        except StoreUnavailable as error:
            yield _failed(name, error)
            return
        except Exception as error:
            yield _failed(name, error)
        else:
            if answer is not None:
                yield Step(name, *answer)
    _settle(table)


def _failed(name: str, error: Exception) -> Step:
    known = error if isinstance(error, LakelatchError) else LakelatchError(f"{type(error).__name__}: {error}")
    return Step(name, False, f"failed: {known.message}", known)


def _settle(table: Table) -> None:
    """Wait for the hints of the commits of compaction, so that the process may end."""
    table.committer.settle()


Answer = tuple[bool, str] | None
"""Whether there was something to do, and what; None where the table's options do not ask for it."""


def _compact(table: Table, dry_run: bool) -> Answer:
    done = table.compact(dry_run=dry_run)
    return bool(done.plan.groups), str(done)


def _expire_partitions(table: Table, dry_run: bool) -> Answer:
    if "partition.expiration-time" not in table.options:
        return None
    plan = table.expire_partitions(dry_run=dry_run)
    return bool(plan.partitions), str(plan)


def _expire_consumers(table: Table, dry_run: bool) -> Answer:
    if "consumer.expiration-time" not in table.options:
        return None
    gone = table.expire_consumers(dry_run=dry_run)
    return bool(gone), ", ".join(one.name for one in gone) or "none"


def _tag(table: Table, dry_run: bool) -> Answer:
    plan = table.auto_tag(dry_run=dry_run)
    return (True, str(plan)) if plan.is_due else None


def _expire(table: Table, dry_run: bool) -> Answer:
    plan = table.expire(dry_run=dry_run)
    return bool(plan.snapshot_ids), str(plan)


def _clean(table: Table, dry_run: bool) -> Answer:
    plan = table.orphans() if dry_run else table.clean()
    return len(plan.files) > 0, str(plan)


_STEPS: dict[str, Callable[[Table, bool], Answer]] = {
    "expire-partitions": _expire_partitions,
    "compact": _compact,
    "expire-consumers": _expire_consumers,
    "tag": _tag,
    "expire": _expire,
    "clean": _clean,
}
