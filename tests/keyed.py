"""A table with a primary key as the coordinator sees it: files with keys, levels and sequence numbers, and no rows."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from changes import Raced

from lakelatch.coordinator.commit.committer import Committer
from lakelatch.coordinator.commit.message import PendingUpload
from lakelatch.coordinator.commit.receipt import Receipt
from lakelatch.coordinator.commit.request import CommitRequest, KeyedRows, Remarks, Renumbered
from lakelatch.coordinator.history.timeline import Timeline
from lakelatch.core.metadata.data_file import ADD, SOURCE_APPEND, SOURCE_COMPACT, DataFile, ManifestEntry
from lakelatch.core.metadata.folding import live
from lakelatch.core.metadata.schema import TableSchema, new_schema
from lakelatch.core.metadata.snapshot import Snapshot
from lakelatch.core.paths import TablePaths
from lakelatch.core.rows.arrow import from_arrow_schema
from lakelatch.core.rows.binary.binary_row import encode_row
from lakelatch.core.rows.types import AtomicType

NUMBERS = itertools.count()
FIELDS = pa.schema([pa.field("k", pa.int32(), nullable=False), ("v", pa.int64())])
NO_PARTITION = bytes(12)


def key(value: int) -> bytes:
    return encode_row([value], [AtomicType("INT")])


def run_of(
    name: str, numbers: tuple[int, int], *, keys: tuple[int, int] = (0, 99), bucket: int = 0, buckets: int = 2,
    level: int = 0, deletes: int = 0, rows: int = 10, source: int = SOURCE_APPEND,
) -> ManifestEntry:  # fmt: skip
    """A file of `rows` rows, `deletes` of which delete."""
    file = DataFile(
        f"data-{name}.parquet", 1, rows, min_key=key(keys[0]), max_key=key(keys[1]), min_sequence_number=numbers[0],
        max_sequence_number=numbers[1], level=level, delete_row_count=deletes, file_source=source,
    )  # fmt: skip
    return ManifestEntry(ADD, NO_PARTITION, bucket, buckets, file)


def merged(name: str, *inputs: ManifestEntry, level: int = 5, **more: Any) -> ManifestEntry:
    """The file that a compaction makes of others."""
    numbers = [n for e in inputs for n in (e.file.min_sequence_number, e.file.max_sequence_number)]
    entry = inputs[0]
    more = {"bucket": entry.bucket, "buckets": entry.total_buckets, **more}
    return run_of(name, (min(numbers), max(numbers)), level=level, source=SOURCE_COMPACT, **more)


@dataclass
class Keyed:
    """A table, and the commits of several jobs to it. Each commit comes from a process of its own."""

    options: dict[str, str] = field(default_factory=dict)
    asked: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.store = Raced(f"memory://keyed-{next(NUMBERS)}/t")
        options = {"bucket": "2", "commit.min-retry-wait": "1 ms", **self.options}
        self.schema: TableSchema = new_schema(from_arrow_schema(FIELDS), primary_keys=["k"], options=options)
        self.store.put("schema/schema-0", self.schema.to_json())
        self.timeline = Timeline(self.store, TablePaths())

    def read(self) -> Snapshot | None:
        return self.timeline.latest()

    def files(self) -> dict[str, DataFile]:
        snapshot = self.read()
        entries = live(self.timeline.entries(self.timeline.manifests(snapshot))) if snapshot else []
        return {e.file.file_name.removeprefix("data-").removesuffix(".parquet"): e.file for e in entries}

    def levels(self) -> dict[str, int]:
        return {name: file.level for name, file in self.files().items()}

    def commit(self, kind: Any, *entries: ManifestEntry, user: str = "job", **more: Any) -> Receipt:
        committer = Committer(self.store, TablePaths(), self.schema)
        uploads = tuple(PendingUpload(self.key_of(e), b"rows") for e in entries if e.kind == ADD and e.file.level == 0)
        said = Remarks("WRITE" if kind == "APPEND" else None)
        request = {"kind": kind, "entries": entries, "commit_user": user, "uploads": uploads, "remarks": said, **more}
        try:
            return committer.commit(CommitRequest(**request))
        finally:
            committer.settle()

    def key_of(self, entry: ManifestEntry) -> str:
        return f"bucket-{entry.bucket}/{entry.file.file_name}"

    def upsert(self, *entries: ManifestEntry, read: Any = "latest", **more: Any) -> Receipt:
        """New rows, numbered above the snapshot `read`."""
        keyed = KeyedRows(renumber=more.pop("renumber", self.renumber))
        read_snapshot = self.read() if read == "latest" else read
        return self.commit("APPEND", *entries, read_snapshot=read_snapshot, keyed=keyed, **more)

    def compact(
        self, inputs: Sequence[ManifestEntry], outputs: Sequence[ManifestEntry], read: Any, **more: Any
    ) -> Receipt:
        return self.commit(
            "COMPACT", *(e.deletion() for e in inputs), *outputs, read_snapshot=read, user="compactor", **more
        )

    def renumber(self, entries: Sequence[ManifestEntry], above: int, by_clock: bool = True) -> Renumbered:
        """New files with numbers from the next hundred on, as a clock would give them."""
        self.asked.append(above)
        first = above + 100 - above % 100 if by_clock else above + 1
        made = [
            e._replace(
                file=e.file._replace(
                    file_name=e.file.file_name.replace(".parquet", "'.parquet"),
                    min_sequence_number=first,
                    max_sequence_number=first + e.file.max_sequence_number - e.file.min_sequence_number,
                )
            )
            for e in entries
        ]
        return Renumbered(tuple(made), tuple(PendingUpload(self.key_of(e), b"rows again") for e in made))

    def meanwhile(self, *others: Callable[[], Any]) -> None:
        """What other jobs do between the start of the next commit's work and its publish."""
        self.store.first = list(others)
