"""Rows of a table with postponed buckets (`bucket` = -2): set aside for a compaction, or put into real buckets at once.

Owns: `PostponedBuckets`, `SettledBuckets`, and `PostponedWriter`, which names and writes files that are set aside. Must not
know: commits, how such files are compacted. Source: format/binary-row §5.
Invariants: Rows that are set aside keep the order in which they came, all versions of a key. All files of a partition in real
buckets have one number of buckets.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from zlib import crc32

import numpy as np
import pyarrow as pa

from ....backends.store import Store
from ....core import options as opt
from ....core.errors import LakelatchError
from ....core.metadata.data_file import PartitionBucket
from ....core.metadata.hash_index import BucketHashes
from ....core.metadata.schema import ROW_SEQUENCE, TableSchema
from ....core.paths import POSTPONE_BUCKET
from ....core.places import codec_of
from ....core.rows.bucket import BucketFunction, buckets
from ...formats.writing import output_of
from ..files.key_files import KeyFileSettings, KeyFileWriter
from .placement import Placed, by_place, cut, partition_numbers

UNKNOWN_SEQUENCE = -1
"""The sequence number of rows that are set aside: the compaction numbers them."""
_NOT_IN_NAMES = re.compile(r"[^\w.-]|-s-|-w-")


class PostponedBuckets:
    def __init__(self, schema: TableSchema) -> None:
        self._codec = codec_of(schema)

    def place(self, batch: pa.RecordBatch) -> Placed:
        codes, partitions = partition_numbers(self._codec, batch)
        yield from cut(batch, codes, [(partition, POSTPONE_BUCKET) for partition in partitions])

    def rest(self) -> Placed:
        yield from ()

    def total_buckets(self, partition: bytes) -> int:
        return POSTPONE_BUCKET

    def hashes(self, place: PartitionBucket) -> BucketHashes | None:
        return None


class SettledBuckets:
    """Puts rows into real buckets (option `postpone.batch-write-fixed-bucket`), as many as `count_of` says the partition has."""

    def __init__(self, schema: TableSchema, count_of: Callable[[bytes], int | None]) -> None:
        self._codec, self._count_of = codec_of(schema), count_of
        self._default = schema.options.get(opt.POSTPONE_DEFAULT_BUCKETS)
        self._keys = [schema.by_name[name] for name in schema.bucket_keys]
        self._function = BucketFunction.parse(schema.options.get(opt.BUCKET_FUNCTION))
        self._counts: dict[bytes, int] = {}

    def place(self, batch: pa.RecordBatch) -> Placed:
        codes, partitions = partition_numbers(self._codec, batch)
        for (partition, _), rows in cut(batch, codes, [(p, POSTPONE_BUCKET) for p in partitions]):
            total = self.total_buckets(partition)
            yield from by_place(self._codec, rows, buckets(rows, self._keys, total, self._function))

    def rest(self) -> Placed:
        yield from ()

    def total_buckets(self, partition: bytes) -> int:
        if partition not in self._counts:
            self._counts[partition] = self._count_of(partition) or self._default
        return self._counts[partition]

    def hashes(self, place: PartitionBucket) -> BucketHashes | None:
        return None


@dataclass(frozen=True)
class PostponedForm:
    """How the files of one job that are set aside are written. Their names begin with `prefix`."""

    schema: TableSchema
    files: KeyFileSettings
    prefix: str

    @staticmethod
    def of(schema: TableSchema, commit_user: str, job: str) -> PostponedForm:
        """Read the table's options. The job's name gives it a number that no other job of the user has."""
        prefix = postponed_prefix(schema.options.get(opt.DATA_FILE_PREFIX), commit_user, crc32(job.encode()) >> 1)
        changed = postponed_schema(schema)
        return PostponedForm(changed, KeyFileSettings.of(changed), prefix)


class PostponedWriter(KeyFileWriter):
    """Writes rows as they come: unsorted, all versions of a key, without sequence numbers."""

    def __init__(self, store: Store, form: PostponedForm, folder: str, stem: str, travelling: bool) -> None:
        super().__init__(store, form.schema, folder, form.prefix + stem, settings=form.files, travelling=travelling)
        self._columns = form.files.rows

    def write(self, batch: pa.RecordBatch) -> None:
        numbers = pa.array(np.full(batch.num_rows, UNKNOWN_SEQUENCE, np.int64))
        arrays = [numbers if name == ROW_SEQUENCE.name else batch.column(name) for name in self._columns.names]
        super().write(pa.RecordBatch.from_arrays(arrays, schema=self._columns))


def postponed_schema(schema: TableSchema) -> TableSchema:
    """The schema with the options of files that are set aside: Avro without statistics, where Avro can hold the columns."""
    texts = dict(schema.option_texts)
    as_avro = texts | {opt.FILE_FORMAT.key: "avro", opt.STATS_MODE.key: "none"}
    changed = replace(schema, option_texts=as_avro)
    try:
        output_of(changed)
    except LakelatchError:
        return schema
    return changed


def postponed_prefix(prefix: str, commit_user: str, write_id: int) -> str:
    """The start of the names of a writer's files, which a compaction reads in their order. `write_id` is this writer's alone.

    >>> postponed_prefix("data-", "a job", 7)
    'data--u-a_job-s-7-w-'
    """
    return f"{prefix}-u-{_NOT_IN_NAMES.sub('_', commit_user)}-s-{write_id}-w-"
