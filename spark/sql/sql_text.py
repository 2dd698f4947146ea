"""Understands the few SQL statements that Spark cannot carry out for a Python data source.

Owns: the words of a statement, and what `CREATE TABLE … USING`, `INSERT` and the refused statements name. Must not know:
sessions, tables. A statement of any other form is left to Spark, which reports its mistakes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

_TOKEN = re.compile(
    r"""(?P<space>\s+|--[^\n]*|/\*.*?\*/)
      | (?P<text>[rR]?'(?:[^'\\]|\\.|'')*'|[rR]?"(?:[^"\\]|\\.|"")*")
      | (?P<name>`(?:[^`]|``)*`)
      | (?P<word>\w+)
      | (?P<symbol>.)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "b": "\b", "Z": "\x1a"}
_QUERY = ("SELECT", "WITH", "VALUES", "TABLE", "FROM", "MAP", "REDUCE", "(")


@dataclass(frozen=True)
class Token:
    kind: str
    raw: str
    start: int
    end: int

    @property
    def upper(self) -> str:
        return self.raw.upper() if self.kind in ("word", "symbol") else ""

    @property
    def value(self) -> str:
        if self.kind == "name":
            return self.raw[1:-1].replace("``", "`")
        if self.kind != "text":
            return self.raw
        raw = self.raw[0] in "rR"
        body = self.raw[1:] if raw else self.raw
        inner = body[1:-1].replace(body[0] * 2, body[0])
        return inner if raw else re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[1]), inner, flags=re.DOTALL)


@dataclass(frozen=True)
class CreateTable:
    """`name` and `columns` are as written; `from_query` says whether rows are to be written, too (`AS SELECT …`)."""

    name: str
    using: str
    columns: str | None = None
    partition_by: tuple[str, ...] = ()
    location: str | None = None
    comment: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    if_not_exists: bool = False
    or_replace: bool = False
    from_query: bool = False


@dataclass(frozen=True)
class Insert:
    """`partition` has the values of PARTITION (…), as texts, None for NULL; `unvalued` are its columns without one."""

    name: str
    overwrite: bool
    query: str
    partition: Mapping[str, str | None] = field(default_factory=dict)
    columns: tuple[str, ...] | None = None
    by_name: bool = False
    if_not_exists: bool = False
    unvalued: tuple[str, ...] = ()


@dataclass(frozen=True)
class Other:
    """A statement that is refused if it names a table of the source, such as `MERGE INTO`. It may name `more` than one."""

    what: str
    name: str
    more: tuple[str, ...] = ()


Statement: TypeAlias = CreateTable | Insert | Other


class _Stray(Exception):
    """The statement has another form."""


def understand(sql: str) -> Statement | None:
    """The statement, or None if it is of another form.

    >>> understand("INSERT INTO flights VALUES (1)").query
    'VALUES (1)'
    >>> understand("SELECT * FROM flights") is None
    True
    """
    tokens = tokens_of(sql)
    if not tokens:
        return None
    reader = _Reader(sql, tokens)
    try:
        match tokens[0].upper:
            case "CREATE":
                return reader.create()
            case "INSERT":
                return reader.insert()
            case "MERGE" | "DELETE" | "UPDATE" | "TRUNCATE" | "ALTER":
                return reader.other()
            case "WITH" | "FROM" | "BEGIN" as first:
                return reader.inserts_within(first) or reader.time_travel()
            case "SELECT" | "TABLE" | "(":
                return reader.time_travel()
    except (_Stray, IndexError):
        pass
    return None


def tokens_of(sql: str) -> list[Token]:
    """The statement's tokens, without space, comments and the semicolon at its end."""
    found = [Token(m.lastgroup or "", m[0], m.start(), m.end()) for m in _TOKEN.finditer(sql) if m.lastgroup != "space"]
    while found and found[-1].raw == ";":
        found.pop()
    return found


class _Reader:
    """Reads the tokens from left to right; IndexError at their end."""

    def __init__(self, sql: str, tokens: list[Token]) -> None:
        self._sql, self._tokens, self._at = sql, tokens, 0

    def _next(self) -> Token:
        self._at += 1
        return self._tokens[self._at - 1]

    def _ended(self) -> bool:
        return self._at >= len(self._tokens)

    def _is(self, *words: str) -> bool:
        """Are these the next words? If so, they are passed."""
        ahead = [t.upper for t in self._tokens[self._at : self._at + len(words)]]
        if ahead != list(words):
            return False
        self._at += len(words)
        return True

    def _need(self, *words: str) -> None:
        if not self._is(*words):
            raise _Stray

    def _name(self) -> str:
        """A name in up to three parts, as written, also as the text of `IDENTIFIER('name')`."""
        if self._is("IDENTIFIER", "("):
            name = self._text()
            self._need(")")
            return name
        first = last = self._part()
        while self._is("."):
            last = self._part()
        return self._sql[first.start : last.end]

    def _part(self) -> Token:
        token = self._next()
        if token.kind not in ("word", "name"):
            raise _Stray
        return token

    def _text(self) -> str:
        token = self._next()
        if token.kind != "text":
            raise _Stray
        return token.value

    def _within(self) -> str:
        self._need("(")
        start, depth = self._tokens[self._at].start, 1
        while depth:
            token = self._next()
            depth += {"(": 1, ")": -1}.get(token.raw, 0)
        return self._sql[start : token.start].strip()

    def _names(self) -> tuple[str, ...]:
        """`(a, b)`."""
        self._need("(")
        names = [self._part().value]
        while self._is(","):
            names.append(self._part().value)
        self._need(")")
        return tuple(names)

    def _pairs(self) -> dict[str, str]:
        """`(key 'value', 'key' = 'value', a.b = 1)`."""
        self._need("(")
        found: dict[str, str] = {}
        while not self._is(")"):
            key = self._next().value
            while self._is("."):
                key += "." + self._next().value
            self._is("=")
            found[key] = self._next().value
            self._is(",")
        return found

    def create(self) -> Statement:
        self._need("CREATE")
        or_replace = self._is("OR", "REPLACE")
        self._is("EXTERNAL")
        self._need("TABLE")
        if_not_exists = self._is("IF", "NOT", "EXISTS")
        name = self._name()
        if self._is("LIKE"):
            return Other("CREATE TABLE … LIKE", self._name())
        columns = self._within() if self._tokens[self._at].raw == "(" else None
        self._need("USING")
        using = self._name()
        made = CreateTable(name, using.strip("`"), columns, if_not_exists=if_not_exists, or_replace=or_replace)
        clauses: dict[str, object] = {}
        while not self._ended():
            if self._is("OPTIONS"):
                clauses["options"] = self._pairs()
            elif self._is("TBLPROPERTIES"):
                clauses["properties"] = self._pairs()
            elif self._is("PARTITIONED", "BY"):
                clauses["partition_by"] = self._names()
            elif self._is("LOCATION"):
                clauses["location"] = self._text()
            elif self._is("COMMENT"):
                clauses["comment"] = self._text()
            elif self._is("AS") or self._tokens[self._at].upper in _QUERY:
                clauses["from_query"] = True
                break
            else:
                raise _Stray
        return CreateTable(**{**vars(made), **clauses})

    def insert(self) -> Statement:
        self._need("INSERT")
        overwrite = self._is("OVERWRITE")
        if not overwrite:
            self._need("INTO")
        self._is("TABLE")
        name = self._name()
        partition, unvalued = self._partition() if self._is("PARTITION") else ({}, ())
        if_not_exists = self._is("IF", "NOT", "EXISTS")
        by_name = self._is("BY", "NAME")
        columns = None
        if self._tokens[self._at].raw == "(" and self._tokens[self._at + 1].upper not in _QUERY:
            columns = self._names()
        if self._tokens[self._at].upper not in _QUERY:
            raise _Stray
        query = self._sql[self._tokens[self._at].start : self._tokens[-1].end]
        return Insert(name, overwrite, query, partition, columns, by_name, if_not_exists, unvalued)

    def _partition(self) -> tuple[dict[str, str | None], tuple[str, ...]]:
        self._need("(")
        found: dict[str, str | None] = {}
        unvalued = []
        while not self._is(")"):
            key = self._part().value
            if self._is("="):
                sign = "-" if self._is("-") else ""
                token = self._next()
                found[key] = None if token.upper == "NULL" else sign + token.value
            else:
                unvalued.append(key)
            if not self._is(",") and self._tokens[self._at].raw != ")":
                raise _Stray
        return found, tuple(unvalued)

    def other(self) -> Statement:
        first = self._next().upper
        for word in ("INTO", "FROM", "TABLE"):
            self._is(word)
        name = self._name()
        if first == "ALTER":
            if self._tokens[1].upper != "TABLE" or self._is("RENAME", "TO"):
                raise _Stray
            first = "ALTER TABLE"
        return Other(first, name)

    def inserts_within(self, first: str) -> Statement | None:
        """The tables of INSERTs that do not begin the statement."""
        names = []
        while not self._ended():
            if self._is("INSERT", "INTO") or self._is("INSERT", "OVERWRITE"):
                self._is("TABLE")
                names.append(self._name())
            else:
                self._next()
        return Other(f"{first} … INSERT", names[0], tuple(names[1:])) if names else None

    def time_travel(self) -> Statement:
        for i, token in enumerate(self._tokens[:-1]):
            if token.upper in ("VERSION", "TIMESTAMP", "SYSTEM_VERSION", "SYSTEM_TIME") and i > 1:
                ahead = [t.upper for t in self._tokens[i + 1 : i + 3]]
                end = i - 1 if self._tokens[i - 1].upper == "FOR" else i
                if ahead == ["AS", "OF"] and self._tokens[end - 1].kind in ("word", "name"):
                    start = end - 1
                    while start > 1 and self._tokens[start - 1].raw == ".":
                        start -= 2
                    name = self._sql[self._tokens[start].start : self._tokens[end - 1].end]
                    return Other(f"{token.upper} AS OF", name)
        raise _Stray
