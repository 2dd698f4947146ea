"""Moves keys that were written into one dynamic bucket to another, where another job has put them meanwhile.

Owns: `with_moved_keys`. Must not know: how such keys are found, commits. Source: format/binary-row §5; decision 45.
Invariants: Only files that hold such keys are written again. Rows keep their sequence numbers, kinds and order. Nothing is
deleted here.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from ..coordinator.commit.message import CommitMessage, PendingUpload
from ..coordinator.history.timeline import Timeline
from ..core import options as opt
from ..core.metadata.data_file import ADD, DataFile, ManifestEntry, PartitionBucket
from ..core.metadata.hash_index import BucketHashes, MovedKeys, decode_hashes, encode_hashes
from ..core.metadata.schema import TableSchema
from ..core.metadata.schemas.merge_rules import row_fields
from ..core.paths import TablePaths
from ..core.places import FileKeys, codec_of
from ..core.rows.bucket import key_hashes
from ..core.rows.whole import one_batch, taken
from ..core.typed import Array
from .formats.external import located
from .reading.run_reader import RunReader
from .writing.buckets.placement import NO_TOTAL_BUCKETS
from .writing.files.key_files import KeyFileWriter, arrow_rows


@dataclass
class _Moved:
    """The files that rows of one bucket become; `kept` have no key to move.

    Those in `uploads` travel with the commit: a later move finds them beside their files.
    """

    kept: list[DataFile] = field(default_factory=list)
    made: dict[int, list[DataFile]] = field(default_factory=dict)
    uploads: dict[int, list[PendingUpload]] = field(default_factory=dict)


def with_moved_keys(
    timeline: Timeline, schema: TableSchema, messages: Sequence[CommitMessage], moves: Sequence[MovedKeys]
) -> list[CommitMessage]:
    """The messages of a job, in which new files replace those with keys that move."""
    return _Mover(timeline, schema).messages(messages, moves)


class _Mover:
    def __init__(self, timeline: Timeline, schema: TableSchema) -> None:
        self._timeline, self._schema = timeline, schema
        self._keys = [schema.by_name[name] for name in schema.trimmed_primary_keys]
        self._paths = TablePaths(data_directory=schema.options.get(opt.DATA_FILE_DIRECTORY))
        self._stem = uuid.uuid4()
        self._count = 0

    def messages(self, messages: Sequence[CommitMessage], moves: Sequence[MovedKeys]) -> list[CommitMessage]:
        by_place: dict[PartitionBucket, list[MovedKeys]] = {}
        for move in moves:
            by_place.setdefault((move.partition, move.bucket), []).append(move)
        out: list[CommitMessage] = []
        for message in messages:
            found = by_place.get((message.partition, message.bucket))
            out.extend([message] if found is None or message.hashes is None else self._divided(message, found))
        return out

    def _divided(self, message: CommitMessage, moves: Sequence[MovedKeys]) -> Iterator[CommitMessage]:
        """The messages that one message becomes: what stays, then one for each bucket that keys move to."""
        assert message.hashes is not None
        uploads = {u.key: u for u in message.uploads}
        data = self._files(message, message.new_files, moves, uploads, changelog=False)
        changelog = self._files(message, message.changelog_files, moves, uploads, changelog=True)
        gone = _hashes(b"".join(move.hashes for move in moves))
        yield replace(
            message,
            new_files=(*data.kept, *data.made.get(message.bucket, ())),
            changelog_files=(*changelog.kept, *changelog.made.get(message.bucket, ())),
            uploads=(*uploads.values(), *_uploads(message.bucket, data, changelog)),
            hashes=replace(
                message.hashes,
                all=encode_hashes(np.setdiff1d(_hashes(message.hashes.all), gone)),
                new=encode_hashes(np.setdiff1d(_hashes(message.hashes.new), gone)),
            ),
        )
        for move in moves:
            yield CommitMessage(
                message.partition,
                move.to,
                NO_TOTAL_BUCKETS,
                new_files=tuple(data.made.get(move.to, ())),
                changelog_files=tuple(changelog.made.get(move.to, ())),
                uploads=_uploads(move.to, data, changelog),
                hashes=BucketHashes(move.hashes, b"", message.hashes.read),
            )

    def _files(
        self,
        message: CommitMessage,
        files: Sequence[DataFile],
        moves: Sequence[MovedKeys],
        uploads: dict[str, PendingUpload],
        *,
        changelog: bool,
    ) -> _Moved:
        """Divide files. Those that still travel and are replaced are stored first, in order to be read like any other."""
        found, keys = _Moved(), FileKeys(self._schema)
        for file in files:
            names = keys.data(ManifestEntry(ADD, message.partition, message.bucket, message.total_buckets, file))
            for key in names:
                if key in uploads:
                    self._timeline.store.put(key, uploads[key].data)
            rows = self._rows(file, names[0])
            targets = self._targets(rows, message.bucket, moves)
            if (targets == message.bucket).all():
                found.kept.append(file)
                continue
            for key in names:
                uploads.pop(key, None)
            for bucket in np.unique(targets).tolist():
                writer = self._writer(message.partition, bucket, file, changelog)
                for part in taken(rows, np.flatnonzero(targets == bucket), arrow_rows(self._schema)):
                    writer.write(part)
                writer.finish()
                found.made.setdefault(bucket, []).extend(writer.files)
                found.uploads.setdefault(bucket, []).extend(writer.uploads)
        return found

    def _rows(self, file: DataFile, key: str) -> pa.RecordBatch:
        fields = row_fields(self._schema)
        schemas = {file.schema_id: self._timeline.schema(file.schema_id)}
        reader = RunReader(fields, schemas, self._schema.options)
        wanted = arrow_rows(self._schema)
        parts: list[Any] = []
        for _, rows in reader.rows({file: located(self._timeline.store, key)}, None, True):
            parts.append(pa.RecordBatch.from_arrays([rows.column(f.name) for f in fields], schema=wanted))
        return one_batch(parts, wanted)

    def _targets(self, rows: pa.RecordBatch, bucket: int, moves: Sequence[MovedKeys]) -> Array:
        hashes = key_hashes([rows.column(f.name) for f in self._keys], [f.type for f in self._keys])
        targets = np.full(len(hashes), bucket, np.int32)
        for move in moves:
            targets[np.isin(hashes, _hashes(move.hashes))] = move.to
        return targets

    def _writer(self, partition: bytes, bucket: int, file: DataFile, changelog: bool) -> KeyFileWriter:
        folder = self._paths.bucket_dir(codec_of(self._schema).path(partition), bucket)
        prefix = self._schema.options.get(opt.CHANGELOG_FILE_PREFIX if changelog else opt.DATA_FILE_PREFIX)
        self._count += 1
        return KeyFileWriter(
            self._timeline.store,
            self._schema,
            folder,
            f"{prefix}{self._stem}-{self._count}",
            level=file.level,
            source=file.file_source or 0,
            travelling=True,
            changelog=changelog,
        )


def _hashes(data: bytes) -> Array:
    return decode_hashes(data, len(data) // 4, "a commit message")


def _uploads(bucket: int, *moved: _Moved) -> tuple[PendingUpload, ...]:
    return tuple(upload for part in moved for upload in part.uploads.get(bucket, ()))
