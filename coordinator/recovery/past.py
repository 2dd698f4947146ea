"""The history of each commit in a journal, folded from the entries that count.

Owns: `Past`, `pasts`. Must not know: stores, tables, how entries are kept, how a commit is finished. Source: architecture §3.
Invariants: entries that a writer added after its commit was taken over do not count. If a damaged line may belong to a commit,
only what was known before that line, or found out after it, is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ...core.errors import ProtocolViolation
from ..intents.window import Window
from ..journal.lines import Damage, Entry
from ..outcome.resolution import Case
from ..protocol import effects as do
from ..protocol import events as ev
from ..protocol.machine import CommitState, discardable, step


@dataclass(frozen=True)
class Past:
    """What a journal knows about one commit.

    Attributes:
        resolved: its outcome, if another process found it out later.
        damage: why the journal does not show how it ended; None where it does.
        intent: its newest intent, if it has asked others to carry it.
        names_missing: an older version wrote it, and did not record which files its snapshots reference.
    """

    entries: tuple[Entry, ...]
    state: CommitState
    tried: tuple[ev.SnapshotPrepared, ...]
    resolved: ev.CommitResolved | None
    taken: bool
    damage: Damage | None
    names_missing: bool
    intent: ev.IntentPrepared | None = None

    @property
    def request(self) -> ev.CommitRequested:
        """The request of the commit: the first entry, which every past has."""
        request = self.entries[0].event
        assert isinstance(request, ev.CommitRequested)
        return request

    @property
    def case(self) -> Case:
        base = self.state.ride.window
        window = Window(self.entries[0].commit, base) if base is not None else None
        return Case(self.request.user, self.request.identifier, self.tried, window=window)

    @property
    def outcome(self) -> do.Committed | do.NotCommitted | None:
        """The outcome of the commit, if the journal records it; None if it has to be found out."""
        found = self.resolved
        if found is not None:
            return do.Committed(found.snapshot, False) if found.snapshot else do.NotCommitted(found.code, found.reason)
        ended = self.state.outcome
        return None if self.damage is not None or isinstance(ended, do.Undecided) else ended

    def discardable(self, outcome: do.Outcome) -> tuple[str, ...]:
        """The metadata files that are no longer needed, once the outcome of the commit is known (H5, H20)."""
        if self.names_missing or not isinstance(outcome, do.NotCommitted):
            return ()
        return discardable(self.state)


def pasts(lines: Iterable[Entry | Damage], mine: Callable[[Entry], bool] | None = None) -> dict[str, Past]:
    """What a journal knows, by commit, oldest first; `mine` selects the commits of one table. A damaged line that does not name
    its commit may belong to every commit that was under way at that point.
    """
    of_commits: dict[str, list[Entry | Damage]] = {}
    for line in lines:
        if isinstance(line, Damage):
            struck = of_commits.keys() if line.commit is None else of_commits.keys() & {line.commit}
            for commit in struck:
                of_commits[commit].append(line)
        elif mine is None or mine(line):
            of_commits.setdefault(line.commit, []).append(line)
    # A truncated journal may begin in the middle of a commit: nothing can be reported for that one.
    return {
        commit: _past(of_commit)
        for commit, of_commit in of_commits.items()
        if isinstance(of_commit[0], Entry) and isinstance(of_commit[0].event, ev.CommitRequested)
    }


def _past(lines: list[Entry | Damage]) -> Past:
    state, tried, names_missing = CommitState(), list[ev.SnapshotPrepared](), False
    resolved: ev.CommitResolved | None = None
    taken, damage, intent = False, None, None
    for line in lines:
        ended = state.outcome is not None and not isinstance(state.outcome, do.Undecided)
        if isinstance(line, Damage):
            damage = damage or (None if ended or resolved else line)
            continue
        event = line.event
        if isinstance(event, ev.CommitResolved):
            resolved = resolved or event
            continue
        taken = taken or isinstance(event, ev.TakenOver)
        if taken or ended or damage is not None:
            continue
        if isinstance(event, ev.SnapshotPrepared):
            tried.append(event)
            names_missing |= event.names is None
        elif isinstance(event, ev.BaseAged) and state.sends == 1 and state.ride.closing is None:
            tried.pop()  # given up before it was sent
        elif isinstance(event, ev.IntentPrepared):
            intent = event
        try:
            state, _ = step(state, event)
        except ProtocolViolation as error:
            damage = Damage("an entry of this commit", error.message, line.commit)
    entries = tuple(line for line in lines if isinstance(line, Entry))
    return Past(entries, state, tuple(tried), resolved, taken, damage, names_missing, intent)
