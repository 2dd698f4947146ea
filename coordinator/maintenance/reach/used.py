"""The names of all files that a table uses: those that its roots reach, and those that a journal or an intent holds.

Owns: `UsedFiles`, `read_journals`, `newest_ids`. Must not know: what is deleted. Source: format/commit §10, §12; H10, H11.
Invariants: a file that any root of any branch mentions is used, as added or deleted. If a list or manifest is missing while its
root still exists, the whole run ends, because the files that it names would look unused. Memory holds the metadata of a few
roots at a time, and a fingerprint of each name.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TypeVar

from ....backends.store import ObjectInfo, ObjectNotFound
from ....core.errors import TableCorrupt
from ....core.metadata.manifest import ManifestFile, decode_manifests
from ....core.metadata.schema import TableSchema
from ....core.metadata.snapshot import parse_snapshot
from ....core.paths import DEFAULT_BRANCH, version_of
from ....core.places import FileKeys
from ....core.typed import Array
from ...history.timeline import Timeline
from ...intents.shelf import all_open
from ...journal.lines import OBJECT, Damage, read_lines
from ...journal.object_journal import FOLDER, JOURNAL_VARIABLE, ObjectJournal, file_of
from ...recovery.home import Home
from ...recovery.past import Past, pasts
from .names import NameSet, fingerprints
from .reachable import Named, Reach
from .roots import Root, read_roots

T = TypeVar("T")

ROOTS_AT_ONCE = 64
MANIFESTS_AT_ONCE = 64

ReadManifests = Callable[[Sequence[str]], "list[Array | None]"]
"""Reads manifests by their names; for each the fingerprints of the files that it names, or None where it is gone."""


@dataclass
class UsedFiles:
    """Collects keys, and URLs for files outside the table's folder. Threads read manifests if `read_manifests` is None."""

    timeline: Timeline
    schema: TableSchema
    names: NameSet = field(default_factory=NameSet)
    read_manifests: ReadManifests | None = None
    at_once: int = MANIFESTS_AT_ONCE
    _done: set[str] = field(default_factory=set, repr=False)

    def add_roots(self, infos: Iterable[ObjectInfo]) -> set[ObjectInfo]:
        """Add what listed roots reach. Returns those that were there: one that has gone since counts as new if it comes again.
        Raises TableCorrupt if a root, or a file that it names, cannot be read (H11).
        """
        there: set[ObjectInfo] = set()
        for part in in_groups(infos, ROOTS_AT_ONCE):
            reach = Reach(self.timeline, self.schema, identities=True)
            named = reach.kept_by(read_roots(self.timeline, part))
            gone = self._add(named)
            if gone:
                named = reach.standing([(n, self._missing(n, gone)) for n in named])
            there.update(n.root.info for n in named)
        return there

    def add_journalled(self, commits: Iterable[Past]) -> None:
        """Add the files of commits that may still be finished. What they have not written is not needed."""
        for commit in commits:
            key = f"{FOLDER}{commit.entries[0].commit}"
            snapshots = [parse_snapshot(tried.text.encode(), key) for tried in commit.tried]
            roots = [Root(ObjectInfo(key, 0, 0), "snapshot", commit.entries[0].branch, s) for s in snapshots]
            self._add(Reach(self.timeline, self.schema, identities=True).named_by(roots))

    def add_intents(self, keys: Iterable[str], roots: Iterable[ObjectInfo]) -> None:
        """Adds the files that the next snapshots may carry for others. The intents were listed before these roots, so that what
        was carried in between is found in a root. Raises TableCorrupt if an open one is garbled (H11).
        """
        for key, intent in all_open(self.timeline.store, keys, newest_ids(roots)):
            names = [line.file_name for line in intent.all_manifests]
            self.names.add([key, *map(self.timeline.paths.manifest, names)])
            for found in (self.read_manifests or self._read)(names):
                if found is not None:
                    self.names.add_fingerprints(found)

    def _add(self, named: Sequence[Named]) -> set[str]:
        """Add metadata, and the files that its manifests name. Returns the names of manifests that are gone."""
        for one in named:
            self.names.add(one.keys)
        wanted = {m.file_name for n in named for m in (*n.state, *n.changelog)} - self._done
        gone: set[str] = set()
        for group in in_groups(sorted(wanted), self.at_once):
            for name, found in zip(group, (self.read_manifests or self._read)(group), strict=True):
                if found is None:
                    gone.add(name)
                else:
                    self._done.add(name)
                    self.names.add_fingerprints(found)
        return gone

    def _missing(self, named: Named, gone: set[str]) -> tuple[str, ...]:
        """The manifests that a root lacks. Those of an expired snapshot's state went with it, once no longer needed."""
        needed: Iterable[ManifestFile] = () if named.root.kind == "changelog" else (*named.state, *named.changelog)
        return tuple(self.timeline.paths.manifest(m.file_name) for m in needed if m.file_name in gone)

    def _read(self, names: Sequence[str]) -> list[Array | None]:
        keys = FileKeys(self.schema)
        return self.timeline.parallel(lambda name: named_files(self.timeline, keys, name), names)


def newest_ids(roots: Iterable[ObjectInfo]) -> dict[str, int]:
    """The newest snapshot id of each branch, from a listing of roots.

    >>> newest_ids([ObjectInfo(key, 0, 0) for key in ("snapshot/snapshot-9", "branch/branch-dev/snapshot/snapshot-10")])
    {'main': 9, 'dev': 10}
    """
    found: dict[str, int] = {}
    for info in roots:
        folder, _, name = info.key.rpartition("/")
        number, branch = version_of(name, "snapshot"), folder.removesuffix("snapshot").removeprefix("branch/branch-")
        if number is not None and folder.endswith("snapshot"):
            found[branch.strip("/") or DEFAULT_BRANCH] = max(number, found.get(branch.strip("/") or DEFAULT_BRANCH, 0))
    return found


def named_files(timeline: Timeline, keys: FileKeys, manifest: str) -> Array | None:
    """The fingerprints of the files that a manifest names; None where it is gone."""
    try:
        data = timeline.store.get(timeline.paths.manifest(manifest))
    except ObjectNotFound:
        return None
    return fingerprints(key for part in decode_manifests([(manifest, data)]) for key in keys.named(part))


def read_journals(timeline: Timeline, schema: TableSchema) -> list[Past]:
    """The commits of this table in its journals whose outcome is not known: they may still be sent, with the files they name.
    Raises TableCorrupt if a journal is damaged, so that these files are not known (H11).

    Read are the journal beside the table, and the files that option `commit.journal` and the environment's `LAKELATCH_JOURNAL`
    name, if they are on this machine and, where the table names them, allowed.
    """
    store, setting = timeline.store, file_of(schema.options, timeline.store) or ""
    beside = ObjectJournal(store).lines()
    damage = next((line for line in beside if isinstance(line, Damage)), None)
    found = list(pasts(beside).values())
    for path in {setting, os.environ.get(JOURNAL_VARIABLE, "")} - {"", OBJECT}:
        if Path(path).is_file():
            lines = read_lines(Path(path).read_bytes().split(b"\n"), path)
            found += pasts(lines, Home(store).may_have).values()
    found = [past for past in found if past.outcome is None]
    damage = damage or next((past.damage for past in found if past.damage is not None), None)
    if damage is not None:
        raise TableCorrupt(
            f"{damage}; a commit under way may need files that nothing else names: nothing was deleted",
            next_step="finish the commits with `lakelatch recover`, then remove the damaged journal",
        )
    return found


def in_groups(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Items in groups of this size; the last one may be smaller.

    >>> list(in_groups("abc", 2))
    [['a', 'b'], ['c']]
    """
    rest = iter(items)
    while group := list(islice(rest, size)):
        yield group
