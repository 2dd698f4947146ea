"""What the snapshots of a table with a primary key tell about their changes.

Owns: which files hold the changes of a snapshot, when two states are compared instead, and which files a state has then.
Must not know: rows, splits. Source: format/primary-keys §8; format/snapshot §5.

Invariants: A change is told once: by a changelog or by the rows that were appended, never by both. Compactions tell nothing of
their own, but for postponed rows, which they make visible. A state that is compared has the files that the snapshots before it
have told of, so that all changes together give the newer state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ...coordinator.history.timeline import Timeline
from ...core.errors import InvalidArgument
from ...core.metadata.change import Owner, owner_of
from ...core.metadata.data_file import ADD, DELETE, DataFile, ManifestEntry
from ...core.metadata.folding import fold
from ...core.metadata.schema import TableSchema
from ...core.metadata.schemas.merge_rules import POSTPONED, MergeRules
from ...core.metadata.snapshot import Snapshot
from ..merging.sections import key_sections

Mode = Literal["auto", "delta", "changelog", "diff"]
MODES: tuple[Mode, ...] = ("auto", "delta", "changelog", "diff")

_TRIGGER = "num-sorted-run.compaction-trigger"
_FileVectors = Mapping[Owner, object]


@dataclass(frozen=True)
class Told:
    """A snapshot tells the changes in these files, which hold their kinds, or its state is compared with the one before."""

    files: tuple[ManifestEntry, ...] = ()
    compares: bool = False


def producer_of(schema: TableSchema) -> str:
    return schema.options.texts.get("changelog-producer", "none").strip().lower()


def check_mode(mode: str, schema: TableSchema) -> None:
    """Refuse (`InvalidArgument`) a mode that does not exist, or that the table has nothing for."""
    if mode not in MODES:
        raise InvalidArgument(f"mode {mode!r} does not exist", next_step=f"use {', '.join(MODES)}")
    if mode == "changelog" and not schema.primary_keys:
        raise InvalidArgument(
            "mode 'changelog' needs a table with a primary key: other tables have no changelog",
            next_step="leave the mode out",
        )


def check_has_changelog(snapshots: Iterable[Snapshot], schema: TableSchema) -> None:
    """Refuse (`InvalidArgument`) to read the changelog of snapshots that were never meant to have one."""
    if producer_of(schema) == "none" and all(s.changelog_manifest_list is None for s in snapshots):
        raise InvalidArgument(
            "the table writes no changelog (option 'changelog-producer' is none)",
            next_step="use mode 'delta' for the rows as they were written, or set the option and compact the table",
        )


class KeyChanges:
    """Finds the files with the changes of a table with a primary key.

    Args:
        mode: "delta" for the rows that were appended, "changelog" for changelogs, "auto" for what the table had an option
            for when the snapshot was committed.
        overwrites: tell of overwrites too, which have no changelog.
    """

    def __init__(self, timeline: Timeline, schema: TableSchema, mode: Mode, overwrites: bool) -> None:
        self._timeline, self._schema = timeline, schema
        self._mode, self._overwrites = mode, overwrites

    def told_by(self, before: Snapshot | None, found: Snapshot) -> Told:
        """What a snapshot tells; `before` is None if there is none, or its state has expired."""
        if found.commit_kind == "OVERWRITE":
            return Told(compares=self._overwrites)
        if self._reads_changelog(found):
            if found.changelog_manifest_list is None:
                return Told(compares=self._overwrites and before is not None and self._tells_too_little(found))
            entries = self._timeline.entries(self._timeline.changelog_manifests(found))
            return Told(tuple(e for e in entries if e.kind == ADD))
        if found.commit_kind == "APPEND":
            entries = list(fold(self._timeline.entries(self._timeline.delta_manifests(found))).values())
            if self._overwrites and any(e.kind == DELETE for e in entries):
                return Told(compares=True)
            return Told(tuple(e for e in entries if e.kind == ADD and e.bucket != POSTPONED))
        if found.commit_kind == "COMPACT" and self._overwrites and self._schema.bucket == POSTPONED:
            entries = self._timeline.entries(self._timeline.delta_manifests(found))
            return Told(compares=any(e.kind == DELETE and e.bucket == POSTPONED for e in entries))
        return Told()

    def _tells_too_little(self, found: Snapshot) -> bool:
        """May a compaction have made rows part of the told state without a changelog?

        Apache Paimon compacts what an overwrite wrote without one. Other compactions lack it because nothing changed.
        """
        if found.commit_kind != "COMPACT" or self._producer(found) not in ("lookup", "full-compaction"):
            return False
        entries = self._timeline.entries(self._timeline.delta_manifests(found))
        told = self.state(entries, found)
        return any(e.kind == ADD for e in told) and len(told) < len(entries)

    def state(self, entries: Iterable[ManifestEntry], found: Snapshot) -> list[ManifestEntry]:
        """Those files of a state that are compared to another, in order to tell what snapshot `found` changed."""
        alive = [e for e in entries if e.bucket != POSTPONED]
        producer = self._producer(found) if self._reads_changelog(found) else "none"
        if producer == "lookup":
            return [e for e in alive if e.file.level > 0]
        if producer == "full-compaction":
            top = top_level(self._schema)
            return [e for e in alive if e.file.level >= top]
        return alive

    def _reads_changelog(self, found: Snapshot) -> bool:
        if self._mode == "auto":
            return found.changelog_manifest_list is not None or self._producer(found) != "none"
        return self._mode == "changelog"

    def _producer(self, found: Snapshot) -> str:
        written = self._schema if found.schema_id == self._schema.id else self._timeline.schema(found.schema_id)
        return producer_of(written)


def top_level(schema: TableSchema) -> int:
    texts = schema.options.texts
    levels = texts.get("num-levels") or int(texts.get(_TRIGGER, "5")) + 1
    return int(levels) - 1


def differing_sections(
    old: Iterable[ManifestEntry],
    new: Iterable[ManifestEntry],
    vectors: tuple[_FileVectors, _FileVectors],
    rules: MergeRules,
) -> Iterator[tuple[list[ManifestEntry], list[ManifestEntry]]]:
    """The files of two states that must be merged and compared, in sections that have no key in common; one side may be empty.

    A section whose files are the same in both states is left out. Where the number of buckets has changed, or an index gives
    buckets to keys, the sections are those of the whole partition. `vectors` are the deletion vectors of both states.
    """
    places: dict[tuple[Any, ...], dict[object, list[ManifestEntry | None]]] = {}
    buckets = _Buckets(old, new)
    for side, entries in enumerate((old, new)):
        for entry in entries:
            known = places.setdefault(buckets.place(entry), {})
            vector = vectors[side].get(owner_of(entry))
            known.setdefault(_rows_key(entry, vector), [None, None])[side] = entry
    for pairs in places.values():
        if all(one is not None and other is not None for one, other in pairs.values()):
            continue
        yield from _sections(list(pairs.values()), rules)


def _sections(
    pairs: list[list[ManifestEntry | None]], rules: MergeRules
) -> Iterator[tuple[list[ManifestEntry], list[ManifestEntry]]]:
    files: list[DataFile] = []
    by_file: dict[int, list[ManifestEntry | None]] = {}
    for pair in pairs:
        entry = pair[0] if pair[0] is not None else pair[1]
        assert entry is not None
        files.append(entry.file._replace())  # an object of its own, also where both states share one
        by_file[id(files[-1])] = pair
    for section in key_sections(files, rules):
        found = [by_file[id(file)] for file in section]
        if any(None in pair for pair in found):
            yield [e for e, _ in found if e is not None], [e for _, e in found if e is not None]


def _rows_key(entry: ManifestEntry, vector: object) -> object:
    return entry.bucket, entry.file.level, entry.file.file_name, entry.file.external_path, vector


class _Buckets:
    def __init__(self, *states: Iterable[ManifestEntry]) -> None:
        self._totals: dict[bytes, set[int]] = {}
        for entries in states:
            for entry in entries:
                self._totals.setdefault(entry.partition, set()).add(entry.total_buckets)

    def place(self, entry: ManifestEntry) -> tuple[Any, ...]:
        totals = self._totals[entry.partition]
        fixed = len(totals) == 1 and min(totals) > 0
        return (entry.partition, entry.bucket) if fixed else (entry.partition,)
