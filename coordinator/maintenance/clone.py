"""Clones a whole table: a copy of its files at another URL, with the same history and an identity of its own.

Owns: `plan_clone`, `ClonePlan`, `apply_clone`. Must not know: rows, what the files hold. Source: decisions 66, 94; H10, H21.
Invariants: snapshots are listed before the files that they name, so that each one of the plan has all of its files in the plan.
They are written after those files, and schema 0 last of all, by one atomic create: until then the copy is no table. Snapshots and
tags that were being deleted meanwhile are left out, and so is what belongs to running processes: their intents and journals. If
a file could not be copied any more, and a root needs it, the copy is planned again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...backends.files.folders import copy
from ...backends.store import Created, ObjectInfo, ObjectNotFound, Store
from ...core import options as opt
from ...core.errors import (
    InvalidArgument,
    RetriesExhausted,
    StoreUnavailable,
    TableCorrupt,
    TableExists,
    Unsupported,
    missing,
)
from ...core.html_text import ShownAsText
from ...core.metadata.schema import TableSchema
from ...core.metadata.table_identity import with_identity, without_identity
from ...core.paths import (
    BRANCH_DIR,
    CHANGELOG_DIR,
    CONSUMER_DIR,
    DEFAULT_BRANCH,
    SCHEMA_DIR,
    SNAPSHOT_DIR,
    TAG_DIR,
    TablePaths,
)
from ...core.places import named_locations, referenced_locations
from ..history.parallel import READ_THREADS
from ..history.timeline import Timeline
from ..intents.shelf import FOLDER as INTENTS
from ..journal.object_journal import FOLDER as JOURNAL
from ..surroundings import MACHINE, Surroundings
from .deletion import Progress
from .drop import METADATA, is_own
from .reach.reachable import Candidates, Reach
from .reach.roots import root_of

_ROOT_DIRS = (SNAPSHOT_DIR, TAG_DIR, CHANGELOG_DIR, CONSUMER_DIR, SCHEMA_DIR)
_ROOT = re.compile(rf"^(?:{BRANCH_DIR}/branch-[^/]+/)?(?:{'|'.join(_ROOT_DIRS)})/[^./][^/]*$")
_SNAPSHOT = re.compile(rf"^(?:{BRANCH_DIR}/branch-(?P<branch>[^/]+)/)?{SNAPSHOT_DIR}/snapshot-\d+$")
_SCHEMA_0 = re.compile(rf"^(?:{BRANCH_DIR}/branch-[^/]+/)?{TablePaths().schema(0)}$")
_STAYS = re.compile(rf"(?:^|/)(?:\.[^/]+\.tmp$|{INTENTS}|{JOURNAL})")
"""Temporary files, and the intents and journals of processes that write to the table that is cloned."""
_FIRST = TablePaths().schema(0)
_LATEST = "LATEST"
_ROUNDS = 5


@dataclass(frozen=True)
class ClonePlan(ShownAsText):
    """What a clone copies, from the table at `url` to `target`.

    Attributes:
        files: data, manifests, and what else snapshots name.
        roots: schemas, snapshots, tags, changelogs, consumers and hints, of all branches.
    """

    url: str
    target: str
    files: tuple[ObjectInfo, ...]
    roots: tuple[ObjectInfo, ...]

    @property
    def size(self) -> int:
        """The bytes that are copied."""
        return sum(info.size for info in (*self.files, *self.roots))

    @property
    def snapshots(self) -> int:
        """How many snapshots the copy has, of all branches."""
        return sum(bool(re.search(rf"(^|/){SNAPSHOT_DIR}/snapshot-\d+$", info.key)) for info in self.roots)

    def __str__(self) -> str:
        count = len(self.files) + len(self.roots)
        return f"{self.url} to {self.target}: {self.snapshots} snapshots, {count} files, {self.size} bytes"

    def to_dict(self) -> dict[str, Any]:
        """The plan with stable keys, ready for JSON."""
        return {
            "url": self.url,
            "target": self.target,
            "snapshots": self.snapshots,
            "files": len(self.files) + len(self.roots),
            "bytes": self.size,
        }


def plan_clone(timeline: Timeline, schema: TableSchema, target: Store) -> ClonePlan:
    """What a clone of the table would copy. Changes nothing. Raises as `Table.clone`."""
    for key, found in ((opt.EXTERNAL_PATHS.key, named_locations), (opt.REFERENCED_PATHS.key, referenced_locations)):
        if locations := found(schema.options):
            raise Unsupported(
                f"{timeline.store.url} has files outside of its folder, in {locations[0]} (option '{key}'): the clone would need"
                " them too, and nothing would keep them for it",
                next_step="export() the rows, or append them to a new table",
            )
    store, directory = timeline.store, schema.options.get(opt.DATA_FILE_DIRECTORY)
    for _ in range(_ROUNDS):
        listed = _roots_of(timeline)  # before the files that they name
        every = {i.key: i for i in store.list("") if is_own(i.key, directory) and not _STAYS.search(i.key)}
        if all(key in every for key in listed):
            break
    else:
        raise _moving(store)
    files = tuple(info for key, info in every.items() if not _ROOT.match(key))
    return ClonePlan(store.url, target.url, files, tuple(every[key] for key in listed))


def _roots_of(timeline: Timeline) -> list[str]:
    """The roots that are there now. Only their folders are listed: a table has many times as many other files."""
    folders = [f"{folder}/" for folder in (*_ROOT_DIRS, BRANCH_DIR)]
    listed = timeline.parallel(lambda folder: list(timeline.store.list(folder)), folders)
    return [info.key for infos in listed for info in infos if _ROOT.match(info.key)]


def _moving(store: Store) -> RetriesExhausted:
    return RetriesExhausted(
        f"{store.url} was not cloned: its files are being deleted meanwhile",
        next_step="run it again when no expiry is running",
    )


def _written_below(directory: str) -> re.Pattern[str]:
    """Metadata, and files in the folders of buckets, below option `data-file.path-directory`."""
    folder = re.escape(directory.strip("/") + "/") if directory.strip("/") else ""
    return re.compile(rf"(?:{'|'.join(METADATA)})/|{folder}(?:[^/=]+=[^/]*/)*bucket-(?:\d+|postpone)/")


def check_target(store: Store, schema: TableSchema, target: Store, made: Callable[[bytes], bytes] = bytes) -> None:
    """Check that a clone may be made, or continued, at the target, whose schema 0 `made` makes. Raises as `Table.clone`."""
    try:
        first = without_identity(made(store.get(_FIRST)))
    except ObjectNotFound:
        raise missing(_FIRST) from None
    directory = schema.options.get(opt.DATA_FILE_DIRECTORY)
    made_by_writers, doubtful = _written_below(directory), list[str]()
    for info in target.list(""):
        if info.key == _FIRST and without_identity(target.get(_FIRST)) != first:
            raise TableExists(f"there is another table at {target.url}", next_step="choose another URL")
        if info.key == _FIRST:
            raise TableExists(f"{target.url} has been cloned already", next_step="drop it first, to clone it again")
        if not is_own(info.key, directory):
            raise _holds_others(target, info.key)
        if not made_by_writers.match(info.key):
            doubtful.append(info.key)
    if doubtful:  # such as `dt=1/part-0.parquet` of Hive: only a copy of the same file of this table is no loss
        there = {info.key for info in store.list("")}
        for key in doubtful:
            if key not in there:
                raise _holds_others(target, key)


def _holds_others(target: Store, key: str) -> InvalidArgument:
    return InvalidArgument(f"{target.url} holds other files, such as {key}", next_step="choose another URL")


def remove_leftovers(target: Store, wanted: Container[str]) -> None:
    """Delete what an earlier try has left. Raises TableExists if another run has made a table there meanwhile."""
    there = [info.key for info in target.list("")]
    if _FIRST in there:
        raise TableExists(f"another run has made a table at {target.url} meanwhile", next_step="choose another URL")
    target.delete_many([key for key in there if key not in wanted])


def apply_clone(
    timeline: Timeline,
    schema: TableSchema,
    target: Store,
    progress: Progress | None = None,
    around: Surroundings = MACHINE,
) -> ClonePlan:
    """Clone the table, and return what was copied. Run again, it copies only what is missing. Raises as `Table.clone`."""
    store = timeline.store
    for _ in range(_ROUNDS):
        plan = plan_clone(timeline, schema, target)
        held = _read(store, plan.roots, around)
        there = {info.key: info.size for info in target.list("")}
        todo = [info for info in plan.files if there.get(info.key) != info.size]
        gone = _copied(store, target, todo, len(plan.files), progress, around)
        kept = _kept(timeline, held) if held is not None else None
        if kept is not None and not (gone and _need(timeline, schema, kept, frozenset(gone))):
            break
    else:
        raise _moving(store)
    wanted = {info.key for info in plan.files} | kept.keys()
    remove_leftovers(target, wanted)
    kept |= {key: with_identity(data, around.new_uuid(), key) for key, data in kept.items() if _SCHEMA_0.match(key)}
    first = kept.pop(_FIRST)
    _write(target, kept, around)
    made = target.put_if_absent(_FIRST, first)
    if not isinstance(made, Created) and not holds(target, first):
        raise StoreUnavailable(f"it is not known whether the table at {target.url} was made", next_step="run it again")
    roots = tuple(info for info in plan.roots if info.key == _FIRST or info.key in kept)
    return replace(plan, files=tuple(info for info in plan.files if info.key not in gone), roots=roots)


def holds(target: Store, first: bytes) -> bool:
    try:
        return target.get(_FIRST) == first
    except ObjectNotFound:
        return False


def _kept(timeline: Timeline, held: Mapping[str, bytes]) -> dict[str, bytes] | None:
    """The roots whose files were all there when they were listed; None if the newest snapshot of a branch is not among them.

    An expiry and the deletion of a tag take away files first and the root last, and an expiry raises EARLIEST before all.
    """
    still = set(_roots_of(timeline))
    kept = {key: data for key, data in held.items() if key in still}
    for branch in {found["branch"] or DEFAULT_BRANCH for key in held if (found := _SNAPSHOT.match(key))}:
        there = Timeline(timeline.store, TablePaths(branch))
        ids = {number: key for key in held if (number := there.snapshot_id_of(key)) is not None}
        begin = there.hint("EARLIEST") or 0
        for number, key in ids.items():
            if number < begin:
                kept.pop(key, None)
        if there.paths.hint("EARLIEST") in kept:
            kept[there.paths.hint("EARLIEST")] = str(begin).encode()
        if ids[max(ids)] not in kept:
            return None
    return kept if _FIRST in kept else None


def _need(timeline: Timeline, schema: TableSchema, kept: Mapping[str, bytes], gone: frozenset[str]) -> bool:
    """Whether one of these roots needs a file that could not be copied. Writers that lose a race delete what they wrote."""
    found = [root_of(ObjectInfo(key, len(data), 0), data) for key, data in kept.items()]
    roots, reach = [root for root in found if root is not None], Reach(timeline, schema, identities=True)
    try:
        named = reach.kept_by(roots)
        return any(gone & one.keys for one in named) or bool(reach.usage(Candidates(gone)).live(named))
    except TableCorrupt:
        return True  # what they name is being deleted


def _read(store: Store, roots: Sequence[ObjectInfo], around: Surroundings) -> dict[str, bytes] | None:
    """The bytes of the roots, which are small; None if one has disappeared. Hints are written anew."""

    def one(key: str) -> bytes | None:
        try:
            return store.get(key)
        except ObjectNotFound:
            return None

    keys = [info.key for info in roots if not info.key.endswith(f"/{_LATEST}")]
    with around.executor(READ_THREADS, "lakelatch-clone") as pool:
        found = dict(zip(keys, pool.map(one, keys), strict=True))
    held = {key: data for key, data in found.items() if data is not None}
    return held if len(held) == len(keys) else None


def _write(target: Store, held: Mapping[str, bytes], around: Surroundings) -> None:
    """Write the roots, schemas last, and LATEST."""
    timeline = Timeline(target, TablePaths())
    newest = max((number for key in held if (number := timeline.snapshot_id_of(key)) is not None), default=None)
    with around.executor(READ_THREADS, "lakelatch-clone") as pool:
        for schemas in (False, True):
            keys = [key for key in held if (f"{SCHEMA_DIR}/" in key) == schemas]
            list(pool.map(lambda key: target.put(key, held[key]), keys))
    if newest is not None:
        target.put(timeline.paths.hint(_LATEST), str(newest).encode())


def _copied(
    store: Store,
    target: Store,
    todo: Sequence[ObjectInfo],
    total: int,
    progress: Progress | None,
    around: Surroundings,
) -> list[str]:
    """Copy files, several at a time. Returns the keys of those that no longer exist."""

    def one(info: ObjectInfo) -> str | None:
        try:
            copy(store, info.key, target, info.key, info.size)
        except ObjectNotFound:
            return info.key
        return None

    gone = []
    with around.executor(READ_THREADS, "lakelatch-clone") as pool:
        for done, missing in enumerate(pool.map(one, todo), start=1):
            gone += [missing] if missing is not None else []
            if progress is not None:
                progress(total - len(todo) + done, total)
    return gone
