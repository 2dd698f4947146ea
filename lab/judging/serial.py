"""Serial orders: may what was found come from commits, carried out one after the other?

Owns: `Op` (one commit by keys), `State`, `order_of` (a serial order that explains what was found), and what the times and
snapshots of commits say. Must not know: tables, files, who recorded the commits. Pure.

Every value names the commit that wrote it, and after an underscore the one whose value it was made of. So a change of a row says
what it has read, and most orders are ruled out at once. The order in which the commits were published is nearly a serial one:
each is played at its place there, or as little before it as its own snapshot demands. Only where that fails, orders are searched.
"""

from __future__ import annotations

import graphlib
import random
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, TypeVar

N = TypeVar("N", bound=Hashable)

MOST_STEPS = 100_000
FARTHEST = 64
"""A commit is not tried farther than this before the place at which it was published."""


class Undecided(Exception):
    """Neither an order nor its absence was found within the steps of a search."""


@dataclass(frozen=True, slots=True)
class State:
    """What a table holds after some commits.

    Attributes:
        written: for each key the values that were written, by their commits, the newest last; "" where it was removed.
        gone: the commits that an undo or a rollback has taken back.
        whole: older values are kept, because they may come back.
    """

    written: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    gone: frozenset[str] = frozenset()
    whole: bool = False

    def value(self, key: str) -> str:
        """The value of a key, "" if it has none."""
        for commit, value in reversed(self.written.get(key, ())):
            if commit not in self.gone:
                return value
        return ""

    @property
    def values(self) -> dict[str, str]:
        return {key: value for key in self.written if (value := self.value(key))}


@dataclass(frozen=True, slots=True)
class Op:
    """One commit.

    Attributes:
        puts: what it does, in this order: `1` writes key 1, `-1` deletes it, `+1` changes the value that it has, if there is one,
            `~1` writes it if there is none, too, `*` removes all keys, and `=1:A` gives key 1 a value that it had before.
        after: the commits that had ended when it began.
        found: the commit whose value a change has read, by key; "" for none. Keys that are missing are not known.
        undoes: the commit that it takes back.
        keeps: a rollback: the commits that count afterwards; None if it is none.
        shows: the values that its own snapshot had, by key, "" for none. Keys that are missing are not known. A hint: others that
            were published later may come before it.
    """

    commit: str
    puts: tuple[str, ...]
    after: frozenset[str] = frozenset()
    found: Mapping[str, str] = field(default_factory=dict, hash=False)
    undoes: str = ""
    keeps: frozenset[str] | None = None
    shows: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def acts(self) -> bool:
        return bool(self.puts or self.undoes or self.keeps is not None)

    @property
    def takes(self) -> bool:
        return bool(self.undoes) or self.keeps is not None or any(put[0] in "*-" for put in self.puts)

    def on(self, state: State) -> State | None:
        """The table after it; None if it would have read something else.

        >>> filled = Op("B", ("2",)).on(Op("A", ("1",)).on(State()))
        >>> Op("M", ("+1", "2")).on(filled).values, Op("M", ("+1",), found={"1": "B"}).on(filled)
        ({'1': 'M_A', '2': 'M'}, None)
        """
        if not self.acts:
            return state
        if self.undoes:
            return replace(state, gone=state.gone | {self.undoes})
        if self.keeps is not None:
            there = {commit for lines in state.written.values() for commit, _ in lines}
            return replace(state, gone=frozenset(there - self.keeps))
        written = dict(state.written)
        for put in self.puts:
            for key in list(written) if put == "*" else (key_of(put),):
                before = writer_of(replace(state, written=written).value(key))
                value = self.commit
                if put[0] == "=":
                    value = put.partition(":")[2]
                elif put[0] in "*-":
                    value = ""
                elif put[0] in "+~":
                    if self.found.get(key, before) != before:
                        return None
                    if not before and put[0] == "+":
                        continue
                    value = f"{self.commit}_{before}" if before else self.commit
                written[key] = (*(written.get(key, ()) if state.whole else ()), (self.commit, value))
        return replace(state, written=written)


def writer_of(value: str) -> str:
    """The commit that wrote a value.

    >>> writer_of("M1_A1"), writer_of("")
    ('M1', '')
    """
    return value.partition("_")[0]


def key_of(put: str) -> str:
    return put.lstrip("+-~=").partition(":")[0]


def order_of(ops: Sequence[Op], values: Mapping[str, str], most: int = MOST_STEPS) -> tuple[str, ...] | None:
    """An order of all commits, each after those that it is `after`, that leaves these values; None if there is none.

    Args:
        ops: in the order in which they were published.
        most: steps, after which the search is given up, and Undecided is raised.

    >>> a, b = Op("A", ("1", "2")), Op("B", ("1", "-2"))
    >>> order_of((a, b), {"1": "A", "2": "A"}), order_of((a, b), {"1": "A"})
    (('B', 'A'), None)
    """
    order, _ = by_publication(ops, values)
    return order if order is not None else searched(ops, values, most)


def _empty(ops: Sequence[Op]) -> State:
    return State(whole=any(op.undoes or op.keeps is not None for op in ops))


def by_publication(ops: Sequence[Op], values: Mapping[str, str]) -> tuple[tuple[str, ...] | None, int]:
    """The order of publication, in which commits come as much earlier as their snapshots demand. If that leaves other values, or
    does not respect the time: None, and how many commits have a place."""
    order: list[Op] = []
    states = [_empty(ops)]
    for op in ops:
        for place in range(len(order), max(-1, len(order) - FARTHEST), -1):
            played = _played(states[place], [op, *order[place:]])
            if played and all(played[-1].value(key) == value for key, value in op.shows.items()):
                order.insert(place, op)
                states[place + 1 :] = played
                break
            if not place or order[place - 1].commit in op.after:
                return None, len(order)
        else:
            return None, len(order)
    if states[-1].values != dict(values) or not _respects_time(order):
        return None, len(order)
    return tuple(op.commit for op in order), len(order)


def _respects_time(order: Sequence[Op]) -> bool:
    names, done = {op.commit for op in order}, set[str]()
    for op in order:
        if not op.after & names <= done:
            return False
        done.add(op.commit)
    return True


def _played(state: State, ops: Iterable[Op]) -> list[State]:
    played = []
    for op in ops:
        after = op.on(state)
        if after is None:
            return []
        played.append(state := after)
    return played


def searched(ops: Sequence[Op], values: Mapping[str, str], most: int) -> tuple[str, ...] | None:
    dice = random.Random(0)
    marks, names = [dice.getrandbits(64) for _ in ops], {op.commit for op in ops}
    before = [op.after & names for op in ops]
    state = _empty(ops)
    done: set[str] = set()
    mark, steps, seen = 0, 0, set[Any]()
    path: list[tuple[int, State, Iterator[int]]] = []
    nexts = _ready(ops, before, done)
    while True:
        if len(done) == len(ops) and state.values == dict(values):
            return tuple(ops[n].commit for n, _, _ in path)
        for n in nexts:
            after = ops[n].on(state)
            if after is None:
                continue
            known = (
                mark ^ marks[n],
                frozenset(after.written.items() if after.whole else after.values.items()),
                after.gone,
            )
            if known in seen:
                continue
            seen.add(known)
            steps += 1
            if steps > most:
                raise Undecided(f"{steps} steps, {len(ops)} commits")
            path.append((n, state, nexts))
            done.add(ops[n].commit)
            mark, state = known[0], after
            nexts = _ready(ops, before, done)
            break
        else:
            if not path:
                return None
            n, state, nexts = path.pop()
            done.discard(ops[n].commit)
            mark ^= marks[n]


def _ready(ops: Sequence[Op], before: Sequence[frozenset[str]], done: set[str]) -> Iterator[int]:
    """The commits that can be the next. Those that began long after the first open one cannot, and are not looked at."""
    first = next((n for n, op in enumerate(ops) if op.commit not in done), len(ops))
    window = range(first, min(first + FARTHEST, len(ops)))
    return iter([n for n in window if ops[n].commit not in done and before[n] <= done])


def closest_before(times: Mapping[N, tuple[float, float]]) -> dict[N, frozenset[N]]:
    """For each commit those that had ended when it began, without those that an earlier one of these implies. The times
    are by one clock.
    """
    ended = sorted((end, n) for n, (_, end) in enumerate(times.values()))
    names = list(times)
    found: dict[N, frozenset[N]] = {}
    for name, (began, _) in times.items():
        earlier = [names[n] for end, n in ended if end < began and names[n] != name]
        latest = max((times[other][0] for other in earlier), default=0.0)
        found[name] = frozenset(other for other in earlier if times[other][1] >= latest)
    return found


def no_order(before: Mapping[N, Iterable[N]]) -> list[str]:
    """Why no order of the commits has each one after those that are before it; empty if there is one."""
    try:
        tuple(graphlib.TopologicalSorter(before).static_order())
    except graphlib.CycleError as cycle:
        return [f"no order of the commits leaves these rows: {cycle.args[1]}"]
    return []


def kept_by(
    commits: Sequence[tuple[str, str, int]], beside: Mapping[str, frozenset[str]] = MappingProxyType({})
) -> list[frozenset[str]]:
    """The commits that count after each, in the order of publication.

    Args:
        commits: the name of each, the one that it takes back ("" for none), and the place here of the one to which it rolls the
            table back: -1 for none, -2 for the empty table.
        beside: of a rollback those that landed while it was under way, and have stayed.
    """
    kept: list[frozenset[str]] = []
    for name, undoes, back in commits:
        before = kept[-1] if kept else frozenset[str]()
        after = beside.get(name, frozenset()) | (kept[back] if back >= 0 else frozenset())
        kept.append(after if back != -1 else (before - {undoes}) | {name})
    return kept


def values_of(rows: Iterable[str]) -> dict[str, str]:
    """The values by key of rows that are named `value~key`."""
    return {key: value for value, _, key in (row.partition("~") for row in rows)}
