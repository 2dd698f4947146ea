"""The files that roots reach: lists, manifests, index files, statistics and data files.

Owns: `Reach`, which reads each file once. Must not know: which roots expire, what goes. Source: format/commit §10, §12; H11.
Invariants: a file that any root names is reached. If a list or manifest is missing while its root still exists, the whole run
ends, because the files that it names would look unused. Memory holds only facts about candidates for deletion.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeVar

from ....backends.store import ObjectNotFound
from ....core.errors import TableCorrupt
from ....core.metadata.data_file import ADD, EntryIdentity, IndexEntry, ManifestEntry
from ....core.metadata.folding import fold, may_hold
from ....core.metadata.manifest import ManifestFile, decode_index_manifest, decode_manifest, decode_manifest_list
from ....core.metadata.schema import TableSchema
from ....core.metadata.snapshot import Snapshot, parse_snapshot
from ....core.paths import DEFAULT_BRANCH
from ....core.places import FileKeys, is_external
from ...history.timeline import Timeline
from ...identities.memory import memory_of
from ...identities.pages import parse_page
from .roots import Root

T = TypeVar("T")

FEW_PARTITIONS = 64
"""If the candidates lie in at most this many partitions, manifests that cannot hold any of these are not read."""


@dataclass(frozen=True)
class Named:
    """The metadata that one root names.

    Attributes:
        lists: keys of its manifest lists, its index manifest and its page of identities.
        leaves: keys of its manifests, index files, statistics and other files of identities.
        state: its manifests, base list then delta list.
        missing: keys of lists that are gone.
    """

    root: Root
    lists: frozenset[str]
    leaves: frozenset[str]
    state: tuple[ManifestFile, ...]
    delta: tuple[ManifestFile, ...]
    changelog: tuple[ManifestFile, ...]
    missing: tuple[str, ...]

    @property
    def keys(self) -> frozenset[str]:
        return self.lists | self.leaves


@dataclass(frozen=True)
class Candidates:
    """Data files that may be deleted, unless a root reaches them; their partitions, None where these are not known."""

    keys: frozenset[str]
    partitions: frozenset[bytes] | None = None


@dataclass(frozen=True, slots=True)
class _Mention:
    kind: int
    identity: EntryIdentity
    keys: tuple[str, ...]


@dataclass
class Reach:
    """Reads and caches what roots reach. `identities` includes files of identities, which only orphan cleaning deletes."""

    timeline: Timeline
    schema: TableSchema
    identities: bool = False
    keys: FileKeys = field(init=False)
    _lists: dict[str, tuple[ManifestFile, ...] | None] = field(default_factory=dict, repr=False)
    _indexes: dict[str, tuple[IndexEntry, ...] | None] = field(default_factory=dict, repr=False)
    _deltas: dict[str, list[ManifestEntry] | None] = field(default_factory=dict, repr=False)
    _pages: dict[str, tuple[str, ...] | None] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self.keys = FileKeys(self.schema)

    # ------------------------------------------------------------------------------------------------------ metadata

    def named_by(self, roots: Sequence[Root]) -> list[Named]:
        """The metadata of roots, including files that may no longer exist."""
        snapshots = [_kept_of(root) for root in roots]
        lists = {name for s in snapshots for name in _lists_of(s)}
        self._read(self._lists, lists, decode_manifest_list)
        indexes = {s.index_manifest for s in snapshots if s.index_manifest is not None}
        self._read(self._indexes, indexes, decode_index_manifest)
        new = sorted({page for page in map(self._page_of, roots) if page is not None} - self._pages.keys())
        self._pages.update(zip(new, self.timeline.parallel(self._leaves_of, new), strict=True))
        return [self._named(root) for root in roots]

    def kept_by(self, roots: Sequence[Root]) -> list[Named]:
        """A root that has disappeared keeps nothing. Raises TableCorrupt if a list is missing while its root exists (H11)."""
        return self.standing([(named, named.missing) for named in self.named_by(roots)])

    def _read(
        self, into: dict[str, tuple[T, ...] | None], names: Iterable[str], decode: Callable[[bytes, str], list[T]]
    ) -> None:
        def read(name: str) -> tuple[T, ...] | None:
            data = self._metadata(name)
            return None if data is None else tuple(decode(data, name))

        new = sorted(set(names) - into.keys())
        into.update(zip(new, self.timeline.parallel(read, new), strict=True))

    def _page_of(self, root: Root) -> str | None:
        return memory_of(root.snapshot).page if self.identities and root.kind != "changelog" else None

    def _leaves_of(self, page: str) -> tuple[str, ...] | None:
        data = self._object(key := self.timeline.paths.identities(page))
        return None if data is None else tuple(parse_page(data, key).leaves.values())

    def _metadata(self, name: str) -> bytes | None:
        return self._object(self.timeline.paths.manifest(name))

    def _object(self, key: str) -> bytes | None:
        try:
            return self.timeline.store.get(key)
        except ObjectNotFound:
            return None

    def _named(self, root: Root) -> Named:
        snapshot, paths = _kept_of(root), self.timeline.paths
        base, delta = (self._lists[n] or () for n in (snapshot.base_manifest_list, snapshot.delta_manifest_list))
        told = snapshot.changelog_manifest_list
        changelog = () if told is None else self._lists[told] or ()
        leaves = {paths.manifest(m.file_name) for m in (*base, *delta, *changelog)}
        if snapshot.index_manifest is not None:
            leaves |= {self.keys.index(entry) for entry in self._indexes[snapshot.index_manifest] or ()}
        if snapshot.statistics is not None:
            leaves.add(paths.statistics(snapshot.statistics, root.key))
        listed = (snapshot.base_manifest_list, snapshot.delta_manifest_list, told, snapshot.index_manifest)
        names = [n for n in listed if n is not None]
        gone = [n for n in names if self._lists.get(n, ()) is None or self._indexes.get(n, ()) is None]
        if root.kind == "changelog":  # its other lists went with its snapshot, once no longer needed
            gone = [n for n in gone if n == told]
        elif root.branch != DEFAULT_BRANCH:  # it may have been made of a tag
            gone = [n for n in gone if n != told]
        lists, missing = list(map(paths.manifest, names)), list(map(paths.manifest, gone))
        if (page := self._page_of(root)) is not None:
            lists.append(paths.identities(page))
            leaves |= {paths.identities(leaf) for leaf in self._pages[page] or ()}
            missing += [lists[-1]] if self._pages[page] is None else []
        return Named(root, frozenset(lists), frozenset(leaves), (*base, *delta), delta, changelog, tuple(missing))

    def standing(self, found: Sequence[tuple[Named, tuple[str, ...]]]) -> list[Named]:
        """The roots that lack nothing; a root that lacks a file must be gone itself, otherwise this raises."""
        for named, missing in found:
            if missing and self._is_there(named.root):
                raise TableCorrupt(
                    f"{missing[0]} is missing, but {named.root.key} needs it: nothing was deleted",
                    next_step=_next_step(named.root),
                )
        return [named for named, missing in found if not missing]

    def _is_there(self, root: Root) -> bool:
        try:
            found = parse_snapshot(self.timeline.store.get(root.key), root.key)
        except ObjectNotFound:
            return False
        return found.identity == root.snapshot.identity

    # ---------------------------------------------------------------------------------------------------- data files

    def live_data(self, named: Iterable[Named]) -> Candidates:
        """The files of states, with the files that belong to them; not those of other tables, or of manifests that are gone."""
        found = [e for n in named for e in fold(self._entries(n.state)).values() if e.kind == ADD]
        return Candidates(
            frozenset(k for e in found for k in self.keys.owned(e)), frozenset(e.partition for e in found)
        )

    def _entries(self, manifests: Sequence[ManifestFile]) -> list[ManifestEntry]:
        names = dict.fromkeys(m.file_name for m in manifests)
        new = [name for name in names if name not in self._deltas]
        self._deltas.update(zip(new, self.timeline.parallel(self.entries_of, new), strict=True))
        return [entry for name in names for entry in self._deltas[name] or ()]

    def entries_of(self, name: str) -> list[ManifestEntry] | None:
        if name in self._deltas:
            return self._deltas[name]
        data = self._metadata(name)
        return None if data is None else decode_manifest(data, name)

    def delta_entries(self, named: Iterable[Named]) -> list[ManifestEntry]:
        """The entries of deltas, in order; manifests that are gone are skipped."""
        return self._entries([m for n in named for m in n.delta])

    def changelog_entries(self, named: Iterable[Named]) -> list[ManifestEntry]:
        return self._entries([m for n in named for m in n.changelog])

    def lacks_delta(self, named: Named) -> bool:
        """Is a manifest of the delta gone? Only after `delta_entries` has looked."""
        return any(self._deltas.get(m.file_name, ()) is None for m in named.delta)

    def lacks(self, named: Named) -> list[str]:
        return [m.file_name for m in named.state if self._deltas.get(m.file_name, ()) is None]

    def usage(self, candidates: Candidates) -> Usage:
        return Usage(self, candidates)


@dataclass
class Usage:
    """Tells which candidates roots need. Each manifest is read once, and only its lines about candidates are kept."""

    reach: Reach
    candidates: Candidates
    _mentions: dict[str, tuple[_Mention, ...] | None] = field(default_factory=dict, repr=False)

    def live(self, kept: Sequence[Named]) -> set[str]:
        """The candidates that are part of these roots' states or changelogs. Raises TableCorrupt as `Reach.kept_by`. A file is
        part of a state unless its last mention there deletes it, so a state that adds a deleted file again keeps it.
        """
        used: set[str] = set()
        for named, state, changelog in self._read(kept):
            alive: dict[EntryIdentity, _Mention] = {mention.identity: mention for mention in state}
            if named.root.kind == "changelog":
                changelog = [*changelog, *state]
            used.update(k for m in alive.values() if m.kind == ADD for k in m.keys)
            used.update(k for m in changelog for k in m.keys)
        return used

    def _read(self, kept: Sequence[Named]) -> Iterable[tuple[Named, list[_Mention], list[_Mention]]]:
        wanted = {m.file_name: m for n in kept for m in (*n.state, *n.changelog)}
        new = [m for name, m in wanted.items() if name not in self._mentions]
        found = zip(new, self.reach.timeline.parallel(self._of, new), strict=True)
        self._mentions.update({manifest.file_name: mentions for manifest, mentions in found})
        standing = self.reach.standing([(n, self._missing(n)) for n in kept])
        return [(n, self._gathered(n.state), self._gathered(n.changelog)) for n in standing]

    def _gathered(self, manifests: Iterable[ManifestFile]) -> list[_Mention]:
        return [mention for m in manifests for mention in self._mentions[m.file_name] or ()]

    def _missing(self, named: Named) -> tuple[str, ...]:
        paths = self.reach.timeline.paths
        gone = [m.file_name for m in (*named.state, *named.changelog) if self._mentions[m.file_name] is None]
        gone += self.reach.lacks(named)
        return () if named.root.kind == "changelog" else tuple(map(paths.manifest, gone))

    def _of(self, manifest: ManifestFile) -> tuple[_Mention, ...] | None:
        if not self._may_mention(manifest):
            return ()
        reach = self.reach
        entries = reach.entries_of(manifest.file_name)
        if entries is None:
            return None
        found = []
        for entry in entries:
            if entry.file.external_path is not None and not self._elsewhere:  # outside the table: no candidate
                continue
            keys = tuple(k for k in reach.keys.data(entry) if k in self.candidates.keys)
            if keys:
                found.append(_Mention(entry.kind, entry.identity, keys))
        return tuple(found)

    @cached_property
    def _elsewhere(self) -> bool:
        return any(map(is_external, self.candidates.keys))

    def _may_mention(self, manifest: ManifestFile) -> bool:
        partitions = self.candidates.partitions
        if partitions is None or len(partitions) > FEW_PARTITIONS:
            return bool(self.candidates.keys)
        return may_hold(manifest, partitions, self.reach.schema.partition_fields)


def _kept_of(root: Root) -> Snapshot:
    """What a root keeps of its snapshot. A tag keeps no changelog: as in Apache Paimon, that goes with the snapshot itself."""
    return replace(root.snapshot, changelog_manifest_list=None) if root.kind == "tag" else root.snapshot


def _lists_of(snapshot: Snapshot) -> list[str]:
    names = (snapshot.base_manifest_list, snapshot.delta_manifest_list, snapshot.changelog_manifest_list)
    return [name for name in names if name is not None]


def _next_step(root: Root) -> str:
    again = "run an interrupted expiry again with the same arguments; otherwise"
    if root.branch == DEFAULT_BRANCH:
        return f"{again} see `lakelatch verify`"
    return (
        f"{again}, if another engine's expiry took it, expire the old snapshots of branch '{root.branch}', or delete it"
        if root.kind == "snapshot"
        else f"{again} delete this {root.kind} of branch '{root.branch}', which nobody can read"
    )
