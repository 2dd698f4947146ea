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

from ....backends.store import ObjectInfo, ObjectNotFound
from ....core.json_text import parse_json
from ....core.metadata.data_file import ADD
from ....core.metadata.snapshot import Snapshot
from ...history.timeline import Timeline, base_of
from .reachable import Named, Reach
from .roots import Root, read_roots

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
        oldest_ms: the earliest creation time of the data files that it adds, which files that come back keep; None without any.
        names: index files, index manifest and statistics that it names and the snapshot before it does not.
    """

    id: int
    oldest_ms: int | None
    names: frozenset[str]

    def may_bring_back(self, newest_ms: int | None, names: Iterable[str]) -> bool:
        """`newest_ms`: the latest creation time of the data files that are asked for; `names`: those of metadata."""
        old = self.oldest_ms is not None and newest_ms is not None and self.oldest_ms <= newest_ms
        return old or not self.names.isdisjoint(names)


@dataclass(frozen=True)
class Overwrites:
    """The overwrites above a snapshot, up to another.

    Attributes:
        last: id and identity of the last snapshot that was looked at; of the one at `after` if there is none above it.
        linear: no snapshot says that it was built on another one than the one before it.
    """

    after: int
    last: tuple[int, str]
    found: tuple[Overwrite, ...] = ()
    read: int = 0
    linear: bool = True

    def to_json(self) -> bytes:
        known = [[o.id, o.oldest_ms, sorted(o.names)] for o in self.found]
        number, identity = self.last
        said = {"version": _VERSION, "after": self.after, "snapshot": number, "identity": identity, "overwrites": known}
        return json.dumps(said).encode()


def is_linear(snapshots: Iterable[Snapshot], known: Iterable[tuple[int, str]] = ()) -> bool:
    """Was each built on the one before, or on the `known` ids and identities? Another may have been renamed over it since."""
    found = list(snapshots)
    identities = {**dict(known), **{s.id: s.identity for s in found}}
    bases = (base_of(s) for s in found)
    return all(b is None or identities.get(b.id, b.identity) == b.identity for b in bases)


def find_overwrites(reach: Reach, roots: Mapping[int, ObjectInfo], end: Snapshot) -> Overwrites:
    """The overwrites above `end`; `roots` are the snapshots, or their changelogs, by id, ascending."""
    timeline, below = reach.timeline, (end.id, end.identity)
    todo = {number: info for number, info in roots.items() if number > end.id}
    known = _remembered(timeline, end.id, todo) or Overwrites(end.id, below)
    new = [info for number, info in todo.items() if number > known.last[0]]
    read = {root.snapshot.id: root for root in read_roots(timeline, new)}
    found = _facts(reach, [root for root in read.values() if root.snapshot.commit_kind == "OVERWRITE"], read, roots)
    last = max([known.last, *((root.snapshot.id, root.snapshot.identity) for root in read.values())])
    old = (one for one in known.found if one.id > end.id)
    linear = is_linear((root.snapshot for root in read.values()), (below, known.last))
    return Overwrites(end.id, last, (*old, *found), len(new), linear)


def remember(timeline: Timeline, overwrites: Overwrites) -> None:
    """Write down what was found, where reading it again would take long."""
    if overwrites.linear and overwrites.read >= REMEMBERED_FROM:
        timeline.store.put(timeline.paths.root + KEY, overwrites.to_json())


def _remembered(timeline: Timeline, after: int, roots: Mapping[int, ObjectInfo]) -> Overwrites | None:
    """What an earlier run wrote down, if it says all about the snapshots above `after` up to one that is still the same."""
    if len(roots) < REMEMBERED_FROM:
        return None
    try:
        raw = parse_json(timeline.store.get(timeline.paths.root + KEY))
        found = tuple(_overwrite(item) for item in raw["overwrites"])
        known = Overwrites(int(raw["after"]), (int(raw["snapshot"]), str(raw["identity"])), found)
    except (ObjectNotFound, ValueError, KeyError, TypeError):
        return None
    if raw.get("version") != _VERSION or known.after > after or known.last[0] not in roots:
        return None
    top = read_roots(timeline, [roots[known.last[0]]])
    return known if [root.snapshot.identity for root in top] == [known.last[1]] else None


def _overwrite(item: Any) -> Overwrite:
    number, oldest_ms, names = item
    if oldest_ms is not None and not isinstance(oldest_ms, int):
        raise TypeError(f"{oldest_ms!r} is no time")
    return Overwrite(int(number), oldest_ms, frozenset(map(str, names)))


def _facts(
    reach: Reach, overwriting: Sequence[Root], near: Mapping[int, Root], roots: Mapping[int, ObjectInfo]
) -> list[Overwrite]:
    """What they may have brought back, by their deltas and by the snapshots before them; `near` were read already."""
    before = [root.snapshot.id - 1 for root in overwriting]
    lacking = read_roots(reach.timeline, [roots[number] for number in before if number in roots and number not in near])
    read = {**near, **{root.snapshot.id: root for root in lacking}}
    earlier = reach.named_by([read[number] for number in before if number in read])
    old = {named.root.snapshot.id: _metadata_of(named) for named in earlier}
    facts = []
    for this in reach.named_by(overwriting):
        number = this.root.snapshot.id
        times = [e.file.creation_time for e in reach.delta_entries([this]) if e.kind == ADD]
        oldest_ms = min((_EVER if t is None else t for t in times), default=None)
        if this.missing or reach.lacks_delta(this):  # it cannot be told what it adds
            oldest_ms = _EVER
        facts.append(Overwrite(number, oldest_ms, _metadata_of(this) - old.get(number - 1, frozenset())))
    return facts


def _metadata_of(named: Named) -> frozenset[str]:
    """The names under which expiry may find metadata again: index files, index manifest and statistics."""
    snapshot, manifests = named.root.snapshot, {m.file_name for m in (*named.state, *named.changelog)}
    names = {key.rpartition("/")[2] for key in named.leaves} - manifests
    return frozenset(names | ({snapshot.index_manifest} if snapshot.index_manifest is not None else set()))
