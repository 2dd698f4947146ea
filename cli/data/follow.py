"""The command `follow`: the changes of a table as they are committed.

Owns: its arguments, and how the changes of one snapshot are shown. Must not know: how changes are found.
Invariant: everything of a snapshot has been written out before the reader moves past it.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from ..frame.arguments import Commands, add_branch, add_command, add_where, names, open_table_of, where_of
from ..frame.exit_codes import OK
from ..frame.output import Output


def register(commands: Commands) -> None:
    example = (
        "lakelatch follow s3://lake/flights --where \"carrier = 'AA'\"\n"
        "lakelatch follow ./flights --start earliest --wait 0 --json\n"
        "lakelatch follow ./flights --full"
    )
    about = "Show the rows that come (+I), go (-D) and change (-U, +U) as they are committed. Ends with Ctrl-C, or by --wait."
    parser = add_command(commands, "follow", follow, about, example)
    add_branch(parser)
    parser.add_argument(
        "--start",
        default="latest",
        metavar="WHERE",
        help="latest (default), earliest, the snapshot whose changes come first, a tag, a time with a zone, or a position",
    )
    parser.add_argument(
        "--consumer", metavar="NAME", help="go on where this consumer is, and remember how far it comes"
    )
    parser.add_argument("--full", action="store_true", help="begin with all rows at the start")
    parser.add_argument("--columns", metavar="A,B", help="read these columns, in this order")
    add_where(parser)
    parser.add_argument(
        "--mode",
        choices=("auto", "delta", "changelog"),
        default="auto",
        help="with a primary key: delta (rows as written) or changelog (default: auto)",
    )
    parser.add_argument(
        "--poll", type=float, default=1.0, metavar="S", help="look for new snapshots every S seconds (1)"
    )
    parser.add_argument(
        "--wait", type=float, metavar="S", help="end after S seconds without a new snapshot; 0: at the newest one"
    )


def follow(args: argparse.Namespace, output: Output) -> int:
    from .sinks import open_sink

    start: Any = int(args.start) if args.start.isdecimal() else args.start
    follower = open_table_of(args).follow(
        start,
        consumer=args.consumer,
        full=args.full,
        columns=names(args.columns),
        where=where_of(args),
        mode=args.mode,
        poll=args.poll,
        wait=args.wait,
    )
    for batch in follower:
        if output.as_json:
            with open_sink("json", batch.schema, None, output) as write:
                for rows in batch.to_batches():
                    write(rows)
            print(json.dumps({"_position": str(batch.position)}))
        else:
            with open_sink("table", batch.schema, None, output) as write:
                for rows in batch.to_batches():
                    write(rows)
            output.note(f"snapshot {batch.snapshot_id}: {follower.behind - 1} behind; position {batch.position}")
        sys.stdout.flush()
    return OK
