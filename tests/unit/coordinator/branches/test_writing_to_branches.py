"""Every change of a table works on a branch, and leaves main as it was."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll

COUNTER = itertools.count()
SCHEMA = pa.schema(
    [pa.field("k", pa.int64(), nullable=False), pa.field("p", pa.string(), nullable=False), ("v", pa.int64())]
)


def rows(*found: tuple[int, str, int]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip("kpv", row, strict=True)) for row in found], SCHEMA)


def told(table: ll.Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.to_arrow().to_pylist())


PLAIN: dict[str, tuple[Callable[[ll.Table], Any], list[tuple[Any, ...]]]] = {
    "append": (lambda t: t.append(rows((3, "b", 3))), [(1, "a", 1), (2, "b", 2), (3, "b", 3)]),
    "overwrite": (lambda t: t.overwrite(rows((3, "b", 3)), partition={"p": "b"}), [(1, "a", 1), (3, "b", 3)]),
    "drop": (lambda t: t.drop_partitions([{"p": "b"}]), [(1, "a", 1)]),
    "truncate": (lambda t: t.truncate(), []),
    "rollback": (lambda t: t.truncate() and t.rollback(snapshot=2), [(1, "a", 1), (2, "b", 2)]),
    "alter": (lambda t: t.alter(ll.rename_column("v", "w"), ll.drop_column("w")), [(1, "a"), (2, "b")]),
    "compact": (lambda t: t.compact(full=True), [(1, "a", 1), (2, "b", 2)]),
}
KEYED: dict[str, tuple[Callable[[ll.Table], Any], list[tuple[Any, ...]]]] = {
    "upsert": (lambda t: t.upsert(rows((2, "b", 20), (3, "b", 3))), [(1, "a", 1), (2, "b", 20), (3, "b", 3)]),
    "delete": (lambda t: t.delete(keys=rows((2, "b", 0)).select(["k", "p"])), [(1, "a", 1)]),
    "compact": (lambda t: t.compact(full=True), [(1, "a", 1), (2, "b", 2)]),
    "overwrite": (lambda t: t.overwrite(rows((3, "b", 3)), partition={"p": "b"}), [(1, "a", 1), (3, "b", 3)]),
}


@pytest.mark.parametrize(("keyed", "name"), [(False, n) for n in PLAIN] + [(True, n) for n in KEYED])
def test_a_change_on_a_branch(keyed: bool, name: str) -> None:
    change, wanted = (KEYED if keyed else PLAIN)[name]
    more: Any = {"primary_key": ["k", "p"], "options": {"bucket": "2"}} if keyed else {}
    table = ll.create_table(f"memory://on-branches-{next(COUNTER)}/t", SCHEMA, partition_by=["p"], **more)
    table.append(rows((1, "a", 1)))
    table.append(rows((2, "b", 2)))
    table.committer.settle()
    table.create_branch("b", snapshot=2)
    branch = ll.open_table(table.url, branch="b")
    before = told(table)
    change(branch)
    branch.committer.settle()
    assert told(branch) == wanted
    assert told(table.branch("b")) == wanted
    assert told(table) == before == [(1, "a", 1), (2, "b", 2)]
    assert table.timeline.snapshot_ids() == [1, 2]
    assert table.timeline.schema_ids() == [0]
    assert branch.verify(snapshots="all") == table.verify(snapshots="all") == []
    assert table.fast_forward("b").snapshot_ids == tuple(branch.timeline.snapshot_ids()[1:])
    assert told(table) == wanted


def test_an_identity_is_of_its_branch_until_main_takes_it_over() -> None:
    """G3: on each side once; what landed on the branch has landed on main after the fast-forward."""
    table = ll.create_table(f"memory://on-branches-{next(COUNTER)}/t", SCHEMA, partition_by=["p"])
    table.append(rows((1, "a", 1)), commit_user="etl", identifier=1)
    table.create_branch("b", snapshot=1)
    branch = table.branch("b")
    assert branch.append(rows((9, "z", 9)), commit_user="etl", identifier=1).replayed
    assert not branch.append(rows((2, "b", 2)), commit_user="etl", identifier=2).replayed
    table.fast_forward("b")
    assert table.append(rows((9, "z", 9)), commit_user="etl", identifier=2).replayed
    assert told(table) == [(1, "a", 1), (2, "b", 2)]
