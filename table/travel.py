"""Find a snapshot by id, by tag, by time or by watermark.

Owns: `snapshot_at` and its errors, which list what exists; `schema_at`; `commit_at`. Must not know: rows, files.
Source: format/snapshot §3, §4. Invariants: A snapshot that is missing between existing ones means damage; one outside the
range is an invalid argument. The clocks of writers may differ by up to a minute (see `SKEW_MS`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timezone, tzinfo
from typing import TYPE_CHECKING, Any

from ..backends.store import ObjectNotFound
from ..coordinator.commit.receipt import Receipt
from ..coordinator.history.timeline import Timeline
from ..coordinator.intents.commits import Commit, commits_named, only_commit_of
from ..core.arguments import plain
from ..core.errors import InvalidArgument, TableCorrupt
from ..core.metadata.schema import TableSchema
from ..core.metadata.snapshot import Snapshot
from ..core.options import parse_duration_ms
from ..core.rows.literals import Nanos, coerce_literal
from ..core.rows.types import timestamp as timestamp_type
from ..core.rows.values import NANOS_PER_MILLI

if TYPE_CHECKING:
    from ..coordinator.commit.committer import Committer

SKEW_MS = 60_000
"""By how much a snapshot's time may be earlier than that of a previous snapshot, because writers' clocks differ."""

_NAMES_SHOWN = 20
_STRIDE = 8
_NO_WATERMARK = -(1 << 63)
"""What a streaming writer stores until its first watermark."""


def snapshot_at(
    timeline: Timeline,
    snapshot: int | None = None,
    tag: str | None = None,
    timestamp: str | int | datetime | None = None,
    watermark: str | int | datetime | None = None,
) -> Snapshot:
    """Find a snapshot. Exactly one of the four arguments is given.

    Args:
        snapshot: an id. Where it has expired, a tag of it will do.
        timestamp: as for `epoch_millis`. Chooses the newest snapshot that is not later; where all of these have expired, the
            newest tag that is not later.
        watermark: such a time. Chooses the oldest snapshot whose watermark is not earlier; where snapshots have expired that may
            have been older, the oldest such tag.

    `InvalidArgument` lists what exists. `TableCorrupt`: the snapshot should exist, but is missing or damaged.
    """
    if [snapshot, tag, timestamp, watermark].count(None) != 3:
        raise InvalidArgument("give exactly one of snapshot, tag, timestamp and watermark")
    if snapshot is not None:
        return _by_id(timeline, snapshot)
    if tag is not None:
        return _by_tag(timeline, tag)
    if watermark is not None:
        return _by_watermark(timeline, epoch_millis(watermark, "watermark"))
    return _by_time(timeline, epoch_millis(timestamp))


def commit_at(timeline: Timeline, committer: Committer, commit: int | tuple[str, int | None] | Receipt) -> Commit:
    """Find one commit, by the id of its snapshot, its identity or its receipt. `InvalidArgument` lists what exists.

    The memory of identities knows the snapshot of the last commit of each user; for others all snapshots are read.
    """
    if isinstance(commit, Receipt):
        found = commits_named([timeline.find(commit.snapshot_id)], commit.commit_user, commit.identifier)
        if not found:
            raise InvalidArgument(f"snapshot {commit.snapshot_id} of this table has no commit of the receipt {commit}")
        return found[0]
    if isinstance(commit, tuple) and len(commit) == 2:
        return _commit_of(timeline, committer, *commit)
    number = plain(commit)
    if type(number) is not int:
        raise InvalidArgument(
            f"{commit!r} is not a commit",
            next_step="give the id of a snapshot, (commit_user, identifier), or the receipt of the commit",
        )
    return only_commit_of(_by_id(timeline, number))


def _commit_of(timeline: Timeline, committer: Committer, commit_user: str, identifier: int | None) -> Commit:
    receipt = committer.lookup(commit_user, identifier) if identifier is not None else None
    found = commits_named([timeline.find(receipt.snapshot_id)] if receipt else [], commit_user, identifier)
    if not found:
        snapshots = timeline.parallel(timeline.find, timeline.snapshot_ids())
        found = commits_named(snapshots, commit_user, identifier)
    if len(found) == 1:
        return found[0]
    shown = f"{commit_user!r}" if identifier is None else f"{identifier} of {commit_user!r}"
    if found:
        raise InvalidArgument(
            f"commit {shown} is not the only one: snapshots {', '.join(str(c.snapshot.id) for c in found)}",
            next_step="give the receipt of the commit, or the id of its snapshot",
        )
    landed = f" any more: it landed as snapshot {receipt.snapshot_id}, which has expired" if receipt is not None else ""
    raise InvalidArgument(f"the table has no commit {shown}{landed}")


def schema_at(timeline: Timeline, snapshot: Snapshot, latest: TableSchema) -> TableSchema:
    """The columns of the snapshot with the table's current options (those of `latest`)."""
    written = timeline.schema(snapshot.schema_id, timeline.file_of(snapshot))
    return replace(written, option_texts=latest.option_texts)


def epoch_millis(moment: Any, name: str = "timestamp", zone: tzinfo | None = None) -> int:
    """A time as milliseconds since 1970, rounded down. Without a zone it is of `zone`; if that is None, `InvalidArgument`.

    >>> epoch_millis("1970-01-01T01:00+01:00"), epoch_millis(5), epoch_millis(datetime(1970, 1, 1, 0, 0, 1, tzinfo=timezone.utc))
    (0, 5, 1000)
    """
    if not isinstance(moment, Nanos) and type(millis := plain(moment)) is int:
        return int(millis)
    nanos = coerce_literal(moment, timestamp_type(9, local_zone=True), name, zone)
    return int(nanos) // NANOS_PER_MILLI


def older_than_millis(limit: Any, now_ms: int, name: str = "older_than") -> int:
    """The moment in milliseconds since 1970 before which something is old: `7 d` ago, or as for `epoch_millis`.

    >>> older_than_millis("1 d", 86_400_005), older_than_millis("1970-01-01 00:00:01Z", 86_400_005)
    (5, 1000)
    """
    if isinstance(limit, str):
        with suppress(ValueError):
            if not limit.strip().isdecimal():
                return now_ms - parse_duration_ms(limit)
    try:
        return epoch_millis(limit, name)
    except InvalidArgument as error:
        error.next_step += ", or how long ago: '7 d'"
        raise


def _by_id(timeline: Timeline, snapshot_id: int) -> Snapshot:
    snapshot_id = plain(snapshot_id)
    if type(snapshot_id) is not int:
        raise InvalidArgument(f"{snapshot_id!r} is not a snapshot id")
    found = timeline.find(snapshot_id) if snapshot_id > 0 else None
    if found is not None:
        return found
    ids = timeline.snapshot_ids()
    if 0 < snapshot_id < min(timeline.history_of(ids), default=0):
        tagged = _newest_tag(timeline, lambda snapshot: snapshot.id == snapshot_id)
        if tagged is not None:
            return tagged
    if ids and ids[0] < snapshot_id < ids[-1]:
        before, after = max(i for i in ids if i < snapshot_id), min(i for i in ids if i > snapshot_id)
        raise TableCorrupt(
            f"{timeline.paths.snapshot(snapshot_id)} is missing, though later and earlier snapshots exist:"
            f" {timeline.paths.snapshot(before)} and {timeline.paths.snapshot(after)}"
        )
    raise InvalidArgument(f"there is no snapshot {snapshot_id}", next_step=_range(ids))


def _range(ids: list[int]) -> str:
    if not ids:
        return "the table has no snapshot yet"
    return f"there are snapshots {ids[0]} to {ids[-1]}; no tag holds an older one of this id"


def _by_tag(timeline: Timeline, name: str) -> Snapshot:
    try:
        return timeline.tag(name)
    except ObjectNotFound:
        pass
    names = tag_names(timeline)
    shown = ", ".join(names[:_NAMES_SHOWN]) + (" …" if len(names) > _NAMES_SHOWN else "")
    raise InvalidArgument(
        f"there is no tag {name!r}", next_step=f"tags are: {shown}" if names else "the table has no tags"
    )


def tag_names(timeline: Timeline) -> list[str]:
    return sorted(timeline.tag_files())


def _by_time(timeline: Timeline, millis: int) -> Snapshot:
    """The snapshot of the largest id whose time is not after `millis`.

    Times need not increase strictly: the search goes on until they are later by more than clocks can differ.
    """
    ids = timeline.history_ids()
    seen: dict[int, Snapshot | None] = {}

    def read(position: int) -> Snapshot | None:
        if position not in seen:
            seen[position] = timeline.find(ids[position])
        return seen[position]

    low, high = 0, len(ids)
    while low < high:
        middle = (low + high) // 2
        found = read(middle)
        if found is None or found.time_ms <= millis:  # a snapshot that expired meanwhile was the oldest
            low = middle + 1
        else:
            high = middle
    best = next((s for s in map(read, range(low - 1, -1, -1)) if s is not None), None)
    for start in range(low, len(ids), _STRIDE):
        positions = range(start, min(start + _STRIDE, len(ids)))
        following = [s for s in timeline.parallel(read, positions) if s is not None]
        best = next((s for s in reversed(following) if s.time_ms <= millis), best)
        if any(s.time_ms > millis + SKEW_MS for s in following):
            break
    if best is None:
        best = _newest_tag(timeline, lambda snapshot: snapshot.time_ms <= millis)
    if best is None:
        first = next((s for s in map(read, range(len(ids))) if s is not None), None)
        raise InvalidArgument(f"no snapshot is as old as {_text(millis)}", next_step=_earliest(first))
    return best


def _newest_tag(timeline: Timeline, wanted: Callable[[Snapshot], bool]) -> Snapshot | None:
    """The newest tagged snapshot that is wanted, where the snapshots of that time have expired."""
    from ..coordinator.tags.creation import list_tags

    found = [tag.snapshot for tag in list_tags(timeline) if wanted(tag.snapshot)]
    return max(found, key=lambda snapshot: snapshot.id, default=None)


def _by_watermark(timeline: Timeline, millis: int) -> Snapshot:
    """As `_by_time`. Watermarks never go back, so a binary search finds it; the first snapshots of a table may have none."""
    from ..coordinator.tags.creation import list_tags

    ids = timeline.history_ids()
    best = newest = None
    low, high = 0, len(ids)
    while low < high:
        middle = (low + high) // 2
        found = timeline.find(ids[middle])
        if found is not None and found.watermark is not None and found.watermark >= millis:
            best, high = found, middle
        else:
            newest, low = found if found is not None else newest, middle + 1
    if best is None or best.id == ids[0]:  # the table may have reached it in a snapshot that has expired
        until = ids[0] if ids else 1 << 63
        tagged = (tag.snapshot for tag in list_tags(timeline) if tag.snapshot.id < until)
        reached_it = (s for s in tagged if s.watermark is not None and s.watermark >= millis)
        best = min(reached_it, key=lambda snapshot: snapshot.id, default=best)
    if best is None:
        reached = None if newest is None else newest.watermark
        raise InvalidArgument(
            f"no snapshot has reached the watermark {_text(millis)}",
            next_step=f"the newest watermark is {_text(reached)}"
            if reached is not None and reached > _NO_WATERMARK
            else "no snapshot has a watermark",
        )
    return best


def _earliest(first: Snapshot | None) -> str:
    return (
        "the table has no snapshot yet"
        if first is None
        else f"the earliest is snapshot {first.id} of {_text(first.time_ms)}"
    )


def _text(millis: int) -> str:
    try:
        return (
            datetime.fromtimestamp(millis / 1000, timezone.utc)
            .isoformat(timespec="milliseconds")
            .replace("+00:00", "Z")
        )
    except (ValueError, OverflowError, OSError):
        return f"{millis} ms"


def duration_ms(text: str, name: str) -> int:
    """A duration as milliseconds. Raises InvalidArgument, which names the argument.

    >>> duration_ms("90 d", "older_than")
    7776000000
    """
    if not isinstance(text, str):
        raise InvalidArgument(f"{name} {text!r} is not text", next_step="give a number and a unit, such as '7 d'")
    try:
        return parse_duration_ms(text)
    except ValueError as error:
        raise InvalidArgument(f"{name}: {error}", next_step="give a number and a unit, such as '7 d'") from error
