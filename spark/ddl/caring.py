"""Statements of Delta's users that look after a table: OPTIMIZE, VACUUM, DESCRIBE HISTORY, DESCRIBE DETAIL, RESTORE.

Owns: these statements. Must not know: how files are chosen. Source: decisions 123 and 125.
Invariants: VACUUM deletes what nothing names, as `clean` does, and never a snapshot. RESTORE is a commit on top of the history.
"""

from __future__ import annotations

from typing import Any

from ...coordinator.surroundings import MACHINE
from ...core.errors import InvalidArgument
from ...core.metadata.data_file import ManifestEntry
from ...core.metadata.snapshot import Snapshot
from ..catalogs.queries import moment_of
from ..catalogs.run import Run
from ..cleaning import clean
from ..grammar.other_statements import DescribeDetail, DescribeHistory, Optimize, Restore, Vacuum
from ..sessions.identity import identity_of
from ..sessions.zones import bound_in, session_zone
from .describing import lake_table, located

_HOUR_MS = 3_600_000
_OPTIMIZED = (
    "path string, metrics struct<numFilesAdded: bigint, numFilesRemoved: bigint, filesAddedBytes: bigint,"
    " filesRemovedBytes: bigint, snapshots: array<bigint>, givenUp: bigint>"
)
_RESTORED = (
    "table_size_after_restore bigint, num_of_files_after_restore bigint, num_removed_files bigint, num_restored_files bigint,"
    " removed_files_size bigint, restored_files_size bigint, snapshot_id bigint"
)


def carry_out_optimize(run: Run, statement: Optimize) -> Any:
    found = located(run, statement.name, sparks_too=True)
    if found is None:
        return None
    target = lake_table(run, found)
    table = target.table.refresh()
    where = None if statement.where is None else bound_in(session_zone(run.session), statement.where.text, table.schema)
    if statement.zorder:
        clustering = table.optimize(by=list(statement.zorder), curve="zorder", where=where, full=statement.full)
        done = clustering.compaction
    else:
        done = target.compact(where, full=statement.full)
    ids = [receipt.snapshot_id for receipt in done.receipts]
    removed = done.plan.size if done.receipts else 0
    metrics = (done.files_after, done.files_before, done.bytes_after, removed, ids, len(done.given_up))
    return run.session.createDataFrame([(table.url, metrics)], _OPTIMIZED)


def carry_out_vacuum(run: Run, statement: Vacuum) -> Any:
    """The files that were deleted, or with DRY RUN would be; without RETAIN those that are older than a day."""
    found = located(run, statement.name, sparks_too=True)
    if found is None:
        return None
    target = lake_table(run, found)
    older = None if statement.hours is None else _before(statement.hours)
    done = clean(
        run.session,
        target.table.url,
        older_than=older,
        dry_run=statement.dry_run,
        storage_options=target.storage_options,
    )
    root = target.table.url.rstrip("/")
    return run.session.createDataFrame([(f"{root}/{info.key}",) for info in done.files], "path string")


def _before(hours: float) -> int:
    if hours < 0:
        raise InvalidArgument(f"RETAIN {hours} HOURS", next_step="write a number of hours of at least 1")
    return MACHINE.wall_ms - round(hours * _HOUR_MS)


def carry_out_describe_history(run: Run, statement: DescribeHistory) -> Any:
    found = located(run, statement.name, sparks_too=True)
    return None if found is None else lake_table(run, found).history(statement.limit)


def carry_out_describe_detail(run: Run, statement: DescribeDetail) -> Any:
    found = located(run, statement.name, sparks_too=True)
    return None if found is None else lake_table(run, found).detail()


def carry_out_restore(run: Run, statement: Restore) -> Any:
    found = located(run, statement.name, sparks_too=True)
    if found is None:
        return None
    table = lake_table(run, found).table
    state = moment_of(run, statement.to)
    if "watermark" in state:
        state = {"snapshot": _there(table.at(**state).snapshot()).id}
    newest = table.refresh().snapshot()
    changed: list[list[ManifestEntry]]
    if newest is not None and table.at(**state).snapshot() == newest:
        now, changed = newest.id, [[], []]
    else:
        plan = table.plan_rollback(**state)
        with identity_of(run.session) as about:
            receipt = table.rollback(**state, **about)
        now, changed = receipt.snapshot_id, [[], []] if receipt.replayed else [list(plan.removed), list(plan.added)]
    after = table.refresh().entries()
    sizes = [sum(entry.file.file_size for entry in entries) for entries in (after, *changed)]
    row = (sizes[0], len(after), len(changed[0]), len(changed[1]), sizes[1], sizes[2], now)
    return run.session.createDataFrame([row], _RESTORED)


def _there(snapshot: Snapshot | None) -> Snapshot:
    assert snapshot is not None
    return snapshot
