"""Tables with a primary key whose files a test writes one by one: which rows, which level, which sequence numbers.

Owns: `add_files`. Must not know: how rows are merged.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

import lakelatch as ll
from lakelatch.coordinator.commit.message import CommitMessage
from lakelatch.core.rows.binary.binary_row import encode_row
from lakelatch.table.writing.files.key_files import KeyFileWriter, arrow_rows


def add_files(table: ll.Table, *files: Sequence[dict[str, Any]] | pa.RecordBatch, levels: Sequence[int] = ()) -> None:
    """One commit of files of bucket 0.

    Args:
        files: the rows of each, sorted by key: the table's columns with `_SEQUENCE_NUMBER` and `_VALUE_KIND` (0 by default).
        levels: the level of each; 0 by default.
    """
    written = []
    for number, rows in enumerate(files):
        level = levels[number] if levels else 0
        writer = KeyFileWriter(table.store, table.schema, "bucket-0/", f"data-{uuid.uuid4()}-", level=level)
        if isinstance(rows, pa.RecordBatch):
            writer.write(rows)
        else:
            full = [{"_VALUE_KIND": 0, **row} for row in rows]
            writer.write(pa.RecordBatch.from_pylist(full, schema=arrow_rows(table.schema)))
        writer.finish()
        written += writer.files
    total = int(table.schema.options.texts["bucket"])
    with table.transaction() as transaction:
        transaction.append_messages([CommitMessage(encode_row([], []), 0, total, tuple(written))])
