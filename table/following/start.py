"""Where a reader of changes begins.

Owns: `start_of`, which turns what a user asks for into a position. Must not know: how changes are read, consumers.
Source: format/snapshot §3, §4. Invariant: a start that does not exist is an error that says what exists; it is never moved.
"""

from __future__ import annotations

from datetime import datetime
from typing import TypeAlias

from ...backends.store import ObjectNotFound
from ...coordinator.history.timeline import Timeline
from ...coordinator.maintenance.expiry.consumers import oldest_change
from ...core.errors import InvalidArgument
from ...core.metadata.snapshot import Snapshot
from ..travel import epoch_millis, snapshot_at
from .position import Position

Start: TypeAlias = Position | int | str | datetime
_WORDS = ("latest", "earliest")


def start_of(timeline: Timeline, start: Start, newest: Snapshot | None, full: bool) -> Position:
    """The position at which a reader begins.

    Args:
        start: `latest`: what is committed from now on. `earliest`: the oldest changes that are there. A snapshot id: the
            changes of this snapshot come first. A tag: what came after its snapshot. A time (ISO text with a zone, or a
            datetime): the changes of the first snapshot that is not older come first. A position, or its text: what came
            after it.
        full: begin with the state at the start, as rows that came, and then read what came after that state. The state at a time
            is that of the newest snapshot that is not later.

    `InvalidArgument`: there is no such snapshot, tag or time; says what exists.
    """
    if isinstance(start, Position):
        return start
    if isinstance(start, str) and "@" in start and start not in _tag(timeline, start):
        return Position.parse(start)
    if isinstance(start, bool) or not isinstance(start, (int, str, datetime)):
        raise InvalidArgument(
            f"start {start!r} is no start",
            next_step="give latest, earliest, a snapshot id, a time, a tag or a position",
        )
    if start == "latest":
        return Position.of(newest, whole=full and newest is not None)
    if newest is None:
        if start in ("earliest", 0, 1):
            return Position(0)
        raise InvalidArgument(
            f"there is no start {start!r} yet", next_step="the table has no snapshot: start at earliest"
        )
    if start == "earliest":
        return _earliest(timeline, full)
    if isinstance(start, int):
        return _at_id(timeline, start, newest, full)
    if isinstance(start, str):
        for tagged in _tag(timeline, start).values():
            return Position.of(tagged, whole=full)
    return _at_time(timeline, start, newest, full)


def _tag(timeline: Timeline, name: str) -> dict[str, Snapshot]:
    if "/" in name:
        return {}
    try:
        return {name: timeline.tag(name)}
    except ObjectNotFound:
        return {}


def _earliest(timeline: Timeline, full: bool) -> Position:
    if not full:
        return before(timeline, oldest_told(timeline))
    for snapshot_id in timeline.history_ids():
        found = timeline.find(snapshot_id)
        if found is not None:
            return Position.of(found, whole=True)
    return Position(0)


def before(timeline: Timeline, snapshot_id: int) -> Position:
    """The position before a snapshot, whose predecessor may have expired."""
    found = timeline.find(snapshot_id - 1) if snapshot_id > 1 else None
    return Position(max(0, snapshot_id - 1), "" if found is None else found.identity)


def _at_id(timeline: Timeline, start: int, newest: Snapshot, full: bool) -> Position:
    if full:
        return Position.of(snapshot_at(timeline, snapshot=start), whole=True)
    if start == newest.id + 1:
        return Position.of(newest)
    if not 0 <= start <= newest.id:
        raise InvalidArgument(
            f"there is no snapshot {start} to start at", next_step=f"the newest is snapshot {newest.id}"
        )
    oldest = oldest_told(timeline)
    if start < oldest and not (start == 0 and oldest == 1):
        raise expired(start - 1, oldest)
    return before(timeline, start)


def oldest_told(timeline: Timeline) -> int:
    """The oldest snapshot whose changes are there, as a snapshot or as a changelog; 1 for a table that never had one."""
    return oldest_change(timeline) or 1


def expired(snapshot_id: int, oldest: int) -> InvalidArgument:
    return InvalidArgument(
        f"the changes after snapshot {max(0, snapshot_id)} are not all there: the oldest that are there are those of"
        f" snapshot {oldest}",
        next_step=f"start at {oldest} if what is missing may be left out, or with the whole state (full) and what follows it;"
        " a consumer keeps what is still to be read from expiring",
    )


def _at_time(timeline: Timeline, start: str | datetime, newest: Snapshot, full: bool) -> Position:
    try:
        millis = epoch_millis(start, "start")
    except InvalidArgument as error:
        if isinstance(start, datetime):
            raise
        raise InvalidArgument(
            f"start {start!r} is none of {', '.join(_WORDS)}, no tag of the table and no time with a zone",
            next_step="give one of these, a snapshot id or a position",
        ) from error
    if full:
        return Position.of(snapshot_at(timeline, timestamp=millis), whole=True)
    if newest.time_ms < millis:
        return Position.of(newest)
    try:
        return Position.of(snapshot_at(timeline, timestamp=millis - 1))
    except InvalidArgument:
        oldest = oldest_told(timeline)
        if oldest == 1:
            return Position(0)
        raise expired(oldest - 2, oldest) from None
