"""Understands the statements of Spark's SQL that may be about tables of ours.

Owns: `understand`, and the cheap look at a statement before it. Must not know: sessions, tables. Source: decision 123.

Invariants: a statement of another form is None, and is left to Spark, which reports its mistakes. What may name a table of ours,
and is not understood, is `Refused` with its names, and never carried out as something else.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from ...core.errors import InvalidArgument
from . import other_reading as other
from .other_statements import Refused
from .pieces import Name, Query
from .reader import Reader, Stray
from .row_reading import RowReader
from .statements import Statement
from .table_reading import TableReader
from .tables_read import Span, Unparsed, query_of

_SPACE = r"(?:\s|--[^\n]*(?:\n|$)|/\*(?!\+)(?:[^*]|\*(?!/))*\*/)*"
"""Space and comments, each read in one way only: a text that goes on otherwise must not be tried in all others."""
_FIRST = re.compile(rf"{_SPACE}(\w+|\()", re.DOTALL)
_TRAVELS = re.compile(r"\bAS\s+OF\b|@v?\d|\bIDENTIFIER\b|\blakelatch\b|\bAS/|/OF\b|\bAS\s*--", re.IGNORECASE)
_CHANGES = re.compile(r"\b(?:INSERT|MERGE|UPDATE|DELETE)\b", re.IGNORECASE)
_QUERIES = ("SELECT", "WITH", "FROM", "TABLE", "VALUES", "MAP", "REDUCE", "(")
_BY_NAME = frozenset(
    "INSERT MERGE UPDATE DELETE TRUNCATE ALTER DROP CREATE REPLACE COMMENT SHOW DESCRIBE DESC USE SET CALL OPTIMIZE VACUUM"
    " RESTORE ANALYZE REFRESH CACHE UNCACHE MSCK REPAIR LOAD EXPLAIN DECLARE BEGIN EXECUTE CLONE COPY UNDROP".split()
)
_WORD = r"(?:`(?:[^`]|``)+`|\w+)"
_HEAD = re.compile(
    rf"{_SPACE}(?:INSERT\s+(?:INTO|OVERWRITE)(?:\s+TABLE)?|MERGE\s+INTO|UPDATE|DELETE\s+FROM|(?:TRUNCATE|ALTER)\s+TABLE)"
    rf"\s+({_WORD}(?:\.{_WORD})*)(?=\s|$|\()",
    re.IGNORECASE | re.DOTALL,
)
_PART = re.compile(r"`((?:[^`]|``)+)`|(\w+)")
_MERE_SETTING = re.compile(rf"{_SPACE}SET\s+(?!CATALOG\b|VAR\b|VARIABLE\b)", re.IGNORECASE | re.DOTALL)


def may_be_ours(sql: str, catalogs: Collection[str], current: bool) -> bool:
    """A cheap look: may the statement be about tables of ours? False is certain.

    Args:
        catalogs: the names of registered warehouses.
        current: has USE chosen one of them, so that names of one part may mean its tables?

    >>> may_be_ours("SELECT a FROM lakes", ["lake"], False), may_be_ours("select 1 from Lake.a.b", ["lake"], False)
    (False, True)
    """
    found = _FIRST.match(sql)
    first = found[1].upper() if found else ""
    if first in _BY_NAME:
        return _MERE_SETTING.match(sql) is None
    if first not in _QUERIES:
        return False
    if current or _TRAVELS.search(sql) or (first in ("WITH", "FROM") and _CHANGES.search(sql)):
        return True
    return any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", sql, re.IGNORECASE) for name in catalogs)


def head(sql: str, catalogs: Collection[str]) -> Name | None:
    """The table that a statement changes, if a look at its first words and for other tables of ours suffices to know it.

    It is None if the statement has another beginning, or may read tables of ours.

    >>> head("INSERT INTO a.`b` SELECT 1", ["lake"]).parts, head("INSERT INTO a SELECT * FROM lake.b.c", ["lake"])
    (('a', 'b'), None)
    """
    found = _HEAD.match(sql)
    if found is None or _TRAVELS.search(sql) or any(word.lower() in sql.lower() for word in catalogs):
        return None
    parts = tuple(quoted.replace("``", "`") if quoted else plain for quoted, plain in _PART.findall(found[1]))
    return Name(parts, found.start(1), found.end(1))


def understand(sql: str, parameters: Mapping[str, Any] | None = None, formatted: bool = False) -> Statement | None:
    """The statement, or None if it is of another form.

    Args:
        parameters: values of `:name`, for `IDENTIFIER(:name)`.
        formatted: do braces hold what the caller of `sql` gave by keyword?

    >>> understand("DELETE FROM flights WHERE month = 1").condition.text.text
    'month = 1'
    """
    try:
        reader = Reader(sql, parameters)
    except InvalidArgument:  # an open text or comment, which is a mistake to Spark too
        return None
    if reader.ended:
        return None
    try:
        return _statement(reader, formatted)
    except Stray:
        found = _refused(reader, "a statement of this form", "see docs/spark-by-habit.md for the forms that are known")
        return replace(found, form=True)
    except Unparsed as error:
        return replace(_refused(reader, f"a statement that is not understood: {error}", _SIMPLER), form=True)


_SIMPLER = "spark.table(name).createOrReplaceTempView(view), and name the view in the statement"


def _statement(reader: Reader, formatted: bool) -> Statement | None:
    shared = _shared(reader)
    first = reader.peek().upper
    rows, tables = RowReader(reader, shared, formatted), TableReader(reader, shared, formatted)
    match first:
        case "INSERT":
            return rows.insert()
        case "MERGE":
            return rows.merge()
        case "UPDATE":
            return rows.update()
        case "DELETE":
            return rows.delete()
        case "TRUNCATE":
            return rows.truncate()
        case "FROM":
            return _from(reader, rows) or _query(reader, formatted)
        case "CREATE" | "REPLACE" | "DROP" | "ALTER" | "COMMENT":
            return _definition(reader, tables, formatted)
        case (
            "EXECUTE"
            | "BEGIN"
            | "DECLARE"
            | "ANALYZE"
            | "REFRESH"
            | "MSCK"
            | "REPAIR"
            | "LOAD"
            | "UNCACHE"
            | "CLONE"
            | "COPY"
        ):
            return _script(reader, first)
        case "CACHE" | "EXPLAIN":
            return _prefixed(reader, formatted)
        case "DESCRIBE" | "DESC" if len(reader.words) > 2 and reader.peek(1).upper in ("QUERY", *_DESCRIBED):
            return _prefixed(reader, formatted)
        case _ if first in _LOOKING:
            looked: Statement = _LOOKING[first](reader)
            return looked
        case _ if first in _QUERIES:
            return _query(reader, formatted)
    return None


_LOOKING: Mapping[str, Any] = {
    "SHOW": other.show,
    "DESCRIBE": other.describe,
    "DESC": other.describe,
    "USE": other.use,
    "SET": other.use,
    "CALL": other.call,
    "OPTIMIZE": other.optimize,
    "VACUUM": other.vacuum,
    "RESTORE": other.restore,
}


def _shared(reader: Reader) -> Span:
    """Pass the common table expressions before INSERT, MERGE, UPDATE or DELETE, and return their words."""
    if not reader.sees("WITH"):
        return 0, 0
    reader.next()
    reader.takes("RECURSIVE")
    while True:
        reader.part()
        if reader.sees("("):
            reader.names()
        if reader.takes("MAX", "RECURSION", "LEVEL"):
            reader.next()
        reader.takes("AS")
        reader.skip_parentheses()
        if not reader.takes(","):
            break
    if reader.peek().upper in ("INSERT", "MERGE", "UPDATE", "DELETE", "FROM"):
        return 0, reader.at
    reader.at = 0
    return 0, 0


def _query(reader: Reader, formatted: bool) -> Statement:
    return replace(query_of(reader, [(0, len(reader.words))], formatted=formatted), text=reader.sql)


def _from(reader: Reader, rows: RowReader) -> Statement | None:
    """`FROM … INSERT …`: one INSERT, whose query begins before it. Several are several commits, and refused."""
    start, places = reader.at, list[int]()
    while True:
        reader.skip_until(("INSERT",))
        if reader.ended:
            break
        if reader.at + 1 < len(reader.words) and reader.peek(1).upper in ("INTO", "OVERWRITE"):
            places.append(reader.at)
        reader.at += 1
    reader.at = start
    if not places:
        reader.at = 0
        return None
    if len(places) > 1:
        return _refused(
            reader, "FROM … INSERT of several tables", "use INSERT INTO table SELECT … FROM …, once for each table"
        )
    reader.at = places[0]
    return rows.insert([(start, places[0])])


def _definition(reader: Reader, tables: TableReader, formatted: bool) -> Statement | None:
    ahead = [word.upper for word in reader.words[:6]]
    if "VIEW" in ahead or "FUNCTION" in ahead:
        if "TEMP" in ahead or "TEMPORARY" in ahead:
            try:
                return tables.temporary_view()
            except Stray:
                reader.at = 0
        return _view(reader, formatted, ahead)
    if ahead[1:2] and ahead[1] in ("DATABASE", "SCHEMA", "NAMESPACE"):
        if ahead[0] not in ("CREATE", "DROP"):
            return None
        return other.create_database(reader) if ahead[0] == "CREATE" else other.drop_database(reader)
    if ahead[0] in ("CREATE", "REPLACE"):
        return tables.create() if "TABLE" in ahead[1:4] else None
    if ahead[0] == "COMMENT":
        return tables.comment() if ahead[1:3] == ["ON", "TABLE"] else None
    if ahead[1:2] != ["TABLE"]:
        return None
    return tables.drop() if ahead[0] == "DROP" else tables.alter()


def _view(reader: Reader, formatted: bool, ahead: list[str]) -> Statement | None:
    """CREATE VIEW and FUNCTION: a query whose text Spark keeps."""
    if ahead[0] not in ("CREATE", "ALTER"):
        return None
    for i, word in enumerate(reader.words[:-1]):
        if word.upper in ("AS", "RETURN") and reader.words[i + 1].upper in _QUERIES:
            query = query_of(reader, [(i + 1, len(reader.words))], formatted=formatted)
            what = " ".join(
                w for w in ahead if w in ("CREATE", "ALTER", "TEMPORARY", "TEMP", "GLOBAL", "VIEW", "FUNCTION")
            )
            return _whole(reader, query, what, persists=True)
    return None


_DESCRIBED = ("SELECT", "WITH", "FROM", "VALUES")
_HOW = ("EXTENDED", "CODEGEN", "COST", "FORMATTED", "LOGICAL", "QUERY")


def _prefixed(reader: Reader, formatted: bool) -> Statement | None:
    """EXPLAIN, DESCRIBE QUERY and CACHE TABLE … AS, before a query."""
    first = reader.next().upper
    reader.takes_one(*_HOW)
    if first != "CACHE" and reader.peek().upper not in _QUERIES:
        return _refused(reader, f"{first} {reader.peek().upper}", "EXPLAIN its query")
    for i in range(reader.at, min(reader.at + 6, len(reader.words))):
        if reader.words[i].upper in _QUERIES and not (reader.words[i].upper == "TABLE" and first == "CACHE"):
            query = query_of(reader, [(i, len(reader.words))], formatted=formatted)
            return _whole(reader, query, first, persists=first == "CACHE")
    return _refused(reader, first, "leave it out")


def _whole(reader: Reader, query: Query, what: str, persists: bool) -> Query:
    return replace(query, text=reader.sql, what=what, persists=persists)


def _script(reader: Reader, first: str) -> Refused:
    """Statements that name tables in ways that are not looked at; of EXECUTE IMMEDIATE also those inside of its text."""
    ways = {
        "EXECUTE": "run the text itself with spark.sql, and give its values as args=",
        "BEGIN": "run the statements of the script one by one, each with spark.sql",
    }
    if first == "DECLARE" and "CURSOR" not in [word.upper for word in reader.words[:4]]:
        raise Stray
    inner = [word.value for word in reader.words if word.kind == "text"] if first in ("EXECUTE", "BEGIN") else []
    found = _refused(reader, _WHATS.get(first, first), ways.get(first, _NEEDLESS))
    for text in inner:
        try:
            found = replace(found, names=(*found.names, *_named(Reader(text))))
        except InvalidArgument:
            continue
    return found


_WHATS = {
    "EXECUTE": "EXECUTE IMMEDIATE",
    "BEGIN": "BEGIN … END",
    "ANALYZE": "ANALYZE TABLE",
    "REFRESH": "REFRESH TABLE",
}
_NEEDLESS = "leave it out: a table of lakelatch has its statistics and files in its own snapshots"


def _refused(reader: Reader, what: str, next_step: str) -> Refused:
    named = _named(reader)
    return Refused(what, tuple(named), next_step, tuple(name for name in _several(reader) if name not in named))


_NAMED_AFTER = ("INTO", "OVERWRITE", "TABLE", "FROM", "JOIN", "UPDATE", "USING", "EXISTS", "OPTIMIZE", "VACUUM")


def _named(reader: Reader) -> list[Name]:
    """The names behind a word that a table may follow."""
    return [name for name, before in _all_names(reader) if before in _NAMED_AFTER]


def _several(reader: Reader) -> list[Name]:
    """The names in several parts."""
    return [name for name, _ in _all_names(reader) if len(name.parts) > 1]


def _all_names(reader: Reader) -> list[tuple[Name, str]]:
    """Each name, and the word before it."""
    found, reader.at = list[tuple[Name, str]](), 0
    while not reader.ended:
        before = reader.peek(-1) if reader.at else None
        if reader.peek().is_name and (before is None or before.raw != "."):
            start = reader.at
            try:
                name = reader.name()
            except Stray:
                reader.at = start + 1
                continue
            if name.parts[0].upper() not in _NAMED_AFTER:
                found.append((name, "" if before is None else before.upper))
        else:
            reader.at += 1
    return found
