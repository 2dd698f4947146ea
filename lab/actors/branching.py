"""Branches in the lab: made, deleted, made again and brought into main, beside writers, an expiry and every fault.

Owns: the roles and scenarios of branches, and `broken_branches`, what must hold for one. Must not know: how they are explored.
Source: decision 55; H10. Invariant: shipped operations run unchanged. A fast-forward that raises a conflict must not have brought
the branch's rows, and one that returned must have. A branch that was reported as made can be read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ...coordinator.branches.create import create_branch, source_of
from ...coordinator.branches.forward import apply_fast_forward
from ...coordinator.branches.forward_plan import plan_fast_forward
from ...coordinator.branches.remove import apply_deletion, plan_deletion
from ...coordinator.commit.committer import Committer
from ...coordinator.commit.request import CommitRequest, Remarks
from ...coordinator.history.timeline import Timeline, ref_of
from ...core.errors import CommitConflict, InvalidArgument, LakelatchError, OutcomeUnknown
from ...core.metadata.snapshot import parse_snapshot
from ...core.paths import TablePaths
from ..scenarios.scenario import Scenario
from ..scenarios.writers import history
from ..world.published import COMMIT
from ..world.reading import view
from ..world.simulated_store import Objects
from ..world.stage import PATHS, Stage, Told, lab_schema, read_only
from .jobs import Actor, Role, data_entry, upload, writer
from .maintainers import expirer

BRANCH = TablePaths("b")
ROW = "K1"
MADE = "branched"
GIVEN = ((PATHS.schema(0), lab_schema().to_json()),)


def brancher() -> Role:
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


# ------------------------------------------------------------------------------------------------- made and deleted


def branch_maker(of: int) -> Role:
    def role(stage: Stage) -> None:
        timeline = stage.timeline()
        try:
            snapshot = timeline.find(of)
            if snapshot is None:
                return
            create_branch(source_of(timeline, snapshot, None), "b", stage.around)
        except LakelatchError:
            return
        stage.tell(Told("b", MADE, str(of), None, ()))

    return role


def branch_remover() -> Role:
    def role(stage: Stage) -> None:
        timeline = stage.timeline()
        try:
            apply_deletion(timeline, plan_deletion(timeline, stage.schema, "b"), stage.around)
        except LakelatchError:
            return

    return role


def broken_branches(told: Iterable[Told], objects: Objects) -> Iterator[str]:
    for line in told:
        if line.outcome != MADE:
            continue
        key = BRANCH.snapshot(int(line.detail))
        missing = [name for name in (BRANCH.schema(0), key) if name not in objects]
        if not missing:
            with read_only(objects) as timeline:
                try:
                    needs = view(timeline, parse_snapshot(objects[key], key), objects).needs
                    missing = sorted(needs - objects.keys())
                except LakelatchError as error:
                    missing = [error.message]
        if missing:
            yield f"branch {line.commit} was reported as made, but lacks {missing[0]}"


def branched_while_expiring(budget: int, *, writes: bool = False, strikes: str = "") -> Scenario:
    """A branch is made of a snapshot that an expiry removes: it is refused, or its files stay."""
    before = (*history(1), Actor("over", writer(overwrites=True), "overwriter"))
    actors = (Actor("K", branch_maker(1), "brancher"), Actor("X", expirer(), "expirer"))
    words = ["branched while expiring", *(["beside a writer"] if writes else []), *filter(None, [strikes])]
    name = ", ".join([*words, f"{budget} faults"])
    beside = (Actor("A", writer()),) if writes else ()
    return Scenario(
        name, (*beside, *actors), budget, before=before, given=GIVEN, victims=frozenset("AK"), strikes=strikes
    )


def branched_again(budget: int, *, expires: bool, overlap: bool = True) -> Scenario:
    """A branch is deleted and made again. `expires`: the snapshot that it begins with expires meanwhile. `overlap`: it
    may be made again before the deletion has ended; otherwise the expiry waits for both between the listing of branches
    and their snapshots, which limits the moments that are explored.
    """
    before = (
        *history(1),
        Actor("first", branch_maker(1), "brancher"),
        Actor("over", writer(overwrites=True), "overwriter"),
    )
    actors = (
        Actor("D", branch_remover(), "unbrancher"),
        Actor("K", branch_maker(1), "brancher", after=() if overlap else ("D",)),
    )
    holds = ("", ()) if overlap else ("read branch/", ("D", "K"))
    also = (Actor("X", expirer(), "expirer", holds=holds),) if expires else ()
    words = ["branched again", *(["while expiring"] if expires else []), *([] if overlap else ["after a deletion"])]
    name, struck = f"{' '.join(words)}, {budget} faults", frozenset("DK")
    return Scenario(name, (*actors, *also), budget, before=before, given=GIVEN, victims=struck)
