"""The commands `system`, which shows what Apache Paimon's system tables show, and `analyze`, which makes statistics.

Owns: their arguments. Must not know: which columns a system table has, or how rows are printed.
"""

from __future__ import annotations

import argparse

from ..frame.arguments import Commands, add_branch, add_command, add_travel, names, open_as_of, open_table_of, where_of
from ..frame.exit_codes import OK
from ..frame.output import Output
from ..upkeep.maintenance import progress
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
    about = (
        "Count rows, different values, nulls, bounds and lengths of columns, and commit them as the table's statistics."
    )
    example = (
        "lakelatch analyze s3://lake/flights\nlakelatch analyze s3://lake/flights --columns carrier,month --dry-run"
    )
    parser = add_command(commands, "analyze", analyze, about, example)
    add_branch(parser)
    parser.add_argument("--columns", metavar="A,B", help="analyze these columns (default: all whose type allows it)")
    parser.add_argument("--dry-run", action="store_true", help="show the statistics, and commit nothing")


def system(args: argparse.Namespace, output: Output) -> int:
    file_format, limit = format_of(args), limit_of(args, output)
    reader = open_as_of(args).system_reader(args.name, names(args.columns), where_of(args), limit)
    return show_rows(reader, reader.schema, file_format, args, output)


def analyze(args: argparse.Namespace, output: Output) -> int:
    found = open_table_of(args).analyze(names(args.columns), dry_run=args.dry_run, progress=progress("rows read"))
    if output.as_json:
        output.record({"committed": not args.dry_run, **found.to_dict()})
        return OK
    output.facts({"snapshot": found.snapshot_id, "rows": found.row_count, "bytes": found.size})
    columns = ["column", "distinct", "nulls", "min", "max", "avg length", "max length"]
    rows = [
        [name, c.distinct_count, c.null_count, c.min, c.max, c.avg_len, c.max_len] for name, c in found.columns.items()
    ]
    output.table(columns, rows)
    return OK
