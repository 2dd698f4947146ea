"""The commands `compact` and `rewrite-file-index`.

Owns: their arguments and the stable keys of their JSON. Must not know: which files are rewritten, or how. Invariant:
without `--apply` they only show the plan.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ...core.errors import InvalidArgument
from ..frame.arguments import Commands, add_branch, add_command, add_where, open_table_of, where_of
from ..frame.exit_codes import OK
from ..frame.output import Output
from .maintenance import add_apply, progress

if TYPE_CHECKING:
    from ...table.compaction.plan import CompactionPlan
    from ...table.table import Table


def register(commands: Commands) -> None:
    parser = add_command(
        commands,
        "compact",
        compact,
        "Rewrite small files into large ones, partition by partition; in a table with a primary key, merge the files of each"
        " bucket. The rows stay the same. It can run while other jobs write; their commits are kept. Shows the plan; --apply"
        " carries it out.",
        'lakelatch compact s3://lake/flights --where "month = 1"\nlakelatch compact s3://lake/flights --apply\n'
        "lakelatch compact s3://lake/flights --manifests --apply",
    )
    add_branch(parser)
    add_where(parser, 'the partitions to compact, such as "month >= 3"')
    parser.add_argument(
        "--full",
        action="store_true",
        help="rewrite small files however few there are; in a table with a primary key, merge all files of each bucket",
    )
    parser.add_argument(
        "--target-size", metavar="SIZE", help="the size that files should have afterwards, such as '128 mb'"
    )
    parser.add_argument(
        "--min-files", type=int, metavar="N", help="the number of small files that are worth rewriting (5)"
    )
    parser.add_argument(
        "--manifests",
        action="store_true",
        help="merge the manifests instead: small ones, and those that name deleted files. No data file is touched",
    )
    add_apply(parser)
    about = (
        "Give existing data files the indexes that the table's options file-index.* name now; the files themselves stay as they"
        " are. It can run while other jobs write. Shows the plan; --apply carries it out."
    )
    example = 'lakelatch rewrite-file-index s3://lake/flights --where "month >= 3" --apply'
    parser = add_command(commands, "rewrite-file-index", rewrite_file_index, about, example)
    add_branch(parser)
    add_where(parser, 'the partitions, such as "month >= 3"')
    parser.add_argument("--full", action="store_true", help="also make anew the indexes of files that have them")
    add_apply(parser)


def compact(args: argparse.Namespace, output: Output) -> int:
    table = open_table_of(args)
    if args.manifests:
        return _compact_manifests(table, args, output)
    done = table.compact(
        where_of(args),
        full=args.full,
        target_size=args.target_size,
        min_files=args.min_files,
        dry_run=not args.apply,
        progress=progress("rewritten"),
    )
    if output.as_json:
        output.record({"applied": args.apply, **done.to_dict()})
        return OK
    if not args.apply:
        _show(done.plan, output)
    output.line(str(done))
    if not args.apply and done.plan.groups:
        output.note("nothing was changed; use --apply to carry it out")
    return OK


def rewrite_file_index(args: argparse.Namespace, output: Output) -> int:
    done = open_table_of(args).rewrite_file_index(
        where_of(args), full=args.full, dry_run=not args.apply, progress=progress("indexed")
    )
    if output.as_json:
        output.record({"applied": args.apply, **done.to_dict()})
        return OK
    output.line(str(done))
    if done.plan.groups and not args.apply:
        output.note("nothing was changed; --apply does it")
    return OK


def _compact_manifests(table: Table, args: argparse.Namespace, output: Output) -> int:
    for option in ("where", "full", "target_size", "min_files"):
        if getattr(args, option):
            raise InvalidArgument(f"--manifests and --{option.replace('_', '-')} do not go together")
    done = table.compact_manifests(dry_run=not args.apply)
    if output.as_json:
        output.record({"applied": args.apply, **done.to_dict()})
        return OK
    output.line(str(done))
    if done.is_due and not args.apply:
        output.note("nothing was changed; --apply does it")
    return OK


def _show(plan: CompactionPlan, output: Output) -> None:
    if plan.groups:
        columns = ("partition", "bucket", "files", "rows", "bytes")
        output.table(columns, [(g.partition_path, g.bucket, len(g.files), g.row_count, g.size) for g in plan.groups])
