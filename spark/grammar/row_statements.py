"""Statements that change rows.

Owns: one class for each. Must not know: how statements are read, sessions, tables.
Source: decision 123.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from .pieces import Condition, Name, Query, Text


@dataclass(frozen=True)
class Insert:
    """INSERT. `partition` has the values of PARTITION (…) as texts, None for NULL; `unvalued` are its columns without one.

    `replaces` is a clause REPLACE other than REPLACE WHERE.
    """

    name: Name
    query: Query
    overwrite: bool = False
    columns: tuple[str, ...] | None = None
    by_name: bool = False
    partition: Mapping[str, str | None] = field(default_factory=dict)
    unvalued: tuple[str, ...] = ()
    if_not_exists: bool = False
    replace_where: Condition | None = None
    evolves: bool = False
    options: Mapping[str, str] = field(default_factory=dict)
    replaces: Text | None = None


@dataclass(frozen=True)
class Assignment:
    """`column = value`; None where the value is DEFAULT."""

    column: Name
    value: Condition | None


@dataclass(frozen=True)
class MergeClause:
    """WHEN …. `set` is None for `UPDATE SET *` and `INSERT *`, and for a delete."""

    kind: Literal["matched", "not matched", "not matched by source"]
    action: Literal["update", "delete", "insert"]
    condition: Condition | None = None
    set: tuple[Assignment, ...] | None = None


@dataclass(frozen=True)
class MergeInto:
    """MERGE. `source` selects everything of the source, which conditions call `source_alias`."""

    name: Name
    alias: str | None
    source: Query
    source_alias: Name | None
    condition: Condition
    clauses: tuple[MergeClause, ...]
    evolves: bool = False


@dataclass(frozen=True)
class Update:
    name: Name
    alias: str | None
    set: tuple[Assignment, ...]
    condition: Condition | None = None


@dataclass(frozen=True)
class Delete:
    name: Name
    alias: str | None = None
    condition: Condition | None = None


@dataclass(frozen=True)
class Truncate:
    name: Name
    partition: Mapping[str, str | None] | None = None
