"""Engine `partial-update`: each row brings values for some columns, and a null leaves a column as it is.

Owns: sequence groups (columns that are ordered by columns of their own), the rules for rows that delete. Aggregate functions are
in `aggregates`. Source: format/primary-keys §4.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...core.errors import InvalidArgument, Unsupported
from ...core.metadata.schemas.column_options import in_two_groups, names_of, sequence_groups
from ...core.metadata.schemas.functions import function_name
from ...core.metadata.schemas.merge_rules import MergeRules
from ...core.rows.types import Field
from ...core.typed import Array
from .aggregates.base import Aggregate
from .aggregates.functions import aggregate_of, check
from .codes import ordered_codes
from .engine import Merge, last_of, merged_kinds, naming_keys
from .groups import ColumnOf, Groups

_NO_ROW = -1


def needs(rules: MergeRules, fields: Sequence[Field], wanted: Sequence[str]) -> set[str]:
    """The sequence columns of the groups of wanted columns, and those whose rows remove the whole row."""
    removing, groups = _removing(rules), sequence_groups(rules.texts)
    if (twice := in_two_groups(groups)) is not None:
        raise Unsupported(
            f"column '{twice}' is in several sequence groups (options 'fields.<columns>.sequence-group'): what its rows are"
            " merged to depends on the order in which Apache Paimon happens to take the groups",
            next_step="let each column be in one group",
        )
    needed = set()
    for sequence, members in groups.items():
        if {*sequence, *members} & {*wanted} or removing & {*sequence}:
            needed |= {*sequence}
    for field in fields:
        if field.name in wanted:
            _function(rules, field)
    return needed


def merge(
    rules: MergeRules,
    groups: Groups,
    column: ColumnOf,
    fields: Sequence[Field],
    wanted: Sequence[str],
    keeps_deletes: bool,
) -> Merge:
    """Take each column of a key from the newest row that brings it. Refuses rows that delete if no option says what they mean."""
    folding = _Folding(rules, groups, column, fields, {*wanted, *needs(rules, fields, wanted)} - {*rules.key_names})
    with naming_keys(rules, groups, column):
        for keys, places, rows in groups.rounds():
            folding.take(keys, groups.kinds[places], rows)
    single = groups.is_alone
    alone = groups.order[groups.starts]
    kinds = merged_kinds(groups, folding.is_there)
    left = (kinds % 2 == 0) | keeps_deletes
    last = groups.order[last_of(groups)]
    numbered = np.where(single, alone, folding.newest)
    taken = {name: np.where(single, alone, rows)[left] for name, rows in folding.rows.items()}
    unmerged = np.where(single, alone, _NO_ROW)
    made = {name: state.result(unmerged, left) for name, state in folding.aggregates.items()}
    return Merge(last[left], kinds[left], numbered[left], taken, made)


class _Folding:
    """The state of all keys while their rows are taken, oldest first.

    Attributes:
        is_there: keys whose merged row is not deleted.
        newest: the last row of each key that counts, -1 if there is none.
        rows: for each column without a function, the row that its value is from; -1 for null.
        aggregates: for each column with a function, its values.
    """

    def __init__(
        self, rules: MergeRules, groups: Groups, column: ColumnOf, fields: Sequence[Field], names: set[str]
    ) -> None:
        count = len(groups.starts)
        self._ignores, self._rules = rules.ignore_delete, rules
        self._removes = rules.is_on("partial-update.remove-record-on-delete")
        self._removing = _removing(rules)
        self._groups = {
            sequence: [name for name in (*members,) if name in names and name not in sequence]
            for sequence, members in sequence_groups(rules.texts).items()
            if names & {*sequence, *members}
        }
        self._ages = {s: [ordered_codes(column(name)) for name in s] for s in self._groups}
        self._empty = {
            s: np.logical_and.reduce([column(n).is_null().to_numpy(zero_copy_only=False) for n in s])
            for s in self._groups
        }
        by_name = {f.name: f for f in fields}
        sequences = {name for s in self._groups for name in s}
        functions = {
            name: function for name in names - sequences for function in [_function(rules, by_name[name])] if function
        }
        self.aggregates: dict[str, Aggregate] = {
            name: aggregate_of(function, by_name[name], column(name), count, rules.texts)
            for name, function in functions.items()
        }
        self.rows: dict[str, Array] = {name: np.full(count, _NO_ROW) for name in names if name not in functions}
        self._valid = {name: column(name).is_valid().to_numpy(zero_copy_only=False) for name in self.rows}
        grouped = {name for s, members in self._groups.items() for name in (*s, *members)}
        self._plain = [name for name in names if name not in grouped]
        self.is_there, self.newest = np.zeros(count, bool), np.full(count, _NO_ROW)
        self._added, self._begun = np.zeros(count, bool), np.zeros(count, bool)

    def take(self, keys: Array, kinds: Array, rows: Array) -> None:
        retracts = kinds % 2 == 1
        if retracts.any():
            fresh = retracts & ~self._begun[keys]
            self._begin(keys[fresh], rows[fresh])
            if not self._ignores:
                self._retract(keys[retracts], kinds[retracts], rows[retracts])
        adds = ~retracts
        self._add(keys[adds], rows[adds])
        self._begun[keys] = True
        self._added[keys[adds]] = True
        self.is_there[keys[adds]] = True
        counts = adds | (not self._ignores)
        self.newest[keys[counts]] = rows[counts]

    def _begin(self, keys: Array, rows: Array) -> None:
        for name, state in self.rows.items():
            state[keys] = np.where(self._valid[name][rows], rows, _NO_ROW)
        for aggregate in self.aggregates.values():
            aggregate.set(keys, rows)

    def _add(self, keys: Array, rows: Array) -> None:
        for name in self._plain:
            brings = self._valid[name][rows]
            self.rows[name][keys[brings]] = rows[brings]
        for sequence, members in self._groups.items():
            newer, older = self._by_age(sequence, keys, rows)
            for name in members:
                if name in self.aggregates:
                    self.aggregates[name].add(keys[newer], rows[newer])
                    self.aggregates[name].add_older(keys[older], rows[older])
                else:
                    self._set(name, keys[newer], rows[newer])
            for name in sequence:
                self._set(name, keys[newer], rows[newer])

    def _retract(self, keys: Array, kinds: Array, rows: Array) -> None:
        if not self._has_groups:
            if not self._removes:
                raise InvalidArgument(
                    "a table with option 'merge-engine' = partial-update holds rows that delete, and no option says what"
                    " they mean",
                    next_step="set 'ignore-delete' or 'partial-update.remove-record-on-delete' = true on the table",
                )
            deletes = kinds == 3
            self._begin(keys[deletes], rows[deletes])
            self.is_there[keys] = ~deletes & self._added[keys]
            return
        self.is_there[keys] = self._added[keys]
        for sequence, members in self._groups.items():
            newer, older = self._by_age(sequence, keys, rows)
            removed = newer & (kinds == 3) if self._removing & {*sequence} else np.zeros(len(keys), bool)
            self._begin(keys[removed], rows[removed])
            self.is_there[keys[removed]] = False
            newer = newer & ~removed
            for name in members:
                if name in self.aggregates:
                    either = newer | older
                    self.aggregates[name].retract(keys[either], rows[either])
                else:
                    self.rows[name][keys[newer]] = _NO_ROW
            for name in sequence:
                self._set(name, keys[newer], rows[newer])
            keys, kinds, rows = keys[~removed], kinds[~removed], rows[~removed]

    @property
    def _has_groups(self) -> bool:
        return bool(sequence_groups(self._rules.texts))

    def _set(self, name: str, keys: Array, rows: Array) -> None:
        self.rows[name][keys] = np.where(self._valid[name][rows], rows, _NO_ROW)

    def _by_age(self, sequence: tuple[str, ...], keys: Array, rows: Array) -> tuple[Array, Array]:
        """Which rows are at least as new as what their keys have in a group, and which are older; without a sequence neither."""
        newer, same = np.zeros(len(keys), bool), np.ones(len(keys), bool)
        for name, ages in zip(sequence, self._ages[sequence], strict=True):
            known = self.rows[name][keys]
            least = np.iinfo(np.int64).min
            old = np.where(known == _NO_ROW, least, ages[known])
            new = np.where(self._valid[name][rows], ages[rows], least)
            newer |= same & (new > old)
            same &= new == old
        given = ~self._empty[sequence][rows]
        return given & (newer | same), given & ~(newer | same)


def _function(rules: MergeRules, field: Field) -> str | None:
    """The aggregate function of a column; None if it takes the newest value."""
    sequences = {name for s in sequence_groups(rules.texts) for name in s}
    if field.name in rules.key_names or field.name in sequences:
        return None
    grouped = any(field.name in members for members in sequence_groups(rules.texts).values())
    name = function_name(rules.texts, field.name)
    if name is None or (not grouped and name == "last_non_null_value"):
        return None
    if not grouped:
        raise Unsupported(
            f"column '{field.name}' of a table with a primary key has function '{name}' (option"
            f" 'fields.{field.name}.aggregate-function'), but no sequence group",
            next_step=f"set option 'fields.<sequence column>.sequence-group' = {field.name}",
        )
    check(name, field, rules.texts)
    return name


def _removing(rules: MergeRules) -> set[str]:
    return {*names_of(rules.texts.get("partial-update.remove-record-on-sequence-group", ""))}
