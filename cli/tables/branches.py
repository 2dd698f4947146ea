"""The command `branch`: make, list, rename, delete and fast-forward branches.

Owns: its arguments and the stable keys of its JSON. Must not know: how branches are stored.
Invariant: `delete` and `fast-forward` show the plan first, and change nothing without `--apply`.
"""

from __future__ import annotations

import argparse

from ..frame.arguments import Commands, Parser, add_branch, add_command, open_table_of
from ..frame.exit_codes import OK
from ..frame.output import Output, moment
from ..upkeep.maintenance import add_apply, tell_deletion

_COLUMNS = ["branch", "created", "snapshot", "schema", "tags"]


def register(commands: Commands) -> None:
    parser = commands.add_parser(
        "branch",
        help="Make, list, rename, delete and fast-forward branches",
        description="A branch has schemas, snapshots and tags of its own, and shares the table's data files.",
        epilog="example:\n  lakelatch branch create s3://lake/flights staging --tag eod\n"
        "  lakelatch write s3://lake/flights new.parquet --branch staging\n"
        "  lakelatch branch fast-forward s3://lake/flights staging --apply",
    )
    actions = parser.add_actions()
    parser = add_command(
        actions,
        "create",
        create,
        "Make a branch. It begins with a snapshot or a tag; without either it has the table's schemas and no rows.",
        "lakelatch branch create s3://lake/flights staging --tag eod",
    )
    _add_name(parser, "the name of the new branch: not main, not a number")
    add_branch(parser)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--snapshot", type=int, metavar="N", help="begin with this snapshot")
    which.add_argument("--tag", metavar="NAME", help="begin with this tag")
    add_command(actions, "list", show, "List the branches of a table.", "lakelatch branch list s3://lake/flights")
    parser = add_command(
        actions,
        "delete",
        delete,
        "Delete a branch: its schemas, snapshots and tags. `lakelatch clean` frees data files that nothing else names. Shows the"
        " plan; --apply carries it out.",
        "lakelatch branch delete s3://lake/flights staging --apply",
    )
    _add_name(parser, "the branch")
    add_apply(parser)
    parser = add_command(
        actions,
        "rename",
        rename,
        "Give a branch another name. Do it when no job writes to the branch.",
        "lakelatch branch rename s3://lake/flights staging ready",
    )
    _add_name(parser, "the branch")
    parser.add_argument("new_name", metavar="NEW_NAME", help="its new name")
    parser = add_command(
        actions,
        "fast-forward",
        fast_forward,
        "Bring the snapshots, schemas and tags of a branch into main, which must not have commits that the branch lacks. Shows"
        " the plan; --apply carries it out.",
        "lakelatch branch fast-forward s3://lake/flights staging --apply",
    )
    _add_name(parser, "the branch")
    add_apply(parser)


def _add_name(parser: Parser, about: str) -> None:
    parser.add_argument("name", metavar="NAME", help=about)


def create(args: argparse.Namespace, output: Output) -> int:
    table = open_table_of(args)
    table.create_branch(args.name, snapshot=args.snapshot, tag=args.tag)
    made = table.branches()[args.name]
    if output.as_json:
        output.record(made.to_dict())
    else:
        output.line(f"created {made}")
    return OK


def show(args: argparse.Namespace, output: Output) -> int:
    found = list(open_table_of(args).branches().values())
    if output.as_json:
        for branch in found:
            output.record(branch.to_dict())
        return OK
    output.table(_COLUMNS, [[b.name, moment(b.created_ms), b.snapshot_id, b.schema_id, b.tags] for b in found])
    return OK


def delete(args: argparse.Namespace, output: Output) -> int:
    plan = open_table_of(args).delete_branch(args.name, dry_run=not args.apply)
    return tell_deletion(output, plan, args.apply)


def rename(args: argparse.Namespace, output: Output) -> int:
    table = open_table_of(args)
    table.rename_branch(args.name, args.new_name)
    made = table.branches()[args.new_name]
    if output.as_json:
        output.record({"was": args.name, **made.to_dict()})
    else:
        output.line(f"'{args.name}' is now {made}")
    return OK


def fast_forward(args: argparse.Namespace, output: Output) -> int:
    table = open_table_of(args)
    plan = table.fast_forward(args.name) if args.apply else table.plan_fast_forward(args.name)
    if output.as_json:
        output.record({"applied": args.apply, **plan.to_dict()})
        return OK
    output.line(str(plan))
    if not args.apply:
        output.note("nothing was changed; use --apply to carry it out")
    return OK
