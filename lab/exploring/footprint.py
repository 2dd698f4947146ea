"""The part of a store's contents that readers can reach. Stores with equal footprints count as one state.

Owns: `footprint`. Must not know: schedules, guarantees. Invariant: everything that `reading` reads is part of the footprint,
or is reached from it by a name that is never written again with other bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache

from ...coordinator.intents.shelf import FOLDER as INTENTS
from ...coordinator.journal.object_journal import FOLDER
from ...core.metadata.manifest import decode_index_manifest, decode_manifest, decode_manifest_list
from ..world.reading import newest_schema
from ..world.simulated_store import Objects
from ..world.stage import PATHS, file_keys
from .independence import CHECKPOINTS, COPIES

_ROOTS = ("snapshot/", "schema/", "branch/", "consumer/", CHECKPOINTS, FOLDER, INTENTS)
Follow = Callable[[bytes, bytes], tuple[str, ...]]


Footprint = frozenset[tuple[str, bytes | None]]


def footprint(objects: Objects) -> Footprint:
    """What a reader of main, of a branch or of a clone can reach, journals, intents, consumers and checkpoints, by content. A
    missing object is None. What is copied counts as a whole until it is a table."""
    copied = {k.removeprefix(COPIES): v for k, v in objects.items() if k.startswith(COPIES)}
    of_copy = _of_table(copied) if PATHS.schema(0) in copied else copied.items()
    return _of_table(objects).union((f"{COPIES}{key}", data) for key, data in of_copy)


def _of_table(objects: Objects) -> Footprint:
    held = {k: v for k, v in objects.items() if k.startswith(_ROOTS)}
    found: dict[str, bytes | None] = {**held}
    schema = newest_schema(held)
    todo: list[tuple[str, Follow | None]] = []
    for root, text in held.items():
        if "snapshot/snapshot-" in root:  # also a branch's
            lists, index = _lists(text)
            todo += [(name, _manifests) for name in lists] + [(name, _index) for name in index]
    while todo:
        key, follow = todo.pop()
        if key in found:
            continue
        data = found[key] = objects.get(key)
        if data is not None and follow is not None:
            todo += [(name, _data if follow is _manifests else None) for name in follow(data, schema)]
    return frozenset(found.items())


@lru_cache(maxsize=100_000)
def _lists(data: bytes) -> tuple[tuple[str, ...], tuple[str, ...]]:
    raw = json.loads(data)
    index = raw.get("indexManifest")
    lists = (PATHS.manifest(raw["baseManifestList"]), PATHS.manifest(raw["deltaManifestList"]))
    return lists, (PATHS.manifest(index),) if index else ()


@lru_cache(maxsize=100_000)
def _manifests(data: bytes, schema: bytes) -> tuple[str, ...]:
    return tuple(PATHS.manifest(m.file_name) for m in decode_manifest_list(data, "list"))


@lru_cache(maxsize=100_000)
def _data(data: bytes, schema: bytes) -> tuple[str, ...]:
    keys = file_keys(schema)
    return tuple(key for e in decode_manifest(data, "manifest") for key in keys.data(e))


@lru_cache(maxsize=100_000)
def _index(data: bytes, schema: bytes) -> tuple[str, ...]:
    keys = file_keys(schema)
    return tuple(keys.index(e) for e in decode_index_manifest(data, "index"))
