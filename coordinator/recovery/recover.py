"""After a crash: finds out how the commits in a journal ended, and finishes those that can be finished.

Owns: `recover` and its report. Must not know: how commits are made (the machine), what a journal's entries mean (`past`), how a
journal keeps them, how a commit is resolved (`resolution`). Source: architecture §3 (event sourced), H2, H5, H9.
Invariants: a commit is finished, or reported as not landed, only after it was taken over in its journal, so that a writer that
is merely slow makes no further attempt (`shared_journal`). A commit that a damaged line may belong to is left alone. One rule
decides which files are deleted (`past`). A second run reports the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

from ...backends.elsewhere import fixed_url
from ...backends.registry import open_store, scheme_of, url_text
from ...backends.store import Store
from ...core.errors import InvalidArgument, LakelatchError, OutcomeUnknown, TableCorrupt, TableNotFound
from ...core.html_text import ShownAsText
from ...core.metadata.snapshot import parse_snapshot
from ...core.paths import TablePaths
from ...core.typed import assert_never
from ..commit.checks.layout import follow_snapshot
from ..commit.committer import Committer
from ..commit.riding.rider import read_rider
from ..history.base import LONGEST_AGE_MS
from ..history.timeline import Timeline
from ..intents.intent import Intent, parse_intent
from ..intents.shelf import folder_of
from ..journal.file_journal import FileJournal
from ..journal.lines import Damage, MemoryJournal, address_of
from ..journal.object_journal import ObjectJournal, file_of
from ..journal.shared_journal import SharedJournal
from ..outcome.resolution import Resolution, find_out, resolved
from ..protocol import effects as do
from ..protocol import events as ev
from ..protocol.snapshot_ref import SnapshotRef
from ..surroundings import MACHINE, Surroundings
from .home import Home, Homes
from .past import Past, pasts

FORGOTTEN_AFTER_MS = 24 * 3_600_000
"""Until then a writer that wakes up finds that its commit was taken over. Orphan cleaning relies on the same limit."""

Ending: TypeAlias = Literal["landed", "finished", "not landed", "in flight", "unknown"]
"""finished: it landed because recovery sent its snapshot, or made one for it; in flight: its writer may still be running."""


@dataclass(frozen=True, slots=True)
class RecoveredCommit(ShownAsText):
    """The outcome of one commit.

    Attributes:
        commit: its id in the journal.
        table, branch: where it was made.
        commit_user, identifier, kind: the request; identifier None where none was given.
        outcome: see `Ending`.
        reason: the reason, where it did not land or the outcome is not known.
        snapshot_id, snapshot_uuid: the snapshot that it made, or that is looked for; None where there is none.
        cleaned: metadata files that were deleted, or would be in a dry run.
        known: the journal recorded the outcome already; the store was not read.
    """

    commit: str
    table: str
    branch: str
    commit_user: str
    identifier: int | None
    kind: str
    outcome: Ending
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
class Recovery(ShownAsText):
    """The report of `recover`; prints one line per commit.

    Attributes:
        commits: the outcome of each commit.
        damaged: lines of the journals that cannot be read, each with its journal, its number and the problem. Commits that such
            a line may belong to are reported as unknown, and left alone.
    """

    commits: tuple[RecoveredCommit, ...]
    damaged: tuple[str, ...] = ()

    def of(self, *outcomes: Ending) -> tuple[RecoveredCommit, ...]:
        """The commits with one of these outcomes."""
        return tuple(commit for commit in self.commits if commit.outcome in outcomes)

    @property
    def unknown(self) -> tuple[RecoveredCommit, ...]:
        """The commits whose outcome is not known yet: recover again later."""
        return self.of("unknown", "in flight")

    def __str__(self) -> str:
        return "\n".join(map(str, (*self.commits, *self.damaged))) or "no commits"


def recover(
    url: str | Path | SharedJournal,
    *,
    storage_options: Mapping[str, Any] | None = None,
    table: str | Path | None = None,
    dry_run: bool = False,
    writers_are_gone: bool = False,
    clean: bool = True,
    only: Callable[[RecoveredCommit], bool] | None = None,
) -> Recovery:
    """Report how the commits in a journal ended; finish those whose snapshot can still be sent, or that others may still carry.

    Safe to repeat, to run on several machines at once, and to run beside writers. A writer whose commit was taken over is
    notified; no commit lands twice.

    Args:
        url: a table (then what the journal objects beside it, and the file that its option `commit.journal` names where it was
            allowed, tell of this table), or the path of a JSON-lines journal (then for every table in it).
        storage_options: options of the tables' stores.
        table: of a journal, only the commits to the table at this URL. It may have been renamed since.
        dry_run: only report: nothing is sent, recorded in a journal, or deleted.
        writers_are_gone: the caller knows that no writer of these commits runs any more. Otherwise a commit that was active
            within the last 30 s is left alone, as "in flight".
        clean: delete the metadata files of commits that are proven not to have landed.
        only: selects commits, by what the journal knows about them; all by default.

    Returns:
        Every commit that the journals hold, oldest first, and the damaged lines of the journals; printable.

    Raises:
        TableNotFound: there is neither a table nor a journal.

    Source: architecture §3. Example:

    >>> import lakelatch as ll, pyarrow as pa
    >>> url, rows = "memory://doctest-recover/t", pa.table({"v": [1]})
    >>> table = ll.create_table(url, rows.schema, options={"commit.journal": "object"})
    >>> _ = table.append(rows); table.committer.settle()
    >>> print(ll.recover(url))
    no commits
    """
    store_of = cache(lambda table: open_store(table, storage_options))
    asked = _Asked(Homes(store_of), MACHINE, dry_run, writers_are_gone, clean, only or (lambda commit: True))
    found = [
        _recovered(journal, replace(asked, homes=replace(asked.homes, only=home)))
        for journal, home in _journals(url, storage_options, None if table is None else store_of(str(table)))
    ]
    return Recovery(
        tuple(commit for one in found for commit in one.commits), tuple(line for one in found for line in one.damaged)
    )


def recover_journal(
    journal: SharedJournal, store: Store, around: Surroundings, *, writers_are_gone: bool, dry_run: bool = False
) -> Recovery:
    """`recover` for one journal of one table, with the given surroundings."""
    only = Home(journal.store) if isinstance(journal, ObjectJournal) else None
    homes = Homes(lambda table: store, only, around)
    return _recovered(journal, _Asked(homes, around, dry_run, writers_are_gone))


@dataclass(frozen=True)
class _Asked:
    """The arguments of `recover`, and where the table of each commit is."""

    homes: Homes
    around: Surroundings
    dry_run: bool
    writers_are_gone: bool
    clean: bool = True
    only: Callable[[RecoveredCommit], bool] = lambda commit: True


def _journals(
    url: str | Path | SharedJournal, storage_options: Mapping[str, Any] | None, table: Store | None
) -> Iterator[tuple[SharedJournal, Home | None]]:
    """The journals at a URL, and the one table to report on, None for all."""
    home = None if table is None else Home(table)
    if isinstance(url, ObjectJournal):
        yield url, home or Home(url.store)
        return
    if isinstance(url, SharedJournal):
        yield url, home
        return
    place = url_text(url)
    if scheme_of(place) == "file" and Path(place).is_file():
        yield FileJournal(place), home
        return
    store = open_store(place, storage_options)
    try:
        options = Timeline(store, TablePaths()).latest_schema().options
    except TableNotFound:
        raise TableNotFound(f"there is neither a table nor a journal at {url}") from None
    home = Home(store)
    yield ObjectJournal(store), home
    named = file_of(options, store)
    if named is not None and Path(named).is_file():
        yield FileJournal(named), home


# -------------------------------------------------------------------------------------------------------- one journal


def _recovered(journal: SharedJournal, asked: _Asked) -> Recovery:
    lines, home = journal.lines(), asked.homes.only
    mine = None if home is None or isinstance(journal, ObjectJournal) else home.may_have
    damaged = tuple(str(line) for line in lines if isinstance(line, Damage))
    meant = {commit: past for commit, past in pasts(lines, mine).items() if asked.only(_told(past))}
    refused: dict[str, str] = {}
    if not asked.dry_run:
        for commit, past in meant.items():
            if _is_open(past, asked) and not past.taken:
                try:
                    asked.homes.of(past.entries[0])  # a commit of another table is not taken over
                    journal.add(past.entries, ev.TakenOver(), asked.around.wall_ms)
                except LakelatchError as error:
                    refused[commit] = error.message
        after = pasts(journal.lines(), mine)
        meant = {commit: after.get(commit, past) for commit, past in meant.items()}
    told = [_one(journal, past, refused.get(commit, ""), asked) for commit, past in meant.items()]
    return Recovery(tuple(told), damaged)


def _is_open(past: Past, asked: _Asked) -> bool:
    """Whether the outcome still has to be found out and the writer is no longer at work.

    A writer that reported "unknown" is no longer at work; one that has been silent for long loses its turn.
    """
    if past.outcome is not None or past.damage is not None:
        return False
    if asked.writers_are_gone or past.taken or past.state.outcome is not None:
        return True
    return asked.around.wall_ms - past.entries[-1].at_ms >= LONGEST_AGE_MS


def _one(journal: SharedJournal, past: Past, refused: str, asked: _Asked) -> RecoveredCommit:
    """The outcome of one commit; looked up only where no other process can change it meanwhile."""
    told = _told(past)
    if told.known:
        _tidy(journal, past, asked)  # its writer may have died before it could
        return replace(_followed(told, past, asked), outcome=told.outcome, reason=told.reason)
    if past.damage is not None or refused:
        return replace(told, reason=refused or f"left alone: {past.damage}")
    if not (past.taken or (asked.dry_run and _is_open(past, asked))):
        return replace(told, outcome="in flight", reason="its writer may still be running: recover again in 30 s")
    try:
        timeline = asked.homes.of(past.entries[0])
        told = replace(told, table=address_of(fixed_url(timeline.store)))
        answer = find_out(past.case, timeline, send=not asked.dry_run)
        if answer.may_go_on and past.intent is not None and not asked.dry_run:
            answer = _finished(past, past.intent, timeline, asked)
    except LakelatchError as error:
        return replace(told, reason=error.message)
    outcome = answer.outcome
    commit = _followed(_with(told, outcome, answer.finished), past, asked)
    if isinstance(outcome, do.Undecided) or commit.outcome == "unknown":
        return commit
    if asked.clean:
        commit = replace(commit, cleaned=_discard(past.discardable(outcome), timeline, asked))
    if not asked.dry_run:
        with suppress(LakelatchError):  # it can be looked up again (H17)
            journal.add(past.entries, resolved(outcome), asked.around.wall_ms)
            _tidy(journal, past, asked)
    return commit


def _finished(past: Past, found: ev.IntentPrepared, timeline: Timeline, asked: _Asked) -> Resolution:
    """Land a rider whose intent is open, with its own manifests, or close its window. Nothing of it is sent if files are gone."""
    intent = parse_intent(found.text.encode(), folder_of(timeline.paths) + found.name)
    schema = timeline.schema(intent.schema_id)
    try:
        rider = read_rider(intent, past.request, past.state.ride.files if asked.clean else (), timeline, schema)
    except TableCorrupt as error:
        return Resolution(do.Undecided(SnapshotRef(0, ""), f"it cannot be finished: {error.message}; {_until(intent)}"))
    committer = Committer(timeline.store, timeline.paths, schema, MemoryJournal(), asked.around, timeline.first_schema)
    return committer.finish(rider)


def _until(intent: Intent) -> str:
    return "it did not land once snapshots {} and {} are others'".format(*intent.ids)


def _followed(commit: RecoveredCommit, past: Past, asked: _Asked) -> RecoveredCommit:
    """The commit, after what has to follow its snapshot before it is reported as landed."""
    if commit.outcome not in ("landed", "finished") or asked.dry_run or not past.tried:
        return commit
    last = past.tried[-1]
    try:
        snapshot = parse_snapshot(last.text.encode(), f"snapshot-{last.snapshot.id}")
        follow_snapshot(asked.homes.of(past.entries[0]), snapshot, asked.around)
    except LakelatchError as error:
        return replace(commit, outcome="unknown", reason=error.message)
    return commit


def _told(past: Past) -> RecoveredCommit:
    """The report from the journal alone."""
    first, request = past.entries[0], past.request
    ref = past.tried[-1].snapshot if past.tried else None
    commit = RecoveredCommit(
        first.commit, first.table, first.branch, request.user, request.identifier, request.kind, "unknown",
        snapshot_id=ref.id if ref else None, snapshot_uuid=ref.identity if ref else None,
    )  # fmt: skip
    return commit if past.outcome is None else replace(_with(commit, past.outcome), known=True)


def _with(commit: RecoveredCommit, outcome: do.Outcome, finished: bool = False) -> RecoveredCommit:
    match outcome:
        case do.Committed(snapshot=ref):
            landed: Ending = "finished" if finished else "landed"
            return replace(commit, outcome=landed, snapshot_id=ref.id, snapshot_uuid=ref.identity, reason="")
        case do.NotCommitted(code=code, reason=reason):
            ended: Ending = "unknown" if code == OutcomeUnknown.code else "not landed"
            return replace(commit, outcome=ended, reason=reason)
        case do.Undecided(reason=reason):
            return replace(commit, outcome="unknown", reason=reason)
        case _:
            assert_never(outcome)


def _discard(names: tuple[str, ...], timeline: Timeline, asked: _Asked) -> tuple[str, ...]:
    """Delete metadata files; orphan cleaning removes those that cannot be deleted now."""
    keys = tuple(timeline.paths.written(name) for name in names)
    if keys and not asked.dry_run:
        try:
            timeline.store.delete_many(keys)
        except LakelatchError:
            return ()
    return keys


def _tidy(journal: SharedJournal, past: Past, asked: _Asked) -> None:
    """Remove a journal's entries of a commit whose outcome is known, once its writer cannot wake up any more."""
    forgotten = asked.around.wall_ms - past.entries[-1].at_ms > FORGOTTEN_AFTER_MS
    if not asked.dry_run and (asked.writers_are_gone or forgotten):
        with suppress(LakelatchError):
            journal.conclude(past.entries[0].commit)


def find_one(
    commit_user: str | None, identifier: int | None, snapshot_uuid: str | None
) -> Callable[[RecoveredCommit], bool]:
    """Select the commits of a journal by commit user, identifier or snapshot uuid; all if none is given.

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
