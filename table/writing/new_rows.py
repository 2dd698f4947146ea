"""The rows that a transaction writes in this process: where they go, how they are numbered, and the files that they become.

Owns: `NewRows`. Must not know: which operation writes them, requests. Source: H14; decision 39.
Invariant: Nothing is read or written before the first rows come.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ...coordinator.commit.base_numbers import BaseNumbers
from ...coordinator.commit.committer import Committer
from ...coordinator.commit.message import CommitMessage
from ...core.metadata.snapshot import Snapshot
from .buckets.placement import Placement
from .writer import TableWriter, check_writable, no_numbers

if TYPE_CHECKING:  # what only tables with a primary key need takes as long to import as all else of an append
    from .buckets.placing import KeyLookups
    from .renumber import Renumberer


class NewRows:
    """Takes rows and writes their files.

    `commit_user` is for the names of files with postponed rows. Without `lookups`, keys across partitions cannot be written.
    """

    def __init__(self, committer: Committer, commit_user: str, lookups: KeyLookups | None) -> None:
        self._committer, self._schema = committer, committer.schema
        self._user, self._lookups = commit_user, lookups
        self._writer: TableWriter | None = None
        self._numbers: BaseNumbers | None = None
        self._renumberers: list[Renumberer] = []

    def write(self, data: Any, *, row_kind: str | None, deletes: bool, replaces: bool, whole: bool) -> None:
        """Write rows as `TableWriter.write` does. They replace others if `replaces` is set, in the whole table if `whole` is."""
        if self._writer is None:
            self._writer = self._begun(replaces, whole)
        self._writer.write(data, row_kind=row_kind, deletes=deletes)

    @property
    def has_any(self) -> bool:
        return self._writer is not None

    @property
    def partitions(self) -> list[bytes]:
        return self._writer.partitions if self._writer is not None else []

    @property
    def is_numbered(self) -> bool:
        return self._numbers is not None

    @property
    def numbered_above(self) -> Snapshot | None:
        """The snapshot above whose sequence numbers those of the rows are; None for a table that had none."""
        return self._numbers.snapshot if self._numbers is not None else None

    def finish(self) -> list[CommitMessage]:
        return self._writer.finish() if self._writer is not None else []

    def renumberer(self, messages: Iterable[CommitMessage]) -> Renumberer | None:
        """Writes rows with a primary key again, if their numbers meet those of another job (H14)."""
        if not self._schema.primary_keys:
            return None
        from .renumber import Renumberer

        uploads = [upload for m in messages for upload in m.uploads]
        self._renumberers.append(Renumberer(self._committer.store, self._schema, uploads))
        return self._renumberers[-1]

    def abandon(self) -> None:
        if self._writer is not None:
            self._writer.abort()
        for renumberer in self._renumberers:
            renumberer.abandon()

    def _begun(self, replaces: bool, whole: bool) -> TableWriter:
        numbers, placement = no_numbers, None
        if self._schema.primary_keys:
            check_writable(
                self._schema, keyed=True
            )  # before the table's numbers are read; all others check as they begin
            self._numbers = self._committer.base_numbers()
            numbers, placement = self._numbers.largest, self._placement(self._numbers, replaces, whole)
        return TableWriter(
            self._committer.store,
            self._schema,
            str(uuid.uuid4()),
            travelling=True,
            largest_numbers=numbers,
            changelog=not replaces,
            placement=placement,
            commit_user=self._user,
        )

    def _placement(self, base: BaseNumbers, replaces: bool, whole: bool) -> Placement:
        from .buckets.placing import placement_of

        indexes = self._committer.hash_indexes()
        return placement_of(self._schema, base, indexes, self._lookups, replaces=replaces, whole=whole)
