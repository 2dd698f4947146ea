"""Which serial orders of commits there can be: what had ended before something else began came before it.

Owns: the order that times demand, and the search for a contradiction. Must not know: what the commits write.
"""

from __future__ import annotations

import graphlib
from collections.abc import Mapping
from typing import TypeAlias

Commit: TypeAlias = "tuple[str, int]"
"""A writer's name and the number of its commit."""
Times: TypeAlias = "Mapping[Commit, tuple[float, float]]"
"""When each acknowledged commit began and ended, by one clock for all processes."""


def ended_before(times: Times) -> dict[Commit, set[Commit]]:
    """For each commit those that had ended when it began."""
    return {
        commit: {other for other, (_, ended) in times.items() if ended < began} for commit, (began, _) in times.items()
    }


def no_order(before: Mapping[Commit, set[Commit]]) -> list[str]:
    """Why no order of the commits has each one after those that are before it; empty if there is one."""
    try:
        tuple(graphlib.TopologicalSorter(before).static_order())
    except graphlib.CycleError as cycle:
        return [f"no order of the commits leaves these rows: {cycle.args[1]}"]
    return []
