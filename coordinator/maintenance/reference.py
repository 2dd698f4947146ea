"""Clones a table by reference: its newest snapshot with metadata of its own, and data files that stay where they are.

Owns: `plan_reference`, `ReferencePlan`, `apply_reference`, `beside_expiries`, the name of the tag that keeps the files. Must not
know: rows, how a tag is made. Source: decision 72; format/manifests §6; H10, H16.
Invariants: a tag of the table holds the snapshot before anything is written, and is looked at again before the clone becomes a
table. Every data file of the snapshot is named by its whole URL; all else is copied, changelog files included, which no tag
keeps. The location is named by an option of the clone's own, not by `data-file.external-paths`: what that one names belongs to
the table, and Apache Paimon deletes the whole folder with the table. Schema 0 comes last, by one atomic create.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from typing import Any

from ...backends.elsewhere import location_of
from ...backends.files.folders import copy
from ...backends.store import Created, ObjectInfo, ObjectNotFound, Store
from ...core import options as opt
from ...core.errors import CommitConflict, InvalidArgument, StoreUnavailable, TableCorrupt, Unsupported, missing
from ...core.html_text import ShownAsText
from ...core.json_text import parse_json
from ...core.metadata.data_file import ADD, ManifestEntry
from ...core.metadata.manifest import ManifestFile, encode_manifest, encode_manifest_list
from ...core.metadata.schema import TableSchema
from ...core.metadata.snapshot import Snapshot
from ...core.metadata.table_identity import with_identity
from ...core.metadata.tag import Tag
from ...core.options import TableOptions
from ...core.paths import DEFAULT_BRANCH, TablePaths
from ...core.places import FileKeys, is_external, named_locations, referenced_locations
from ..history.announced import expires_below
from ..history.parallel import READ_THREADS
from ..history.timeline import Timeline
from ..surroundings import MACHINE, Surroundings
from .clone import holds, remove_leftovers
from .deletion import Progress
from .drop import REFERENCED
from .reach.reachable import Reach
from .reach.roots import Root

CLONED = "cloned"
"""The clone's own tag of the snapshot that it begins with. Apache Paimon's expiry deletes no data file that a tag holds."""
_FIRST = TablePaths().schema(0)
_STRANGE = re.compile(r"[^A-Za-z0-9_.-]+")


@dataclass(frozen=True)
class ReferencePlan(ShownAsText):
    """What a clone by reference has of its own, and what it needs of the other table.

    Attributes:
        url, target: of the table that it is made from, and of the clone.
        tag: the tag of the other table that keeps the files.
        referenced: the number of data files that stay where they are.
        manifests: those whose entries are written anew.
        copied: the keys of the files that are copied.
    """

    url: str
    target: str
    snapshot: Snapshot = field(repr=False)
    tag: str
    referenced: int
    manifests: tuple[ManifestFile, ...] = field(repr=False)
    copied: tuple[str, ...] = field(repr=False)

    @property
    def snapshots(self) -> int:
        return 1

    def __str__(self) -> str:
        return (
            f"{self.url} to {self.target}: snapshot {self.snapshot.id}; {self.referenced} data files stay where they are,"
            f" {len(self.copied) + len(self.manifests)} other files are written. Tag '{self.tag}' of {self.url} keeps the data"
            " files from its expiry; without that tag, or that table, the clone loses their rows"
        )

    def to_dict(self) -> dict[str, Any]:
        """The plan with stable keys, ready for JSON."""
        return {
            "url": self.url,
            "target": self.target,
            "snapshots": 1,
            "snapshot": self.snapshot.id,
            "referenced": self.referenced,
            "files": len(self.copied) + len(self.manifests),
            "tag": self.tag,
        }


def reference_tag(target: Store, snapshot_id: int) -> str:
    """The name of the tag that keeps the files of a clone. One of an earlier clone at this place, which may have been renamed
    since, has the same name only if it needs the same files.

    >>> from ...backends.local import LocalStore
    >>> reference_tag(LocalStore("/lake/air.db/trial"), 7)
    'referenced-by-trial-6b046a21-7'
    """
    location = location_of(target)
    name = _STRANGE.sub("-", location.rpartition("/")[2])[:60]
    return f"{REFERENCED}{name}-{sha256(location.encode()).hexdigest()[:8]}-{snapshot_id}"


def plan_reference(timeline: Timeline, schema: TableSchema, snapshot: Snapshot, target: Store) -> ReferencePlan:
    """What a clone by reference of a snapshot would write. Changes nothing. Raises Unsupported if the table has files outside of
    its folder, or is such a clone; if rows of another branch belong to it; or if no option can name its folder.
    """
    url = timeline.store.url
    for key, found in ((opt.EXTERNAL_PATHS.key, named_locations), (opt.REFERENCED_PATHS.key, referenced_locations)):
        if locations := found(schema.options):
            raise Unsupported(
                f"{url} has files outside of its folder, in {locations[0]} (option '{key}'), which no tag of it would keep",
                next_step="clone the table that the files belong to, or export() the rows",
            )
    for option in (opt.FALLBACK_BRANCH, opt.PRIMARY_BRANCH):
        if branch := schema.options.get(option):
            raise Unsupported(
                f"rows of {url} are read from branch '{branch}' too (option '{option.key}'), which the clone would lack",
                next_step="clone it without reference=True, or remove the option",
            )
    location = location_of(timeline.store)
    if _as_option(location) != (location,):
        raise Unsupported(
            f"option '{opt.REFERENCED_PATHS.key}' of the clone cannot name {location}: it holds a comma, or ends in a blank",
            next_step="rename the folder, or clone it without reference=True",
        )
    reach = Reach(timeline, schema, identities=True)
    root = Root(ObjectInfo(timeline.file_of(snapshot), 0, 0), "snapshot", DEFAULT_BRANCH, snapshot)
    (named,) = reach.named_by([root])
    if named.missing:
        raise missing(named.missing[0], root.key)
    manifests = {m.file_name: m for m in named.state}
    written = {timeline.paths.manifest(name) for name in (*manifests, *_state_lists(snapshot))}
    changes = [k for e in timeline.entries(named.changelog) if e.kind == ADD for k in reach.keys.data(e)]
    copied = dict.fromkeys((*sorted(named.keys - written), *changes))
    outside = next(filter(is_external, copied), None)
    if outside is not None:
        raise Unsupported(f"{url} has an index file outside of its folder: {outside}", next_step="export() the rows")
    live = sum(m.num_added_files - m.num_deleted_files for m in named.state)
    tag = reference_tag(target, snapshot.id)
    return ReferencePlan(url, target.url, snapshot, tag, live, tuple(manifests.values()), tuple(copied))


def _as_option(location: str) -> tuple[str, ...]:
    return referenced_locations(TableOptions({opt.REFERENCED_PATHS.key: location}))


def _state_lists(snapshot: Snapshot) -> tuple[str, str]:
    return snapshot.base_manifest_list, snapshot.delta_manifest_list


def referring(data: bytes, location: str) -> bytes:
    """The bytes of a schema with the option that names where the files are."""
    raw = parse_json(data)
    options = {**(raw.get("options") or {}), opt.REFERENCED_PATHS.key: location}
    return json.dumps({**raw, "options": options}, indent=2, ensure_ascii=False).encode()


def apply_reference(
    timeline: Timeline,
    schema: TableSchema,
    plan: ReferencePlan,
    target: Store,
    progress: Progress | None = None,
    around: Surroundings = MACHINE,
) -> ReferencePlan:
    """Make the clone. The tag must be there; it is not made here. Raises as `Table.clone`."""
    try:
        _check_held(timeline, plan)
        snapshot, kept = _metadata(timeline, schema, plan, target, progress)
    except TableCorrupt:
        _check_held(timeline, plan)  # its files went with it
        if _expires(timeline, plan.snapshot):  # its changelog, which no tag keeps, goes with it
            raise _expired(timeline, plan.snapshot) from None
        raise
    location = location_of(timeline.store)
    schemas = {n: referring(timeline.store.get(timeline.paths.schema(n)), location) for n in timeline.schema_ids()}
    schemas[0] = with_identity(schemas[0], around.new_uuid())
    roots = {
        timeline.paths.tag(CLONED): Tag(CLONED, snapshot).to_json(),
        timeline.paths.snapshot(snapshot.id): snapshot.to_json(),
        timeline.paths.hint("EARLIEST"): str(snapshot.id).encode(),
        timeline.paths.hint("LATEST"): str(snapshot.id).encode(),
        **{timeline.paths.schema(n): data for n, data in sorted(schemas.items(), reverse=True) if n},
    }
    wanted = kept | roots.keys()
    remove_leftovers(target, wanted)
    for key, data in roots.items():
        target.put(key, data)
    _check_held(timeline, plan)
    made = target.put_if_absent(_FIRST, schemas[0])
    if not isinstance(made, Created) and not holds(target, schemas[0]):
        raise StoreUnavailable(f"it is not known whether the table at {target.url} was made", next_step="run it again")
    return plan


@contextmanager
def beside_expiries(timeline: Timeline, snapshot: Snapshot) -> Iterator[None]:
    """Until a tag holds the snapshot, files of it may go; that is no damage. Raises CommitConflict if what was done failed
    because the snapshot expires: run it again.
    """
    try:
        yield
    except (TableCorrupt, InvalidArgument):
        if _expires(timeline, snapshot):
            raise _expired(timeline, snapshot) from None
        raise


def _expires(timeline: Timeline, snapshot: Snapshot) -> bool:
    """Has an expiry deleted the snapshot, or announced that it will?"""
    found = timeline.find(snapshot.id)
    return found is None or found.identity != snapshot.identity or expires_below(timeline) > snapshot.id


def _expired(timeline: Timeline, snapshot: Snapshot) -> CommitConflict:
    return CommitConflict(
        f"snapshot {snapshot.id} of {timeline.store.url} has expired meanwhile", next_step="run it again"
    )


def _check_held(timeline: Timeline, plan: ReferencePlan) -> None:
    try:
        held = timeline.tag(plan.tag).identity == plan.snapshot.identity
    except ObjectNotFound:
        held = False
    if not held:
        raise CommitConflict(
            f"tag '{plan.tag}' of {plan.url}, which keeps the files of the clone, was deleted or replaced meanwhile",
            next_step="run it again",
        )


def _metadata(
    timeline: Timeline, schema: TableSchema, plan: ReferencePlan, target: Store, progress: Progress | None
) -> tuple[Snapshot, set[str]]:
    """Write all but the roots. Returns the snapshot with the sizes of its new lists, and the keys that were written."""
    store, paths, form = timeline.store, timeline.paths, _form(schema)
    keys, location = FileKeys(schema), location_of(store)

    def elsewhere(entry: ManifestEntry) -> ManifestEntry:
        return entry._replace(file=entry.file._replace(external_path=f"{location}/{keys.data(entry)[0]}"))

    def rewritten(manifest: ManifestFile) -> tuple[str, int]:
        data = encode_manifest(map(elsewhere, timeline.entries_of(manifest)), **form)
        target.put(paths.manifest(manifest.file_name), data)
        return manifest.file_name, len(data)

    def copied(key: str) -> tuple[str, int]:
        try:
            copy(store, key, target, key)
        except ObjectNotFound:
            raise missing(key, timeline.file_of(plan.snapshot)) from None
        return key, 0

    work = [*(partial(copied, key) for key in plan.copied), *(partial(rewritten, m) for m in plan.manifests)]
    sizes: dict[str, int] = {}
    with MACHINE.executor(READ_THREADS, "lakelatch-clone") as pool:
        for done, (name, size) in enumerate(pool.map(lambda one: one(), work), start=1):
            sizes[name] = size
            if progress is not None:
                progress(done, len(work))
    base, delta = (_list(timeline, name, sizes, target, form) for name in _state_lists(plan.snapshot))
    snapshot = replace(
        plan.snapshot,
        base_manifest_list_size=None if plan.snapshot.base_manifest_list_size is None else base,
        delta_manifest_list_size=None if plan.snapshot.delta_manifest_list_size is None else delta,
    )
    names = (*(m.file_name for m in plan.manifests), *_state_lists(snapshot))
    return snapshot, {*plan.copied, *map(paths.manifest, names)}


def _list(timeline: Timeline, name: str, sizes: Mapping[str, int], target: Store, form: Mapping[str, Any]) -> int:
    lines = [replace(m, file_size=sizes[m.file_name]) for m in timeline.manifest_list(name)]
    data = encode_manifest_list(lines, **form)
    target.put(timeline.paths.manifest(name), data)
    return len(data)


def _form(schema: TableSchema) -> dict[str, Any]:
    options = schema.options
    return {
        "compression": options.get(opt.MANIFEST_COMPRESSION),
        "level": options.get(opt.ZSTD_LEVEL),
        "form": options.get(opt.MANIFEST_FORMAT),
    }
