"""Changes a table's schema, and reports the change once it is safe against the table's first commit.

Owns: `alter`. Must not know: how schemas are changed (`core.metadata.schema_changes`) or commits made. Source: decision 18.
Invariants: a change of the layout is reported as made only if no file was committed under another layout. A change that lost to
first files of another layout is undone completely and reported as not committed. All other changes are one atomic create.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..core.errors import (
    CommitConflict,
    InvalidArgument,
    LakelatchError,
    OutcomeUnknown,
    RetriesExhausted,
    StoreUnavailable,
    TableNotFound,
)
from ..core.metadata.schema import TableSchema
from ..core.metadata.schemas.changes import SchemaChange, changed, undone
from ..core.metadata.schemas.layout import differences, held_files
from ..core.metadata.snapshot import Snapshot
from ..core.paths import version_of
from .commit.checks.layout import numbered
from .commit.committer import Committer, new_commit_user
from .commit.request import CommitRequest, LayoutDecision
from .history.timeline import Timeline
from .schema_commit import Changed, change_schema, create_schema
from .surroundings import MACHINE, Surroundings

_RACES = 20


def alter(
    timeline: Timeline,
    changes: Sequence[SchemaChange],
    committer_of: Callable[[TableSchema], Committer],
    around: Surroundings = MACHINE,
) -> TableSchema:
    """Apply changes to the newest schema, and return the one that was made. Raises as `Table.alter`, and `RetriesExhausted`."""
    seen = timeline.latest()
    decides = not held_files(seen) and _decides_layout(timeline, changes, around)
    if decides:
        seen = _announced(timeline, committer_of, around)

    def settled(made: Changed) -> TableSchema:
        return _settled(timeline, made, committer_of, around) if decides and not made.holds_files else made.after

    try:
        made = change_schema(timeline, changes, around, seen)
    except OutcomeUnknown as unknown:
        raise _created_or_not(timeline, unknown, settled) from unknown
    return settled(made)


def _created_or_not(
    timeline: Timeline, unknown: OutcomeUnknown[str], settled: Callable[[Changed], TableSchema]
) -> OutcomeUnknown[TableSchema]:
    """An `OutcomeUnknown` whose `resolve()` continues the change from where the store's answer was lost."""
    schema_id = version_of(unknown.identity["schema"].removeprefix(timeline.paths.schema_dir), "schema")
    assert schema_id is not None

    def resolve(timeout: float) -> TableSchema:
        try:
            unknown.resolve(timeout=timeout)
        except OutcomeUnknown as still:
            raise _created_or_not(timeline, still, settled) from still
        return settled(Changed(timeline.schema(schema_id - 1), timeline.schema(schema_id), False))

    return OutcomeUnknown(unknown.message, identity=unknown.identity, resolver=resolve)


def _announced(
    timeline: Timeline, committer_of: Callable[[TableSchema], Committer], around: Surroundings
) -> Snapshot | None:
    """Announce a change of the layout under the snapshot name that first files need, so that their writer checks its layout.
    Returns the announcement; or, if the table has files by now, the snapshot that holds them, because they restrict the change.
    """
    newest = timeline.latest_schema()
    try:
        return timeline.find(committer_of(newest).commit(_settling(newest, around)).snapshot_id)
    except CommitConflict:
        return timeline.latest()
    except OutcomeUnknown as unknown:  # an announcement that lands late has no effect
        raise StoreUnavailable(f"the schema of {timeline.store.url} was not changed: {unknown.message}") from unknown


def _decides_layout(timeline: Timeline, changes: Sequence[SchemaChange], around: Surroundings) -> bool:
    """Whether the change is one that only a table without files allows, and this table has none."""
    newest = timeline.latest_schema()
    after = changed(newest, changes, has_snapshots=False, time_ms=around.wall_ms)
    if differences(newest, after, rescaled=False):
        return True
    try:
        changed(newest, changes, has_snapshots=True, time_ms=around.wall_ms)
    except InvalidArgument:
        return True
    return False


def _settled(
    timeline: Timeline, made: Changed, committer_of: Callable[[TableSchema], Committer], around: Surroundings
) -> TableSchema:
    try:
        committer_of(made.after).commit(_settling(made.after, around))
    except OutcomeUnknown as unknown:
        raise _unknown(timeline, made.before, made.after, unknown, around) from unknown
    except LakelatchError as error:
        return _concluded(timeline, made.before, made.after, error, around)
    return made.after


def _settling(schema: TableSchema, around: Surroundings) -> CommitRequest:
    """An empty commit, which takes the snapshot name that the table's first files need."""
    return LayoutDecision("APPEND", (), new_commit_user(schema, around))


def _concluded(
    timeline: Timeline, before: TableSchema, after: TableSchema, error: LakelatchError, around: Surroundings
) -> TableSchema:
    """A change whose last commit failed stands if first files follow it, and is undone otherwise. Raises OutcomeUnknown if the
    store does not say what came first, or the change cannot be undone now.
    """
    if isinstance(error, TableNotFound):
        raise error
    try:
        if _is_followed(timeline, before, after):
            return after
        _undo(timeline, before, after, around)
    except LakelatchError as failure:
        raise OutcomeUnknown(
            f"schema {after.id} of {timeline.store.url} had to be undone, but that failed as well: {failure.message}",
            identity={"schema": timeline.paths.schema(after.id)},
            resolver=lambda timeout: _concluded(timeline, before, after, error, around),
        ) from error
    if not isinstance(error, CommitConflict):
        raise error
    raise CommitConflict(
        f"the options of {timeline.store.url} were not changed: its first files were committed meanwhile, and depend on them"
    ) from error


def _is_followed(timeline: Timeline, before: TableSchema, after: TableSchema) -> bool:
    """Whether the first files came before the change was settled, but were already laid out by it: then it must stand."""
    if not differences(before, after, rescaled=False):
        return False
    holding = timeline.latest()
    if holding is None or not held_files(holding):
        return False
    return not differences(timeline.schema(holding.schema_id), after, rescaled=False)


def _undo(timeline: Timeline, before: TableSchema, after: TableSchema, around: Surroundings) -> None:
    for _ in range(_RACES):
        newest = timeline.latest_schema()
        back = undone(newest, after, before)
        if back == newest:
            return
        made = numbered(back, newest.id + 1, around)
        if create_schema(timeline.store, timeline.paths.schema(made.id), made.to_json(), around):
            return
    raise RetriesExhausted(f"lost {_RACES} races for the next schema")


def _unknown(
    timeline: Timeline, before: TableSchema, after: TableSchema, unknown: OutcomeUnknown[Any], around: Surroundings
) -> OutcomeUnknown[TableSchema]:
    def resolve(timeout: float) -> TableSchema:
        try:
            unknown.resolve(timeout=timeout)
        except OutcomeUnknown as still:
            raise _unknown(timeline, before, after, still, around) from still
        except LakelatchError as error:
            return _concluded(timeline, before, after, error, around)
        return after

    return OutcomeUnknown(
        f"it is not known whether schema {after.id} came before the first commit: {unknown.message}",
        identity={"schema": timeline.paths.schema(after.id), **unknown.identity},
        resolver=resolve,
    )
