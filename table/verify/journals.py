"""Check the commits of a journal: is what it reports as landed still there?

Owns: this check. Must not know: how a commit is resolved. Source: decision 89; H1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ...coordinator.history.timeline import Timeline
from ...coordinator.journal.lines import Damage, Entry
from ...coordinator.protocol import effects as do
from ...coordinator.recovery.home import Home
from ...coordinator.recovery.past import pasts
from ...core.metadata.snapshot import Snapshot
from .finding import Findings


def check_commits(
    timeline: Timeline,
    ids: Sequence[int],
    snapshots: Mapping[int, Snapshot],
    lines: Iterable[Entry | Damage],
    findings: Findings,
) -> None:
    """Compare each snapshot that a journal reports as landed with the one that has its id.

    Snapshots that have expired tell nothing. A rollback that deletes snapshots, as Apache Paimon's does, is reported as well.
    """
    lines = list(lines)
    if not lines or not ids:
        return
    table = Home(timeline.store).identity(timeline.paths.branch)

    def mine(entry: Entry) -> bool:
        return entry.table_id == table != "" and entry.branch == timeline.paths.branch

    for past in pasts(lines, mine).values():
        outcome, request = past.outcome, past.request
        if not isinstance(outcome, do.Committed) or outcome.snapshot.id < ids[0]:
            continue
        ref, there = outcome.snapshot, snapshots.get(outcome.snapshot.id)
        if (there is None and ref.id in ids) or (there is not None and there.identity == ref.identity):
            continue
        who = request.user if request.identifier is None else f"{request.user}/{request.identifier}"
        instead = f"was replaced by {there.identity} ({there.commit_user})" if there is not None else "is gone"
        findings.error(
            timeline.paths.snapshot(ref.id),
            "",
            f"the journal reports that {who} landed in it, under identity {ref.identity}, and it {instead}: its rows are"
            " missing; run the job again",
        )
