"""The list of columns of CREATE TABLE, of which Spark's own reader of such lists does not know DEFAULT.

Owns: `column_list`. Must not know: types. Source: decision 123.
Invariant: what is left for Spark is the text as written, with blanks where DEFAULT was.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...core.errors import InvalidArgument, Unsupported
from .pieces import Text
from .reader import Reader, Stray

_KEY = "write TBLPROPERTIES ('primary-key' = 'a,b')"
_REFUSED = {
    "PRIMARY": _KEY,
    "CONSTRAINT": _KEY,
    "UNIQUE": _KEY,
    "FOREIGN": "leave it out",
    "CHECK": "leave it out",
    "GENERATED": "compute the column in each INSERT",
    "MASK": "leave it out",
    "COLLATE": "leave it out: texts are compared byte by byte",
}
_MAY_BE_NAMES = ("UNIQUE", "CHECK", "MASK", "GENERATED", "COLLATE")
_CLAUSES = ("COMMENT", "NOT", "DEFAULT", "GENERATED", "MASK", "COLLATE", ",")


@dataclass(frozen=True)
class ColumnList:
    """`plain` is without DEFAULT; `defaults` has the expression of each column that has one, by the column's name."""

    plain: str
    defaults: Mapping[str, str]


def column_list(given: Text) -> ColumnList:
    """Read `id INT NOT NULL DEFAULT 1 COMMENT 'x', name STRING`.

    >>> column_list(Text("id INT DEFAULT 1 COMMENT 'x', `a b` DECIMAL(10, 2)"))
    ColumnList(plain="id INT           COMMENT 'x', `a b` DECIMAL(10, 2)", defaults={'id': '1'})

    Raises:
        Unsupported: a constraint, or a clause that columns of the format do not have; names it.
    """
    reader, plain, defaults = Reader(given.text), given.text, dict[str, str]()
    try:
        while not reader.ended:
            _check(reader, given, constraint=True)
            name = reader.part()
            reader.takes(":")
            reader.skip_type(_CLAUSES)
            while not reader.ended and not reader.takes(","):
                _check(reader, given, constraint=False)
                if not reader.takes("DEFAULT"):
                    reader.next()
                    continue
                start = reader.peek(-1).start
                first = reader.skip_until(("COMMENT", "NOT", "GENERATED", ","))
                value = reader.slice(first, reader.at)
                defaults[name] = value.text
                end = value.start + len(value.text)
                plain = plain[:start] + " " * (end - start) + plain[end:]
    except Stray:
        line = given.line + given.text.count(
            "\n", 0, reader.peek(-1).start if 0 < reader.at <= len(reader.words) else 0
        )
        raise InvalidArgument(
            f"the list of columns is not understood, line {line}", next_step="write name TYPE, …"
        ) from None
    return ColumnList(plain, defaults)


def _check(reader: Reader, given: Text, *, constraint: bool) -> None:
    word = reader.peek().upper
    if word not in _REFUSED:
        return
    following = reader.peek(1).raw if reader.at + 1 < len(reader.words) else ""
    if not constraint or word not in _MAY_BE_NAMES or following == "(":
        line = given.line + given.text.count("\n", 0, reader.peek().start)
        raise Unsupported(f"{word} in a list of columns, line {line}", next_step=_REFUSED[word])
