"""Statements that make, change and drop tables.

Owns: one class for each, and the actions of ALTER TABLE. Must not know: how statements are read, sessions, tables.
Source: decision 123.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from .pieces import Name, Query, Text


@dataclass(frozen=True)
class CreateTable:
    """CREATE TABLE. `columns` is the text between the parentheses; `replace` is said by OR REPLACE and by REPLACE TABLE.

    `using` is None if the statement names no format; `other` are further clauses, by their first words, such as CLUSTERED BY.
    """

    name: Name
    columns: Text | None = None
    using: str | None = None
    partition_by: tuple[str, ...] = ()
    location: str | None = None
    comment: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    query: Query | None = None
    if_not_exists: bool = False
    replace: bool = False
    must_exist: bool = False
    other: tuple[str, ...] = ()


@dataclass(frozen=True)
class CreateTableLike:
    name: Name
    like: Name
    using: str | None = None
    location: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    if_not_exists: bool = False


@dataclass(frozen=True)
class CreateTemporaryView:
    """CREATE TEMPORARY VIEW … AS, for all sessions with GLOBAL."""

    name: Name
    query: Query
    columns: tuple[str, ...] | None = None
    replace: bool = False
    everywhere: bool = False


@dataclass(frozen=True)
class DropTable:
    name: Name
    if_exists: bool = False
    purge: bool = False


@dataclass(frozen=True)
class RenameTable:
    name: Name
    to: Name


@dataclass(frozen=True)
class NewColumn:
    """A column that ALTER TABLE adds. `after` is a column, or "" for FIRST."""

    column: Name
    type: Text
    nullable: bool = True
    comment: str | None = None
    default: Text | None = None
    after: str | None = None


@dataclass(frozen=True)
class AddColumns:
    columns: tuple[NewColumn, ...]
    if_not_exists: bool = False


@dataclass(frozen=True)
class DropColumns:
    columns: tuple[Name, ...]
    if_exists: bool = False


@dataclass(frozen=True)
class RenameColumn:
    column: Name
    to: str


@dataclass(frozen=True)
class AlterColumn:
    """What ALTER COLUMN says of one column; None where it says nothing. `after` is a column, or "" for FIRST."""

    column: Name
    type: Text | None = None
    comment: str | None = None
    after: str | None = None
    nullable: bool | None = None
    default: Text | None = None
    drops_default: bool = False


@dataclass(frozen=True)
class AlterColumns:
    columns: tuple[AlterColumn, ...]


@dataclass(frozen=True)
class SetProperties:
    properties: Mapping[str, str]


@dataclass(frozen=True)
class UnsetProperties:
    keys: tuple[str, ...]
    if_exists: bool = False


@dataclass(frozen=True)
class SetComment:
    """COMMENT ON TABLE; None removes the comment."""

    comment: str | None


@dataclass(frozen=True)
class DropPartitions:
    """Each partition as texts, None for NULL."""

    partitions: tuple[Mapping[str, str | None], ...]
    if_exists: bool = False
    purge: bool = False


@dataclass(frozen=True)
class OtherAction:
    """An action that tables of ours do not have, by its words."""

    what: str


Action: TypeAlias = (
    AddColumns
    | DropColumns
    | RenameColumn
    | AlterColumns
    | SetProperties
    | UnsetProperties
    | SetComment
    | DropPartitions
    | OtherAction
)


@dataclass(frozen=True)
class AlterTable:
    name: Name
    action: Action
