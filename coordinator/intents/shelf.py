"""Where intents are kept: one small object each, beside the table.

Owns: the folder of intents, registering, listing, reading and removing them. Must not know: what an intent's commit does next.
Source: decision 71; format/commit §12.
Invariants: an intent without an answer counts as registered. Nothing that is wrong with another writer's file stops a commit:
such an intent is not carried. An intent is removed only when its commit has landed, or its last id is published.

The objects lie in `lakelatch/intents/` under the table's root, and under the branch's own folder for another branch: they go with
it, so that a branch that is made again from the same snapshot does not carry them. Apache Paimon's readers and its orphan cleaner
look into the folders of the format only (format/commit §12).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ...backends.store import AlreadyThere, Created, ObjectInfo, ObjectNotFound, Store, Unknown
from ...core.errors import LakelatchError
from ...core.metadata.data_file import NO_BUCKETS
from ...core.metadata.snapshot import Snapshot
from ...core.paths import BRANCH_DIR, DEFAULT_BRANCH, TablePaths
from ...core.typed import assert_never
from ..history.timeline import Timeline
from .carried import carried_by
from .intent import IDS, Intent, Leader, parse_intent, parse_name

FOLDER = "lakelatch/intents/"
KEY = re.compile(rf"^(?:{BRANCH_DIR}/branch-(?P<branch>[^/]+)/)?{FOLDER}(?:intent-[^/]+\.json|ticket-[^/]+)$")
"""Intents, and tickets, which are orphans once they are old."""
STALE_AFTER_MS = 3_600_000
"""An intent that is older than this belongs to a writer that has died. No leader carries it, because the orphan cleaner of
another engine, which does not know of intents, may have deleted its files. Its resolver looks whether they are there."""
READS_AT_ONCE = 32
"""Riders wait while their leader reads their intents, which are small: a hundred take four round trips, and not thirteen."""
MOST_RIDERS = 1_000
"""A leader carries so many others at most, so that its snapshot and its reads stay small. The rest rides with the next one."""


def folder_of(paths: TablePaths) -> str:
    return f"{paths.root}{FOLDER}"


def key_of(paths: TablePaths, intent: Intent) -> str:
    return folder_of(paths) + intent.file_name


def register(timeline: Timeline, intent: Intent) -> str | None:
    """Make an intent known to everybody: None if the store says that it is kept, otherwise why this is not known. It counts as
    registered in both cases. Raises StoreUnavailable if it was refused, and is certainly not registered.
    """
    match timeline.store.put_if_absent(key_of(timeline.paths, intent), intent.to_json()):
        case Created() | AlreadyThere():
            return None  # its name holds its commit and its base: nobody else creates it
        case Unknown(reason=reason):
            return reason
        case other:
            assert_never(other)


def glance(timeline: Timeline) -> tuple[ObjectInfo, ...]:
    """What is in the folder, as far as the store tells at once: whoever misses a file carries nobody, or goes first; no harm."""
    store = timeline.store
    try:
        return tuple(getattr(store, "glance", store.list)(folder_of(timeline.paths)))
    except LakelatchError:
        return ()


def waiting(timeline: Timeline, leader: Leader, wall_ms: int) -> tuple[ObjectInfo, ...]:
    """The intents whose names fit a leader's base, and whose commits are not in it. A store that fails shows none."""
    found = [info for info in glance(timeline) if _may_ride(info, leader, wall_ms)]
    try:
        landed = {
            one.commit for one in carried_by(leader.base)
        }  # they have their answer, and will remove their intents
    except LakelatchError:
        return ()
    return tuple(sorted((i for i in found if _commit_of(i) not in landed), key=lambda info: info.key))


def asking(timeline: Timeline, base: Snapshot, wall_ms: int) -> int:
    """How many commits ask to be carried above a snapshot; arguments and errors as for `waiting`."""
    return len(waiting(timeline, Leader(base, "", "", base.schema_id, NO_BUCKETS), wall_ms))


def riders_for(
    timeline: Timeline, leader: Leader, files: Sequence[ObjectInfo], most: int = MOST_RIDERS
) -> tuple[Intent, ...]:
    found = timeline.parallel(lambda info: _read(timeline.store, info.key), files[:most], READS_AT_ONCE)
    return leader.choose(intent for intent in found if intent is not None)


def order_of(files: Iterable[ObjectInfo], leader: Leader) -> tuple[str, ...]:
    """The commits of the others among the waiting intents, in the order in which they may lead."""
    return tuple(sorted({commit for info in files if (commit := _commit_of(info)) not in ("", leader.commit)}))


def _name(info: ObjectInfo) -> str:
    return info.key.rpartition("/")[2]


def _commit_of(info: ObjectInfo) -> str:
    said = parse_name(_name(info))
    return "" if said is None else said[1]


def _may_ride(info: ObjectInfo, leader: Leader, wall_ms: int) -> bool:
    name = parse_name(_name(info))
    if name is None or name[1] == leader.commit or not leader.near(name[0]):
        return False
    return not 0 < info.modified_ms < wall_ms - STALE_AFTER_MS


def _read(store: Store, key: str) -> Intent | None:
    """An intent of another writer; None where it is gone, unreadable or not an intent."""
    try:
        return parse_intent(store.get(key), key)
    except (ObjectNotFound, LakelatchError):
        return None


def remove(timeline: Timeline, names: Iterable[str]) -> None:
    """Remove intents by their file names. Orphan cleaning removes those that cannot be removed now."""
    keys = [folder_of(timeline.paths) + name for name in names]
    if keys:
        try:
            timeline.store.delete_many(keys)
        except LakelatchError:
            return


def everywhere(timeline: Timeline) -> tuple[str, ...]:
    listed = timeline.parallel(lambda folder: list(timeline.store.list(folder)), (FOLDER, f"{BRANCH_DIR}/"))
    return tuple(info.key for part in listed for info in part if KEY.match(info.key))


def all_open(store: Store, keys: Iterable[str], newest_id_of: Mapping[str, int]) -> Iterator[tuple[str, Intent]]:
    """Those intents (of `everywhere`) that may still be carried, each with its key; none where a branch has no `newest_id_of`.
    Raises TableCorrupt if an open one is garbled, so that the files that it needs are not known (H11).
    """
    for key in keys:
        place = KEY.match(key)
        branch = place["branch"] if place is not None else None
        said, newest_id = parse_name(key.rpartition("/")[2]), newest_id_of.get(branch or DEFAULT_BRANCH)
        if said is None or newest_id is None or newest_id >= said[0] + IDS - 1:
            continue
        try:
            yield key, parse_intent(store.get(key), key)
        except ObjectNotFound:
            continue  # its commit has ended since it was listed
