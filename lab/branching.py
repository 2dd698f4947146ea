"""Fast-forward in the lab: a branch with one commit comes into main, beside writers, an expiry and every fault.

Owns: the roles and scenarios of branches. Must not know: how they are explored. Source: decision 55.
Invariant: shipped operations run unchanged. A fast-forward that raises a conflict must not have brought the branch's rows, and
one that returned must have.
"""

from __future__ import annotations

from ..coordinator.branches.create import create_branch, source_of
from ..coordinator.branches.forward import apply_fast_forward
from ..coordinator.branches.forward_plan import plan_fast_forward
from ..coordinator.commit.committer import Committer
from ..coordinator.commit.request import CommitRequest, Remarks
from ..coordinator.history.timeline import Timeline, ref_of
from ..core.errors import CommitConflict, InvalidArgument, LakelatchError, OutcomeUnknown
from ..core.paths import TablePaths
from .actors import Actor, Role, data_entry, upload, writer
from .maintainers import expirer
from .published import COMMIT
from .scenario import Scenario
from .scenarios_writers import history
from .stage import PATHS, Stage, Told, lab_schema

BRANCH = TablePaths("b")
ROW = "K1"
GIVEN = ((PATHS.schema(0), lab_schema().to_json()),)
"""The table has its schema file, which a branch copies."""


def brancher() -> Role:
    """Make a branch of the newest snapshot, and commit a row to it."""

    def role(stage: Stage) -> None:
        timeline = stage.timeline()
        create_branch(source_of(timeline, timeline.latest(), None), "b", stage.around)
        entry = data_entry(ROW)
        request = CommitRequest(
            kind="APPEND",
            entries=(entry,),
            commit_user="user-K",
            uploads=(upload(stage, entry, ROW),),
            remarks=Remarks(properties={COMMIT: ROW}),
        )
        Committer(stage.store, BRANCH, stage.schema, stage, stage.around).commit(request)

    return role


def forwarder(times: int = 1) -> Role:
    """Bring the branch into main, with the shipped code; run it again if the store failed."""

    def role(stage: Stage) -> None:
        unsure = False
        try:
            taken = ref_of(Timeline(stage.store, BRANCH, stage.around.executor).find(3))
        except LakelatchError:
            return  # nothing was done
        for _ in range(times):
            main = stage.timeline()
            try:
                apply_fast_forward(main, plan_fast_forward(main, "b", stage.around), stage.around)
            except (CommitConflict, InvalidArgument) as error:
                told = Told(ROW, "unknown", "", taken) if unsure else Told(ROW, "not committed", error.code, None)
                stage.tell(told)
                return
            except OutcomeUnknown:
                unsure = True
            except LakelatchError:
                continue
            else:
                stage.tell(Told(ROW, "committed", "", taken))
                return
        if unsure:
            stage.tell(Told(ROW, "unknown", "", taken))

    return role


def forwarding(budget: int, *, expires: bool = False, by_hand: bool = False) -> Scenario:
    """A branch comes into main while a writer commits, and perhaps expires what it built on."""
    before = (*history(2), Actor("K", brancher(), "hand"))
    actors = [Actor("A", writer(2 if expires else 1)), Actor("F", forwarder(2), "forwarder")]
    if expires:
        actors.append(Actor("X", expirer(), "expirer", after=("A",)))
    name = f"fast-forward{' beside an expiry' if expires else ''}{' by hand' if by_hand else ''}, {budget} faults"
    return Scenario(name, tuple(actors), budget, before=before, by_hand=by_hand, lands=frozenset(), given=GIVEN)
