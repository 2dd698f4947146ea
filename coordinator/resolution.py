"""Finding out how a commit ended whose answer never came.

Owns: `resolve`, from inside the process that sent it. Must not know: how the commit was built.
Source: design §3 (resolve), H2, H9. Invariants: *committed* only when our snapshot holds its name in a lineage that
stands; *not committed* only when another's holds it; in between, the same bytes are sent to the same name again.
"""

from __future__ import annotations

from ..core.errors import CommitConflict, Fenced, OutcomeUnknown
from .protocol import effects as do
from .protocol import events as ev
from .protocol.events import SnapshotRef
from .receipt import Receipt
from .run import CommitRun


def resolve(run: CommitRun, ours: SnapshotRef, timeout: float) -> Receipt:
    """The receipt of a commit that landed, or that rolling forward made land.

    Args:
        timeout: seconds to keep trying.

    Raises:
        CommitConflict: not committed: another's snapshot holds the name. Run the job again.
        Fenced: it landed on a freed name, outside the history.
        OutcomeUnknown: still no answer within the timeout.
    """
    deadline = run.around.monotonic_s() + timeout
    look = 0
    reason = "no answer yet"
    while True:
        look += 1
        found = run.read_back(do.ReadBack(ours, 1))
        if isinstance(found, ev.FoundAnother):
            raise CommitConflict(
                f"not committed: snapshot {ours.id} is another's (by '{found.user}')", next_step="run the job again"
            )
        if isinstance(found, ev.FoundNothing):
            found = run.publish(do.Publish(ours, 2))
        if isinstance(found, (ev.FoundOurs, ev.SnapshotPublished)):
            checked = run.verify_lineage(do.VerifyLineage(run.base.ref if run.base else None, ours, 1))
            if isinstance(checked, ev.LineageVerified):
                return _receipt(run, ours, look)
            if isinstance(checked, ev.LineageBroken):
                raise Fenced(checked.reason)
            reason = checked.reason if isinstance(checked, ev.LineageUnread) else reason
        if run.around.monotonic_s() >= deadline:
            raise OutcomeUnknown(
                f"still not known after {timeout:.0f} s whether snapshot {ours.id} was committed: {reason}",
                identity={
                    "snapshot_id": ours.id,
                    "snapshot_uuid": ours.identity,
                    "commit_user": run.request.commit_user,
                    "identifier": run.request.identifier,
                },
                resolver=lambda again: resolve(run, ours, again),
            )
        run.around.sleep(min(1.0, 0.05 * 2**look))


def _receipt(run: CommitRun, ours: SnapshotRef, looks: int) -> Receipt:
    request = run.request
    attempts = len(run.lost) + 1
    return Receipt(
        snapshot_id=ours.id,
        snapshot_uuid=ours.identity,
        commit_user=request.commit_user,
        identifier=request.identifier,
        kind=request.kind,
        attempts=attempts,
        retries=attempts - 1,
        requests=looks,
        sequential_requests=looks,
        elapsed_ms=0.0,
        replayed=False,
    )
