"""Parses predicates from SQL text, which is the part after WHERE.

Owns: the tokens and the grammar of `parse_where`. Must not know: the types of columns (see `predicate.bind`), Arrow.
Source: design/architecture §5.md. Invariants: Text and `col()` give the same tree. Every error names the position.

    condition  = and-term { OR and-term }
    and-term   = not-term { AND not-term }
    not-term   = NOT not-term | ( condition ) | test
    test       = column [ = <> != < <= > >= ] literal | literal operator column | column
               | column IS [NOT] NULL | column [NOT] IN ( literal, … ) | column [NOT] LIKE 'text'
               | column [NOT] BETWEEN literal AND literal
    column     = word { . word }                 word = name | `name` | "name"
    literal    = number | 'text' | TRUE | FALSE | NULL | DATE 'text' | TIME 'text' | TIMESTAMP 'text' | X'hex'
"""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal
from typing import Any, NamedTuple, NoReturn

from ..errors import InvalidArgument
from .predicate import And, Comparison, Not, Or, Predicate

_WORD = re.compile(
    r"""(?P<space>\s+|--[^\n]*)
      | (?P<hex>[xX]'(?P<digits>[0-9a-fA-F]*)')
      | (?P<text>'(?:[^']|'')*')
      | (?P<quoted>`(?:[^`]|``)+`|"(?:[^"]|"")+")
      | (?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?![\w.]))
      | (?P<name>[^\W\d]\w*)
      | (?P<sign><=|>=|<>|!=|==|[=<>(),.+-])""",
    re.VERBOSE,
)
_OPERATORS = {"=": "=", "==": "=", "<>": "!=", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_MIRRORED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_KEYWORDS = frozenset("AND OR NOT IS NULL IN LIKE BETWEEN TRUE FALSE".split())
_TYPED = ("DATE", "TIME", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ")
_MAX_DEPTH = 100
_MAX_DIGITS = 400
_PLAIN_LIKE = re.compile(r"(?P<before>%*)(?P<text>[^%_\\]*)(?P<after>%*)")


class _Token(NamedTuple):
    kind: str
    text: str
    position: int


def parse_where(text: str) -> Predicate:
    """Parse a condition in SQL.

    Args:
        text: the text after WHERE, with keywords in upper or lower case. Quotes inside text are doubled. Names that are
            not plain words are quoted with backticks or double quotes.

    Returns:
        The predicate, which is not bound to columns yet.

    Raises:
        InvalidArgument: The text is not a condition; the message names the position, counted from 1.

    >>> str(parse_where("month = 1 and carrier in ('AA', 'UA') and not (a is null or b like 'x%')"))
    "month = 1 AND carrier IN ('AA', 'UA') AND NOT (a IS NULL OR b STARTS WITH 'x')"
    """
    parser = _Parser(text)
    predicate = parser.condition(0)
    if parser.token.kind != "end":
        parser.fail("AND, OR or the end is expected")
    return predicate


def _tokens(text: str) -> list[_Token]:
    tokens, position = [], 0
    while position < len(text):
        found = _WORD.match(text, position)
        if found is None:
            raise _error(text, position, f"{text[position]!r} is unexpected", "check quotes and numbers")
        kind = found.lastgroup if found["hex"] is None else "hex"
        if kind != "space":
            tokens.append(_Token(kind or "", found["digits"] if kind == "hex" else found[0], position))
        position = found.end()
    tokens.append(_Token("end", "", len(text)))
    return tokens


def _error(text: str, position: int, problem: str, next_step: str = "") -> InvalidArgument:
    near = text[position : position + 20]
    return InvalidArgument(f"where, position {position + 1}: {problem}, near {near!r}", next_step=next_step)


class _Parser:
    """Recursive descent over the tokens of one text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _tokens(text)
        self._next = 0

    @property
    def token(self) -> _Token:
        return self._tokens[self._next]

    def fail(self, problem: str, next_step: str = "") -> NoReturn:
        raise _error(self._text, self.token.position, problem, next_step)

    def _advance(self) -> _Token:
        token = self.token
        self._next += 1
        return token

    def _keyword(self, *words: str) -> bool:
        """Consume the words if they are the next tokens."""
        ahead = self._tokens[self._next : self._next + len(words)]
        if [t.text.upper() if t.kind == "name" else "" for t in ahead] != list(words):
            return False
        self._next += len(words)
        return True

    def _sign(self, sign: str) -> bool:
        if self.token.kind == "sign" and self.token.text == sign:
            self._next += 1
            return True
        return False

    def _expect(self, sign: str) -> None:
        if not self._sign(sign):
            self.fail(f"'{sign}' is expected")

    # -------------------------------------------------------------------------------------------------- conditions

    def condition(self, depth: int) -> Predicate:
        parts = [self._and_term(depth)]
        while self._keyword("OR"):
            parts.append(self._and_term(depth))
        return parts[0] if len(parts) == 1 else Or(_flat(Or, parts))

    def _and_term(self, depth: int) -> Predicate:
        parts = [self._not_term(depth)]
        while self._keyword("AND"):
            parts.append(self._not_term(depth))
        return parts[0] if len(parts) == 1 else And(_flat(And, parts))

    def _not_term(self, depth: int) -> Predicate:
        if depth > _MAX_DEPTH:
            self.fail(f"more than {_MAX_DEPTH} nested brackets")
        if self._keyword("NOT"):
            return Not(self._not_term(depth + 1))
        if self._sign("("):
            inside = self.condition(depth + 1)
            self._expect(")")
            return inside
        return self._test()

    def _test(self) -> Predicate:
        if not self._at_column():
            return self._literal_first()
        column = self._column()
        if self.token.kind == "sign" and self.token.text in _OPERATORS:
            return replace(column, op=_OPERATORS[self._advance().text], literals=(self._literal(),))
        if self._keyword("IS", "NOT", "NULL"):
            return replace(column, op="is_not_null")
        if self._keyword("IS", "NULL"):
            return column
        negated = self._keyword("NOT")
        test = self._worded_test(column)
        if test is None:
            if negated:
                self.fail("IN, LIKE or BETWEEN is expected after NOT")
            return replace(column, op="=", literals=(True,))
        return Not(test) if negated else test

    def _worded_test(self, column: Comparison) -> Predicate | None:
        if self._keyword("IN"):
            self._expect("(")
            values = [self._literal()]
            while self._sign(","):
                values.append(self._literal())
            self._expect(")")
            return replace(column, op="in", literals=tuple(values))
        if self._keyword("LIKE"):
            pattern = self._literal()
            if not isinstance(pattern, str):
                self.fail("a pattern in quotes is expected before this")
            return replace(like(column.column, pattern), path=column.path)
        if self._keyword("BETWEEN"):
            low = self._literal()
            if not self._keyword("AND"):
                self.fail("AND is expected")
            bounds = (">=", low), ("<=", self._literal())
            return And(tuple(replace(column, op=op, literals=(bound,)) for op, bound in bounds))
        return None

    def _literal_first(self) -> Predicate:
        value = self._literal()
        if self.token.kind != "sign" or self.token.text not in _OPERATORS:
            self.fail("a comparison with a column is expected")
        op = _OPERATORS[self._advance().text]
        if not self._at_column():
            self.fail("a column is expected")
        return replace(self._column(), op=_MIRRORED[op], literals=(value,))

    # ---------------------------------------------------------------------------------------- columns and literals

    def _at_column(self) -> bool:
        token = self.token
        if token.kind == "quoted":
            return True
        if token.kind != "name" or token.text.upper() in _KEYWORDS:
            return False
        return not (token.text.upper() in _TYPED and self._tokens[self._next + 1].kind == "text")

    def _column(self) -> Comparison:
        """A column, or a field of one, as a test that is still to be chosen."""
        names = [self._name()]
        while self._sign("."):
            if self.token.kind not in ("name", "quoted"):
                self.fail("the name of a field is expected after the dot")
            names.append(self._name())
        return Comparison("is_null", names[0], path=tuple(names[1:]))

    def _name(self) -> str:
        token = self._advance()
        if token.kind == "quoted":
            quote = token.text[0]
            return token.text[1:-1].replace(quote * 2, quote)
        return token.text

    def _literal(self) -> Any:
        for word, value in (("NULL", None), ("TRUE", True), ("FALSE", False)):
            if self._keyword(word):
                return value
        token = self.token
        if token.kind == "name" and token.text.upper() in _TYPED and self._tokens[self._next + 1].kind == "text":
            self._next += 1
        if self.token.kind == "number" or (self.token.kind == "sign" and self.token.text in "+-"):
            return self._number()
        token = self.token
        if token.kind == "hex" and len(token.text) % 2:
            self.fail("a hex literal needs two digits for each byte")
        if token.kind not in ("text", "hex"):
            hint = "text goes in single quotes" if token.kind in ("name", "quoted") else ""
            self.fail("a value is expected", hint)
        self._next += 1
        return bytes.fromhex(token.text) if token.kind == "hex" else token.text[1:-1].replace("''", "'")

    def _number(self) -> int | Decimal:
        negative = self.token.kind == "sign" and self._advance().text == "-"
        token = self.token
        if token.kind != "number" or len(token.text) > _MAX_DIGITS:
            self.fail("a number is expected")
        self._next += 1
        number = int(token.text) if token.text.isdecimal() else Decimal(token.text)
        return -number if negative else number


def _flat(kind: type[And | Or], parts: list[Predicate]) -> tuple[Predicate, ...]:
    out: list[Predicate] = []
    for part in parts:
        out.extend(part.parts if isinstance(part, kind) else (part,))
    return tuple(out)


def like(column: str, pattern: str) -> Comparison:
    """The simplest predicate for a LIKE; statistics can answer a pattern whose only wildcard is at one end.

    >>> str(like("a", "%x%"))
    "a CONTAINS 'x'"
    """
    found = _PLAIN_LIKE.fullmatch(pattern)
    if found is None:
        return Comparison("like", column, (pattern,))
    before, after = found["before"], found["after"]
    op = "contains" if before and after else "ends_with" if before else "starts_with" if after else "="
    return Comparison(op, column, (found["text"],))
