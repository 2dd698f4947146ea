"""Processes that read, change, replace and remove a few keys of one table at once, and write down what they did and when.

Each value names the commit that wrote it, and the one whose value it was made of. So the table that is left, and what each change
has found, tell whether there is a serial order of all commits that respects the time (`lakelatch.lab.serial`).
"""

from __future__ import annotations

import multiprocessing
import random
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

import lakelatch as ll
from lakelatch.core.errors import CommitConflict, InvalidArgument, OutcomeUnknown, RetriesExhausted
from lakelatch.lab.mutants_of_keys import KEYS as KEYS_MUTANTS
from lakelatch.lab.serial import Op, closest_before, contradiction

KEYS = (1, 2, 3, 4)
SCHEMA = pa.schema([("id", pa.int64()), ("w", pa.string()), ("p", pa.string())])
NEW_KEYS = 1_000
"""Appended rows of a table without a primary key have keys of their own, from this one on."""


@dataclass(frozen=True)
class Record:
    """One commit that was told as committed.

    Attributes:
        began, ended: by the one clock of this machine.
        found: as for `Op`.
    """

    commit: str
    puts: tuple[str, ...]
    began: float
    ended: float
    found: dict[str, str] = field(default_factory=dict)


@dataclass
class Job:
    """One process, which commits until its time is over."""

    table: ll.Table
    name: str
    keyed: bool
    dice: random.Random
    done: list[Record] = field(default_factory=list)

    def run(self, most: int, seconds: float) -> list[Record]:
        """Commit so often, or until the time is over."""
        until = time.monotonic() + seconds
        for count in range(1, most + 1):
            if time.monotonic() < until:
                self._once(f"{self.name}{count}", count)
        return self.done

    def _once(self, commit: str, count: int) -> None:
        kinds = (
            "write",
            "write",
            "delete",
            "update",
            "update",
            "merge",
            "merge",
            "overwrite",
            "truncate",
            "compact",
            "rollback",
        )
        weights = (4, 4, 2, 5, 5, 4, 4, 1, 0.5, 2, 1)
        (kind,) = self.dice.choices(kinds, weights)
        keys = sorted(self.dice.sample(KEYS, self.dice.choice((1, 1, 2))))
        began = time.monotonic()
        try:
            puts, receipt = getattr(self, f"_{kind}")(commit, keys, count)
        except (CommitConflict, RetriesExhausted):
            return
        except InvalidArgument as error:  # nothing was committed between the look and the rollback
            assert "nothing to roll back" in error.message
            return
        except OutcomeUnknown as unknown:
            puts, receipt = self._puts, unknown.resolve(60)
        if puts:
            ended = time.monotonic()
            changed = [put[1:] for put in puts if put[0] in "+~"]
            found = self._found(commit, changed, receipt.snapshot_id) if changed else {}
            self.done.append(Record(commit, tuple(puts), began, ended, found))

    def _tells(self, *puts: str) -> tuple[str, ...]:
        self._puts = puts
        return puts

    def _found(self, commit: str, keys: list[str], snapshot: int) -> dict[str, str]:
        """The commits whose values it has changed, as its own snapshot shows."""
        rows = self.table.at(snapshot=snapshot).to_arrow().to_pylist()
        ours = {str(row["id"]): row["p"] or "" for row in rows if row["w"] == commit}
        return {key: ours.get(key, "") for key in keys}

    def _write(self, commit: str, keys: list[int], count: int) -> Any:
        if self.keyed:
            return self._tells(*map(str, keys)), self.table.upsert(rows(commit, keys))
        new = [NEW_KEYS + self.dice.randrange(1 << 40)]
        return self._tells(*map(str, new)), self.table.append(rows(commit, new))

    def _delete(self, commit: str, keys: list[int], count: int) -> Any:
        puts = self._tells(*(f"-{key}" for key in keys))
        if self.keyed and count % 2:
            return puts, self.table.delete(rows(commit, keys).select(["id"]))
        return puts, self.table.delete(where=_among(keys))

    def _update(self, commit: str, keys: list[int], count: int) -> Any:
        puts = self._tells(*(f"+{key}" for key in keys))
        return puts, self.table.update(where=_among(keys), set={"p": "w", "w": f"'{commit}'"})

    def _merge(self, commit: str, keys: list[int], count: int) -> Any:
        puts = self._tells(*(f"~{key}" for key in keys))
        merge = self.table.merge(rows(commit, keys), on=["id"]).when_matched_update({"p": "t.w", "w": "s.w"})
        return puts, merge.when_not_matched_insert_all().execute()

    def _overwrite(self, commit: str, keys: list[int], count: int) -> Any:
        return self._tells("*", *map(str, keys)), self.table.overwrite(rows(commit, keys))

    def _truncate(self, commit: str, keys: list[int], count: int) -> Any:
        return self._tells("*"), self.table.truncate()

    def _compact(self, commit: str, keys: list[int], count: int) -> Any:
        return self._tells(), self.table.compact(full=True)

    def _rollback(self, commit: str, keys: list[int], count: int) -> Any:
        older = self.table.snapshots()[:-1]
        if not older:
            return self._tells(), None
        chosen = older[-self.dice.randint(1, min(4, len(older)))].id
        back = values_of(self.table.at(snapshot=chosen))
        return self._tells("*", *(f"={key}:{value}" for key, value in back.items())), self.table.rollback(
            snapshot=chosen
        )


def _among(keys: list[int]) -> str:
    return f"id IN ({', '.join(map(str, keys))})"


def rows(commit: str, keys: list[int]) -> pa.Table:
    return pa.table({"id": keys, "w": [commit] * len(keys), "p": [None] * len(keys)}, SCHEMA)


def values_of(table: ll.Table) -> dict[str, str]:
    """The values by key; a key that is there twice has a value that no commit wrote."""
    found: dict[str, str] = {}
    for row in table.to_arrow().to_pylist():
        key = str(row["id"])
        value = f"{row['w']}_{row['p']}" if row["p"] else row["w"]
        found[key] = f"{found[key]} and {value}" if key in found else value
    return found


def work(
    url: str, given: dict[str, Any], name: str, most: int, seconds: float, keyed: bool, seed: int, bug: str
) -> list[Record]:
    """One process, with a planted bug if one is named."""
    with next((m.planted() for m in KEYS_MUTANTS if m.name == bug), nullcontext()):
        table = ll.open_table(url, storage_options=given)
        return Job(table, name, keyed, random.Random(f"{seed} {name}")).run(most, seconds)


@dataclass(frozen=True)
class History:
    """What the processes did, and what is wrong with it."""

    commits: int
    wrong: str

    def __str__(self) -> str:
        return f"{self.commits} commits{': ' + self.wrong if self.wrong else ', which have a serial order'}"


def history(
    url: str,
    given: dict[str, Any],
    options: dict[str, str],
    *,
    keyed: bool,
    processes: int,
    most: int,
    seconds: float,
    seed: int = 1,
    bug: str = "",
) -> History:
    """Run the processes on a new table, and judge what is left."""
    table = ll.create_table(url, SCHEMA, primary_key=["id"] if keyed else None, options=options, storage_options=given)
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        running = [
            pool.submit(work, url, given, f"{chr(65 + n)}x", most, seconds, keyed, seed, bug) for n in range(processes)
        ]
        records = sorted((r for job in running for r in job.result()), key=lambda r: r.began)
    after = closest_before({r.commit: (r.began, r.ended) for r in records})
    ops = [Op(r.commit, r.puts, after[r.commit], r.found) for r in records]
    left = values_of(ll.open_table(url, storage_options=given))
    findings = [str(finding) for finding in table.verify()]
    return History(len(ops), contradiction(ops, left) or "; ".join(findings))
