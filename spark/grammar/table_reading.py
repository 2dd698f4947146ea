"""Reads statements that make, change and drop tables.

Owns: CREATE, REPLACE, DROP and ALTER TABLE, and COMMENT ON TABLE. Must not know: sessions, tables. Source: decision 123.
"""

from __future__ import annotations

from typing import Any

from .pieces import Name, Text
from .reader import QUERY, Reader, Stray
from .table_statements import (
    Action,
    AddColumns,
    AlterColumn,
    AlterColumns,
    AlterTable,
    CreateTable,
    CreateTableLike,
    CreateTemporaryView,
    DropColumns,
    DropPartitions,
    DropTable,
    NewColumn,
    OtherAction,
    RenameColumn,
    RenameTable,
    SetComment,
    SetProperties,
    UnsetProperties,
)
from .tables_read import Span, query_of

_COLUMN_CLAUSES = ("NOT", "COMMENT", "DEFAULT", "FIRST", "AFTER", ",", "GENERATED")


class TableReader:
    """Reads one statement; `shared` are the words of `WITH …` in front of it."""

    def __init__(self, reader: Reader, shared: Span, formatted: bool) -> None:
        self._reader, self._shared, self._formatted = reader, shared, formatted

    # ---------------------------------------------------------------------------------------------------------- create

    def create(self) -> CreateTable | CreateTableLike:
        reader = self._reader
        replace = must_exist = False
        if reader.takes("REPLACE"):
            replace = must_exist = True
        else:
            reader.need("CREATE")
            replace = reader.takes("OR", "REPLACE")
            reader.takes("EXTERNAL")
        reader.need("TABLE")
        if_not_exists = reader.takes("IF", "NOT", "EXISTS")
        name = reader.name()
        if reader.takes("LIKE"):
            return self._like(name, if_not_exists)
        columns = None
        if reader.sees("(") and reader.peek(1).upper not in QUERY:
            first = reader.skip_parentheses()
            columns = reader.slice(first, reader.at - 1) if reader.at - 1 > first else None
        given = self._clauses()
        return CreateTable(name, columns, if_not_exists=if_not_exists, replace=replace, must_exist=must_exist, **given)

    def _clauses(self) -> dict[str, Any]:
        reader, other = self._reader, list[str]()
        given: dict[str, Any] = {}
        while not reader.ended:
            if reader.takes("USING"):
                given["using"] = ".".join(reader.name().parts)
            elif reader.takes("OPTIONS"):
                given["options"] = reader.pairs()
            elif reader.takes("TBLPROPERTIES"):
                given["properties"] = reader.pairs()
            elif reader.takes("PARTITIONED", "BY"):
                given["partition_by"] = self._partitioning()
            elif reader.takes("LOCATION"):
                given["location"] = reader.text()
            elif reader.takes("COMMENT"):
                given["comment"] = reader.text()
            elif reader.takes("AS") or reader.peek().upper in QUERY:
                spans = [self._shared, (reader.at, len(reader.words))]
                given["query"] = query_of(reader, spans, formatted=self._formatted)
                break
            else:
                other.append(self._other_clause())
        return {**given, "other": tuple(other)}

    def _partitioning(self) -> tuple[str, ...]:
        """The columns, or for a transformation such as `days(t)`, and a column with its type, the text."""
        reader, found = self._reader, list[str]()
        reader.need("(")
        while True:
            first = reader.skip_until((",",))
            name = reader.words[first]
            plain = reader.at == first + 1 and name.is_name
            found.append(name.value if plain else reader.slice(first, reader.at).text)
            if not reader.takes(","):
                reader.need(")")
                return tuple(found)

    def _other_clause(self) -> str:
        reader = self._reader
        words = list[str]()
        while not reader.ended and reader.peek().kind == "word" and len(words) < 2:
            words.append(reader.next().upper)
        if not words:
            raise Stray
        reader.skip_until(
            ("OPTIONS", "TBLPROPERTIES", "PARTITIONED", "LOCATION", "COMMENT", "AS", "USING", *QUERY[:-1])
        )
        return " ".join(words)

    def _like(self, name: Name, if_not_exists: bool) -> CreateTableLike:
        reader, given = self._reader, dict[str, Any]()
        like = reader.name()
        while not reader.ended:
            if reader.takes("USING"):
                given["using"] = ".".join(reader.name().parts)
            elif reader.takes("TBLPROPERTIES"):
                given["properties"] = reader.pairs()
            elif reader.takes("LOCATION"):
                given["location"] = reader.text()
            else:
                raise Stray
        return CreateTableLike(name, like, if_not_exists=if_not_exists, **given)

    def temporary_view(self) -> CreateTemporaryView:
        reader, given = self._reader, dict[str, Any]()
        reader.need("CREATE")
        given["replace"] = reader.takes("OR", "REPLACE")
        given["everywhere"] = reader.takes("GLOBAL")
        if reader.takes_one("TEMP", "TEMPORARY") is None:
            raise Stray
        reader.need("VIEW")
        name = reader.name()
        if reader.sees("("):
            given["columns"] = reader.names()
        reader.need("AS")
        query = query_of(reader, [(reader.at, len(reader.words))], formatted=self._formatted)
        return CreateTemporaryView(name, query, **given)

    # ------------------------------------------------------------------------------------------------------ drop, alter

    def drop(self) -> DropTable:
        reader = self._reader
        reader.need("DROP", "TABLE")
        if_exists = reader.takes("IF", "EXISTS")
        name = reader.name()
        purge = reader.takes("PURGE")
        reader.need_end()
        return DropTable(name, if_exists, purge)

    def comment(self) -> AlterTable:
        reader = self._reader
        reader.need("COMMENT", "ON", "TABLE")
        name = reader.name()
        reader.need("IS")
        text = None if reader.takes("NULL") else reader.text()
        reader.need_end()
        return AlterTable(name, SetComment(text))

    def alter(self) -> AlterTable | RenameTable:
        reader = self._reader
        reader.need("ALTER", "TABLE")
        name = reader.name()
        if reader.takes("RENAME", "TO"):
            to = reader.name()
            reader.need_end()
            return RenameTable(name, to)
        first = reader.at
        try:
            action = self._action()
            reader.need_end()
        except Stray:
            words = [word.raw for word in reader.words[first : first + 3] if word.kind == "word"]
            action = OtherAction(" ".join(words).upper())
        return AlterTable(name, action)

    def _action(self) -> Action:
        reader = self._reader
        if reader.takes("ADD"):
            return self._add()
        if reader.takes("DROP"):
            return self._drop()
        if reader.takes("RENAME", "COLUMN"):
            column = reader.name()
            reader.need("TO")
            return RenameColumn(column, reader.part())
        if reader.takes("SET", "TBLPROPERTIES"):
            return SetProperties(reader.pairs())
        if reader.takes("UNSET", "TBLPROPERTIES"):
            if_exists = reader.takes("IF", "EXISTS")
            reader.need("(")
            keys = [reader.key()]
            while reader.takes(","):
                keys.append(reader.key())
            reader.need(")")
            return UnsetProperties(tuple(keys), if_exists)
        if reader.takes_one("ALTER", "CHANGE"):
            return self._alter_columns()
        raise Stray

    def _add(self) -> Action:
        reader = self._reader
        if not reader.takes_one("COLUMN", "COLUMNS"):
            raise Stray
        if_not_exists = reader.takes("IF", "NOT", "EXISTS")
        inside = reader.takes("(")
        columns = [self._new_column()]
        while reader.takes(","):
            columns.append(self._new_column())
        if inside:
            reader.need(")")
        return AddColumns(tuple(columns), if_not_exists)

    def _new_column(self) -> NewColumn:
        reader = self._reader
        column = reader.name()
        reader.takes(":")
        first = reader.skip_type(_COLUMN_CLAUSES)
        kind, given = reader.slice(first, reader.at), dict[str, Any]()
        while not reader.ended and not reader.sees(",") and not reader.sees(")"):
            if reader.takes("NOT", "NULL"):
                given["nullable"] = False
            elif reader.takes("COMMENT"):
                given["comment"] = reader.text()
            elif reader.takes("DEFAULT"):
                given["default"] = self._until_clause()
            else:
                given["after"] = self._position()
        return NewColumn(column, kind, **given)

    def _until_clause(self) -> Text:
        first = self._reader.skip_until(("COMMENT", "FIRST", "AFTER", ",", "NOT"))
        return self._reader.slice(first, self._reader.at)

    def _position(self) -> str:
        if self._reader.takes("FIRST"):
            return ""
        self._reader.need("AFTER")
        return self._reader.part()

    def _drop(self) -> Action:
        reader = self._reader
        if reader.takes_one("COLUMN", "COLUMNS"):
            if_exists = reader.takes("IF", "EXISTS")
            inside = reader.takes("(")
            columns = [reader.name()]
            while reader.takes(","):
                columns.append(reader.name())
            if inside:
                reader.need(")")
            return DropColumns(tuple(columns), if_exists)
        if_exists = reader.takes("IF", "EXISTS")
        partitions = []
        while True:
            reader.need("PARTITION")
            found, unvalued = reader.partition()
            if unvalued or not found:
                raise Stray
            partitions.append(found)
            if not reader.takes(","):
                break
        return DropPartitions(tuple(partitions), if_exists, reader.takes("PURGE"))

    def _alter_columns(self) -> AlterColumns:
        reader = self._reader
        if not reader.takes_one("COLUMN", "COLUMNS"):
            raise Stray
        columns = [self._alter_column()]
        while reader.takes(","):
            columns.append(self._alter_column())
        return AlterColumns(tuple(columns))

    def _alter_column(self) -> AlterColumn:
        reader, given = self._reader, dict[str, Any]()
        column = reader.name()
        while not reader.ended and not reader.sees(","):
            if reader.takes("TYPE"):
                first = reader.skip_type(("COMMENT", "FIRST", "AFTER", ",", "SET", "DROP"))
                given["type"] = reader.slice(first, reader.at)
            elif reader.takes("COMMENT"):
                given["comment"] = reader.text()
            elif reader.takes("SET", "NOT", "NULL"):
                given["nullable"] = False
            elif reader.takes("DROP", "NOT", "NULL"):
                given["nullable"] = True
            elif reader.takes("SET", "DEFAULT"):
                given["default"] = self._until_clause()
            elif reader.takes("DROP", "DEFAULT"):
                given["drops_default"] = True
            else:
                given["after"] = self._position()
        if not given:
            raise Stray
        return AlterColumn(column, **given)
