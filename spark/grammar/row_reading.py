"""Reads statements that change rows.

Owns: INSERT, MERGE, UPDATE, DELETE and TRUNCATE, with the common table expressions in front of them. Must not know:
sessions, tables. Source: decision 123.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

from .pieces import Condition, Name, Query, Subquery, Text
from .reader import QUERY, Reader, Stray
from .row_statements import Assignment, Delete, Insert, MergeClause, MergeInto, Truncate, Update
from .tables_read import Span, query_of

_NO_ALIAS = frozenset("SET WHERE USING WHEN ON".split())
_WHEN = ("WHEN",)


class RowReader:
    """Reads one statement; `shared` are the words of `WITH …` in front of it."""

    def __init__(self, reader: Reader, shared: Span, formatted: bool) -> None:
        self._reader, self._shared, self._formatted = reader, shared, formatted

    # ---------------------------------------------------------------------------------------------------------- insert

    def insert(self, ahead: Sequence[Span] = ()) -> Insert:
        """INSERT; `ahead` are words of its query that come before it (`FROM t INSERT INTO …`)."""
        reader = self._reader
        reader.need("INSERT")
        given: dict[str, Any] = {"evolves": reader.takes("WITH", "SCHEMA", "EVOLUTION")}
        given["overwrite"] = reader.takes("OVERWRITE")
        if not given["overwrite"]:
            reader.need("INTO")
        if given["overwrite"] and (reader.sees("DIRECTORY") or reader.sees("LOCAL", "DIRECTORY")):
            raise Stray
        reader.takes("TABLE")
        name = reader.name()
        if reader.sees("WITH", "(") and reader.peek(2).kind == "text":
            reader.next()
            given["options"] = reader.pairs()
        if reader.takes("PARTITION"):
            given["partition"], given["unvalued"] = reader.partition()
        given["if_not_exists"] = reader.takes("IF", "NOT", "EXISTS")
        if reader.takes("BY", "NAME"):
            given["by_name"] = True
        elif reader.sees("(") and reader.peek(1).upper not in QUERY:
            given["columns"] = reader.names()
        if reader.takes("REPLACE", "WHERE"):
            given["replace_where"] = self._condition(QUERY[:-1])
        elif reader.sees("REPLACE"):
            given["replaces"] = self._replaces()
        if reader.peek().upper not in QUERY:
            raise Stray
        query = query_of(reader, [self._shared, *ahead, (reader.at, len(reader.words))], formatted=self._formatted)
        return Insert(name, replace(query, text=self._without_defaults(query.text)), **given)

    def _without_defaults(self, text: str) -> str:
        """The rows of VALUES with NULL for DEFAULT: a column's default takes the place of a null when rows are written."""
        reader = self._reader
        if not reader.sees("VALUES"):
            return text
        depth = 0
        for number in range(reader.at, len(reader.words) - 1):
            before, word, after = reader.words[number - 1 : number + 2]
            depth += (word.raw == "(") - (word.raw == ")")
            if depth == 1 and word.upper == "DEFAULT" and before.raw in ("(", ",") and after.raw in (")", ","):
                text = f"{text[: word.start]}{'NULL'.ljust(len(word.raw))}{text[word.end :]}"
        return text

    def _replaces(self) -> Text:
        """`REPLACE USING (…)` or `REPLACE ON …`, which only others have."""
        first = self._reader.at
        self._reader.need("REPLACE")
        self._reader.skip_until(QUERY[:-1])
        return self._reader.slice(first, self._reader.at)

    # ----------------------------------------------------------------------------------------------------------- merge

    def merge(self) -> MergeInto:
        reader = self._reader
        reader.need("MERGE")
        evolves = reader.takes("WITH", "SCHEMA", "EVOLUTION")
        reader.need("INTO")
        name = reader.name()
        alias = self._alias()
        reader.need("USING")
        first = reader.at
        inner = self._source()
        source = query_of(
            reader, [self._shared, (first, reader.at)], select_at=reader.words[first].start, formatted=self._formatted
        )
        said = self._alias_in_source(first)
        reader.need("ON")
        condition = self._condition(_WHEN)
        clauses = []
        while reader.takes("WHEN"):
            clauses.append(self._clause())
        reader.need_end()
        if not clauses:
            raise Stray
        source_alias = said or inner
        return MergeInto(name, alias, source, source_alias, condition, tuple(clauses), evolves)

    def _source(self) -> Name | None:
        """Pass the source; its name, if it is a table."""
        reader = self._reader
        if reader.sees("("):
            reader.skip_parentheses()
            name = None
        elif self._formatted and reader.takes("{"):
            while not reader.takes("}"):
                reader.next()
            name = None
        else:
            name = reader.name()
            reader.travel()
            if reader.sees("WITH", "("):
                reader.next()
                reader.pairs()
            if reader.sees("("):  # a function with values of a table
                reader.skip_parentheses()
                name = None
        reader.skip_until(("ON",))
        return name

    def _alias_in_source(self, first: int) -> Name | None:
        """The name that a source gets behind it: the last word before ON, or before the names of its columns."""
        words, at = self._reader.words, self._reader.at - 1
        if words[at].raw == ")":
            while at > first and words[at].raw != "(":  # names have no parentheses
                at -= 1
            at -= 1
        if at > first and words[at].is_name and words[at - 1].raw != ".":
            return Name((words[at].value,), words[at].start, words[at].end)
        return None

    def _clause(self) -> MergeClause:
        reader = self._reader
        negated = reader.takes("NOT")
        reader.need("MATCHED")
        kind: Literal["matched", "not matched", "not matched by source"] = "matched"
        if negated:
            by_source = reader.takes("BY", "SOURCE")
            kind = "not matched by source" if by_source else "not matched"
            if not by_source:
                reader.takes("BY", "TARGET")
        condition = self._condition(("THEN",)) if reader.takes("AND") else None
        reader.need("THEN")
        if reader.takes("DELETE"):
            return MergeClause(kind, "delete", condition)
        if reader.takes("UPDATE"):
            reader.need("SET")
            return MergeClause(kind, "update", condition, None if reader.takes("*") else self._set(_WHEN))
        reader.need("INSERT")
        return MergeClause(kind, "insert", condition, None if reader.takes("*") else self._inserted())

    def _inserted(self) -> tuple[Assignment, ...]:
        """`(a, b) VALUES (x, y)`."""
        reader = self._reader
        reader.need("(")
        columns = [reader.name()]
        while reader.takes(","):
            columns.append(reader.name())
        reader.need(")")
        reader.need("VALUES", "(")
        values = [self._value((",",))]
        while reader.takes(","):
            values.append(self._value((",",)))
        reader.need(")")
        if len(columns) != len(values):
            raise Stray
        return tuple(Assignment(column, value) for column, value in zip(columns, values, strict=True))

    # ------------------------------------------------------------------------------------------- update, delete, truncate

    def update(self) -> Update:
        reader = self._reader
        reader.need("UPDATE")
        name, alias = reader.name(), self._alias()
        reader.need("SET")
        assigned = self._set(("WHERE",))
        condition = self._condition(()) if reader.takes("WHERE") else None
        reader.need_end()
        return Update(name, alias, assigned, condition)

    def delete(self) -> Delete:
        reader = self._reader
        reader.need("DELETE", "FROM")
        name, alias = reader.name(), self._alias()
        condition = self._condition(()) if reader.takes("WHERE") else None
        reader.need_end()
        return Delete(name, alias, condition)

    def truncate(self) -> Truncate:
        reader = self._reader
        reader.need("TRUNCATE", "TABLE")
        name, partition = reader.name(), None
        if reader.takes("PARTITION"):
            partition, unvalued = reader.partition()
            if unvalued:
                raise Stray
        reader.need_end()
        return Truncate(name, partition)

    # ---------------------------------------------------------------------------------------------------- expressions

    def _alias(self) -> str | None:
        reader = self._reader
        if reader.takes("AS"):
            return reader.part()
        if not reader.ended and reader.peek().is_name and reader.peek().upper not in _NO_ALIAS:
            return reader.part()
        return None

    def _set(self, stops: Sequence[str]) -> tuple[Assignment, ...]:
        reader, found = self._reader, list[Assignment]()
        while True:
            column = reader.name()
            reader.need("=")
            found.append(Assignment(column, self._value((",", *stops))))
            if not reader.takes(","):
                return tuple(found)

    def _value(self, stops: Sequence[str]) -> Condition | None:
        """A value, None for DEFAULT."""
        start = self._reader.at
        if self._reader.takes("DEFAULT") and (self._reader.ended or self._reader.peek().upper in (*stops, ")")):
            return None
        self._reader.at = start
        return self._condition(stops)

    def _condition(self, stops: Sequence[str]) -> Condition:
        reader = self._reader
        first = reader.skip_until(stops)
        text, last = reader.slice(first, reader.at), reader.at
        subqueries, reader.at = list[Subquery](), first
        while reader.at < last:
            if reader.sees("(") and reader.at + 1 < last and self._begins_query():
                subqueries.append(self._subquery())
            else:
                reader.at += 1
        return Condition(text, tuple(subqueries), tuple(reader.words[first:last]))

    def _begins_query(self) -> bool:
        ahead = 1
        while self._reader.peek(ahead).raw == "(":
            ahead += 1
        return self._reader.peek(ahead).upper in QUERY[:5] and self._reader.peek(ahead + 1).raw not in (
            ".",
            ")",
            ",",
            "=",
        )

    def _subquery(self) -> Subquery:
        reader = self._reader
        before = reader.peek(-1).upper if reader.at else ""
        kind: Literal["scalar", "in", "exists"] = {"IN": "in", "EXISTS": "exists"}.get(before, "scalar")  # type: ignore[assignment]
        start = reader.peek().start
        first = reader.skip_parentheses()
        query: Query = query_of(reader, [self._shared, (first, reader.at - 1)], formatted=self._formatted)
        return Subquery(start, reader.words[reader.at - 1].end, query, kind)
