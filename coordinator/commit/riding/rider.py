"""A commit whose writer is gone, and whose intent is still open, as another process finishes it (decision 71).

Owns: `Rider`, `read_rider`. Must not know: how it is found in a journal, how it is published. Hazards: H5, H10.
Invariant: the rider's manifests are used as they are, under their own names, so that its rows land once whoever publishes them.
"""

from __future__ import annotations

from dataclasses import dataclass

from ....backends.store import ObjectNotFound
from ....core.errors import missing
from ....core.metadata.data_file import ManifestEntry
from ....core.metadata.manifest import ManifestFile, decode_manifest
from ....core.metadata.schema import TableSchema
from ....core.metadata.snapshot import Snapshot
from ....core.places import FileKeys, is_external
from ...history.presence import sizes_of
from ...history.timeline import Timeline
from ...intents.intent import Intent
from ...protocol import events as ev
from ..attempt import NO_LIST_YET, Delta, MetadataFile
from ..request import CommitRequest, KeyedRows, Remarks


@dataclass(frozen=True)
class Rider:
    """A commit that its writer can no longer finish, and the intents that nobody needs once it has ended (`spare`). `base` is the
    snapshot above which its rows have their numbers.
    """

    intent: Intent
    asked: ev.CommitRequested
    entries: tuple[ManifestEntry, ...]
    manifests: tuple[MetadataFile, ...]
    spare: tuple[str, ...] = ()
    base: Snapshot | None = None
    changelog: Delta | None = None

    @property
    def request(self) -> CommitRequest:
        numbered, told = self.intent.numbered is not None, self.intent.said
        changes = self.changelog.entries if self.changelog is not None else ()
        return CommitRequest(
            "APPEND",
            self.entries,
            self.asked.user,
            self.asked.identifier,
            read_snapshot=self.base,
            keyed=KeyedRows(changes, compared=numbered),
            remarks=Remarks("WRITE" if numbered else None, told.watermark_ms, dict(told.properties)),
            in_order=told.in_order,
            query=told.query,
        )

    @property
    def taken_over(self) -> ev.RiderTakenOver:
        asked = self.asked
        return ev.RiderTakenOver(asked.user, asked.identifier, asked.kind, self.intent.base, self.spare)

    @property
    def delta(self) -> Delta:
        return Delta(self.entries, self.intent.manifests, self.manifests, NO_LIST_YET, self.changelog)


def read_rider(
    intent: Intent, asked: ev.CommitRequested, spare: tuple[str, ...], timeline: Timeline, schema: TableSchema
) -> Rider:
    """Read a rider's manifests, and look whether its data files are there: orphan cleaning may have removed them (H10).

    Raises:
        TableCorrupt: one of its files is gone, or a manifest is damaged; names it.
        StoreUnavailable: the store does not answer.
    """
    numbered, keys, changelog = intent.numbered, FileKeys(schema), None
    files, entries = _read(timeline, intent, intent.manifests)
    of_changelog: tuple[ManifestEntry, ...] = ()
    if numbered is not None and numbered.changelog:
        made, of_changelog = _read(timeline, intent, numbered.changelog)
        changelog = Delta(of_changelog, numbered.changelog, made, NO_LIST_YET)
    named = {
        key: entry.file.file_name
        for entry in (*entries, *of_changelog)
        for key in keys.data(entry)
        if not is_external(key)
    }
    there = sizes_of(timeline, list(named))
    for key in named:
        if key not in there:
            raise missing(key, f"the intent {intent.file_name}")
    base = timeline.find(intent.base.id) if numbered is not None else None
    return Rider(intent, asked, entries, files, spare, base, changelog)


def _read(
    timeline: Timeline, intent: Intent, lines: tuple[ManifestFile, ...]
) -> tuple[tuple[MetadataFile, ...], tuple[ManifestEntry, ...]]:
    files = tuple(timeline.parallel(lambda line: _manifest(timeline, intent, line), lines))
    return files, tuple(entry for file in files for entry in decode_manifest(file.data, file.name))


def _manifest(timeline: Timeline, intent: Intent, line: ManifestFile) -> MetadataFile:
    key = timeline.paths.manifest(line.file_name)
    try:
        return MetadataFile(line.file_name, key, timeline.store.get(key))
    except ObjectNotFound:
        raise missing(key, f"the intent {intent.file_name}") from None
