"""The names of databases and tables, and where they lie below a catalog's URL.

Owns: `TableName` and the checks of names. Must not know: stores. Source: format/snapshot §1.
Invariant: a name is one part of a path, so that no name leads out of the catalog's folder (H16).
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

from ...core.errors import InvalidArgument
from ...core.paths import DEFAULT_BRANCH, safe_argument

DATABASE_SUFFIX = ".db"
SYSTEM_DATABASE = "sys"
"""A database that Apache Paimon makes up; no folder may have its name."""
_BRANCH = "branch_"
_SPLITTER = "$"


@dataclass(frozen=True, slots=True)
class TableName:
    """A table of a catalog; `database` is without the suffix of its folder.

    >>> print(TableName.parse("air.flights"), TableName.parse("air.flights").folder)
    air.flights air.db/flights
    >>> TableName.parse("air.flights$branch_dev").branch
    'dev'
    """

    database: str
    table: str
    branch: str = DEFAULT_BRANCH

    @staticmethod
    def parse(name: str) -> TableName:
        """The table that a text such as `air.flights` names. What follows the first dot is the table's name."""
        database, dot, rest = name.partition(".") if isinstance(name, str) else ("", "", "")
        if not dot:
            raise InvalidArgument(f"{name!r} does not name a table", next_step="write DATABASE.TABLE")
        table, splitter, suffix = rest.partition(_SPLITTER)
        if not splitter:
            return TableName(checked_database(database), _checked(table, "table"))
        if not suffix.startswith(_BRANCH):
            raise InvalidArgument(
                f"{name!r} names a system table",
                next_step=f"open {database}.{table}, and use its methods",
            )
        branch = safe_argument(suffix[len(_BRANCH) :], "branch")
        return TableName(checked_database(database), _checked(table, "table"), branch)

    @property
    def folder(self) -> str:
        return f"{folder_of(self.database)}{self.table}"

    def __str__(self) -> str:
        suffix = "" if self.branch == DEFAULT_BRANCH else f"{_SPLITTER}{_BRANCH}{self.branch}"
        return f"{self.database}.{self.table}{suffix}"


def folder_of(database: str) -> str:
    """The folder of a database, relative to the catalog's URL, ending in a slash."""
    return f"{database}{DATABASE_SUFFIX}/"


def checked_database(name: str) -> str:
    _checked(name, "database")
    if "." in name:
        raise InvalidArgument(f"database {name!r} has a dot, which separates the database from the table")
    if name == SYSTEM_DATABASE:
        raise InvalidArgument(f"database {name!r} is Apache Paimon's own; it has no folder")
    return name


def defect(name: str) -> str | None:
    """Why a text cannot be the name of a database or table; None if it can.

    >>> defect("flights"), defect(".."), defect("a/b")
    (None, "is '.' or '..'", 'has a separator of paths')
    """
    if not name.strip() or name != name.strip():
        return "is empty, or begins or ends with a blank"
    if name in (".", ".."):
        return "is '.' or '..'"
    if "/" in name or "\\" in name:
        return "has a separator of paths"
    if _SPLITTER in name:
        return f"has a {_SPLITTER!r}, which stands before a branch or a system table"
    if any(unicodedata.category(letter) in ("Cc", "Cs") for letter in name):
        return "has a control character"
    return None


def _checked(name: str, what: str) -> str:
    wrong = defect(name) if isinstance(name, str) else "is not text"
    if wrong is not None:
        raise InvalidArgument(f"{what} {name!r} {wrong}", next_step="use letters, digits and underscores")
    return name
