"""The command `system`, which shows what Apache Paimon's system tables show.

Owns: its arguments. Must not know: which columns a system table has, or how rows are printed.
"""

from __future__ import annotations

import argparse

from .arguments import Commands, add_branch, add_command, add_travel, names, open_as_of
from .output import Output
from .rows import add_rows, format_of, limit_of, show_rows

_EXAMPLE = """lakelatch system s3://lake/flights tags
lakelatch system s3://lake/flights files --where "partition = '{1}' AND level = 0" --columns file_path,record_count
lakelatch system s3://lake/flights audit_log --output audit.parquet"""


def register(commands: Commands) -> None:
    about = "Show a system table: snapshots, schemas, tags, files, partitions and so on, with Apache Paimon's columns."
    parser = add_command(commands, "system", system, about, _EXAMPLE)
    parser.add_argument(
        "name",
        metavar="NAME",
        help="snapshots, schemas, options, manifests, files, partitions, buckets, tags, branches, consumers, statistics,"
        " audit_log, ro, changelog, binlog, row_tracking, aggregation_fields or table_indexes",
    )
    add_branch(parser)
    add_travel(parser, watermark=True)
    add_rows(parser)


def system(args: argparse.Namespace, output: Output) -> int:
    file_format, limit = format_of(args), limit_of(args, output)
    reader = open_as_of(args).system_reader(args.name, names(args.columns), args.where, limit)
    return show_rows(reader, reader.schema, file_format, args, output)
