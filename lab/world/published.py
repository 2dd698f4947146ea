"""Records every snapshot at its creation: its base, the rows that it held, and the rows that it may replace.

Owns: `Published`, `as_published`, the properties by which the lab's actors record in a snapshot what their commit read.
Must not know: schedules, reported outcomes. Invariant: a snapshot is recorded when it appears, and never read again from a
store that may have lost half of it since.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ...core.errors import LakelatchError
from ...core.metadata.snapshot import parse_snapshot
from .keyed import commits_of
from .reading import view
from .simulated_store import Objects
from .stage import PATHS, read_only

COMMIT, READ, PARTITIONS, DELETES, RESTORES = "lab.commit", "lab.read", "lab.partitions", "lab.deletes", "lab.restores"
PUTS, UNDOES = "lab.puts", "lab.undoes"
"""Properties of a snapshot: the commit's name; the identity of the snapshot that an overwrite (or an upsert) read; the
partitions that it replaces, comma separated, none for all; the rows that it marks as deleted; the id to which it rolls
the table back; the keys whose rows it writes or, with a minus sign, deletes; and the commit that it takes back."""


@dataclass(frozen=True, slots=True)
class Published:
    """One snapshot.

    Attributes:
        base: the identity of the snapshot that it is based on.
        rows: what readers saw in it; None if it could not be read even then.
        read: the identity of the snapshot whose rows it replaces, in these `partitions`; "" if it is not an overwrite.
        restores: the id of the snapshot to which it rolls the table back.
        puts: the keys that it writes, or deletes.
        undoes: the commit that it takes back.
        riders: if it does not name its commit: those that it carries, its leader among them, each with its puts. Their rows tell.
    """

    base: str
    commit: str = ""
    rows: frozenset[str] | None = None
    added: frozenset[str] = frozenset()
    read: str = ""
    partitions: tuple[str, ...] = ()
    deletes: frozenset[str] = frozenset()
    restores: int = 0
    puts: tuple[str, ...] = ()
    undoes: str = ""
    riders: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def commits(self) -> tuple[str, ...]:
        return (self.commit,) if self.commit else tuple(name for name, _ in self.riders)

    def replaces(self, row: str) -> bool:
        return not self.partitions or row.partition("~")[2] in self.partitions


History = Mapping[str, Published]


def chain(history: History, identity: str) -> Iterator[Published]:
    seen: set[str] = set()
    while identity in history and identity not in seen:
        seen.add(identity)
        yield history[identity]
        identity = history[identity].base


def may_remove(history: History, published: Published) -> frozenset[str]:
    """The rows that a snapshot may remove from the table: those that it marks, those that it read and replaces, and those of the
    keys that it changes in its base, whenever it was planned."""
    if published.puts:
        base = history.get(published.base)
        keys = {put.lstrip("-") for put in published.puts}
        return frozenset(row for row in (base.rows if base and base.rows else ()) if row.partition("~")[2] in keys)
    if not published.read or published.read not in history:
        return published.deletes
    held = history[published.read].rows or frozenset()
    return published.deletes | {row for row in held if published.replaces(row)}


@lru_cache(maxsize=100_000)
def identity_of(data: bytes) -> str:
    raw = json.loads(data)
    return str(raw.get("uuid") or f"{raw['baseManifestList']}|{raw['deltaManifestList']}")


@lru_cache(maxsize=100_000)
def _said(data: bytes) -> tuple[int, dict[str, str], Any]:
    raw = json.loads(data)
    return raw["id"], raw.get("properties") or {}, raw.get("uuid")


class Chronicle:
    """Records snapshots as they appear. The same bytes with the same lists are parsed once."""

    def __init__(self) -> None:
        self._known: dict[tuple[bytes | None, ...], Published] = {}

    def noted(self, history: History, objects: Objects, key: str) -> History:
        data = objects[key]
        number, said, _ = _said(data)
        snapshot = parse_snapshot(data, key)
        below = objects.get(PATHS.snapshot(number - 1))
        lists = (snapshot.base_manifest_list, snapshot.delta_manifest_list, snapshot.index_manifest or "")
        known = (data, below, *(objects.get(PATHS.manifest(name)) if name else None for name in lists))
        if known not in self._known:
            self._known[known] = _taken_down(objects, key, said, below)
        return {**history, identity_of(data): self._known[known]}

    def all_of(self, objects: Objects) -> History:
        history: History = {}
        keys = [key for key in objects if key.startswith("snapshot/snapshot-")]
        for key in sorted(keys, key=lambda key: int(key.rpartition("-")[2])):
            history = self.noted(history, objects, key)
        return history


def _taken_down(objects: Objects, key: str, said: Mapping[str, str], below: bytes | None) -> Published:
    base = said.get("lakelatch.base", "").partition(":")[2]
    if not base and "lakelatch.base" not in said and below is not None:
        base = identity_of(below)  # a snapshot of another engine is based on the one that it found below its name
    rows, added = None, frozenset[str]()
    with read_only(objects) as timeline:
        try:
            seen = view(timeline, parse_snapshot(objects[key], key), objects)
            rows, added = frozenset(seen.visible), seen.added
        except LakelatchError:
            pass  # the judge of the state reports that it cannot be read
    split = {name: tuple(filter(None, said.get(name, "").split(","))) for name in (PARTITIONS, DELETES, PUTS)}
    return Published(
        base=base,
        commit=said.get(COMMIT, ""),
        rows=rows,
        added=added,
        read=said.get(READ, ""),
        partitions=split[PARTITIONS],
        deletes=frozenset(split[DELETES]),
        restores=int(said.get(RESTORES, 0)),
        puts=split[PUTS],
        undoes=said.get(UNDOES, ""),
        riders=() if said.get(COMMIT) else tuple(commits_of(added).items()),
    )
