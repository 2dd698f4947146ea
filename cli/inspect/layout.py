"""The commands `files` and `schema`, which describe a table's files and columns, and never change it.

Owns: their arguments and the stable keys of their JSON. Must not know: how metadata is read.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from ..frame.arguments import Commands, add_branch, add_command, add_travel, open_as_of, open_table_of
from ..frame.exit_codes import OK
from ..frame.output import Output, moment

if TYPE_CHECKING:
    from ...core.metadata.schema import TableSchema


def register(commands: Commands) -> None:
    parser = add_command(
        commands, "files", files, "List the live data files.", "lakelatch files s3://lake/flights --snapshot 7 --json"
    )
    add_branch(parser)
    add_travel(parser)
    parser.add_argument(
        "--partition",
        metavar="K=V/…",
        help="only files of this partition: month=1, or month=1/carrier=AA",
    )
    parser = add_command(
        commands, "schema", schema, "Show columns, keys and options.", "lakelatch schema s3://lake/flights --all"
    )
    add_branch(parser)
    parser.add_argument("--all", action="store_true", help="show every schema that the table has had, oldest first")


def files(args: argparse.Namespace, output: Output) -> int:
    table = open_as_of(args)
    found = table.files(args.partition)
    if output.as_json:
        for row in found.to_pylist():
            output.record(row)
        return OK
    columns = ["partition", "bucket", "file_path", "level", "record_count", "file_size_in_bytes", "schema_id"]
    if table.schema.primary_keys:
        columns += ["delete_row_count", "min_sequence_number", "max_sequence_number"]
    output.table(columns, [[row[c] for c in columns] for row in found.select(columns).to_pylist()])
    return OK


def schema(args: argparse.Namespace, output: Output) -> int:
    table = open_table_of(args)
    shown = table.schemas() if args.all else [table.schema]
    for position, each in enumerate(shown):
        if output.as_json:
            output.record(schema_record(each))
            continue
        if position:
            output.line("")
        _print_schema(each, output)
    return OK


def schema_record(found: TableSchema) -> dict[str, Any]:
    """A schema as a dict with stable keys; `type` is SQL text."""
    from ...core.rows.types import sql

    columns = [
        {
            "id": f.id,
            "name": f.name,
            "type": sql(f.type),
            "nullable": f.type.nullable,
            "comment": f.description,
            "default": f.default_value,
        }
        for f in found.fields
    ]
    return {
        "schema_id": found.id,
        "columns": columns,
        "partition_keys": list(found.partition_keys),
        "primary_keys": list(found.primary_keys),
        "options": dict(found.option_texts),
        "comment": found.comment,
        "time_ms": found.time_ms,
    }


def _print_schema(found: TableSchema, output: Output) -> None:
    told = schema_record(found)
    facts: dict[str, Any] = {"schema": found.id, "made": moment(found.time_ms)}
    if found.comment:
        facts["comment"] = found.comment
    for key in ("partition_keys", "primary_keys"):
        if told[key]:
            facts[key.replace("_", " ")] = ", ".join(told[key])
    output.facts(facts)
    for name, value in sorted(told["options"].items()):
        output.line(f"option {name} = {value}")
    keys = ("id", "name", "type", "comment", "default")
    output.table(keys, [["" if c[k] is None else c[k] for k in keys] for c in told["columns"]])
