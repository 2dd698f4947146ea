"""Runs in pypaimon's own environment: makes one table, appends to it and reads it, one JSON line in, one out."""

from __future__ import annotations

import json
import sys

import pyarrow as pa
from pypaimon import CatalogFactory, Schema

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string())])


def main() -> None:
    table = None
    for line in sys.stdin:
        message, told = json.loads(line), {"ok": True}
        try:
            if message["do"] == "create":
                catalog = CatalogFactory.create(message["options"])
                catalog.create_database("bench", True)
                catalog.create_table("bench.t", Schema.from_pyarrow_schema(SCHEMA), False)
                table = catalog.get_table("bench.t")
            elif message["do"] == "read":
                builder = catalog.get_table("bench.t").new_read_builder()
                splits = builder.new_scan().plan().splits()
                told = {"rows": builder.new_read().to_arrow(splits).num_rows}
            else:
                builder = table.new_batch_write_builder()
                write, commit = builder.new_write(), builder.new_commit()
                write.write_arrow(pa.table(message["rows"], schema=SCHEMA))
                commit.commit(write.prepare_commit())
                write.close()
                commit.close()
            print(json.dumps(told), flush=True)
        except Exception as error:  # the parent shows it
            print(json.dumps({"error": repr(error)}), flush=True)


if __name__ == "__main__":
    main()
