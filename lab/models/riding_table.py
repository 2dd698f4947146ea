"""What the model of riding is made of: the rules, the jobs, and a table with its snapshots, intents and processes.

Owns: these values, and what readers find in a snapshot. Must not know: who does what when.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

WINDOW = 2
"""An intent holds for as many ids above the snapshot that it was registered on."""


@dataclass(frozen=True)
class Rules:
    """The rules of the safe protocol. A tempting variant turns one of them off.

    Attributes:
        apart: a leader takes riders whose numbers do not meet its own, nor those of another rider, in a bucket that both write.
        apart_from_base: nor those of the snapshot that came since the rider registered.
        one_number: a commit's numbers begin with the same one in all its buckets.
        onto_appends: it takes no rider that registered below a compaction or an overwrite.
        after_reads: nor one below a commit that has read rows, unless the rider's numbers are above all that that one saw.
        same_buckets: nor one with another number of buckets.
        chosen_anew: a leader that lost a race chooses its riders anew.
        ids_by_leader: the leader gives its riders their row ids, on the base that it publishes on.
        marks_of_carried: a snapshot's watermark is the largest one of those that it carries and of its base.
        closing: how a rider that gives up closes its window: by a snapshot in each of its ids, its own without rows where others
            have none ("each id"); by one that names it as closed ("named"), or does not ("one snapshot"); it deletes its intent
            ("withdraws").
        looks_before_closing: a rider that loses the race for its closing snapshot looks whether the winner carries it.
    """

    apart: bool = True
    apart_from_base: bool = True
    one_number: bool = True
    onto_appends: bool = True
    after_reads: bool = True
    same_buckets: bool = True
    chosen_anew: bool = True
    ids_by_leader: bool = True
    marks_of_carried: bool = True
    closing: str = "each id"
    looks_before_closing: bool = True


SAFE = Rules()


class Job(NamedTuple):
    """What a process does, once.

    Attributes:
        does: `write`, `update` (reads its keys and writes what it made of them), `compact`, or `rescale`.
        rows: such as "a+ b-": puts key a, deletes key b. Each letter is a key in a bucket of its own. "a+++" is the last of
            three rows of that bucket.
        jumps: how far above the newest number its own may begin: a clock that runs ahead.
        rides: it asks to be carried. `first`: before it has lost a race.
        leads: it looks whom it can carry. `old`: it is of a version that does not know riders which were named as closed.
        gives_up: it may give up while its intent is open.
        mark: its watermark; 0 for none.
        ids: how many row ids it needs.
        after: the jobs that must have ended before it begins.
    """

    does: str
    rows: str = ""
    jumps: tuple[int, ...] = (0,)
    rides: bool = False
    first: bool = False
    leads: bool = False
    old: bool = False
    gives_up: bool = False
    mark: int = 0
    ids: int = 0
    after: tuple[int, ...] = ()


class Row(NamedTuple):
    bucket: str
    number: int
    put: bool
    who: int


class Span(NamedTuple):
    bucket: str
    first: int
    last: int


class Part(NamedTuple):
    """One commit in a snapshot."""

    who: int
    spans: tuple[Span, ...]
    rows: tuple[Row, ...]
    buckets: int
    mark: int
    ids: tuple[int, int]


class Snapshot(NamedTuple):
    kind: str
    reads: bool
    parts: tuple[Part, ...]
    closed: frozenset[int]
    live: frozenset[Row]
    top: int
    buckets: int
    mark: int
    next_id: int


class Intent(NamedTuple):
    part: Part
    base: int


class Process(NamedTuple):
    """Attributes:
    base: the id of the snapshot that it builds on; `begun`: of the one above which its numbers were taken.
    asked: the snapshot that it registered on; 0 for none.
    seen: the jobs that had ended before it began; `found`: what an update has read.
    """

    at: str = "idle"
    base: int = 0
    begun: int = 0
    part: Part | None = None
    riders: tuple[Part, ...] = ()
    asked: int = 0
    told: str = ""
    seen: frozenset[int] = frozenset()
    found: tuple[tuple[str, int], ...] = ()


class State(NamedTuple):
    history: tuple[Snapshot, ...]
    intents: frozenset[Intent]
    processes: tuple[Process, ...]


Step = tuple[str, tuple[Snapshot, ...], frozenset[Intent], Process]
"""What a process does, and the table, the intents and the process after it."""
EMPTY = Snapshot("APPEND", False, (), frozenset(), frozenset(), 0, 1, 0, 0)
NOBODY = -1


def apart(one: Part, other: Part) -> bool:
    """Whether one of two commits is the older one in all buckets that both have written."""
    theirs = {span.bucket: span for span in other.spans}
    both = [(span, theirs[span.bucket]) for span in one.spans if span.bucket in theirs]
    return all(a.last < b.first for a, b in both) or all(b.last < a.first for a, b in both)


def view(live: frozenset[Row]) -> dict[str, int]:
    """Who wrote the row of each key that readers find."""
    newest: dict[str, Row] = {}
    for row in live:
        if row.bucket not in newest or newest[row.bucket].number < row.number:
            newest[row.bucket] = row
    return {bucket: row.who for bucket, row in newest.items() if row.put}


def name(who: int) -> str:
    return "ABCDEFG"[who]


def parsed(rows: str) -> list[tuple[str, bool, int]]:
    """Bucket, whether its row is put, and how many numbers it takes: of a text as in `Job.rows`.

    >>> parsed("a+ b-")
    [('a', True, 1), ('b', False, 1)]
    """
    return [(text[0], text[-1] == "+", len(text) - 1) for text in rows.split()]


def landed(state: State, who: int) -> bool:
    return any(part.who == who for snapshot in state.history for part in snapshot.parts)
