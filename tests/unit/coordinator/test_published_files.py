"""Every byte that means something: what a scripted history of commits leaves in the store, field by field.

The history is the same at each run: names, times and entries are given. What lies in the store afterwards is read by fastavro and
json alone, and compared with `published_files.json`. Sizes that the metadata records are checked against the objects, and left
out of the page, so that another version of a compressor changes nothing. After a change of the format that is meant, run this
module as a script: it writes the page anew.
"""

from __future__ import annotations

import io
import itertools
import json
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa

import lakelatch as ll
from lakelatch.backends.memory import MemoryStore
from lakelatch.backends.store import PutOutcome
from lakelatch.coordinator.commit.committer import Committer
from lakelatch.coordinator.commit.message import PendingUpload
from lakelatch.coordinator.commit.request import CommitRequest, KeyedRows, LayoutDecision, Remarks, Restoration
from lakelatch.coordinator.history.timeline import Timeline
from lakelatch.coordinator.schema_commit import change_schema
from lakelatch.coordinator.surroundings import Surroundings
from lakelatch.core.metadata.data_file import (
    ADD,
    SOURCE_COMPACT,
    DataFile,
    DeletionVectorRange,
    IndexEntry,
    IndexFile,
    ManifestEntry,
    SimpleStats,
)
from lakelatch.core.metadata.deletion_vector import INDEX_TYPE
from lakelatch.core.metadata.folding import live
from lakelatch.core.metadata.manifest import encode_manifest_list
from lakelatch.core.metadata.schema import TableSchema, new_schema
from lakelatch.core.metadata.snapshot import Snapshot
from lakelatch.core.paths import TablePaths
from lakelatch.core.rows.arrow import from_arrow_schema
from lakelatch.core.rows.binary.binary_row import encode_row

PAGE = Path(__file__).with_name("published_files.json")
FIELDS = pa.schema([("p", pa.string()), ("v", pa.int64())])
OPTIONS = {"manifest.merge-min-count": "3", "row-tracking.enabled": "true", "commit.min-retry-wait": "1 ms"}


@dataclass
class Steady:
    """Surroundings without chance: a clock that stands until it is moved, and uuids in order."""

    time_s: float = 1_700_000_000.0
    uuids: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def surroundings(self) -> Surroundings:
        return replace(
            Surroundings(),
            wall_s=lambda: self.time_s,
            new_uuid=lambda: uuid.UUID(int=next(self.uuids) << 64),
            sleep=lambda seconds: None,
            uniform=lambda least, most: most,
        )


class Overtaken(MemoryStore):
    """Another writer comes first, where a test says so."""

    first: Callable[[], Any] | None = None

    def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
        if key.startswith("snapshot/snapshot-") and self.first is not None:
            other, self.first = self.first, None
            other()
        return super().put_if_absent(key, data)


def a_file(number: int, part: str, *, rows: int, schema: TableSchema, source: int = 0) -> ManifestEntry:
    partition = encode_row([part], [schema.fields[0].type])
    low, high = (encode_row([part, n], [f.type for f in schema.fields[:2]]) for n in (number, number + rows - 1))
    stats = SimpleStats(low, high, (0, number % 2))
    data = DataFile(
        f"data-{number}.parquet", 1000 + number, rows, value_stats=stats, schema_id=schema.id, max_sequence_number=rows - 1,
        creation_time=1_600_000_000_000 + number, file_source=source, value_stats_cols=("p", "v"),
    )  # fmt: skip
    return ManifestEntry(ADD, partition, 0, -1, data)


def files_of(timeline: Timeline, snapshot: Snapshot) -> list[ManifestEntry]:
    return live(timeline.entries(timeline.manifests(snapshot)))


def analyzed(store: MemoryStore, timeline: Timeline) -> None:
    """A snapshot of another engine that only names statistics, as Apache Paimon's ANALYZE makes."""
    latest = timeline.latest()
    assert latest is not None
    raw = json.loads(store.get(f"snapshot/snapshot-{latest.id}"))
    raw |= {"id": latest.id + 1, "commitKind": "ANALYZE", "commitUser": "analyst", "statistics": "stat-1"}
    del raw["properties"], raw["uuid"], raw["writerVersion"]
    lines = timeline.manifests(latest)
    data = encode_manifest_list(lines)
    raw |= {"baseManifestList": "manifest-list-analyst-0", "baseManifestListSize": len(data), "deltaRecordCount": 0}
    store.put("manifest/manifest-list-analyst-0", data)
    data = encode_manifest_list([])
    raw |= {"deltaManifestList": "manifest-list-analyst-1", "deltaManifestListSize": len(data)}
    store.put("manifest/manifest-list-analyst-1", data)
    store.put("statistics/stat-1", b"{}")
    store.put(f"snapshot/snapshot-{latest.id + 1}", json.dumps(raw).encode())


def history(store: Overtaken) -> None:
    """Appends by two users; vectors, statistics, a compaction, a column, an overwrite, a rollback, a changelog."""
    steady = Steady()
    around = steady.surroundings()
    schema = new_schema(from_arrow_schema(FIELDS), partition_keys=["p"], options=OPTIONS)
    store.put("schema/schema-0", schema.to_json())
    paths = TablePaths()

    def a_committer(schema: TableSchema = schema) -> Committer:
        return Committer(store, paths, schema, around=around)

    ours, theirs = a_committer(), a_committer()

    def commit(kind: Any, *entries: ManifestEntry, by: Committer = ours, user: str = "etl", **more: Any) -> None:
        steady.time_s += 60
        by.commit(CommitRequest(kind=kind, entries=entries, commit_user=user, **more))
        by.settle()

    ours.commit(LayoutDecision(kind="APPEND", entries=(), commit_user="keeper"))
    one, two, three, four = (a_file(n, part, rows=10 * n, schema=schema) for n, part in enumerate("aabb", 1))
    commit("APPEND", one, identifier=7, remarks=Remarks("WRITE", 500, {"job": "nightly"}))
    store.first = lambda: commit("APPEND", two, by=theirs, user="other", remarks=Remarks(watermark_ms=400))
    commit("APPEND", three, identifier=8)
    commit("APPEND", four)

    marks = IndexFile(INDEX_TYPE, "index-1", 9, 1, (DeletionVectorRange("data-2.parquet", 1, 22, 2),))
    vector = IndexEntry(ADD, two.partition, 0, marks)
    commit(
        "OVERWRITE", index_entries=(vector,), uploads=(PendingUpload("index/index-1", b"a vector."),), user="deleter"
    )

    timeline = Timeline(store, paths)
    analyzed(store, timeline)
    latest = timeline.latest()
    assert latest is not None
    kept = {entry.file.file_name: entry for entry in files_of(timeline, latest)}
    merged = a_file(5, "b", rows=70, schema=schema, source=SOURCE_COMPACT)
    merged = merged._replace(file=merged.file._replace(first_row_id=kept["data-3.parquet"].file.first_row_id))
    gone = [kept[name].deletion() for name in ("data-3.parquet", "data-4.parquet")]
    commit("COMPACT", *gone, merged, read_snapshot=latest, user="compactor")

    wider = change_schema(timeline, [ll.add_column("w", "INT")], around=around).after
    later = a_committer(wider)
    partition = one.partition
    commit(
        "OVERWRITE", a_file(6, "a", rows=1, schema=wider), by=later, target=lambda row: row == partition,
        read_snapshot=timeline.latest(), isolation="serializable", identifier=9,
    )  # fmt: skip
    back = files_of(timeline, latest)
    later.commit(
        Restoration(
            kind="OVERWRITE", entries=tuple(back), commit_user="keeper", index_entries=(vector,),
            target=lambda row: True, read_snapshot=timeline.latest(), remarks=Remarks("OVERWRITE"),
        )
    )  # fmt: skip
    later.settle()
    changes = (a_file(8, "a", rows=2, schema=wider), a_file(9, "b", rows=3, schema=wider))
    commit("APPEND", a_file(7, "b", rows=1, schema=wider), by=later, keyed=KeyedRows(changes))


# ------------------------------------------------------------------------------------------------------------ reading


def read_all(store: MemoryStore) -> dict[str, Any]:
    """Every object under its name, as plain values; where a recorded size is right, it says "right"."""
    objects = {info.key: store.get(info.key) for info in store.list("")}
    sizes = {key.rpartition("/")[2]: len(data) for key, data in objects.items()}
    return {key: _plain(_values(key, data), sizes) for key, data in sorted(objects.items())}


def _values(key: str, data: bytes) -> Any:
    if key.startswith("manifest/"):
        return list(fastavro.reader(io.BytesIO(data)))
    if key.startswith(("snapshot/snapshot-", "schema/")):
        return json.loads(data)
    return data.decode()


def _plain(value: Any, sizes: dict[str, int]) -> Any:
    if isinstance(value, dict):
        found = {name: _plain(part, sizes) for name, part in value.items()}
        for named, sized in SIZES:
            if found.get(sized) is not None and found.get(named) in sizes:
                assert found[sized] == sizes[found[named]], found
                found[sized] = "right"
        return found
    if isinstance(value, list):
        return [_plain(part, sizes) for part in value]
    if isinstance(value, datetime):
        return value.isoformat()
    return value.hex() if isinstance(value, bytes) else value


SIZES = (
    ("_FILE_NAME", "_FILE_SIZE"),
    ("baseManifestList", "baseManifestListSize"),
    ("deltaManifestList", "deltaManifestListSize"),
    ("changelogManifestList", "changelogManifestListSize"),
)


def lived() -> dict[str, Any]:
    store = Overtaken("memory://published-files/t")
    try:
        history(store)
        return read_all(store)
    finally:
        store.delete_many([info.key for info in store.list("")])


def test_a_history_leaves_these_files_and_no_others() -> None:
    """G8: snapshots, lists, manifests, index manifests, hints and schemas, each field of them."""
    found, wanted = lived(), json.loads(PAGE.read_text())
    assert list(found) == list(wanted)
    for key, values in wanted.items():
        assert found[key] == values, key


if __name__ == "__main__":
    PAGE.write_text(json.dumps(lived(), indent=1) + "\n")
