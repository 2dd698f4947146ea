"""The other branch of a read: partitions that a table lacks (`scan.fallback-branch`), or that come first (`scan.primary-branch`).

Owns: finding the branch and its snapshot, and checking that it has the table's columns. Must not know: plans, files.
Source: format/schema §6. Invariant: a fallback branch with other columns is refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ...coordinator.history.timeline import Timeline
from ...core import options as opt
from ...core.errors import InvalidArgument, Unsupported
from ...core.metadata.schema import TableSchema
from ...core.metadata.snapshot import Snapshot
from ...core.options import Option
from ...core.paths import TablePaths
from ...core.rows.types import Field, with_nullable
from ..travel import snapshot_at
from .refusals import check_schema_readable
from .split import Split

FileSchemas = dict[tuple[str, int], TableSchema]
"""The schemas that data files name, by branch and id."""


def other_branch(schema: TableSchema) -> Option[str] | None:
    """The option that names another branch to read from, or None. Both of them at once are refused, as Apache Paimon does."""
    named = [option for option in (opt.FALLBACK_BRANCH, opt.PRIMARY_BRANCH) if schema.options.get(option)]
    if len(named) > 1:
        raise InvalidArgument(
            f"options '{named[0].key}' and '{named[1].key}' cannot both be set",
            next_step=f"remove one of them: table.alter(ll.remove_option('{named[1].key}'))",
        )
    return named[0] if named else None


def alone(schema: TableSchema) -> TableSchema:
    """The schema without these options, for operations on the files of one branch."""
    return replace(
        schema, option_texts=dict(schema.option_texts) | {opt.FALLBACK_BRANCH.key: "", opt.PRIMARY_BRANCH.key: ""}
    )


def fallback_of(
    timeline: Timeline, option: Option[str], schema: TableSchema, as_of_ms: int | None
) -> tuple[Timeline, Snapshot | None]:
    """The other branch, and the snapshot of it that is read. Refuses a branch that has other columns than the table.

    With `as_of_ms` it is the newest one that is not later, or the first if all are later, like Apache Paimon; else the latest.
    """
    branch = schema.options.get(option)
    other = of_branch(timeline, branch)
    if not other.schema_ids():
        raise InvalidArgument(f"option '{option.key}' names branch '{branch}', which does not exist")
    latest = other.latest_schema()
    check_schema_readable(latest)
    snapshot = other.latest() if as_of_ms is None else _then(other, as_of_ms)
    written = latest if snapshot is None or as_of_ms is None else other.schema(snapshot.schema_id)
    if _shape(written.fields) != _shape(schema.fields) or written.partition_keys != schema.partition_keys:
        raise Unsupported(
            f"branch '{branch}' (option '{option.key}') has other columns than the table, or other field ids",
            next_step="read the branches one by one, or give both the same columns",
        )
    return other, snapshot


def _then(timeline: Timeline, as_of_ms: int) -> Snapshot | None:
    ids = timeline.snapshot_ids()
    first = timeline.find(ids[0]) if ids else None
    if first is None or first.time_ms > as_of_ms:
        return first
    return snapshot_at(timeline, timestamp=as_of_ms)


def _shape(fields: Iterable[Field]) -> list[tuple[int, str, object]]:
    return [(f.id, f.name, with_nullable(f.type, True)) for f in fields]


def of_branch(timeline: Timeline, branch: str) -> Timeline:
    if branch == timeline.paths.branch:
        return timeline
    return Timeline(timeline.store, TablePaths(branch, timeline.paths.data_directory))


def file_schemas_of(timeline: Timeline, schema: TableSchema, splits: Iterable[Split]) -> FileSchemas:
    """The schemas that the files of splits name. `schema`, the one that is read, is not loaded again."""
    named = sorted({(split.branch, schema_id) for split in splits for schema_id in split.schema_ids})
    timelines = {branch: of_branch(timeline, branch) for branch, _ in named}
    known = {(timeline.paths.branch, schema.id): schema}
    return {name: known.get(name) or timelines[name[0]].schema(name[1]) for name in named}
