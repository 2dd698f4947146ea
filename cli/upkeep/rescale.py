"""The command `rescale`.

Owns: its arguments and the stable keys of its JSON. Must not know: how rows get to other buckets.
Invariant: without `--apply` it only shows the plan and changes nothing.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from ..frame.arguments import Commands, add_branch, add_command, add_where, open_table_of, where_of
from ..frame.exit_codes import OK
from ..frame.output import Output
from .maintenance import add_apply

_COLUMNS = ("partition", "buckets", "files", "rows", "bytes")


def register(commands: Commands) -> None:
    parser = add_command(
        commands,
        "rescale",
        rescale,
        "Rewrite the partitions of a table with a primary key that have another number of buckets than option bucket says. Set"
        " the option first; writes to a partition are then refused until it is rewritten. The rows stay the same. Shows the"
        " plan; --apply carries it out.",
        "lakelatch alter s3://lake/people --set bucket=8 --apply\nlakelatch rescale s3://lake/people\n"
        'lakelatch rescale s3://lake/people --where "month = 1" --apply',
    )
    add_branch(parser)
    add_where(parser, 'the partitions to rewrite, such as "month >= 3"')
    add_apply(parser)


def rescale(args: argparse.Namespace, output: Output) -> int:
    table = open_table_of(args)
    plan = table.plan_rescale(where_of(args))
    receipts = table.rescale(where_of(args), progress=_progress()) if args.apply else []
    if output.as_json:
        made = [receipt.to_dict() for receipt in receipts]
        output.record({"applied": args.apply, **plan.to_dict(), "receipts": made})
        return OK
    if not args.apply and plan.partitions:
        rows = [(s.partition_path, s.total_buckets, len(s.files), s.row_count, s.size) for s in plan.partitions]
        output.table(_COLUMNS, rows)
    if not receipts:
        output.line(str(plan))
    for receipt in receipts:
        output.line(str(receipt))
    if not args.apply and plan.partitions:
        output.note("nothing was changed; use --apply to carry it out")
    return OK


def _progress() -> Any:
    if not sys.stderr.isatty():
        return None

    def told(done: int, total: int) -> None:
        end = "\n" if done == total else ""
        print(f"\r{done:,} of {total:,} partitions rewritten", end=end, file=sys.stderr, flush=True)

    return told
