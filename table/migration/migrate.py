"""Makes a table of a folder of plain files, without rewriting their rows.

Owns: `migrate`, `Migration`. Must not know: catalogs, Spark. Source: decision 66; format/manifests §6.
Invariants: nothing is written before every file has been looked at. All files come with one commit, under an identity that is
made of the folder, so that a run that was cut off is continued and never adds the files twice. Originals are deleted only after
that commit is known to have landed.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ...backends.elsewhere import location_of
from ...backends.files.folders import copy, remove_folders
from ...backends.registry import open_store
from ...backends.store import ObjectNotFound, Store
from ...coordinator.commit.message import CommitMessage, entries_of
from ...coordinator.commit.receipt import Receipt
from ...coordinator.commit.request import CommitRequest, Remarks
from ...coordinator.history.parallel import READ_THREADS
from ...coordinator.history.timeline import Timeline
from ...coordinator.maintenance.deletion import Progress
from ...coordinator.surroundings import MACHINE
from ...core import arguments
from ...core.errors import InvalidArgument, TableExists
from ...core.html_text import ShownAsText
from ...core.metadata.data_file import DataFile
from ...core.metadata.schema import TableSchema, new_schema
from ...core.paths import TablePaths
from ...core.places import codec_of
from ...core.rows.types import sql
from ..create import Schema, create_table, open_table
from ..table import Table
from .planning import Files, name_in_table, planned, table_columns, table_options, within
from .source import FORMATS, SourceFile, list_source

if TYPE_CHECKING:
    import pyarrow as pa

IDENTIFIER = 1


@dataclass(frozen=True)
class Migration(ShownAsText):
    """What a migration does.

    Attributes:
        folder, url: where the files are, and the table.
        schema: of the table.
        messages: the files by partition, as the manifest describes them.
        receipt: of the commit; None for a plan.
    """

    folder: str
    url: str
    schema: TableSchema
    messages: tuple[CommitMessage, ...]
    receipt: Receipt | None = None

    @property
    def files(self) -> tuple[DataFile, ...]:
        """The files, in the order of their partitions."""
        return tuple(file for message in self.messages for file in message.new_files)

    @property
    def row_count(self) -> int:
        """The rows of all files."""
        return sum(file.row_count for file in self.files)

    def __str__(self) -> str:
        parts = f" in {len(self.messages)} partitions" if self.schema.partition_keys else ""
        size = sum(file.file_size for file in self.files)
        done = f", snapshot {self.receipt.snapshot_id}" if self.receipt is not None else ""
        return f"{self.url}: {len(self.files)} files{parts}, {self.row_count} rows, {size} bytes of {self.folder}{done}"

    def to_dict(self) -> dict[str, Any]:
        """The migration with stable keys, ready for JSON."""
        return {
            "folder": self.folder,
            "url": self.url,
            "columns": {field.name: sql(field.type) for field in self.schema.fields},
            "partition_keys": list(self.schema.partition_keys),
            "files": len(self.files),
            "rows": self.row_count,
            "bytes": sum(file.file_size for file in self.files),
            "snapshot_id": self.receipt.snapshot_id if self.receipt is not None else None,
        }


def migrate(
    folder: str,
    url: str,
    *,
    format: str = "parquet",  # noqa: A002 - the name that users of file formats expect
    files: Files = "copy",
    schema: pa.Schema | Schema | None = None,
    options: Mapping[str, Any] | None = None,
    dry_run: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> Migration:
    """Make a table of a folder of plain files, with or without Hive partitions (`month=1/day=2/…`). No row is rewritten.

    The statistics of Parquet files are taken from their footers. The columns are those of all files together; a file that lacks
    one has nulls there. Run it again to continue a run that was cut off.

    Args:
        folder: where the files are: a path, `s3://bucket/path`, …
        url: the table to make.
        format: `parquet`, `orc` or `avro`.
        files: `copy` copies the files into the table, by the store itself where it can, and leaves the originals; `move` also
            deletes the originals after the commit; `reference` leaves the files where they are, and names that location in
            option `data-file.external-paths`. The table owns them then: expiry deletes those that no snapshot needs.
        schema: the columns, partition columns included; needed for Avro, and where the types of partition columns are not to be
            guessed from their texts.
        options: further options of the table.
        dry_run: change nothing.
        storage_options: options of both stores.
        progress: called with the number of files copied so far and their total.

    Returns:
        What was, or with `dry_run` would be, done. Prints as one line.

    Raises:
        InvalidArgument: the folder holds no files, or files that cannot be one table; names the file and the column.
        TableExists: there is a table with snapshots at the URL.

    >>> import pyarrow as pa, pyarrow.parquet as pq, tempfile, os, lakelatch as ll
    >>> folder = tempfile.mkdtemp(); os.makedirs(f"{folder}/plain/month=1")
    >>> pq.write_table(pa.table({"v": [1, 2]}), f"{folder}/plain/month=1/x.parquet")
    >>> ll.migrate(f"{folder}/plain", f"{folder}/table").row_count
    2
    >>> ll.open_table(f"{folder}/table").to_arrow().to_pylist()
    [{'v': 1, 'month': 1}, {'v': 2, 'month': 1}]
    """
    arguments.callback(progress, "progress")
    if format not in FORMATS:
        raise InvalidArgument(f"format {format!r} cannot be migrated", next_step=f"use one of {', '.join(FORMATS)}")
    if files not in ("copy", "move", "reference"):
        raise InvalidArgument(f"files={files!r}", next_step="use copy, move or reference")
    source, place = open_store(folder, storage_options), open_store(url, storage_options)
    if within(source.url, place.url) or within(place.url, source.url):
        raise InvalidArgument(f"{url} and {folder} lie within each other", next_step="choose another URL for the table")
    user = f"lakelatch-migrate-{uuid.uuid5(uuid.NAMESPACE_URL, location_of(source)).hex}"
    earlier = _earlier(source, place, user, storage_options)
    if earlier is not None:
        if files == "move" and not dry_run:
            _delete_originals(source, format, {file.file_name for file in earlier.files})
        return earlier
    found = list_source(source)
    given = table_options(source, options, format, files)
    fields, partition_by = table_columns(source, found, format, schema)
    made = new_schema(fields, partition_keys=partition_by, options=given, time_ms=MACHINE.wall_ms)
    plan = Migration(source.url, place.url, made, planned(source, found, format, files, made))
    if dry_run:
        return plan
    target = create_table(
        url, Schema(fields), partition_by=partition_by, options=given, exist_ok=True, storage_options=storage_options
    )
    if target.snapshot() is not None or target.schema.fields != made.fields or target.options != given:
        raise TableExists(f"there is another table at {target.url}", next_step="choose another URL, or drop that table")
    if files != "reference":
        _copy(source, target, {name_in_table(source, file, format, files): file for file in found}, plan, progress)
    receipt = target.committer.commit(
        CommitRequest("APPEND", entries_of(plan.messages), user, IDENTIFIER, remarks=Remarks("WRITE"))
    )
    target.committer.settle()
    if files == "move":
        _delete_originals(source, format, {file.file_name for file in plan.files})
    return replace(plan, receipt=receipt)


def _earlier(source: Store, place: Store, user: str, storage_options: Mapping[str, Any] | None) -> Migration | None:
    """This migration, if its commit landed before."""
    if not Timeline(place, TablePaths()).schema_ids():
        return None
    table = open_table(place.url, storage_options=storage_options)
    receipt = table.committer.lookup(user, IDENTIFIER)
    if receipt is None:
        return None
    snapshot = table.timeline.find(receipt.snapshot_id)
    delta = table.timeline.entries(table.timeline.delta_manifests(snapshot)) if snapshot is not None else []
    messages = tuple(CommitMessage(e.partition, e.bucket, e.total_buckets, (e.file,)) for e in delta)
    return Migration(source.url, place.url, table.schema, messages, receipt)


def _copy(
    source: Store, target: Table, names: Mapping[str, SourceFile], plan: Migration, progress: Progress | None
) -> None:
    """Copy the files that an earlier run has not copied."""
    codec = codec_of(plan.schema)
    todo = [
        (target.paths.data_file(codec.path(message.partition), 0, made.file_name), names[made.file_name])
        for message in plan.messages
        for made in message.new_files
    ]

    def one(pair: tuple[str, SourceFile]) -> None:
        key, file = pair
        try:
            if target.store.head(key).size == file.size:
                return
        except ObjectNotFound:
            pass
        copy(source, file.key, target.store, key, file.size)

    with MACHINE.executor(READ_THREADS, "lakelatch-migrate") as pool:
        for done, _ in enumerate(pool.map(one, todo), start=1):
            if progress is not None:
                progress(done, len(todo))


def _delete_originals(source: Store, file_format: str, landed: Collection[str]) -> None:
    """Delete the files of the folder that are in the table by now, and no others: more may have come since."""
    try:
        found = list_source(source)
    except InvalidArgument:  # they are gone already
        return
    source.delete_many([f.key for f in found if name_in_table(source, f, file_format, "move") in landed])
    remove_folders(source)
