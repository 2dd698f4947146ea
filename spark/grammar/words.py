"""The words of a statement with their places, by sqlglot's tokenizer.

Owns: `Word`, `words_of`, and where an offset is. Must not know: what words mean together. Source: decision 123.

sqlglot is imported here and in `tables_read`, when a statement may be ours. Its tokenizer is asked for Spark's dialect, with
three differences of Spark's lexer put right: no word begins a command whose rest is one token, two quotes inside of a text are
one quote, and a backslash at the end of a line lets its comment go on.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from ...core.errors import InvalidArgument

Kind = Literal["word", "quoted", "text", "number", "sign", "hint"]
_INSIDE = re.compile(r"[^\W\d]\w*")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "b": "\b", "Z": "\x1a", "%": "\\%", "_": "\\_"}
_ESCAPED = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.))", re.DOTALL)
_GOES_ON = re.compile(r"--[^\n]*\\\n")


@dataclass(frozen=True)
class Word:
    """A word, name, text, number or sign; `raw` is as written, and `end` the place after it."""

    kind: Kind
    raw: str
    start: int
    end: int

    @property
    def upper(self) -> str:
        return self.raw.upper() if self.kind in ("word", "sign") else ""

    @property
    def is_name(self) -> bool:
        return self.kind in ("word", "quoted")

    @property
    def value(self) -> str:
        """A name without its quotes, or what a text says."""
        if self.kind == "quoted":
            return self.raw[1:-1].replace("``", "`")
        if self.kind != "text":
            return self.raw
        raw = self.raw[0] in "rR"
        body = self.raw[1:] if raw else self.raw
        return body[1:-1] if raw else _ESCAPED.sub(_unescaped, body[1:-1].replace(body[0] * 2, body[0]))


def words_of(sql: str) -> list[Word]:
    """The words without space, comments, and semicolons at the end.

    Raises:
        InvalidArgument: a text or a comment does not end.

    >>> [word.value for word in words_of("SELECT 'it''s' /* x */ FROM `a b`.t;")]
    ['SELECT', "it's", 'FROM', 'a b', '.', 't']
    """
    seen = sql
    while True:
        words = _words(seen)
        found = _comment_that_goes_on(seen, words)
        if found is None:
            break
        seen = f"{seen[: found - 1]} {seen[found:]}"
    while words and words[-1].raw == ";":
        words.pop()
    return words


def place(sql: str, offset: int) -> tuple[int, int]:
    """The line and column of an offset, counted from 1."""
    return sql.count("\n", 0, offset) + 1, offset - sql.rfind("\n", 0, offset)


def at(sql: str, offset: int) -> str:
    """Where an offset is, for errors."""
    line, column = place(sql, offset)
    return f"at line {line}, column {column}"


def _words(sql: str) -> list[Word]:
    words: list[Word] = []
    for token in _tokens(sql):
        start, end = token.start, token.end + 1
        if words and start < words[-1].end:
            continue  # sqlglot makes a cast of 10L
        raw, name = sql[start:end], token.token_type.name
        last = words[-1] if words else None
        if name == "IDENTIFIER":
            words.append(Word("quoted", raw, start, end))
        elif name in ("STRING", "RAW_STRING"):
            if last is not None and last.kind == "text" and last.end == start and last.raw[-1] == raw[0]:
                words[-1] = Word("text", last.raw + raw, last.start, end)
            else:
                words.append(Word("text", raw, start, end))
        elif name == "HINT":
            words.append(Word("hint", raw, start, end))
        elif name == "NUMBER" or name.endswith("_STRING"):  # X'1F' too, of which nobody asks more
            words.append(Word("number", raw, start, end))
        elif last is not None and last.end == start and last.raw.isdigit() and raw.isidentifier():
            words[-1] = Word("word", last.raw + raw, last.start, end)  # Spark's names may begin with digits
        elif raw[0].isalpha() or raw[0] == "_":
            words += [Word("word", m[0], start + m.start(), start + m.end()) for m in _INSIDE.finditer(raw)]
        else:
            words.append(Word("sign", raw, start, end))
    return words


def _tokens(sql: str) -> list[Any]:
    from sqlglot.errors import TokenError

    try:
        return list(_tokenizer()().tokenize(sql))
    except TokenError as error:
        raise InvalidArgument(
            f"the statement cannot be read: {error}", next_step="check quotes and comments"
        ) from error


@cache
def _tokenizer() -> Any:
    try:
        from sqlglot.dialects.spark import Spark
    except ModuleNotFoundError as error:
        from ...core.errors import Unsupported

        raise Unsupported(
            "statements about tables of lakelatch need the module sqlglot, which is not installed",
            next_step="pip install 'lakelatch[spark]'",
        ) from error

    return type("Words", (Spark.Tokenizer,), {"COMMANDS": set()})  # sqlglot reads it from the class


def _comment_that_goes_on(sql: str, words: list[Word]) -> int | None:
    if "--" not in sql or "\\\n" not in sql:
        return None
    ends = [0, *(word.end for word in words)]
    starts = [*(word.start for word in words), len(sql)]
    for end, start in zip(ends, starts, strict=True):
        found = _GOES_ON.search(sql, end, start)
        if found is not None:
            return found.end()
    return None


def _unescaped(found: re.Match[str]) -> str:
    if found[1] or found[2]:
        return chr(int(found[1] or found[2], 16))
    return chr(int(found[3], 8)) if found[3] else _ESCAPES.get(found[4], found[4])
