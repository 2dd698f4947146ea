"""Explains how a snapshot came to be, from the table alone or from a journal.

Owns: the text of `explain`. Must not know: how a commit is made. Source: architecture §3 (event sourced).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from datetime import datetime, timezone

from ..core import options as opt
from ..core.errors import LakelatchError
from ..core.html_text import Text
from ..core.metadata.data_file import ADD
from ..core.metadata.snapshot import BATCH_IDENTIFIER, Snapshot
from .commit.riding.group import has_riders
from .history.lost import lost_attempts
from .history.timeline import BASE_PROPERTY, Timeline, base_of
from .intents.carried import CLOSES_PROPERTY, Carried, carried_by, riders_of, said_by
from .intents.commits import Commit
from .journal.lines import Entry

_SHOWN_RIDERS = 20


def explain(timeline: Timeline, snapshot: Snapshot, asked: Carried | None = None) -> Text:
    """How a snapshot came to be; `asked` is the one of several commits in it that is asked for."""
    lines = [
        f"snapshot {snapshot.id}  {snapshot.commit_kind}" + (f" ({snapshot.operation})" if snapshot.operation else "")
    ]
    identifier = "" if snapshot.commit_identifier == BATCH_IDENTIFIER else f", identifier {snapshot.commit_identifier}"
    if asked is not None:
        lines.append(f"  commit    {asked}: {asked.rows} rows, {_changes(timeline, Commit(snapshot, asked))}")
    lines.append(f"  made by   {snapshot.commit_user}{identifier}, {snapshot.writer_version or 'unknown writer'}")
    lines.append(f"  at        {_moment(snapshot.time_ms)}, schema {snapshot.schema_id}")
    lines.append(f"  identity  {snapshot.identity}")
    lines.append(f"  base      {_base_line(timeline, snapshot)}")
    lines.extend(_attempt_lines(snapshot))
    lines.extend(_rider_lines(snapshot))
    lines.extend(_alone_lines(timeline, snapshot))
    lines.append(f"  changes   {_changes(timeline, Commit(snapshot))}")
    lines.append(f"  rows      {snapshot.delta_record_count:+d}, {snapshot.total_record_count} in all")
    return Text("\n".join(lines))


def _moment(time_ms: int) -> str:
    try:
        return datetime.fromtimestamp(time_ms / 1000, timezone.utc).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):  # a time that Python cannot hold
        return f"{time_ms} ms"


def _base_line(timeline: Timeline, snapshot: Snapshot) -> str:
    named = base_of(snapshot)
    if named is None:
        return (
            "none, the first"
            if snapshot.own_properties.get(BASE_PROPERTY) or snapshot.id == 1
            else "not recorded by its writer"
        )
    found = timeline.find(named.id)
    if found is None:
        return f"snapshot {named.id}, since expired"
    return (
        f"snapshot {named.id}"
        if found.identity == named.identity
        else f"snapshot {named.id}, REPLACED since by another"
    )


def _attempt_lines(snapshot: Snapshot) -> list[str]:
    lost = lost_attempts(snapshot)
    if not lost:
        return ["  attempts  1"] if BASE_PROPERTY in snapshot.own_properties else []
    lines = [f"  attempts  {len(lost) + 1}"]
    lines += [f"            {i}: wanted {a['id']}, lost it to {a['by']} ({a['to']})" for i, a in enumerate(lost, 1)]
    return lines


def _rider_lines(snapshot: Snapshot) -> list[str]:
    closed = snapshot.own_properties.get(CLOSES_PROPERTY)
    if closed is not None:
        return [f"  closes    the window of commit {closed}, which gave up: nobody can carry it in this snapshot"]
    riders = riders_of(snapshot)
    said = said_by(snapshot)
    told = [
        f"            {rider}: {rider.rows} rows"
        + "".join(f", {key} = {value}" for key, value in said.get(rider.commit, {}).items())
        for rider in riders[:_SHOWN_RIDERS]
    ]
    if len(riders) > _SHOWN_RIDERS:
        told.append(f"            and {len(riders) - _SHOWN_RIDERS} more")
    return [f"  carries   {len(riders)} other commits", *told] if riders else []


def _alone_lines(timeline: Timeline, snapshot: Snapshot) -> list[str]:
    """An append that lost races, and that could have ridden with the first winner."""
    kind = snapshot.commit_kind, snapshot.operation
    if kind not in (("APPEND", "WRITE"), ("APPEND", None)) or not lost_attempts(snapshot) or carried_by(snapshot):
        return []
    try:
        schema = timeline.schema(snapshot.schema_id)
    except LakelatchError:
        return []
    if not has_riders(schema) or schema.options.get(opt.COMMIT_GROUP) == opt.GROUP_AUTO:
        return []
    return [f"  alone     with '{opt.COMMIT_GROUP.key}' = '{opt.GROUP_AUTO}', a later winner could have carried it"]


def _changes(timeline: Timeline, commit: Commit) -> str:
    try:
        entries = timeline.entries(commit.delta_manifests(timeline))
    except LakelatchError as error:
        return f"cannot be read: {error.message}"
    added = [e for e in entries if e.kind == ADD]
    partitions = len({e.partition for e in entries})
    where = f" in {partitions} partitions" if partitions > 1 else ""
    return f"{len(added)} files added, {len(entries) - len(added)} deleted{where}"


def timeline_of(entries: Iterable[Entry]) -> str:
    """A commit's journal as lines: milliseconds since its first event, the event and its fields."""
    lines = []
    start: int | None = None
    for entry in entries:
        start = entry.at_ms if start is None else start
        event = entry.event
        said = ", ".join(
            f"{f.name}={getattr(event, f.name)}"
            for f in fields(event)
            if getattr(event, f.name) not in (None, (), f.default)
        )
        lines.append(f"{entry.at_ms - start:>7} ms  {type(event).__name__:<20} {said}".rstrip())
    return "\n".join(lines)
