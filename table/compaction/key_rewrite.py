"""Carry out the compaction of one bucket of a table with a primary key.

Owns: `KeyRewriter`, which is pickled to executors: which files are merged, and which only move to another level.
Must not know: how files are chosen, commits. Source: format/primary-keys §7.
Invariants: The new files have exactly the rows that a read sees in the old ones. Rows that delete stay, unless the plan drops
them. Files of one level have no key in common. A rewrite that fails deletes its files, or names those it could not delete.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import pyarrow as pa

from ...backends.store import Store
from ...coordinator.commit.message import CommitMessage, PendingUpload
from ...coordinator.surroundings import MACHINE
from ...core import options as opt
from ...core.errors import Unsupported
from ...core.metadata.data_file import SOURCE_COMPACT, DataFile, IndexEntry
from ...core.metadata.schema import TableSchema
from ...core.metadata.schemas.merge_rules import POSTPONED, MergeRules
from ...core.metadata.schemas.record_expiry import record_expiry
from ...core.metadata.sorted_runs.lookup_rules import lookup_rules
from ...core.paths import TablePaths
from ..merging.sections import sections_of
from ..reading.expired import has_expired_rows
from ..reading.key_rows import KeyRowReader
from ..scan.fallback import FileSchemas
from ..scan.split import Split
from ..writing.files.key_files import KeyFileSettings, KeyFileWriter
from ..writing.unfinished import unfinished
from .key_lookup import KeyLookup, lookup_of
from .key_plan import BucketCompaction, check_key_compactable

_AT_ONCE = 4
"""How many buckets may be compacted at the same time in one process. They share option `read.merge-memory`."""

Section = tuple[DataFile, ...]
"""Files with overlapping keys, oldest first."""


@dataclass(frozen=True)
class KeyRewriter:
    """Compacts buckets. Rows are read and written with `schema`; a file is closed when it has grown to `target_bytes`."""

    store: Store
    schema: TableSchema
    file_schemas: FileSchemas
    target_bytes: int

    @cached_property
    def rules(self) -> MergeRules:
        return check_key_compactable(self.schema)

    def _schemas(self, group: BucketCompaction) -> dict[int, TableSchema]:
        return {
            schema_id: schema for (branch, schema_id), schema in self.file_schemas.items() if branch == group.branch
        }

    def reader(self, group: BucketCompaction, *, expired: bool = False) -> KeyRowReader:
        """Reads the files of a bucket; with `expired` also rows that have expired."""
        expiry = None if expired else record_expiry(self.schema)
        return KeyRowReader(self.schema, self.rules, self._schemas(group), expiry)

    def has_expired_rows(self, file: DataFile, group: BucketCompaction) -> bool:
        """Is a file written anew, because rows of it have expired?"""
        expiry = record_expiry(self.schema)
        return expiry is not None and has_expired_rows(
            expiry, file, lambda schema_id: self._schemas(group).get(schema_id, self.schema), MACHINE.wall_s()
        )

    def rewrite(self, group: Split, name: str) -> CommitMessage:
        """Merge the files of a `BucketCompaction` into files of its output level.

        The names of the new files are the table's prefix and `name`, which must be unique. Raises `Unsupported` if a column has
        become NOT NULL, but rows have nulls in it.
        """
        assert isinstance(group, BucketCompaction) and group.bucket != POSTPONED
        work = _Work(self, group, self._writer(group, name), self._lookup(group, name))
        with unfinished(self.store) as made:
            for writer in work.writers:
                made.writer(writer)
            work.run()
        index, uploads = work.vectors(f"index-{name}-0")
        return CommitMessage(
            group.partition,
            group.bucket,
            group.total_buckets,
            compact_before=tuple(work.before),
            compact_after=(*work.moved, *work.writer.files),
            changelog_files=tuple(file for writer in work.writers[1:] for file in writer.files),
            index_entries=index,
            uploads=uploads,
        )

    def _lookup(self, group: BucketCompaction, name: str) -> KeyLookup | None:
        rules = lookup_rules(self.schema, self.rules)
        if not rules.looks_up and not rules.writes_changelog:
            return None
        writer = self._changelog_writer(group, name) if rules.writes_changelog else None
        return lookup_of(
            self.store, self.schema, rules, self.reader(group, expired=True), self._schemas(group), group, writer
        )

    def _changelog_writer(self, group: BucketCompaction, name: str) -> KeyFileWriter:
        stem = f"{self.schema.options.get(opt.CHANGELOG_FILE_PREFIX)}{name}"
        folder = self._folder(group)
        return KeyFileWriter(self.store, self.schema, folder, stem, level=group.output_level, changelog=True)

    def _folder(self, group: BucketCompaction) -> str:
        paths = TablePaths(data_directory=self.schema.options.get(opt.DATA_FILE_DIRECTORY))
        return paths.bucket_dir(group.partition_path, group.bucket)

    def _writer(self, group: BucketCompaction, name: str) -> KeyFileWriter:
        settings = KeyFileSettings.of(self.schema, level=group.output_level)
        return KeyFileWriter(
            self.store,
            self.schema,
            self._folder(group),
            f"{self.schema.options.get(opt.DATA_FILE_PREFIX)}{name}",
            level=group.output_level,
            source=SOURCE_COMPACT,
            settings=replace(settings, files=replace(settings.files, target_bytes=self.target_bytes)),
        )


@dataclass
class _Work:
    """One bucket, section by section in the order of keys.

    Attributes:
        waiting: sections that are written into one row of files.
        before: the files that are replaced.
        moved: files that get another level, and are not rewritten.
    """

    rewriter: KeyRewriter
    group: BucketCompaction
    writer: KeyFileWriter
    lookup: KeyLookup | None = None
    waiting: list[Section] = field(default_factory=list)
    before: list[DataFile] = field(default_factory=list)
    moved: list[DataFile] = field(default_factory=list)

    @property
    def writers(self) -> list[KeyFileWriter]:
        """The writer of data files, and the one of a changelog if there is one."""
        changelog = None if self.lookup is None else self.lookup.changelog
        return [self.writer] if changelog is None else [self.writer, changelog]

    def vectors(self, name: str) -> tuple[tuple[IndexEntry, ...], tuple[PendingUpload, ...]]:
        vectors = None if self.lookup is None else self.lookup.vectors
        return ((), ()) if vectors is None else vectors.changes(name)

    def run(self) -> None:
        self._run()
        for writer in self.writers:
            writer.finish()

    def _run(self) -> None:
        if self.group.one_by_one:
            for file in self.group.files:
                self._write([(file,)])
            return
        options = self.rewriter.schema.options
        small = self.rewriter.target_bytes * options.get(opt.COMPACTION_SMALL_RATIO)
        for section in sections_of(self.group.files, self.rewriter.rules):
            if len(section) == 1 and section[0].file_size >= small:
                self._write_waiting()
                self._move(section[0])
            else:
                self.waiting.append(section)
        self._write_waiting()

    def _write_waiting(self) -> None:
        sections, self.waiting = self.waiting, []
        if len(sections) == 1 and len(sections[0]) == 1:
            self._move(sections[0][0])
        elif sections:
            self._write(sections)

    def _move(self, file: DataFile) -> None:
        """Give a file the output level; rewrite it if rows that delete must not be in that level."""
        group = self.group
        deletes = group.output_level == group.last_level and file.delete_row_count != 0
        forced = self.rewriter.schema.options.get(opt.COMPACTION_FORCE_REWRITE)
        if deletes or forced or self.rewriter.has_expired_rows(file, group):
            self._write([(file,)])
        elif file.level != group.output_level:
            upgrade = "move" if self.lookup is None else self.lookup.upgrade(file)
            if upgrade == "rewrite":
                self._write([(file,)], drop_deletes=self.rewriter.rules.has_vectors)
                return
            if upgrade == "compare":
                self._look_up(file)
            self.before.append(file)
            self.moved.append(file._replace(level=group.output_level))

    def _write(self, sections: Sequence[Section], drop_deletes: bool | None = None) -> None:
        """Merge sections into new files, which begin with the first and end with the last. `drop_deletes` overrules the plan."""
        drops = self.group.drops_deletes if drop_deletes is None else drop_deletes
        for section in sections:
            for batch in self._merged(section, drops):
                self._refuse_nulls(batch)
                self.writer.write(batch)
            self.before += section
            if self.lookup is not None:
                self.lookup.rewritten(section)
        self.writer.finish()

    def _merged(self, section: Section, drop_deletes: bool) -> Iterator[pa.RecordBatch]:
        reader, merge = self.rewriter.reader(self.group), None
        if self.lookup is not None and self.lookup.concerns(section):
            merge = self.lookup.merge
        store, indices = self.rewriter.store, self._indices(section)
        return reader.batches(store, self.group, indices, drop_deletes=drop_deletes, memory=self._memory, merge=merge)

    def _look_up(self, file: DataFile) -> None:
        if self.lookup is not None:
            reader = self.rewriter.reader(self.group)
            for window in reader.windows(self.rewriter.store, self.group, self._indices((file,)), memory=self._memory):
                self.lookup.moved(window.column)

    @property
    def _memory(self) -> int:
        return self.rewriter.schema.options.get(opt.MERGE_MEMORY) // _AT_ONCE

    def _indices(self, section: Section) -> list[int]:
        places = {file.file_name: i for i, file in enumerate(self.group.files)}
        return [places[file.file_name] for file in section]

    def _refuse_nulls(self, batch: pa.RecordBatch) -> None:
        for column in self.rewriter.schema.fields:
            if not column.type.nullable and batch.column(column.name).null_count:
                raise Unsupported(
                    f"column '{column.name}' has become NOT NULL, but files {self.group.keys[0]} … have nulls in it",
                    next_step="make the column nullable",
                )
