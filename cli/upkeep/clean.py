"""The command `clean`: orphans, and the quarantines that they are moved to.

Owns: its arguments and the stable keys of its JSON. Must not know: what is an orphan, how files are moved.
Invariant: without `--apply` it only shows the plan and changes nothing.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ...core.errors import InvalidArgument
from ..frame.arguments import WHEN, Commands, add_command, moment_of, open_table_of
from ..frame.exit_codes import OK
from ..frame.output import Output
from .maintenance import SHOWN, add_apply, progress, show

if TYPE_CHECKING:
    from ...table.table import Table

_ALL = ""
_KEPT = "7 d"


def register(commands: Commands) -> None:
    parser = add_command(
        commands,
        "clean",
        clean,
        "Find files that no snapshot, tag or branch refers to, such as the files of jobs that died. Shows them; --apply checks"
        " them again and deletes them, or with --quarantine moves them aside, from where --restore brings them back.",
        "lakelatch clean s3://lake/flights\nlakelatch clean s3://lake/flights --older-than 2026-01-01T00:00Z --apply\n"
        "lakelatch clean s3://lake/flights --quarantine --apply\nlakelatch clean s3://lake/flights --restore --apply",
    )
    parser.add_argument(
        "--older-than",
        metavar="TIME",
        help=f"only files older than this: {WHEN} (default: a day ago)",
    )
    parser.add_argument(
        "--external",
        action="store_true",
        help="also in the locations of data-file.external-paths; only where no other table stores files in them",
    )
    parser.add_argument("--quarantine", action="store_true", help="move the files aside instead of deleting them")
    parser.add_argument(
        "--keep", metavar="TIME", help=f"with --quarantine: delete them for good after this time (default: {_KEPT})"
    )
    parser.add_argument(
        "--restore",
        metavar="NAME",
        nargs="?",
        const=_ALL,
        help="bring the files of a quarantine back, or of all; without --apply, list the quarantines",
    )
    add_apply(parser)


def clean(args: argparse.Namespace, output: Output) -> int:
    if args.restore is not None and (args.quarantine or args.external or args.older_than):
        raise InvalidArgument("--restore takes no other argument than --apply")
    if args.keep is not None and not args.quarantine:
        raise InvalidArgument("--keep says how long a quarantine is kept", next_step="add --quarantine")
    table = open_table_of(args)
    if args.restore is not None:
        return _restore(table, args, output)
    until = moment_of(args.older_than)
    if args.apply:
        plan = table.clean(
            older_than=until,
            external=args.external,
            quarantine=args.quarantine,
            keep=args.keep or _KEPT,
            progress=progress("moved" if args.quarantine else "deleted"),
        )
    else:
        plan = table.orphans(older_than=until, external=args.external)
    if output.as_json:
        output.record({"applied": args.apply, **plan.to_dict()})
        return OK
    done = f", moved to quarantine {plan.quarantine}" if plan.quarantine else ", deleted"
    output.line(f"{plan}{done}" if args.apply else str(plan))
    for name in plan.expired:
        output.line(f"quarantine {name} was deleted: its time was over")
    if not args.apply:
        show(output, [info.key for info in plan.files[: SHOWN + 1]], len(plan.files))
        if plan.files:
            output.note(f"nothing was {'moved' if args.quarantine else 'deleted'}; use --apply to do it")
    return OK


def _restore(table: Table, args: argparse.Namespace, output: Output) -> int:
    if args.apply:
        done = table.restore_quarantine(args.restore or None, progress=progress("restored"))
        if output.as_json:
            output.record({"applied": True, **done.to_dict()})
        else:
            output.line(f"{done}, restored")
        return OK
    found = [one for one in table.quarantines() if args.restore in (_ALL, one.name)]
    if output.as_json:
        output.record({"applied": False, "quarantines": [one.to_dict() for one in found]})
        return OK
    for one in found:
        output.line(str(one))
    output.note("nothing was restored; use --apply to do it" if found else "there is no such quarantine")
    return OK
