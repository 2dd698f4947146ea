"""Tables without rows: hand-made snapshots under the names that they have in a table, for tests of what their order decides.

Owns: `Refusing`, `bare`, `snapshot`, `chain` and what puts them into a store. Must not know: what the tests do with them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any

from lakelatch.backends.memory import MemoryStore
from lakelatch.backends.store import ObjectInfo, PutOutcome
from lakelatch.coordinator.history.timeline import BASE_PROPERTY, Timeline
from lakelatch.core.metadata.data_file import NO_STATS
from lakelatch.core.metadata.manifest import ManifestFile, encode_manifest_list
from lakelatch.core.metadata.snapshot import Snapshot
from lakelatch.core.paths import TablePaths

_COUNTER = itertools.count()


class Refusing(MemoryStore):
    """A store in memory that first calls what is planned for a request, and remembers the requests that change something.

    Attributes:
        plans: what to call, by the beginning of "operation key"; it may raise. It is called each time.
        changes: "operation key" of each create, put and deletion.
        reads: the same of each get and listing.
    """

    def __init__(self, url: str = "") -> None:
        super().__init__(url or f"memory://bare-{next(_COUNTER)}/t")
        self.plans: dict[str, Callable[[], Any]] = {}
        self.changes: list[str] = []
        self.reads: list[str] = []

    def _ask(self, request: str) -> Any:
        planned = next((plan for begin, plan in self.plans.items() if request.startswith(begin)), None)
        return planned() if planned is not None else None

    def get(self, key: str) -> bytes:
        self.reads.append(f"get {key}")
        self._ask(f"get {key}")
        return super().get(key)

    def put(self, key: str, data: bytes) -> None:
        self.changes.append(f"put {key}")
        self._ask(f"put {key}")
        super().put(key, data)

    def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
        self.changes.append(f"create {key}")
        instead = self._ask(f"create {key}")
        return super().put_if_absent(key, data) if instead is None else instead

    def delete_many(self, keys: Iterable[str]) -> None:
        names = list(keys)
        self.changes += [f"delete {key}" for key in names]
        self._ask(f"delete {', '.join(names)}")
        super().delete_many(names)

    def list(self, prefix: str) -> Any:
        self.reads.append(f"list {prefix}")
        self._ask(f"list {prefix}")
        found: list[ObjectInfo] = list(super().list(prefix))
        return reversed(found)  # a store may list in any order

    def plain(self) -> MemoryStore:
        """The same objects, without plans."""
        return MemoryStore(self.url)

    def once(self, request: str, act: Callable[[], Any]) -> None:
        """Plan something for the next such request alone."""

        def planned() -> Any:
            del self.plans[request]
            return act()

        self.plans[request] = planned


def raising(error: BaseException) -> Callable[[], Any]:
    """A plan that raises."""

    def planned() -> Any:
        raise error

    return planned


def bare(*schemas: int, branch: str = "main", store: Refusing | None = None) -> Refusing:
    """A table, or a branch of one, with files of these schemas; schema 0 by default."""
    store = store or Refusing()
    for schema_id in schemas or (0,):
        store.plain().put(TablePaths(branch).schema(schema_id), b"schema %d" % schema_id)
    return store


def timeline(store: MemoryStore, branch: str = "main") -> Timeline:
    return Timeline(store, TablePaths(branch))


def snapshot(number: int, name: str = "", *, on: Snapshot | None = None, **more: Any) -> Snapshot:
    """A snapshot.

    Args:
        name: distinguishes it from others of the same id.
        on: the snapshot that it names as its base; None for none, as another engine's.
        more: other fields.
    """
    label = f"{number}{name}"
    properties = {} if on is None else {BASE_PROPERTY: f"{on.id}:{on.identity}"}
    fields: dict[str, Any] = {
        "uuid": f"uuid-{label}", "properties": properties, "writer_version": None if on is None else "lakelatch-1",
        "schema_id": 0, "base_manifest_list": f"base-{label}", "delta_manifest_list": f"delta-{label}",
        "commit_user": "etl", "commit_identifier": number, "commit_kind": "APPEND", "time_ms": number * 1_000,
        "total_record_count": number, "delta_record_count": 1,
    }  # fmt: skip
    return Snapshot(number, **{**fields, **more})


def landed(store: MemoryStore, *snapshots: Snapshot, branch: str = "main") -> None:
    """Put snapshots where they are read, without any request that the store would count."""
    plain = MemoryStore(store.url)
    for one in snapshots:
        plain.put(TablePaths(branch).snapshot(one.id), one.to_json())


def chain(*numbers: int, name: str = "", on: Snapshot | None = None) -> list[Snapshot]:
    """Snapshots of which each is built on the one before."""
    made: list[Snapshot] = []
    for number in numbers:
        made.append(snapshot(number, name, on=made[-1] if made else on))
    return made


def listed_in(store: MemoryStore, name: str, *manifests: str) -> None:
    """Write a manifest list that names these manifests."""
    files = [ManifestFile(manifest, 1, 1, 0, NO_STATS, 0) for manifest in manifests]
    MemoryStore(store.url).put(TablePaths().manifest(name), encode_manifest_list(files))


def keys(store: MemoryStore, prefix: str = "") -> list[str]:
    """What there is under a prefix, sorted."""
    return sorted(info.key for info in MemoryStore(store.url).list(prefix))
