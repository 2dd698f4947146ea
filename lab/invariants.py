"""What must hold in every state of a table, whatever happened to whom.

Owns: `look` (what readers see of a store's contents) and `violations`. Must not know: schedules, how a state came about
beyond what was told and which snapshots somebody removed on purpose.
Source: design §1 (G1–G6). Invariant: readers are the shipped `Timeline`; nothing here is cleverer than they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from ..coordinator.timeline import Timeline
from ..core.data_file import ADD
from ..core.errors import LakelatchError
from ..core.folding import live
from ..core.snapshot import Snapshot
from .simulated_store import Objects
from .stage import PATHS, Told, commits_in, read_only


@dataclass(frozen=True)
class View:
    """One snapshot as readers see it: its live data files, and every file that it needs."""

    snapshot: Snapshot
    files: tuple[str, ...]
    before: frozenset[str]
    delta_rows: int
    rows: int
    needs: frozenset[str]

    @property
    def commits(self) -> tuple[str, ...]:
        """Whose rows they are."""
        return tuple(commit for name in self.files for commit in commits_in(name))


@dataclass(frozen=True)
class Reading:
    """What readers see: the snapshots from the top down, as far as each stands on the one below."""

    views: tuple[View, ...] = ()
    failure: str = ""

    @property
    def top(self) -> View | None:
        return self.views[0] if self.views else None


@dataclass(frozen=True)
class Violation:
    """A promise that did not hold."""

    promise: str
    text: str

    def __str__(self) -> str:
        return f"{self.promise}: {self.text}"


@dataclass
class Context:
    """What else the invariants need to know.

    Attributes:
        removed: identities of snapshots that a rollback or an overwriting writer took away, on purpose.
        bases: identity -> identity of its base, of every snapshot that ever was.
        faults: how many struck so far.
        deletes: may the table hold half-expired snapshots below the top?
        twins: commit labels that share one identity.
        overwrites: may an overwrite have deleted what was committed?
        replaced: pairs of commit labels: where the rows of the first are, those of the second are not.
    """

    removed: Collection[str] = ()
    bases: Mapping[str, str] = field(default_factory=dict)
    faults: int = 0
    deletes: bool = False
    foreign: bool = False
    twins: tuple[frozenset[str], ...] = ()
    overwrites: bool = False
    replaced: tuple[tuple[str, str], ...] = ()

    def undone(self, identity: str) -> bool:
        """Was this snapshot, or one that it stands on, removed on purpose?"""
        seen: set[str] = set()
        while identity and identity not in seen:
            if identity in self.removed:
                return True
            seen.add(identity)
            identity = self.bases.get(identity, "")
        return False


def look(objects: Objects) -> Reading:
    """What a cold reader sees."""
    with read_only(objects) as timeline:
        try:
            snapshot = timeline.latest()
            views = []
            while snapshot is not None:
                try:
                    views.append(_view(timeline, snapshot))
                except LakelatchError:
                    if not views:
                        raise
                    break
                snapshot = timeline.find(snapshot.id - 1)
            return Reading(tuple(views))
        except LakelatchError as error:
            return Reading((), str(error))


def _view(timeline: Timeline, snapshot: Snapshot) -> View:
    base = timeline.manifest_list(snapshot.base_manifest_list)
    delta = timeline.manifest_list(snapshot.delta_manifest_list)
    before, changes = timeline.entries(base), timeline.entries(delta)
    alive = live([*before, *changes])
    lists = (snapshot.base_manifest_list, snapshot.delta_manifest_list)
    metadata = [PATHS.manifest(name) for name in (*lists, *(m.file_name for m in (*base, *delta)))]
    data = [f"bucket-0/{e.file.file_name}" for e in alive]
    return View(
        snapshot,
        tuple(e.file.file_name for e in alive),
        frozenset(e.file.file_name for e in live(before)),
        sum(e.file.row_count if e.kind == ADD else -e.file.row_count for e in changes),
        sum(e.file.row_count for e in alive),
        frozenset([*metadata, *data]),
    )


def violations(objects: Objects, reading: Reading, told: Iterable[Told], context: Context) -> list[Violation]:
    """Every promise that this state breaks."""
    told = list(told)
    found = list(_of_the_table(objects, reading, context))
    seen = frozenset(reading.top.commits) if reading.top else frozenset()
    for line in told:
        undone = line.snapshot is not None and context.undone(line.snapshot.identity)
        if (
            line.outcome == "committed"
            and line.commit not in seen
            and not (line.detail or undone or context.overwrites)
        ):
            found.append(Violation("G1", f"{line.commit} was told committed, and readers do not see its rows"))
        # A fork on a name that a writer without a lock renamed over stays the top: nobody else can see that it is one.
        renamed_over = line.detail == "fenced" and context.foreign
        if line.outcome == "not committed" and line.commit in seen and not renamed_over:
            found.append(
                Violation("G2", f"{line.commit} was told not committed ({line.detail}), and its rows are there")
            )
        if line.outcome == "unknown" and context.faults == 0 and not context.deletes and not context.foreign:
            found.append(Violation("honesty", f"{line.commit} was told unknown, though nothing had failed"))
        if line.outcome == "committed" and line.snapshot is not None and not undone:
            found += _not_as_told(line, reading, context)
    for group in context.twins:
        landed = sorted(label for label in group if label in seen)
        if len(landed) > 1:
            found.append(Violation("G3", f"one identity landed {len(landed)} times: {', '.join(landed)}"))
    return found


def _not_as_told(line: Told, reading: Reading, context: Context) -> Iterable[Violation]:
    """The receipt names the very snapshot that readers find; a replay's names a commit that is there."""
    seen = frozenset(reading.top.commits) if reading.top else frozenset()
    for view in reading.views:
        same_id = line.snapshot is not None and view.snapshot.id == line.snapshot.id
        if (
            same_id
            and not context.deletes
            and line.snapshot is not None
            and view.snapshot.identity != line.snapshot.identity
        ):
            yield Violation("G1", f"{line.commit} has a receipt for snapshot {line.snapshot.id}, which is another's")
    group = next((g for g in context.twins if line.commit in g), None)
    if line.detail == "replayed" and group and not any(label in seen for label in group):
        yield Violation("G3", f"{line.commit} was told that it had landed before, and readers see nothing of it")


def _of_the_table(objects: Objects, reading: Reading, context: Context) -> Iterable[Violation]:
    """What needs no caller: references, counts, one history."""
    if reading.failure:
        yield Violation("G4", f"the table cannot be read: {reading.failure}")
    for number, view in enumerate(reading.views):
        if number > 0 and context.deletes:
            break
        missing = sorted(key for key in view.needs if key not in objects)
        if missing:
            yield Violation("G5", f"snapshot {view.snapshot.id} needs {missing[0]}, which is gone")
        twice = [commit for commit, times in Counter(view.commits).items() if times > 1]
        if twice:
            yield Violation("G3", f"snapshot {view.snapshot.id} holds the rows of {twice[0]} twice")
        for over, under in context.replaced:
            if over in view.commits and under in view.commits:
                yield Violation(
                    "H13", f"snapshot {view.snapshot.id}: the rows of {under}, replaced by {over}, are back"
                )
        if view.snapshot.total_record_count != view.rows:
            counts = f"{view.snapshot.total_record_count} rows, its files hold {view.rows}"
            yield Violation("counts", f"snapshot {view.snapshot.id} says {counts}")
        if view.snapshot.delta_record_count != view.delta_rows:
            yield Violation("counts", f"snapshot {view.snapshot.id}: its delta count is not that of its delta")
    for above, below in zip(reading.views, reading.views[1:], strict=False):
        if above.before != frozenset(below.files) and not context.deletes and not context.foreign:
            number = above.snapshot.id
            yield Violation("G6", f"snapshot {number} does not stand on everything of snapshot {number - 1}")
    if reading.views and not context.deletes and not context.foreign and reading.views[-1].snapshot.id != 1:
        yield Violation("G6", f"the history begins at {reading.views[-1].snapshot.id}: there is a gap below")
