"""Reads statements about catalogs, that look, and that look after tables.

Owns: CREATE and DROP DATABASE, USE, SHOW, DESCRIBE, CALL, OPTIMIZE, VACUUM and RESTORE. Must not know: sessions, tables.
Source: decision 123.
"""

from __future__ import annotations

from typing import Any

from .other_statements import (
    Argument,
    Call,
    CreateDatabase,
    Describe,
    DescribeDatabase,
    DescribeDetail,
    DescribeHistory,
    DropDatabase,
    Optimize,
    Restore,
    ShowCatalogs,
    ShowColumns,
    ShowCreateTable,
    ShowDatabases,
    ShowPartitions,
    ShowTables,
    ShowTblProperties,
    Use,
    Vacuum,
)
from .pieces import Name
from .reader import Reader, Stray
from .statements import Statement

_DATABASE = ("DATABASE", "SCHEMA", "NAMESPACE")
_DATABASES = ("DATABASES", "SCHEMAS", "NAMESPACES")
_NO_TABLES = (
    "FUNCTION",
    "QUERY",
    "CATALOG",
    "VOLUME",
    "PROCEDURE",
    "SELECT",
    "WITH",
    "FROM",
    "VALUES",
    "TABLE",
    "(",
    "MAP",
    "REDUCE",
)
"""What DESCRIBE may be followed by that is no table; TABLE is passed before."""


def create_database(reader: Reader) -> CreateDatabase:
    reader.need("CREATE")
    _need_one(reader, *_DATABASE)
    given: dict[str, Any] = {"if_not_exists": reader.takes("IF", "NOT", "EXISTS")}
    name = reader.name()
    while not reader.ended:
        if reader.takes("COMMENT"):
            given["comment"] = reader.text()
        elif reader.takes("LOCATION"):
            given["location"] = reader.text()
        elif reader.takes("WITH", "DBPROPERTIES") or reader.takes("WITH", "PROPERTIES"):
            given["properties"] = reader.pairs()
        else:
            raise Stray
    return CreateDatabase(name, **given)


def drop_database(reader: Reader) -> DropDatabase:
    reader.need("DROP")
    _need_one(reader, *_DATABASE)
    if_exists = reader.takes("IF", "EXISTS")
    name = reader.name()
    how = reader.takes_one("CASCADE", "RESTRICT")
    reader.need_end()
    return DropDatabase(name, if_exists, how == "CASCADE")


def use(reader: Reader) -> Use:
    """USE, or SET CATALOG."""
    if reader.takes("SET", "CATALOG"):
        if reader.peek().kind == "text":
            start = reader.peek().start
            name = Name((reader.text(),), start, reader.end)
        else:
            name = reader.name()
        reader.need_end()
        return Use(name, catalog=True)
    reader.need("USE")
    if reader.peek().upper in _DATABASE and reader.at + 1 < len(reader.words):
        reader.next()
    name = reader.name()
    reader.need_end()
    return Use(name)


def show(reader: Reader) -> Statement:
    reader.need("SHOW")
    word = reader.next().upper
    if word in _DATABASES:
        return _ended(reader, ShowDatabases(_inside(reader), _like(reader)))
    if word == "CATALOGS":
        return _ended(reader, ShowCatalogs(_like(reader)))
    if word == "TABLES":
        return _ended(reader, ShowTables(_inside(reader), _like(reader)))
    if word == "TABLE" and reader.takes("EXTENDED"):
        inside, like = _inside(reader), _like(reader)
        partition = reader.partition()[0] if reader.takes("PARTITION") else None
        return _ended(reader, ShowTables(inside, like, extended=True, partition=partition))
    if word == "PARTITIONS":
        name = reader.name()
        partition = reader.partition()[0] if reader.takes("PARTITION") else None
        return _ended(reader, ShowPartitions(name, partition))
    if word == "TBLPROPERTIES":
        name, key = reader.name(), None
        if reader.takes("("):
            key = reader.key()
            reader.need(")")
        return _ended(reader, ShowTblProperties(name, key))
    if word == "CREATE" and reader.takes("TABLE"):
        return _ended(reader, ShowCreateTable(reader.name()))
    if word == "COLUMNS":
        return _ended(reader, ShowColumns(_columns_of(reader)))
    raise Stray


def _columns_of(reader: Reader) -> Name:
    _need_one(reader, "IN", "FROM")
    name = reader.name()
    if reader.takes_one("IN", "FROM"):
        inside = reader.name()
        if len(name.parts) > 1:
            raise Stray
        name = Name((*inside.parts, *name.parts), name.start, inside.end)
    return name


def describe(reader: Reader) -> Statement:
    _need_one(reader, "DESCRIBE", "DESC")
    if reader.sees("HISTORY") and reader.at + 1 < len(reader.words):
        reader.next()
        name, limit = reader.name(), None
        if reader.takes("LIMIT"):
            limit = int(_number(reader))
        return _ended(reader, DescribeHistory(name, limit))
    if reader.sees("DETAIL") and reader.at + 1 < len(reader.words):
        reader.next()
        return _ended(reader, DescribeDetail(reader.name()))
    if reader.peek().upper in _DATABASE and reader.at + 1 < len(reader.words):
        reader.next()
        extended = reader.takes("EXTENDED")
        return _ended(reader, DescribeDatabase(reader.name(), extended))
    reader.takes("TABLE")
    extended = reader.at + 1 < len(reader.words) and reader.takes_one("EXTENDED", "FORMATTED") is not None
    if reader.peek().upper in _NO_TABLES and reader.at + 1 < len(reader.words):
        raise Stray
    name, partition, column = reader.name(), None, None
    if reader.takes("PARTITION"):
        partition = reader.partition()[0]
    json = reader.takes("AS", "JSON")
    if not json and not reader.ended:
        column = reader.name()
        json = reader.takes("AS", "JSON")
    return _ended(reader, Describe(name, extended, column, partition, json))


def call(reader: Reader) -> Call:
    reader.need("CALL")
    name, found = reader.name(), list[Argument]()
    reader.need("(")
    while not reader.takes(")"):
        said = None
        if reader.peek().is_name and reader.peek(1).raw in ("=>", ":="):
            said = reader.part()
            reader.next()
        first = reader.skip_until((",",))
        found.append(Argument(said, reader.slice(first, reader.at)))
        if not reader.takes(",") and not reader.sees(")"):
            raise Stray
    reader.need_end()
    return Call(name, tuple(found))


def optimize(reader: Reader) -> Optimize:
    reader.need("OPTIMIZE")
    name, where = reader.name(), None
    zorder: tuple[str, ...] = ()
    full = reader.takes("FULL")
    if reader.takes("WHERE"):
        first = reader.skip_until(("ZORDER",))
        where = reader.slice(first, reader.at)
    if reader.takes("ZORDER", "BY"):
        if reader.sees("("):
            zorder = reader.names()
        else:
            zorder = (reader.part(),)
            while reader.takes(","):
                zorder = (*zorder, reader.part())
    reader.need_end()
    return Optimize(name, where, zorder, full)


def vacuum(reader: Reader) -> Vacuum:
    reader.need("VACUUM")
    name, hours, dry_run = reader.name(), None, False
    while not reader.ended:
        if reader.takes("RETAIN"):
            hours = _number(reader)
            _need_one(reader, "HOURS", "HOUR")
        elif reader.takes("DRY", "RUN"):
            dry_run = True
        elif not reader.takes_one("FULL", "LITE"):
            raise Stray
    return Vacuum(name, hours, dry_run)


def restore(reader: Reader) -> Restore:
    reader.need("RESTORE")
    reader.takes("TABLE")
    name = reader.name()
    reader.takes("TO")
    travel = reader.travel()
    reader.need_end()
    if travel is None:
        raise Stray
    return Restore(name, travel)


# ------------------------------------------------------------------------------------------------------------- pieces


def _ended(reader: Reader, statement: Statement) -> Statement:
    reader.need_end()
    return statement


def _inside(reader: Reader) -> Name | None:
    return reader.name() if reader.takes_one("IN", "FROM") else None


def _like(reader: Reader) -> str | None:
    if reader.takes("LIKE") or (not reader.ended and reader.peek().kind == "text"):
        return reader.text()
    return None


def _number(reader: Reader) -> float:
    word = reader.next()
    if word.kind != "number":
        raise Stray
    return float(word.raw)


def _need_one(reader: Reader, *words: str) -> None:
    if reader.takes_one(*words) is None:
        raise Stray
