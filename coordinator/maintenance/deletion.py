"""Deletes the files that a plan lists: in order, in batches, and after a second look.

Owns: `Steps`, the order of deletion, the second look. Must not know: why files are deleted. Source: format/commit §10; H10, H11.
Invariants: roots are deleted last (architecture §7). An interrupted run leaves a state that can be planned and deleted again. A
file stays if it is reached by a root that was created or changed since the plan was made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from ...backends.elsewhere import delete_located
from ...backends.store import ObjectInfo, Store
from ...core.errors import CommitConflict
from .reach.reachable import Usage
from .reach.roots import Root, list_roots, read_roots

Progress = Callable[[int, int], None]
"""Called with the number of files deleted so far, and the total."""

BATCH = 1_000


@dataclass(frozen=True)
class Steps:
    """Keys to delete, each group after the one before.

    Attributes:
        data: data files, changelog files and the files that belong to them.
        leaves: manifests, index files, statistics.
        lists: manifest lists and index manifests.
        roots: snapshots, one after another, oldest first.
    """

    data: tuple[str, ...] = ()
    leaves: tuple[str, ...] = ()
    lists: tuple[str, ...] = ()
    roots: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.data) + len(self.leaves) + len(self.lists) + len(self.roots)

    def without(self, used: set[str]) -> Steps:
        """The same steps without the keys in use; roots are not filtered."""

        def rest(keys: Iterable[str]) -> tuple[str, ...]:
            return tuple(k for k in keys if k not in used)

        return replace(self, data=rest(self.data), leaves=rest(self.leaves), lists=rest(self.lists))

    def delete(self, store: Store, progress: Progress | None = None) -> None:
        """Raises StoreUnavailable if the store refused: run it again."""
        done, total = 0, len(self)
        batches = [list(b) for group in (self.data, self.leaves, self.lists) for b in _batched(group)]
        for batch in (*batches, *([root] for root in self.roots)):
            delete_located(store, batch)
            done += len(batch)
            if progress is not None:
                progress(done, total)


def second_look(
    steps: Steps, seen: frozenset[ObjectInfo], usage: Usage, harmless: Callable[[Root], bool] = lambda root: False
) -> Steps:
    """The steps without the files that new or changed roots reach (H10). Raises CommitConflict if a root to delete was replaced.

    Args:
        seen: the roots that the plan was made with, including those to delete.
        harmless: does a new root reach none of the files for certain? Then it is not asked.
    """
    listed = list_roots(usage.reach.timeline)
    refuse_replaced(steps, seen, listed)
    new = [info for info in listed if info not in seen]
    roots = [root for root in read_roots(usage.reach.timeline, new) if not harmless(root)]
    kept = usage.reach.kept_by(roots)
    return steps.without({key for named in kept for key in named.keys} | usage.live(kept))


def refuse_replaced(steps: Steps, seen: frozenset[ObjectInfo], listed: Iterable[ObjectInfo]) -> None:
    """Raises CommitConflict where the name of a root to delete now holds another one (H18)."""
    replaced = next((info.key for info in listed if info.key in steps.roots and info not in seen), None)
    if replaced is not None:
        raise CommitConflict(f"{replaced} was replaced since the deletion was planned")


def _batched(keys: Sequence[str]) -> Iterable[list[str]]:
    rest = iter(keys)
    while batch := list(islice(rest, BATCH)):
        yield batch
