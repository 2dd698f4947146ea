"""Carries out a change of rows: plans it, commits it, and plans it again if another commit came first.

Owns: `change_rows`, the budget of plans. Must not know: expressions, how rows are found or written.
Source: architecture §3 (isolation, retries); H5, H12.
Invariants: What was committed was planned on a state that had not changed in what it read. An identity that has landed runs
nothing. Files of a plan are deleted only if no snapshot that names them can have been sent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NoReturn

from ...backends.store import Store
from ...coordinator.commit.committer import Committer, new_commit_user
from ...coordinator.commit.receipt import Receipt
from ...coordinator.commit.request import Isolation
from ...coordinator.history.timeline import Timeline
from ...coordinator.surroundings import MACHINE
from ...core import options as opt
from ...core.arguments import mapping
from ...core.errors import CommitConflict, InvalidArgument, LakelatchError, Unsupported
from ...core.metadata.data_file import ManifestEntry
from ...core.metadata.schema import TableSchema
from ...core.metadata.schemas.merge_rules import POSTPONED
from ...core.metadata.snapshot import Snapshot
from ..compaction.inline import compact_buckets
from ..scan.plan import ScanPlan
from ..writing.transaction import Transaction, check_identity
from .append_table import AppendChange, ChangeFiles, changed_here
from .evolution import EvolvingChange
from .key_table import KeyChange
from .operation import Operation
from .receipt import RowReceipt

MOST_PLANS = 100
_LONGEST_WAIT_S = 1.0
_DEFAULT_BUDGET_S = 600.0


@dataclass(frozen=True)
class Opened:
    """What a change uses of an open table. `seen` looks for the newest snapshot and schema; the others use that schema."""

    committer: Callable[[], Committer]
    seen: Callable[[], tuple[Timeline, Snapshot | None, TableSchema]]
    begin: Callable[..., Transaction]


def change_rows(
    table: Opened,
    operation_of: Callable[[TableSchema], Operation],
    *,
    commit_user: str | None,
    identifier: int | None,
    isolation: Isolation = "serializable",
    properties: Mapping[str, str] | None = None,
    change_files: ChangeFiles | None = None,
) -> RowReceipt:
    """Change rows in one commit.

    `operation_of` makes the operation for a schema, and again if the table gets another one. With isolation `serializable`, rows
    that others add meanwhile and that it may concern are a conflict; with `snapshot`, only changes of the same files are.
    """
    landed = landed_before(table, commit_user, identifier, isolation)
    if landed is not None:
        return landed
    retrying = Retrying(table.committer().schema)
    if table.committer().schema.primary_keys:
        return _with_keys(table, operation_of, retrying, commit_user, identifier, isolation, properties)
    change: AppendChange | EvolvingChange | None = None
    while True:
        timeline, snapshot, schema = table.seen()
        if change is None or change.schema.id != schema.id:
            if change is not None and not retrying.sent:
                change.discard(everything=True)
            change = _change_of(timeline.store, schema, operation_of(schema), change_files or changed_here)
        try:
            planned = change.plan(timeline, snapshot)
            request = change.request(
                planned,
                timeline,
                commit_user=commit_user or new_commit_user(schema),
                identifier=identifier,
                isolation=isolation,
                properties=mapping(properties, "properties"),
            )
        except BaseException:
            if not retrying.sent:
                change.discard(everything=True)
            raise
        try:
            receipt = table.committer().commit(request)
        except CommitConflict as error:
            again = retrying.again(error)
            if not retrying.sent:
                change.discard(everything=not again)
            if not again:
                raise
        except LakelatchError as error:
            if not (error.sent or retrying.sent):
                change.discard(everything=True)
            raise
        else:
            if not retrying.sent and not receipt.replayed:
                change.landed(planned)
            return counted(receipt, planned.counts, retrying.plans)


def _change_of(
    store: Store, schema: TableSchema, operation: Operation, change_files: ChangeFiles
) -> AppendChange | EvolvingChange:
    if schema.options.get(opt.DATA_EVOLUTION):
        return EvolvingChange(store, schema, operation)
    return AppendChange(store, schema, operation, change_files)


def _with_keys(
    table: Opened,
    operation_of: Callable[[TableSchema], Operation],
    retrying: Retrying,
    commit_user: str | None,
    identifier: int | None,
    isolation: Isolation,
    properties: Mapping[str, str] | None,
) -> RowReceipt:
    """Change rows of a table with a primary key. Each attempt reads and writes anew."""
    begin = partial(
        table.begin, commit_user=commit_user, identifier=identifier, isolation=isolation, properties=properties
    )
    while True:
        timeline, snapshot, schema = table.seen()
        change = KeyChange(timeline.store, schema, operation_of(schema))
        scan = change.planned(timeline, snapshot)
        unseen = change.unseen(timeline, scan)
        try:
            if unseen:
                _make_visible(table.committer(), timeline, scan, unseen)
            tx, counts = change.written(timeline, scan, begin)
        except CommitConflict as error:
            if not retrying.again(error):
                raise
        else:
            return counted(tx.receipt, counts, retrying.plans)


def _make_visible(
    committer: Committer, timeline: Timeline, scan: ScanPlan, unseen: Sequence[ManifestEntry]
) -> NoReturn:
    """Compact rows that are committed and cannot be read yet: a change that does not know them would hide them.

    Always raises: `CommitConflict` to plan again, or `Unsupported` if others compact this table.
    """
    buckets = {(e.partition, e.bucket) for e in unseen}
    what = f"{len(unseen)} files with rows that this change may concern cannot be read before they are compacted"
    if committer.schema.options.get(opt.WRITE_ONLY) or any(bucket == POSTPONED for _, bucket in buckets):
        raise Unsupported(what, next_step="compact the table, then run it again")
    assert scan.snapshot is not None
    compact_buckets(committer, timeline, scan.snapshot, buckets)
    raise CommitConflict(what)


def landed_before(
    table: Opened, commit_user: str | None, identifier: int | None, isolation: Isolation
) -> RowReceipt | None:
    """The receipt of an identity that has landed before. Refuses half an identity, and an isolation that does not exist."""
    check_identity(commit_user, identifier)
    if isolation not in ("snapshot", "serializable"):
        raise InvalidArgument(f"isolation {isolation!r}: use 'snapshot' or 'serializable'")
    if identifier is None or commit_user is None:
        return None
    receipt = table.committer().lookup(commit_user, identifier)
    return None if receipt is None else RowReceipt.of(receipt)


def counted(receipt: Receipt, counts: object, plans: int) -> RowReceipt:
    return RowReceipt.of(receipt, **vars(counts), plans=plans)


class Retrying:
    """How often a change is planned again: until the time of option `commit.timeout` is over.

    `plans` counts the plans so far. `sent` is set once a snapshot that names files of any plan may have been sent.
    """

    def __init__(self, schema: TableSchema) -> None:
        timeout_ms = schema.options.get(opt.COMMIT_TIMEOUT)
        budget_s = _DEFAULT_BUDGET_S if timeout_ms is None else timeout_ms / 1000
        self._until_s = MACHINE.monotonic_s() + budget_s
        self.plans, self.sent = 1, False

    def again(self, error: CommitConflict) -> bool:
        """Wait after a conflict, and return whether to plan again. If not, the error says how often that was done."""
        self.sent = self.sent or error.sent
        if self.plans >= MOST_PLANS or MACHINE.monotonic_s() > self._until_s:
            error.message += f"; it was planned {self.plans} times"
            error.next_step = (
                "change fewer rows at once, run it when fewer jobs write, or raise option 'commit.timeout'"
            )
            return False
        MACHINE.sleep(MACHINE.uniform(0, min(_LONGEST_WAIT_S, 0.02 * 2**self.plans)))
        self.plans += 1
        return True
