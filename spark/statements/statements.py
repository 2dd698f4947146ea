"""`spark.sql` of a registered session: statements about tables of ours are carried out here, all others by Spark.

Owns: `Statements`, and what becomes of a statement that has no executor, or whose executor leaves it to Spark. Must not know: how
statements are parsed, how they are carried out (`executors`). Source: decisions 23 and 123.

Invariants: a statement that names no table of ours is passed to Spark as it is. One that names some, and is not carried out, is
refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from pyspark.errors import ParseException

from ...core.errors import Unsupported
from ..catalogs.names import Names
from ..catalogs.queries import by_own_scan, frame_of, reads_by_source
from ..catalogs.run import Run
from ..grammar.other_statements import Refused
from ..grammar.pieces import Query
from ..grammar.reading import head, may_be_ours, understand
from ..grammar.statements import Statement
from ..grammar.words import at
from ..sessions.identity import settled
from ..sessions.session import setting

_VARIABLE = re.compile(r"\$\{(?:\w+?:)?\S+?\}")


class Statements:
    """`sql` of a registered session, whose own method `sql` gets every other statement."""

    def __init__(self, session: Any, sql: Any) -> None:
        self._session, self._sql = session, sql
        self.names = Names(session, sql)

    @property
    def sparks(self) -> Any:
        return self._sql

    @property
    def made_views(self) -> set[str]:
        """The names of the views that `use` makes, in lower case."""
        return set()

    def __call__(self, sqlQuery: str, args: Any = None, **kwargs: Any) -> Any:  # noqa: N803 - Spark's name
        if isinstance(sqlQuery, str):
            found = self._carried_out(sqlQuery, args, kwargs)
            if found is not None:
                return found
        planned = self._sql(sqlQuery, args, **kwargs) if args is not None else self._sql(sqlQuery, **kwargs)
        return self._by_own_scan(sqlQuery, args, kwargs, planned) if reads_by_source(planned) else planned

    def _by_own_scan(self, sql: str, args: Any, named: dict[str, Any], planned: Any) -> Any:
        """The frame that Spark has planned, or that of the same query by our scan if it reads tables of ours."""
        text = self._substituted(sql)
        query = understand(text, args if isinstance(args, dict) else None, formatted=bool(named))
        if not isinstance(query, Query):
            return planned
        return by_own_scan(Run(self._session, self._sql, self.names, text, args, named), query, planned)

    def _carried_out(self, sql: str, args: Any, named: dict[str, Any]) -> Any:
        """The frame of a statement about tables of ours; None for all others."""
        text = self._substituted(sql)
        settled_here = settled(self._session, text)
        if settled_here is not None:
            return settled_here
        if not may_be_ours(text, self.names.warehouses, self.names.current is not None):
            return None
        with self.names.remembered():
            if self._is_foreign(text):
                return None
            statement = understand(text, args if isinstance(args, dict) else None, formatted=bool(named))
            if statement is None:
                return None
            run = Run(self._session, self._sql, self.names, text, args, named)
            return carry_out_statement(run, statement)

    def _is_foreign(self, text: str) -> bool:
        """Does the statement change a table of another format, and read none of ours, as its first words tell?"""
        changed = None if self.names.current is not None else head(text, self.names.warehouses)
        if changed is None:
            return False
        found = self.names.locate(changed)
        if found is not None:
            self.names.remember(changed, found)
        return found is None

    def _substituted(self, sql: str) -> str:
        """The text with the values of `${name}`, `${env:HOME}` and the like, which Spark puts in before it reads the text."""
        if "${" not in sql or setting(self._session, "spark.sql.variable.substitute", "true").lower() != "true":
            return sql
        return _VARIABLE.sub(lambda found: self._value_of(found[0]), sql)

    def _value_of(self, variable: str) -> str:
        """What Spark puts in, which it does inside of quotes too."""
        try:
            return str(self._sql(f"SELECT 1 AS `_{variable}`").columns[0])[1:]
        except ParseException as error:
            raise Unsupported(
                f"the variable {variable}, whose value has a backtick", next_step="give it as a parameter, `:name`"
            ) from error


def carry_out_statement(run: Run, statement: Statement) -> Any:
    """The frame of a statement about tables of ours; None for all others."""
    from .executors import EXECUTORS

    if isinstance(statement, Refused):
        return refuse(run, statement)
    executor = EXECUTORS.get(type(statement))
    done = None if executor is None else executor(run, statement)
    if done is not None:
        return done
    queries = list(_queries(statement))
    tables = tuple(use for query in queries for use in query.tables)
    if not any(use.travel is not None or run.names.in_warehouse(use.name) is not None for use in tables):
        return None
    references = tuple(name for query in queries for name in query.references)
    what, persists = (queries[0].what, queries[0].persists) if isinstance(statement, Query) else ("", False)
    aliases = frozenset(alias for query in queries for alias in query.aliases)
    whole = Query(run.text, tables, references, what, persists, aliases)
    return frame_of(run, whole)


def _queries(part: Any) -> Iterator[Query]:
    """The queries in a statement, those inside of conditions too."""
    if isinstance(part, Query):
        yield part
    elif isinstance(part, tuple):
        for one in part:
            yield from _queries(one)
    elif is_dataclass(part) and not isinstance(part, type):
        for known in fields(part):
            if known.name != "words":
                yield from _queries(getattr(part, known.name))


def refuse(run: Run, statement: Refused) -> None:
    """Refuse a statement that names a table of ours. Names in places of tables are looked up in Spark's catalog, too."""
    for name in statement.names:
        located = run.names.in_warehouse(name)
        if located is None and len(name.parts) <= _MOST_PARTS:
            located = run.names.locate(name)
        if located is not None:
            if statement.form and _is_mistaken(run):
                return
            raise Unsupported(
                f"{statement.what} on {located.name}, {at(run.text, name.start)}", next_step=statement.next_step
            )
    for name in statement.others:
        if name.parts[0].lower() in run.names.warehouses and len(name.parts) > 2:
            if statement.form and _is_mistaken(run):
                return
            raise Unsupported(
                f"{statement.what} with {name}, {at(run.text, name.start)}", next_step=statement.next_step
            )


def _is_mistaken(run: Run) -> bool:
    """Does Spark not understand the statement either? Then it reports the mistake. EXPLAIN carries nothing out."""
    try:
        run.sparks(f"EXPLAIN {run.text}", run.arguments, **run.named).collect()
    except ParseException:
        return True
    except Exception:
        return False
    return False


_MOST_PARTS = 3
