"""Planted bugs in expiry.

Owns: `EXPIRY`. Must not know: how scenarios are explored. Source: decisions 10, 56, 64; H10.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...backends.store import Store
from ...coordinator.maintenance import deletion
from ...coordinator.maintenance.expiry import consumers, expire
from ...coordinator.maintenance.expiry.expired_files import Keeper
from ..actors.expiring import consumer_while_expiring, expiring_after_a_rollback, expiring_beside_all
from ..actors.refusing import expiring_past_a_refusal
from .planting import Mutant


def _nothing(*about: Any) -> None:
    return None


def _nothing_came_back(*about: Any) -> set[str]:
    return set()


def _one_look(steps: Any, *about: Any) -> Any:
    return steps


def _stops_at_a_refusal(store: Store, keys: Iterable[str]) -> None:
    store.delete_many(keys)


EXPIRY: tuple[Mutant, ...] = (
    Mutant(
        "consumers are read once",
        lambda: [(expire, "_refuse_needed", _nothing)],
        (consumer_while_expiring(0),),
    ),
    Mutant(
        "a consumer does not look again",
        lambda: [(consumers, "_refuse_expired", _nothing)],
        (consumer_while_expiring(0),),
    ),
    Mutant(
        "what came back is not asked for",
        lambda: [(Keeper, "_brought_back", _nothing_came_back)],
        (expiring_after_a_rollback(0),),
    ),
    Mutant(
        "tags are read once",
        lambda: [(expire, "second_look", _one_look)],
        (expiring_beside_all(0),),
    ),
    Mutant(
        "one refused file stops an expiry",
        lambda: [(deletion, "delete_located", _stops_at_a_refusal)],
        (expiring_past_a_refusal(),),
    ),
)
