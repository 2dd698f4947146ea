"""The command `repair`, which mends what `verify` finds.

Owns: its arguments and exit code. Must not know: what can be repaired (see `table.repair`).
Invariant: it works on tables that cannot be opened, and changes nothing without `--apply`.
"""

from __future__ import annotations

import argparse

from ...core.errors import InvalidArgument
from ..frame.arguments import Commands, add_branch, add_command, open_store_of
from ..frame.exit_codes import OK, PROBLEMS
from ..frame.output import Output
from .maintenance import add_apply


def register(commands: Commands) -> None:
    about = (
        "Mend what `verify` finds: gaps, snapshots that are not part of the history, hints, schemas, tags, manifests, data files"
        " that are gone. Tells what is done about each finding, or why nothing is. Shows the plan; --apply carries it out. Files"
        " that it deletes are copied to lakelatch/repaired/ in the table's folder before."
    )
    parser = add_command(commands, "repair", repair, about, "lakelatch repair s3://lake/flights --apply")
    add_branch(parser)
    depth = parser.add_mutually_exclusive_group()
    depth.add_argument(
        "--data", action="store_true", help="also compare row counts and statistics with each file's footer"
    )
    depth.add_argument("--deep", action="store_true", help="also read every row")
    parser.add_argument(
        "--accept-loss",
        action="store_true",
        help="with --apply: also carry out the steps that give up rows or earlier states, as the plan says",
    )
    add_apply(parser)


def repair(args: argparse.Namespace, output: Output) -> int:
    from ...coordinator.history.timeline import Timeline
    from ...core.paths import TablePaths
    from ...table.repair.apply import apply_repair
    from ...table.repair.plan import plan_repair
    from ...table.verify.whole import Depth, verify_store

    if args.accept_loss and not args.apply:
        raise InvalidArgument(
            "--accept-loss goes with --apply", next_step="without --apply, the plan says what would be lost"
        )
    store = open_store_of(args)
    data: Depth = "deep" if args.deep else args.data
    plan = plan_repair(store, args.branch, data)
    done = apply_repair(store, args.branch, plan, accept_loss=args.accept_loss) if args.apply else ()
    left = [remedy.finding for remedy in plan.remedies]
    if args.apply:
        newest = Timeline(store, TablePaths(args.branch)).snapshot_ids()[-1:]
        left = verify_store(store, branch=args.branch, snapshots=newest, data=data)
    errors = sum(finding.severity == "error" for finding in left)
    if output.as_json:
        told = {"url": store.url, "applied": args.apply, **plan.to_dict(), "done": [plan.steps.index(s) for s in done]}
        output.record({**told, "errors_left": errors})
        return PROBLEMS if errors else OK
    output.line(str(plan))
    if not args.apply and plan.steps:
        output.note("nothing was changed; use --apply to carry it out")
    elif args.apply:
        skipped = len(plan.steps) - len(done)
        more = f"; {skipped} need --accept-loss" if skipped else ""
        output.note(
            f"{len(done)} of {len(plan.steps)} steps were carried out{more}; {errors} errors are left in the newest state"
        )
    return PROBLEMS if errors else OK
