"""Carries out MERGE, UPDATE, DELETE and TRUNCATE.

Owns: these executors, and the frames that they return. Must not know: how rows are found and written (see `lake_table`).
Source: decision 123.

Invariants: rows of the table that the statement names are changed, or none. A statement is one commit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...core.errors import InvalidArgument, LakelatchError, Unsupported
from ...core.rows.types import AtomicType
from ...table.rowlevel.receipt import RowReceipt
from ...table.table import Table as LakeRows
from ..catalogs.names import Located
from ..catalogs.queries import frame_of
from ..catalogs.run import Run
from ..catalogs.texts import quoted_name
from ..columns import matched, named
from ..grammar.pieces import Condition
from ..grammar.row_statements import Assignment, Delete, MergeClause, MergeInto, Truncate, Update
from ..grammar.words import at
from ..lake_table import LakeMerge, LakeTable
from ..options.source_options import SourceOptions
from ..sessions.identity import identity_of
from ..sessions.session import tells_case
from .column_names import Table, qualifiers_of
from .expressions import Translation

_T, _S = "t", "s"
_AFFECTED = ("num_affected_rows",)
_OF_MERGE = ("num_affected_rows", "num_updated_rows", "num_deleted_rows", "num_inserted_rows")


def target_of(run: Run, located: Located) -> LakeTable:
    """The table that a statement changes; a name for some of its rows, an old snapshot or a system table is refused."""
    if located.system is not None:
        raise Unsupported(f"{located.name} is a system table, which only shows", next_step="name the table itself")
    SourceOptions(located.options).asked(None, overwrite=False)
    return LakeTable(run.session, located.open(), located.storage_options)


def delete(run: Run, statement: Delete) -> Any:
    located = run.names.locate(statement.name)
    if located is None:
        return None
    target = target_of(run, located)
    told = Translation(run, [_of_rows(run, target.table, statement, located)])
    with identity_of(run.session) as about:
        condition = None if statement.condition is None else told.text(statement.condition)
        receipt = _told(run, statement.condition, lambda: target.delete(condition, **about))
    return counts(run, receipt, _AFFECTED)


def update(run: Run, statement: Update) -> Any:
    located = run.names.locate(statement.name)
    if located is None:
        return None
    target = target_of(run, located)
    own = _of_rows(run, target.table, statement, located)
    told = Translation(run, [own])
    with identity_of(run.session) as about:
        values = _assigned(told, own, target.table, statement.set)
        condition = None if statement.condition is None else told.text(statement.condition)
        receipt = _told(run, statement.condition, lambda: target.update(condition, values, **about))
    return counts(run, receipt, _AFFECTED)


def truncate(run: Run, statement: Truncate) -> Any:
    located = run.names.locate(statement.name)
    if located is None:
        return None
    table = target_of(run, located).table
    with identity_of(run.session) as about:
        if statement.partition is None:
            table.truncate(**about)
        else:
            columns = table.schema.partition_keys
            spec = matched(statement.partition, columns, tells_case(run.session))
            check_partition(spec, columns, located.name)
            target = LakeTable(run.session, table, located.storage_options)
            target.delete(_equal(spec), **about)
    return run.session.range(0).select()


def merge(run: Run, statement: MergeInto) -> Any:
    located = run.names.locate(statement.name)
    if located is None:
        return None
    target = target_of(run, located)
    source = _source(run, statement, target.table)
    columns = source.columns
    singles = frozenset(f.name for f in source.schema.fields if f.dataType.typeName() == "float")
    theirs = Table(columns, _source_names(statement), _S, singles)
    own = _of_rows(run, target.table, statement, located, _T)
    both, ours_only, theirs_only = (Translation(run, tables) for tables in ([own, theirs], [own], [theirs]))
    as_they_are = [replace(table, singles=frozenset()) for table in (own, theirs)]
    joined = Translation(run, as_they_are)  # a join is by columns, not by casts of them
    with identity_of(run.session) as about:
        merging = target.merge(source, joined.text(statement.condition), **about)
        if statement.evolves:
            merging = merging.withSchemaEvolution()
        for clause in statement.clauses:
            told = {"matched": both, "not matched": theirs_only, "not matched by source": ours_only}[clause.kind]
            merging = _with_clause(merging, clause, told, own, target.table, columns, statement)
        receipt = _told(run, statement.condition, merging.execute)
    return counts(run, receipt, _OF_MERGE)


def counts(run: Run, receipt: RowReceipt, names: Sequence[str]) -> Any:
    """The numbers of rows as a frame; nulls for a statement that had landed before."""
    found = {
        "num_updated_rows": receipt.rows_updated,
        "num_deleted_rows": receipt.rows_deleted,
        "num_inserted_rows": receipt.rows_inserted,
    }
    known = [value for value in found.values() if value is not None]
    told = [sum(known) if name == names[0] and len(known) == len(found) else found.get(name) for name in names]
    values = ("NULL" if value is None else str(value) for value in told)
    # a frame that is made of rows costs ten times as much as one of constants
    return run.sparks("SELECT " + ", ".join(f"CAST({v} AS BIGINT) AS {n}" for v, n in zip(values, names, strict=True)))


def check_partition(spec: Mapping[str, Any], columns: Sequence[str], name: str) -> None:
    for key in spec:
        if key not in columns:
            raise InvalidArgument(
                f"PARTITION ({key} …): {name} is partitioned by {', '.join(columns) or 'nothing'}",
                next_step="name its partition columns, or use DELETE FROM … WHERE",
            )


# ------------------------------------------------------------------------------------------------------------- clauses


def _with_clause(
    merging: LakeMerge,
    clause: MergeClause,
    told: Translation,
    own: Table,
    table: LakeRows,
    source: Sequence[str],
    statement: MergeInto,
) -> LakeMerge:
    test = None if clause.condition is None else told.text(clause.condition)
    if clause.action == "delete":
        if clause.kind == "matched":
            return merging.whenMatchedDelete(test)
        return merging.whenNotMatchedBySourceDelete(test)
    if clause.set is None:
        values = None if statement.evolves else _all_columns(own.columns, source, clause)
    else:
        values = _assigned(told, own, table, clause.set, inserts=clause.action == "insert")
    if clause.kind == "not matched by source":
        return merging.whenNotMatchedBySourceUpdate(test, values)
    if clause.action == "update":
        return merging.whenMatchedUpdateAll(test) if values is None else merging.whenMatchedUpdate(test, values)
    if clause.action == "insert" and clause.kind == "not matched":
        return merging.whenNotMatchedInsertAll(test) if values is None else merging.whenNotMatchedInsert(test, values)
    raise InvalidArgument(f"WHEN {clause.kind.upper()} THEN {clause.action.upper()} is no clause of MERGE")


def _all_columns(columns: Sequence[str], source: Sequence[str], clause: MergeClause) -> dict[str, str]:
    """`*`: each column of the table gets that of the source. What only the source has is left out, as others do."""
    missing = [column for column in columns if column not in source]
    if missing:
        raise InvalidArgument(
            f"{clause.action.upper()} *: the source has no column {missing[0]}",
            next_step="name the columns, or write MERGE WITH SCHEMA EVOLUTION, which leaves those that the source lacks",
        )
    return {column: f"`{_S}`.{quoted_name(column)}" for column in columns}


def _assigned(
    told: Translation, own: Table, table: LakeRows, given: Sequence[Assignment], inserts: bool = False
) -> dict[str, str]:
    values: dict[str, str] = {}
    for assignment in given:
        column = told.column(assignment.column, own)
        if column in values:
            raise InvalidArgument(f"column {column} gets two values, {at(told.run.text, assignment.column.start)}")
        if assignment.value is not None:
            values[column] = told.text(assignment.value)
        elif not inserts:
            default = table.schema.by_name[column].default_value
            values[column] = "NULL" if default is None else "'" + default.replace("'", "''") + "'"
    return values


# --------------------------------------------------------------------------------------------------------------- names


def _of_rows(
    run: Run, table: LakeRows, statement: Delete | Update | MergeInto, located: Located, word: str | None = None
) -> Table:
    names = qualifiers_of(statement.name, statement.alias, located.full)
    singles = frozenset(
        f.name for f in table.schema.fields if isinstance(f.type, AtomicType) and f.type.root == "FLOAT"
    )
    return Table(table.schema.names, names, word, singles)


def _source_names(statement: MergeInto) -> list[tuple[str, ...]]:
    return [] if statement.source_alias is None else qualifiers_of(statement.source_alias, None)


def _source(run: Run, statement: MergeInto, table: LakeRows) -> Any:
    """The source, its columns named as the table writes them."""
    frame = frame_of(run, statement.source)
    columns, case = frame.columns, tells_case(run.session)
    known = table.schema.names
    wanted = [named(column, known, case) or column for column in columns]
    twice = {column for column in wanted if wanted.count(column) > 1}
    if twice:
        raise InvalidArgument(
            f"the source of MERGE has two columns {min(twice)}", next_step="select its columns by name, with AS"
        )
    return frame if wanted == columns else frame.toDF(*wanted)


def _equal(spec: Mapping[str, str | None]) -> str:
    return " AND ".join(
        f"{quoted_name(key)} IS NULL" if value is None else f"{quoted_name(key)} = '" + value.replace("'", "''") + "'"
        for key, value in spec.items()
    )


def _told(run: Run, condition: Condition | None, change: Any) -> Any:
    """Change rows; an error of a condition says where that stands."""
    try:
        return change()
    except LakelatchError as error:
        if condition is not None and "condition" in error.message and "line " not in error.message:
            error.message += f", {at(run.text, condition.text.start)}"
        raise
