"""Runs in pypaimon's own environment: reads or appends to one table, as the JSON on stdin says. See `pypaimon_env.py`."""

from __future__ import annotations

import json
import sys
from typing import Any

import pyarrow as pa
from pypaimon.table.file_store_table import FileStoreTable


def read(table: Any, columns: list[str] | None, file: str) -> None:
    """Writes the table's rows to an Arrow file."""
    builder = table.new_read_builder()
    if columns is not None:
        builder = builder.with_projection(columns)
    rows = builder.new_read().to_arrow(builder.new_scan().plan().splits())
    with pa.ipc.new_file(file, rows.schema) as writer:
        writer.write_table(rows)


def append(table: Any, file: str) -> None:
    """Appends the rows of an Arrow file in one commit."""
    builder = table.new_batch_write_builder()
    write, commit = builder.new_write(), builder.new_commit()
    with pa.ipc.open_file(file) as reader:
        write.write_arrow(reader.read_all())
    commit.commit(write.prepare_commit())
    write.close()
    commit.close()


if __name__ == "__main__":
    request = json.load(sys.stdin)
    opened = FileStoreTable.from_path(request["path"])
    if request["options"]:
        opened = opened.copy(request["options"])
    if request["do"] == "read":
        read(opened, request["columns"], request["file"])
    else:
        append(opened, request["file"])
