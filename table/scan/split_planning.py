"""Make splits from live files, and mark the files that only lakelatch's reader may open.

Owns: `SplitPlanner`. Must not know: predicates, how files are read. Source: format/deletion-vectors §1; format/statistics §4.

Invariants: Every file is in exactly one split. Files that Spark's own reader would misread are not in one split with files that
it reads correctly. A file's split has the location of its deletion vector.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate

import pyarrow as pa
import pyarrow.compute as pc

from ...core import options as opt
from ...core.errors import TableCorrupt
from ...core.metadata.data_file import DataFile, DeletionVectorRange, IndexEntry, ManifestEntry
from ...core.metadata.deletion_vector import INDEX_TYPE
from ...core.metadata.file_columns import FileColumns
from ...core.metadata.manifest_columns import EntryColumns
from ...core.metadata.schema import TableSchema
from ...core.metadata.schemas.merge_rules import merge_rules
from ...core.paths import DEFAULT_BRANCH, format_of
from ...core.places import FileKeys, FilePlaces, codec_of
from ...core.rows.types import Field, RowType, with_nullable
from ...core.typed import Array
from ..merging.sections import groups_of, sorted_runs
from .column_splits import ColumnSplits, column_splits, have_own_names, live_parts
from .row_runs import row_runs
from .split import DELETED_ROWS, DeletionVectorPlace, Split, pack

_Vectors = dict[tuple[bytes, int, str], tuple[IndexEntry, DeletionVectorRange]]


class SplitPlanner:
    """Makes the splits of one snapshot, whose live index files are `index`. `named_by` is its file, for errors.

    Without `merges`, the stored rows of a table with a primary key are read as they are, all versions of them.
    """

    def __init__(
        self,
        schema: TableSchema,
        schema_of: Callable[[int], TableSchema],
        index: Iterable[IndexEntry],
        branch: str = DEFAULT_BRANCH,
        named_by: str = "",
        merges: bool = True,
    ) -> None:
        self._schema, self._schema_of, self._branch, self._named_by = schema, schema_of, branch, named_by
        self._codec, self._places, self._keys = codec_of(schema), FilePlaces.of(schema.options), FileKeys(schema)
        self._vectors, self._rules = _vectors(index), merge_rules(schema) if merges else None
        self._target = schema.options.get(opt.SPLIT_TARGET_SIZE)
        self._open_cost = schema.options.get(opt.SPLIT_OPEN_COST)
        self._differences: dict[int, str | None] = {}
        self._paths: dict[bytes, str] = {}

    def splits(self, entries: Iterable[ManifestEntry]) -> tuple[Split, ...]:
        """Pack the files of each (partition, bucket) into splits. The groups keep the order in which they first appear."""
        return tuple(split for empty, files in self._by_bucket(entries) for split in self._of_bucket(empty, files))

    def plain_splits(self, parts: Sequence[list[ManifestEntry] | tuple[EntryColumns, Array]]) -> ColumnSplits | None:
        """The splits of entries that are columns, where all their files are plain; None where one may not be.

        Files are plain if each has rows of its own, which Spark's own reader would read too: Parquet in the table's folder,
        without deleted rows, and in a schema with the same columns.
        """
        if self._rules is not None or self._vectors or self._schema.options.get(opt.DATA_EVOLUTION):
            return None
        columns = [part for part in parts if not isinstance(part, list)]
        files = live_parts(columns) if len(columns) == len(parts) else None
        if not files or not all(map(self._are_plain, files)):
            return None
        names = [part.column("file_name") for part in files]
        if not all(map(_are_plain_names, names)) or not have_own_names(names):
            return None
        return column_splits(files, self._target, self._open_cost, self._plain_split)

    def _are_plain(self, files: FileColumns) -> bool:
        for partition in pc.unique(files.column("partition")).to_pylist():
            self._empty(partition, 0, 0)  # a partition that is damaged is found by the plan, not by the read
        same = all(self._difference_of(i) is None for i in pc.unique(files.column("schema_id")).to_pylist())
        return same and files.column("external_path").null_count == len(files)

    def _plain_split(self, partition: bytes, bucket: int, total: int, files: Sequence[DataFile]) -> Split:
        return self._split(self._empty(partition, bucket, total), files, ())

    def whole_buckets(self, entries: Iterable[ManifestEntry]) -> tuple[Split, ...]:
        """One split with all files of each (partition, bucket), to be rewritten; errors as for `splits`."""
        return tuple(self._split(empty, files, ()) for empty, files in self._by_bucket(entries))

    def _by_bucket(self, entries: Iterable[ManifestEntry]) -> Iterator[tuple[Split, list[DataFile]]]:
        """The files of each (partition, bucket), and a split of it without files."""
        if self._rules is not None:
            entries = list(entries)
            totals = {(e.partition, e.bucket): e.total_buckets for e in entries}
            entries = [e._replace(total_buckets=totals[e.partition, e.bucket]) for e in entries]
        groups: dict[tuple[bytes, int, int], list[DataFile]] = {}
        for entry in entries:
            groups.setdefault((entry.partition, entry.bucket, entry.total_buckets), []).append(entry.file)
        for (partition, bucket, total), files in groups.items():
            yield self._empty(partition, bucket, total), files

    def _empty(self, partition: bytes, bucket: int, total: int) -> Split:
        path = self._paths.get(partition)
        if path is None:
            path = self._paths[partition] = self._codec.path(partition)
        return Split(partition, path, bucket, total, (), (), branch=self._branch, named_by=self._named_by)

    def _of_bucket(self, empty: Split, files: Sequence[DataFile]) -> Iterator[Split]:
        if self._schema.options.get(opt.DATA_EVOLUTION):
            runs = row_runs(files)
            for run in runs:
                if len(run) > 1:
                    yield self._split(empty, run, ["files hold columns of each other's rows"], is_one_run=True)
            files = [run[0] for run in runs if len(run) == 1]
        if self._rules is not None:
            groups = groups_of(files, self._rules)
            yield from self._merged(empty, [g.files for g in groups if not g.is_raw])
            files = [file for g in groups if g.is_raw for file in g.files]
        reasons = [self._reasons(empty, file) for file in files]
        for kind in ((), (DELETED_ROWS,), None):  # in splits of their own: a split's reasons are those of all its files
            chosen = [(file, why) for file, why in zip(files, reasons, strict=True) if kind == _kind(why)]
            for packed in pack(chosen, self._target, self._open_cost):
                yield self._split(empty, [file for file, _ in packed], sorted({r for _, why in packed for r in why}))

    def _merged(self, empty: Split, sections: Sequence[Sequence[DataFile]]) -> Iterator[Split]:
        """Splits of sections, whole ones, packed to about the target size."""
        as_one = [(s[0]._replace(file_size=sum(f.file_size for f in s)), s) for s in sections]
        for packed in pack(as_one, self._target, self._open_cost):
            files = [file for _, section in packed for file in section]
            ends = list(accumulate(len(section) for _, section in packed))
            split = self._split(empty, files, ["rows of one primary key are merged"])
            yield replace(
                split,
                sections=tuple(tuple(range(a, b)) for a, b in zip([0, *ends], ends, strict=False)),
                section_runs=tuple(self._runs(section) for _, section in packed),
            )

    def _runs(self, section: Sequence[DataFile]) -> int:
        assert self._rules is not None
        return len(sorted_runs(section, self._rules))

    def _split(
        self, empty: Split, files: Sequence[DataFile], reasons: Sequence[str], is_one_run: bool = False
    ) -> Split:
        places = tuple(self._deletion(empty, file) for file in files)
        return replace(
            empty,
            files=tuple(files),
            keys=self._places.keys(empty.partition_path, empty.bucket, files),
            needs_arrow=tuple(reasons),
            deletions=places if any(places) else (),
            is_one_run=is_one_run,
        )

    def _deletion(self, split: Split, file: DataFile) -> DeletionVectorPlace | None:
        found = self._vectors.get((split.partition, split.bucket, file.file_name))
        if found is None:
            return None
        entry, vector = found
        outside = entry.file.external_path
        return DeletionVectorPlace(
            self._keys.index(entry) if outside is None else self._places.external(outside), vector
        )

    def _reasons(self, split: Split, file: DataFile) -> list[str]:
        """The reasons why a reader that finds columns by the current schema's names and types would misread a file."""
        reasons = []
        difference = self._difference_of(file.schema_id)
        if difference is not None:
            reasons.append(difference)
        file_format = format_of(file.file_name)
        if file_format != "parquet":
            reasons.append(f"files have format {file_format}")
        if file.external_path is not None:
            reasons.append("files are outside the table's folder")
        if (split.partition, split.bucket, file.file_name) in self._vectors:
            reasons.append(DELETED_ROWS)
        return reasons

    def _difference_of(self, schema_id: int) -> str | None:
        if schema_id not in self._differences:
            self._differences[schema_id] = _difference(self._schema_of(schema_id), self._schema)
        return self._differences[schema_id]


def _are_plain_names(names: pa.Array) -> bool:
    """Are all files Parquet, and below their folder?"""
    joined = names.buffers()[2]
    texts = joined.to_pybytes() if joined is not None else b""
    is_bad = any(part in texts for part in (b"/", b"\\", b"\0"))
    return not is_bad and bool(pc.all(pc.ends_with(names, ".parquet"), min_count=0).as_py())


def _kind(reasons: Sequence[str]) -> tuple[str, ...] | None:
    """The reasons, if Spark's own reader can read such a file nevertheless; None for all others."""
    found = tuple(reasons)
    return found if found in ((), (DELETED_ROWS,)) else None


def _vectors(index: Iterable[IndexEntry]) -> _Vectors:
    """The deletion vectors by place and data file. A file with two is refused: one alone brings back what the other deletes."""
    vectors: _Vectors = {}
    for entry in index:
        for vector in entry.file.deletion_vectors or () if entry.file.index_type == INDEX_TYPE else ():
            owner = (entry.partition, entry.bucket, vector.data_file)
            if owner in vectors:
                names = f"{vectors[owner][0].file.file_name} and {entry.file.file_name}"
                raise TableCorrupt(f"index files {names} both hold a deletion vector of data file {vector.data_file}")
            vectors[owner] = (entry, vector)
    return vectors


def _difference(written: TableSchema, read: TableSchema) -> str | None:
    """Why a file's columns cannot be found by the current schema's names and types; None if they can."""
    if written.id == read.id:
        return None
    by_id = {f.id: f for f in written.fields}
    for field in read.fields:
        old = by_id.get(field.id)
        if old is None and field.name in written.by_name:
            return f"schema {written.id} has another column '{field.name}'"
        if old is not None and old.name != field.name:
            return f"schema {written.id} calls column '{field.name}' '{old.name}'"
        if old is not None and not _same_type(old, field):
            return f"schema {written.id} has another type for column '{field.name}'"
    return None


def _same_type(old: Field, new: Field) -> bool:
    if isinstance(old.type, RowType) and isinstance(new.type, RowType):
        return old.type.fields == new.type.fields
    return with_nullable(old.type, True) == with_nullable(new.type, True)
