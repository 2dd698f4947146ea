"""Give existing data files the indexes that the table's options name now.

Owns: `plan_indexes`, `rewrite_indexes`, `IndexRewrite`. Must not know: how an index is built, how commits are made.
Source: format/file-indexes §1, §5; format/commit §3; H13.

Invariants: Data files stay as they are: each is described anew, with another index. An index covers all rows of its file, also
those that a deletion vector marks. Index files of earlier snapshots are never overwritten. Files that other commits change
meanwhile are left to them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any

import pyarrow as pa

from ..backends.store import Store
from ..coordinator.commit.committer import Committer
from ..coordinator.commit.message import CommitMessage, PendingUpload
from ..coordinator.commit.receipt import Receipt
from ..coordinator.commit.request import Redescription
from ..coordinator.history.timeline import Timeline
from ..coordinator.maintenance.deletion import Progress
from ..coordinator.surroundings import MACHINE
from ..core import options as opt
from ..core.errors import Unsupported
from ..core.expressions.tree import Predicate
from ..core.file_index.options import IndexSpec, index_specs, takes
from ..core.file_index.writing import FileIndexBuilder
from ..core.html_text import ShownAsText
from ..core.metadata.data_file import DataFile
from ..core.metadata.folding import live
from ..core.metadata.schema import TableSchema
from ..core.metadata.schemas.merge_rules import POSTPONED
from ..core.paths import INDEX_SUFFIX, format_of
from ..core.places import FileKeys, codec_of, is_external
from ..core.rows.types import AtomicType, Field, MapType
from ..core.statistics.pruning import PartitionTest
from .compaction.plan import CompactionPlan, chosen_partitions
from .compaction.run import GivenUp, run_compaction
from .formats.external import located
from .reading.arrow import SplitReader
from .scan.index_pruning import beside, embedded_index, sidecar_of
from .scan.plan import may_hold
from .scan.split import Split
from .scan.split_planning import SplitPlanner

GROUP_BYTES = 256 << 20
"""The files whose indexes one thread makes, one after the other."""
THREADS = 4


@dataclass(frozen=True)
class IndexRewrite(ShownAsText):
    """What `rewrite_file_index` did, or with `dry_run` would do. Prints as one line.

    Attributes:
        plan: the files that get another index, or lose one that the options do not name any more.
        unchanged: how many files were described as they would be, so that they were left alone.
        given_up: groups that other commits changed first. Run it again for the files that are left of them.
    """

    plan: CompactionPlan
    receipts: tuple[Receipt, ...] = ()
    files: int = 0
    given_up: tuple[GivenUp, ...] = ()
    unchanged: int = 0

    def __str__(self) -> str:
        if not self.plan.groups:
            return f"nothing to index: {self.plan.files_considered} files"
        if not self.receipts and not self.given_up and self.unchanged:
            return f"nothing to change: {self.unchanged} files have these indexes"
        if not self.receipts and not self.given_up:
            return f"{self.plan.file_count} of {self.plan.files_considered} files, {self.plan.row_count} rows, get other indexes"
        ids = ", ".join(str(receipt.snapshot_id) for receipt in self.receipts) or "none"
        given = f"; {len(self.given_up)} groups were given up: {self.given_up[0].reason}" if self.given_up else ""
        many = ("" if self.files == 1 else "s", "" if len(self.receipts) == 1 else "s")
        return f"{self.files} file{many[0]} got other indexes, snapshot{many[1]} {ids}{given}"

    def to_dict(self) -> dict[str, Any]:
        """As plain values, with stable keys."""
        return {
            "files_considered": self.plan.files_considered,
            "files_to_index": self.plan.file_count,
            "row_count": self.plan.row_count,
            "files_indexed": self.files,
            "files_unchanged": self.unchanged,
            "receipts": [receipt.to_dict() for receipt in self.receipts],
            "given_up": [group.to_dict() for group in self.given_up],
        }


def plan_indexes(
    timeline: Timeline, schema: TableSchema, where: Predicate | str | None = None, full: bool = False
) -> CompactionPlan:
    """Find the files whose indexes are not those that the options name; with `full`, all, as settings may have changed.

    `Unsupported`: the table has data evolution. `InvalidArgument`: the predicate chooses rows, or an option names no such column.
    """
    if schema.options.get(opt.DATA_EVOLUTION):
        raise Unsupported(
            f"rewriting file indexes of a table with option '{opt.DATA_EVOLUTION.key}' is not supported yet",
            next_step="its reads do not use indexes of rows in several files",
        )
    maker = IndexMaker(timeline, schema)
    snapshot = timeline.latest()
    if snapshot is None:
        return CompactionPlan(None, 0)
    chosen = chosen_partitions(where, schema)
    codec = codec_of(schema)
    manifests = [m for m in timeline.manifests(snapshot) if chosen is None or may_hold(m, chosen, codec)]
    found = timeline.entries(manifests)
    if chosen is not None:
        kept = PartitionTest(chosen, codec).kept([e.partition for e in found])
        found = list(compress(found, kept))
    entries = [e for e in live(found) if e.bucket != POSTPONED]
    index = tuple(timeline.index_entries(snapshot))
    planner = SplitPlanner(
        schema, maker.schema_of, index, timeline.paths.branch, timeline.file_of(snapshot), merges=False
    )
    buckets = planner.whole_buckets(entries)
    due = [_of_files(bucket, _due(bucket, maker, timeline, full)) for bucket in buckets]
    groups = tuple(group for bucket in due for group in _groups(bucket))
    return CompactionPlan(snapshot, 0, groups, len(entries), index)


def _due(bucket: Split, maker: IndexMaker, timeline: Timeline, full: bool) -> list[int]:
    def is_due(i: int) -> bool:
        wanted = frozenset((spec.name, spec.kind) for spec in maker.specs(bucket.files[i]))
        return (full and bool(wanted)) or wanted != _existing(timeline.store, bucket.files[i], bucket.keys[i])

    places = range(len(bucket.files))
    return [i for i, due in zip(places, timeline.parallel(is_due, places), strict=True) if due]


def _existing(store: Store, file: DataFile, key: str) -> frozenset[tuple[str, str]]:
    if file.embedded_file_index is not None:
        return embedded_index(file).kinds
    sidecar = sidecar_of(file, key)
    return frozenset() if sidecar is None else beside(store, sidecar, file).kinds


def _of_files(bucket: Split, places: Sequence[int]) -> Split:
    return replace(
        bucket,
        files=tuple(bucket.files[i] for i in places),
        keys=tuple(bucket.keys[i] for i in places),
        deletions=tuple(bucket.deletions[i] for i in places) if bucket.deletions else (),
    )


def _groups(bucket: Split) -> Iterator[Split]:
    places: list[int] = []
    size = 0
    for i, file in enumerate(bucket.files):
        places.append(i)
        size += file.file_size
        if size >= GROUP_BYTES:
            yield _of_files(bucket, places)
            places, size = [], 0
    if places:
        yield _of_files(bucket, places)


def rewrite_indexes(
    committer: Committer,
    timeline: Timeline,
    schema: TableSchema,
    plan: CompactionPlan,
    progress: Progress | None = None,
) -> IndexRewrite:
    """Carry out a plan, with a commit for each gigabyte of data files; errors as for a compaction."""
    maker = IndexMaker(timeline, schema)

    def rewrite(groups: Sequence[Split]) -> list[CommitMessage]:
        with MACHINE.executor(THREADS, "lakelatch-index") as pool:
            made = list(pool.map(maker.message, groups))
        unchanged.append(sum(len(group.files) - len(m.compact_before) for group, m in zip(groups, made, strict=True)))
        return [message for message in made if message.compact_before]

    unchanged: list[int] = []
    done = run_compaction(committer, timeline, schema, plan, rewrite, request=Redescription, progress=progress)
    return IndexRewrite(plan, done.receipts, done.files_after, done.given_up, sum(unchanged))


class IndexMaker:
    """Makes the indexes of existing files, from their rows as they are stored."""

    def __init__(self, timeline: Timeline, schema: TableSchema) -> None:
        self._timeline, self._schema = timeline, schema
        self._wanted = index_specs(schema.fields, schema.option_texts)
        self._most_embedded = schema.options.get(opt.FILE_INDEX_IN_MANIFEST)
        self._keys = FileKeys(schema)
        self._specs: dict[tuple[int, bool], tuple[IndexSpec, ...]] = {}

    def schema_of(self, schema_id: int) -> TableSchema:
        return self._schema if schema_id == self._schema.id else self._timeline.schema(schema_id)

    def specs(self, file: DataFile) -> tuple[IndexSpec, ...]:
        """The indexes of a file, in terms of the columns that it was written with."""
        layout = file.schema_id, format_of(file.file_name) == "orc"
        if layout not in self._specs:
            written = {f.id: f for f in self.schema_of(file.schema_id).fields}
            found = (self._as_written(spec, written, layout[1]) for spec in self._wanted)
            self._specs[layout] = tuple(spec for spec in found if spec is not None)
        return self._specs[layout]

    def _as_written(self, spec: IndexSpec, written: dict[int, Field], is_orc: bool) -> IndexSpec | None:
        old = written.get(self._schema.by_name[spec.column].id)
        if old is None:
            return None
        kind = old.type.value if spec.key is not None and isinstance(old.type, MapType) else old.type
        if not isinstance(kind, AtomicType) or not takes(spec.kind, kind):
            return None
        if is_orc and kind.root == "CHAR":
            return None  # ORC has dropped the blanks at the end, which an index of the file's writer may have
        return replace(spec, column=old.name, data_type=kind)

    def message(self, group: Split) -> CommitMessage:
        """The files of a group with their new indexes. The bytes of index files travel with the commit.

        Nothing is stored beside a file of another table: its index goes into the manifest, however large. A file whose index
        comes out as it was is left out: a DELETE and an ADD of one identity would lose it (format/manifests §4).
        """
        before, made, uploads = list[DataFile](), list[DataFile](), list[PendingUpload]()
        for file, key in zip(group.files, group.keys, strict=True):
            specs = self.specs(file)
            index = self._index(group, file, key, specs) if specs else None
            others = tuple(name for name in file.extra_files if not name.endswith(INDEX_SUFFIX))
            beside_it = index is not None and len(index) > self._most_embedded and not self._keys.is_others(key)
            if index is not None and beside_it:
                name = f"{file.file_name}.{MACHINE.new_uuid()}{INDEX_SUFFIX}"
                uploads += self._stored(key[: len(key) - len(file.file_name)] + name, index)
                others = (*others, name)
            described = file._replace(extra_files=others, embedded_file_index=None if beside_it else index)
            if described != file:
                before.append(file)
                made.append(described)
        return CommitMessage(
            group.partition,
            group.bucket,
            group.total_buckets,
            compact_before=tuple(before),
            compact_after=tuple(made),
            uploads=tuple(uploads),
        )

    def _index(self, group: Split, file: DataFile, key: str, specs: Iterable[IndexSpec]) -> bytes:
        """The index of all rows of a file, also of those that are deleted."""
        written = self.schema_of(file.schema_id)
        alone = replace(group, files=(file,), keys=(key,), deletions=(), sections=(), section_runs=(), is_one_run=False)
        names = list(dict.fromkeys(spec.column for spec in specs))
        reader = SplitReader(written, names, None, {(group.branch, file.schema_id): written})
        builder = FileIndexBuilder(tuple(specs))
        for batch in reader.batches(self._timeline.store, [alone]):
            builder.add(pa.Table.from_batches([batch]))
        return builder.finish()

    def _stored(self, key: str, index: bytes) -> list[PendingUpload]:
        if not is_external(key):
            return [PendingUpload(key, index)]
        store, inside = located(self._timeline.store, key)
        store.put(inside, index)
        return []
