"""What comes after a position: the snapshots whose changes are still to be read, if the history is still the one that was read.

Owns: `window_after`, and the errors about a history that went another way: expired, rolled back, or with columns that are gone.
Must not know: rows, who reads. Source: format/snapshot §4; format/commit §11; H6, H18.

Invariants: no snapshot is left out or told twice. Each snapshot of the window was built on the one before it, and the first one
on the snapshot of the position, as far as they say so themselves. Rows are never read with a column that a snapshot has lost.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...backends.requests.deadline import timed
from ...coordinator.history.announced import expires_below
from ...coordinator.history.timeline import Timeline, base_of
from ...core.errors import InvalidArgument, TableCorrupt
from ...core.metadata.schema import TableSchema
from ...core.metadata.snapshot import Snapshot
from ...core.rows.types import sql
from ..changelog.key_changes import Mode
from ..changelog.window import Window, window_of
from .position import Position
from .start import expired, oldest_told

MOST_SNAPSHOTS = 64
"""So many snapshots are looked up at a time, so that a reader far behind needs little memory."""


@timed("a look at new snapshots", lambda timeline: timeline.store)
def window_after(
    timeline: Timeline, position: Position, newest: Snapshot | None, mode: Mode = "auto", most: int = MOST_SNAPSHOTS
) -> Window:
    """The next snapshots after a position, ascending; none if the position is at the end. Mode "diff" is not possible.

    `InvalidArgument`: the changes after the position have expired, or the table was rolled back to before it.
    """
    if position.whole:
        return _state_at(timeline, position)
    if newest is None or newest.id < position.snapshot_id:
        if position.snapshot_id == 0:
            return Window(None, ())
        raise rolled_back(position)
    if newest.id == position.snapshot_id:
        _check_same(position, newest)
        return Window(None, ())
    end = min(newest.id, position.snapshot_id + most)
    try:
        window = window_of(timeline, position.snapshot_id, end, newest, mode)
    except (InvalidArgument, TableCorrupt):  # an expiry may delete snapshots in any order
        oldest = max(oldest_told(timeline), expires_below(timeline))
        if oldest > position.snapshot_id + 1:
            raise expired(position.snapshot_id, oldest) from None
        raise
    if window.before is not None:
        _check_same(position, window.before)
    before = position
    for found in window.snapshots:
        built_on = base_of(found)
        if (
            built_on is not None
            and before.identity
            and (built_on.id, built_on.identity)
            != (
                before.snapshot_id,
                before.identity,
            )
        ):
            raise rolled_back(before)
        before = Position.of(found)
    return window


def _state_at(timeline: Timeline, position: Position) -> Window:
    found = timeline.find(position.snapshot_id)
    if found is None:
        raise expired(position.snapshot_id, oldest_told(timeline))
    _check_same(position, found)
    return Window(None, (found,), by_snapshot=False, whole=True)


def _check_same(position: Position, found: Snapshot) -> None:
    if position.identity and found.identity != position.identity:
        raise rolled_back(position)


def rolled_back(position: Position) -> InvalidArgument:
    return InvalidArgument(
        f"snapshot {position.snapshot_id}, up to which the changes have been read, is no longer part of the table's history:"
        " another writer rolled the table back, or the table was made again",
        next_step="start anew with the whole state (full), or at a snapshot from before the rollback if its changes may be read"
        " twice",
    )


def check_columns(
    timeline: Timeline, schema: TableSchema, columns: Sequence[str] | None, found: Snapshot, position: Position
) -> None:
    """Refuse (`InvalidArgument`) a snapshot whose schema has lost or changed a column that is being read.

    A reader has the columns of its start. Columns that are new or renamed since do not disturb it.
    """
    if found.schema_id <= schema.id:
        return
    newer = timeline.schema(found.schema_id, timeline.file_of(found))
    there = {field.id: field for field in newer.fields}
    for field in schema.fields:
        if columns is not None and field.name not in columns:
            continue
        now = there.get(field.id)
        again = f"start again at position {position} with the columns that you need"
        if now is None:
            raise InvalidArgument(
                f"column '{field.name}', which is being read, was dropped before snapshot {found.id}", next_step=again
            )
        if _without_null(sql(now.type)) != _without_null(sql(field.type)):
            raise InvalidArgument(
                f"column '{field.name}', which is being read, is {sql(now.type)} since snapshot {found.id}, and was"
                f" {sql(field.type)}",
                next_step=again,
            )


def _without_null(text: str) -> str:
    return text.removesuffix(" NOT NULL")
