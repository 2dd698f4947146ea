"""Find the files whose rows are the changes of a snapshot, or the difference of two states, and pack them into steps.

Owns: `ChangePlanner`. Must not know: rows, Arrow. Source: format/snapshot §4; format/primary-keys §8.

Invariants: Planning reads only metadata. A file is left out only if none of its rows can be a wanted change. Rows that are
compared with each other are in one step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from ...coordinator.history.timeline import Timeline
from ...core.expressions.tree import Predicate
from ...core.metadata.change import vector_places
from ...core.metadata.data_file import IndexEntry, ManifestEntry
from ...core.metadata.folding import live
from ...core.metadata.schema import TableSchema
from ...core.metadata.schemas.merge_rules import merge_rules
from ...core.metadata.snapshot import Snapshot
from ...core.places import codec_of
from ...core.statistics.pruning import split_predicate
from ..scan.file_pruning import FilePruner
from ..scan.key_pruning import visible
from ..scan.plan import runs_of
from ..scan.refusals import check_files_readable
from ..scan.split import Split
from ..scan.split_planning import SplitPlanner
from .changed_files import ChangedFiles, check_state_before, files_between, files_changed_by
from .key_changes import KeyChanges, Mode, differing_sections
from .steps import ChangeStep
from .window import Window

_STEP_BYTES = 32 << 20
"""Sections are compared together up to this size of their files."""


class ChangePlanner:
    """Plans the changes of one snapshot after the other. `schema` is that of the result; `where` is bound."""

    def __init__(
        self, timeline: Timeline, schema: TableSchema, where: Predicate | None, overwrites: bool, mode: Mode
    ) -> None:
        self._timeline, self._schema, self._where, self._overwrites = timeline, schema, where, overwrites
        self._rules = merge_rules(schema)
        self._told = None if self._rules is None else KeyChanges(timeline, schema, mode, overwrites)

    def steps(self, before: Snapshot | None, found: Snapshot, by_snapshot: bool) -> Iterator[ChangeStep]:
        """The changes that a snapshot made; with `by_snapshot` False, the difference of the two states.

        `before` and `InvalidArgument` are as for `files_changed_by`. `Unsupported`: a needed file has an unreadable format.
        """
        if self._told is not None:
            yield from self._steps_by_key(self._told, before, found, by_snapshot)
            return
        if by_snapshot:
            changed = files_changed_by(self._timeline, self._schema, before, found, self._overwrites)
        else:
            changed = files_between(self._timeline, self._schema, before, found)
        for part in _by_partition(changed) if changed.gone else [changed]:
            came = self._splits(self._may_match(part.came), part.came_index, found)
            gone = self._splits(self._may_match(part.gone), part.gone_index, before)
            if came or gone:
                yield ChangeStep(found.id, found.time_ms, came, gone)

    def steps_of(self, window: Window) -> list[Callable[[], Iterator[ChangeStep]]]:
        """For each snapshot of a window, a function that plans its steps; errors as for `steps`."""
        if window.whole:
            return [partial(self.whole, found) for found in window.snapshots]
        return [partial(self.steps, before, found, window.by_snapshot) for before, found in window.pairs()]

    def whole(self, found: Snapshot) -> Iterator[ChangeStep]:
        """All rows of a state, as rows that came: those that it and the snapshots before it have told of.

        Rows of a table with a primary key whose changelog is not written yet are left out, because a later snapshot tells them.
        """
        if self._told is None:
            yield from self.steps(None, found, by_snapshot=False)
            return
        yield from self._differences(([], []), self._state(self._told, found, found, True), None, found)

    # ------------------------------------------------------------------------------------------- with a primary key

    def _steps_by_key(
        self, changes: KeyChanges, before: Snapshot | None, found: Snapshot, by_snapshot: bool
    ) -> Iterator[ChangeStep]:
        told = changes.told_by(before, found) if by_snapshot else None
        if told is not None and not told.compares:
            splits = self._splits(self._may_match(told.files), (), found, merges=False)
            if splits:
                yield ChangeStep(found.id, found.time_ms, splits, holds_kinds=True)
            return
        if told is not None:
            check_state_before(before, found)
        old, new = (
            ([], []) if snapshot is None else self._state(changes, snapshot, found, by_snapshot)
            for snapshot in (before, found)
        )
        yield from self._differences(old, new, before, found)

    def _state(
        self, changes: KeyChanges, snapshot: Snapshot, found: Snapshot, by_snapshot: bool
    ) -> tuple[list[ManifestEntry], list[IndexEntry]]:
        assert self._rules is not None
        entries = live(self._timeline.entries(self._timeline.manifests(snapshot)))
        entries = changes.state(entries, found) if by_snapshot else visible(entries, self._rules)
        of_keys = self._pruner(self.on_keys)
        return [e for e in entries if of_keys is None or of_keys.may_match(e)], self._timeline.index_entries(snapshot)

    def _differences(
        self,
        old: tuple[list[ManifestEntry], list[IndexEntry]],
        new: tuple[list[ManifestEntry], list[IndexEntry]],
        before: Snapshot | None,
        found: Snapshot,
    ) -> Iterator[ChangeStep]:
        assert self._rules is not None
        vectors = tuple({owner: at for owner, (_, at) in vector_places(index).items()} for _, index in (old, new))
        pruner = self._pruner(self._where) if self._rules.keeps_whole_rows else None
        gone: list[ManifestEntry] = []
        came: list[ManifestEntry] = []
        for section in differing_sections(old[0], new[0], (vectors[0], vectors[1]), self._rules):
            if pruner is not None and not any(pruner.may_match(e) for side in section for e in side):
                continue
            held, size = [*gone, *came], sum(e.file.file_size for side in (gone, came, *section) for e in side)
            if held and (size > _STEP_BYTES or held[0].partition != (section[0] or section[1])[0].partition):
                yield self._compared(gone, came, (old[1], new[1]), before, found)
                gone, came = [], []
            gone += section[0]
            came += section[1]
        if gone or came:
            yield self._compared(gone, came, (old[1], new[1]), before, found)

    def _compared(
        self,
        gone: Sequence[ManifestEntry],
        came: Sequence[ManifestEntry],
        indexes: tuple[Sequence[IndexEntry], Sequence[IndexEntry]],
        before: Snapshot | None,
        found: Snapshot,
    ) -> ChangeStep:
        later, earlier = self._splits(came, indexes[1], found), self._splits(gone, indexes[0], before)
        return ChangeStep(found.id, found.time_ms, later, earlier)

    @property
    def on_keys(self) -> Predicate | None:
        """The part of the predicate that all versions of a row fulfil, or none."""
        if self._where is None or self._rules is None:
            return None
        return split_predicate(self._where, self._rules.key_names)[0]

    # ------------------------------------------------------------------------------------------------------ for both

    def _splits(
        self,
        entries: Sequence[ManifestEntry],
        index: Iterable[IndexEntry],
        snapshot: Snapshot | None,
        merges: bool = True,
    ) -> tuple[Split, ...]:
        if not entries:
            return ()
        check_files_readable(self._schema, entries)
        named_by = "" if snapshot is None else self._timeline.file_of(snapshot)
        branch = self._timeline.paths.branch
        return SplitPlanner(self._schema, self._schema_of, index, branch, named_by, merges).splits(entries)

    def _may_match(self, entries: Sequence[ManifestEntry]) -> list[ManifestEntry]:
        pruner = self._pruner(self._where)
        if pruner is None:
            return list(entries)
        return [e for run in runs_of(entries, self._schema) if pruner.may_match(*run) for e in run]

    def _pruner(self, predicate: Predicate | None) -> FilePruner | None:
        return (
            None if predicate is None else FilePruner(predicate, self._schema, self._schema_of, codec_of(self._schema))
        )

    def _schema_of(self, schema_id: int) -> TableSchema:
        return self._schema if schema_id == self._schema.id else self._timeline.schema(schema_id)


def _by_partition(changed: ChangedFiles) -> Iterator[ChangedFiles]:
    """The changed files of each partition. A row never moves between partitions without being changed."""
    parts: dict[bytes, tuple[list[ManifestEntry], list[ManifestEntry]]] = {}
    for side, entries in enumerate((changed.came, changed.gone)):
        for entry in entries:
            parts.setdefault(entry.partition, ([], []))[side].append(entry)
    for came, gone in parts.values():
        yield ChangedFiles(changed.snapshot, tuple(came), tuple(gone), changed.came_index, changed.gone_index)
