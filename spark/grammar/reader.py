"""Reads the words of a statement from left to right.

Owns: `Reader`, which knows names, texts, lists, and where an expression ends. Must not know: which statements there are.
Source: decision 123. Invariant: what has another form is `Stray`, and the statement is left to Spark, which reports its mistakes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .pieces import Name, Text, Travel
from .words import Word, place, words_of

QUERY = ("SELECT", "WITH", "VALUES", "TABLE", "FROM", "MAP", "REDUCE", "(")
_OPENS, _CLOSES = ("(", "[", "{"), (")", "]", "}")
_JOINING = frozenset("+ - * / % || & | ^ DIV ::".split())
_SIGNED = ("DATE", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ", "INTERVAL")


class Stray(Exception):
    """The statement has another form."""


class Reader:
    """A place between the words of a statement.

    Args:
        sql: the statement.
        parameters: values of `:name`, for names that `IDENTIFIER(:name)` gives.
    """

    def __init__(self, sql: str, parameters: Mapping[str, Any] | None = None) -> None:
        self.sql, self.words, self.at = sql, words_of(sql), 0
        self.parameters = parameters or {}

    # ---------------------------------------------------------------------------------------------------------- words

    def peek(self, ahead: int = 0) -> Word:
        """The word ahead; `Stray` behind the last one."""
        if not 0 <= self.at + ahead < len(self.words):
            raise Stray
        return self.words[self.at + ahead]

    def next(self) -> Word:
        word = self.peek()
        self.at += 1
        return word

    @property
    def ended(self) -> bool:
        return self.at >= len(self.words)

    @property
    def end(self) -> int:
        """The place after the last word."""
        return self.words[-1].end if self.words else 0

    def sees(self, *words: str) -> bool:
        """Are these the next words?"""
        return [word.upper for word in self.words[self.at : self.at + len(words)]] == list(words)

    def takes(self, *words: str) -> bool:
        """Are these the next words? If so, they are passed."""
        found = self.sees(*words)
        self.at += len(words) if found else 0
        return found

    def takes_one(self, *words: str) -> str | None:
        """The next word, if it is one of these, and passed."""
        found = not self.ended and self.peek().upper in words
        return self.next().upper if found else None

    def need(self, *words: str) -> None:
        if not self.takes(*words):
            raise Stray

    def need_end(self) -> None:
        if not self.ended:
            raise Stray

    # ---------------------------------------------------------------------------------------------------- small pieces

    def name(self) -> Name:
        """A name in parts, also as `IDENTIFIER('name')`."""
        start = self.peek().start
        if self.takes("IDENTIFIER", "("):
            parts = self._identified()
            self.need(")")
            return Name(parts, start, self.words[self.at - 1].end)
        parts = (self.part(),)
        while self.takes("."):
            parts = (*parts, self.part())
        return Name(parts, start, self.words[self.at - 1].end)

    def part(self) -> str:
        word = self.next()
        if not word.is_name and not word.raw.isdigit():
            raise Stray
        return word.value

    def _identified(self) -> tuple[str, ...]:
        if self.takes(":"):
            given = self.parameters.get(self.part())
            if not isinstance(given, str):
                raise Stray
            inner = Reader(given)
        else:
            inner = Reader(self.text())
        found = inner.name()
        inner.need_end()
        return found.parts

    def text(self) -> str:
        """A text, or several beside each other, which are one to Spark."""
        word = self.next()
        if word.kind != "text":
            raise Stray
        value = word.value
        while not self.ended and self.peek().kind == "text":
            value += self.next().value
        return value

    def names(self) -> tuple[str, ...]:
        """`(a, b)`."""
        self.need("(")
        names = [self.part()]
        while self.takes(","):
            names.append(self.part())
        self.need(")")
        return tuple(names)

    def pairs(self) -> dict[str, str]:
        """`(key 'value', 'key' = 'value', a.b = 1)`."""
        self.need("(")
        found: dict[str, str] = {}
        while not self.takes(")"):
            key = self.key()
            self.takes("=")
            sign = self.next().raw if self.peek().raw in ("-", "+") else ""
            found[key] = self.text() if self.peek().kind == "text" else sign + self.next().value
            if not self.takes(",") and not self.sees(")"):
                raise Stray
        return found

    def key(self) -> str:
        """The name of a property, as text or in parts."""
        if self.peek().kind == "text":
            return self.text()
        key = self.next().value
        while self.takes_one(".", "-"):
            key += self.words[self.at - 1].raw + self.next().value
        return key

    def partition(self) -> tuple[dict[str, str | None], tuple[str, ...]]:
        """`(a = 1, b = 'x', c)`: the values as texts, None for NULL, and the columns without one."""
        self.need("(")
        found: dict[str, str | None] = {}
        unvalued = []
        while not self.takes(")"):
            key = self.part()
            if self.takes("=") or self.takes("=="):
                found[key] = self._constant()
            else:
                unvalued.append(key)
            if not self.takes(",") and not self.sees(")"):
                raise Stray
        return found, tuple(unvalued)

    def _constant(self) -> str | None:
        if self.takes("NULL"):
            return None
        if self.peek().upper in _SIGNED[:4] and self.peek(1).kind == "text":
            self.next()
        if self.peek().kind == "text":
            return self.text()
        sign = "-" if self.takes("-") else ""
        word = self.next()
        if word.kind != "number" and word.upper not in ("TRUE", "FALSE"):
            raise Stray
        return sign + (word.raw.lower() if word.kind == "word" else word.raw.rstrip("lLsSyY"))

    # ------------------------------------------------------------------------------------------------ longer stretches

    def slice(self, first: int, last: int) -> Text:
        """The text from one word to the word before another, by their numbers."""
        if first >= last:
            raise Stray
        start = self.words[first].start
        return Text(self.sql[start : self.words[last - 1].end], start, *place(self.sql, start))

    def skip_parentheses(self) -> int:
        """Pass what is in parentheses; the number of the word after the first one."""
        self.need("(")
        first, depth = self.at, 1
        while depth:
            word = self.next()
            depth += (word.raw in _OPENS) - (word.raw in _CLOSES)
        return first

    def skip_type(self, stops: Iterable[str]) -> int:
        """As `skip_until`, for the name of a type, whose `<` and `>` are parentheses."""
        first, depth, wanted = self.at, 0, frozenset(stops)
        while not self.ended:
            raw = self.peek().raw
            if depth == 0 and (self.peek().upper in wanted or raw in _CLOSES):
                break
            depth += raw.count("<") - raw.count(">") + (raw in _OPENS) - (raw in _CLOSES)
            self.at += 1
        return first

    def skip_until(self, stops: Iterable[str]) -> int:
        """Pass words up to one of `stops` outside of parentheses and of CASE … END, or the end; the number of the first."""
        first, depth, cases, wanted = self.at, 0, 0, frozenset(stops)
        while not self.ended:
            word = self.peek()
            after_dot = self.at > first and self.peek(-1).raw == "."
            if depth == 0 and cases == 0 and word.upper in wanted and not after_dot:
                break
            if depth == 0 and word.raw in _CLOSES:
                break
            depth += (word.raw in _OPENS) - (word.raw in _CLOSES)
            if not after_dot:
                cases += (word.upper == "CASE") - (word.upper == "END" and cases > 0)
            self.at += 1
        return first

    def travel(self) -> Travel | None:
        """`[FOR] VERSION AS OF …` and its like, or `@v3`, if it comes next; it is passed."""
        start = self.at
        self.takes("FOR")
        word = self.takes_one("VERSION", "SYSTEM_VERSION", "TIMESTAMP", "SYSTEM_TIME")
        if word is not None and self.takes("AS", "OF"):
            first = self.at
            if "VERSION" in word:
                if not self.takes(":") and self.peek().kind not in ("number", "text"):
                    raise Stray
                self.next()
                return Travel("version", self.slice(first, self.at))
            self._operand()
            while self.takes_one(*_JOINING):
                self._operand()
            return Travel("timestamp", self.slice(first, self.at))
        self.at = start
        return self._travel_by_sign()

    def _travel_by_sign(self) -> Travel | None:
        near = not self.ended and self.at > 0 and self.peek().raw == "@" and self.peek().start == self.peek(-1).end
        if not near or self.peek(1).start != self.peek().end:
            return None
        said = self.peek(1)
        version = said.upper[:1] == "V" and said.raw[1:].isdigit()
        if not version and not (said.raw.isdigit() and len(said.raw) == 17):
            raise Stray
        self.at += 2
        where = (said.start, *place(self.sql, said.start))
        if version:
            return Travel("version", Text(said.raw[1:], *where))
        t = said.raw
        clock = f"{t[:4]}-{t[4:6]}-{t[6:8]} {t[8:10]}:{t[10:12]}:{t[12:14]}.{t[14:]}"
        return Travel("timestamp", Text(f"'{clock}'", *where))

    def _operand(self) -> None:
        """Pass one operand of a value."""
        while self.takes_one("-", "+"):
            pass
        if self.peek().raw == "(":
            self.skip_parentheses()
        elif self.takes("CASE"):
            self.skip_until(("END",))
            self.need("END")
        elif self.takes("INTERVAL"):
            self._operand()
            while not self.ended and self.peek().upper.rstrip("S") in _UNITS:
                self.next()
                self.takes("TO")
        elif self.peek().upper in _SIGNED and self.peek(1).kind == "text":
            self.next()
            self.text()
        elif self.peek().kind == "text":
            self.text()
        elif self.takes(":") or self.peek().is_name:
            self.name()
            if not self.ended and self.peek().raw == "(":
                self.skip_parentheses()
        elif self.peek().kind == "number" or self.peek().raw == "?":
            self.next()
        else:
            raise Stray


_UNITS = frozenset("YEAR QUARTER MONTH WEEK DAY HOUR MINUTE SECOND MILLISECOND MICROSECOND NANOSECOND".split())
