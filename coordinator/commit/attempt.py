"""Encodes one attempt of a commit as bytes: delta manifests, lists, index manifest and snapshot. Pure.

Owns: the contents of each file of an attempt. Must not know: stores, the machine, retries. Source: format/commit §2.
Invariants: what depends on the base is computed again for each attempt. The total record count is the base's plus the delta.
Recorded file sizes are exact.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Any

from ...core import options as opt
from ...core.avro.columnar import FORMATS
from ...core.errors import Unsupported
from ...core.metadata.data_file import ADD, IndexEntry, ManifestEntry
from ...core.metadata.folding import summarise
from ...core.metadata.manifest import ManifestFile, encode_index_manifest, encode_manifest, encode_manifest_list
from ...core.metadata.schema import TableSchema
from ...core.metadata.schemas.layout import SCHEMA_PROPERTY
from ...core.metadata.snapshot import BATCH_IDENTIFIER, WRITER, Snapshot
from ...core.options import TableOptions
from ...core.paths import TablePaths
from ...core.version import __version__
from ..history.lost import ATTEMPTS_PROPERTY
from ..history.timeline import BASE_PROPERTY
from ..identities.memory import IDENTIFIERS_PROPERTY, Memory, name_of
from ..intents.carried import CARRIES_PROPERTY, SAID_PROPERTY, Carried, to_property
from ..intents.intent import Intent
from ..protocol.snapshot_ref import SnapshotRef
from .request import CommitRequest

WRITER_PROPERTY = "lakelatch.writer"
"""The committer that made the snapshot: one id per open table and process, shared by all of its commit users."""
WRITER_VERSION = f"{WRITER}{__version__}"
_SHOWN_ATTEMPTS = 20


@dataclass(frozen=True, slots=True)
class MetadataFile:
    name: str
    key: str
    data: bytes


NO_LIST_YET = MetadataFile("", "", b"")


@dataclass
class FileNames:
    """Names of one commit's metadata files: its uuid, and a counter per kind (format/snapshot §1)."""

    uuid: str
    counters: dict[str, int] = field(default_factory=dict)

    def next(self, kind: str) -> str:
        number = self.counters.get(kind, 0)
        self.counters[kind] = number + 1
        return f"{kind}-{self.uuid}-{number}"

    def own(self, name: str) -> bool:
        return f"-{self.uuid}-" in name


def check_manifest_format(schema: TableSchema) -> None:
    """Raise Unsupported for an unknown format. Readers go by the option, and could not read a single manifest in another one."""
    manifest_format = schema.options.get(opt.MANIFEST_FORMAT)
    if manifest_format not in FORMATS:
        raise Unsupported(
            f"option '{opt.MANIFEST_FORMAT.key}' = {manifest_format!r}: manifests are written as {', '.join(FORMATS)}"
        )


@dataclass(frozen=True)
class MetadataWriter:
    """Encodes metadata files as the table's options say. Raises Unsupported for a format that lakelatch does not write."""

    schema: TableSchema
    paths: TablePaths
    names: FileNames

    def __post_init__(self) -> None:
        check_manifest_format(self.schema)

    @property
    def options(self) -> TableOptions:
        return self.schema.options

    def manifests(self, entries: Sequence[ManifestEntry]) -> list[tuple[ManifestFile, MetadataFile]]:
        """Encode entries as manifests, split at `manifest.target-file-size`."""
        if not entries:
            return []
        data = self._manifest_bytes(entries)
        parts = min(ceil(len(data) / self.options.get(opt.MANIFEST_TARGET_SIZE)), len(entries))
        if parts == 1:
            return [self._manifest(entries, data)]
        size = ceil(len(entries) / parts)
        chunks = [entries[i : i + size] for i in range(0, len(entries), size)]
        return [self._manifest(chunk, self._manifest_bytes(chunk)) for chunk in chunks]

    def _manifest_bytes(self, entries: Sequence[ManifestEntry]) -> bytes:
        return encode_manifest(entries, **self._container)

    def _manifest(self, entries: Sequence[ManifestEntry], data: bytes) -> tuple[ManifestFile, MetadataFile]:
        name = self.names.next("manifest")
        line = summarise(name, len(data), entries, self.schema.partition_fields, self.schema.id)
        return line, MetadataFile(name, self.paths.manifest(name), data)

    def manifest_list(self, manifests: Sequence[ManifestFile]) -> MetadataFile:
        name = self.names.next("manifest-list")
        data = encode_manifest_list(manifests, **self._container)
        return MetadataFile(name, self.paths.manifest(name), data)

    def index_manifest(self, entries: Sequence[IndexEntry]) -> MetadataFile:
        name = self.names.next("index-manifest")
        data = encode_index_manifest(entries, **self._container)
        return MetadataFile(name, self.paths.manifest(name), data)

    @property
    def _container(self) -> dict[str, Any]:
        options = self.options
        return {
            "compression": options.get(opt.MANIFEST_COMPRESSION),
            "level": options.get(opt.ZSTD_LEVEL),
            "form": options.get(opt.MANIFEST_FORMAT),
        }


@dataclass(frozen=True, slots=True)
class Delta:
    """The delta manifests of a commit and their list, reused by later attempts as long as the entries stay the same.

    Attributes:
        lines: the manifests as the list names them, the commit's own (`files`) first; the list has no name until it is due.
        changelog: the manifests of changelog files and their list, if there are any.
    """

    entries: tuple[ManifestEntry, ...]
    lines: tuple[ManifestFile, ...]
    files: tuple[MetadataFile, ...]
    list: MetadataFile
    changelog: Delta | None = None
    riders: tuple[Intent, ...] = ()

    @property
    def own_lines(self) -> tuple[ManifestFile, ...]:
        return self.lines[: len(self.files)]

    def carrying(self, riders: tuple[Intent, ...], writer: MetadataWriter) -> Delta:
        lines = (*self.own_lines, *(line for intent in riders for line in intent.manifests))
        return replace(self, lines=lines, list=writer.manifest_list(lines), riders=riders)

    def listed_with(self, others: Sequence[ManifestFile], writer: MetadataWriter) -> Delta:
        """The same in a list together with manifests of others; itself if it has that list already."""
        lines = (*self.own_lines, *others)
        if self.list.name and lines == self.lines:
            return self
        return replace(self, lines=lines, list=writer.manifest_list(lines))

    def without_list(self) -> Delta:
        changelog = self.changelog.without_list() if self.changelog is not None else None
        return replace(self, lines=self.own_lines, list=NO_LIST_YET, riders=(), changelog=changelog)

    @property
    def names(self) -> tuple[str, ...]:
        return (*(file.name for file in self.files), self.list.name)

    @staticmethod
    def unlisted(entries: tuple[ManifestEntry, ...], writer: MetadataWriter) -> Delta:
        """The manifests for some entries, which no list names yet; they are not written yet."""
        made = writer.manifests(entries)
        return Delta(entries, tuple(line for line, _ in made), tuple(file for _, file in made), NO_LIST_YET)

    @staticmethod
    def of(entries: tuple[ManifestEntry, ...], writer: MetadataWriter, riders: tuple[Intent, ...] = ()) -> Delta:
        """The files for some entries, listed together with the manifests of these riders; they are not written yet."""
        made = writer.manifests(entries)
        lines = (*(line for line, _ in made), *(line for intent in riders for line in intent.manifests))
        return Delta(entries, lines, tuple(file for _, file in made), writer.manifest_list(lines), riders=riders)


def committer_of(snapshot: Snapshot) -> str:
    """The committer that made a snapshot; the commit user where the snapshot does not record a committer."""
    return snapshot.own_properties.get(WRITER_PROPERTY, snapshot.commit_user)


def build_snapshot(
    request: CommitRequest,
    base: Snapshot | None,
    ours: SnapshotRef,
    entries: Sequence[ManifestEntry],
    base_list: MetadataFile,
    delta: Delta,
    *,
    schema_id: int,
    index_manifest: str | None,
    memory: Memory,
    lost: Sequence[Snapshot],
    next_row_id: int,
    writer_id: str,
    now_ms: int,
    named_as: str = "",
    properties: Mapping[str, str] | None = None,
) -> Snapshot:
    """Build the snapshot of an attempt, with everything that it inherits from the base (format/commit §2). `named_as` is the id
    of the commit, if the snapshot has to list everybody whom it carries; `properties` are further ones of ours.
    """
    delta_list, changelog = delta.list, delta.changelog
    own_rows = sum(e.file.row_count if e.kind == ADD else -e.file.row_count for e in entries)
    delta_rows = own_rows + sum(intent.rows for intent in delta.riders)
    carries = {CARRIES_PROPERTY: _carries(request, named_as, own_rows, delta.riders)} if named_as else {}
    keeps_statistics = base is not None and base.schema_id == schema_id
    return Snapshot(
        id=ours.id,
        uuid=ours.identity,
        schema_id=schema_id,
        base_manifest_list=base_list.name,
        base_manifest_list_size=len(base_list.data),
        delta_manifest_list=delta_list.name,
        delta_manifest_list_size=len(delta_list.data),
        changelog_manifest_list=changelog.list.name if changelog else None,
        changelog_manifest_list_size=len(changelog.list.data) if changelog else None,
        index_manifest=index_manifest,
        commit_user=request.commit_user,
        commit_identifier=BATCH_IDENTIFIER if request.identifier is None else request.identifier,
        commit_kind=request.kind,
        time_ms=now_ms,
        total_record_count=(base.total_record_count if base else 0) + delta_rows,
        delta_record_count=delta_rows,
        changelog_record_count=_changes(changelog, delta.riders),
        watermark=_watermark(request, base, delta.riders),
        statistics=request.remarks.statistics or (base.statistics if base is not None and keeps_statistics else None),
        properties={
            **request.remarks.properties,
            WRITER_PROPERTY: writer_id,
            **_our_properties(request, base, memory, lost, schema_id),
            **carries,
            **_said(delta.riders),
            **(properties or {}),
        },
        next_row_id=next_row_id,
        operation=request.remarks.operation,
        writer_version=WRITER_VERSION,
    )


def _watermark(request: CommitRequest, base: Snapshot | None, riders: Sequence[Intent]) -> int | None:
    """The largest one of all commits in the snapshot and of the base, as in Apache Paimon, where it never goes back."""
    told = [request.remarks.watermark_ms, base.watermark if base else None, *(i.said.watermark_ms for i in riders)]
    return max((watermark for watermark in told if watermark is not None), default=None)


def _changes(changelog: Delta | None, riders: Sequence[Intent]) -> int | None:
    """The rows of all changelog files in a snapshot; None if it has none."""
    if changelog is None:
        return None
    own = sum(entry.file.row_count for entry in changelog.entries)
    return own + sum(intent.numbered.changes for intent in riders if intent.numbered is not None)


def _said(riders: Sequence[Intent]) -> dict[str, str]:
    said = {intent.commit: dict(intent.said.properties) for intent in riders if intent.said.properties}
    return {SAID_PROPERTY: json.dumps(said, separators=(",", ":"), ensure_ascii=False)} if said else {}


def _carries(request: CommitRequest, commit: str, rows: int, riders: Sequence[Intent]) -> str:
    own = Carried(name_of(request.commit_user), request.identifier, commit, rows)
    return to_property([own, *(Carried(i.user, i.identifier, i.commit, i.rows) for i in riders)])


def _our_properties(
    request: CommitRequest, base: Snapshot | None, memory: Memory, lost: Sequence[Snapshot], schema_id: int
) -> dict[str, str]:
    """Lineage, lost attempts and remembered identifiers, so that the table can be checked and explained from its own files."""
    properties = {BASE_PROPERTY: f"{base.id}:{base.identity}" if base else "0:"}
    if lost:
        shown = [{"id": s.id, "to": s.identity, "by": s.commit_user} for s in lost[-_SHOWN_ATTEMPTS:]]
        properties[ATTEMPTS_PROPERTY] = json.dumps(shown, separators=(",", ":"))
    if request.settles_layout:
        properties[SCHEMA_PROPERTY] = str(schema_id)
    properties[IDENTIFIERS_PROPERTY] = memory.to_property()
    return properties
