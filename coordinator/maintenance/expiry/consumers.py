"""Consumers: how far readers of a table's changes have come. Expiry keeps what they have still to read.

Owns: the files `consumer/consumer-<name>` of each branch: reading, writing, deleting and expiring them. Must not know: how
changes are read, what expiry deletes. Source: format/snapshot §5; decision 56.
Invariants: a damaged file is an error, never skipped, because expiry would then delete what the consumer has still to read
(H11). Who sets a consumer looks afterwards whether an expiry announced what the consumer needs (decision 10).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from ....backends.elsewhere import delete_located
from ....backends.requests.refusals import raise_undone
from ....backends.store import ObjectInfo, ObjectNotFound
from ....core.errors import InvalidArgument, TableCorrupt
from ....core.json_text import parse_json
from ....core.paths import TablePaths, safe_argument
from ...history.announced import expires_below
from ...history.timeline import Timeline
from ...surroundings import MACHINE, backoff_s

PREFIX = "consumer-"
_LOOKS = 4
"""How often a file that cannot be decoded is read: Apache Paimon writes it in place on a local disk."""


@dataclass(frozen=True)
class Consumer:
    """A reader of a table's changes, and how far it has come.

    Attributes:
        name: the id that the reader chose (option `consumer-id`).
        next_snapshot: the id of the snapshot whose changes it reads next.
        modified_ms: when its file was written last, by the store's clock, in milliseconds since 1970.
    """

    name: str
    next_snapshot: int
    modified_ms: int = 0

    def to_dict(self) -> dict[str, Any]:
        """The consumer with stable keys, ready for JSON."""
        return {"consumer": self.name, "next_snapshot": self.next_snapshot, "modified_ms": self.modified_ms}


def consumer_key(paths: TablePaths, name: str) -> str:
    """The key of a consumer's file in the branch of `paths`. Raises InvalidArgument for a name that cannot be a file's."""
    return f"{paths.consumer_dir}{PREFIX}{safe_argument(name, 'consumer')}"


def list_consumers(timeline: Timeline) -> list[Consumer]:
    """The consumers of the timeline's branch, by name. Raises TableCorrupt where a file names no snapshot."""
    infos = _listed(timeline)
    found = timeline.parallel(lambda info: _next_snapshot(timeline, info.key), infos)
    return [
        Consumer(_name_of(timeline, info), said, info.modified_ms)
        for info, said in zip(infos, found, strict=True)
        if said is not None
    ]


def read_consumer(timeline: Timeline, name: str) -> int | None:
    """The snapshot that a consumer reads next; None if there is no such one. Raises TableCorrupt as `list_consumers`."""
    return _next_snapshot(timeline, consumer_key(timeline.paths, name))


def write_consumer(timeline: Timeline, name: str, next_snapshot: int) -> None:
    """Record how far a consumer has come. A reader that moves forward may call this without any check; one that begins, or goes
    back, uses `place_consumer`. Raises InvalidArgument if the name cannot be a file's, or the id is less than 1.
    """
    _check_id(next_snapshot)
    timeline.store.put(consumer_key(timeline.paths, name), json.dumps({"nextSnapshot": next_snapshot}).encode())


def place_consumer(timeline: Timeline, name: str, next_snapshot: int) -> None:
    """Create a consumer, or let it go on from another snapshot, whose changes must still be there. Raises InvalidArgument if
    they have expired, or are about to; the consumer is then what it was before.
    """
    key = consumer_key(timeline.paths, name)
    _check_id(next_snapshot)
    before = _next_snapshot(timeline, key)
    _refuse_expired(timeline, name, next_snapshot)
    write_consumer(timeline, name, next_snapshot)
    try:
        _refuse_expired(timeline, name, next_snapshot)
    except InvalidArgument as error:
        if before is None:
            raise_undone(error, lambda: timeline.store.delete_many([key]))
        raise_undone(error, lambda: write_consumer(timeline, name, before))


def _check_id(next_snapshot: int) -> None:
    if isinstance(next_snapshot, bool) or not isinstance(next_snapshot, int) or next_snapshot < 1:
        raise InvalidArgument(f"next_snapshot {next_snapshot!r} is not a snapshot id", next_step="give an id from 1 on")


def _refuse_expired(timeline: Timeline, name: str, next_snapshot: int) -> None:
    oldest = oldest_change(timeline)
    if oldest is not None and next_snapshot < oldest:
        raise InvalidArgument(
            f"consumer {name!r} cannot read snapshot {next_snapshot} next: the oldest changes are those of {oldest}",
            next_step=f"set it to {oldest} or later",
        )


def oldest_change(timeline: Timeline) -> int | None:
    """The oldest snapshot whose changes can be read, itself or as a changelog. One below the hint EARLIEST is being deleted."""
    ids = timeline.snapshot_ids()
    if not ids:
        return None
    announced = expires_below(timeline)
    oldest = next((i for i in ids if i >= announced), ids[-1])
    for changelog_id in reversed(timeline.changelog_ids()):
        if changelog_id == oldest - 1:
            oldest = changelog_id
    announced_changelog = timeline.changelog_hint("EARLIEST") or 0
    return announced_changelog if oldest < announced_changelog <= ids[-1] else oldest


def remove_consumer(timeline: Timeline, name: str) -> bool:
    """Delete a consumer. Returns False if there was none."""
    key = consumer_key(timeline.paths, name)
    there = any(info.key == key for info in _listed(timeline))
    timeline.store.delete_many([key])
    return there


def expired_consumers(timeline: Timeline, older_than_ms: int) -> list[Consumer]:
    """The consumers whose files were written last before a time by the store's clock, in milliseconds since 1970."""
    return [found for found in list_consumers(timeline) if 0 < found.modified_ms < older_than_ms]


def expire_consumers(timeline: Timeline, gone: Iterable[Consumer]) -> list[Consumer]:
    """Delete consumers that have not moved since they were listed. Returns those that were deleted."""
    now = {_name_of(timeline, info): info.modified_ms for info in _listed(timeline)}
    idle = [consumer for consumer in gone if now.get(consumer.name) == consumer.modified_ms]
    if idle:
        delete_located(timeline.store, [consumer_key(timeline.paths, consumer.name) for consumer in idle])
    return idle


def _listed(timeline: Timeline) -> list[ObjectInfo]:
    folder = f"{timeline.paths.consumer_dir}{PREFIX}"
    found = [info for info in timeline.store.list(timeline.paths.consumer_dir) if info.key.startswith(folder)]
    named = (info for info in found if info.key != folder and "/" not in info.key[len(folder) :])
    return sorted(named, key=lambda info: info.key)


def _name_of(timeline: Timeline, info: ObjectInfo) -> str:
    return info.key[len(timeline.paths.consumer_dir) + len(PREFIX) :]


def _next_snapshot(timeline: Timeline, key: str, sleep: Callable[[float], None] = MACHINE.sleep) -> int | None:
    for look in range(1, _LOOKS + 1):
        try:
            data = timeline.store.get(key)
        except ObjectNotFound:
            return None
        try:
            said = parse_json(data)["nextSnapshot"]
            if isinstance(said, bool) or not isinstance(said, int):
                raise TypeError(f"nextSnapshot is {said!r}")
            return said
        except (ValueError, KeyError, TypeError) as error:
            if look == _LOOKS:
                raise TableCorrupt(
                    f"{key} does not say which snapshot its consumer reads next: {error!r}",
                    next_step="delete the file if this consumer is no longer in use",
                ) from error
        sleep(backoff_s(look - 1, longest_s=0.1))
    raise AssertionError("the last look returns or raises")
