"""Makes, replaces and renames tags.

Owns: `find_tag`, `list_tags`, `create_tag`, `replace_tag`, `rename_tag`, and the second look after each. Must not know: which
files a tag keeps, how the snapshot was chosen. Source: format/snapshot §5; H2, H10; decision 54.
Invariants: a new name is made by one atomic create. After the tag's file is written, what it was copied from must still be there;
otherwise an expiry, or a deletion of the other tag, may have overlooked the new one, and it is taken away again.
"""

from __future__ import annotations

from ...backends.requests.refusals import raise_undone
from ...backends.store import ObjectNotFound
from ...core.errors import InvalidArgument, LakelatchError
from ...core.metadata.schema import TableSchema
from ...core.metadata.snapshot import Snapshot, parse_snapshot
from ...core.metadata.tag import Tag, parse_tag
from ..history.announced import expires_below
from ..history.timeline import Timeline
from ..schema_commit import create_schema
from ..surroundings import MACHINE, Surroundings
from .deletion import free, plan_untagging, record, refuse_changed


def find_tag(timeline: Timeline, name: str) -> Tag | None:
    """Raises TableCorrupt if its file cannot be read."""
    key = timeline.paths.tag(name)
    try:
        return parse_tag(timeline.store.get(key), name, key)
    except ObjectNotFound:
        return None


def list_tags(timeline: Timeline) -> list[Tag]:
    """The tags of the timeline's branch, by snapshot and name."""
    found = timeline.parallel(lambda name: find_tag(timeline, name), timeline.tag_files())
    return sorted((tag for tag in found if tag is not None), key=lambda tag: (tag.snapshot.id, tag.name))


def create_tag(timeline: Timeline, tag: Tag, around: Surroundings = MACHINE) -> Tag:
    """Create a tag, and return the one in the store, which stays if it says the same. Raises as `Table.create_tag`."""
    key, source = timeline.paths.tag(tag.name), timeline.file_of(tag.snapshot)
    if not create_schema(timeline.store, key, tag.to_json(), around, called="tag"):
        return _same(timeline, tag)
    try:
        refuse_vanished(timeline, tag.snapshot, source)
    except LakelatchError as error:
        raise_undone(error, lambda: timeline.store.delete_many([key]))
    return tag


def _same(timeline: Timeline, tag: Tag) -> Tag:
    there = find_tag(timeline, tag.name)
    if there is not None and _says(there) == _says(tag):
        return there
    what = f"snapshot {there.snapshot.id}" if there is not None else "a snapshot, until a moment ago"
    raise InvalidArgument(
        f"there is a tag {tag.name!r} already, of {what}", next_step="choose another name, or replace it: replace=True"
    )


def _says(tag: Tag) -> tuple[str, int | None]:
    return tag.snapshot.identity, tag.retained_ms


def refuse_vanished(timeline: Timeline, snapshot: Snapshot, source: str) -> None:
    """After a new root was written, look again for the file that it was copied from. Raises InvalidArgument if that goes.

    An expiry that looked for tags earlier has raised EARLIEST above the snapshot by then (decision 10); whoever deletes the
    other tag has deleted its file before the files that it keeps (decision 54).
    """

    def still() -> bool:
        try:
            return parse_snapshot(timeline.store.get(source), source).identity == snapshot.identity
        except ObjectNotFound:
            return False

    there, earliest = timeline.both(still, lambda: expires_below(timeline))
    expiring = source == timeline.paths.snapshot(snapshot.id) and earliest > snapshot.id
    if expiring or not there:
        raise InvalidArgument(f"{source} has expired, or is about to", next_step="choose a later snapshot, or a tag")


def replace_tag(timeline: Timeline, schema: TableSchema, old: Tag, tag: Tag) -> Tag:
    """Put a tag in the place of another one, and delete the files that only the old one needs.

    Raises:
        InvalidArgument: the snapshot has expired; the old tag is back.
        CommitConflict: the tag was replaced by another writer meanwhile.
        StoreUnavailable: the store failed midway: run it again.
    """
    key, source = timeline.paths.tag(tag.name), timeline.file_of(tag.snapshot)
    if old.snapshot.identity == tag.snapshot.identity:  # only its retention changes
        timeline.store.put(key, tag.to_json())
        return tag
    plan = plan_untagging(timeline, schema, [tag.name])
    refuse_changed(timeline, plan)
    record(timeline, plan)
    timeline.store.put(key, tag.to_json())
    try:
        refuse_vanished(timeline, tag.snapshot, source)
    except LakelatchError:
        for before in plan.files:
            timeline.store.put(*before)
        raise
    free(timeline, plan)
    return tag


def rename_tag(timeline: Timeline, name: str, new_name: str, around: Surroundings = MACHINE) -> Tag:
    """Give a tag another name. If it is cut off, both exist; run it again. Raises as `Table.rename_tag`, and OutcomeUnknown."""
    old_key, new_key = timeline.paths.tag(name), timeline.paths.tag(new_name)
    try:
        data = timeline.store.get(old_key)
    except ObjectNotFound:
        raise InvalidArgument(f"there is no tag {name!r}", next_step="tags() lists them") from None
    tag = parse_tag(data, new_name, old_key)
    if name == new_name:
        return tag
    if not create_schema(timeline.store, new_key, data, around, called="tag"):
        there = find_tag(timeline, new_name)
        raise InvalidArgument(
            f"there is a tag {new_name!r} already" + (f", of snapshot {there.snapshot.id}" if there else ""),
            next_step="choose another name",
        )
    try:
        refuse_vanished(timeline, tag.snapshot, old_key)
    except LakelatchError as error:
        raise_undone(error, lambda: timeline.store.delete_many([new_key]))
    timeline.store.delete_many([old_key])
    return tag
