"""Finds out how a commit ended when its answer never arrived, for its writer or for another machine with its journal.

Owns: `Case`, `find_out`, `await_answer`. Must not know: journals. Source: architecture §3 (resolve), H2, H6, H9.
Invariants: a commit is *committed* only if its identity is found in a verified history. It is *not committed* only if every name
that it tried, and both that its intent holds for, belong to a snapshot without it. In between, the last snapshot is sent again,
with the same bytes and the same name, and only while its base is seen to exist; old knowledge of the base is not enough (H6).
"""

from __future__ import annotations

from dataclasses import dataclass

from ...backends.requests.deadline import answered_within
from ...core.errors import LakelatchError, OutcomeUnknown
from ...core.metadata.data_file import ADD
from ...core.metadata.schema import TableSchema
from ...core.metadata.snapshot import Snapshot, parse_snapshot
from ...core.places import FileKeys, is_external
from ...core.typed import assert_never
from ..history.lineage import (
    ANOTHER_TABLE,
    Fork,
    Free,
    Landing,
    Lost,
    Standing,
    Untold,
    did_it_land,
    is_read,
    lineage_of,
    refuse_fork,
    stands,
    take_away,
)
from ..history.presence import sizes_of
from ..history.timeline import Timeline, ref_of
from ..identities.recall import Known, named_files, recall
from ..intents.window import Aboard, Closed, Fate, StillOpen, Window, look_for
from ..protocol import effects as do
from ..protocol import events as ev
from ..protocol.effects import Outcome
from ..protocol.snapshot_ref import SnapshotRef
from ..surroundings import LEAST_LOOK_S, Surroundings, backoff_s
from .carrier import carrier_of

_NOT_SENT = "none of its snapshots was ever sent"


@dataclass(frozen=True)
class Case:
    """A commit whose outcome is not known.

    Attributes:
        tried: all of its snapshots that may have been sent, oldest first. All but the last are known to be refused.
        window: where its intent may land, if it asked others to carry it and it is not known that they cannot any more.
    """

    user: str
    identifier: int | None
    tried: tuple[ev.SnapshotPrepared, ...]
    schema: TableSchema | None = None
    window: Window | None = None


@dataclass(frozen=True, slots=True)
class Resolution:
    """The current state of a case. `finished`: it landed because this look sent it again. `may_go_on`: all that it sent has
    lost, and the next snapshot may carry it, which its writer, or whoever took it over, can publish.
    """

    outcome: Outcome
    finished: bool = False
    may_go_on: bool = False


def await_answer(case: Case, timeline: Timeline, around: Surroundings, timeout_s: float) -> Resolution:
    """Look repeatedly until the outcome of a commit is known, for at most the given number of seconds."""
    until_s = around.monotonic_s() + timeout_s
    look = 0
    while True:
        look += 1
        with answered_within(max(LEAST_LOOK_S, until_s - around.monotonic_s())):
            answer = find_out(case, timeline)
        told = not isinstance(answer.outcome, do.Undecided) or answer.may_go_on
        if told or around.monotonic_s() >= until_s:
            return answer
        around.sleep(backoff_s(look, longest_s=1.0))


def find_out(case: Case, timeline: Timeline, *, send: bool = True) -> Resolution:
    """Look once. `send`: send the last snapshot again where that is safe; otherwise such a case stays undecided."""
    try:
        return _found_out(case, timeline, send)
    except LakelatchError as error:
        return Resolution(_undecided(case, error.message))


def _found_out(case: Case, timeline: Timeline, send: bool) -> Resolution:
    seen = [_at_name(timeline, tried) for tried in case.tried]
    landed = next((do.Committed(t.snapshot, False) for t, s in _pairs(case, seen) if is_read(s)), None)
    fate = look_for(case.window, timeline.latest(), timeline) if landed is None and case.window is not None else None
    if isinstance(fate, Aboard):
        return Resolution(_as_rider(fate.snapshot, timeline))
    outcome = landed or _by_identity(case, timeline)
    if outcome is not None:
        return Resolution(outcome)
    found = _by_names(case, timeline, seen, send)
    if fate is not None and isinstance(found.outcome, do.NotCommitted) and not isinstance(fate, Closed):
        may_go_on = isinstance(fate, StillOpen)
        return Resolution(_undecided(case, _may_still_ride(case.window, fate)), may_go_on=may_go_on)
    return found


def _by_names(case: Case, timeline: Timeline, seen: list[Landing], send: bool) -> Resolution:
    if not seen:
        return Resolution(do.NotCommitted("commit-conflict", _NOT_SENT))
    open_ones = [one for one in seen if isinstance(one, Free | Untold)]
    if not open_ones:
        told = next((one for one in seen if isinstance(one, Fork)), seen[-1])
        return Resolution(_outcome(case.tried[-1].snapshot, told))
    unread = next(((t, s) for t, s in _pairs(case, seen) if isinstance(s, Untold)), None)
    if unread is not None:
        return Resolution(_outcome(unread[0].snapshot, unread[1]))
    if len(open_ones) > 1 or not isinstance(seen[-1], Free):
        return Resolution(_undecided(case, "the name of a lost attempt is free again: a rollback is under way"))
    if not send:
        return Resolution(
            _undecided(case, f"the name of snapshot {case.tried[-1].snapshot.id} is free: it can be finished")
        )
    return _send_again(case, timeline)


def _as_rider(snapshot: Snapshot, timeline: Timeline) -> Outcome:
    """Another's snapshot carries the commit: it is committed if that snapshot stands (H6)."""
    ref = SnapshotRef(snapshot.id, snapshot.identity)
    found = lineage_of(timeline, snapshot)
    if is_read(found):
        return do.Committed(ref, False)
    assert not isinstance(found, Standing)
    return do.Undecided(ref, f"snapshot {ref.id} carries it, but may not be part of the history: {found.reason}")


def _may_still_ride(window: Window | None, fate: Fate) -> str:
    assert window is not None
    if isinstance(fate, Untold):
        return fate.reason
    return f"snapshot {window.ids[0]} or {window.ids[1]} may still carry it: it can be finished"


def _pairs(case: Case, seen: list[Landing]) -> list[tuple[ev.SnapshotPrepared, Landing]]:
    return list(zip(case.tried, seen, strict=True))


def _at_name(timeline: Timeline, tried: ev.SnapshotPrepared) -> Landing:
    """Classify one snapshot. If it landed on another table it is deleted there, and a late send of it may land there again."""
    seen = did_it_land(timeline, tried)
    if isinstance(seen, Fork) and seen.code == ANOTHER_TABLE:
        left = take_away(timeline, tried)
        return Untold(
            f"{seen.reason}; {left or 'the snapshot was taken away again, but an earlier send may still land'}"
        )
    return seen


def _outcome(ours: SnapshotRef, seen: Landing) -> Outcome:
    match seen:
        case Standing() | Fork(survives=True):
            return do.Committed(ours, False)
        case Fork(reason=reason, code=code):
            return do.NotCommitted(code, reason)
        case Lost(reason=reason):
            return do.NotCommitted("commit-conflict", reason)
        case Untold(reason=reason):
            return do.Undecided(ours, reason)
        case Free():
            return do.Undecided(ours, "the store reported the snapshot neither as created nor as existing")
        case _:
            assert_never(seen)


def resolved(outcome: do.Committed | do.NotCommitted) -> ev.CommitResolved:
    if isinstance(outcome, do.Committed):
        return ev.CommitResolved(outcome.snapshot)
    return ev.CommitResolved(None, outcome.code, outcome.reason)


def _send_again(case: Case, timeline: Timeline) -> Resolution:
    """Send the snapshot again. Whatever the store answers, reading the name back decides (H2, H3, H4)."""
    last = case.tried[-1]
    if gone := _gone(timeline, last, case.schema):
        return Resolution(
            _undecided(case, f"it cannot be finished: {gone[0]} is gone; not landed once another takes its name")
        )
    timeline.store.put_if_absent(timeline.paths.snapshot(last.snapshot.id), last.text.encode())
    seen = _at_name(timeline, last)
    return Resolution(_outcome(last.snapshot, seen), finished=is_read(seen))


def _gone(timeline: Timeline, tried: ev.SnapshotPrepared, schema: TableSchema | None) -> list[str]:
    """Orphan cleaning may have removed needed files (H10). Raises TableCorrupt if a list or a manifest of its own is gone."""
    made = parse_snapshot(tried.text.encode(), timeline.paths.snapshot(tried.snapshot.id))
    keys = FileKeys(schema or timeline.schema(made.schema_id))
    wanted = [timeline.paths.manifest(line.file_name) for line in timeline.manifest_list(made.base_manifest_list)]
    entries = timeline.entries(timeline.delta_manifests(made))
    wanted += [key for entry in entries if entry.kind == ADD for key in keys.data(entry)]
    wanted += [keys.index(entry) for entry in timeline.index_entries(made)]
    wanted += named_files(made, timeline, Known())
    wanted = [key for key in wanted if not is_external(key)]
    there = sizes_of(timeline, wanted)
    return [key for key in wanted if key not in there]


def _by_identity(case: Case, timeline: Timeline) -> Outcome | None:
    """The outcome if this identity landed, perhaps in another run. A snapshot outside the history does not count (H6)."""
    if case.identifier is None:
        return None
    latest, known = timeline.latest(), Known()
    found = recall(case.user, latest, timeline, known, identifier=case.identifier)
    doubt = found.doubt_of(case.identifier)
    if doubt and not case.tried and case.window is None:
        return do.NotCommitted(OutcomeUnknown.code, doubt)
    if not found.says(case.identifier):
        return None
    refuse_fork(timeline, latest)
    carrier = carrier_of(case.user, case.identifier, found, latest, timeline, known)
    there = timeline.find(carrier.id) if carrier != ref_of(latest) else None
    if there is not None and there.identity == carrier.identity and not stands(timeline, there):
        return do.Undecided(
            carrier, f"its identity is that of snapshot {carrier.id}, which may not be part of the history"
        )
    return do.Committed(carrier, replayed=all(tried.snapshot != carrier for tried in case.tried))


def _undecided(case: Case, reason: str) -> do.Undecided:
    ours = case.tried[-1].snapshot if case.tried else SnapshotRef(0, "")
    return do.Undecided(ours, reason)
