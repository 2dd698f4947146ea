"""The command `consumer`: which readers of changes there are, and setting, resetting, deleting and expiring them.

Owns: its arguments, the stable keys of its JSON. Must not know: how consumers are stored.
Invariant: `expire` shows what it would delete; only with --apply it deletes.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ...core.errors import InvalidArgument
from ..frame.arguments import WHEN, Commands, add_branch, add_command, moment_of, open_table_of
from ..frame.exit_codes import OK, PROBLEMS
from ..frame.output import Output, moment
from .maintenance import add_apply

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...coordinator.maintenance.expiry.consumers import Consumer

ACTIONS = ("list", "set", "reset", "delete", "expire")


def register(commands: Commands) -> None:
    parser = add_command(
        commands,
        "consumer",
        consumer,
        "Readers of a table's changes, and how far they have come. Expiry keeps what they have still to read. list: show them;"
        " set NAME --next N: create one, or let it go on from snapshot N; reset NAME: let it begin again at the oldest changes,"
        " or with --latest at the next commit; delete NAME; expire: delete those that have not moved for long (shows them;"
        " --apply deletes them).",
        "lakelatch consumer s3://lake/flights\n"
        "lakelatch consumer s3://lake/flights set etl --next 12\n"
        "lakelatch consumer s3://lake/flights expire --older-than 2026-01-01T00:00Z --apply",
    )
    parser.actions, parser.url_first = ACTIONS, True
    parser.add_argument("action", nargs="?", choices=ACTIONS, default="list", help="what to do (default: list)")
    parser.add_argument("name", nargs="?", metavar="NAME", help="the consumer's id")
    add_branch(parser)
    parser.add_argument("--next", type=int, metavar="N", help="set: the snapshot that it reads next")
    parser.add_argument("--latest", action="store_true", help="reset: go on with the next commit")
    parser.add_argument(
        "--older-than",
        metavar="TIME",
        help=f"expire: those that moved last before this: {WHEN} (default: as long ago as option"
        " consumer.expiration-time says)",
    )
    add_apply(parser)


def consumer(args: argparse.Namespace, output: Output) -> int:
    table = open_table_of(args)
    if args.action == "expire":
        gone = table.expire_consumers(older_than=moment_of(args.older_than), dry_run=not args.apply)
        _show(output, gone, applied=args.apply)
        if not output.as_json and not args.apply and gone:
            output.note("nothing was deleted; use --apply to delete")
        return OK
    if args.action == "list":
        _show(output, table.consumers())
        return OK
    if args.name is None:
        raise InvalidArgument(f"{args.action}: which consumer?", next_step="give its name")
    if args.action == "delete":
        there = table.delete_consumer(args.name)
        if output.as_json:
            output.record({"consumer": args.name, "deleted": there})
        else:
            output.line(f"{args.name} deleted" if there else f"there is no consumer {args.name}")
        return OK if there else PROBLEMS
    if args.action == "set" and args.next is None:
        raise InvalidArgument("set: from which snapshot on?", next_step="give --next N")
    if args.action == "set":
        _show(output, [table.set_consumer(args.name, args.next)])
    else:
        _show(output, [table.set_consumer(args.name, "latest" if args.latest else "earliest")])
    return OK


def _show(output: Output, found: Sequence[Consumer], **about: bool) -> None:
    if output.as_json:
        for each in found:
            output.record({**about, **each.to_dict()})
        return
    rows = [(each.name, each.next_snapshot, moment(each.modified_ms)) for each in found]
    output.table(("consumer", "next_snapshot", "moved"), rows)
