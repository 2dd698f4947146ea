"""A table in memory whose snapshots, lists and manifests a test writes itself, file by file. There are no rows in it.

Owns: `Handmade`, and entries for its manifests. Must not know: what is tested.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from lakelatch.backends.memory import MemoryStore
from lakelatch.backends.store import ObjectInfo, PutOutcome
from lakelatch.coordinator.history.timeline import Timeline
from lakelatch.coordinator.identities.memory import IDENTIFIERS_PROPERTY
from lakelatch.coordinator.identities.pages import Page
from lakelatch.coordinator.maintenance.reach.roots import Root, read_roots
from lakelatch.core.metadata.data_file import ADD, EMPTY_ROW, DataFile, IndexEntry, IndexFile, ManifestEntry
from lakelatch.core.metadata.folding import summarise
from lakelatch.core.metadata.manifest import (
    ManifestFile,
    encode_index_manifest,
    encode_manifest,
    encode_manifest_list,
)
from lakelatch.core.metadata.schema import new_schema
from lakelatch.core.metadata.snapshot import Snapshot
from lakelatch.core.paths import TablePaths
from lakelatch.core.rows.binary.binary_row import encode_row
from lakelatch.core.rows.types import AtomicType, Field

NUMBERS = itertools.count()
INT = AtomicType("INT")
TIME_MS = 1_700_000_000_000
"""Snapshot n is n milliseconds younger."""


class Asked(MemoryStore):
    """Notes what is asked of it, as operation and key."""

    def __init__(self, url: str = "") -> None:
        super().__init__(url or f"memory://handmade-{next(NUMBERS)}/t")
        self.asked: list[str] = []

    def get(self, key: str) -> bytes:
        self.asked.append(f"get {key}")
        return super().get(key)

    def head(self, key: str) -> ObjectInfo:
        self.asked.append(f"head {key}")
        return super().head(key)

    def put(self, key: str, data: bytes) -> None:
        self.asked.append(f"put {key}")
        super().put(key, data)

    def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
        self.asked.append(f"create {key}")
        return super().put_if_absent(key, data)

    def list(self, prefix: str) -> Any:
        self.asked.append(f"list {prefix}")
        return super().list(prefix)

    def delete_many(self, keys: Iterable[str]) -> None:
        names = list(keys)
        self.asked += [f"delete {name}" for name in names]
        super().delete_many(names)


def added(name: str, time_ms: int | None = TIME_MS, *, p: int | None = None, **more: Any) -> ManifestEntry:
    """The entry of a new file `data-<name>`, made at `time_ms`, in partition `p` of a partitioned table."""
    partition = EMPTY_ROW if p is None else encode_row([p], [INT])
    return ManifestEntry(ADD, partition, 0, 1, DataFile(f"data-{name}", 1, 1, creation_time=time_ms, **more))


def removed(name: str, time_ms: int | None = TIME_MS, **more: Any) -> ManifestEntry:
    """The entry that deletes it."""
    return added(name, time_ms, **more).deletion()


def data(*names: str) -> set[str]:
    """The keys of files of a table without partitions."""
    return {f"bucket-0/data-{name}" for name in names}


def metadata(*names: str) -> set[str]:
    return {f"manifest/{name}" for name in names}


class Handmade:
    """A table with one schema.

    Attributes:
        manifests: each that was made, as a list names it.
    """

    def __init__(self, *, partitioned: bool = False, branch: str = "main", **options: str) -> None:
        self.store = Asked()
        fields = [Field(0, "p", INT), Field(1, "v", AtomicType("BIGINT"))]
        named = {name.replace("__", ".").replace("_", "-"): value for name, value in options.items()}
        self.schema = new_schema(fields, partition_keys=["p"] if partitioned else [], options=named)
        self.paths = TablePaths(branch)
        self.timeline = Timeline(self.store, self.paths)
        self.store.put(self.paths.schema(0), self.schema.to_json())
        self.manifests: dict[str, ManifestFile] = {}
        self._state: list[str] = []

    def manifest(self, name: str, *entries: ManifestEntry) -> None:
        encoded = encode_manifest(entries)
        self.store.put(f"manifest/{name}", encoded)
        self.manifests[name] = summarise(name, len(encoded), entries, self.schema.partition_fields, 0)

    def list_of(self, name: str, *manifests: str) -> None:
        self.store.put(f"manifest/{name}", encode_manifest_list([self.manifests[one] for one in manifests]))

    def index(self, name: str, *files: str) -> None:
        """An index manifest that names these index files."""
        entries = [IndexEntry(ADD, EMPTY_ROW, 0, IndexFile("HASH", file, 1, 1)) for file in files]
        self.store.put(f"manifest/{name}", encode_index_manifest(entries))

    def snapshot(
        self,
        number: int,
        *delta: ManifestEntry,
        changelog: Sequence[ManifestEntry] | None = None,
        on: str | None = None,
        at: str | None = None,
        **more: Any,
    ) -> Snapshot:
        """Snapshot n: its lists are `base-n` and `delta-n`, its manifest `manifest-n`; below it all that were made before.

        Args:
            changelog: the entries of its changelog, in `changes-n` of the list `told-n`.
            on: what it says that it was built on, as `id:identity`. The identity of snapshot n is `uuid-n`.
            at: its key, if it is not that of a snapshot.
            more: further fields of the snapshot.
        """
        self.manifest(f"manifest-{number}", *delta)
        self.list_of(f"base-{number}", *self._state)
        self.list_of(f"delta-{number}", f"manifest-{number}")
        self._state.append(f"manifest-{number}")
        made = Snapshot(
            number, 0, f"base-{number}", f"delta-{number}", "me", number, more.pop("kind", "APPEND"), TIME_MS + number,
            1, 1, uuid=f"uuid-{number}",
        )  # fmt: skip
        if changelog is not None:
            self.manifest(f"changes-{number}", *changelog)
            self.list_of(f"told-{number}", f"changes-{number}")
            made = replace(made, changelog_manifest_list=f"told-{number}")
        if on is not None:
            made = replace(made, properties={"lakelatch.base": on}, writer_version="lakelatch-1")
        made = replace(made, **more)
        self.store.put(self.paths.snapshot(number) if at is None else at, made.to_json())
        return made

    def copy(self, source: str, target: str) -> None:
        self.store.put(target, self.store.get(source))

    def tag(self, name: str, number: int) -> str:
        self.copy(self.paths.snapshot(number), self.paths.tag(name))
        return self.paths.tag(name)

    def gone(self, *keys: str) -> None:
        self.store.delete_many(keys)

    def files(self, prefix: str = "") -> set[str]:
        return {info.key for info in self.store.list(prefix)}

    def info(self, key: str) -> ObjectInfo:
        """As it is listed."""
        return next(info for info in self.store.list("") if info.key == key)

    def roots(self, *keys: str | int) -> list[Root]:
        """The roots at these keys, or the snapshots of these numbers, as they are now."""
        named = [self.paths.snapshot(key) if isinstance(key, int) else key for key in keys]
        return read_roots(self.timeline, [self.info(key) for key in named])

    def asked(self, prefix: str = "") -> list[str]:
        """What has been asked of the store since the last time that this was called."""
        found = [line for line in self.store.asked if line.startswith(prefix)]
        self.store.asked.clear()
        return found


def full() -> Handmade:
    """Snapshot 2 names one of everything."""
    table = Handmade()
    table.snapshot(1, added("a"))
    table.index("index-manifest-2", "index-a", "index-b")
    table.snapshot(
        2, removed("a"), added("b"), changelog=[added("told")], index_manifest="index-manifest-2", statistics="stat-2"
    )
    return table


def with_page() -> Handmade:
    """Snapshot 1 says that more users are in a page, which names two leaves."""
    table = Handmade()
    page = Page({}, {"0": "identities-leaf-0", "1": "identities-leaf-1"})
    table.store.put("lakelatch/identities/identities-page-0", page.to_bytes())
    said = '{"since": 1, "page": "identities-page-0", "users": {}}'
    table.snapshot(1, properties={IDENTIFIERS_PROPERTY: said}, writer_version="lakelatch-1")
    return table


IDENTITIES = {f"lakelatch/identities/identities-{name}" for name in ("page-0", "leaf-0", "leaf-1")}
"""The files of identities of a table `with_page`."""
