"""Changes captured from a database, out of a DataFrame: rows of Debezium and Maxwell, and plain rows with kinds.

Owns: `apply_changes`, and these shapes as columns of Spark. Must not know: how rows become files, how a commit is made.
Source: the documentation of Debezium (change events) and Maxwell (data format).

Invariants: The rows are those that `Table.apply_changes` makes of the same data. The changes of one key stay in order until they
are written. Exactly one action runs on the frame.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import functions as F  # noqa: N812 - Spark's users know it by this name
from pyspark.sql import types as spark

from ...coordinator.commit.receipt import Receipt
from ...core.errors import InvalidArgument
from ...table.captured import DEBEZIUM, KIND, MAXWELL, MAXWELL_MARKS, Shape, looks_like
from ...table.create import open_table
from ...table.methods.streams import check_keys
from ..options.asked import Asked, check_arguments
from ..sessions.session import checked_url
from ..write_job import carry_out

_AT, _ROW = "_captured_at", "_captured_row"


def apply_changes(
    df: Any,
    url: str,
    *,
    keys: Sequence[str] | str | None = None,
    sequence: Sequence[str] | str | None = None,
    kind: str | None = None,
    shape: Shape = "auto",
    commit_user: str | None = None,
    identifier: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    **how: Any,
) -> Receipt:
    """Apply changes that were captured from a database to a table with a primary key, in one commit.

    Args:
        df: a DataFrame of Spark with rows of Debezium (`op`, `before`, `after`) or Maxwell (`type`, `data`, `old`), or plain
            rows. JSON is parsed first, with `from_json`.
        url: the URL of the table, which must exist.
        keys, sequence, kind, shape: as for `Table.apply_changes`. Without `sequence`, the changes of a key come in the order of
            the frame.
        commit_user, identifier: as for `write`. In `foreachBatch`, the name of the query and the number of the batch, or
            ``lakelatch.spark.sink(url, checkpoint=…, changes={"sequence": …})``, which sets them.
        storage_options, how: as for `write`.

    Returns:
        The receipt.

    Raises:
        InvalidArgument: as for `Table.apply_changes`, for the columns before a job runs, for a row by Spark's own error.

    Example:
        ``lakelatch.spark.apply_changes(events, "s3://lake/customers", keys=["id"], sequence="source.lsn")``
    """
    check_arguments(how, "apply_changes", ())
    about: dict[str, Any] = {"commit_user": commit_user, "identifier": identifier, "storage_options": storage_options}
    return applied(df, Asked(url, **about, **how), keys, sequence, kind, shape)


def applied(
    df: Any,
    asked: Asked,
    keys: Sequence[str] | str | None = None,
    sequence: Sequence[str] | str | None = None,
    kind: str | None = None,
    shape: Shape = "auto",
) -> Receipt:
    """`apply_changes` as it was asked."""
    table = open_table(checked_url(df.sparkSession, asked.url), storage_options=asked.storage_options)
    primary = table.schema.primary_keys
    check_keys(keys, primary)
    order = [sequence] if isinstance(sequence, str) else list(sequence or ())
    found = looks_like(df.columns, _structs(df.schema), shape, kind)
    for name in order:
        try:
            _ = df.select(F.col(name)).schema  # asked for, because Spark Connect looks for columns only then
        except Exception as error:
            raise InvalidArgument(
                f"sequence: the data has no '{name}'", next_step=f"the columns are: {df.columns}"
            ) from error
    places = [f"_captured_order_{i}" for i in range(len(order))]
    sorting = [_required(F.col(name), name).alias(place) for name, place in zip(order, places, strict=True)]
    if found == "plain":
        rows, names, told = df.select("*", *sorting), list(df.columns), kind
    else:
        entries, struct = (_debezium if found == "debezium" else _maxwell)(df.schema, primary)
        names, told = [*struct.names, KIND], KIND
        exploded = df.select(
            F.posexplode(F.filter(entries, lambda entry: entry.isNotNull())).alias(_AT, _ROW), *sorting
        )
        rows, places = exploded.select(f"{_ROW}.*", _AT, *places), [*places, *([_AT] if order else [])]
    if order:
        at = [key for key in primary if key in rows.columns]
        rows = rows.repartition(*at).sortWithinPartitions(*places)
    return carry_out(rows.select(*names), replace(asked, row_kind=told))


def _structs(schema: spark.StructType) -> dict[str, bool]:
    """Which columns are structs."""
    return {field.name: isinstance(field.dataType, spark.StructType) for field in schema.fields}


def _required(column: Any, name: str) -> Any:
    told = f"lakelatch.core.errors.InvalidArgument: sequence: '{name}' is null in a change"
    return F.when(column.isNull(), F.raise_error(F.lit(told))).otherwise(column)


def _refused(name: str, value: Any, known: str) -> Any:
    told = f"lakelatch.core.errors.InvalidArgument: column '{name}': "
    return F.raise_error(
        F.concat(F.lit(told), F.coalesce(value, F.lit("null")), F.lit(f" is no change of a row ({known})"))
    )


def _entry(struct: Any, fields: spark.StructType, source: spark.StructType, kind: Any, name: str) -> Any:
    """A row as a struct of the table's columns and its kind; a null struct is an error."""
    told = f"lakelatch.core.errors.InvalidArgument: column '{name}' is null in a change"
    checked = F.when(struct.isNull(), F.raise_error(F.lit(told))).otherwise(struct)
    have = set(source.names)
    values = [
        (checked[f.name] if f.name in have else F.lit(None)).cast(f.dataType).alias(f.name) for f in fields.fields
    ]
    return F.struct(*values, kind.alias(KIND))


def _debezium(schema: spark.StructType, keys: Sequence[str]) -> tuple[Any, spark.StructType]:
    after: Any = schema["after"].dataType
    before = schema["before"].dataType
    known = before if isinstance(before, spark.StructType) else spark.StructType([])
    op, was, now = F.col("op"), F.col("before"), F.col("after")
    moved = F.lit(False)
    for key in keys:
        if key in known.names and key in after.names:
            moved = moved | F.coalesce(was[key] != now[key], F.lit(False))
    kinds = F.create_map(*(F.lit(text) for pair in DEBEZIUM.items() for text in pair))
    checked = F.when(op.isNull() | op.isin("d", *DEBEZIUM), op).otherwise(_refused("op", op, "c, r, u and d"))
    gone = (checked == "d") | ((op == "u") & moved)
    entries = [F.when(op.isin(*DEBEZIUM), _entry(now, after, after, kinds[op], "after"))]
    if known.names:
        entries.insert(0, F.when(gone, _entry(was, after, known, F.lit("-D"), "before")))
    else:
        entries.insert(0, F.when(gone, _entry(F.lit(None).cast(after), after, after, F.lit("-D"), "before")))
    return F.array(*entries), after


def _maxwell(schema: spark.StructType, keys: Sequence[str]) -> tuple[Any, spark.StructType]:
    data: Any = schema["data"].dataType
    old = schema["old"].dataType if "old" in schema.names else None
    held = set(old.names) if isinstance(old, spark.StructType) else set()
    kind, now = F.col("type"), F.col("data")
    moved, values = F.lit(False), []
    for field in data.fields:
        value = now[field.name]
        if field.name in keys and field.name in held:
            was = F.col("old")[field.name].cast(field.dataType)
            moved = moved | (was.isNotNull() & (was != value))
            value = F.coalesce(was, value)
        values.append(value.alias(field.name))
    kinds = F.create_map(*(F.lit(text) for pair in MAXWELL.items() for text in pair))
    known = ("delete", *MAXWELL, *MAXWELL_MARKS)
    checked = F.when(kind.isin(*known), kind).otherwise(_refused("type", kind, "insert, update and delete"))
    gone = (checked == "delete") | ((kind == "update") & moved)
    entries = [
        F.when(gone, F.struct(*values, F.lit("-D").alias(KIND))),
        F.when(kind.isin(*MAXWELL), _entry(now, data, data, kinds[kind], "data")),
    ]
    return F.array(*entries), data
