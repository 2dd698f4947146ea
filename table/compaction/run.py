"""Run a compaction, which joins files into fewer ones while other jobs write.

Owns: `run_compaction`, with its batches, their commits, and the groups that are given up. Must not know: how files are chosen
(`plan`), how rows are rewritten (`rewrite`), where that runs.
Source: format/data-files §6; format/commit §3; architecture §3 (isolation); architecture §7; H12, H13.
Invariants: A file that was added after the plan is never touched, so concurrent appends are kept. If another commit deleted a
file, or rows of it, the file is not replaced and its group is given up. A committed batch stays, whatever happens to the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, groupby
from typing import Any

from ...backends.store import Store
from ...coordinator.commit.committer import Committer, new_commit_user
from ...coordinator.commit.message import CommitMessage, changelog_of, entries_of, index_entries_of
from ...coordinator.commit.receipt import Receipt
from ...coordinator.commit.request import CommitRequest, KeyedRows
from ...coordinator.commit.settling.index_files import with_vectors_of
from ...coordinator.history.timeline import Timeline
from ...coordinator.maintenance.deletion import Progress
from ...coordinator.surroundings import MACHINE
from ...core.errors import CommitConflict, LakelatchError, OutcomeUnknown, TableCorrupt
from ...core.html_text import ShownAsText
from ...core.metadata.change import Owner, vector_places
from ...core.metadata.data_file import DELETE
from ...core.metadata.folding import live
from ...core.metadata.schema import TableSchema
from ...core.places import FileKeys, codec_of
from ..scan.fallback import file_schemas_of
from ..scan.split import Split
from ..writing.unfinished import discard
from ..writing.writer import keys_of
from .key_plan import above_of
from .key_rewrite import KeyRewriter
from .plan import CompactionPlan
from .postponed import Settled
from .rewrite import Rewriter

BATCH_BYTES = 1 << 30
"""The bytes that are rewritten per commit, which is also the most work that is lost if a run is cut off."""
REWRITE_THREADS = 4
"""The number of groups that are rewritten at once. Each holds a few row groups in memory."""

AnyRewriter = Rewriter | KeyRewriter
Rewrite = Callable[[Sequence[Split]], list[CommitMessage]]
"""A function that rewrites groups and yields one message per group, in any order. If it raises, it leaves no file."""


@dataclass(frozen=True)
class GivenUp:
    """A group that was not replaced because another commit changed it first."""

    partition: str
    bucket: int
    files: int
    reason: str

    def to_dict(self) -> dict[str, Any]:
        """As plain values, with stable keys."""
        return {"partition": self.partition, "bucket": self.bucket, "files": self.files, "reason": self.reason}


@dataclass(frozen=True)
class Compaction(ShownAsText):
    """What a compaction did, or with `dry_run` would do. Prints as text.

    Attributes:
        receipts: one per commit; none if nothing was done.
        files_before, files_after: the number of replaced files, and of the new files.
        given_up: groups that other commits changed first. Run the compaction again for the files that are left of them.
    """

    plan: CompactionPlan
    receipts: tuple[Receipt, ...] = ()
    files_before: int = 0
    files_after: int = 0
    bytes_after: int = 0
    given_up: tuple[GivenUp, ...] = ()

    def after(self, settled: Settled) -> Compaction:
        """This compaction and what was put into real buckets before it."""
        return replace(
            self,
            receipts=(*settled.receipts, *self.receipts),
            files_before=settled.files_before + self.files_before,
            files_after=settled.files_after + self.files_after,
            bytes_after=settled.bytes_after + self.bytes_after,
        )

    def to_dict(self) -> dict[str, Any]:
        """As plain values, with stable keys."""
        return {
            **self.plan.to_dict(),
            "receipts": [receipt.to_dict() for receipt in self.receipts],
            "files_before": self.files_before,
            "files_after": self.files_after,
            "bytes_after": self.bytes_after,
            "given_up": [group.to_dict() for group in self.given_up],
        }

    def __str__(self) -> str:
        lines = []
        if self.receipts:
            ids = ", ".join(str(receipt.snapshot_id) for receipt in self.receipts)
            many = "s" if len(self.receipts) > 1 else ""
            lines.append(f"{self.files_before} files became {self.files_after}, snapshot{many} {ids}")
        if self.given_up:
            files = sum(group.files for group in self.given_up)
            lines.append(f"{len(self.given_up)} groups of {files} files were given up: {self.given_up[0].reason}")
        return "; ".join(lines) or str(self.plan)


def rewriter_of(
    store: Store, timeline: Timeline, schema: TableSchema, groups: Iterable[Split], target_bytes: int
) -> AnyRewriter:
    made: type[AnyRewriter] = KeyRewriter if schema.primary_keys else Rewriter
    read = [split for group in groups for split in (group, above_of(group)) if split is not None]
    return made(store, schema, file_schemas_of(timeline, schema, read), target_bytes)


def rewritten_here(rewriter: AnyRewriter) -> Rewrite:
    """A function that rewrites groups in this process, a few at a time."""

    def rewrite(groups: Sequence[Split]) -> list[CommitMessage]:
        names = [str(MACHINE.new_uuid()) for _ in groups]
        with MACHINE.executor(REWRITE_THREADS, "lakelatch-compact") as pool:
            futures = [pool.submit(rewriter.rewrite, *work) for work in zip(groups, names, strict=True)]
            try:
                return [future.result() for future in futures]
            except BaseException:
                for future in futures:
                    future.cancel()
                done = [f.result() for f in futures if not f.cancelled() and f.exception() is None]
                discard(rewriter.store, keys_of(rewriter.schema, done))
                raise

    return rewrite


def run_compaction(
    committer: Committer,
    timeline: Timeline,
    schema: TableSchema,
    plan: CompactionPlan,
    rewrite: Rewrite,
    *,
    request: type[CommitRequest] = CommitRequest,
    batch_bytes: int = BATCH_BYTES,
    progress: Progress | None = None,
) -> Compaction:
    """Carry out a plan, batch by batch, and commit each as a `request`. `rewrite` writes with `schema`.

    Batches that were committed before an error remain. `progress` gets the number of files rewritten so far and their total.
    """
    run = _Run(committer, timeline, schema, plan, request)
    done = 0
    for batch in batches(plan.groups, batch_bytes):
        try:
            run.commit(run.rewritten(batch, rewrite))
        except LakelatchError as error:
            if run.receipts:
                error.message += f"; {run.files_before} files were compacted before and remain compacted"
            raise
        done += sum(len(group.files) for group in batch)
        if progress is not None:
            progress(done, plan.file_count)
    return Compaction(
        plan, tuple(run.receipts), run.files_before, run.files_after, run.bytes_after, tuple(run.given_up)
    )


def batches(groups: Iterable[Split], most_bytes: int) -> Iterator[list[Split]]:
    """Groups in batches of about `BATCH_BYTES`. Groups of one bucket that may share an index file are in one batch."""
    batch: list[Split] = []
    for _, found in groupby(groups, key=lambda group: (group.partition, group.bucket)):
        bucket = list(found)
        parts = [bucket] if any(group.deletions for group in bucket) else [[group] for group in bucket]
        for part in parts:
            batch.extend(part)
            if sum(group.size for group in batch) >= most_bytes:
                yield batch
                batch = []
    if batch:
        yield batch


@dataclass
class _Run:
    committer: Committer
    timeline: Timeline
    schema: TableSchema
    plan: CompactionPlan
    request: type[CommitRequest]
    receipts: list[Receipt] = field(default_factory=list)
    given_up: list[GivenUp] = field(default_factory=list)
    files_before: int = 0
    files_after: int = 0
    bytes_after: int = 0

    def __post_init__(self) -> None:
        self._user = new_commit_user(self.schema)
        self._codec = codec_of(self.schema)
        self._vectors = vector_places(self.plan.index)

    def rewritten(self, groups: Sequence[Split], rewrite: Rewrite) -> list[CommitMessage]:
        """Rewrite the groups. Files may be missing because another commit replaced them and expiry then deleted them."""
        while groups:
            try:
                return rewrite(groups)
            except TableCorrupt as error:
                gone = self._gone([_inputs_of(group) for group in groups])
                if not gone:
                    raise
                self._give_up(gone, error.message, sent=False)
                groups = [group for group in groups if _inputs_of(group) not in gone]
        return []

    def commit(self, messages: list[CommitMessage]) -> None:
        """Commit one batch, without the groups that other commits changed first."""
        sent = False
        while messages:
            request = self._request(messages)
            try:
                self.receipts.append(self.committer.commit(request))
                self.files_before += sum(len(m.compact_before) for m in messages)
                self.files_after += sum(len(m.compact_after) for m in messages)
                self.bytes_after += sum(file.file_size for m in messages for file in m.compact_after)
                return
            except OutcomeUnknown:
                raise
            except LakelatchError as error:
                sent = sent or error.sent
                gone = self._gone(messages) if isinstance(error, CommitConflict | TableCorrupt) else []
                if isinstance(error, CommitConflict):
                    gone = gone or messages
                if not sent:
                    theirs = {upload.key for message in messages for upload in message.uploads}
                    discard(self.committer.store, [u.key for u in request.uploads if u.key not in theirs])
                if not gone:
                    if not sent:
                        discard(self.committer.store, keys_of(self.schema, messages))
                    raise
                self._give_up(gone, error.message, sent)
                messages = [m for m in messages if m not in gone]

    def _request(self, messages: Sequence[CommitMessage]) -> CommitRequest:
        # A compaction that looks up older rows brings the vectors of its bucket itself.
        owners = {owner for message in messages if not message.index_entries for owner in _replaced(message)}
        stem, numbers = f"index-{MACHINE.new_uuid()}", count()
        index, uploads = with_vectors_of(
            self.committer.store,
            FileKeys(self.schema),
            self.plan.index,
            lambda owner: owner not in owners,
            lambda: f"{stem}-{next(numbers)}",
        )
        return self.request(
            kind="COMPACT",
            entries=entries_of(messages),
            commit_user=self._user,
            keyed=KeyedRows(changelog_of(messages)),
            index_entries=(*index, *index_entries_of(messages)),
            uploads=(*uploads, *(upload for message in messages for upload in message.uploads)),
            read_snapshot=self.plan.snapshot,
        )

    def _gone(self, messages: Sequence[CommitMessage]) -> list[CommitMessage]:
        """The groups with a file that is no longer live, or whose deletion vector has changed since it was applied."""
        latest = self.timeline.latest()
        alive = {e.identity for e in live(self.timeline.entries(self.timeline.manifests(latest)))} if latest else set()
        index = self.timeline.index_entries(latest) if latest else []
        vectors, names = vector_places(index), {entry.file.file_name for entry in index}
        return [
            message
            for message in messages
            if any(e.kind == DELETE and e.file.file_name not in names for e in message.index_entries)
            or any(entry.kind == DELETE and entry.identity not in alive for entry in entries_of([message]))
            or any(vectors.get(owner) != self._vectors.get(owner) for owner in _owners(message))
        ]

    def _give_up(self, messages: Sequence[CommitMessage], reason: str, sent: bool) -> None:
        if not sent:
            discard(self.committer.store, keys_of(self.schema, messages))
        for message in messages:
            path = self._codec.path(message.partition)
            self.given_up.append(GivenUp(path, message.bucket, len(message.compact_before), reason))


def _owners(message: CommitMessage) -> Iterator[Owner]:
    return ((message.partition, message.bucket, file.file_name) for file in message.compact_before)


def _replaced(message: CommitMessage) -> set[Owner]:
    """The inputs that are gone afterwards. A file that only moves to another level keeps its deletion vector."""
    moved = {(message.partition, message.bucket, file.file_name) for file in message.compact_after}
    return {*_owners(message)} - moved


def _inputs_of(group: Split) -> CommitMessage:
    """The files of a group that was not rewritten."""
    return CommitMessage(group.partition, group.bucket, group.total_buckets, compact_before=group.files)
