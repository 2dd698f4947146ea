"""Parses data types that people write as SQL text, with their parts: `ARRAY<INT>`, `MAP<STRING, ROW<a INT, b DATE>>`.

Owns: the grammar of types with parts, and their errors. Must not know: the schema file, whose types with parts are JSON (see
`types`). Source: format/schema §2.
Invariant: `parse_sql_type(sql(t))` equals t but for the ids of fields, whose names must be plain words.

    type   = atomic | ARRAY < type > | MULTISET < type > | MAP < type , type > | VECTOR < type , length >
           | ROW < field { , field } >             each may be followed by [NOT] NULL
    field  = name [:] type [COMMENT 'text']        name = word | `name`         STRUCT is another word for ROW
"""

from __future__ import annotations

import re
from itertools import count

from ..errors import InvalidArgument, TableCorrupt
from .types import (
    UNRELEASED_ROOTS,
    ArrayType,
    DataType,
    Field,
    MapType,
    MultisetType,
    RowType,
    VectorType,
    parse_atomic,
)

_NESTED = re.compile(
    r"\s*(?P<root>[A-Za-z]+)\s*<(?P<inside>.*)>\s*(?P<null>(?:NOT\s+)?NULL)?\s*", re.DOTALL | re.IGNORECASE
)
_FIELD = re.compile(r"\s*(?:`(?P<quoted>(?:[^`]|``)+)`|(?P<name>[^\W\d]\w*))(?:\s*:\s*|\s+)(?P<type>.+)", re.DOTALL)
_COMMENT = re.compile(r"(?P<type>.*\S)\s+COMMENT\s+'(?P<comment>(?:[^']|'')*)'\s*", re.DOTALL | re.IGNORECASE)
_PART = re.compile(r"`(?:[^`]|``)*`|'(?:[^']|'')*'|[<>(),]|[^`'<>(),]+|[`']")
_MOST_DEEP = 50
_NEXT = "use a SQL type: BIGINT, STRING NOT NULL, DECIMAL(10, 2), ARRAY<INT>, MAP<STRING, DATE>, ROW<a INT, b STRING>"


def parse_sql_type(text: str, where: str = "type") -> DataType:
    """A type from SQL text; case and white space are ignored outside of names. The fields of ROWs are numbered from 0,
    so they need the ids of their schema. Raises InvalidArgument.

    >>> from .types import sql
    >>> sql(parse_sql_type("map<string not null, struct<`a`: int, b array<decimal(5,1)>>> not null"))
    'MAP<STRING NOT NULL, ROW<a INT, b ARRAY<DECIMAL(5, 1)>>> NOT NULL'
    """
    return _Parser(where).type(text, 0)


class _Parser:
    def __init__(self, where: str) -> None:
        self._where, self._ids = where, count()

    def _refused(self, problem: str) -> InvalidArgument:
        return InvalidArgument(f"{self._where}: {problem}", next_step=_NEXT)

    def type(self, text: str, depth: int) -> DataType:
        found = _NESTED.fullmatch(text)
        if found is None:
            try:
                atomic = parse_atomic(text, self._where)
            except TableCorrupt as error:
                raise InvalidArgument(error.message, next_step=_NEXT) from None
            if atomic.root in UNRELEASED_ROOTS:
                raise self._refused(f"{atomic.root} is in no release of Apache Paimon, which could not open the table")
            return atomic
        if depth == _MOST_DEEP:
            raise self._refused(f"a type has more than {_MOST_DEEP} types inside each other")
        nullable = not (found["null"] or "").upper().startswith("NOT")
        root, parts = found["root"].upper(), self._parts(found["inside"])
        if root in ("ROW", "STRUCT"):
            return RowType(tuple(self._field(part, depth) for part in parts), nullable)
        expected = {"ARRAY": 1, "MULTISET": 1, "MAP": 2, "VECTOR": 2}.get(root)
        if expected is None:
            raise self._refused(f"unknown type {text.strip()!r}")
        if len(parts) != expected:
            raise self._refused(f"{root} takes {expected} parts, and {text.strip()!r} has {len(parts)}")
        first = self.type(parts[0], depth + 1)
        if root == "MAP":
            return MapType(first, self.type(parts[1], depth + 1), nullable)
        if root == "VECTOR":
            if not parts[1].strip().isdecimal():
                raise self._refused(f"the length of a VECTOR is a number, not {parts[1].strip()!r}")
            return VectorType(first, int(parts[1]), nullable)
        return ArrayType(first, nullable) if root == "ARRAY" else MultisetType(first, nullable)

    def _field(self, text: str, depth: int) -> Field:
        commented = _COMMENT.fullmatch(text)
        found = _FIELD.fullmatch(text if commented is None else commented["type"])
        if found is None:
            raise self._refused(f"{text.strip()!r} is not a field of a ROW, which is NAME TYPE")
        name = found["name"] or found["quoted"].replace("``", "`")
        comment = None if commented is None else commented["comment"].replace("''", "'")
        kind = self.type(found["type"], depth + 1)
        return Field(next(self._ids), name, kind, comment)

    def _parts(self, inside: str) -> list[str]:
        parts, brackets = [""], ""
        for piece in _PART.findall(inside):
            if piece in "<(":
                brackets += piece
            elif piece in ">)":
                if brackets[-1:] != {">": "<", ")": "("}[piece]:
                    raise self._refused(f"the brackets in {inside.strip()!r} do not match")
                brackets = brackets[:-1]
            if piece == "," and not brackets:
                parts.append("")
            else:
                parts[-1] += piece
        if brackets:
            raise self._refused(f"the brackets in {inside.strip()!r} do not match")
        return parts
