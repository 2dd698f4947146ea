"""The invariants of every state of a table, whatever happened to its writers.

Owns: `violations`. Must not know: schedules, or the history of a state, except the reported outcomes, the published snapshots
and the snapshots that were removed on purpose. Source: architecture §1 (G1–G6), H12, H13.
Invariants: the outcomes that callers got are compared with the rows that readers see. Only a snapshot that had read a row may
remove it, and no row comes back through a snapshot that did not add it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

from ...core.errors import LakelatchError
from ...core.metadata.snapshot import parse_snapshot
from ..world.published import Published, chain, may_remove
from ..world.reading import Reading, View, look
from ..world.reading import view as read_view
from ..world.simulated_store import Objects
from ..world.stage import BEGAN, PATHS, Told, read_only
from .serial import Op, order_of, values_of

__all__ = ["Context", "Reading", "View", "Violation", "look", "violations"]


@dataclass(frozen=True)
class Violation:
    promise: str
    text: str

    def __str__(self) -> str:
        return f"{self.promise}: {self.text}"


@dataclass
class Context:
    """Further facts that the invariants depend on.

    Attributes:
        removed: the identities of snapshots that a rollback or an overwriting writer removed on purpose.
        gone: the names of commits that were reported, and then dropped together with their table.
        troubled: something has failed so far, or taken very long.
        deletes: the table may hold half-expired snapshots below the top.
        foreign: a writer may rename over published snapshots.
        began: the snapshots that riders had read when they began, by their commits.
    """

    removed: Collection[str] = ()
    published: Mapping[str, Published] = field(default_factory=dict)
    gone: frozenset[str] = frozenset()
    troubled: bool = False
    deletes: bool = False
    foreign: bool = False
    twins: tuple[frozenset[str], ...] = ()
    keyed: bool = False
    began: Mapping[str, str] = field(default_factory=dict)

    def undone(self, identity: str) -> bool:
        seen: set[str] = set()
        while identity and identity not in seen:
            if identity in self.removed:
                return True
            seen.add(identity)
            identity = self.published[identity].base if identity in self.published else ""
        return False


def violations(objects: Objects, reading: Reading, told: Iterable[Told], context: Context) -> list[Violation]:
    told = list(told)
    context = replace(context, began={line.commit: line.detail for line in told if line.outcome == BEGAN})
    found = list(_of_the_table(objects, reading, context))
    seen = frozenset(reading.top.visible) if reading.top else frozenset()
    top = reading.top.snapshot.identity if reading.top else ""
    past = list(chain(context.published, top))
    landed = {commit for published in past for commit in published.commits}
    for line in told:
        undone = line.snapshot is not None and context.undone(line.snapshot.identity)
        if line.outcome == "committed" and not (undone or line.commit in context.gone):
            found += _acknowledged(line, seen, past, context)
            found += _not_as_told(line, reading, context)
        visible = any(row in seen for row in line.added) or (not line.added and line.commit in landed)
        visible = line.commit in landed if context.keyed else visible
        if line.outcome == "not committed" and visible:
            found.append(
                Violation(
                    "G2", f"{line.commit} was reported as not committed ({line.detail}), but its rows are in the table"
                )
            )
        if line.outcome == "unknown" and not (context.troubled or context.deletes or context.foreign):
            found.append(Violation("honesty", f"{line.commit} was reported as unknown, although nothing had failed"))
    found += _tags(objects, told)
    for group in context.twins:
        there = sorted(label for label in group if label in seen)
        refused = [line for line in told if line.commit in group and line.detail == "invalid-argument"]
        if refused and there:
            found.append(Violation("G3", f"{refused[0].commit} was refused, but its identity has landed: {there[0]}"))
        if len(there) > 1:
            found.append(Violation("G3", f"one identity landed {len(there)} times: {', '.join(there)}"))
    return found


def _tags(objects: Objects, told: Iterable[Told]) -> Iterator[Violation]:
    """G7: a tag that was reported as made can be read, unless it was reported as deleted."""
    told = list(told)
    deleted = {line.commit for line in told if line.outcome == "deleted"}
    for line in told:
        if line.outcome != "tagged" or line.commit in deleted:
            continue
        key = PATHS.tag(line.commit)
        if key not in objects:
            yield Violation("G7", f"tag {line.commit} was reported as made, but it is gone")
            continue
        with read_only(objects) as timeline:
            try:
                needs = read_view(timeline, parse_snapshot(objects[key], key), objects).needs
            except LakelatchError as error:
                yield Violation("G7", f"tag {line.commit} was reported as made, but cannot be read: {error.message}")
                continue
        missing = sorted(needs - objects.keys())
        if missing:
            yield Violation("G7", f"tag {line.commit} was reported as made, but needs {missing[0]}, which is gone")


def _acknowledged(line: Told, seen: frozenset[str], past: list[Published], context: Context) -> Iterator[Violation]:
    """G1: the rows of an acknowledged commit are in the table, unless a later snapshot had read and replaced them."""
    if line.detail:
        return  # a replay has no rows of its own
    if context.keyed:
        if not any(line.commit in published.commits for published in past):
            yield Violation("G1", f"{line.commit} was reported as committed, but it is not part of the table")
        return
    removable = frozenset[str]()
    for published in past:
        removable |= may_remove(context.published, published)
    missing = [row for row in line.added if row not in seen and row not in removable]
    if missing:
        which = "" if len(line.added) == 1 else f" ({', '.join(missing)})"
        yield Violation("G1", f"{line.commit} was reported as committed, but readers do not see its rows{which}")
    back = [row for row in line.deletes if row in seen and not any(p.restores for p in past)]
    if back:
        yield Violation(
            "G1", f"{line.commit} was reported as committed, but readers see {', '.join(back)}, which it deleted"
        )


def _not_as_told(line: Told, reading: Reading, context: Context) -> Iterator[Violation]:
    """The receipt names the snapshot that readers find. That of a replay names a commit that is in the table."""
    if line.snapshot is None:
        return
    seen = frozenset(reading.top.visible) if reading.top else frozenset()
    for view in reading.views:
        same_id = view.snapshot.id == line.snapshot.id
        if same_id and not context.deletes and view.snapshot.identity != line.snapshot.identity:
            yield Violation("G1", f"{line.commit} has a receipt for snapshot {line.snapshot.id} of another writer")
    group = next((g for g in context.twins if line.commit in g), None)
    if line.detail == "replayed" and group and not any(label in seen for label in group):
        yield Violation("G3", f"{line.commit} was reported as landed before, but readers see nothing of it")


def _of_the_table(objects: Objects, reading: Reading, context: Context) -> Iterator[Violation]:
    if reading.failure:
        yield Violation("G4", f"the table cannot be read: {reading.failure}")
    for number, view in enumerate(reading.views):
        if number > 0 and context.deletes:
            break
        missing = sorted(key for key in view.needs if key not in objects)
        if missing:
            yield Violation("G5", f"snapshot {view.snapshot.id} needs {missing[0]}, which is gone")
        twice = [commit for commit, times in Counter(view.visible).items() if times > 1]
        if twice:
            yield Violation("G3", f"snapshot {view.snapshot.id} holds the rows of {twice[0]} twice")
        if view.stray:
            yield Violation("H12", f"snapshot {view.snapshot.id} marks rows of {view.stray[0]}, which is not live")
        if view.unindexed:
            yield Violation("H12", f"snapshot {view.snapshot.id}: no hash index has the key of {view.unindexed[0]}")
        if view.twice:
            yield Violation("row ids", f"snapshot {view.snapshot.id}: {view.twice[0]} has row ids of another file")
        yield from _of_keys(view, context) if context.keyed else _moved_rows(view, context)
        if view.snapshot.total_record_count != view.rows:
            counts = f"{view.snapshot.total_record_count} rows, but its files hold {view.rows}"
            yield Violation("counts", f"snapshot {view.snapshot.id} records {counts}")
        if view.snapshot.delta_record_count != view.delta_rows:
            yield Violation("counts", f"snapshot {view.snapshot.id}: its delta count is not that of its delta")
    for above, below in zip(reading.views, reading.views[1:], strict=False):
        if above.before != frozenset(below.files) and not context.deletes and not context.foreign:
            number = above.snapshot.id
            yield Violation("G6", f"snapshot {number} is not based on everything in snapshot {number - 1}")
    if reading.views and not context.deletes and not context.foreign and reading.views[-1].snapshot.id != 1:
        yield Violation("G6", f"the history begins at {reading.views[-1].snapshot.id}: there is a gap below")


def _moved_rows(view: View, context: Context) -> Iterator[Violation]:
    """Between a snapshot and its base, rows are added and removed by right only."""
    made = context.published.get(view.snapshot.identity)
    if made is None or made.rows is None:
        return
    base = context.published.get(made.base)
    before = base.rows if base is not None else (None if made.base else frozenset[str]())
    number, now = view.snapshot.id, frozenset(view.visible)
    removable = may_remove(context.published, made)
    if before is not None and (lost := before - now - removable):
        yield Violation(
            "G1", f"snapshot {number} ({made.commit}) removes the rows of {min(lost)}, which it had not read"
        )
    if made.restores or not made.commit:
        return
    back = {row for row in now - before if row.partition("~")[0] != made.commit} if before is not None else ()
    if back:
        yield Violation("H13", f"snapshot {number} ({made.commit}) brings back the rows of {min(back)}")
    if stays := (removable & now) - made.added:
        yield Violation("H13", f"snapshot {number} ({made.commit}) keeps the rows of {min(stays)}, which it replaces")


def _of_keys(view: View, context: Context) -> Iterator[Violation]:
    """One row of each key is the newest one; all rows are those of a serial order; a compaction changes nothing (H14)."""
    number = view.snapshot.id
    if view.open_order:
        yield Violation("H14", f"snapshot {number}: {view.open_order[0]}")
    if view.resurrected:
        yield Violation(
            "G1", f"snapshot {number}: a filter brings back {view.resurrected[0]}, which is replaced or deleted"
        )
    made = context.published.get(view.snapshot.identity)
    if made is None or made.rows is None:
        return
    past = list(chain(context.published, view.snapshot.identity))
    ops = tuple(op for published in reversed(past) for op in _ops_of(published, context))
    if not _is_serial(ops, frozenset(view.visible)):
        rows = ", ".join(sorted(view.visible))
        names = ", ".join(made.commits)
        yield Violation("H14", f"snapshot {number} ({names}) has rows of no serial order of its commits: {rows}")
    base = context.published.get(made.base)
    if (
        not (made.puts or made.riders)
        and base is not None
        and base.rows is not None
        and base.rows != frozenset(view.visible)
    ):
        changed = min(base.rows ^ frozenset(view.visible))
        yield Violation("H14", f"snapshot {number} ({made.commit}) is a compaction, and changes {changed}")


def _ops_of(published: Published, context: Context) -> Iterator[Op]:
    """The commits of a snapshot that write keys, each after those that it had read."""
    alone = ((published.commit, published.puts),) if published.puts else published.riders
    for commit, puts in alone:
        read = context.began.get(commit, published.read)
        seen = (name for earlier in chain(context.published, read) for name in earlier.commits)
        yield Op(commit, puts, frozenset(seen))


@lru_cache(maxsize=100_000)
def _is_serial(ops: tuple[Op, ...], rows: frozenset[str]) -> bool:
    return order_of(ops, values_of(rows)) is not None
