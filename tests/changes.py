"""A small table in a store where others come first, and changes as other jobs make them: deleted rows, anything by hand."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from marked_rows import vector

import lakelatch as ll
from lakelatch.backends.memory import MemoryStore
from lakelatch.backends.store import PutOutcome, Store
from lakelatch.coordinator.commit.message import PendingUpload, entries_of
from lakelatch.coordinator.commit.receipt import Receipt
from lakelatch.coordinator.commit.request import CommitRequest, Remarks
from lakelatch.coordinator.history.row_numbers import NUMBERS_PROPERTY
from lakelatch.core.metadata.data_file import ADD, DELETE, DeletionVectorRange, IndexEntry, IndexFile, ManifestEntry
from lakelatch.core.metadata.deletion_vector import INDEX_TYPE, decode_vector
from lakelatch.core.metadata.schema import TableSchema
from lakelatch.core.paths import TablePaths
from lakelatch.core.places import FileKeys
from lakelatch.table.table import Table
from lakelatch.table.writing.writer import TableWriter

NUMBERS = itertools.count()
SCHEMA = pa.schema([("part", pa.string()), ("v", pa.int64())])


class Raced(MemoryStore):
    """A store in memory in which others come first: what they do happens before the next snapshots are created."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.first: list[Callable[[], Any]] = []

    def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
        if key.startswith("snapshot/snapshot-") and self.first:
            others, self.first = self.first, []
            for other in others:
                other()
        return super().put_if_absent(key, data)


def created(partition_by: tuple[str, ...] = ("part",), **options: str) -> Table:
    store = Raced(f"memory://settling-{next(NUMBERS)}/t")
    named = {name.replace("__", ".").replace("_", "-"): value for name, value in options.items()}
    made = ll.create_table(store.url, SCHEMA, partition_by=list(partition_by), options=named)
    return Table(store, made.schema)


def rows(part: str, *values: int) -> pa.Table:
    return pa.table({"part": [part] * len(values), "v": list(values)})


def values(table: Table) -> list[int]:
    return sorted(reopened(table).to_arrow()["v"].to_pylist())


def files(table: Table) -> list[ManifestEntry]:
    return reopened(table).entries()


def meanwhile(table: Table, *others: Callable[[], Any]) -> None:
    """What others do between the start of the next commit's work and its publish."""
    assert isinstance(table.store, Raced)
    table.store.first = list(others)


def replace_a(table: Table, *new: int, **options: Any) -> Any:
    return table.overwrite(rows("a", *new), partition={"part": "a"}, **options)


def check(table: Table, wanted: list[int]) -> None:
    """The rows, and every count that the metadata gives of them."""
    newest = reopened(table)
    snapshot = newest.timeline.latest()
    assert snapshot is not None
    assert values(table) == sorted(wanted)
    assert newest.count() == len(wanted)
    marks = sum(len(marked) for marked in marked_rows(newest).values())
    assert snapshot.total_record_count == len(wanted) + marks
    assert newest.verify(data=True) == []


def reopened(table: Table) -> Table:
    """Another job's handle of the same table."""
    return Table(table.store, table.timeline.latest_schema())


def written(table: Table, data: pa.Table) -> tuple[ManifestEntry, ...]:
    """Data files with these rows, in the store, which no snapshot names yet."""
    writer = TableWriter(table.store, table.schema, f"by-hand-{next(NUMBERS)}", travelling=False)
    writer.write(data)
    return entries_of(writer.finish())


def publish(
    table: Table,
    kind: Any,
    entries: Iterable[ManifestEntry] = (),
    index_entries: Iterable[IndexEntry] = (),
    uploads: Iterable[PendingUpload] = (),
    user: str = "another-job",
    properties: Mapping[str, str] | None = None,
) -> Receipt:
    """A snapshot of any content under any kind, by another committer."""
    request = CommitRequest(
        kind=kind, entries=tuple(entries), commit_user=user, index_entries=tuple(index_entries), uploads=tuple(uploads),
        remarks=Remarks(properties=dict(properties or {})),
    )  # fmt: skip
    return reopened(table).committer.commit(request)


def without_numbers(store: Store, snapshot_id: int) -> None:
    """A snapshot as another engine, or an earlier version, leaves it: it does not say which sequence numbers its rows have."""
    said(store, snapshot_id, None)


def said(store: Store, snapshot_id: int, text: str | None) -> None:
    """Lets a snapshot say this of its sequence numbers."""
    key = TablePaths().snapshot(snapshot_id)
    raw = json.loads(store.get(key))
    raw["properties"] = {name: value for name, value in raw["properties"].items() if name != NUMBERS_PROPERTY}
    if text is not None:
        raw["properties"][NUMBERS_PROPERTY] = text
    store.put(key, json.dumps(raw).encode())


def index_of(table: Table) -> list[IndexEntry]:
    """The live index entries of the newest snapshot."""
    snapshot = table.timeline.latest()
    return [] if snapshot is None else table.timeline.index_entries(snapshot)


def marked_rows(table: Table, schema: TableSchema | None = None) -> dict[str, set[int]]:
    """The positions that the newest snapshot's deletion vectors mark, by data file."""
    keys, found = FileKeys(schema or table.schema), {}
    for entry in index_of(table):
        data = table.store.get(keys.index(entry))
        for place in entry.file.deletion_vectors or ():
            assert place.data_file not in found, "two vectors of one file"
            found[place.data_file] = set(decode_vector(data[place.offset :], place, None, "index").tolist())
    return found


def delete_rows(
    table: Table, positions: Mapping[str, Iterable[int]], kind: str = "OVERWRITE", *, counted: bool = True
) -> Receipt:
    """Mark rows of live files, as Apache Paimon's DELETE does: the partition's vector files are replaced by one new file."""
    places = {e.file.file_name: (e.partition, e.bucket) for e in reopened(table).entries()}
    before, index = marked_rows(table), index_of(table)
    changes: list[IndexEntry] = []
    uploads = []
    for partition, bucket in dict.fromkeys(places[name] for name in positions):
        old = [e for e in index if (e.partition, e.bucket) == (partition, bucket)]
        names = {v.data_file for e in old for v in e.file.deletion_vectors or ()}
        names |= {name for name in positions if places[name] == (partition, bucket)}
        marks = {name: before.get(name, set()) | set(positions.get(name, ())) for name in sorted(names)}
        new, upload = vector_file(partition, bucket, marks, counted=counted)
        changes += [*(replace(e, kind=DELETE) for e in old), new]
        uploads.append(upload)
    changes.sort(key=lambda e: e.kind != DELETE)
    return publish(table, kind, (), changes, uploads, "deleting-job")


def vector_file(
    partition: bytes, bucket: int, marks: Mapping[str, Iterable[int]], *, counted: bool = True
) -> tuple[IndexEntry, PendingUpload]:
    """A new index file with these deletion vectors, and its entry."""
    data, ranges = b"\x01", []
    for name, rows in marks.items():
        blob, length = vector(rows)
        ranges.append(DeletionVectorRange(name, len(data), length, len(set(rows)) if counted else None))
        data += blob
    file_name = f"index-by-hand-{next(NUMBERS)}"
    file = IndexFile(INDEX_TYPE, file_name, len(data), len(ranges), tuple(ranges))
    return IndexEntry(ADD, partition, bucket, file), PendingUpload(f"index/{file_name}", data)


def rewritten(
    entries: Sequence[ManifestEntry], new: Sequence[ManifestEntry], source: int | None
) -> list[ManifestEntry]:
    """The entries of a commit that replaces files by others, which say that they came from `source`."""
    added = [e._replace(file=e.file._replace(file_source=source)) for e in new]
    return [*(e.deletion() for e in entries), *added]
