"""The commands `tag` and `undo`: names for snapshots, and taking one commit back.

Owns: their arguments and the stable keys of their JSON. Must not know: how tags are stored, what the reverse of a commit is.
Invariant: `tag delete`, `tag expire` and `undo` show the plan first, and change nothing without `--apply`.
"""

from __future__ import annotations

import argparse
from datetime import timedelta
from typing import TYPE_CHECKING

from ...core.errors import InvalidArgument
from ..frame.arguments import (
    WHEN,
    Commands,
    Parser,
    add_branch,
    add_command,
    add_commit,
    add_travel,
    commit_of,
    moment_of,
    open_table_of,
)
from ..frame.exit_codes import OK
from ..frame.output import Output, moment
from ..upkeep.maintenance import add_apply, progress, tell_commit

if TYPE_CHECKING:
    from ...coordinator.tags.deletion import UntaggingPlan
    from ...core.metadata.tag import Tag

_COLUMNS = ["tag", "snapshot", "schema", "time", "rows", "created", "kept for"]
_SHOWN = 20
_KEEP = "for how long, such as '7 d' (default: option tag.default-time-retained, else until it is deleted)"


def register(commands: Commands) -> None:
    parser = commands.add_parser(
        "tag",
        help="Make, list, replace, rename, delete and expire tags",
        description="A tag is a name for a snapshot, which keeps its files after the snapshot has expired.",
        epilog="example:\n  lakelatch tag create s3://lake/flights eod --keep '7 d'\n"
        "  lakelatch read s3://lake/flights --tag eod\n  lakelatch tag delete s3://lake/flights eod --apply",
    )
    actions = parser.add_actions()
    for add in (_add_make, _add_names, _add_expiry):
        add(actions)
    _register_undo(commands)


def _add_make(actions: Commands) -> None:
    for name, run, about in (
        ("create", create, "Make a tag, of the newest snapshot or another one."),
        ("replace", replace, "Let a tag name another snapshot, and delete the files that only the old one needed."),
    ):
        parser = add_command(actions, name, run, about, f"lakelatch tag {name} s3://lake/flights eod --snapshot 7")
        _add_name(parser, "the tag's name")
        add_branch(parser)
        add_travel(parser)
        parser.add_argument("--keep", metavar="TIME", help=_KEEP)


def _add_names(actions: Commands) -> None:
    parser = add_command(actions, "list", show, "List the tags of a table.", "lakelatch tag list s3://lake/flights")
    add_branch(parser)
    parser = add_command(
        actions,
        "delete",
        delete,
        "Delete a tag, and the files that no other tag, snapshot or branch needs. Shows the plan; --apply carries it out.",
        "lakelatch tag delete s3://lake/flights eod --apply",
    )
    _add_name(parser, "the tag")
    add_branch(parser)
    add_apply(parser)
    parser = add_command(
        actions,
        "rename",
        rename,
        "Give a tag another name. If it is cut off, both names exist; run it again.",
        "lakelatch tag rename s3://lake/flights eod eom",
    )
    _add_name(parser, "the tag")
    parser.add_argument("new_name", metavar="NEW_NAME", help="its new name")
    add_branch(parser)


def _add_expiry(actions: Commands) -> None:
    parser = add_command(
        actions,
        "expire",
        expire,
        "Delete the tags whose retention is over. Shows the plan; --apply carries it out.",
        "lakelatch tag expire s3://lake/flights --apply",
    )
    parser.add_argument(
        "--older-than",
        metavar="TIME",
        help=f"also all older tags: {WHEN}",
    )
    add_branch(parser)
    add_apply(parser)
    parser = add_command(
        actions,
        "auto",
        auto,
        "Make the automatic tags that are due, and delete those that the table's options no longer keep. Shows the plan; --apply"
        " carries it out.",
        "lakelatch tag auto s3://lake/flights --apply",
    )
    add_branch(parser)
    add_apply(parser)


def _register_undo(commands: Commands) -> None:
    parser = add_command(
        commands,
        "undo",
        undo,
        "Take one commit back with a new commit; all others stay. Refused if a later commit builds on it. Shows the plan; --apply"
        " commits it.",
        "lakelatch undo s3://lake/flights 41 --apply",
    )
    add_commit(parser, "the snapshot of the commit")
    add_branch(parser)
    add_apply(parser)


def _add_name(parser: Parser, about: str) -> None:
    parser.add_argument("name", metavar="NAME", help=about)


def create(args: argparse.Namespace, output: Output) -> int:
    return _made(args, output, replaces=False)


def replace(args: argparse.Namespace, output: Output) -> int:
    return _made(args, output, replaces=True)


def _made(args: argparse.Namespace, output: Output, replaces: bool) -> int:
    table = open_table_of(args)
    if replaces and all(tag.name != args.name for tag in table.tags()):
        raise InvalidArgument(f"there is no tag {args.name!r}", next_step="make it with `lakelatch tag create`")
    made = table.create_tag(
        args.name,
        snapshot=args.snapshot,
        tag=args.tag,
        timestamp=moment_of(args.timestamp),
        keep=args.keep,
        replace=replaces,
    )
    return _told(output, made)


def rename(args: argparse.Namespace, output: Output) -> int:
    return _told(output, open_table_of(args).rename_tag(args.name, args.new_name))


def _told(output: Output, tag: Tag) -> int:
    if output.as_json:
        output.record(tag.to_dict())
    else:
        output.line(str(tag))
    return OK


def show(args: argparse.Namespace, output: Output) -> int:
    tags = open_table_of(args).tags()
    if output.as_json:
        for tag in tags:
            output.record(tag.to_dict())
        return OK
    rows = [
        [
            tag.name,
            tag.snapshot.id,
            tag.snapshot.schema_id,
            moment(tag.snapshot.time_ms),
            tag.snapshot.total_record_count,
            None if tag.created is None else tag.created.isoformat(" ", "seconds"),
            None if tag.retained_ms is None else str(timedelta(milliseconds=tag.retained_ms)),
        ]
        for tag in tags
    ]
    output.table(_COLUMNS, rows)
    return OK


def delete(args: argparse.Namespace, output: Output) -> int:
    table = open_table_of(args)
    plan = table.delete_tag(args.name, dry_run=not args.apply, progress=progress("deleted"))
    return _planned(args, output, plan)


def expire(args: argparse.Namespace, output: Output) -> int:
    plan = open_table_of(args).expire_tags(
        older_than=moment_of(args.older_than), dry_run=not args.apply, progress=progress("deleted")
    )
    return _planned(args, output, plan)


def auto(args: argparse.Namespace, output: Output) -> int:
    plan = open_table_of(args).auto_tag(dry_run=not args.apply, progress=progress("deleted"))
    if output.as_json:
        output.record({"applied": args.apply, **plan.to_dict()})
        return OK
    output.line(str(plan))
    if not args.apply and plan.is_due:
        output.note("nothing was changed; use --apply to do it")
    return OK


def _planned(args: argparse.Namespace, output: Output, plan: UntaggingPlan) -> int:
    if output.as_json:
        output.record({"applied": args.apply, **plan.to_dict()})
        return OK
    output.line(str(plan))
    if not args.apply:
        for key in plan.steps.data[:_SHOWN]:
            output.line(f"  {key}")
        if len(plan.steps.data) > _SHOWN:
            output.line(f"  and {len(plan.steps.data) - _SHOWN} more; --json lists all")
        if plan.tags:
            output.note("nothing was deleted; use --apply to delete")
    return OK


def undo(args: argparse.Namespace, output: Output) -> int:
    table = open_table_of(args)
    commit = commit_of(args)
    if commit is None:
        raise InvalidArgument("no commit is named", next_step="give its SNAPSHOT, or its --user and --identifier")
    plan = table.plan_undo(commit)
    receipt = table.undo(commit) if args.apply else None
    tell_commit(output, plan, receipt)
    return OK
