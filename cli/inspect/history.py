"""The commands `log`, `show` and `explain`, which describe a table's history and never change it.

Owns: their arguments and the stable keys of their JSON. Must not know: how metadata is read. Invariant: `log` works on
a damaged table, and reports gaps and snapshots that another writer has replaced (G1).
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...core.errors import InvalidArgument
from ..frame.arguments import Commands, add_branch, add_command, add_commit, commit_of, open_table_of
from ..frame.exit_codes import OK
from ..frame.journals import JOURNAL, journal_path
from ..frame.output import Output, moment

if TYPE_CHECKING:
    from ...coordinator.intents.commits import Commit
    from ...coordinator.journal.lines import Entry
    from ...core.metadata.snapshot import Snapshot
    from ...table.table import Table


_USUAL = {"APPEND": "WRITE"}
"""The operation that a kind of commit has, unless a snapshot says otherwise."""


def register(commands: Commands) -> None:
    parser = add_command(
        commands, "log", log, "List the snapshots, newest first, and report irregularities.",
        "lakelatch log s3://lake/flights --limit 10",
    )  # fmt: skip
    add_branch(parser)
    parser.add_argument("--limit", type=int, metavar="N", help="list only the N newest")
    parser = add_command(
        commands, "show", show, "Show everything about one snapshot.", "lakelatch show s3://lake/flights 7"
    )
    add_branch(parser)
    parser.add_argument("snapshot", type=int, nargs="?", metavar="SNAPSHOT", help="an id; the newest by default")
    parser = add_command(
        commands, "explain", explain, "Explain how a snapshot came about: its base, its attempts, and the races that it lost.",
        "lakelatch explain s3://lake/flights 7",
    )  # fmt: skip
    add_branch(parser)
    add_commit(parser, "an id; the newest by default")
    parser.add_argument("--journal", metavar="PATH", help="the writer's journal (default: the one that `write` keeps)")


# ------------------------------------------------------------------------------------------------------------------ log


def log(args: argparse.Namespace, output: Output) -> int:
    from ...table.system import history_row
    from ...table.verify.history import lineage_findings

    if args.limit is not None and args.limit < 1:
        raise InvalidArgument(f"--limit {args.limit}: must be at least 1")
    table = open_table_of(args)
    # One more than is shown, to check that the base of the oldest one shown is still the same.
    wanted = None if args.limit is None else args.limit + 1
    snapshots, findings = lineage_findings(table.timeline, wanted)
    shown = list(reversed(snapshots))[: args.limit]
    notices: dict[str, list[str]] = {}
    for finding in findings:
        notices.setdefault(finding.file, []).append(finding.message)
    told = {table.paths.snapshot(s.id) for s in shown}
    if output.as_json:
        for snapshot in shown:
            output.record({**history_row(snapshot), "notices": notices.get(table.paths.snapshot(snapshot.id), [])})
    else:
        history = [history_row(s) for s in shown]
        output.table(*_log_rows(history), narrow=_short_log_rows(history))
    for file, messages in notices.items():
        for message in messages:
            if not output.as_json or file not in told:
                output.note(
                    json.dumps({"notice": message, "file": file}) if output.as_json else f"notice: {file} {message}"
                )
    return OK


def _log_rows(history: list[dict[str, Any]]) -> tuple[list[str], list[list[Any]]]:
    columns = ["snapshot", "time", "kind", "operation", "user", "identifier", "rows", "total", "attempts", "riders"]
    keys = ["kind", "operation", "commit_user", "identifier"]
    rows = [
        [
            row["snapshot_id"],
            moment(row["time_ms"]),
            *("" if row[key] is None else row[key] for key in keys),
            row["delta_rows"],
            row["total_rows"],
            row["attempts"],
            len(row["riders"]) or "",
        ]
        for row in history
    ]
    return columns, rows


def _short_log_rows(history: list[dict[str, Any]]) -> tuple[list[str], list[list[Any]]]:
    rows = []
    for row in history:
        kind, operation, user, number = (row[key] for key in ("kind", "operation", "commit_user", "identifier"))
        rows.append(
            [
                row["snapshot_id"],
                moment(row["time_ms"])[: -len(".000Z")].replace("T", " "),
                kind if operation in (None, kind, _USUAL.get(kind)) else f"{kind} {operation}",
                (user if number is None else f"{user}/{number}") + (f" +{len(row['riders'])}" if row["riders"] else ""),
                row["delta_rows"],
                row["total_rows"],
                row["attempts"],
            ]
        )
    return ["id", "time (UTC)", "kind", "user", "rows", "total", "tries"], rows


# ----------------------------------------------------------------------------------------------------------------- show


def show(args: argparse.Namespace, output: Output) -> int:
    table = open_table_of(args)
    snapshot = _snapshot(table, args.snapshot)
    told = show_record(table, snapshot)
    if output.as_json:
        output.record(told)
        return OK
    facts = {key: value for key, value in told.items() if not isinstance(value, dict | list) and value is not None}
    facts["time"] = moment(snapshot.time_ms)
    output.facts(facts)
    for key, value in told["properties"].items():
        output.line(f"property {key} = {value}")
    if told["manifests"]:
        columns = list(told["manifests"][0])
        output.line("")
        output.table(columns, [[m[c] for c in columns] for m in told["manifests"]])
    if told["index_files"]:
        columns = list(told["index_files"][0])
        output.line("")
        output.table(columns, [[m[c] for c in columns] for m in told["index_files"]])
    return OK


def show_record(table: Table, snapshot: Snapshot) -> dict[str, Any]:
    from ...table.system import history_row

    timeline = table.timeline
    lists = {"base": snapshot.base_manifest_list, "delta": snapshot.delta_manifest_list}
    if snapshot.changelog_manifest_list is not None:
        lists["changelog"] = snapshot.changelog_manifest_list
    manifests = [
        {
            "list": which,
            "manifest": m.file_name,
            "size": m.file_size,
            "added_files": m.num_added_files,
            "deleted_files": m.num_deleted_files,
            "schema_id": m.schema_id,
        }
        for which, name in lists.items()
        for m in timeline.manifest_list(name)
    ]
    index = [
        {"type": e.file.index_type, "file": e.file.file_name, "size": e.file.file_size, "row_count": e.file.row_count}
        for e in timeline.index_entries(snapshot)
    ]
    raw: dict[str, Any] = json.loads(snapshot.to_json())
    properties = raw.pop("properties", {})
    names = {
        "id": "snapshot_id", "timeMillis": "time_ms", "commitKind": "kind", "commitIdentifier": "identifier",
        "totalRecordCount": "total_rows", "deltaRecordCount": "delta_rows", "changelogRecordCount": "changelog_rows",
        "writerVersion": "writer",
    }  # fmt: skip
    told = {names.get(key) or _snake(key): value for key, value in raw.items()}
    told["identifier"] = history_row(snapshot)["identifier"]  # None for a batch commit, as everywhere
    if table.schema.primary_keys:
        told |= _added_runs(table, snapshot)
    return {
        **told,
        "identity": snapshot.identity,
        "properties": properties,
        "manifests": manifests,
        "index_files": index,
    }


def _added_runs(table: Table, snapshot: Snapshot) -> dict[str, Any]:
    from ...core.metadata.data_file import ADD

    timeline = table.timeline
    entries = timeline.entries(timeline.delta_manifests(snapshot))
    files = [e.file for e in entries if e.kind == ADD]
    return {
        "added_levels": ", ".join(map(str, sorted({f.level for f in files}))),
        "min_sequence_number": min((f.min_sequence_number for f in files), default=None),
        "max_sequence_number": max((f.max_sequence_number for f in files), default=None),
        "delete_rows": sum(f.delete_row_count or 0 for f in files),
    }


def _snake(name: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name)


def _snapshot(table: Table, snapshot_id: int | None) -> Snapshot:
    from ...table.travel import snapshot_at

    found = table.snapshot() if snapshot_id is None else snapshot_at(table.timeline, snapshot=snapshot_id)
    if found is None:
        raise InvalidArgument(f"{table.url} has no snapshot yet")
    return found


# -------------------------------------------------------------------------------------------------------------- explain


def explain(args: argparse.Namespace, output: Output) -> int:
    from ...coordinator.explain import explain as explained
    from ...coordinator.explain import timeline_of
    from ...coordinator.intents.commits import Commit
    from ...table.travel import commit_at

    table, named = open_table_of(args), commit_of(args)
    if isinstance(named, tuple):
        commit = commit_at(table.timeline, table.committer, named)
    else:
        commit = Commit(_snapshot(table, named))
    events, path = _events_of(table, commit, args.journal)
    if output.as_json:
        record = {**explain_record(table, commit.snapshot), "commit": str(commit.carried) if commit.carried else None}
        output.record({**record, "journal": [e.to_json() for e in events]})
        return OK
    output.line(explained(table.timeline, commit.snapshot, commit.carried))
    if events:
        output.line(f"\njournal {path}")
        output.line(timeline_of(events))
    elif args.journal is not None:
        output.note(f"{path} has no events of this snapshot")
    return OK


def explain_record(table: Table, snapshot: Snapshot) -> dict[str, Any]:
    from ...coordinator.history.lost import lost_attempts
    from ...coordinator.history.timeline import base_of
    from ...core.metadata.data_file import ADD
    from ...table.system import history_row

    base = base_of(snapshot)
    found = None if base is None else table.timeline.find(base.id)
    state = "unknown" if base is None else "gone" if found is None else "there"
    if base is not None and found is not None and found.identity != base.identity:
        state = "replaced"
    entries = table.timeline.entries(table.timeline.delta_manifests(snapshot))
    added = sum(e.kind == ADD for e in entries)
    return {
        **history_row(snapshot),
        "identity": snapshot.identity,
        "base": None if base is None else {"snapshot_id": base.id, "identity": base.identity},
        "base_state": state,
        "lost": lost_attempts(snapshot),
        "added_files": added,
        "deleted_files": len(entries) - added,
    }


def _events_of(table: Table, commit: Commit, argument: str | None) -> tuple[list[Entry], Path]:
    """The events of a commit, or of that which created its snapshot, if a journal has them, and the path of that journal."""
    from ...coordinator.journal.lines import read_journal
    from ...coordinator.journal.object_journal import file_of

    own = file_of(table.schema.options, table.store)
    path = Path(own) if own and not argument and JOURNAL not in os.environ else journal_path(argument)
    if not path.exists():
        if argument is not None:
            raise InvalidArgument(f"there is no journal {path}")
        return [], path
    # Read the file twice, so that a journal of several years is never held in memory.
    identity = commit.snapshot.identity
    commits = {e.commit for e in read_journal(path) if getattr(e.event, "snapshot_uuid", None) == identity}
    commits = {commit.carried.commit} if commit.carried is not None else commits
    return [e for e in read_journal(path) if e.commit in commits], path
