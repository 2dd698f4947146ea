"""After a crash: what became of the commits in a journal, and finishing those that can be finished.

Owns: `recover`, what it tells. Must not know: how commits are made (the machine), how one is resolved (`resolution`).
Source: design §3 (event sourced), H2, H5, H9. Invariants: a commit is finished, or told as not landed, only after it was
taken over in its journal, so that a writer that is merely slow makes no further attempt; deleted is only metadata that this
commit alone wrote, when it is proven that it did not land and nothing of it is under way (G5); what is run twice tells the
same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

from ..backends.registry import open_store, scheme_of
from ..backends.store import Store
from ..core import options as opt
from ..core.errors import InvalidArgument, LakelatchError, TableNotFound
from ..core.paths import TablePaths
from .base import LONGEST_AGE_MS
from .journal import OBJECT, Entry, FileJournal, address_of
from .object_journal import ObjectJournal
from .protocol import effects as do
from .protocol import events as ev
from .protocol.machine import CommitState, Phase, step
from .resolution import Answer, Case, find_out, resolved
from .surroundings import MACHINE, Surroundings
from .timeline import Timeline

FORGOTTEN_AFTER_MS = 24 * 3_600_000
"""Until then a writer that wakes up finds that its commit was taken over; orphan cleaning trusts in the same day."""

Outcome: TypeAlias = Literal["landed", "finished", "not landed", "in flight", "unknown"]
"""finished: it landed because recovery sent its snapshot; in flight: its writer may still be at work."""


@dataclass(frozen=True, slots=True)
class RecoveredCommit:
    """What became of one commit.

    Attributes:
        commit: its id in the journal; `table`, `branch`: where.
        commit_user, identifier, kind: what was asked for; identifier None where none was given.
        outcome: see `Outcome`; `reason`: why, where it did not land or is not known.
        snapshot_id, snapshot_uuid: the snapshot that it made, or that is looked for; None where there is none.
        cleaned: metadata files that were deleted, or would be.
        known: the journal said so already; nothing was asked of the store.
    """

    commit: str
    table: str
    branch: str
    commit_user: str
    identifier: int | None
    kind: str
    outcome: Outcome
    reason: str = ""
    snapshot_id: int | None = None
    snapshot_uuid: str | None = None
    cleaned: tuple[str, ...] = ()
    known: bool = False

    def to_dict(self) -> dict[str, Any]:
        """The commit as a JSON-ready dict."""
        return {**asdict(self), "cleaned": list(self.cleaned)}

    def __str__(self) -> str:
        identity = self.commit_user if self.identifier is None else f"{self.commit_user}/{self.identifier}"
        where = "" if self.snapshot_id is None else f" snapshot {self.snapshot_id}"
        why = f": {self.reason}" if self.reason else ""
        cleaned = f" ({len(self.cleaned)} files cleaned)" if self.cleaned else ""
        return f"{self.outcome:<10}  {self.kind} by {identity} to {self.table}{where}{why}{cleaned}"


@dataclass(frozen=True)
class Recovery:
    """What `recover` found, one line per commit when printed."""

    commits: tuple[RecoveredCommit, ...]

    def of(self, *outcomes: Outcome) -> tuple[RecoveredCommit, ...]:
        """The commits with one of these outcomes."""
        return tuple(commit for commit in self.commits if commit.outcome in outcomes)

    @property
    def unknown(self) -> tuple[RecoveredCommit, ...]:
        """The commits whose end is not known yet: recover again later."""
        return self.of("unknown", "in flight")

    def __str__(self) -> str:
        return "\n".join(map(str, self.commits)) or "no commits"


class _Ledger(Protocol):
    """A journal that others than its writers read, and add to."""

    def entries(self) -> list[Entry]: ...

    def add(self, so_far: Sequence[Entry], event: ev.Event, at_ms: int) -> None: ...

    def conclude(self, commit: str) -> None: ...


def recover(
    url: str | Path | FileJournal | ObjectJournal,
    *,
    storage_options: Mapping[str, Any] | None = None,
    dry_run: bool = False,
    writers_are_gone: bool = False,
    clean: bool = True,
    only: Callable[[RecoveredCommit], bool] | None = None,
) -> Recovery:
    """Tell what became of the commits in a journal; finish those whose snapshot can still be sent.

    Safe to run again, from several places, and beside writers: whose commit is taken over is told so, and never lands twice.

    Args:
        url: a table (then the journal objects beside it, and the journal file that its option `commit.journal` names), or
            the path of a JSON-lines journal (then every table in it).
        storage_options: of the tables' stores.
        dry_run: look only: nothing is sent, said in a journal, or deleted.
        writers_are_gone: the caller knows that no writer of these commits runs any more. Else a commit that was heard of
            within the last 30 s is left alone, as "in flight".
        clean: delete the metadata files of commits that are proven not to have landed.
        only: which commits are meant, as far as their journal tells; all by default.

    Returns:
        Every commit that the journals hold, oldest first; printable.

    Raises:
        TableNotFound: there is neither a table nor a journal.
        TableCorrupt: a journal is damaged; names file and line.

    Source: design §3. Example:

    >>> import lakelatch as ll, pyarrow as pa
    >>> url, rows = "memory://doctest-recover/t", pa.table({"v": [1]})
    >>> table = ll.create_table(url, rows.schema, options={"commit.journal": "object"})
    >>> _ = table.append(rows); table.committer.settle()
    >>> print(ll.recover(url))
    no commits
    """
    store_of = cache(lambda table: open_store(table, storage_options))
    asked = _Asked(store_of, MACHINE, dry_run, writers_are_gone, clean, only or (lambda commit: True))
    found: list[RecoveredCommit] = []
    for ledger, table in _ledgers(url, storage_options):
        found += _recovered(ledger, table, asked)
    return Recovery(tuple(found))


def recover_journal(ledger: _Ledger, store: Store, around: Surroundings, *, writers_are_gone: bool) -> Recovery:
    """`recover` for one journal of one table, with the surroundings that are given."""
    asked = _Asked(lambda table: store, around, writers_are_gone=writers_are_gone)
    return Recovery(tuple(_recovered(ledger, None, asked)))


@dataclass(frozen=True)
class _Asked:
    """What the caller of `recover` wants, and the store of each table."""

    store_of: Callable[[str], Store]
    around: Surroundings
    dry_run: bool = False
    writers_are_gone: bool = False
    clean: bool = True
    only: Callable[[RecoveredCommit], bool] = lambda commit: True

    def timeline(self, entry: Entry) -> Timeline:
        return Timeline(self.store_of(entry.table), TablePaths(entry.branch), self.around.executor)


def _ledgers(
    url: str | Path | FileJournal | ObjectJournal, storage_options: Mapping[str, Any] | None
) -> Iterator[tuple[_Ledger, str | None]]:
    """The journals that are meant, and the one table that counts, None for all."""
    if isinstance(url, (FileJournal, ObjectJournal)):
        yield url, None
        return
    if scheme_of(str(url)) == "file" and Path(url).is_file():
        yield FileJournal(url), None
        return
    store = open_store(str(url), storage_options)
    try:
        setting = Timeline(store, TablePaths()).latest_schema().options.get(opt.COMMIT_JOURNAL)
    except TableNotFound:
        raise TableNotFound(f"there is neither a table nor a journal at {url}") from None
    yield ObjectJournal(store), None
    if setting not in ("", OBJECT) and Path(setting).is_file():
        yield FileJournal(setting), address_of(store.url)


# ---------------------------------------------------------------------------------------------------- from the journal


@dataclass(frozen=True)
class _Past:
    """What a journal knows of one commit.

    Attributes:
        state: of its machine, as far as the events count.
        tried: the snapshots that may have been sent.
        resolved: what somebody found out later.
        taken: was it taken over?
    """

    entries: tuple[Entry, ...]
    state: CommitState
    tried: tuple[ev.SnapshotPrepared, ...]
    resolved: ev.CommitResolved | None
    taken: bool

    @property
    def request(self) -> ev.CommitRequested:
        assert self.state.request is not None
        return self.state.request

    @property
    def case(self) -> Case:
        return Case(self.request.user, self.request.identifier, self.tried)

    def told(self) -> RecoveredCommit:
        """What the journal alone tells."""
        first, request, resolved_as = self.entries[0], self.request, self.resolved
        ref = self.tried[-1].snapshot if self.tried else None
        commit = RecoveredCommit(
            first.commit, first.table, first.branch, request.user, request.identifier, request.kind, "unknown",
            snapshot_id=ref.id if ref else None, snapshot_uuid=ref.identity if ref else None,
        )  # fmt: skip
        if resolved_as is not None:
            outcome: do.Outcome | None = (
                do.NotCommitted(resolved_as.code, resolved_as.reason)
                if resolved_as.snapshot is None
                else do.Committed(resolved_as.snapshot, False)
            )
        else:
            outcome = self.state.outcome
        return replace(_with(commit, outcome), known=True) if _is_known(outcome) else commit


def _is_known(outcome: do.Outcome | None) -> bool:
    return isinstance(outcome, (do.Committed, do.NotCommitted))


def _with(commit: RecoveredCommit, outcome: do.Outcome | None, finished: bool = False) -> RecoveredCommit:
    match outcome:
        case do.Committed(snapshot=ref):
            landed: Outcome = "finished" if finished else "landed"
            return replace(commit, outcome=landed, snapshot_id=ref.id, snapshot_uuid=ref.identity, reason="")
        case do.NotCommitted(reason=reason):
            return replace(commit, outcome="not landed", reason=reason)
        case do.Undecided(reason=reason):
            return replace(commit, outcome="unknown", reason=reason)
    return commit


def _pasts(entries: Sequence[Entry], table: str | None) -> dict[str, _Past]:
    """What a journal knows, commit by commit, oldest first."""
    by_commit: dict[str, list[Entry]] = {}
    for entry in entries:
        if table is None or entry.table == table:
            by_commit.setdefault(entry.commit, []).append(entry)
    # A journal may begin in the midst of a commit, where it was cut: nothing can be said of that one.
    return {
        commit: _past(of_commit)
        for commit, of_commit in by_commit.items()
        if isinstance(of_commit[0].event, ev.CommitRequested)
    }


def _past(entries: list[Entry]) -> _Past:
    """Fold a commit's events; what its writer did after it was taken over does not count."""
    state, tried, resolved_as, taken = CommitState(), list[ev.SnapshotPrepared](), None, False
    for entry in entries:
        event = entry.event
        match event:
            case ev.CommitResolved():
                resolved_as = resolved_as or event
                continue
            case ev.TakenOver():
                taken = True
        if taken or _is_known(state.outcome):
            continue
        match event:
            case ev.SnapshotPrepared():
                tried.append(event)
            case ev.BaseAged() if state.sends == 1:
                tried.pop()  # given up before it was sent
        state, _ = step(state, event)
    return _Past(tuple(entries), state, tuple(tried), resolved_as, taken)


# ------------------------------------------------------------------------------------------------------ from the table


def _recovered(ledger: _Ledger, table: str | None, asked: _Asked) -> list[RecoveredCommit]:
    pasts = {c: p for c, p in _pasts(ledger.entries(), table).items() if asked.only(p.told())}
    open_ones = {c: p for c, p in pasts.items() if not p.told().known and not _is_in_flight(p, asked)}
    if open_ones and not asked.dry_run:
        now_ms = asked.around.wall_ms
        for past in open_ones.values():
            if not past.taken:
                ledger.add(past.entries, ev.TakenOver(), now_ms)
        after = _pasts(ledger.entries(), table)
        open_ones = {c: after[c] for c in open_ones if c in after and after[c].taken and not after[c].told().known}
        pasts.update({c: after[c] for c in pasts if c in after})
    return [_one(ledger, past, commit in open_ones, asked) for commit, past in pasts.items()]


def _is_in_flight(past: _Past, asked: _Asked) -> bool:
    """May its writer still be at work? One that was told "unknown" is not; one that is silent for long has lost its turn."""
    if asked.writers_are_gone or past.taken or past.state.outcome is not None:
        return False
    return asked.around.wall_ms - past.entries[-1].at_ms < LONGEST_AGE_MS


def _one(ledger: _Ledger, past: _Past, is_open: bool, asked: _Asked) -> RecoveredCommit:
    told = past.told()
    if told.known:
        _say(ledger, past, None, asked)  # where its writer died before it could tidy up
        return told
    if not is_open:
        return replace(told, outcome="in flight", reason="its writer may still be at work: recover again in 30 s")
    try:
        timeline = asked.timeline(past.entries[0])
        answer = find_out(past.case, timeline, send=not asked.dry_run)
    except LakelatchError as error:
        return replace(told, reason=error.message)
    outcome = answer.outcome
    commit = _with(told, outcome, answer.finished)
    if isinstance(outcome, do.Undecided):
        return commit
    if asked.clean:
        commit = replace(commit, cleaned=_clean(past, answer, timeline, asked))
    _say(ledger, past, resolved(outcome), asked)
    return commit


def _clean(past: _Past, answer: Answer, timeline: Timeline, asked: _Asked) -> tuple[str, ...]:
    """Delete what only this commit wrote and nothing can need any more (H5); the last send of a crash was never answered."""
    state = past.state
    if isinstance(answer.outcome, do.Committed) or (state.phase is Phase.PUBLISH and state.sends > 0):
        return ()
    if state.phase in (Phase.VERIFY, Phase.HINT, Phase.DONE):
        return ()
    keys = tuple(timeline.paths.manifest(name) for name in state.ledger.discardable(landed=False))
    if keys and not asked.dry_run:
        try:
            timeline.store.delete_many(keys)
        except LakelatchError:
            return ()  # left to orphan cleaning
    return keys


def _say(ledger: _Ledger, past: _Past, found: ev.CommitResolved | None, asked: _Asked) -> None:
    """Keep what was found, in a journal that keeps such; it can be found again where that fails (H17)."""
    if asked.dry_run:
        return
    try:
        if found is not None:
            ledger.add(past.entries, found, asked.around.wall_ms)
        if asked.writers_are_gone or asked.around.wall_ms - past.entries[-1].at_ms > FORGOTTEN_AFTER_MS:
            ledger.conclude(past.entries[0].commit)
    except LakelatchError:
        return


def find_one(
    commit_user: str | None, identifier: int | None, snapshot_uuid: str | None
) -> Callable[[RecoveredCommit], bool]:
    """Which commits of a journal are meant by a commit user, an identifier, a snapshot's uuid; all where none is given.

    Raises:
        InvalidArgument: an identifier without its user.
    """
    if identifier is not None and commit_user is None:
        raise InvalidArgument("an identifier needs its commit user")

    def meant(commit: RecoveredCommit) -> bool:
        return (
            (commit_user is None or commit.commit_user == commit_user)
            and (identifier is None or commit.identifier == identifier)
            and (snapshot_uuid is None or commit.snapshot_uuid == snapshot_uuid)
        )

    return meant
