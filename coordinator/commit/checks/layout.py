"""The layout of a table's files is decided once: by the commit of its first files, or by an earlier change of options.

Owns: the checks of a commit against the layout, `follow_first_files`, `follow_landed`. Must not know: how a commit is made, what
an option does. Source: format/schema §4, decision 18.

Two names are involved: that of the next schema and that of the next snapshot. A change of the layout first takes the name of
the next snapshot with an empty snapshot, then creates its schema, and takes a snapshot name once more before it is reported.
First files that follow such a snapshot take the name of the next schema before they are reported.

Invariants: the schema that a snapshot names has the layout of the snapshot's files. Rows that were reported as committed are
found by every reader that uses the newest schema.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from ....core.errors import LakelatchError, RetriesExhausted
from ....core.metadata.schema import TableSchema
from ....core.metadata.schemas.layout import differences, held_files, with_layout
from ....core.metadata.snapshot import Snapshot
from ...history.base import Base
from ...history.timeline import Timeline, base_of
from ...protocol.snapshot_ref import SnapshotRef
from ...schema_commit import create_schema
from ...surroundings import Surroundings
from ..request import CommitRequest
from .conflicts import Conflict
from .restored import hold_restored

_RACES = 20


def has_first_files(snapshot: Snapshot) -> bool:
    """Whether the files of this snapshot may be the table's first: no earlier files hold rows."""
    return snapshot.total_record_count == snapshot.delta_record_count != 0


def layout_conflict(
    request: CommitRequest, schema: TableSchema, base: Base, timeline: Timeline, around: Surroundings
) -> Conflict | None:
    """Check whether the files of a commit, written with `schema`, fit the table as of its base. If the newest schema does not
    fit the table's own files, that schema is corrected as well.
    """
    snapshot, held = base.snapshot, held_files(base.snapshot)
    if request.settles_layout:
        why = "the table's first files were committed meanwhile"
        return Conflict("first_files_came_first", why) if held else None
    decided = base.schema_id if snapshot is None else snapshot.schema_id
    if decided == schema.id or (not held and schema.id > decided):
        return None
    found = written_under_another_layout(schema, timeline.schema(decided), held_files=held)
    if found is not None and snapshot is not None and schema.id > decided:
        with suppress(LakelatchError):  # the writer of the files may have died before it could
            follow_first_files(timeline, snapshot, around)
    return found


def schema_named(schema: TableSchema, base: Base, timeline: Timeline) -> int:
    """The schema that a snapshot names: the newest one seen, unless its layout differs from that of the files."""
    if base.schema_id == schema.id or not differences(schema, timeline.schema(base.schema_id), rescaled=True):
        return base.schema_id
    return max(schema.id, base.snapshot.schema_id if base.snapshot is not None else 0)


def written_under_another_layout(
    written_with: TableSchema, decided: TableSchema, *, held_files: bool
) -> Conflict | None:
    found = differences(written_with, decided, rescaled=held_files)
    if not found:
        return None
    options = ", ".join(f"'{key}'" for key in found)
    return Conflict(
        "another_schema",
        f"its files were written with schema {written_with.id}, and the table's are laid out by schema {decided.id},"
        f" which differs in {options}: open the table again and write the rows again",
    )


def follow_first_files(timeline: Timeline, snapshot: Snapshot, around: Surroundings) -> None:
    """Give the newest schema the layout of the table's first files, if a change of options came in between. Where such a change
    may still arrive, from a writer that looked before the files existed, this takes the name of the next schema with one that
    changes nothing. Any change reported from then on has seen the files.

    Raises LakelatchError if the store does not answer, so that it is not known whether a schema is needed.
    """
    changing = _was_changing(timeline, snapshot)
    for _ in range(_RACES):
        newest_id = timeline.newest_schema_id(snapshot.schema_id)
        if newest_id == snapshot.schema_id and not changing:
            return
        newest, written_with = timeline.schema(newest_id), timeline.schema(snapshot.schema_id)
        # Another number of fixed buckets is allowed once there are files: such a change may have been reported since.
        differs = differences(written_with, newest, rescaled=True)
        if not differs and not changing:
            return
        made = numbered(with_layout(newest, written_with) if differs else newest, newest.id + 1, around)
        if create_schema(timeline.store, timeline.paths.schema(made.id), made.to_json(), around):
            return
    raise RetriesExhausted(f"lost {_RACES} races for the next schema of {timeline.store.url}")


def follow_landed(timeline: Timeline, ref: SnapshotRef, around: Surroundings, landed: Snapshot | None = None) -> None:
    """Before a landing is reported: `follow_first_files` for what may be first files, and a tag where files were brought back."""
    if landed is None or landed.identity != ref.identity:
        landed = timeline.find(ref.id)
    if landed is not None:
        follow_snapshot(timeline, landed, around)


def follow_snapshot(timeline: Timeline, landed: Snapshot, around: Surroundings) -> None:
    hold_restored(timeline, landed)
    if has_first_files(landed):
        follow_first_files(timeline, landed, around)


def _was_changing(timeline: Timeline, snapshot: Snapshot) -> bool:
    named = base_of(snapshot)
    base = timeline.find(named.id) if named is not None else None
    return base is not None and not held_files(base)


def numbered(schema: TableSchema, schema_id: int, around: Surroundings) -> TableSchema:
    return replace(schema, id=schema_id, time_ms=around.wall_ms, version=max(schema.version, TableSchema.version))
