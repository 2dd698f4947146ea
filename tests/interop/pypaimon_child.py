"""Runs in pypaimon's own environment and does what the JSON on stdin lists, one thing after the other.

A table is opened anew for each. What fails is answered by the end of its trace. See `pypaimon_env.py`.
"""

from __future__ import annotations

import json
import sys
import traceback
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


def write(table: Any, file: str, overwrite: dict[str, Any] | None) -> None:
    """Appends the rows of an Arrow file in one commit, or overwrites a partition with them ({} = all)."""
    builder = table.new_batch_write_builder()
    if overwrite is not None:
        builder = builder.overwrite(overwrite)
    writing, commit = builder.new_write(), builder.new_commit()
    with pa.ipc.open_file(file) as reader:
        writing.write_arrow(reader.read_all())
    commit.commit(writing.prepare_commit())
    writing.close()
    commit.close()


def run(request: dict[str, Any]) -> str | None:
    """One request: None where it went well, else the end of the trace."""
    try:
        opened = FileStoreTable.from_path(request["path"])
        if request["options"]:
            opened = opened.copy(request["options"])
        if request["do"] == "read":
            read(opened, request["columns"], request["file"])
        else:
            write(opened, request["file"], request["overwrite"])
    except Exception:
        return traceback.format_exc()[-1500:]
    return None


if __name__ == "__main__":
    answers = [run(request) for request in json.load(sys.stdin)]
    with open(sys.argv[1], "w") as out:
        json.dump(answers, out)
