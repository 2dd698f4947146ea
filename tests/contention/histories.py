"""Processes that read, change, replace, remove, undo and clone a few keys of one table at once, and write down what they did.

Each value names the commit that wrote it, and the one whose value it was made of. So the table that is left, and what each change
has found, tell whether there is a serial order of all commits that respects the time (`lakelatch.lab.judging.serial`).
"""

from __future__ import annotations

import multiprocessing
import pickle
import random
import time
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

import lakelatch as ll
from lakelatch.core.errors import CommitConflict, InvalidArgument, LakelatchError, OutcomeUnknown, RetriesExhausted
from lakelatch.lab.actors.undoing import UNDOS
from lakelatch.lab.bugs.clones import CLONES
from lakelatch.lab.bugs.keys import KEYS as OF_KEYS
from lakelatch.lab.judging.contradictions import contradiction
from lakelatch.lab.judging.serial import Op, closest_before, kept_by, key_of, writer_of

KEYS = (1, 2, 3, 4)
SCHEMA = pa.schema([("id", pa.int64()), ("w", pa.string()), ("p", pa.string())])
NEW_KEYS = 1_000
"""Appended rows of a table without a primary key have keys of their own, from this one on."""


KINDS = {
    "write": 8,
    "delete": 2,
    "update": 10,
    "merge": 8,
    "overwrite": 1,
    "truncate": 0.5,
    "compact": 2,
    "rollback": 1,
    "undo": 3,
    "clone": 0.3,
}
"""What a job does, and how often."""
WITHOUT_KEYS = KINDS | {"write": 50, "undo": 8, "clone": 2}
"""The same for a table whose appends may ride with each other: they do so only while many append."""
COPIED = {"write": 12, "clone": 3}
"""The same where nothing but clones beside riders is looked at."""
UNDONE = {"write": 30, "undo": 10}
"""The same where nothing but undoing riders is looked at."""


@dataclass
class Record:
    """One commit that was told as committed.

    Attributes:
        snapshot: in which it landed.
        began, ended: by the one clock of this machine.
        puts, found, undoes, shows: as for `Op`.
        back_to: the snapshot to which it rolls the table back, 0 if it does not.
        receipt: by which it can be taken back.
    """

    commit: str
    puts: tuple[str, ...] = ()
    undoes: str = ""
    back_to: int = 0
    began: float = 0.0
    ended: float = 0.0
    snapshot: int = 0
    found: dict[str, str] = field(default_factory=dict)
    shows: dict[str, str] = field(default_factory=dict)
    receipt: Any = None


@dataclass
class Job:
    """One process, which commits until its time is over.

    Attributes:
        kinds: what it does, and how often.
        done: its commits.
        wrong: what is wrong with the clones that it made.
    """

    table: ll.Table
    name: str
    keyed: bool
    dice: random.Random
    given: dict[str, Any]
    kinds: Mapping[str, float]
    done: list[Record] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def run(self, most: int, seconds: float) -> tuple[list[Record], list[str]]:
        """Commit so often, or until the time is over."""
        until = time.monotonic() + seconds
        for count in range(1, most + 1):
            if time.monotonic() < until:
                self._once(f"{self.name}{count}", count)
        return self.done, self.wrong

    def _once(self, commit: str, count: int) -> None:
        (kind,) = self.dice.choices(list(self.kinds), list(self.kinds.values()))
        keys = sorted(self.dice.sample(KEYS, self.dice.choice((1, 1, 2))))
        record = self._record = Record(commit, began=time.monotonic())
        try:
            receipt = getattr(self, f"_{kind}")(commit, keys, count)
        except (CommitConflict, RetriesExhausted):
            return
        except (
            InvalidArgument
        ) as error:  # nothing was committed between the look and the rollback, or the commit to be undone
            assert "nothing to roll back" in error.message or "nothing to undo" in error.message, error
            return
        except OutcomeUnknown as unknown:
            receipt = unknown.resolve(60)
        if record.puts or record.undoes or record.back_to:
            record.ended, record.snapshot, record.receipt = time.monotonic(), receipt.snapshot_id, receipt
            self._look(record)
            self.done.append(record)

    def _look(self, record: Record) -> None:
        """What its own snapshot shows: the values of the few keys, and the commits whose values it has changed. Where it takes
        rows away, those that were added meanwhile have stayed: they all show that it comes before them."""
        rows = self.table.at(snapshot=record.snapshot).to_arrow().to_pylist()
        values = {str(row["id"]): row for row in rows}
        takes = "*" in record.puts or record.undoes or record.back_to
        for key in {*map(str, KEYS), *(key_of(put) for put in record.puts if put != "*"), *(values if takes else ())}:
            row = values.get(key)
            record.shows[key] = value_of(row) if row else ""
            if f"+{key}" in record.puts or f"~{key}" in record.puts:
                record.found[key] = row["p"] or "" if row and row["w"] == record.commit else ""

    def _puts(self, *puts: str) -> None:
        self._record.puts = puts

    def _write(self, commit: str, keys: list[int], count: int) -> Any:
        if self.keyed:
            self._puts(*map(str, keys))
            return self.table.upsert(rows(commit, keys))
        new = [NEW_KEYS + self.dice.randrange(1 << 40)]
        self._puts(*map(str, new))
        return self.table.append(rows(commit, new))

    def _delete(self, commit: str, keys: list[int], count: int) -> Any:
        self._puts(*(f"-{key}" for key in keys))
        if self.keyed and count % 2:
            return self.table.delete(rows(commit, keys).select(["id"]))
        return self.table.delete(where=_among(keys))

    def _update(self, commit: str, keys: list[int], count: int) -> Any:
        self._puts(*(f"+{key}" for key in keys))
        return self.table.update(where=_among(keys), set={"p": "w", "w": f"'{commit}'"})

    def _merge(self, commit: str, keys: list[int], count: int) -> Any:
        self._puts(*(f"~{key}" for key in keys))
        merge = self.table.merge(rows(commit, keys), on=["id"]).when_matched_update({"p": "t.w", "w": "s.w"})
        return merge.when_not_matched_insert_all().execute()

    def _overwrite(self, commit: str, keys: list[int], count: int) -> Any:
        self._puts("*", *map(str, keys))
        return self.table.overwrite(rows(commit, keys))

    def _truncate(self, commit: str, keys: list[int], count: int) -> Any:
        self._puts("*")
        return self.table.truncate()

    def _compact(self, commit: str, keys: list[int], count: int) -> Any:
        return self.table.compact(full=True)

    def _rollback(self, commit: str, keys: list[int], count: int) -> Any:
        older = self.table.snapshots()[:-1]
        if not older:
            return None
        chosen = older[-self.dice.randint(1, min(4, len(older)))].id
        self._record.back_to = chosen
        return self.table.rollback(snapshot=chosen)

    def _undo(self, commit: str, keys: list[int], count: int) -> Any:
        """Take back one of the own commits, if there is one then one that has ridden with those of others."""
        own = [record for record in self.done[-8:] if record.puts]
        if not own:
            return None
        rode = [record for record in own if record.receipt.riders or record.receipt.leader]
        meant = self.dice.choice(rode or own)
        self._record.undoes = meant.commit
        return self.table.undo(meant.receipt)

    def _clone(self, commit: str, keys: list[int], count: int) -> None:
        place = f"{self.table.url}-{commit}"
        try:
            self.table.clone(place)
            self._use(place, commit)
        except (CommitConflict, RetriesExhausted, OutcomeUnknown):
            return
        except LakelatchError as error:
            self.wrong.append(f"the clone {commit} fails: {error}")

    def _use(self, place: str, commit: str) -> None:
        """Write to a clone as one who knows of others, and looks whom it can carry."""
        copy = ll.open_table(place, storage_options=self.given)
        snapshots = copy.snapshots()
        if not snapshots:
            return
        wanted = values_of(self.table.at(snapshot=snapshots[-1].id)) | {str(NEW_KEYS): commit}
        copy.committer.meet(1, 0.001)
        (copy.upsert if self.keyed else copy.append)(rows(commit, [NEW_KEYS]))
        left = values_of(copy)
        if left != wanted:
            more, less = sorted(left.items() - wanted.items()), sorted(wanted.items() - left.items())
            self.wrong.append(f"the clone {commit} has {more}, which nobody wrote there, and not {less}")


def _among(keys: list[int]) -> str:
    return f"id IN ({', '.join(map(str, keys))})"


def rows(commit: str, keys: list[int]) -> pa.Table:
    return pa.table({"id": keys, "w": [commit] * len(keys), "p": [None] * len(keys)}, SCHEMA)


def value_of(row: dict[str, Any]) -> str:
    return f"{row['w']}_{row['p']}" if row["p"] else row["w"]


def values_of(table: ll.Table) -> dict[str, str]:
    """The values by key; a key that is there twice has a value that no commit wrote."""
    found: dict[str, str] = {}
    for row in table.to_arrow().to_pylist():
        key = str(row["id"])
        value = value_of(row)
        found[key] = f"{found[key]} and {value}" if key in found else value
    return found


def work(
    url: str,
    given: dict[str, Any],
    name: str,
    most: int,
    seconds: float,
    keyed: bool,
    seed: int,
    bug: str,
    kinds: Mapping[str, float],
) -> tuple[list[Record], list[str]]:
    """One process, with a planted bug if one is named."""
    with next((m.planted() for m in (*OF_KEYS, *UNDOS, *CLONES) if m.name == bug), nullcontext()):
        table = ll.open_table(url, storage_options=given)
        return Job(table, name, keyed, random.Random(f"{seed} {name}"), given, kinds).run(most, seconds)


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
    kinds: Mapping[str, float] | None = None,
    kept: Path | None = None,
) -> History:
    """Run the processes on a new table, and judge what is left.

    Args:
        kept: a file that gets the commits and the rows at the end, before they are judged: `judged_again` reads it.
    """
    kinds = kinds or (KINDS if keyed else WITHOUT_KEYS)
    table = ll.create_table(url, SCHEMA, primary_key=["id"] if keyed else None, options=options, storage_options=given)
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        running = [
            pool.submit(work, url, given, f"{chr(65 + n)}x", most, seconds, keyed, seed, bug, kinds)
            for n in range(processes)
        ]
        ended = [job.result() for job in running]
    records = sorted((r for done, _ in ended for r in done), key=lambda r: (r.snapshot, r.began))
    wrong = [line for _, lines in ended for line in lines] + [str(finding) for finding in table.verify()]
    ops, left = ops_of(records), values_of(ll.open_table(url, storage_options=given))
    if kept is not None:
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_bytes(pickle.dumps((records, left)))
    return History(len(records), "; ".join(wrong) or contradiction(ops, left))


def judged_again(kept: Path) -> History:
    """What is to be said of a history that was kept."""
    records, left = pickle.loads(kept.read_bytes())
    return History(len(records), contradiction(ops_of(records), left))


def _stays(one: Record, back: Record) -> bool:
    """Has a commit landed while a rollback was under way, and does the rollback's snapshot show what it did?

    Where it removed rows that are not there, it does not matter whether it counts, until somebody goes back to that snapshot.
    """
    if one.ended < back.began or one.snapshot > back.snapshot or one is back:
        return False
    removes = all(put[0] in "*-" for put in one.puts) and not (one.undoes or one.back_to)
    removed = [key for put in one.puts for key in (back.shows if put == "*" else [key_of(put)])]
    if removes and removed:
        return not any(back.shows.get(key) for key in removed)
    return one.commit in map(writer_of, back.shows.values())


def ops_of(records: list[Record]) -> list[Op]:
    """The commits, in the order of their snapshots. What a snapshot shows, shows the last one in it."""
    after = closest_before({r.commit: (r.began, r.ended) for r in records})
    last = {r.snapshot: place for place, r in enumerate(records)}

    def place_of(back_to: int) -> int:
        return max((place for snapshot, place in last.items() if snapshot <= back_to), default=-2)

    beside = {r.commit: frozenset(c.commit for c in records if _stays(c, r)) for r in records if r.back_to}
    backs = [place_of(r.back_to) if r.back_to else -1 for r in records]
    commits = [(r.commit, r.undoes, back) for r, back in zip(records, backs, strict=True)]
    kept = kept_by(commits, beside)
    return [
        Op(
            r.commit,
            r.puts,
            after[r.commit],
            r.found,
            r.undoes,
            (kept[backs[place]] if backs[place] >= 0 else frozenset()) if r.back_to else None,
            r.shows if last[r.snapshot] == place else {},
        )
        for place, r in enumerate(records)
    ]
