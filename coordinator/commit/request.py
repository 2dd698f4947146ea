"""The input of a commit: its changes, the partitions that it replaces, its isolation and its identity.

Owns: `CommitRequest` and its kinds; its parts `KeyedRows`, `RowsRead` and `Remarks`; `Target`, `Isolation`, `Renumber`. Must not
know: how a commit is carried out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, TypeAlias

from ...core import arguments
from ...core.errors import InvalidArgument
from ...core.metadata.change import Owner
from ...core.metadata.data_file import ADD, IndexEntry, ManifestEntry, PartitionBucket
from ...core.metadata.hash_index import BucketHashes
from ...core.metadata.snapshot import KINDS, OPERATIONS, CommitKind, OperationWord, Snapshot
from .message import PendingUpload

Isolation: TypeAlias = Literal["snapshot", "serializable"]
Grouping: TypeAlias = Literal["auto", "off"]
"""Whether one commit may ride with others, in the place of option `commit.group`."""
Target: TypeAlias = Callable[[bytes], bool]
"""A predicate on a partition row (with arity prefix): whether the commit replaces that partition."""


@dataclass(frozen=True, slots=True)
class Renumbered:
    """The same rows with larger sequence numbers: an ADD for each new file, and those files that are not in the store yet."""

    entries: tuple[ManifestEntry, ...]
    uploads: tuple[PendingUpload, ...] = ()


Renumber: TypeAlias = Callable[[Sequence[ManifestEntry], int, bool], Renumbered]
"""Writes the rows of some new files again, under new names, with numbers that are all above the given one: above the clock too if
the last argument is true, else those right above it. Rows keep their order, and all buckets begin with the same number. The files
may be those of an earlier call."""

IDENTIFIER_MAX = 9_223_372_036_854_775_806


@dataclass(frozen=True)
class KeyedRows:
    """What a commit to a table with a primary key brings besides its files.

    Attributes:
        changelog: listed apart from the data files; an overwrite leaves it out.
        hashes: of the keys that it writes into dynamic buckets. The index files are made of them on each base.
        renumber: writes the new rows again where their numbers meet those of another commit. Without it, that is a conflict.
        reads_keys: the rows were placed by all keys of the table, as of `read_snapshot`: keys that came since may be the same.
        compared: their numbers are known to be right above `read_snapshot`.
    """

    changelog: tuple[ManifestEntry, ...] = ()
    hashes: tuple[tuple[PartitionBucket, BucketHashes], ...] = ()
    renumber: Renumber | None = None
    reads_keys: bool = False
    compared: bool = False


@dataclass(frozen=True)
class RowsRead:
    """The rows that a change of rows was computed from.

    Attributes:
        concerns: may a file hold such rows? If another writer has added one since, that is a conflict.
        absent: rows that are gone matter too, because the change depends on which rows there are not.
    """

    snapshot: Snapshot | None
    concerns: Callable[[ManifestEntry], bool]
    absent: bool = False


@dataclass(frozen=True)
class Remarks:
    """What the snapshot says of its commit.

    Attributes:
        watermark_ms: the time up to which events are complete, in milliseconds since 1970.
        statistics: the name of a file of statistics; None keeps those of the base.
    """

    operation: OperationWord | None = None
    watermark_ms: int | None = None
    properties: dict[str, str] = field(default_factory=dict)
    statistics: str | None = None


@dataclass(frozen=True)
class CommitRequest:
    """One commit, independent of the snapshot that it will be built on.

    Attributes:
        kind: the snapshot's `commitKind`.
        entries: files added (and, for a compaction, deleted).
        target: for an overwrite: the partitions whose files are replaced; None = nothing is replaced.
        read_snapshot: for an overwrite or a compaction: the snapshot whose files it replaces (None = the table had none). For
            new rows with a primary key: the snapshot above whose sequence numbers theirs are (None = the table had none).
        identifier: None = not exactly once.
        group: whether it may ride with others; None: what the table's option says.
        in_order: an identifier below the user's last one is refused, as those of a stream's batches are.
        query: the query of a stream that its identity belongs to; commits of another query are refused. Empty: none is told.
    """

    kind: CommitKind
    entries: tuple[ManifestEntry, ...]
    commit_user: str
    identifier: int | None = None
    index_entries: tuple[IndexEntry, ...] = ()
    uploads: tuple[PendingUpload, ...] = ()
    target: Target | None = None
    read_snapshot: Snapshot | None = None
    isolation: Isolation = "snapshot"
    keyed: KeyedRows = KeyedRows()
    remarks: Remarks = Remarks()
    group: Grouping | None = None
    in_order: bool = False
    query: str = ""

    restores: ClassVar[bool] = False
    folds_manifests: ClassVar[bool] = False
    updates_rows: ClassVar[bool] = False
    settles_layout: ClassVar[bool] = False
    newest_schema: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "identifier", arguments.plain(self.identifier))

    @property
    def published_changelog(self) -> tuple[ManifestEntry, ...]:
        """The changelog files that its snapshot lists: none for an overwrite of partitions, as in Apache Paimon."""
        return self.keyed.changelog if self.target is None else ()

    def check(self) -> None:
        if self.isolation not in ("snapshot", "serializable"):
            raise InvalidArgument(f"isolation {self.isolation!r}: use 'snapshot' or 'serializable'")
        if self.group not in (None, "auto", "off"):
            raise InvalidArgument(
                f"group {self.group!r}: use 'auto' or 'off', or None for what the table's option says"
            )
        if not arguments.text(self.commit_user, "commit_user"):
            raise InvalidArgument("commit_user must not be empty")
        if self.identifier is not None and type(self.identifier) is not int:
            raise InvalidArgument(f"identifier {self.identifier!r} is not a whole number")
        if self.identifier is not None and not 0 <= self.identifier <= IDENTIFIER_MAX:
            raise InvalidArgument(f"identifier {self.identifier} is out of range 0 … {IDENTIFIER_MAX}")
        if self.remarks.watermark_ms is not None:
            arguments.whole_number(self.remarks.watermark_ms, "watermark_ms", -(2**63))
        said = self.remarks.operation
        if self.kind not in KINDS or (said is not None and said not in OPERATIONS):
            raise InvalidArgument(
                f"a commit of kind {self.kind!r} and operation {said!r}: Apache Paimon could not parse it"
            )
        ours = [key for key in arguments.mapping(self.remarks.properties, "properties") if key.startswith("lakelatch.")]
        if ours:
            raise InvalidArgument(f"property {ours[0]!r}: names that begin with 'lakelatch.' are reserved")


class RepeatableRequest(CommitRequest):
    """A commit of rows that can be written again: a schema newer than theirs, made before the commit began, is a conflict.

    The error has `newer_schema`. Other rows land as they are, and readers cast them.
    """

    newest_schema = True


def only_adds_rows(request: CommitRequest) -> bool:
    """Whether a commit adds rows and depends on none, so that only their numbers order it among others."""
    keyed = request.keyed
    return (
        type(request) in (CommitRequest, RepeatableRequest)
        and request.kind == "APPEND"
        and request.remarks.operation == "WRITE"
        and request.target is None
        and not (request.index_entries or keyed.hashes or keyed.reads_keys)
        and all(entry.kind == ADD for entry in request.entries)
    )


class Restoration(CommitRequest):
    """A rollback: an overwrite by files that the table held before. Files that are still live stay as they are. The base is
    written without deletions, which would hide the files that come back (format/manifests §4).
    """

    restores = True
    folds_manifests = True


class ManifestMerge(CommitRequest):
    """A compaction of all manifests, and nothing else: its delta is empty."""

    folds_manifests = True


class Redescription(CommitRequest):
    """A compaction that deletes files and adds them again with another index, which may be one that they had before.

    The base is written without deletions, because those would hide files that are described as they were (format/manifests §4).
    """

    folds_manifests = True


@dataclass(frozen=True)
class Undoing(CommitRequest):
    """The reverse of an earlier commit, which is its `read_snapshot`. A later commit that builds on that one is a conflict.

    Attributes:
        marked: the data files whose deleted rows the earlier commit changed.
        closed: the buckets in which nothing may have been added since, because files with older keys come back.
    """

    marked: frozenset[Owner] = frozenset()
    closed: frozenset[PartitionBucket] = frozenset()

    restores = True
    folds_manifests = True

    @property
    def partitions(self) -> set[bytes]:
        return {e.partition for e in self.entries} | {e.partition for e in self.index_entries}


class ColumnUpdate(CommitRequest):
    """An append of files with new columns for rows that `read_snapshot` has (data evolution)."""

    updates_rows = True


@dataclass(frozen=True)
class RowChange(CommitRequest):
    """A change of rows that depends on others, `rows_read`; None if only the files that it changes matter (`snapshot`)."""

    rows_read: RowsRead | None = None


class ColumnChange(RowChange):
    """A change of rows that also brings files with new columns for rows that `read_snapshot` has (data evolution)."""

    updates_rows = True


class LayoutDecision(CommitRequest):
    """An empty commit that only records that the table's first files are laid out by the committer's schema (decision 18)."""

    settles_layout = True
