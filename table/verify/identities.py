"""Check the commit users that snapshots remember: the property, its page, the page's leaves.

Owns: reading each of these files once, however many snapshots need it. Must not know: how look-ups are used.
Source: decision 13. Invariant: A damaged page is reported for the snapshot that needs it, and does not hide findings of others.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from ...coordinator.history.timeline import Timeline
from ...coordinator.identities.memory import memory_of
from ...coordinator.identities.pages import parse_leaf, parse_page
from ...core.metadata.snapshot import Snapshot
from .finding import Findings


def check_identities(timeline: Timeline, chosen: Iterable[tuple[str, Snapshot]], findings: Findings) -> None:
    """Check that every identity of the chosen snapshots and tags, given with the keys of their files, can be looked up (G3)."""
    checked: set[str] = set()
    for key, snapshot in chosen:
        memory = findings.attempt(key, partial(memory_of, snapshot))
        if memory is not None and memory.page is not None and memory.page not in checked:
            checked.add(memory.page)
            _check_page(timeline, memory.page, key, checked, findings)


def _check_page(timeline: Timeline, name: str, named_by: str, checked: set[str], findings: Findings) -> None:
    store, key = timeline.store, timeline.paths.identities(name)
    page = findings.attempt(key, lambda: parse_page(store.get(key), key), named_by)
    todo = [leaf for leaf in page.leaves.items() if leaf[1] not in checked] if page is not None else []

    def check(leaf: tuple[str, str]) -> None:
        where = timeline.paths.identities(leaf[1])
        findings.attempt(where, lambda: parse_leaf(store.get(where), leaf[0], where), key)

    timeline.parallel(check, todo)
    checked.update(name for _, name in todo)
