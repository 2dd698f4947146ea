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

from ...backends.elsewhere import delete_located
from ...backends.store import Store
from ...coordinator.commit.message import CommitMessage
from ...core import options as opt
from ...core.errors import LakelatchError, StoreUnavailable, Unsupported
from ...core.metadata.data_file import SOURCE_COMPACT, DataFile
from ...core.metadata.merge_rules import MergeRules
from ...core.metadata.schema import TableSchema
from ...core.paths import TablePaths
from ..merging.sections import sections_of
from ..reading.key_rows import KeyRowReader
from ..scan.fallback import FileSchemas
from ..scan.split import Split
from ..writing.key_files import KeyFileSettings, KeyFileWriter
from .key_plan import BucketCompaction, check_key_compactable

_AT_ONCE = 4
"""How many buckets may be compacted at the same time in one process. They share option `read.merge-memory`."""

Section = tuple[DataFile, ...]
"""Files with overlapping keys, oldest first."""


@dataclass(frozen=True)
class KeyRewriter:
    """Compacts buckets.

    Attributes:
        schema: the schema with which rows are read and written.
        file_schemas: the schemas that the files name.
        target_bytes: a file is closed when it has grown to this size.
    """

    store: Store
    schema: TableSchema
    file_schemas: FileSchemas
    target_bytes: int

    @cached_property
    def rules(self) -> MergeRules:
        return check_key_compactable(self.schema)

    def reader(self, group: BucketCompaction) -> KeyRowReader:
        """Reads the files of a bucket."""
        schemas = {
            schema_id: schema for (branch, schema_id), schema in self.file_schemas.items() if branch == group.branch
        }
        return KeyRowReader(self.schema, self.rules, schemas)

    def rewrite(self, group: Split, name: str) -> CommitMessage:
        """Merge the files of a bucket into files of its output level.

        Args:
            group: a `BucketCompaction`.
            name: a unique name, which follows the table's prefix in the names of the new files.

        Raises:
            TableCorrupt: a file is damaged, or its rows do not agree with its manifest.
            Unsupported: a column has become NOT NULL, but rows have nulls in it.
            StoreUnavailable: the store failed.
        """
        assert isinstance(group, BucketCompaction)
        work = _Work(self, group, self._writer(group, name))
        try:
            work.run()
        except BaseException as error:
            self._abandon(work.writer, error)
            raise
        return CommitMessage(
            group.partition,
            group.bucket,
            group.total_buckets,
            compact_before=tuple(work.before),
            compact_after=(*work.moved, *work.writer.files),
        )

    def _writer(self, group: BucketCompaction, name: str) -> KeyFileWriter:
        paths = TablePaths(data_directory=self.schema.options.get(opt.DATA_FILE_DIRECTORY))
        folder = paths.bucket_dir(group.partition_path, group.bucket)
        settings = KeyFileSettings.of(self.schema, level=group.output_level)
        return KeyFileWriter(
            self.store,
            self.schema,
            folder,
            f"{self.schema.options.get(opt.DATA_FILE_PREFIX)}{name}",
            level=group.output_level,
            source=SOURCE_COMPACT,
            settings=replace(settings, files=replace(settings.files, target_bytes=self.target_bytes)),
        )

    def _abandon(self, writer: KeyFileWriter, error: BaseException) -> None:
        writer.abort()
        try:
            delete_located(self.store, writer.written_keys)
        except StoreUnavailable:
            if isinstance(error, LakelatchError) and writer.written_keys:
                error.message += f"; files that could not be deleted: {', '.join(writer.written_keys)}"


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
    waiting: list[Section] = field(default_factory=list)
    before: list[DataFile] = field(default_factory=list)
    moved: list[DataFile] = field(default_factory=list)

    def run(self) -> None:
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
        if deletes or self.rewriter.schema.options.get(opt.COMPACTION_FORCE_REWRITE):
            self._write([(file,)])
        elif file.level != group.output_level:
            self.before.append(file)
            self.moved.append(file._replace(level=group.output_level))

    def _write(self, sections: Sequence[Section]) -> None:
        """Merge sections into new files, which begin with the first and end with the last."""
        for section in sections:
            for batch in self._merged(section):
                self._refuse_nulls(batch)
                self.writer.write(batch)
            self.before += section
        self.writer.finish()

    def _merged(self, section: Section) -> Iterator[pa.RecordBatch]:
        group = self.group
        places = {file.file_name: i for i, file in enumerate(group.files)}
        indices = [places[file.file_name] for file in section]
        reader = self.rewriter.reader(group)
        memory = self.rewriter.schema.options.get(opt.MERGE_MEMORY) // _AT_ONCE
        return reader.batches(self.rewriter.store, group, indices, drop_deletes=group.drops_deletes, memory=memory)

    def _refuse_nulls(self, batch: pa.RecordBatch) -> None:
        for column in self.rewriter.schema.fields:
            if not column.type.nullable and batch.column(column.name).null_count:
                raise Unsupported(
                    f"column '{column.name}' has become NOT NULL, but files {self.group.keys[0]} … have nulls in it",
                    next_step="make the column nullable",
                )
