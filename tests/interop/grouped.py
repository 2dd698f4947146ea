"""An append that loses a race and rides with the next winner, for tests of what other engines make of such a snapshot.

Owns: `ride`. Must not know: those engines.
"""

from __future__ import annotations

from typing import Any, cast

import pyarrow as pa
from hooked_store import HookedStore

import lakelatch as ll
from lakelatch.backends.store import Store
from lakelatch.coordinator.intents.carried import riders_of
from lakelatch.table.table import Table


def ride(made: Any, won: pa.Table, led: pa.Table, carried: pa.Table, identifier: int) -> ll.Receipt:
    """Append three times, in two snapshots: one that wins the race, and one of a leader that carries the loser.

    Args:
        identifier: of the loser, whose commit user is `rider`.

    Returns:
        The receipt of the loser.
    """
    hooked = HookedStore(made.store)
    rider = Table(cast(Store, hooked), made.schema)
    winner, leader = (Table(made.store, made.schema) for _ in range(2))
    hooked.before["snapshot/snapshot-"] = lambda: winner.append(won)
    leader.committer.meet(3, 0.001)
    hooked.after["lakelatch/intents/"] = lambda: leader.append(led)
    receipt = rider.append(carried, commit_user="rider", identifier=identifier)
    for table in (rider, winner, leader):
        table.committer.settle()
    assert [str(one) for one in riders_of(made.timeline.snapshot(receipt.snapshot_id))] == [f"rider/{identifier}"]
    return receipt
