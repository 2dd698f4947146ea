"""Commands that look after a table: `expire`, `rollback`, `clean`.

Owns: their arguments, the stable keys of their JSON, progress. Must not know: what may be deleted, or how.
Invariant: nothing is changed without `--apply`; what would be is shown first.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from .arguments import Commands, add_branch, add_command, add_travel, moment_of, open_table_of
from .exit_codes import OK
from .output import Output

_SHOWN = 20


def register(commands: Commands) -> None:
    parser = add_command(
        commands,
        "expire",
        expire,
        "Delete the oldest snapshots, and the files that only they need. Without arguments the table's options decide;"
        " tags, branches and consumers keep what they need. Shows what would go; --apply deletes it.",
        "lakelatch expire s3://lake/flights --older-than 2026-01-01T00:00Z\n"
        "lakelatch expire s3://lake/flights --retain-max 20 --apply",
    )
    add_branch(parser)
    parser.add_argument("--retain-max", type=int, metavar="N", help="no more than so many snapshots stay")
    parser.add_argument("--retain-min", type=int, metavar="N", help="so many snapshots stay, however old")
    parser.add_argument("--older-than", metavar="TIME", help="ISO text with a zone, or ms since 1970")
    parser.add_argument("--max-deletes", type=int, metavar="N", help="at most so many snapshots go in one run")
    add_apply(parser)
    parser = add_command(
        commands,
        "rollback",
        rollback,
        "Make an earlier state the newest, by one commit. Nothing is taken away: the snapshots in between stay, and so do rows"
        " that others append meanwhile. Shows what would change; --apply commits it.",
        "lakelatch rollback s3://lake/flights --snapshot 41 --apply",
    )
    add_branch(parser)
    add_travel(parser, required=True)
    add_apply(parser)
    _register_clean(commands)


def _register_clean(commands: Commands) -> None:
    parser = add_command(
        commands,
        "clean",
        clean,
        "Find the files that no snapshot, tag or branch names: what jobs that died left behind. Shows them; --apply deletes"
        " them, after a second look.",
        "lakelatch clean s3://lake/flights\nlakelatch clean s3://lake/flights --older-than 2026-01-01T00:00Z --apply",
    )
    parser.add_argument(
        "--older-than", metavar="TIME", help="ISO text with a zone, or ms since 1970; a day ago by default"
    )
    add_apply(parser)


def add_apply(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--apply", action="store_true", help="do it; without this it is only shown")


def expire(args: argparse.Namespace, output: Output) -> int:
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
        _show(output, plan.steps.data)
        if plan.snapshot_ids:
            output.note("nothing was deleted; --apply does it")
    return OK


def rollback(args: argparse.Namespace, output: Output) -> int:
    table = open_table_of(args)
    state = {"snapshot": args.snapshot, "tag": args.tag, "timestamp": moment_of(args.timestamp)}
    plan = table.plan_rollback(**state)
    receipt = table.rollback(**state) if args.apply else None
    if output.as_json:
        output.record({"applied": args.apply, **plan.to_dict(), "receipt": receipt.to_dict() if receipt else None})
    elif receipt is None:
        output.line(str(plan))
        output.note("nothing was changed; --apply does it")
    else:
        output.line(str(receipt))
    table.committer.settle()
    return OK


def clean(args: argparse.Namespace, output: Output) -> int:
    table, until = open_table_of(args), moment_of(args.older_than)
    plan = (
        table.clean(older_than=until, progress=progress("deleted")) if args.apply else table.orphans(older_than=until)
    )
    if output.as_json:
        output.record({"applied": args.apply, **plan.to_dict()})
        return OK
    output.line(f"{plan}, deleted" if args.apply else str(plan))
    if not args.apply:
        _show(output, tuple(info.key for info in plan.files))
        if plan.files:
            output.note("nothing was deleted; --apply does it")
    return OK


def _show(output: Output, keys: tuple[str, ...]) -> None:
    for key in keys[:_SHOWN]:
        output.line(f"  {key}")
    if len(keys) > _SHOWN:
        output.line(f"  and {len(keys) - _SHOWN} more; --json lists all")


def progress(what: str) -> Any:
    """How far it is, on a terminal: so many files are `what` by now."""
    if not sys.stderr.isatty():
        return None

    def told(done: int, total: int) -> None:
        end = "\n" if done == total else ""
        print(f"\r{done:,} of {total:,} files {what}", end=end, file=sys.stderr, flush=True)

    return told
