"""The check `riding` of `doctor`: would group commit help on this store, and does this table need it (decision 71)?

Owns: that check. Must not know: other checks, printing, how appends ride.
Invariant: it reads the newest snapshots of the table, and sends nothing else.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from ...backends.store import ObjectNotFound, Store
from ...core import options as opt
from ...core.errors import LakelatchError
from ...core.metadata.schema import TableSchema
from ...core.metadata.snapshot import Snapshot
from ...core.paths import TablePaths

if TYPE_CHECKING:
    from ...lab.seeded.simulate import Forecast

LOOKED_AT = 30
BUSY_PER_MINUTE, BUSY_WRITERS = 30, 3
"""A table is busy if at least so many writers make at least so many commits a minute."""


def forecast(latency_ms: float, alone: Forecast, commits: int) -> str:
    """What riding brings at this latency to as many writers as in a forecast without it, simulated."""
    from ...lab.seeded.simulate import simulate
    from ...lab.seeded.workloads import workload

    riding = simulate(alone.writers, commits=commits, latency_ms=latency_ms, work=workload(rides=True))
    return (
        f"{alone.writers} writers of appends that ride make {riding.commits_per_minute:.0f} commits a minute instead of"
        f" {alone.commits_per_minute:.0f}, each in {riding.p50_ms / 1000:.2f} s instead of {alone.p50_ms / 1000:.2f} s"
        f" (simulated, {latency_ms:.1f} ms)"
    )


def newest_appends(store: Store, branch: str) -> tuple[TableSchema, list[Snapshot]] | None:
    """The newest schema, and the appends among the newest snapshots, oldest first; None where there is no table."""
    from ...coordinator.history.timeline import Timeline

    with suppress(LakelatchError, ObjectNotFound):  # another check reports the error
        timeline = Timeline(store, TablePaths(branch))
        found = timeline.parallel(timeline.find, timeline.snapshot_ids()[-LOOKED_AT:])
        return timeline.latest_schema(), [s for s in found if s is not None and s.commit_kind == "APPEND"]
    return None


def busy(snapshots: Sequence[Snapshot]) -> tuple[float, int] | None:
    """Commits a minute, and the number of writers, of snapshots that show a busy table; None for any others."""
    from ...coordinator.commit.attempt import committer_of

    if len(snapshots) < 2:
        return None
    minutes = max(snapshots[-1].time_ms - snapshots[0].time_ms, 1) / 60_000
    rate, writers = (len(snapshots) - 1) / minutes, len({committer_of(s) for s in snapshots})
    return (rate, writers) if rate >= BUSY_PER_MINUTE and writers >= BUSY_WRITERS else None


def advice(schema: TableSchema, snapshots: Sequence[Snapshot], url: str) -> tuple[str, str]:
    """What the table's options and newest snapshots say about riding, and what to do; "" where there is nothing to do."""
    from ...coordinator.commit.riding.group import has_riders

    key = opt.COMMIT_GROUP.key
    if not has_riders(schema):
        what = "appends without buckets and row tracking, and upserts into fixed or postponed buckets"
        return f"commits to this table go alone: what rides are {what}", ""
    if schema.options.get(opt.COMMIT_GROUP) == opt.GROUP_AUTO:
        return f"option '{key}' is on", ""
    found = busy(snapshots)
    if found is None:
        return f"option '{key}' is off, and few writers commit at once", ""
    detail = (
        f"option '{key}' is off, and the newest snapshots show {found[0]:.0f} commits a minute by {found[1]} writers"
    )
    return detail, f"lakelatch alter {shlex.quote(url)} --set {key}={opt.GROUP_AUTO} --apply"
