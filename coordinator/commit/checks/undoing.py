"""Whether a commit can be undone on a base, or later commits build on it.

Owns: `builds_on`. Must not know: how its reverse is found or committed. Source: format/manifests §7; H12, H13; decisions 62, 85.
Invariant: what counts is what later commits have left: a change that was itself undone is no conflict. Where files come back,
later commits count by what they meant: whatever replaced files of a partition meant all that it had.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from ....core.metadata.change import Landed, Owner, owner_of, vector_places
from ....core.metadata.data_file import ADD, EntryIdentity, IndexEntry, ManifestEntry
from ....core.metadata.snapshot import Snapshot
from ..request import Undoing
from .changes_since import ChangesSince, was_moved
from .conflicts import Conflict
from .row_ids import RowRanges


def builds_on(request: Undoing, since: ChangesSince, base: Snapshot | None) -> Conflict | Undoing:
    """The conflict with the newest commit that builds on the one that is undone. If there is none, the undo on this base. A file
    that went and came back has another identity since (`returning`), and that is the one which goes.
    """
    commit = request.read_snapshot
    changes = since.since(commit, base)
    if isinstance(changes, Conflict) or commit is None or base is None:
        return changes if isinstance(changes, Conflict) else request
    left = _Left(changes)
    gone = {e.origin: e for e in request.entries if e.kind != ADD}
    back = {e.origin for e in request.entries if e.kind == ADD}
    rows = RowRanges(e.file for e in gone.values())
    for what, found in (
        ("deleted or rewrote files that it added", [e for e in left.deleted if e.origin in gone]),
        ("brought back files that it deleted", [e for e in left.added if e.origin in back]),
        ("updated rows that it added", [e for e in left.new if rows.meet(e.file)]),
        ("added files where files come back", [e for e in left.new if (e.partition, e.bucket) in request.closed]),
    ):
        if found:
            return _conflict(_newest(changes, _mentions(found)), [e.file.file_name for e in found], what)
    owners = request.marked | {owner_of(e) for e in gone.values()}
    marked = _marked(since, commit, base, owners)
    if not marked:
        paths = {e.partition: since.keys.partition_path(e.partition) for e in request.entries if e.kind == ADD}
        replaced = _replaced_since(changes, paths)
        if replaced is not None:
            return replaced
        now = {e.origin: e.deletion() for e in left.added}
        entries = tuple(now.get(e.origin, e) if e.kind != ADD else e for e in request.entries)
        return replace(request, entries=entries)
    by = _newest(changes, lambda c: not marked.isdisjoint(c.marked))
    return _conflict(by, sorted(owner[2] for owner in marked), "deleted rows of files that it changed")


class _Left:
    """What later commits have left: files `added` or `deleted` in the end, and `new` ones that were not there before."""

    def __init__(self, changes: Sequence[Landed]) -> None:
        first: dict[EntryIdentity, ManifestEntry] = {}
        last: dict[EntryIdentity, ManifestEntry] = {}
        for change in changes:
            for entry in change.change.entries:
                first.setdefault(entry.origin, entry)
                last[entry.origin] = entry
        self.added = [e for e in last.values() if e.kind == ADD]
        self.deleted = [e for e in last.values() if e.kind != ADD]
        self.new = [e for e in self.added if first[e.origin].kind == ADD]


def _replaced_since(changes: Sequence[Landed], came_back: Mapping[bytes, str]) -> Conflict | None:
    """The newest commit that replaced partitions to which files come back (`came_back`, with paths), unless it was itself
    undone. Had the commit never been, it would have found those files. A compaction and an append ask for no rows, and an undo
    only for those of its commit.
    """
    undone = set[int]()
    for change in reversed(changes) if came_back else ():
        if change.snapshot_id in undone:
            continue
        if change.undoes is not None:
            undone.add(change.undoes)
        elif change.kind == "OVERWRITE" and _names_one_of(change, came_back.values()):
            return _conflict(change, [], "replaced a partition to which files come back")
        else:
            for group in change.groups(came_back.__contains__):
                found = (*group.deleted, *(group.added if change.kind == "OVERWRITE" else ()))
                if found and not group.is_compaction:
                    names = [e.file.file_name for e in found]
                    return _conflict(change, names, "replaced files of a partition to which files come back")
    return None


def _names_one_of(change: Landed, paths: Iterable[str]) -> bool:
    """Does an overwrite name one of the partitions? One that names none and changed nothing may have meant any."""
    if change.replaces is None:
        return not (change.change.entries or change.change.index_entries)
    parts = [set(path.split("/")) for path in paths]
    return any({p for p in spec.split("/") if p} <= there for spec in change.replaces for there in parts)


def _marked(since: ChangesSince, commit: Snapshot, base: Snapshot, owners: frozenset[Owner]) -> frozenset[Owner]:
    if not owners or commit.index_manifest == base.index_manifest:
        return frozenset()
    timeline = since.timeline
    after, now = (vector_places(_entries(timeline.index_entries(s))) for s in (commit, base))
    return frozenset(
        owner
        for owner in owners
        if after.get(owner) != now.get(owner)
        and not was_moved(timeline.store, since.keys, after.get(owner), now.get(owner))
    )


def _entries(found: Sequence[IndexEntry]) -> list[IndexEntry]:
    return [entry for entry in found if entry.kind == ADD]


def _mentions(entries: Sequence[ManifestEntry]) -> Callable[[Landed], bool]:
    origins = {e.origin for e in entries}
    return lambda change: any(e.origin in origins for e in change.change.entries)


def _newest(changes: Sequence[Landed], is_by: Callable[[Landed], bool]) -> Landed:
    """The newest of the changes that did something; the newest of all where none can be told."""
    return next((change for change in reversed(changes) if is_by(change)), changes[-1])


def _conflict(change: Landed, names: Sequence[str], what: str) -> Conflict:
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return Conflict("depended_on", f"{change.label} {what}" + (f": {shown}" if names else ""), tuple(names))
