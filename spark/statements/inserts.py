"""Carries out INSERT into tables of ours.

Owns: `insert`. Must not know: how rows are written.
Source: format/spark §1; decisions 23 and 123.

Invariants: rows reach the table that the statement names, or none. A statement is one commit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import functions as F  # noqa: N812 - Spark's users know it by this name

from ...core.errors import InvalidArgument, Unsupported
from ...core.metadata.schema import TableSchema
from ...table.table import Table
from ..catalogs.names import Located
from ..catalogs.queries import frame_of
from ..catalogs.run import Run
from ..columns import matched, named, storable
from ..grammar.row_statements import Insert
from ..grammar.words import at
from ..options.asked import Asked
from ..options.source_options import SourceOptions
from ..predicate import partition_of
from ..reading.read_marks import read_before
from ..sessions.identity import identity_of
from ..sessions.session import overwrite_mode, tells_case
from ..sessions.zones import bound_in, session_zone
from ..types import spark_schema
from ..write_job import carry_out
from .column_names import Table as Columns
from .column_names import qualifiers_of
from .expressions import Translation
from .row_changes import check_partition


def insert(run: Run, statement: Insert) -> Any:
    located = run.names.locate(statement.name)
    if located is None:
        return None
    _check(run, statement, located)
    options = SourceOptions({**located.options, **statement.options})
    table = located.open()
    columns, case = table.schema.names, tells_case(run.session)
    partition = matched(statement.partition, table.schema.partition_keys, case)
    _check_unvalued(statement, [name for name in columns if name not in partition], case)
    check_partition(partition, table.schema.partition_keys, located.name)
    asked = _asked(run, statement, options, table, partition)
    newest = table.snapshot() if asked.mode != "append" else None
    with identity_of(run.session) as about:
        rows = frame_of(run, statement.query)
        if asked.mode != "append" and asked.read_snapshot is None:
            asked = replace(asked, read_snapshot=read_before(rows, table, newest, statement.query.travels))
        rows = _fitted(run, statement, located, rows, partition, columns)
        rows = storable(rows, spark_schema(table.schema.fields), statement.by_name)
        if asked.partition is None:
            for name, value in partition.items():
                rows = rows.withColumn(name, F.lit(value) if value is not None else F.lit(None).cast("string"))
        carry_out(rows, replace(asked, **about, evolve=asked.evolve or statement.evolves))
    return run.session.range(0).select()


def _check(run: Run, wanted: Insert, located: Located) -> None:
    if located.system is not None:
        raise Unsupported(f"{located.name} is a system table, which only shows", next_step="name the table itself")
    if wanted.if_not_exists:
        raise Unsupported("INSERT … IF NOT EXISTS", next_step="leave IF NOT EXISTS out")
    if wanted.replaces is not None:
        raise Unsupported(
            f"INSERT … {wanted.replaces.text}, {at(run.text, wanted.replaces.start)}",
            next_step="use REPLACE WHERE with values of partition columns, or MERGE INTO",
        )


def _check_unvalued(wanted: Insert, columns: Sequence[str], case: bool) -> None:
    """Columns of PARTITION without a value come last in the query, so they must be the last ones of the table."""
    names = [named(name, columns, case) or name for name in wanted.unvalued]
    if names and list(columns[-len(names) :]) != names:
        told = ", ".join(wanted.unvalued)
        raise Unsupported(
            f"PARTITION ({told}) has no value, and these are not the last columns of the table",
            next_step=f"leave {f'{told} out of PARTITION' if wanted.partition else 'PARTITION out'}:"
            " the rows say their partition, in the order of the table's columns",
        )


def _asked(
    run: Run, wanted: Insert, options: SourceOptions, table: Table, partition: Mapping[str, str | None]
) -> Asked:
    """What is replaced, and the options of the write."""
    overwrites = wanted.overwrite or wanted.replace_where is not None
    asked = options.asked(table.schema, overwrite=False) if not overwrites else _of_overwrite(options, table.schema)
    if wanted.replace_where is not None:
        return replace(asked, mode="overwrite", partition=_replaced_partition(run, wanted, table))
    some = len(partition) < len(table.schema.partition_keys)  # of a whole partition Spark replaces that one
    dynamic = (options.overwrite_mode or overwrite_mode(run.session)) == "dynamic"
    if wanted.overwrite and some and dynamic:
        return replace(asked, mode="overwrite-partitions", partition=None)
    if wanted.overwrite:
        return replace(asked, mode="overwrite", partition=dict(partition))
    return asked


def _of_overwrite(options: SourceOptions, schema: TableSchema) -> Asked:
    asked = options.asked(schema, overwrite=True)
    if asked.partition:
        raise InvalidArgument("option 'partition' in INSERT", next_step="write PARTITION (…) after the table's name")
    return asked


def _fitted(
    run: Run,
    wanted: Insert,
    located: Located,
    rows: Any,
    partition: Mapping[str, str | None],
    columns: Sequence[str],
) -> Any:
    """The rows with the names of the table's columns: by position, or by name as the table writes them."""
    case = tells_case(run.session)
    if wanted.by_name:
        given = [named(name, columns, case) or name for name in rows.columns]
    elif wanted.columns is not None:
        given = [named(name, columns, case) or name for name in wanted.columns]
    else:
        given = [name for name in columns if name not in partition]
    if len(given) != len(rows.columns):
        raise InvalidArgument(
            f"the query has {len(rows.columns)} columns, and INSERT into {located.name} needs"
            f" {len(given)}: {', '.join(given)}"
        )
    twice = next((name for name in given if given.count(name) > 1 or name in partition), None)
    if twice is not None:
        raise InvalidArgument(f"INSERT into {located.name} gives column {twice} two values", next_step="name it once")
    return rows if given == rows.columns else rows.toDF(*given)


def _replaced_partition(run: Run, wanted: Insert, table: Table) -> dict[str, Any]:
    """The partition that REPLACE WHERE describes."""
    condition = wanted.replace_where
    assert condition is not None
    told = Translation(run, [Columns(table.schema.names, qualifiers_of(wanted.name, None), None)])
    bound = bound_in(session_zone(run.session), told.text(condition), table.schema)
    found = partition_of(bound, table.schema.partition_keys)
    if found is None:
        raise Unsupported(
            f"REPLACE WHERE {condition.text.text}, {at(run.text, condition.text.start)}: only whole partitions are replaced",
            next_step="compare partition columns with values, joined by AND; or DELETE FROM … WHERE, then INSERT, which are"
            " two commits",
        )
    return found
