"""Decides which of several runs of snapshot ids is the table's history.

Owns: `the_history`, the one rule for cold readers, VERIFY, resolution and the look-up of identities; `Gap`. Must not know:
stores, its callers. Source: decision 16; H6, H7, H25.
Invariants: a single run is the history, without further requests. A hint counts only if the snapshot that it names exists.
Where the evidence does not decide, the answer is a `Gap`, never a guess.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Gap:
    """The ids have a gap, and the evidence does not show which run is the history. `reason` names the runs and the hints."""

    reason: str


@dataclass(frozen=True)
class Evidence:
    """Evidence about a history whose ids have a gap.

    Attributes:
        earliest, latest: the hints; None where one is missing or garbage.
        lists_gone: whether the manifest lists of a snapshot are gone. An expiry deletes them before the snapshot's own file.
        foreign: whether a snapshot was written by another engine, and so names no base.
        inherits: whether the first snapshot still names a manifest that the second one added, and so descends from it.
    """

    earliest: int | None
    latest: int | None
    lists_gone: Callable[[int], bool]
    foreign: Callable[[int], bool]
    inherits: Callable[[int, int], bool]


def the_history(runs: Sequence[range], evidence: Callable[[], Evidence]) -> range | Gap:
    """The run that is the history, of at least one, ascending. `evidence` is called only if there are several.

    >>> the_history([range(1, 4)], lambda: 1 / 0)
    range(1, 4)
    """
    if len(runs) == 1:
        return runs[0]
    seen = evidence()
    begins = _holding(runs, seen.earliest)
    if begins is not None:
        # Below EARLIEST there are only leftovers of an expiry, and forks under names that one had freed.
        above = [run for run in runs if run.start > begins.start]
        if not above:
            return begins
        if not seen.lists_gone(begins[-1]):
            told = _holding(runs, seen.latest)
            return begins if _rolled_back(begins, above, told, seen) else _gap(runs, seen)
        runs = above  # an expiry is under way or was interrupted: Apache Paimon's raises EARLIEST at its end
    told = _holding(runs, seen.latest)
    if told is not None and (told is runs[-1] or not seen.lists_gone(told[-1])):
        return told  # a rollback writes LATEST first, and no expiry lowers it
    left = [run for run in runs[:-1] if not seen.lists_gone(run[-1])]
    return _gap(runs, seen) if left else runs[-1]


def _rolled_back(begins: range, above: Sequence[range], told: range | None, seen: Evidence) -> bool:
    """Whether the runs above the one that holds EARLIEST use names that a rollback had freed.

    Otherwise EARLIEST may be outdated, and its name may be that of a fork on snapshots that an expiry is deleting. A rollback
    writes LATEST; if that was overwritten since, the runs above must at least descend from the one below. If another engine
    wrote the run above, and LATEST names it, its readers see it, and who is right cannot be decided.
    """
    if told == begins:
        return True
    claimed = told is not None and told in above and seen.foreign(told.start)
    return not claimed and seen.inherits(above[-1][-1], begins[-1])


def _holding(runs: Sequence[range], hint: int | None) -> range | None:
    return next((run for run in runs if hint in run), None)


def _gap(runs: Sequence[range], seen: Evidence) -> Gap:
    shown = ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs)
    hints = f"EARLIEST says {_text(seen.earliest)} and LATEST says {_text(seen.latest)}"
    return Gap(f"the snapshots {shown} exist, with a gap between them; {hints}")


def _text(hint: int | None) -> str:
    return "nothing" if hint is None else str(hint)
