"""Plans which snapshots stay in the history of a damaged table, and how the others leave it.

Owns: `plan_history`, `KEPT_TAG`. Must not know: data files. Source: format/snapshot §1, §3; H6, H7, H25; decision 63.
Invariants: the rule of the history decides between runs of snapshots; where it does not decide, nothing is done. A snapshot that
can be read stays as a tag. A snapshot of a newer format is not damage.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from ...coordinator.history.rule import Gap
from ...coordinator.history.timeline import base_of, contiguous_runs
from ...core.metadata.snapshot import parse_snapshot
from ..verify.finding import Finding
from .draft import Draft
from .steps import Step, StepKind
from .survey import digest

KEPT_TAG = "repair-snapshot-"
"""Tags of this name keep snapshots that a repair takes out of the history."""
_PARTLY = 10


def plan_history(draft: Draft) -> None:
    survey, paths = draft.survey, draft.survey.timeline.paths
    if not survey.ids:
        return
    if survey.newer:
        for finding in draft.about(*map(paths.snapshot, survey.newer)):
            draft.why_none[finding] = (
                "a newer writer may have made it, and then it is sound: read it with a newer lakelatch"
            )
        return
    ids = sorted({*survey.ids, *_restored(draft)})
    runs = contiguous_runs(ids)
    history: range | Gap = runs[0]
    if len(runs) > 1:
        history = survey.timeline.history(ids)
    gaps = [paths.snapshot(i) for one, other in itertools.pairwise(runs) for i in range(one.stop, other.start)]
    if isinstance(history, Gap):
        for finding in draft.about(*gaps):
            draft.why_none[finding] = (
                f"{history.reason}, so it cannot be told which of them are the table; look at the last snapshot of each run"
                f" with at(snapshot=...), write the first id of the right run into {paths.hint('EARLIEST')} and its last id"
                f" into {paths.hint('LATEST')}, and run this again"
            )
        return
    whole = [number for number in history if number in survey.whole or number in _restored(draft)]
    if not whole:
        draft.begin, draft.end = history.start, history[-1]
        return
    bad = [number for number in history if number not in whole]
    announced = survey.timeline.hint("EARLIEST")  # what is below has expired: an expiry was cut off
    draft.expired = frozenset(i for i in ids if announced in whole and i < (announced or 0))
    begin = max([number + 1 for number in bad if number < whole[-1]], default=history.start)
    begin = next(number for number in whole if number >= begin)
    draft.begin, draft.end = begin, whole[-1]
    below, above = [i for i in ids if i < begin], [i for i in ids if i > whole[-1]]
    _leave(draft, "retire", below, gaps if history.start > ids[0] else [], bad)
    _leave(draft, "cut", above, gaps if history[-1] < ids[-1] else [], bad)


def _restored(draft: Draft) -> dict[int, bytes]:
    """Snapshots that are missing or damaged, and that a tag or a branch still holds; planned when first asked for."""
    if draft.again is not None:
        return draft.again
    draft.again = {}
    survey, paths = draft.survey, draft.survey.timeline.paths
    for number in range(survey.ids[0], survey.ids[-1] + 1):
        if number in survey.snapshots:
            continue
        above = survey.snapshots.get(number + 1)
        base = None if above is None else base_of(above)
        copies = [] if base is None else survey.copies.get(base.identity, [])
        if not copies:
            continue
        key, data = paths.snapshot(number), copies[0]
        there = survey.files.get(number)
        found = parse_snapshot(data, key)
        if found.id != number or not survey.is_whole(found):
            continue
        draft.again[number] = data
        told = f"write {key} again, from a tag or branch that holds this very snapshot"
        deletes = () if there is None else ((key, digest(there)),)
        draft.add(Step("restore", told, creates=((key, data),), deletes=deletes), draft.about(key))
    return draft.again


def _leave(draft: Draft, kind: StepKind, ids: list[int], gaps: list[str], bad: Sequence[int]) -> None:
    """Snapshots leave the history at one of its ends. Those that are whole stay as tags."""
    if not ids:
        return
    survey, paths = draft.survey, draft.survey.timeline.paths
    kept = [number for number in ids if number in survey.whole]
    gone = [number for number in ids if number not in survey.whole]
    creates = tuple((f"{paths.tag_dir}tag-{KEPT_TAG}{i}", survey.snapshots[i].to_json()) for i in kept)
    ordered = ids if kind == "retire" else ids[::-1]
    deletes = tuple((paths.snapshot(i), digest(survey.files[i])) for i in ordered if i in survey.files)
    hint = ("EARLIEST", draft.begin) if kind == "retire" else ("LATEST", draft.end)
    told = f"take {_named(ids)} out of the history, which {'begins' if kind == 'retire' else 'ends'} with {hint[1]}"
    if kept:
        told += f"; {_named(kept)} can still be read as tags '{KEPT_TAG}…'"
    loses = ""
    if kind == "cut":
        rows = ", ".join(_changed(draft, i) for i in ids)
        loses = f"the changes of {_named(ids)} ({rows}); no other job may write to the table meanwhile"
        if kept:
            loses += f"; rollback(tag='{KEPT_TAG}{kept[-1]}') makes them the newest state again"
    elif unread := [i for i in gone if i in bad and i not in draft.expired]:
        loses = f"the states of {_named(unread)}, which cannot be read any more"
    puts = ((paths.hint(hint[0]), str(hint[1]).encode()),)
    keys = [paths.snapshot(i) for i in ids]
    mends = [*draft.about(*keys, *gaps), *_within(draft, gone, kept)]
    draft.add(Step(kind, told, loses, creates=creates, puts=puts, deletes=deletes), dict.fromkeys(mends))


def _changed(draft: Draft, number: int) -> str:
    snapshot = draft.survey.snapshots.get(number)
    return f"{number}: unknown" if snapshot is None else f"{number}: {snapshot.delta_record_count:+d} rows"


def _within(draft: Draft, gone: Sequence[int], kept: Sequence[int]) -> list[Finding]:
    """The findings about lists and manifests that only snapshots name that go for good."""
    survey = draft.survey
    stay = [survey.snapshots[i] for i in survey.snapshots if i not in gone or i in kept]
    named = {name for s in stay for name in survey.names_of(s)}
    files = {f"manifest/{n}" for i in gone if i in survey.snapshots for n in survey.names_of(survey.snapshots[i])}
    used = {f"manifest/{name}" for name in named}
    return [f for f in draft.findings if f.file in files - used]


def _named(ids: Sequence[int]) -> str:
    """Snapshots in words.

    >>> _named([3]), _named([1, 2, 3]), _named([1, 5])
    ('snapshot 3', 'snapshots 1 to 3', 'snapshots 1, 5')
    """
    if len(ids) == 1:
        return f"snapshot {ids[0]}"
    if ids[-1] - ids[0] == len(ids) - 1:
        return f"snapshots {ids[0]} to {ids[-1]}"
    more = f" and {len(ids) - _PARTLY} more" if len(ids) > _PARTLY else ""
    return "snapshots " + ", ".join(map(str, ids[:_PARTLY])) + more
