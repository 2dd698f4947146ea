"""Parses expressions from SQL text: values after SET, conditions after ON, WHEN and WHERE.

Owns: the tokens and the grammar of `parse_expression`. Must not know: the types of columns (see `binding`), Arrow.
Source: architecture §5. Invariant: every error names the position.

    expression = and { OR and }            and = not { AND not }            not = [NOT] test
    test       = sum [ comparison sum | IS [NOT] (NULL | TRUE | FALSE) | [NOT] IN ( expression, … )
               | [NOT] LIKE sum [ ESCAPE 'c' ] | [NOT] BETWEEN sum AND sum ]
    sum        = product { (+ | - | ||) product }              product = unary { (* | / | %) unary }
    unary      = [+ | -] value
    value      = literal | ( expression ) | CASE … END | CAST ( expression AS type ) | name ( … ) | name { . name }
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any, NamedTuple, NoReturn

from ..errors import InvalidArgument
from ..rows.type_text import parse_sql_type
from .tree import And, Call, Case, Cast, Expression, Literal, Not, Or, Reference

_WORD = re.compile(
    r"""(?P<space>\s+|--[^\n]*)
      | (?P<hex>[xX]'(?:[0-9a-fA-F]{2})*')
      | (?P<text>'(?:[^']|'')*')
      | (?P<quoted>`(?:[^`]|``)+`|"(?:[^"]|"")+")
      | (?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?![\w.]))
      | (?P<name>[^\W\d]\w*)
      | (?P<sign><=>|<=|>=|<>|!=|==|\|\||[=<>(),.+\-*/%])""",
    re.VERBOSE,
)
_COMPARED = {"=": "=", "==": "=", "<>": "!=", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">=", "<=>": "<=>"}
_TYPED = ("DATE", "TIME", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ")
_SPOKEN = {"TIMESTAMP_NTZ": "TIMESTAMP"}
"""Spark's names of types that a table does not have."""
_RESERVED = frozenset("AND OR NOT IS NULL IN LIKE BETWEEN TRUE FALSE CASE WHEN THEN ELSE END CAST AS".split())
_MAX_DEPTH = 60
_MAX_DIGITS = 400


class _Token(NamedTuple):
    kind: str
    text: str
    start: int
    end: int


def parse_expression(text: str | Expression, where: str = "expression") -> Expression:
    """Parse SQL. An expression that was made with `ll.col` or `ll.in_zone` is returned as it is.

    Keywords may be in lower case. Quotes inside text are doubled. Names that are no plain words are quoted with
    backticks or double quotes. Raises InvalidArgument, which names the position, counted from 1.

    >>> parse_expression("a + 1")
    Call(name='+', arguments=(Reference(parts=('a',), bound=False), Literal(value=1, kind='')))
    """
    if isinstance(text, Expression):
        return text
    if not isinstance(text, str):
        raise InvalidArgument(f"{where} is {text!r}", next_step="give SQL text")
    parser = _Parser(text, where)
    expression = parser.expression(0)
    parser.expect_end()
    return expression


class _Parser:
    def __init__(self, text: str, where: str) -> None:
        self._text, self._where = text, where
        self._tokens = self._read()
        self._next = 0

    def _read(self) -> list[_Token]:
        tokens, position = [], 0
        while position < len(self._text):
            found = _WORD.match(self._text, position)
            if found is None:
                self._fail_at(position, f"{self._text[position]!r} is unexpected", "check quotes and numbers")
            if found.lastgroup != "space":
                tokens.append(_Token(found.lastgroup or "", found[0], position, found.end()))
            position = found.end()
        tokens.append(_Token("end", "", len(self._text), len(self._text)))
        return tokens

    def _fail_at(self, position: int, problem: str, next_step: str = "") -> NoReturn:
        near = self._text[position : position + 20]
        raise InvalidArgument(f"{self._where}, position {position + 1}: {problem}, near {near!r}", next_step=next_step)

    def fail(self, problem: str, next_step: str = "") -> NoReturn:
        self._fail_at(self._token.start, problem, next_step)

    @property
    def _token(self) -> _Token:
        return self._tokens[self._next]

    def at_end(self) -> bool:
        return self._token.kind == "end"

    def expect_end(self) -> None:
        if not self.at_end():
            self.fail("an operator or the end is expected")

    def keyword(self, *words: str) -> bool:
        ahead = self._tokens[self._next : self._next + len(words)]
        if [t.text.upper() if t.kind == "name" else "" for t in ahead] != list(words):
            return False
        self._next += len(words)
        return True

    def _need(self, word: str) -> None:
        if not self.keyword(word):
            self.fail(f"{word} is expected")

    def _sign(self, *signs: str) -> str:
        token = self._token
        if token.kind != "sign" or token.text not in signs:
            return ""
        self._next += 1
        return token.text

    def _expect(self, sign: str) -> None:
        if not self._sign(sign):
            self.fail(f"'{sign}' is expected")

    # -------------------------------------------------------------------------------------------------- conditions

    def expression(self, depth: int) -> Expression:
        if depth > _MAX_DEPTH:
            self.fail(f"more than {_MAX_DEPTH} nested brackets")
        parts = [self._and(depth)]
        while self.keyword("OR"):
            parts.append(self._and(depth))
        return _joined(Or, parts)

    def _and(self, depth: int) -> Expression:
        parts = [self._not(depth)]
        while self.keyword("AND"):
            parts.append(self._not(depth))
        return _joined(And, parts)

    def _not(self, depth: int) -> Expression:
        negations = 0
        while self.keyword("NOT"):
            negations += 1
        found = self._test(depth)
        return _negated(found, bool(negations % 2))

    def _test(self, depth: int) -> Expression:
        left = self._sum(depth)
        while True:
            token = self._token
            if token.kind == "sign" and token.text in _COMPARED:
                self._next += 1
                left = Call(_COMPARED[token.text], (left, self._sum(depth)))
            elif self.keyword("IS"):
                negated = self.keyword("NOT")
                truth = next((word for word in ("TRUE", "FALSE") if self.keyword(word)), "")
                if not truth:
                    self._need("NULL")
                left = _negated(
                    Call("<=>", (left, Literal(truth == "TRUE"))) if truth else Call("is_null", (left,)), negated
                )
            else:
                negated = self.keyword("NOT")
                test = self._worded(left, depth)
                if test is None:
                    if negated:
                        self.fail("IN, LIKE or BETWEEN is expected after NOT")
                    return left
                left = _negated(test, negated)

    def _worded(self, left: Expression, depth: int) -> Expression | None:
        if self.keyword("IN"):
            self._expect("(")
            if self._token.text == ")":
                self.fail("a value is expected")
            return Call("in", (left, *self._arguments(depth)))
        if self.keyword("LIKE"):
            return Call("like", (left, self._pattern(depth)))
        if self.keyword("BETWEEN"):
            low = self._sum(depth)
            self._need("AND")
            high = self._sum(depth)
            return And((Call(">=", (left, low)), Call("<=", (left, high))))
        return None

    def _pattern(self, depth: int) -> Expression:
        """The pattern of a LIKE. One with a character of its own for escaping is written anew with backslashes."""
        pattern = self._sum(depth)
        if not self.keyword("ESCAPE"):
            return pattern
        token = self._token
        escape = _unquoted(token.text) if token.kind == "text" else ""
        if len(escape) != 1 or not (isinstance(pattern, Literal) and isinstance(pattern.value, str)):
            self.fail("one character in quotes is expected after a pattern in quotes and ESCAPE")
        self._next += 1
        return Literal(_with_backslashes(pattern.value, escape))

    # ------------------------------------------------------------------------------------------------------ values

    def _sum(self, depth: int) -> Expression:
        found = self._product(depth)
        while sign := self._sign("+", "-", "||"):
            found = Call(sign, (found, self._product(depth)))
        return found

    def _product(self, depth: int) -> Expression:
        found = self._unary(depth)
        while sign := self._sign("*", "/", "%"):
            found = Call(sign, (found, self._unary(depth)))
        return found

    def _unary(self, depth: int) -> Expression:
        negations = 0
        while sign := self._sign("+", "-"):
            negations += sign == "-"
        if negations % 2 and self._token.kind == "number":
            number = self._number()
            return Literal(-number)
        found = self._value(depth)
        return Call("negate", (found,)) if negations % 2 else found

    def _value(self, depth: int) -> Expression:
        if self._sign("("):
            inside = self.expression(depth + 1)
            self._expect(")")
            return inside
        for word, value in (("NULL", None), ("TRUE", True), ("FALSE", False)):
            if self.keyword(word):
                return Literal(value)
        token, after = self._token, self._tokens[min(self._next + 1, len(self._tokens) - 1)]
        if self.keyword("CASE"):
            return self._case(depth + 1)
        if self.keyword("CAST"):
            return self._cast(depth + 1)
        if token.kind == "number":
            return Literal(self._number())
        if token.kind == "text":
            self._next += 1
            return Literal(_unquoted(token.text))
        if token.kind == "hex":
            self._next += 1
            return Literal(bytes.fromhex(token.text[2:-1]))
        if token.kind == "name" and after.kind == "text" and token.text.upper() in _TYPED:
            self._next += 2
            return Literal(_unquoted(after.text), token.text.upper())
        if token.kind == "name" and (after.kind, after.text) == ("sign", "("):
            self._next += 2
            return Call(token.text.lower(), self._arguments(depth))
        if token.kind == "quoted" or (token.kind == "name" and token.text.upper() not in _RESERVED):
            return self._reference()
        self.fail("a value is expected", "text goes in single quotes" if token.kind == "name" else "")

    def _arguments(self, depth: int) -> tuple[Expression, ...]:
        if self._sign(")"):
            return ()
        found = [self.expression(depth + 1)]
        while self._sign(","):
            found.append(self.expression(depth + 1))
        self._expect(")")
        return tuple(found)

    def _reference(self) -> Reference:
        parts = [self._name()]
        while self._sign("."):
            if self._token.kind not in ("name", "quoted"):
                self.fail("a name is expected after the dot")
            parts.append(self._name())
        return Reference(tuple(parts))

    def _name(self) -> str:
        token = self._token
        self._next += 1
        return _unquoted(token.text) if token.kind == "quoted" else token.text

    def _number(self) -> Any:
        text = self._token.text
        if len(text) > _MAX_DIGITS:
            self.fail("the number is too long")
        self._next += 1
        if text.isdecimal():
            return int(text)
        return float(text) if "e" in text.lower() else Decimal(text)

    def _case(self, depth: int) -> Expression:
        subject = None if self._at("WHEN") else self.expression(depth)
        branches = []
        while self.keyword("WHEN"):
            condition = self.expression(depth)
            if subject is not None:
                condition = Call("=", (subject, condition))
            self._need("THEN")
            branches.append((condition, self.expression(depth)))
        if not branches:
            self.fail("WHEN is expected")
        otherwise = self.expression(depth) if self.keyword("ELSE") else Literal(None)
        self._need("END")
        return Case(tuple(branches), otherwise)

    def _at(self, word: str) -> bool:
        return self._token.kind == "name" and self._token.text.upper() == word

    def _cast(self, depth: int) -> Expression:
        self._expect("(")
        value = self.expression(depth)
        self._need("AS")
        start, nested = self._token.start, 0
        while not (self._token.text == ")" and not nested):
            if self.at_end():
                self.fail("')' is expected")
            nested += {"(": 1, ")": -1}.get(self._token.text, 0)
            self._next += 1
        text = self._text[start : self._token.start].strip()
        spoken = _SPOKEN.get(text.upper(), text)
        data_type = parse_sql_type(spoken, f"{self._where}: CAST")
        self._expect(")")
        return Cast(value, data_type)


def _unquoted(text: str) -> str:
    quote = text[0]
    return text[1:-1].replace(quote * 2, quote)


def _negated(test: Expression, negated: bool) -> Expression:
    return Not(test) if negated else test


def _joined(kind: type[And | Or], parts: list[Expression]) -> Expression:
    if len(parts) == 1:
        return parts[0]
    return kind(tuple(inner for part in parts for inner in (part.parts if isinstance(part, kind) else (part,))))


def _with_backslashes(pattern: str, escape: str) -> str:
    r"""A LIKE pattern that escapes with a backslash.

    >>> print(_with_backslashes("10!%%!!", "!"))
    10\%%!
    """
    out, characters = [], iter(pattern)
    for c in characters:
        if c == escape:
            c = next(characters, escape)
            out.append(f"\\{c}" if c in "%_\\" else c)
        else:
            out.append("\\\\" if c == "\\" else c)
    return "".join(out)
