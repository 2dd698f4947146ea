"""The command `partitions`: list, drop and expire partitions, and mark them as done.

Owns: its arguments and the stable keys of its JSON. Must not know: which partitions are too old.
Invariant: without `--apply`, `drop` and `expire` only show the plan and change nothing.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ..frame.arguments import (
    WHEN,
    Commands,
    Parser,
    add_branch,
    add_command,
    add_where,
    moment_of,
    open_table_of,
    where_of,
)
from ..frame.exit_codes import OK
from ..frame.output import Output
from .maintenance import SHOWN, add_apply, progress, show

if TYPE_CHECKING:
    import pyarrow as pa

_COLUMNS = ["partition", "rows", "bytes", "files", "last file"]


def register(commands: Commands) -> None:
    parser = commands.add_parser(
        "partitions",
        help="List, drop and expire partitions, and mark them as done",
        description="The partitions of a table.",
        epilog="example:\n  lakelatch partitions list s3://lake/flights --where 'month > 3'\n"
        "  lakelatch partitions expire s3://lake/flights --older-than '90 d' --apply",
    )
    actions = parser.add_actions()
    parser = add_command(
        actions,
        "list",
        listed,
        "List partitions with their rows, bytes, files, and when the newest file was made.",
        "lakelatch partitions list s3://lake/flights --where 'month > 3'",
    )
    add_where(parser, "a predicate on partition columns")
    add_branch(parser)
    parser = add_command(
        actions,
        "drop",
        drop,
        "Delete the rows of partitions in one commit. Shows which; --apply commits.",
        "lakelatch partitions drop s3://lake/flights month=1 month=2 --apply",
    )
    _add_names(parser, nargs="+")
    add_branch(parser)
    add_apply(parser)
    parser = add_command(
        actions,
        "expire",
        expire,
        "Drop the partitions that are too old, by the time that their values stand for or their newest file. By default the"
        " table's options decide. Shows the plan; --apply commits.",
        "lakelatch partitions expire s3://lake/flights --older-than '90 d' --apply",
    )
    parser.add_argument(
        "--older-than",
        metavar="TIME",
        help=f"how old they may become: {WHEN}",
    )
    parser.add_argument("--strategy", choices=["values-time", "update-time"], help="what their age is counted from")
    parser.add_argument("--max", type=int, metavar="N", help="drop at most N partitions")
    _add_zone(parser)
    add_branch(parser)
    add_apply(parser)
    parser = add_command(
        actions,
        "mark-done",
        mark_done,
        "Mark partitions as done, for jobs that wait for them, as option partition.mark-done-action says. Without names those"
        " that got no file for some time.",
        "lakelatch partitions mark-done s3://lake/flights month=1\n"
        "lakelatch partitions mark-done s3://lake/flights --idle '15 min'",
    )
    _add_names(parser, nargs="*")
    parser.add_argument("--idle", metavar="TIME", help="mark those that got no file for this time, such as '15 min'")
    _add_zone(parser)
    add_branch(parser)


def _add_names(parser: Parser, nargs: str) -> None:
    parser.add_argument(
        "partitions",
        metavar="PARTITION",
        nargs=nargs,
        help="such as month=1 or month=1/day=2; by some columns: all that fit",
    )


def _add_zone(parser: Parser) -> None:
    parser.add_argument(
        "--time-zone", metavar="ZONE", help="the zone of the partitions' times (default: that of this machine)"
    )


def listed(args: argparse.Namespace, output: Output) -> int:
    _list(open_table_of(args).partitions(where_of(args)), output)
    return OK


def _list(found: pa.Table, output: Output) -> None:
    from ...table.partition_upkeep import wall_text

    rows = found.to_pylist()
    if output.as_json:
        for row in rows:
            output.record(row)
        return
    output.table(_COLUMNS, [[*list(row.values())[:-1], wall_text(row["last_creation_time_ms"])] for row in rows])


def drop(args: argparse.Namespace, output: Output) -> int:
    from ...table.compaction.plan import of_partitions

    table = open_table_of(args)
    chosen = table.partitions(of_partitions(args.partitions, table.schema))
    receipt = table.drop_partitions(args.partitions) if args.apply else None
    if output.as_json:
        output.record(
            {"applied": args.apply, "partitions": chosen.to_pylist(), "receipt": receipt.to_dict() if receipt else None}
        )
    elif receipt is None:
        _list(chosen, output)
        output.note("nothing was changed; use --apply to commit")
    else:
        output.line(str(receipt))
    return OK


def expire(args: argparse.Namespace, output: Output) -> int:
    table = open_table_of(args)
    plan = table.expire_partitions(
        older_than=moment_of(args.older_than),
        strategy=args.strategy,
        max_partitions=args.max,
        time_zone=args.time_zone,
        dry_run=not args.apply,
        progress=progress("dropped"),
    )
    if output.as_json:
        output.record({"applied": args.apply, **plan.to_dict()})
    else:
        output.line(str(plan))
        if not args.apply:
            show(output, [f"{one.partition}: {one.time}" for one in plan.partitions[: SHOWN + 1]], len(plan.partitions))
            if plan.partitions:
                output.note("nothing was changed; use --apply to commit")
    return OK


def mark_done(args: argparse.Namespace, output: Output) -> int:
    done = open_table_of(args).mark_done(args.partitions or None, idle=args.idle, time_zone=args.time_zone)
    if output.as_json:
        output.record(done.to_dict())
    else:
        output.line(str(done))
    return OK
