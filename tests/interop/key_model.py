"""What a table with a primary key holds after random writes, worked out from the rows alone, one after the other.

Owns: merge engines with their kinds of rows, and the rule by which a row changes the one that has its key, where such a rule
is short. Must not know: lakelatch, Java, files, sequence numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Values = Mapping[str, Any]
"""Encoded values by the name that a column had at first; columns that a row's writer did not know are missing."""
Fold = Callable[["Values | None", str, Values], "Values | None"]
"""(the row that has the key, kind of the new row, new row) to the row that the key has then."""

ADDS = ("+I", "+U")
DELETES = ("+I", "+U", "-D")
EVERY_KIND = ("+I", "+I", "+U", "-U", "-D")


def replaced(old: Values | None, kind: str, new: Values) -> Values | None:
    return new if kind in ADDS else None


def replaced_never_deleted(old: Values | None, kind: str, new: Values) -> Values | None:
    return new if kind in ADDS else old


def replaced_whatever_was_before(old: Values | None, kind: str, new: Values) -> Values | None:
    return old if kind == "-U" else replaced(old, kind, new)


def replaced_by_larger_v(old: Values | None, kind: str, new: Values) -> Values | None:
    return new if old is None or (new["v"] or 0) >= (old["v"] or 0) else old


def first(old: Values | None, kind: str, new: Values) -> Values | None:
    return old if old is not None or kind not in ADDS else new


def filled(old: Values | None, kind: str, new: Values) -> Values | None:
    """Values that are not null replace older ones."""
    if kind not in ADDS:
        return None
    return {**(old or {}), **{name: value for name, value in new.items() if value is not None}}


def summed(old: Values | None, kind: str, new: Values) -> Values | None:
    """The sum of `v`, the maximum of `s`, the last value of other columns that is not null."""
    merged = filled(old, kind, new)
    if merged is None or old is None:
        return merged
    both = {name: [row[name] for row in (old, new) if row.get(name) is not None] for name in ("v", "s")}
    return {**merged, "v": sum(both["v"]) if both["v"] else None, "s": max(both["s"], default=None)}


@dataclass(frozen=True)
class Engine:
    """A merge engine.

    Attributes:
        kinds: of rows that it takes.
        fold: None where the rule is long: then Java's rows are what lakelatch's are compared with.
    """

    options: Mapping[str, str]
    kinds: tuple[str, ...]
    fold: Fold | None = None

    @property
    def deletes(self) -> bool:
        """Can rows be deleted by their key alone?"""
        return "-D" in self.kinds and self.fold is not None and "ignore-delete" not in self.options

    @property
    def removes(self) -> bool:
        """A deleted row's values come back if its delete is merged with a newer row before it has met the deleted row."""
        return any("remove-record-on-delete" in name for name in self.options)

    @property
    def is_first_row(self) -> bool:
        return self.options.get("merge-engine") == "first-row"


_SUMS = {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum", "fields.s.aggregate-function": "max"}
_PARTIAL = {"merge-engine": "partial-update"}
ENGINES = [
    Engine({}, EVERY_KIND, replaced),
    Engine({"ignore-delete": "true"}, EVERY_KIND, replaced_never_deleted),
    Engine({"ignore-update-before": "true"}, EVERY_KIND, replaced_whatever_was_before),
    Engine({"sequence.field": "v"}, ADDS, replaced_by_larger_v),
    Engine({"sequence.field": "v,s"}, EVERY_KIND),
    Engine({"merge-engine": "first-row", "ignore-delete": "true"}, EVERY_KIND, first),
    Engine(_PARTIAL, ADDS, filled),
    Engine({**_PARTIAL, "partial-update.remove-record-on-delete": "true"}, DELETES),
    Engine({**_PARTIAL, "fields.v.sequence-group": "s,w"}, EVERY_KIND),
    Engine(_SUMS, ADDS, summed),
    Engine({**_SUMS, "fields.s.aggregate-function": "last_value"}, EVERY_KIND),
    Engine({**_SUMS, "aggregation.remove-record-on-delete": "true"}, DELETES),
]


@dataclass
class KeyModel:
    """The rows of a table by key.

    Attributes:
        keys: the columns of the primary key.
        hides_new_rows: readers do not see level 0.
    """

    engine: Engine
    keys: tuple[str, ...]
    hides_new_rows: bool
    _rows: dict[tuple[Any, ...], Values] = field(default_factory=dict)
    _above: dict[tuple[Any, ...], Values] = field(default_factory=dict)
    """What was above level 0 after the last full compaction."""
    _is_known: bool = True

    @property
    def shown(self) -> list[Values] | None:
        """What readers see; None where only Java knows."""
        if self.engine.fold is None or not self._is_known:
            return None
        return list((self._above if self.hides_new_rows else self._rows).values())

    def key_of(self, row: Values) -> tuple[Any, ...]:
        return tuple(row[name] for name in self.keys)

    def write(self, rows: Iterable[Values], kinds: Iterable[str]) -> None:
        if self.engine.fold is None:
            return
        for new, kind in zip(rows, kinds, strict=True):
            key = self.key_of(new)
            row = self.engine.fold(self._rows.pop(key, None), kind, new)
            if row is not None:
                self._rows[key] = row

    def overwrite(self, partition: Any, rows: Sequence[Values]) -> None:
        """New rows for a partition, or for the whole table. They go above level 0, as nothing is there that they overlap."""
        for there in (self._rows, self._above):
            for key in [key for key, row in there.items() if partition in (None, row["p"])]:
                del there[key]
        self.write(rows, ["+I"] * len(rows))
        self._above.update((key, self._rows[key]) for key in map(self.key_of, rows) if key in self._rows)

    def compact(self, full: bool) -> None:
        """After a compaction that is not full, the model cannot tell which rows are above level 0, nor what it merged."""
        self._is_known = full and (self._is_known or not self.engine.removes)
        self._above = dict(self._rows)
