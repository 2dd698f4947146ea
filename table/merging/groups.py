"""The rows of a section, sorted by key and age.

Owns: `Groups`. Must not know: engines, columns other than keys and sequences. Source: format/primary-keys §3.

Invariant: Rows of one key are in the order in which they were written: by the sequence fields, then the sequence number, and rows
that delete before rows that add. Rows that are equal in all of these keep the order of their files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ...core.metadata.schema import ROW_SEQUENCE
from ...core.metadata.schemas.merge_rules import LEVEL, VALUE_KIND, MergeRules
from ...core.typed import Array
from .codes import ordered_codes
from .key_codes import key_codes

_RETRACT = np.array([False, True, False, True])

ColumnOf = Callable[[str], Any]
"""Gives a column of the section as an Arrow array."""


@dataclass(frozen=True)
class Groups:
    """Rows by key.

    Attributes:
        order: positions of rows in the columns, sorted by key and age.
        starts: for each key, its first place in `order`.
        sizes: for each key, the number of its rows.
        kinds: `_VALUE_KIND` of each place in `order`.
        merges_single: a key with a single row is merged like the others. Else the row stays as it is.
    """

    order: Array
    starts: Array
    sizes: Array
    kinds: Array
    merges_single: bool = False

    @property
    def is_alone(self) -> Array:
        """Which keys have a single row that is not merged."""
        return np.asarray((self.sizes == 1) & (not self.merges_single))

    @property
    def retracts(self) -> Array:
        """Which places in `order` hold a row that deletes (-U or -D)."""
        return _RETRACT[self.kinds]

    def rounds(self) -> Iterator[tuple[Array, Array, Array]]:
        """The rows of the keys that are merged, oldest first: in each round, the keys that have one more row, the places of
        these rows in `order`, and their positions in the columns. There are as many rounds as versions of one key.
        """
        keys, depth = np.flatnonzero(~self.is_alone), 0
        while len(keys):
            places = self.starts[keys] + depth
            yield keys, places, self.order[places]
            depth += 1
            keys = keys[self.sizes[keys] > depth]


def group_rows(column: ColumnOf, rules: MergeRules) -> Groups:
    """Sort the rows of a section by key and age. `column` gives them oldest file first, and `_LEVEL` if the table has lookups."""
    kinds = np.asarray(column(VALUE_KIND.name).to_numpy())
    codes = key_codes([column(f.name) for f in rules.keys])
    rows = np.argsort(codes, kind="stable")  # fast where the rows are a few sorted files, one after the other
    is_first = np.ones(len(rows), bool)
    ordered = codes[rows]
    is_first[1:] = ordered[1:] != ordered[:-1]
    _sort_by_age(rows, is_first, column, rules, kinds)
    if rules.keeps_whole_rows and rules.ignore_delete and (kinds & 1).any():
        rows, is_first = _without_ignored(rows, is_first, _RETRACT[kinds[rows]], rules.merges_single)
    if rules.has_lookups and len(rows):
        rows, is_first = _without_looked_up(rows, is_first, column)
    starts = np.flatnonzero(is_first)
    sizes = np.diff(np.append(starts, len(rows)))
    return Groups(rows, starts, sizes, kinds[rows], rules.merges_single)


def _sort_by_age(rows: Array, is_first: Array, column: ColumnOf, rules: MergeRules, kinds: Array) -> None:
    """Sort the rows of each key by age, in place. Mostly they are: files come oldest first."""
    several = ~is_first
    several[:-1] |= several[1:]
    places = np.flatnonzero(several)
    if not len(places):
        return
    chosen = rows[places]
    ages = [_ages(column(name).take(pa.array(chosen)), rules.descending) for name in rules.sequence_fields]
    ages += [ordered_codes(column(ROW_SEQUENCE.name))[chosen], ~_RETRACT[kinds[chosen]]]
    same, older = ~is_first[places][1:], np.zeros(len(places) - 1, bool)
    for age in ages:
        older |= same & (age[1:] < age[:-1])
        same &= age[1:] == age[:-1]
    if older.any():
        rows[places] = chosen[np.lexsort((*reversed(ages), np.cumsum(is_first[places])))]


def _without_ignored(rows: Array, is_first: Array, retracts: Array, merges_single: bool) -> tuple[Array, Array]:
    """Rows without those that delete, and which of them begin a key. A key whose single row is not merged keeps it."""
    group = np.cumsum(is_first) - 1
    kept = ~retracts
    if not merges_single:
        kept |= (np.bincount(group) == 1)[group]
    return rows[kept], np.diff(group[kept], prepend=-1) != 0


def _without_looked_up(rows: Array, is_first: Array, column: ColumnOf) -> tuple[Array, Array]:
    """Rows without those above level 0 that are part of a row in a lower level already, and which of them begin a key."""
    levels = np.asarray(column(LEVEL.name).to_numpy(), np.int64)[rows]
    known = np.where(levels > 0, levels, np.iinfo(np.int64).max)
    group = np.cumsum(is_first) - 1
    lowest = np.minimum.reduceat(known, np.flatnonzero(is_first))[group]
    kept = (levels == 0) | (levels == lowest)
    group = group[kept]
    return rows[kept], np.diff(group, prepend=-1) != 0


def _ages(array: Any, descending: bool) -> Array:
    codes = ordered_codes(array)
    if not descending:
        return codes
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    return np.where(valid, np.invert(codes), np.iinfo(np.int64).min)
