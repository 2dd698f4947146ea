"""An append that loses a race and rides with the next winner, for tests of what other engines make of such a snapshot.

Owns: `ride`, and a table whose snapshots are in part such ones. Must not know: those engines.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
from hooked_store import HookedStore
from values import Row, encode_rows

import lakelatch as ll
from lakelatch.backends.store import Store
from lakelatch.coordinator.intents.carried import riders_of
from lakelatch.table.table import Table

COLUMNS = [("id", "INT"), ("p", "STRING")]


def rows(first: int, count: int) -> pa.Table:
    return pa.table({"id": pa.array(range(first, first + count), pa.int32()), "p": ["ab"[i % 2] for i in range(count)]})


def grouped_table(path: Path, append: Callable[[pa.Table, int], None]) -> tuple[Any, dict[int, list[Row]]]:
    """A table on which another engine commits, and riders land on its snapshots, by turns; and the rows at each snapshot.

    Args:
        append: commits rows by the other engine. The number is different for each commit, from 1 on.
    """
    made = ll.create_table(str(path), ll.Schema(COLUMNS), partition_by="p", options={"commit.group": "auto"})
    expected: dict[int, list[Row]] = {}
    known: list[Row] = []

    def landed(*added: pa.Table) -> None:
        known.extend(row for one in added for row in encode_rows(one, made.schema.fields))
        expected[len(expected) + 1] = list(known)

    for turn in range(2):
        batch = [rows(100 * turn + 10 * n, n + 2) for n in range(4)]
        append(batch[0], turn + 1)
        landed(batch[0])
        receipt = ride(made, batch[1], batch[2], batch[3], turn)
        landed(batch[1])
        landed(batch[2], batch[3])
        assert receipt.snapshot_id == len(expected)
    return made, expected


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
