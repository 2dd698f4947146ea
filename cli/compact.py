"""The command `compact`.

Owns: its arguments, the stable keys of its JSON. Must not know: which files are rewritten, or how.
Invariant: nothing is changed without `--apply`; what would be is shown first.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from .arguments import Commands, add_branch, add_command, open_table_of
from .exit_codes import OK
from .maintenance import add_apply, progress
from .output import Output

if TYPE_CHECKING:
    from ..table.compaction.plan import CompactionPlan


def register(commands: Commands) -> None:
    parser = add_command(
        commands,
        "compact",
        compact,
        "Rewrite small files into large ones, partition by partition, beside writers. The rows stay the same; what others commit"
        " meanwhile stays. Shows what would be rewritten; --apply does it.",
        'lakelatch compact s3://lake/flights --where "month = 1"\nlakelatch compact s3://lake/flights --apply',
    )
    add_branch(parser)
    parser.add_argument("--where", metavar="TEXT", help='which partitions, such as "month >= 3"')
    parser.add_argument("--target-size", metavar="SIZE", help="how large files become, such as '128 mb'")
    parser.add_argument("--min-files", type=int, metavar="N", help="so many small files are worth rewriting (5)")
    add_apply(parser)


def compact(args: argparse.Namespace, output: Output) -> int:
    table = open_table_of(args)
    done = table.compact(
        args.where,
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
        output.note("nothing was changed; --apply does it")
    table.committer.settle()
    return OK


def _show(plan: CompactionPlan, output: Output) -> None:
    if plan.groups:
        columns = ("partition", "bucket", "files", "rows", "bytes")
        output.table(columns, [(g.partition_path, g.bucket, len(g.files), g.row_count, g.size) for g in plan.groups])
