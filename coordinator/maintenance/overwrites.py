"""Which snapshots that stay may have brought back a file that an older snapshot deleted.

Owns: `Overwrites`, found by reading every snapshot once, and the file that remembers them for the next expiry. Must not know:
which files are to be deleted, or why. Source: format/commit §10, §11; decision 64.
Invariants: only overwrites bring a file back (rollbacks are overwrites); every other commit adds files with new names. What is
remembered is used only if the snapshot up to which it was found still has the same identity; otherwise all snapshots are read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...backends.store import ObjectInfo, ObjectNotFound
from ...core.json_text import parse_json
from ...core.metadata.data_file import ADD
from ...core.metadata.snapshot import Snapshot, parse_snapshot
from ..history.timeline import Timeline, base_of
from .reachable import Named, Reach
from .roots import Root, RootKind

KEY = "lakelatch/overwrites"
"""The remembered overwrites of a branch, below the branch's root. Other engines do not look into `lakelatch/`."""
REMEMBERED_FROM = 64
"""So many snapshots are read before it is worth while to remember what was found."""
_VERSION = 1
_EVER = -(2**62)


@dataclass(frozen=True)
class Overwrite:
    """A snapshot that may have brought files back.

    Attributes:
        id: its id.
        oldest_ms: the earliest creation time of the data files that it adds; None if it adds none. A file that comes back has
            the creation time that it always had.
        names: index files, index manifest and statistics that it names and the snapshot before it does not.
    """

    id: int
    oldest_ms: int | None
    names: frozenset[str]

    def may_bring_back(self, newest_ms: int | None, names: Iterable[str]) -> bool:
        """May it have brought back one of some files?

        Args:
            newest_ms: the latest creation time of data files; None if there are none.
            names: file names of metadata.
        """
        old = self.oldest_ms is not None and newest_ms is not None and self.oldest_ms <= newest_ms
        return old or not self.names.isdisjoint(names)


@dataclass(frozen=True)
class Overwrites:
    """The overwrites above a snapshot, up to another.

    Attributes:
        after: the id above which they were looked for.
        last: id and identity of the last snapshot that was looked at.
        found: ascending.
        read: how many snapshots were read for it.
        linear: no snapshot says that it was built on another one than the one before it.
    """

    after: int
    last: tuple[int, str] | None
    found: tuple[Overwrite, ...]
    read: int = 0
    linear: bool = True

    def to_json(self) -> bytes:
        known = [[o.id, o.oldest_ms, sorted(o.names)] for o in self.found]
        last = {} if self.last is None else {"snapshot": self.last[0], "identity": self.last[1]}
        return json.dumps({"version": _VERSION, "after": self.after, **last, "overwrites": known}).encode()


def is_linear(snapshots: Iterable[Snapshot], known: Mapping[int, str] | None = None) -> bool:
    """Was each snapshot built on the one before it, as far as they say? Another one may have been renamed over it since.

    Args:
        known: the identities of further snapshots, by id.
    """
    found = list(snapshots)
    identities = {**(known or {}), **{s.id: s.identity for s in found}}
    bases = (base_of(s) for s in found)
    return all(b is None or identities.get(b.id, b.identity) == b.identity for b in bases)


def find_overwrites(reach: Reach, roots: Sequence[tuple[int, str]], end: Snapshot) -> Overwrites:
    """The overwrites among some snapshots.

    Args:
        roots: id and key of each snapshot, or of its changelog, ascending.
        end: the snapshot above which they are looked for.
    """
    timeline, after = reach.timeline, end.id
    todo = {number: key for number, key in roots if number > after}
    known = _remembered(timeline, after, todo)
    start = after if known is None or known.last is None else known.last[0]
    new = {number: key for number, key in todo.items() if number > start}
    snapshots = {
        s.id: s for s in timeline.parallel(lambda key: _snapshot(timeline, key), new.values()) if s is not None
    }
    overwriting = [s for s in snapshots.values() if s.commit_kind == "OVERWRITE"]
    found = _facts(reach, overwriting, snapshots, dict(roots)) if overwriting else []
    top = snapshots[max(snapshots)] if snapshots else None
    last = (top.id, top.identity) if top is not None else known.last if known is not None else None
    old = () if known is None else tuple(o for o in known.found if o.id > after)
    below = dict([known.last]) if known is not None and known.last is not None else {}
    linear = is_linear(snapshots.values(), {after: end.identity, **below})
    return Overwrites(after, last, (*old, *sorted(found, key=lambda o: o.id)), len(new), linear)


def remember(timeline: Timeline, overwrites: Overwrites) -> None:
    """Write down what was found, where reading it again would take long."""
    if overwrites.linear and overwrites.read >= REMEMBERED_FROM and overwrites.last is not None:
        timeline.store.put(timeline.paths.root + KEY, overwrites.to_json())


def _remembered(timeline: Timeline, after: int, roots: dict[int, str]) -> Overwrites | None:
    """What an earlier run wrote down, if it says all about the snapshots above `after` up to one that is still the same."""
    if len(roots) < REMEMBERED_FROM:
        return None
    try:
        raw = parse_json(timeline.store.get(timeline.paths.root + KEY))
        found = tuple(_overwrite(item) for item in raw["overwrites"])
        known = Overwrites(int(raw["after"]), (int(raw["snapshot"]), str(raw["identity"])), found)
    except (ObjectNotFound, ValueError, KeyError, TypeError):
        return None
    assert known.last is not None
    if raw.get("version") != _VERSION or known.after > after or known.last[0] not in roots:
        return None
    top = _snapshot(timeline, roots[known.last[0]])
    return known if top is not None and top.identity == known.last[1] else None


def _overwrite(item: Any) -> Overwrite:
    number, oldest_ms, names = item
    if oldest_ms is not None and not isinstance(oldest_ms, int):
        raise TypeError(f"{oldest_ms!r} is no time")
    return Overwrite(int(number), oldest_ms, frozenset(map(str, names)))


def _snapshot(timeline: Timeline, key: str) -> Snapshot | None:
    try:
        return parse_snapshot(timeline.store.get(key), key)
    except ObjectNotFound:
        return None


def _facts(
    reach: Reach, overwriting: Sequence[Snapshot], near: dict[int, Snapshot], keys: dict[int, str]
) -> list[Overwrite]:
    """What the overwrites may have brought back, by their deltas and by the snapshots before them."""
    timeline = reach.timeline
    before = {s.id: near.get(s.id - 1) for s in overwriting}
    lacking = [number for number, snapshot in before.items() if snapshot is None and number - 1 in keys]
    found = timeline.parallel(lambda number: _snapshot(timeline, keys[number - 1]), lacking)
    before.update(zip(lacking, found, strict=True))
    named = {n.root.snapshot.id: n for n in reach.named_by([_as_root(reach, s) for s in overwriting])}
    earlier = [s for s in before.values() if s is not None]
    old = {n.root.snapshot.id: _metadata_of(n) for n in reach.named_by([_as_root(reach, s) for s in earlier])}
    facts = []
    for snapshot in overwriting:
        this = named[snapshot.id]
        times = [e.file.creation_time for e in reach.delta_entries([this]) if e.kind == ADD]
        oldest_ms = min((_EVER if t is None else t for t in times), default=None)
        if this.missing or reach.lacks_delta(this):  # it cannot be told what it adds
            oldest_ms = _EVER
        previous = before[snapshot.id]
        names = _metadata_of(this) - (old[previous.id] if previous is not None else frozenset())
        facts.append(Overwrite(snapshot.id, oldest_ms, names))
    return facts


def _as_root(reach: Reach, snapshot: Snapshot) -> Root:
    key = snapshot.read_from or reach.timeline.paths.snapshot(snapshot.id)
    kind: RootKind = "changelog" if key.startswith(reach.timeline.paths.changelog_dir) else "snapshot"
    return Root(ObjectInfo(key, 0, 0), kind, reach.timeline.paths.branch, snapshot)


def _metadata_of(named: Named) -> frozenset[str]:
    """The names under which expiry may find metadata again: index files, index manifest and statistics."""
    snapshot, manifests = named.root.snapshot, {m.file_name for m in (*named.state, *named.changelog)}
    names = {key.rpartition("/")[2] for key in named.leaves} - manifests
    return frozenset(names | ({snapshot.index_manifest} if snapshot.index_manifest is not None else set()))
