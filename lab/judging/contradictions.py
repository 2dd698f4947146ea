"""Contradictions: the fewest commits of a history that no serial order explains.

Owns: `contradiction`. Must not know: tables, files, who recorded the commits, how orders are searched. Pure.

First the commits are looked at right before the one that has no place in the order of publication, then those of single keys, and
all of them last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from .serial import MOST_STEPS, Op, Undecided, by_publication, key_of, order_of, searched

EARLIER = "earlier"


def contradiction(ops: Sequence[Op], values: Mapping[str, str]) -> str:
    """The fewest commits found that no order explains, as text; empty if an order explains the values. May raise Undecided."""
    order, placed = by_publication(ops, values)
    if order is not None:
        return ""
    found = _near(ops, placed, values)
    if found is not None and _is_explained(ops, values):
        return ""
    found = found or _of_one_key(ops, values)
    if found is None and searched(ops, values, MOST_STEPS) is not None:
        return ""
    ops, values = found or (ops, values)
    size = max(1, len(ops) // 2)
    while True:
        for start in range(0, len(ops), size):
            gone, fewer = ops[start : start + size], [*ops[:start], *ops[start + size :]]
            if _says_nothing_of(gone, fewer, values) and _has_none(fewer, values, MOST_STEPS // 10):
                ops = fewer
                break
        else:
            if size == 1:
                return _told(ops, values)
            size = max(1, size // 2)


Part = tuple[list[Op], dict[str, str]]


def _near(ops: Sequence[Op], place: int, values: Mapping[str, str]) -> Part | None:
    """The commits right before one that has no place, if what its snapshot shows of a key, or of all, contradicts what was shown
    before.
    """
    shows = ops[place].shows if place < len(ops) else values
    for size in (4, 8, 16, 32):
        first = max(0, place + 1 - size)
        while first and not ops[first - 1].shows:
            first -= 1
        window = ops[first : place + 1]
        names = {op.commit for op in window}
        if any(op.keeps is not None or (op.undoes and op.undoes not in names) for op in window):
            return None
        before = ops[first - 1].shows if first else {}
        keys = sorted(before.keys() & shows.keys() if first else shows)
        touched = {key_of(put) for op in window for put in op.puts if put != "*"}.union(*(op.found for op in window))
        for some in (*((key,) for key in keys), *([tuple(keys)] if touched <= {*keys} else ())):
            busy = _busy(_of_key(window, some[0]) if len(some) == 1 else window)
            if first:
                busy = [
                    Op(EARLIER, tuple(f"={key}:{before[key]}" if before[key] else f"-{key}" for key in some)),
                    *busy,
                ]
            left = {key: shows[key] for key in some if shows.get(key)}
            if _has_none(busy, left, MOST_STEPS // 10):
                return busy, left
        if not first:
            return None
    return None


def _is_explained(ops: Sequence[Op], values: Mapping[str, str]) -> bool:
    """Whether an order explains all, although a part seems to contradict it: of several commits in one snapshot only the last one
    shows what it left, so one before the part may come into it.
    """
    if all(op.shows for op in ops if op.acts):
        return False
    try:
        return searched(ops, values, MOST_STEPS) is not None
    except Undecided:
        return False


def _of_one_key(ops: Sequence[Op], values: Mapping[str, str]) -> Part | None:
    named = {key_of(put) for op in ops for put in op.puts if put != "*"} | values.keys()
    for key in sorted(named):
        only, left = _busy(_of_key(ops, key)), {k: v for k, v in values.items() if k == key}
        if _has_none(only, left, MOST_STEPS):
            return only, left
    return None


def _has_none(ops: Sequence[Op], values: Mapping[str, str], most: int) -> bool:
    try:
        return order_of(ops, values, most) is None
    except Undecided:
        return False


def _busy(ops: Sequence[Op]) -> list[Op]:
    """Those that do something. What came before one that does nothing, comes before what came after it."""
    before: dict[str, frozenset[str]] = {}
    for op in ops:
        after = frozenset(name for earlier in op.after for name in before.get(earlier, {earlier}))
        before[op.commit] = frozenset({op.commit}) if op.acts else after
    names = {op.commit for op in ops if op.acts}
    return [
        replace(op, after=frozenset(n for earlier in op.after for n in before.get(earlier, ())) & names)
        for op in ops
        if op.acts
    ]


def _of_key(ops: Sequence[Op], key: str) -> list[Op]:
    def only(found: Mapping[str, str]) -> dict[str, str]:
        return {k: v for k, v in found.items() if k == key}

    puts = {op.commit: tuple(p for p in op.puts if p == "*" or key_of(p) == key) for op in ops}
    return [
        replace(
            op,
            puts=puts[op.commit],
            found=only(op.found),
            shows=only(op.shows),
            undoes=op.undoes if puts.get(op.undoes) else "",
        )
        for op in ops
    ]


def _says_nothing_of(gone: Sequence[Op], left: Sequence[Op], values: Mapping[str, str]) -> bool:
    """Whether nothing that stays tells of a commit that goes: names it, or that a row is missing which it may have taken away."""
    names = {op.commit for op in gone}
    told = {name for value in values.values() for name in value.split("_")}
    told |= {name for op in left for name in op.found.values()}
    if EARLIER in names:
        return False
    is_missed = (not values or "" in told) and any(op.takes for op in gone)
    return not is_missed and names.isdisjoint(told | {op.undoes for op in left})


def _told(ops: Sequence[Op], values: Mapping[str, str]) -> str:
    names = {op.commit for op in ops}

    def line(op: Op) -> str:
        does = " ".join(op.puts)
        if op.undoes:
            does = f"undo of {op.undoes}"
        elif op.keeps is not None:
            does = f"back to {' '.join(sorted(op.keeps & names)) or 'nothing'}"
        read = "".join(f", found key {k} {f'of {v}' if v else 'absent'}" for k, v in sorted(op.found.items()))
        later = f", after {' '.join(sorted(op.after & names))}" if op.after & names else ""
        return f"  {op.commit}: {does}{read}{later}"

    left = ", ".join(f"{key} = {value}" for key, value in sorted(values.items())) or "no rows"
    return "\n".join([f"no serial order of {len(ops)} commits leaves {left}:", *map(line, ops)])
