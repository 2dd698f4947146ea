"""Serial orders: may what was found come from commits, carried out one after the other?

Owns: `Op` (one commit by keys), `order_of` (a serial order that explains what was found), `contradiction` (the fewest commits
that no order explains). Must not know: tables, files, who recorded the commits. Pure.

Every value names the commit that wrote it, and after an underscore the one whose value it was made of. So a change of a row says
what it has read, and most orders are ruled out at once.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

MOST_STEPS = 100_000
"""So many steps of a search decide nothing: then it is given up."""


class Undecided(Exception):
    """Neither an order nor its absence was found within the steps of a search."""


@dataclass(frozen=True, slots=True)
class Op:
    """One commit.

    Attributes:
        puts: what it does, in this order: `1` writes key 1, `-1` deletes it, `+1` changes the value that it has, if there is one,
            `~1` writes it if there is none, too, `*` removes all keys,
            and `=1:A` gives key 1 a value that was there before, as a rollback does.
        after: the commits that had ended when it began.
        found: the commit whose value a change has read, by key; "" for none. Keys that are missing are not known.
    """

    commit: str
    puts: tuple[str, ...]
    after: frozenset[str] = frozenset()
    found: Mapping[str, str] = field(default_factory=dict, hash=False)

    def on(self, state: Mapping[str, str]) -> dict[str, str] | None:
        """The values by key after it; None if it would have read something else.

        >>> Op("M", ("+1", "2")).on({"1": "A", "2": "B"}), Op("M", ("+1",), found={"1": "B"}).on({"1": "A"})
        ({'1': 'M_A', '2': 'M'}, None)
        """
        after = dict(state)
        for put in self.puts:
            key = put.lstrip("+-=~")
            if put == "*":
                after.clear()
            elif put[0] == "=":
                key, _, value = key.partition(":")
                after[key] = value
            elif put[0] == "-":
                after.pop(key, None)
            elif put[0] in "+~":
                before = writer_of(after.get(key, ""))
                if self.found.get(key, before) != before:
                    return None
                if before or put[0] == "~":
                    after[key] = f"{self.commit}_{before}" if before else self.commit
            else:
                after[key] = self.commit
        return after


def writer_of(value: str) -> str:
    """The commit that wrote a value.

    >>> writer_of("M1_A1"), writer_of("")
    ('M1', '')
    """
    return value.partition("_")[0]


def order_of(ops: Sequence[Op], values: Mapping[str, str], most: int = MOST_STEPS) -> tuple[str, ...] | None:
    """An order of all commits, each after those that it is `after`, that leaves these values; None if there is none.

    Args:
        ops: tried in this order first.
        most: steps, after which the search is given up.

    Raises:
        Undecided: there are too many orders.

    >>> a, b = Op("A", ("1", "2")), Op("B", ("1", "-2"))
    >>> order_of((a, b), {"1": "A", "2": "A"}), order_of((a, b), {"1": "A"})
    (('B', 'A'), None)
    """
    dice = random.Random(0)
    marks, names = [dice.getrandbits(64) for _ in ops], {op.commit for op in ops}
    before = [op.after & names for op in ops]
    state: dict[str, str] = {}
    done: set[str] = set()
    mark, steps, seen = 0, 0, set[tuple[int, frozenset[tuple[str, str]]]]()
    path: list[tuple[int, dict[str, str], Iterator[int]]] = []
    nexts = _ready(ops, before, done)
    while True:
        if len(done) == len(ops) and state == dict(values):
            return tuple(ops[n].commit for n, _, _ in path)
        for n in nexts:
            after = ops[n].on(state)
            known = (mark ^ marks[n], frozenset(after.items())) if after is not None else None
            if after is None or known is None or known in seen:
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
    window = range(first, min(first + 64, len(ops)))
    return iter([n for n in window if ops[n].commit not in done and before[n] <= done])


def contradiction(ops: Sequence[Op], values: Mapping[str, str]) -> str:
    """Empty if some order explains the values; else the fewest commits found that no order explains, as text.

    Raises:
        Undecided: see `order_of`.
    """
    found = _of_one_key(ops, values)
    if found is None and order_of(ops, values) is not None:
        return ""
    ops, values = found or (ops, values)
    size = max(1, len(ops) // 2)
    while True:
        for start in range(0, len(ops), size):
            fewer = [*ops[:start], *ops[start + size :]]
            if _names_none_of(ops[start : start + size], fewer, values) and order_of(fewer, values) is None:
                ops = fewer
                break
        else:
            if size == 1:
                return _told(ops, values)
            size = max(1, size // 2)


def _of_one_key(ops: Sequence[Op], values: Mapping[str, str]) -> tuple[list[Op], dict[str, str]] | None:
    """What concerns a key that no order explains: most contradictions need no more, and are found sooner that way."""
    named = {put.lstrip("+-=~").partition(":")[0] for op in ops for put in op.puts if put != "*"} | values.keys()
    for key in sorted(named):
        only, left = (
            _busy([_of_keys(op, frozenset({key})) for op in ops]),
            {k: v for k, v in values.items() if k == key},
        )
        if order_of(only, left) is None:
            return only, left
    return None


def _busy(ops: Sequence[Op]) -> list[Op]:
    """Those that do something. What came before one that does nothing, comes before what came after it."""
    before: dict[str, frozenset[str]] = {}
    for op in ops:
        after = frozenset(name for earlier in op.after for name in before.get(earlier, {earlier}))
        before[op.commit] = frozenset({op.commit}) if op.puts else after
    names = {op.commit for op in ops if op.puts}
    return [
        replace(op, after=frozenset(n for earlier in op.after for n in before.get(earlier, ())) & names)
        for op in ops
        if op.puts
    ]


def _of_keys(op: Op, keys: frozenset[str]) -> Op:
    puts = tuple(p for p in op.puts if p == "*" or p.lstrip("+-=~").partition(":")[0] in keys)
    return replace(op, puts=puts, found={k: v for k, v in op.found.items() if k in keys})


def _names_none_of(gone: Sequence[Op], left: Sequence[Op], values: Mapping[str, str]) -> bool:
    """Whether nothing that stays tells of a commit that goes."""
    names = {op.commit for op in gone}
    told = {name for value in values.values() for name in value.split("_")}
    told |= {name for op in left for name in op.found.values()}
    return names.isdisjoint(told)


def _told(ops: Sequence[Op], values: Mapping[str, str]) -> str:
    names = {op.commit for op in ops}

    def line(op: Op) -> str:
        read = "".join(f", found key {k} {f'of {v}' if v else 'absent'}" for k, v in sorted(op.found.items()))
        later = f", after {' '.join(sorted(op.after & names))}" if op.after & names else ""
        return f"  {op.commit}: {' '.join(op.puts)}{read}{later}"

    left = ", ".join(f"{key} = {value}" for key, value in sorted(values.items())) or "no rows"
    return "\n".join([f"no serial order of {len(ops)} commits leaves {left}:", *map(line, ops)])


def closest_before(times: Mapping[str, tuple[float, float]]) -> dict[str, frozenset[str]]:
    """For each commit those that had ended when it began, without those that had ended when one of these began.

    Args:
        times: when each began and ended, by one clock.
    """
    ended = sorted((end, name) for name, (_, end) in times.items())
    found: dict[str, frozenset[str]] = {}
    for name, (began, _) in times.items():
        earlier = [other for end, other in ended if end < began and other != name]
        latest = max((times[other][0] for other in earlier), default=0.0)
        found[name] = frozenset(other for other in earlier if times[other][1] >= latest)
    return found


def values_of(rows: Iterable[str]) -> dict[str, str]:
    """The values by key of rows that are named `value~key`."""
    return {key: value for value, _, key in (row.partition("~") for row in rows)}
