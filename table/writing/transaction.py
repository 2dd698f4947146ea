"""A transaction: several appends, or one overwrite, that become one snapshot.

Owns: `Transaction`, and the commit requests for overwrite, drop and truncate. Must not know: how a request is committed, how rows
become files. Source: architecture §3 (isolation); architecture §5.
Invariants: Nothing is visible before the block ends without an exception. An exception publishes nothing, and the files that were
written are removed. If an identity is given, it is looked up before any row is written.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ...coordinator.commit.committer import Committer, new_commit_user
from ...coordinator.commit.message import CommitMessage, changelog_of, entries_of, hashes_of, index_entries_of
from ...coordinator.commit.receipt import Receipt
from ...coordinator.commit.request import (
    ColumnUpdate,
    CommitRequest,
    Grouping,
    Isolation,
    KeyedRows,
    Remarks,
    RepeatableRequest,
    RowChange,
    RowsRead,
    Target,
)
from ...coordinator.commit.retries import RetryPolicy
from ...coordinator.history.timeline import Timeline
from ...core import arguments
from ...core.arguments import plain
from ...core.errors import CommitConflict, InvalidArgument, LakelatchError
from ...core.metadata.data_file import PartitionBucket
from ...core.metadata.schemas.bucket_mode import BucketMode, bucket_mode
from ...core.metadata.snapshot import REPLACED, CommitKind, OperationWord, Snapshot, replaced_paths, replaced_text
from ...core.places import codec_of
from .new_rows import NewRows
from .overwrites import overwrite_spec, partitions_target, refuse_outside, snapshot_read, with_partition
from .replays import check_replay
from .unfinished import discard
from .upgrade import upgraded
from .writer import keys_of

if TYPE_CHECKING:
    from .buckets.placing import KeyLookups


def check_identity(commit_user: str | None, identifier: int | None) -> None:
    """Refuse one without the other, and an identifier that is no whole number."""
    if identifier is not None and type(plain(identifier)) is not int:
        raise InvalidArgument(f"identifier {identifier!r} is not a whole number")
    if (commit_user is None) != (identifier is None):
        raise InvalidArgument("commit_user and identifier make a commit exactly once: give both or neither")


class Transaction:
    """Collects changes. `receipt` is available once the block has ended.

    Args:
        commit_user, identifier: the identity; both or neither.
        fresh_user: for a commit without identifier, a unique commit user by which the caller can find the snapshot.
        newest_schema: a schema newer than the committer's is a conflict, because the caller can write the rows again.
        written: called after the commit with the buckets that this process wrote files into. It must not raise.
        lookups: what must be read of the table's rows; without it, keys across partitions cannot be written.
        written_before: all files were written before the block begins, so that its look at the table serves the commit, too.
        in_order, query: as of a `CommitRequest`.
    """

    def __init__(
        self,
        committer: Committer,
        timeline: Timeline,
        *,
        commit_user: str | None,
        identifier: int | None,
        isolation: Isolation,
        properties: dict[str, str],
        watermark_ms: int | None = None,
        group: Grouping | None = None,
        fresh_user: str | None = None,
        newest_schema: bool = False,
        written: Callable[[frozenset[PartitionBucket]], None] | None = None,
        lookups: KeyLookups | None = None,
        written_before: bool = False,
        in_order: bool = False,
        query: str = "",
    ) -> None:
        check_identity(commit_user, identifier)
        self._committer, self._timeline = committer, timeline
        self._store, self._schema = committer.store, committer.schema
        self._user = commit_user or fresh_user or new_commit_user(committer.schema)
        self._identifier, self._written_before = plain(identifier), written_before
        self._in_order, self._query = in_order, query
        self._offered: int | None = 0
        self._isolation, self._properties, self._watermark_ms = isolation, properties, watermark_ms
        self._group = group
        self._newest_schema, self._tell_written, self._lookups = newest_schema, written, lookups
        self._rows = NewRows(committer, self._user, lookups)
        self._given: list[CommitMessage] = []
        self._moved: list[CommitMessage] = []
        self._replaces_whole = False
        self._operation: OperationWord | None = None
        self._operation_name: OperationWord | None = None
        self._updates_rows = False
        self._rows_read: RowsRead | None = None
        self._target: Callable[[list[CommitMessage]], Target] | None = None
        self._named: tuple[str, ...] | None = None
        self._read: Snapshot | None = None
        self._receipt: Receipt | None = None
        self._replayed = False

    @property
    def receipt(self) -> Receipt:
        """The commit's receipt. Raises InvalidArgument before the block has ended well."""
        if self._receipt is None:
            raise InvalidArgument("the transaction has not been committed")
        return self._receipt

    @property
    def commit_user(self) -> str:
        """The user of the commit: the one that was given, or a new one."""
        return self._user

    @property
    def replayed(self) -> bool:
        """Has the identity already been committed? Then the rows are not written again."""
        return self._replayed

    # ------------------------------------------------------------------------------------------------------- changes

    def append(self, data: Any) -> None:
        """Add rows. In a table with a primary key they replace the rows with their keys."""
        self._begin_write()
        self._write(data)

    def upsert(self, data: Any, *, row_kind: str | None = None) -> None:
        """Add rows to a table with a primary key, or replace those with their keys. Later rows count as the newer ones.

        Args:
            row_kind: the column that names the kind of each row: `+I`, `-U`, `+U`, `-D`, or `c`, `r`, `u`, `d`.
        """
        self._check_keyed("upsert", "append adds its rows")
        self._begin_write()
        self._write(data, row_kind=row_kind)

    def delete(self, keys: Any) -> None:
        """Delete the rows with some keys from a table with a primary key.

        Args:
            keys: rows with the columns of the primary key, and those that order rows of one key (`sequence.field`), if any.
        """
        self._check_keyed("delete by key", "overwrite partitions that have rows to delete")
        self._begin_write()
        self._write(keys, deletes=True)

    def _check_keyed(self, what: str, instead: str) -> None:
        if not self._schema.primary_keys:
            raise InvalidArgument(f"{what} needs a table with a primary key", next_step=instead)

    def _begin_write(self) -> None:
        if self._operation not in (None, "WRITE"):
            raise InvalidArgument("a transaction is either appends or one overwrite: do not mix them")
        self._operation = "WRITE"

    def overwrite(
        self,
        data: Any,
        *,
        partition: Mapping[str, Any] | None = None,
        dynamic: bool = False,
        read_snapshot: int | None = None,
    ) -> None:
        """Replace a partition (given by all or some of its columns), the whole table, or each partition that `data` has rows of.

        Args:
            read_snapshot: id of the snapshot that `data` was computed from; the latest by default.
        """
        self.overwrite_since(lambda: snapshot_read(self._timeline, read_snapshot), data, partition, dynamic)

    def overwrite_since(
        self,
        look: Callable[[], Snapshot | None],
        data: Any,
        partition: Mapping[str, Any] | None,
        dynamic: bool,
    ) -> None:
        """As `overwrite`. `look` returns the snapshot that is replaced; a caller who starts again returns the same one."""
        spec = overwrite_spec(self._schema, partition, dynamic)
        self._begin_overwrite(spec, look())
        self._write(with_partition(data, spec, self._schema) if spec else data)
        refuse_outside(self._schema, self._rows.partitions, spec)

    def append_messages(self, messages: Iterable[CommitMessage], read_snapshot: Snapshot | None = None) -> None:
        """Add files that other processes wrote. If nothing is committed, they are deleted like the transaction's own files.

        In a table with a primary key, the sequence numbers of the rows are above those of `read_snapshot`.
        """
        self._begin_write()
        self._read, self._offered = read_snapshot, None
        self._given.extend(messages)

    def overwrite_messages(
        self,
        messages: Iterable[CommitMessage],
        read_snapshot: Snapshot | None,
        *,
        partition: Mapping[str, Any] | str | None = None,
        dynamic: bool = False,
    ) -> None:
        """As `overwrite`, with files of other processes. `read_snapshot`, the latest when they began, is replaced (H13)."""
        self._given.extend(messages)
        spec = overwrite_spec(self._schema, partition, dynamic)
        self._begin_overwrite(spec, read_snapshot)
        refuse_outside(self._schema, [m.partition for m in self._given], spec)

    def update_messages(self, messages: Iterable[CommitMessage], read_snapshot: Snapshot | None) -> None:
        """Add files with new columns for rows of `read_snapshot`. Changes of these rows since are a conflict."""
        self._begin("WRITE", read_snapshot)
        self._updates_rows = True
        self._given.extend(messages)

    def reads_rows(self, read: RowsRead, operation: OperationWord) -> None:
        """The rows that follow were computed from rows of the table, which must not have changed until they land."""
        self._begin_write()
        self._operation_name, self._rows_read = operation, read

    def drop_partitions(self, partitions: Iterable[Mapping[str, Any] | str]) -> None:
        """Delete the rows of partitions."""
        codec = codec_of(self._schema)
        if not codec.fields:
            raise InvalidArgument("the table has no partitions", next_step="use truncate()")
        specs = [codec.parse_spec(p) for p in arguments.listed(partitions, "partitions", "a list of partitions")]
        if not specs or not all(specs):
            raise InvalidArgument("drop_partitions needs at least one partition column per partition")
        self._begin("DELETE", self._timeline.latest())
        self._replaces(specs)

    def truncate(self) -> None:
        """Delete all rows."""
        self._begin("TRUNCATE", self._timeline.latest())
        self._target, self._named = lambda _: lambda partition: True, ("",)

    def _begin_overwrite(self, spec: dict[str, Any] | None, read_snapshot: Snapshot | None) -> None:
        self._begin("OVERWRITE", read_snapshot)
        self._replaces_whole = spec == {}
        if spec is None:
            self._target = lambda messages: frozenset(m.partition for m in messages if m.new_files).__contains__
        else:
            self._replaces([spec])

    def _replaces(self, specs: list[dict[str, Any]]) -> None:
        """Replace the partitions that these describe, and say so in the snapshot: some of them may have no files now."""
        target, codec = partitions_target(self._schema, specs), codec_of(self._schema)
        self._target, self._named = lambda _: target, replaced_paths([codec.spec_path(spec) for spec in specs])
        self._properties = {**self._properties, REPLACED: replaced_text(self._named)}

    def _begin(self, operation: OperationWord, read_snapshot: Snapshot | None) -> None:
        if self._operation is not None:
            raise InvalidArgument("a transaction is either appends or one overwrite: do not mix them")
        self._operation = operation
        self._read = read_snapshot

    def _write(self, data: Any, *, row_kind: str | None = None, deletes: bool = False) -> None:
        if self._replayed:
            number = getattr(data, "num_rows", None) if row_kind is None and not deletes else None
            self._offered = None if number is None or self._offered is None else self._offered + number
        else:
            replaces = self._target is not None
            self._rows.write(data, row_kind=row_kind, deletes=deletes, replaces=replaces, whole=self._replaces_whole)

    # ----------------------------------------------------------------------------------------------------- the block

    def __enter__(self) -> Transaction:
        if self._identifier is not None:
            self._receipt = self._committer.lookup(
                self._user,
                self._identifier,
                commits_next=self._written_before,
                in_order=self._in_order,
                query=self._query,
            )
            self._replayed = self._receipt is not None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._replayed:
            if kind is None and self._operation is not None and not self._computed:
                check_replay(self.receipt, self._schema, self._kind, self._offered, self._named)
            return
        if kind is not None:
            self._abandon()
            return
        if self._operation is None:
            raise InvalidArgument("the transaction changed nothing")
        try:
            messages = self._messages()
        except BaseException:  # nothing can have been sent yet
            self._abandon()
            raise
        try:
            self._receipt, committed = self._committed(messages)
        except LakelatchError as error:
            if not error.sent:
                self._abandon(messages)
            raise
        if self._tell_written is not None and self._rows.has_any and not self._receipt.replayed:
            self._tell_written(frozenset((m.partition, m.bucket) for m in committed if m.new_files))

    @property
    def _kind(self) -> CommitKind:
        return "APPEND" if self._target is None else "OVERWRITE"

    @property
    def _computed(self) -> bool:
        """Whether what was written depends on rows of the table, or came from other processes."""
        return self._rows_read is not None or self._updates_rows or bool(self._given)

    def _committed(self, messages: list[CommitMessage]) -> tuple[Receipt, list[CommitMessage]]:
        """Commit. Keys that others have put into other dynamic buckets are written there first, as often as races may be lost."""
        before, sent, policy, began = messages, False, RetryPolicy.from_options(self._schema.options), time.monotonic()
        for turn in itertools.count(1):
            try:
                receipt = self._committer.commit(self._request(messages))
                if self._moved and not (sent or receipt.replayed):
                    self._delete([*before, *self._moved], but=messages)
                return receipt, messages
            except CommitConflict as error:
                sent = error.sent = sent or error.sent
                if not error.moved_keys or self._lookups is None:
                    raise
                if policy.next_wait_ms(turn, elapsed_s=time.monotonic() - began, attempt_s=0.0, others=1) is None:
                    error.next_step = (
                        "write with fewer jobs at once, or create the table with fixed or postponed buckets"
                    )
                    raise
                messages = self._lookups.move(messages, error.moved_keys)
                self._moved += messages
            except LakelatchError as error:
                error.sent = sent or error.sent
                raise
        raise AssertionError("each turn returns, raises or is followed by another")

    def _messages(self) -> list[CommitMessage]:
        messages = [*self._rows.finish(), *self._given]
        return upgraded(messages, self._schema) if self._target is not None else messages

    def _request(self, messages: list[CommitMessage]) -> CommitRequest:
        request: Callable[..., CommitRequest] = CommitRequest
        if self._rows_read is not None:
            request = partial(RowChange, rows_read=self._rows_read)
        elif self._updates_rows:
            request = ColumnUpdate
        elif self._newest_schema:
            request = RepeatableRequest
        return request(
            kind=self._kind,
            entries=entries_of(messages),
            commit_user=self._user,
            identifier=self._identifier,
            index_entries=index_entries_of(messages),
            uploads=tuple(upload for m in messages for upload in m.uploads),
            target=self._target(messages) if self._target is not None else None,
            read_snapshot=self._rows.numbered_above if self._rows.is_numbered and self._target is None else self._read,
            isolation=self._isolation,
            keyed=KeyedRows(
                changelog_of(messages),
                hashes_of(messages),
                self._rows.renumberer(messages),
                self._target is None and bucket_mode(self._schema) is BucketMode.CROSS_PARTITION,
            ),
            remarks=Remarks(self._operation_name or self._operation, self._watermark_ms, self._properties),
            group=self._group,
            in_order=self._in_order,
            query=self._query,
        )

    def _abandon(self, messages: list[CommitMessage] | None = None) -> None:
        """Delete the files, but only if no snapshot that names them can be there, or can still land (H5)."""
        self._rows.abandon()
        self._delete([*(messages or ()), *self._given, *self._moved])

    def _delete(self, messages: list[CommitMessage], *, but: list[CommitMessage] | None = None) -> None:
        """Delete the files of messages, but those that others name. What cannot be deleted becomes an orphan."""
        needed = set(keys_of(self._schema, but or ()))
        keys = [key for key in dict.fromkeys(keys_of(self._schema, messages)) if key not in needed]
        discard(self._store, keys)
