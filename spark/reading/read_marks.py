"""The snapshot that a frame was read at, kept with the frame, so that an overwrite with it loses no rows of others.

Owns: the mark, how a frame carries it, and `read_at`, which finds it again. Must not know: how tables are read or written.
Source: decision 95; H13.

A mark is the metadata of each column, which passes through selections, filters, joins, caches and checkpoints, and the name of
the frame in its plan, which stays where every column was computed anew. Both work under Spark Connect, and cost no job.
Invariant: a mark counts in the process that made it. One that came back from a file or from Spark's catalog is no mark.
"""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Literal

from pyspark.sql import types as spark

from ...backends.elsewhere import place_of
from ...backends.registry import open_beside
from ...core.errors import InvalidArgument
from ...core.metadata.snapshot import Snapshot
from ...core.metadata.table_identity import identity_of
from ...table.table import Table
from ..options.catalog import CatalogTable, catalog_table, options_of_mark
from ..sessions.session import is_connect

_LOG = logging.getLogger("lakelatch.spark")

KEY = "lakelatch.read"
PROCESS = uuid.uuid4().hex[:12]
"""Named by each mark of this process, and of the processes that Spark starts for it."""
How = Literal["newest", "chosen", "unknown"]
_RELATION = re.compile(r"\bRelationV2\[[^\]]*\] (spark_catalog\.\S+)")
_TEXT = re.compile(r"lakelatch\.read/([0-9a-f]+)/([0-9a-f]+)/(\d+)/(newest|chosen|unknown)/([^`\s'\"\],)]+)")


@dataclass(frozen=True)
class Mark:
    """Where rows of a frame come from: a table (a digest of its identity, or of its place) at a snapshot, or 0.

    `how` is unknown where Spark decides when it plans the query.
    """

    table: str
    branch: str
    snapshot: int
    how: How
    process: str = PROCESS

    def __str__(self) -> str:
        return f"{KEY}/{self.process}/{self.table}/{self.snapshot}/{self.how}/{self.branch}"


def mark_of(table: Table, snapshot: Snapshot | None, how: How) -> Mark:
    return Mark(_digest_of(table), table._branch, 0 if snapshot is None else snapshot.id, how)


def with_mark(schema: spark.StructType, mark: Mark | None) -> spark.StructType:
    if mark is None:
        return schema
    said = {KEY: str(mark)}
    return spark.StructType(
        [spark.StructField(f.name, f.dataType, f.nullable, {**f.metadata, **said}) for f in schema.fields]
    )


def read_at(df: Any, table: Table, unplanned: int | None = None, chosen: int | None = None) -> int | None:
    """The snapshot of the table that a frame was computed from, for an overwrite of the table; None if it has no rows of it.

    `unplanned` is the newest snapshot, if Spark has not planned yet what the frame reads of tables of its catalog. `chosen`
    counts as the snapshot of rows that were read at an old one, where that was said in the same breath. `InvalidArgument`: the
    frame does not say which one; the error says what to do.
    """
    plan = _plan_of(df)
    in_catalog = any(_is_at(table, found.url) for found in _named_in(plan, df.sparkSession))
    return read_by(df.schema, table, PROCESS, plan, unplanned, chosen, in_catalog)


def read_before(df: Any, table: Table, newest: Snapshot | None, travels: bool = False) -> int | None:
    """As `read_at`, for a frame that was planned after `newest` was looked up; `travels`: it names old snapshots itself."""
    number = 0 if newest is None else newest.id
    return read_at(df, table, number, number if travels else None)


def read_by(
    schema: spark.StructType,
    table: Table,
    process: str,
    plan: str = "",
    unplanned: int | None = None,
    chosen: int | None = None,
    in_catalog: bool = False,
) -> int | None:
    """As `read_at`, by what the columns of a frame and its plan say. `process` is the one whose marks count.

    `in_catalog`: does the plan read the table by a name of Spark's catalog? Before PySpark 4.3 the columns say so, too.
    """
    texts = [str(field.metadata.get(KEY, "")) for field in schema.fields]
    own = {
        mark
        for mark in _found([*texts, plan])
        if (mark.table, mark.branch, mark.process) == (_digest_of(table), table._branch, process)
    }
    if chosen is not None:
        own = {replace(mark, snapshot=chosen, how="newest") if mark.how == "chosen" else mark for mark in own}
    if in_catalog or _is_at(table, options_of_mark(schema).get("path")):
        how: How = "unknown" if unplanned is None else "newest"
        own.add(Mark(_digest_of(table), table._branch, unplanned or 0, how, process))
    if not own:
        return None
    numbers = sorted({mark.snapshot for mark in own})
    if any(mark.how == "unknown" for mark in own):
        raise InvalidArgument(
            f"the frame reads {table.url}, which it is to overwrite, through the data source, and Spark does not say at which"
            " snapshot",
            next_step="make the frame with lakelatch.spark.read, or give the snapshot that it shows as read_snapshot= (option"
            " 'read-snapshot')",
        )
    if len(numbers) > 1:
        raise InvalidArgument(
            f"the frame has rows of {table.url}, which it is to overwrite, from snapshots {', '.join(map(str, numbers))}",
            next_step="make it of one snapshot, or give read_snapshot=: rows that were committed after it stay",
        )
    (number,) = numbers
    newest = table.timeline.latest()
    if any(mark.how == "chosen" for mark in own) and newest is not None and newest.id != number:
        raise InvalidArgument(
            f"the frame shows snapshot {number} of {table.url}, which it is to overwrite, and {newest.id} is the newest",
            next_step=f"give read_snapshot={newest.id} to replace what was committed since, or read_snapshot={number} to keep it",
        )
    return number


def _named_in(plan: str, session: Any) -> list[CatalogTable]:
    """The tables of ours in Spark's catalog that a plan names."""
    names = dict.fromkeys(_RELATION.findall(plan))
    return [found for name in names if (found := catalog_table(session.sql, name)) is not None]


def _is_at(table: Table, url: str | None) -> bool:
    return url is not None and place_of(open_beside(table.store, url)) == place_of(table.store)


def _found(texts: Iterable[str]) -> frozenset[Mark]:
    found = (match for text in texts for match in _TEXT.finditer(text))
    return frozenset(Mark(m[2], m[5], int(m[3]), m[4], m[1]) for m in found)  # type: ignore[arg-type]


def _plan_of(df: Any) -> str:
    """What Spark tells of a frame's plan; empty where it tells nothing. The names of frames are in it."""
    try:
        text = df._explain_string(extended=True) if is_connect(df.sparkSession) else _analyzed(df)
    except Exception as error:  # neither of the two is public
        _LOG.info("the plan of a frame cannot be looked at: %s", error)
        return ""
    return str(text)


def _analyzed(df: Any) -> str:
    return str(df._jdf.queryExecution().analyzed().toString())


def _digest_of(table: Table) -> str:
    text = identity_of(table._first_schema) or place_of(table.store)
    return sha256(text.encode()).hexdigest()[:16]
