"""The commands `resolve` and `recover`, which find out how commits ended.

Owns: their arguments, the stable keys of their JSON, and their exit codes. Must not know: how a commit is resolved. Invariants:
`resolve` deletes nothing. `recover` changes nothing without `--apply`. An outcome that is not proven is reported as unknown.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...core.errors import InvalidArgument, OutcomeUnknown
from ..frame.arguments import Commands, Parser, add_branch, add_command, open_table_of, storage_options_of
from ..frame.exit_codes import CONFLICT, OK, UNKNOWN_OUTCOME
from ..frame.journals import journal_path
from ..frame.output import Output

if TYPE_CHECKING:
    from ...coordinator.recovery.recover import RecoveredCommit
    from ...table.table import Table

_COLUMNS = ["outcome", "user", "identifier", "kind", "snapshot", "table", "why"]


def register(commands: Commands) -> None:
    about = (
        "Find out how a commit with an unknown outcome ended, and finish it if that is safe. By default this covers every"
        " commit to the table that is in the journal and not known to have ended. Exit code 0: landed; 3: not landed, run"
        " the job again; 4: still unknown."
    )
    example = "lakelatch resolve s3://lake/flights --user etl-7 --identifier 42"
    parser = add_command(commands, "resolve", resolve, about, example)
    add_branch(parser)
    parser.add_argument("--journal", metavar="PATH", help="the writer's journal (default: the one that `write` keeps)")
    parser.add_argument("--user", metavar="NAME", help="only commits of this commit user")
    parser.add_argument("--identifier", type=int, metavar="N", help="with --user: only the commit with this identifier")
    parser.add_argument("--snapshot-uuid", metavar="UUID", help="only the commit that would have created this snapshot")
    _add_gone(parser)
    about = (
        "After a crash, report how every commit in a journal ended. With --apply, also finish the commits that can be finished,"
        " and delete the metadata of those that are proven not to have landed."
    )
    parser = add_command(
        commands, "recover", recover, about,
        "lakelatch recover s3://lake/flights\nlakelatch recover /var/lib/etl/journal.jsonl --apply",
    )  # fmt: skip
    parser.add_argument(
        "--table", metavar="URL", help="of a journal, only the commits to this table; it may have been renamed"
    )
    parser.add_argument("--apply", action="store_true", help="carry it out; without it, only report what would be done")
    _add_gone(parser)


def _add_gone(parser: Parser) -> None:
    parser.add_argument(
        "--writers-are-gone",
        action="store_true",
        help="assert that no writer of these commits is still running, so that there is no need to wait 30 s",
    )


# -------------------------------------------------------------------------------------------------------------- resolve


def resolve(args: argparse.Namespace, output: Output) -> int:
    from ...coordinator.recovery.recover import find_one

    meant = find_one(args.user, args.identifier, args.snapshot_uuid)
    chosen = args.user is not None or args.snapshot_uuid is not None
    table = open_table_of(args)
    found = _by_identity([c for c in _from_journals(args, table, meant) if chosen or not c.known], table)
    if not found and chosen:
        found = [_from_table(args, table)]
    _print(found, output)
    if any(commit.outcome in ("unknown", "in flight") for commit in found):
        return UNKNOWN_OUTCOME
    return CONFLICT if any(commit.outcome == "not landed" for commit in found) else OK


def _by_identity(found: list[RecoveredCommit], table: Table) -> list[RecoveredCommit]:
    """The commits, without those that did not land but whose identity did, in another run of the job."""
    landed = {(c.commit_user, c.identifier) for c in found if c.outcome in ("landed", "finished")}
    told: list[RecoveredCommit] = []
    for commit in found:
        identity = (commit.commit_user, commit.identifier)
        if commit.outcome == "not landed" and commit.identifier is not None:
            if identity in landed:
                continue
            again = _looked_up(commit, table)
            if again.outcome == "landed":
                landed.add(identity)
            commit = replace(again, commit=commit.commit)
        told.append(commit)
    return told


def _looked_up(commit: RecoveredCommit, table: Table) -> RecoveredCommit:
    """The commit, as the table's memory of identities tells of it."""
    if commit.identifier is None:
        return commit
    try:
        receipt = table.committer.lookup(commit.commit_user, commit.identifier)
    except OutcomeUnknown as error:
        return replace(commit, outcome="unknown", reason=error.message)
    if receipt is None:
        return commit
    return _landed(commit, receipt.snapshot_id, receipt.snapshot_uuid, receipt.kind)


def _from_journals(args: argparse.Namespace, table: Table, meant: Any) -> list[RecoveredCommit]:
    """The commits in the journals: in the one that was named, else in the user's own and in the table's."""
    from ...coordinator.journal.file_journal import FileJournal
    from ...coordinator.journal.lines import OBJECT
    from ...coordinator.journal.object_journal import ObjectJournal
    from ...coordinator.recovery.recover import recover as run

    def only(commit: RecoveredCommit) -> bool:
        return commit.branch == args.branch and bool(meant(commit))

    path = journal_path(args.journal)
    if args.journal not in (None, OBJECT) and not path.is_file():
        raise InvalidArgument(f"there is no journal {path}")
    sources: list[Any] = [table.url]
    if args.journal is not None:
        sources = [ObjectJournal(table.store) if args.journal == OBJECT else FileJournal(path)]
    elif path.is_file():
        sources.append(FileJournal(path))
    settings = {"storage_options": storage_options_of(args), "writers_are_gone": args.writers_are_gone, "clean": False}
    found = [commit for source in sources for commit in run(source, table=table.url, only=only, **settings).commits]
    return list({commit.commit: commit for commit in found}.values())


def _from_table(args: argparse.Namespace, table: Table) -> RecoveredCommit:
    """Look a commit up in the table. The table can show that a commit landed, but never that it did not and will not."""
    from ...coordinator.history.lineage import stands
    from ...coordinator.recovery.recover import RecoveredCommit

    unheard = RecoveredCommit(
        "", table.url, args.branch, args.user or "", args.identifier, "", "unknown",
        reason="it is in no journal and not in the history", snapshot_uuid=args.snapshot_uuid,
    )  # fmt: skip
    if args.identifier is not None:
        unheard = _looked_up(unheard, table)
    if unheard.outcome == "landed":
        return unheard
    for snapshot in table.snapshots() if args.snapshot_uuid is not None else ():
        if snapshot.uuid == args.snapshot_uuid and stands(table.timeline, snapshot):
            return _landed(unheard, snapshot.id, snapshot.uuid, snapshot.commit_kind)
    return unheard


def _landed(commit: RecoveredCommit, snapshot_id: int, uuid: str | None, kind: str) -> RecoveredCommit:
    return replace(commit, outcome="landed", reason="", snapshot_id=snapshot_id, snapshot_uuid=uuid, kind=kind)


# -------------------------------------------------------------------------------------------------------------- recover


def recover(args: argparse.Namespace, output: Output) -> int:
    from ...coordinator.recovery.recover import recover as run

    options = storage_options_of(args)
    settings = {"storage_options": options, "dry_run": not args.apply, "writers_are_gone": args.writers_are_gone}
    found = run(args.url, table=args.table, **settings)
    _print(found.commits, output)
    files = sum(len(commit.cleaned) for commit in found.commits)
    if files:
        output.note(f"{files} metadata files {'deleted' if args.apply else 'would be deleted'}")
    for line in found.damaged:
        output.note(f"{line}; commits that it may belong to are reported as unknown")
    if not args.apply and any(not commit.known for commit in found.commits):
        output.note("nothing was changed; use --apply to carry it out")
    return UNKNOWN_OUTCOME if found.unknown or found.damaged else OK


def _print(commits: Any, output: Output) -> None:
    if output.as_json:
        for commit in commits:
            output.record(commit.to_dict())
        return
    rows = [[c.outcome, c.commit_user, c.identifier, c.kind, c.snapshot_id, c.table, c.reason] for c in commits]
    if rows:
        output.table(_COLUMNS, [["" if value is None else value for value in row] for row in rows])
    else:
        output.note("no commits")
