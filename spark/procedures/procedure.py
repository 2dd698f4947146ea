"""What a procedure is: its name, its arguments with their types, its result, and the function that carries it out.

Owns: `Parameter`, `Procedure`, `Call`. Must not know: which procedures there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import tzinfo
from functools import cached_property
from typing import Any, Literal, TypeAlias

from ...core.errors import InvalidArgument
from ...table.catalog.catalog import Catalog
from ...table.travel import epoch_millis
from ..lake_table import LakeTable
from ..sessions.zones import session_zone

Kind: TypeAlias = Literal["string", "bigint", "int", "boolean", "map<string,string>"]
Rows: TypeAlias = Iterable[tuple[Any, ...]]


@dataclass(frozen=True)
class Parameter:
    """One argument; `default` is what the reference says of a call without it, and `about` what the argument means."""

    name: str
    kind: Kind = "string"
    needed: bool = False
    default: str = ""
    about: str = ""


@dataclass(frozen=True)
class Call:
    """A call of a procedure.

    Attributes:
        values: each argument's value, None where none was given.
        table_named: opens the table of a name, as the statement's catalog and database make it.
        spark_sql: Spark's own `sql`.
        lake: the catalog of the statement.
        identity: `commit_user` and `identifier` for the one commit, if the session says them.
        storage_options: those of the catalog.
    """

    session: Any
    values: Mapping[str, Any]
    table_named: Callable[[str], LakeTable]
    spark_sql: Callable[..., Any]
    lake: Catalog | None = None
    identity: Mapping[str, Any] = field(default_factory=dict)
    storage_options: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def table(self) -> LakeTable:
        """The table of argument `table`."""
        return self.table_named(self.values["table"])

    @property
    def zone(self) -> tzinfo:
        return session_zone(self.session)

    def text(self, name: str) -> str | None:
        """The value of an argument; None for one that is blank, as in Apache Paimon."""
        value = self.values[name]
        return None if value is None or not str(value).strip() else str(value)

    def time_ms(self, name: str) -> int | None:
        """A time as milliseconds since 1970; without a zone it is one of the session's zone."""
        value = self.text(name)
        if value is None:
            return None
        try:
            return epoch_millis(int(value) if value.lstrip("-").isdigit() else value, name, self.zone)
        except InvalidArgument as error:
            raise InvalidArgument(
                f"{name} => {value!r} is not a time",
                next_step="write '2026-06-01 00:00:00', which is a time of the session's zone, or '2026-06-01T00:00:00Z'",
            ) from error


@dataclass(frozen=True)
class Procedure:
    """One procedure.

    Attributes:
        about: what it does, for the reference; one or two sentences.
        columns: the result's columns, as Spark's DDL.
        example: a call for the reference.
        alone: makes one commit, which the session's identity names.
    """

    name: str
    about: str
    parameters: tuple[Parameter, ...]
    run: Callable[[Call], Rows]
    columns: str = "result boolean"
    example: str = ""
    alone: bool = False


TABLE = Parameter("table", needed=True, about="the table, as `air.flights`; a branch as `` air.flights$branch_dev ``")
WHERE = Parameter("where", default="all partitions", about="a condition on partition columns")
PARTITIONS = Parameter(
    "partitions",
    default="all partitions",
    about="partitions such as `month=1,day=2;month=2`; not together with `where`",
)
DONE: tuple[tuple[Any, ...], ...] = ((True,),)
