"""The files that an expiry may delete, and what keeps some of them.

Owns: `Gone` (data files that a range of snapshots deleted), `metadata_of`, and `Keeper`, which asks the roots that stay. Must not
know: which snapshots expire, in which order files are deleted. Source: format/commit §10; decision 64; H7, H11.
Invariants: the cost goes with the snapshots that expire, and with the tags and other branches, not with the snapshots that stay:
of those the oldest is asked, and the overwrites, because nothing else brings a file back. If that cannot be relied on, because
ids have a gap, metadata is missing, or a snapshot was built on another one, every root is asked for all that it holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ....backends.store import ObjectInfo
from ....core.metadata.data_file import ADD, DELETE, SOURCE_COMPACT, EntryIdentity, ManifestEntry
from ..reach.overwrites import Overwrite, Overwrites, find_overwrites, is_linear
from ..reach.reachable import Candidates, Named, Reach, Usage
from ..reach.roots import Root, list_roots, read_roots

DAY_MS = 24 * 3_600_000
"""Creation times are local times of the writers, and clocks differ: so much older a tag may be and still hold a file."""

Keeps = Literal["nothing", "changelog", "delta"]
"""What outlives an expired snapshot: nothing, its changelog files, or, without such, the files that it added."""


@dataclass
class Gone:
    """Data files by their keys, each with the entry that deleted it. `complete`: every delta was there, and each built on the
    one before; otherwise a file may be live all the same.
    """

    entries: dict[str, ManifestEntry] = field(default_factory=dict)
    complete: bool = True

    def add(self, key: str, entry: ManifestEntry) -> None:
        self.entries[key] = entry

    @property
    def candidates(self) -> Candidates:
        return Candidates(frozenset(self.entries), frozenset(e.partition for e in self.entries.values()))

    @property
    def newest_ms(self) -> int | None:
        times = [e.file.creation_time for e in self.entries.values()]
        return max((2**62 if t is None else t for t in times), default=None)

    @property
    def oldest_ms(self) -> int:
        times = [e.file.creation_time for e in self.entries.values()]
        return min((-(2**62) if t is None else t for t in times), default=2**62)


def gone_after(reach: Reach, named: Sequence[Named], *, only_compacted: bool = False) -> Gone:
    """The files that some consecutive snapshots deleted, and that are not part of the last one's state. `only_compacted` leaves
    out the files of new rows, which tell what changed.
    """
    gone = Gone()
    for one in named:
        last: dict[EntryIdentity, ManifestEntry] = {e.identity: e for e in reach.delta_entries([one])}
        alive = {k for e in last.values() if e.kind == ADD for k in reach.keys.data(e)}
        for entry in last.values():
            if entry.kind == DELETE and not (only_compacted and entry.file.file_source != SOURCE_COMPACT):
                for key in reach.keys.owned(entry):
                    gone.add(key, entry)
        for key in alive & gone.entries.keys():  # they came back, or only moved to another level
            del gone.entries[key]
        gone.complete = gone.complete and not one.missing and not reach.lacks_delta(one)
    gone.complete = gone.complete and is_linear(one.root.snapshot for one in named)
    return gone


def add_changelog(reach: Reach, named: Sequence[Named], gone: Gone) -> None:
    """Add the changelog files of snapshots, which belong to these alone."""
    for entry in reach.changelog_entries(named):
        if entry.kind == ADD:
            for key in reach.keys.owned(entry):
                gone.add(key, entry)


def metadata_of(reach: Reach, named: Named, keeps: Keeps) -> tuple[list[str], list[str]]:
    snapshot, key = named.root.snapshot, reach.timeline.paths.manifest
    kept: set[str] = set()
    if keeps != "nothing" and snapshot.changelog_manifest_list is not None:
        kept |= {key(snapshot.changelog_manifest_list), *(key(m.file_name) for m in named.changelog)}
    if keeps == "delta":
        kept |= {key(name) for name in (snapshot.base_manifest_list, snapshot.delta_manifest_list)}
        kept |= {key(m.file_name) for m in named.state}
    return sorted(named.lists - kept), sorted(named.leaves - kept)


@dataclass
class Keeper:
    """Asks the roots that stay.

    Args:
        asks_changelogs: whether this branch's changelogs must be asked too; None: only if the ids have a gap.

    Attributes:
        seen: all roots, those that go included. One that was listed and then gone would come again as a new one.
        overwrites: what was found out about the snapshots that stay, if it was asked for.
    """

    reach: Reach
    gone: Gone
    asks_changelogs: Callable[[], bool] | None = None
    usage: Usage = field(init=False)
    seen: frozenset[ObjectInfo] = frozenset()
    overwrites: Overwrites | None = None

    def __post_init__(self) -> None:
        self.usage = self.reach.usage(self.gone.candidates)

    def kept(
        self, doomed: frozenset[ObjectInfo], ends: Sequence[Root], metadata: Iterable[str], latest: int
    ) -> set[str]:
        """The keys, of data files and of metadata, that roots need. Raises TableCorrupt if one that stays lacks metadata (H11).

        Args:
            doomed: the roots that go.
            ends: the oldest root that stays, first; then others of this branch to be asked about metadata.
            metadata: the keys of the metadata that may go.
        """
        reach, timeline = self.reach, self.reach.timeline
        listed = list_roots(timeline)
        staying = [info for info in listed if info not in doomed]
        own = [info for info in staying if timeline.snapshot_id_of(info.key) is not None]
        changelogs = [info for info in staying if info.key.startswith(timeline.paths.changelog_dir)]
        chain = dict(sorted({number_of(info): info for info in (*changelogs, *own)}.items()))
        after = ends[0].snapshot.id
        ids = [number for number in chain if number >= after]
        plain = self.gone.complete and ids == list(range(after, max([latest, *ids]) + 1))
        overwrites: tuple[Overwrite, ...] = ()
        if plain:
            self.overwrites = find_overwrites(reach, chain, ends[0].snapshot)
            plain, overwrites = self.overwrites.linear, self.overwrites.found
        left_out = set(own) if plain else set()
        if changelogs and not (self.asks_changelogs() if self.asks_changelogs is not None else not plain):
            left_out.update(changelogs)
        asked = reach.kept_by(read_roots(timeline, [info for info in staying if info not in left_out]))
        self.seen = frozenset([*doomed, *left_out, *(named.root.info for named in asked)])
        used = {key for named in (*asked, *reach.kept_by(ends)) for key in named.keys}
        used |= self.usage.live([named for named in asked if self._may_hold(named)])
        return used | self._brought_back(overwrites, chain, metadata) if plain else used

    def _may_hold(self, named: Named) -> bool:
        """May a root hold one of the files? A tag that is older than all of them does not."""
        root = named.root
        return root.kind != "tag" or root.snapshot.time_ms >= self.gone.oldest_ms - DAY_MS

    def _brought_back(
        self, overwrites: Iterable[Overwrite], chain: Mapping[int, ObjectInfo], metadata: Iterable[str]
    ) -> set[str]:
        reach, timeline = self.reach, self.reach.timeline
        names, newest_ms = {key.rpartition("/")[2] for key in metadata}, self.gone.newest_ms
        asked = [chain[o.id] for o in overwrites if o.id in chain and o.may_bring_back(newest_ms, names)]
        named = reach.kept_by(read_roots(timeline, asked))
        added = (e for e in reach.delta_entries(named) if e.kind == ADD)
        return {key for n in named for key in n.keys} | {key for e in added for key in reach.keys.data(e)}


def number_of(info: ObjectInfo) -> int:
    return int(info.key.rpartition("-")[2])
