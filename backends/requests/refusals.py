"""Deletions that a store refuses: a legal hold, a lease, a retention policy, a permission, a link.

Owns: `DeletionRefused`, `past_refusals`, what is collected in such a block, and `raise_undone`. Must not know: stores,
why something is deleted. Source: H10. Invariants: a store tries to delete every key before it says which ones it
refuses. A refusal is never lost: it is raised where it happens, or at the end of the outermost block that goes past it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NoReturn

from ...core.errors import LakelatchError, StoreUnavailable

_TOLD = 5


class DeletionRefused(StoreUnavailable):
    """The store does not delete some objects; all others are gone. `kept` has what the store says of each."""

    def __init__(self, kept: Mapping[str, str], url: str = "") -> None:
        told = "; ".join(f"{key}: {why}" for key, why in list(kept.items())[:_TOLD])
        more = f"; and {len(kept) - _TOLD} more" if len(kept) > _TOLD else ""
        what = "1 object was" if len(kept) == 1 else f"{len(kept)} objects were"
        super().__init__(
            f"{url}: {what} not deleted, and all others were: {told}{more}".removeprefix(": "),
            next_step="check the credentials and the right to delete, and end the hold, lease or retention; then run it again,"
            " and `clean`, which takes away what nothing needs",
        )
        self.kept = dict(kept)


_COLLECTED: ContextVar[dict[str, str] | None] = ContextVar("lakelatch_refused_deletions", default=None)


@contextmanager
def past_refusals() -> Iterator[None]:
    """Deletions in this block go past what the store refuses; at the end of the outermost such block, DeletionRefused
    is raised. Can be used as a decorator.
    """
    if _COLLECTED.get() is not None:
        yield
        return
    kept: dict[str, str] = {}
    token = _COLLECTED.set(kept)
    try:
        yield
    finally:
        _COLLECTED.reset(token)
    if kept:
        raise DeletionRefused(kept)


def collect(kept: Mapping[str, str]) -> None:
    """Note refused objects, for the end of the block. Raises DeletionRefused where there is none."""
    collected = _COLLECTED.get()
    if kept and collected is None:
        raise DeletionRefused(kept)
    if collected is not None:
        collected.update(kept)


def raise_undone(error: Exception, undo: Callable[[], object]) -> NoReturn:
    """Undo what was begun, and raise why it came to nothing. Where the undoing fails, that is the error's cause."""
    try:
        undo()
    except LakelatchError as left:
        raise error from left
    raise error
