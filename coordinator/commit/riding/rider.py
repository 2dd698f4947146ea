"""An append whose writer is gone, and whose intent is still open, as another process finishes it (decision 71).

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
from ....core.places import FileKeys, is_external
from ...history.presence import sizes_of
from ...history.timeline import Timeline
from ...intents.intent import Intent
from ...protocol import events as ev
from ..attempt import NO_LIST_YET, Delta, MetadataFile
from ..request import CommitRequest


@dataclass(frozen=True)
class Rider:
    """A commit that its writer can no longer finish, and the intents that nobody needs once it has ended (`spare`)."""

    intent: Intent
    asked: ev.CommitRequested
    entries: tuple[ManifestEntry, ...]
    manifests: tuple[MetadataFile, ...]
    spare: tuple[str, ...] = ()

    @property
    def request(self) -> CommitRequest:
        return CommitRequest("APPEND", self.entries, self.asked.user, self.asked.identifier)

    @property
    def taken_over(self) -> ev.RiderTakenOver:
        asked = self.asked
        return ev.RiderTakenOver(asked.user, asked.identifier, asked.kind, self.intent.base, self.spare)

    @property
    def delta(self) -> Delta:
        return Delta(self.entries, self.intent.manifests, self.manifests, NO_LIST_YET)


def read_rider(
    intent: Intent, asked: ev.CommitRequested, spare: tuple[str, ...], timeline: Timeline, schema: TableSchema
) -> Rider:
    """Read a rider's manifests, and look whether its data files are there: orphan cleaning may have removed them (H10).

    Raises:
        TableCorrupt: one of its files is gone, or a manifest is damaged; names it.
        StoreUnavailable: the store does not answer.
    """
    files = timeline.parallel(lambda line: _manifest(timeline, intent, line), intent.manifests)
    entries = tuple(entry for file in files for entry in decode_manifest(file.data, file.name))
    keys = FileKeys(schema)
    named = {key: entry.file.file_name for entry in entries for key in keys.data(entry) if not is_external(key)}
    there = sizes_of(timeline, list(named))
    for key in named:
        if key not in there:
            raise missing(key, f"the intent {intent.file_name}")
    return Rider(intent, asked, entries, tuple(files), spare)


def _manifest(timeline: Timeline, intent: Intent, line: ManifestFile) -> MetadataFile:
    key = timeline.paths.manifest(line.file_name)
    try:
        return MetadataFile(line.file_name, key, timeline.store.get(key))
    except ObjectNotFound:
        raise missing(key, f"the intent {intent.file_name}") from None
