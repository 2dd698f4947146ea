"""Planted bugs in clones: state of running processes that is copied, or believed, although it belongs to another table.

Owns: `CLONES`. Must not know: how scenarios are explored. Source: decision 94; H21.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from ...coordinator.history.timeline import Timeline
from ...coordinator.intents.intent import Leader
from ...coordinator.journal.lines import Entry
from ...coordinator.maintenance import clone
from ...coordinator.recovery.home import Home, Homes
from ...core.paths import TablePaths
from ..actors.cloning import clone_recovered, cloned_again, cloned_beside_riders
from .planting import Mutant

_choose = Leader.choose
_COPIES_ALL = (clone, "_STAYS", re.compile("(?!)"))


def _carries_whoever_waits(self: Leader, intents: Any) -> Any:
    """A leader does not look which table an intent was registered in."""
    return _choose(self, [replace(intent, table=self.table) for intent in intents])


def _believes_where_it_lies(self: Homes, entry: Entry) -> Timeline:
    assert isinstance(self.only, Home)
    return Timeline(self.only.store, TablePaths(entry.branch), self.around.executor)


CLONES: tuple[Mutant, ...] = (
    Mutant(
        "a clone carries the intents of its source",
        lambda: [_COPIES_ALL, (Leader, "choose", _carries_whoever_waits)],
        (cloned_beside_riders(0), cloned_beside_riders(1)),
    ),
    Mutant(
        "a clone has the identity of its source",
        lambda: [(clone, "with_identity", lambda data, *about: data)],
        (cloned_again(1),),
    ),
    Mutant(
        "a clone is recovered from its source's journal",
        lambda: [_COPIES_ALL, (Homes, "of", _believes_where_it_lies)],
        (clone_recovered(0), clone_recovered(1)),
    ),
)
