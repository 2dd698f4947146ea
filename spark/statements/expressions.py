"""Conditions and values of a statement, in the words that `LakeTable` takes.

Owns: `Translation`: which column a name means, and what Spark computes once for the whole statement: parameters, functions of
constants such as `current_date()`, and queries that do not depend on the row. Must not know: how rows are changed.
Source: decision 123; core/expressions/sql says what the words mean.

Invariant: what neither can be taken over nor computed once is refused with its place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from itertools import pairwise

from pyspark.errors import AnalysisException

from ...core.errors import InvalidArgument, Unsupported
from ...core.expressions.functions import FUNCTIONS
from ..catalogs.queries import arguments_of, frame_of
from ..catalogs.run import Run
from ..grammar.pieces import Condition, Name, Subquery
from ..grammar.reader import Reader, Stray
from ..grammar.words import Word, at
from ..sessions.session import setting, tells_case
from .column_names import ColumnNames, Table
from .literals import MOST_VALUES, OTHER_WAY, values_of

_RESERVED = frozenset(
    "AND OR NOT IS NULL IN LIKE BETWEEN TRUE FALSE CASE WHEN THEN ELSE END CAST AS ESCAPE EXISTS".split()
)
_TYPED = frozenset("DATE TIME TIMESTAMP TIMESTAMP_NTZ TIMESTAMP_LTZ".split())
_JOINING = frozenset("+ - * / % || & | ^ DIV ::".split())
_NOT_HERE = frozenset(
    "RLIKE REGEXP ILIKE DIV DISTINCT UNKNOWN FROM FOR BOTH LEADING TRAILING COLLATE SOME ANY ALL LIMIT ORDER RETURNING"
    " JOIN".split()
)
"""Words that only Spark, or another engine, has behind a value."""
_SIGNS_NOT_HERE = frozenset("! & | ^ ~ :: << >> >>> -> => [ ] ;".split())
_NUMBER_ENDS = "lLsSyYdDfFbB"
_OF_EACH_ROW = frozenset(
    "rand randn random uuid randstr uniform shuffle monotonically_increasing_id spark_partition_id input_file_name"
    " input_file_block_start input_file_block_length reflect java_method try_reflect".split()
)
"""Functions without columns whose values differ from row to row, or might."""
_MEANINGS: Mapping[str, Callable[[str], bool]] = {
    "spark.sql.ansi.doubleQuotedIdentifiers": lambda raw: raw.startswith('"'),
    "spark.sql.parser.escapedStringLiterals": lambda raw: "\\" in raw,
    "spark.sql.legacy.consecutiveStringLiterals.enabled": lambda raw: raw[1:-1].count(raw[-1]) > 0,
}
"""Settings by which a text means something else, and the texts that they concern."""


@dataclass
class Translation:
    """Translates the conditions and values of one statement. `tables` are those whose columns may be named."""

    run: Run
    tables: InitVar[Sequence[Table]]
    names: ColumnNames = field(init=False)
    _known: dict[str | int, str] = field(default_factory=dict)

    def __post_init__(self, tables: Sequence[Table]) -> None:
        self.names = ColumnNames(self.run.text, tables, tells_case(self.run.session))

    def text(self, condition: Condition) -> str:
        """The condition for `LakeTable`.

        Raises:
            InvalidArgument: a name is no column, or could be several.
            Unsupported: a query in it depends on the row, or a function is not known and depends on it.
        """
        reader = _Words(self.run.text, condition.words)
        inner = {subquery.start: subquery for subquery in condition.subqueries}
        parts: list[str] = []
        while not reader.ended:
            word = reader.peek()
            subquery = inner.get(word.start)
            if subquery is not None:
                self._subquery(subquery, parts, reader)
            elif not self._computed(reader, parts):
                parts.append(self._word(reader))
        return " ".join(parts)

    def column(self, name: Name, table: Table) -> str:
        """The column of a table that SET or INSERT names."""
        path = self.names.path(name.parts, table)
        if path is None:
            raise self.names.missing(name)
        if len(path) > 1:
            raise Unsupported(
                f"SET of {name}, {at(self.run.text, name.start)}: a field of a column",
                next_step=f"set the whole column {path[0]}, from a source of MERGE INTO that has it: named_struct(…)",
            )
        return path[0]

    # ----------------------------------------------------------------------------------------------------------- words

    def _word(self, reader: _Words) -> str:
        word = reader.next()
        if word.kind == "text":
            value = self._text(word)
            while not reader.ended and reader.peek().kind == "text":
                value += self._text(reader.next())
            return "'" + value.replace("'", "''") + "'"
        if word.kind == "number":
            hexadecimal = word.raw[0] in "xX"
            return word.raw if hexadecimal else _plain_number(word.raw)
        if word.kind == "sign":
            if word.raw in _SIGNS_NOT_HERE:
                raise self._only_sparks(word)
            if word.raw == "." and not reader.ended and reader.peek().kind == "number":
                return f"0.{_plain_number(reader.next().raw)}"
            return word.raw
        if word.kind == "hint":
            return ""
        return self._name(word, reader)

    def _text(self, word: Word) -> str:
        """What a text says, as long as no setting gives it another meaning."""
        for key, has in _MEANINGS.items():
            if has(word.raw) and setting(self.run.session, key, "false").lower() == "true":
                raise Unsupported(
                    f"the text {word.raw}, {at(self.run.text, word.start)}, in a session with {key}",
                    next_step="give it as a parameter, :name; names go in backticks",
                )
        return word.value

    def _name(self, word: Word, reader: _Words) -> str:
        follows = None if reader.ended else reader.peek()
        if word.kind == "word" and (reader.in_cast or word.upper in _RESERVED):
            return word.raw
        if word.kind == "word" and follows is not None:
            if follows.raw == "(":
                if word.raw.lower() not in FUNCTIONS:
                    self._unknown_function(word)
                return word.raw
            if word.upper in _TYPED and follows.kind == "text":
                return word.raw
        parts, end = [word.value], word.end
        while not reader.ended and reader.sees(".") and reader.at + 1 < len(reader.words) and reader.peek(1).is_name:
            reader.next()
            last = reader.next()
            parts.append(last.value)
            end = last.end
        name = Name(tuple(parts), word.start, end)
        found = self.names.column(name)
        if found is not None:
            return found
        if word.kind == "word" and word.upper in _NOT_HERE:
            raise self._only_sparks(word)
        variable = self._variable(name)
        if variable is not None:
            return variable
        raise self.names.missing(name)

    def _variable(self, name: Name) -> str | None:
        """The value of a variable of the session, which DECLARE has made."""
        try:
            frame = self.run.sparks(f"SELECT {self.run.text[name.start : name.end]} AS v")
            return values_of(frame)[0]
        except AnalysisException:
            return None

    def _only_sparks(self, word: Word) -> Unsupported:
        return Unsupported(
            f"{word.raw} with columns, {at(self.run.text, word.start)}, is none of the operators that change rows",
            next_step=f"docs/row-level.md lists them; or use {OTHER_WAY}",
        )

    def _unknown_function(self, word: Word) -> None:
        raise Unsupported(
            f"{word.raw}(…) of columns, {at(self.run.text, word.start)}, is none of the functions that change rows",
            next_step=f"docs/row-level.md lists them; or use {OTHER_WAY}",
        )

    # -------------------------------------------------------------------------------------------- what Spark computes

    def _computed(self, reader: _Words, parts: list[str]) -> bool:
        """Take an operand, or operands that are joined, which no column is in, if only Spark can compute them."""
        start = reader.at
        span = None if reader.after_as else reader.operand()
        if span is None:
            return False
        after_first = reader.at
        joined = bool(parts) and parts[-1] in _JOINING
        while not joined and not reader.ended and reader.peek().upper in _JOINING:
            here = reader.at
            reader.next()
            if reader.operand() is None or not self._is_constant(reader.words[here + 1 : reader.at]):
                reader.at = here
                break
        for end in dict.fromkeys((reader.at, after_first)):
            words = reader.words[start:end]
            if self._is_constant(words) and self._needs_spark(words):
                parts.append(self._value(words))
                reader.at = end
                return True
        reader.at = start
        return False

    def _is_constant(self, words: Sequence[Word]) -> bool:
        in_interval = False
        for i, word in enumerate(words):
            follows = words[i + 1].raw if i + 1 < len(words) else ""
            before = words[i - 1].raw if i else ""
            in_interval = word.upper == "INTERVAL" or (in_interval and word.raw not in (*_JOINING, ",", ")"))
            if in_interval or (word.upper in _TYPED and follows[:1] in ("'", '"')):
                continue
            if word.kind == "quoted" or (word.kind == "word" and word.upper in ("SELECT", "CASE")):
                return False
            if word.kind == "word" and follows != "(" and before not in (":", "::", "{"):
                name = Name((word.value,), word.start, word.end)
                if before == "." or self.names.knows(name):
                    return False
        return True

    def _check_deterministic(self, words: Sequence[Word]) -> None:
        """A value that differs from row to row cannot be computed once."""
        for word, follows in pairwise(words):
            if word.kind == "word" and follows.raw == "(" and word.raw.lower() in _OF_EACH_ROW:
                raise Unsupported(
                    f"{word.raw}(…), {at(self.run.text, word.start)}, which is another value for each row",
                    next_step=f"use {OTHER_WAY}",
                )

    def _needs_spark(self, words: Sequence[Word]) -> bool:
        for i, word in enumerate(words):
            follows = words[i + 1].raw if i + 1 < len(words) else ""
            if self.run.named and word.kind == "text" and ("{" in word.raw or "}" in word.raw):
                return True  # what Python's format makes of it
            if word.raw in ("?", "{", "::") or (word.raw == ":" and follows):
                return True
            if word.upper == "INTERVAL" or word.upper in _CLOCKS:
                return True
            if (
                word.kind == "word"
                and follows == "("
                and word.upper not in _RESERVED
                and word.raw.lower() not in FUNCTIONS
            ):
                return True
        return False

    def _value(self, words: Sequence[Word]) -> str:
        self._check_deterministic(words)
        start, end = words[0].start, words[-1].end
        text = self.run.text[start:end]
        key = start if "?" in text else text
        if key not in self._known:
            given = arguments_of(self.run, " " * start + text)
            self._known[key] = values_of(self.run.sparks(f"SELECT {text} AS v", given, **self.run.named))[0]
        return self._known[key]

    def _subquery(self, subquery: Subquery, parts: list[str], reader: _Words) -> None:
        where = at(self.run.text, subquery.start)
        try:
            frame = frame_of(self.run, subquery.query)
            columns = frame.columns
        except Exception as error:
            if "UNRESOLVED" not in str(error):
                raise
            raise Unsupported(
                f"a query in a condition, {where}, that depends on the row, or names a column that is not there:"
                f" {str(error).partition(' SQLSTATE')[0].splitlines()[0]}",
                next_step=f"use {OTHER_WAY}",
            ) from error
        while not reader.ended and reader.peek().start < subquery.end:
            reader.next()
        if subquery.kind == "exists":
            parts.pop()
            parts.append("TRUE" if frame.limit(1).count() else "FALSE")
            return
        if len(columns) != 1:
            raise InvalidArgument(
                f"a query in a condition, {where}, has {len(columns)} columns",
                next_step=f"select one; or use {OTHER_WAY}",
            )
        values = values_of(frame, distinct=subquery.kind == "in")
        if subquery.kind == "scalar":
            if len(values) > 1:
                raise InvalidArgument(
                    f"[SCALAR_SUBQUERY_TOO_MANY_ROWS] a query used as a value, {where}, has several rows"
                )
            parts.append(values[0] if values else "NULL")
        elif values:
            if len(values) > MOST_VALUES:
                raise Unsupported(f"IN of more than {MOST_VALUES} values, {where}", next_step=f"use {OTHER_WAY}")
            parts.append(f"({', '.join(values)})")
        else:
            _in_nothing(parts, where)


class _Words(Reader):
    """A reader of some words of a statement."""

    def __init__(self, sql: str, words: Sequence[Word]) -> None:
        self.sql, self.words, self.at, self.parameters = sql, list(words), 0, {}

    def operand(self) -> tuple[int, int] | None:
        """Pass an operand; None, and nothing is passed, if none comes."""
        start = self.at
        if self.ended or self.peek().raw == "(" or self.peek().upper in _RESERVED:
            return None
        try:
            if self.takes("{"):
                while not self.takes("}"):
                    self.next()
            else:
                self._operand()
        except Stray:
            self.at = start
            return None
        return start, self.at

    @property
    def after_as(self) -> bool:
        """Does the name of a type come, of CAST(… AS?"""
        return self.at > 0 and self.words[self.at - 1].upper == "AS"

    @property
    def in_cast(self) -> bool:
        """Is the last word the name of a type, after CAST(… AS?"""
        before = self.words[max(0, self.at - 2) : self.at]
        return len(before) == 2 and before[0].upper == "AS"


_CLOCKS = frozenset("CURRENT_DATE CURRENT_TIMESTAMP LOCALTIMESTAMP CURRENT_USER USER NOW".split())


def _plain_number(raw: str) -> str:
    body = raw.rstrip(_NUMBER_ENDS)
    return f"{body}e0" if raw[len(body) :].lower() in ("d", "f") and "e" not in body.lower() else body


def _in_nothing(parts: list[str], where: str) -> None:
    """`column IN (no rows)` is false, whatever the column is."""
    taken = parts.pop() if parts else ""
    negated = bool(parts) and taken.upper() == "IN" and parts[-1].upper() == "NOT"
    if negated:
        parts.pop()
    if not parts or not parts[-1].endswith("`"):
        raise Unsupported(f"IN of a query without rows after an expression, {where}", next_step=f"use {OTHER_WAY}")
    parts.pop()
    parts.append("TRUE" if negated else "FALSE")
