"""Statements about catalogs, that look, and that look after tables.

Owns: one class for each. Must not know: how statements are read, sessions, tables.
Source: decision 123.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .pieces import Name, Text, Travel


@dataclass(frozen=True)
class CreateDatabase:
    name: Name
    if_not_exists: bool = False
    comment: str | None = None
    location: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class DropDatabase:
    name: Name
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True)
class Use:
    """USE, also `USE DATABASE …` and `SET CATALOG …`, which `catalog` tells."""

    name: Name
    catalog: bool = False


@dataclass(frozen=True)
class ShowCatalogs:
    like: str | None = None


@dataclass(frozen=True)
class ShowDatabases:
    inside: Name | None = None
    like: str | None = None


@dataclass(frozen=True)
class ShowTables:
    """`extended` is said by SHOW TABLE EXTENDED, `partition` by its PARTITION."""

    inside: Name | None = None
    like: str | None = None
    extended: bool = False
    partition: Mapping[str, str | None] | None = None


@dataclass(frozen=True)
class ShowPartitions:
    name: Name
    partition: Mapping[str, str | None] | None = None


@dataclass(frozen=True)
class ShowTblProperties:
    name: Name
    key: str | None = None


@dataclass(frozen=True)
class ShowCreateTable:
    name: Name


@dataclass(frozen=True)
class ShowColumns:
    name: Name


@dataclass(frozen=True)
class Describe:
    """DESCRIBE of a table, or of one column of it. `json` is said by AS JSON."""

    name: Name
    extended: bool = False
    column: Name | None = None
    partition: Mapping[str, str | None] | None = None
    json: bool = False


@dataclass(frozen=True)
class DescribeHistory:
    name: Name
    limit: int | None = None


@dataclass(frozen=True)
class DescribeDetail:
    name: Name


@dataclass(frozen=True)
class DescribeDatabase:
    name: Name
    extended: bool = False


@dataclass(frozen=True)
class Argument:
    """An argument of CALL; `name` is None for one by position."""

    name: str | None
    value: Text


@dataclass(frozen=True)
class Call:
    name: Name
    arguments: tuple[Argument, ...] = ()


@dataclass(frozen=True)
class Optimize:
    name: Name
    where: Text | None = None
    zorder: tuple[str, ...] = ()
    full: bool = False


@dataclass(frozen=True)
class Vacuum:
    name: Name
    hours: float | None = None
    dry_run: bool = False


@dataclass(frozen=True)
class Restore:
    name: Name
    to: Travel


@dataclass(frozen=True)
class Refused:
    """A statement that is refused if one of its names is a table of ours. `next_step` is what to do instead.

    `names` are those in places of tables, `others` further ones in several parts; `form`: only the form is not known.
    """

    what: str
    names: tuple[Name, ...]
    next_step: str
    others: tuple[Name, ...] = ()
    form: bool = False
