"""The maintenance commands `expire` and `rollback`.

Owns: their arguments, the stable keys of their JSON, and how progress is shown. Must not know: what may be deleted, or
how. Invariant: without `--apply` they only show the plan.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...core.errors import InvalidArgument
from ..frame.arguments import WHEN, Commands, add_branch, add_command, add_travel, moment_of, open_table_of
from ..frame.exit_codes import OK
from ..frame.output import Output

if TYPE_CHECKING:
    from ...coordinator.commit.receipt import Receipt

SHOWN = 20


def register(commands: Commands) -> None:
    parser = add_command(
        commands,
        "expire",
        expire,
        "Delete the oldest snapshots and the files that only they need. By default the table's options decide which snapshots"
        " expire. What tags, branches and consumers need is kept. Shows the plan; --apply carries it out.",
        "lakelatch expire s3://lake/flights --older-than 2026-01-01T00:00Z\n"
        "lakelatch expire s3://lake/flights --retain-max 20 --apply",
    )
    add_branch(parser)
    parser.add_argument("--retain-max", type=int, metavar="N", help="keep at most N snapshots")
    parser.add_argument("--retain-min", type=int, metavar="N", help="keep at least N snapshots, however old")
    parser.add_argument(
        "--older-than",
        metavar="TIME",
        help=f"expire older snapshots: {WHEN}",
    )
    parser.add_argument("--max-deletes", type=int, metavar="N", help="delete at most N snapshots in one run")
    add_apply(parser)
    parser = add_command(
        commands,
        "rollback",
        rollback,
        "Restore an earlier state of the table with a new commit. The snapshots in between are kept, and so are rows that other"
        " writers append meanwhile. Shows the plan; --apply commits it.",
        "lakelatch rollback s3://lake/flights --snapshot 41 --apply",
    )
    add_branch(parser)
    add_travel(parser, required=True)
    add_apply(parser)


def add_apply(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--apply", action="store_true", help="carry the plan out; without it, the plan is only shown")


def expire(args: argparse.Namespace, output: Output) -> int:
    for name in ("retain_max", "retain_min", "max_deletes"):
        number = getattr(args, name)
        if number is not None and number < 1:
            raise InvalidArgument(f"--{name.replace('_', '-')} {number}: must be at least 1")
    table = open_table_of(args)
    plan = table.expire(
        retain_max=args.retain_max,
        retain_min=args.retain_min,
        older_than=moment_of(args.older_than),
        max_deletes=args.max_deletes,
        dry_run=not args.apply,
        progress=progress("deleted"),
    )
    if output.as_json:
        output.record({"applied": args.apply, **plan.to_dict()})
        return OK
    output.line(str(plan))
    if not args.apply:
        show(output, plan.steps.data)
        if plan.snapshot_ids:
            output.note("nothing was deleted; use --apply to delete")
    return OK


def rollback(args: argparse.Namespace, output: Output) -> int:
    table = open_table_of(args)
    state = {"snapshot": args.snapshot, "tag": args.tag, "timestamp": moment_of(args.timestamp)}
    plan = table.plan_rollback(**state)
    receipt = table.rollback(**state) if args.apply else None
    tell_commit(output, plan, receipt)
    return OK


def tell_deletion(output: Output, plan: Any, applied: bool) -> int:
    if output.as_json:
        output.record({"applied": applied, **plan.to_dict()})
        return OK
    output.line(f"{plan}, deleted" if applied else str(plan))
    if not applied:
        output.note("nothing was deleted; use --apply to delete")
    return OK


def tell_commit(output: Output, plan: Any, receipt: Receipt | None) -> None:
    if output.as_json:
        made = receipt.to_dict() if receipt is not None else None
        output.record({"applied": receipt is not None, **plan.to_dict(), "receipt": made})
    elif receipt is None:
        output.line(str(plan))
        output.note("nothing was changed; use --apply to commit")
    else:
        output.line(str(receipt))


def show(output: Output, keys: Sequence[str], count: int | None = None) -> None:
    """The first keys of a plan. `count`: how many there are, if `keys` are not all."""
    for key in keys[:SHOWN]:
        output.line(f"  {key}")
    more = (len(keys) if count is None else count) - SHOWN
    if more > 0:
        output.line(f"  and {more} more; --json lists all")


def progress(what: str) -> Any:
    if not sys.stderr.isatty():
        return None

    def told(done: int, total: int) -> None:
        end = "\n" if done == total else ""
        print(f"\r{done:,} of {total:,} files {what}", end=end, file=sys.stderr, flush=True)

    return told
