"""Histories put together file by file: what one file more or less proves can be asked without any writer.

Owns: snapshots with the names of their lists, and those lists. Must not know: what the tests ask.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa

from lakelatch.backends.memory import MemoryStore
from lakelatch.backends.store import ObjectNotFound
from lakelatch.coordinator.commit.attempt import WRITER_VERSION
from lakelatch.coordinator.history.timeline import BASE_PROPERTY, Timeline
from lakelatch.coordinator.protocol import events as ev
from lakelatch.coordinator.protocol.snapshot_ref import SnapshotRef
from lakelatch.core.errors import StoreUnavailable
from lakelatch.core.metadata.data_file import ManifestEntry
from lakelatch.core.metadata.folding import summarise
from lakelatch.core.metadata.manifest import ManifestFile, encode_manifest, encode_manifest_list
from lakelatch.core.metadata.schema import TableSchema, new_schema
from lakelatch.core.metadata.snapshot import BATCH_IDENTIFIER, Snapshot
from lakelatch.core.paths import TablePaths
from lakelatch.core.rows.arrow import from_arrow_schema

COUNTER = itertools.count()


def schema(**options: str) -> TableSchema:
    return new_schema(from_arrow_schema(pa.schema([("v", pa.int64())])), options=options)


def new_store(kind: type[Any] = MemoryStore) -> Any:
    """A store with the schema of an empty table."""
    store = kind(f"memory://hand-made-{next(COUNTER)}/t")
    MemoryStore.put(store, "schema/schema-0", schema().to_json())
    return store


def of(number: int, uuid: str = "") -> SnapshotRef:
    return SnapshotRef(number, uuid or f"u{number}")


def snapshot(number: int, *, uuid: str = "", on: str | None = "", **fields: Any) -> Snapshot:
    """A snapshot of ours with the identity u<number>.

    Args:
        on: the base that it names; by default u<number - 1>, and none for the first one.
    """
    uuid = uuid or f"u{number}"
    on = on or (f"{number - 1}:u{number - 1}" if number > 1 else "0:")
    made: dict[str, Any] = {
        "schema_id": 0,
        "base_manifest_list": f"base-{uuid}",
        "delta_manifest_list": f"delta-{uuid}",
        "commit_user": f"user-{uuid}",
        "commit_identifier": BATCH_IDENTIFIER,
        "commit_kind": "APPEND",
        "time_ms": 1_000 * number,
        "total_record_count": 0,
        "delta_record_count": 0,
        "properties": {BASE_PROPERTY: on},
        "writer_version": WRITER_VERSION,
    }
    return Snapshot(id=number, uuid=uuid, **{**made, **fields})


def foreign(number: int, *, uuid: str = "", **fields: Any) -> Snapshot:
    """A snapshot of another engine, which names no base."""
    return snapshot(number, uuid=uuid or f"f{number}", properties={}, writer_version="paimon-1.4.2", **fields)


def prepared(
    made: Snapshot, base: SnapshotRef | None = None, names: tuple[str, ...] | None = ()
) -> ev.SnapshotPrepared:
    """A snapshot as its writer's journal holds it; its base is the one that it names, unless another is given."""
    number, _, uuid = made.properties.get(BASE_PROPERTY, "0:").partition(":")
    named = SnapshotRef(int(number), uuid) if int(number) else None
    return ev.SnapshotPrepared(SnapshotRef(made.id, made.identity), base or named, made.to_json().decode(), names)


def put(store: Any, *made: Snapshot) -> None:
    for one in made:
        MemoryStore.put(store, f"snapshot/snapshot-{one.id}", one.to_json())


def put_lists(store: Any, made: Snapshot, inherited: Iterable[str] = (), added: Iterable[str] = ()) -> None:
    """The lists of a snapshot, given the names of the manifests in them. The manifests themselves are not written."""
    for name, manifests in ((made.base_manifest_list, inherited), (made.delta_manifest_list, added)):
        MemoryStore.put(store, f"manifest/{name}", encode_manifest_list(map(manifest, manifests), compression="none"))


def manifest(name: str, entries: Iterable[ManifestEntry] = ()) -> ManifestFile:
    return summarise(name, 1, tuple(entries), (), 0)


def put_manifest(store: Any, name: str, *entries: ManifestEntry) -> None:
    MemoryStore.put(store, f"manifest/{name}", encode_manifest(entries, compression="none"))


def remove(store: Any, *keys: str) -> None:
    MemoryStore.delete_many(store, keys)


def holds(store: Any, key: str) -> bool:
    return any(info.key == key for info in MemoryStore.list(store, ""))


def chain(store: Any, *numbers: int) -> list[Snapshot]:
    """Snapshots of ours with these ids, each naming the one below."""
    made = [snapshot(number) for number in numbers]
    put(store, *made)
    return made


def hints(store: Any, earliest: int | None = None, latest: int | None = None) -> None:
    """Write the hints, or remove them."""
    for name, value in (("EARLIEST", earliest), ("LATEST", latest)):
        remove(store, f"snapshot/{name}")
        if value is not None:
            MemoryStore.put(store, f"snapshot/{name}", str(value).encode())


def timeline(store: Any, first_schema: bytes | None = None) -> Timeline:
    """The history as a process reads it that knows nothing yet."""
    return Timeline(store, TablePaths(), first_schema=first_schema)


def listed(store: Any, *numbers: int) -> Timeline:
    """A timeline whose listing shows these snapshots, whatever there is."""
    made = timeline(store)
    made.snapshot_ids = lambda: list(numbers)  # type: ignore[method-assign]
    return made


def get_once(store: Any, key: str, instead: Callable[[], Any]) -> None:
    """Before the next read of this key something happens, or it fails."""
    get, done = store.get, []

    def got(asked: str) -> bytes:
        if asked == key and not done:
            done.append(True)
            instead()
        return get(asked)  # type: ignore[no-any-return]

    store.get = got


def gone() -> None:
    raise ObjectNotFound("a moment ago")


def away() -> None:
    raise StoreUnavailable("no answer")


FIRST = prepared(snapshot(1))
OURS = snapshot(2)
TRIED = prepared(OURS)
"""Attempts at snapshots 1 and 2, each on the one before it."""
