"""The commands `verify` and `doctor`, which look for problems.

Owns: their arguments and exit codes. Must not know: what is checked (see `table.verify` and `doctor`). Invariant: exit
code 0 means that no errors were found; warnings alone do not change it.
"""

from __future__ import annotations

import argparse
from typing import Any

from ...core.errors import InvalidArgument
from ..frame.arguments import Commands, add_branch, add_command, open_store_of, storage_options_of
from ..frame.exit_codes import OK, PROBLEMS, UNAVAILABLE
from ..frame.journals import journal_lines
from ..frame.output import Output

DEFAULT_ROUNDS = 20


def register(commands: Commands) -> None:
    about = (
        "Check that a table's files are complete and consistent. Schemas, snapshots, tags and hints are always checked;"
        " manifests, counts and data files only for the newest snapshot, or for the snapshots that are chosen. Writes nothing."
    )
    parser = add_command(commands, "verify", verify, about, "lakelatch verify s3://lake/flights --all --data")
    add_branch(parser)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--snapshot", type=int, action="append", metavar="N", help="check this snapshot (repeatable)")
    which.add_argument("--all", action="store_true", help="check every snapshot and tag")
    depth = parser.add_mutually_exclusive_group()
    depth.add_argument(
        "--data", action="store_true", help="also compare row counts and statistics with each file's footer"
    )
    depth.add_argument(
        "--deep", action="store_true", help="also read every row, and compute counts, bounds and checksums anew"
    )
    parser.add_argument(
        "--journal",
        metavar="PATH",
        help="the snapshots that it reports as landed must be there (default: that of `write`)",
    )
    about = (
        "Check a store and the table in it. Reports permissions, whether the store creates files atomically, whether listings"
        " are up to date, latency and the commits per minute to expect, clock skew, and whether the table's history is intact."
        " Writes a few small objects of its own and deletes them."
    )
    parser = add_command(commands, "doctor", doctor, about, "lakelatch doctor s3://lake/flights --race 8")
    add_branch(parser)
    parser.add_argument("--race", type=int, metavar="N", help="let N processes race to create the same objects")
    parser.add_argument(
        "--rounds", type=int, default=DEFAULT_ROUNDS, metavar="R", help="objects that they race for (20)"
    )
    parser.add_argument(
        "--writers", type=int, default=8, metavar="N", help="estimate the commits per minute of N writers (8)"
    )


def verify(args: argparse.Namespace, output: Output) -> int:
    from ...table.verify.whole import verify_store

    store = open_store_of(args)
    which: Any = "all" if args.all else args.snapshot
    depth: Any = "deep" if args.deep else args.data
    lines = journal_lines(args.journal)
    found = verify_store(store, branch=args.branch, snapshots=which, data=depth, journal=lines)
    errors = sum(finding.severity == "error" for finding in found)
    if output.as_json:
        output.record(
            {
                "url": store.url,
                "ok": not errors,
                "errors": errors,
                "warnings": len(found) - errors,
                "findings": [finding.to_dict() for finding in found],
            }
        )
    else:
        for finding in found:
            output.line(str(finding))
        problems = f"{errors} errors, {len(found) - errors} warnings" if found else "no problems found"
        output.note(f"{store.url}: {problems}")
    return PROBLEMS if errors else OK


def doctor(args: argparse.Namespace, output: Output) -> int:
    from .doctor import examine

    if args.race is not None and not 2 <= args.race <= 256:
        raise InvalidArgument(f"--race {args.race}: must be between 2 and 256 processes")
    if args.rounds < 1:
        raise InvalidArgument(f"--rounds {args.rounds}: must be at least 1")
    if not 1 <= args.writers <= 256:
        raise InvalidArgument(f"--writers {args.writers}: must be between 1 and 256")
    store = open_store_of(args)
    checks = examine(store, storage_options_of(args), args.branch, args.race, args.rounds, args.writers)
    failed = any(check.status == "fail" for check in checks)
    if output.as_json:
        output.record({"url": store.url, "ok": not failed, "checks": [check.to_dict() for check in checks]})
    else:
        output.table(
            ["check", "status", "detail", "next"], [[c.check, c.status, c.detail, c.next_step] for c in checks]
        )
    if checks[0].status == "fail":
        return UNAVAILABLE
    return PROBLEMS if failed else OK
