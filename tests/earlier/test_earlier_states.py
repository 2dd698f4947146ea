"""Tables that earlier states of this project wrote: they are read, nothing is wrong with them, and every kind of commit goes on.

`make.py` makes them. The rows that they hold are computed here, from the steps that each state was able to do.
"""

from __future__ import annotations

import datetime as dt
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from earlier.make import KEYED, SUMMED, keyed_rows, plain_rows

import lakelatch as ll

STATES = sorted((Path(__file__).parent / "states").glob("*.tar.xz"))
LAST = 2
"""The number of the last turn of upserts."""


class State:
    """The tables of one state, unpacked, and the steps that it did."""

    def __init__(self, pack: Path, folder: Path) -> None:
        with tarfile.open(pack) as tables:
            tables.extractall(folder, filter="data")
        self.folder = folder
        self.steps = set(json.loads((folder / "steps.json").read_text()))

    def table(self, name: str) -> ll.Table:
        return ll.open_table(str(self.folder / name))

    def plain_keys(self) -> list[int]:
        keys = {1, 3, 5, 7, 9, 11, 100, 102}
        more = [7, 8] if "altered" in self.steps else []
        return sorted([*keys, *(k for k in more if not (k == 8 and "deleted" in self.steps))])


def packs_with(step: str) -> Any:
    """The states that did a step."""
    found = []
    for pack in STATES:
        with tarfile.open(pack) as tables:
            steps = tables.extractfile("./steps.json")
            assert steps is not None
            if step in json.load(steps):
                found.append(pytest.param(pack, id=pack.name.removesuffix(".tar.xz")))
    return pytest.mark.parametrize("pack", found)


def sound(table: ll.Table) -> bool:
    return table.verify("all", data=True) == []


def keyed_now(turns: int, *gone: int) -> dict[int, tuple[str, int]]:
    """What is left of the upserts: the last turn of each key."""
    rows = {k: (f"v{turn}", turn) for turn in range(turns) for k in range(turn, turn + 5)}
    return {k: row for k, row in rows.items() if k not in gone}


def by_key(table: ll.Table) -> dict[int, tuple[str, int]]:
    return {row["k"]: (row["v"], row["n"]) for row in table.to_arrow().to_pylist()}


@packs_with("plain")
def test_rows_are_read_and_every_snapshot_is_whole(pack: Path, tmp_path: Path) -> None:
    state = State(pack, tmp_path)
    table = state.table("plain")
    assert sound(table)
    x = "y" if "altered" in state.steps else "x"
    rows = table.to_arrow().sort_by("k")
    assert rows.column("k").to_pylist() == state.plain_keys()
    kept = rows.select(plain_rows(1, x=x).column_names)
    assert kept.to_pylist() == plain_rows(*state.plain_keys(), x=x).to_pylist()
    first = plain_rows(*range(4), x="x").to_pylist()
    assert table.at(snapshot=1).to_arrow().sort_by("k").to_pylist() == first
    if "altered" in state.steps:
        new = {row["k"]: row["new"] for row in table.to_arrow(where="new IS NOT NULL").to_pylist()}
        assert new == {7: 1} if "deleted" in state.steps else {7: 1, 8: 2}
    assert sorted(table.to_arrow(where="p = 'b' AND k > 100").column("k").to_pylist()) == [102]


@packs_with("tagged")
def test_tags_and_branches_are_read(pack: Path, tmp_path: Path) -> None:
    table = State(pack, tmp_path).table("plain")
    assert table.at(tag="first").count() == 4
    assert sorted(table.branch("dev").to_arrow(where="k = 50").column("k").to_pylist()) == [50]
    assert table.branch("dev").verify() == []
    table.branch("dev").append(plain_rows(51, x="y"))
    assert sorted(table.branch("dev").to_arrow().column("k").to_pylist()) == [50, 51]


@packs_with("plain")
def test_a_landed_commit_of_an_earlier_state_does_not_land_again(pack: Path, tmp_path: Path) -> None:
    """G3: the last one of a user is known to all states; an earlier one is known, or unknown, and lands never."""
    state = State(pack, tmp_path)
    x = "y" if "altered" in state.steps else "x"
    last = 13 if "altered" in state.steps else 12
    for identifier in (last, 10, last):
        try:
            receipt = state.table("plain").append(plain_rows(0, x=x), commit_user="etl", identifier=identifier)
            assert receipt.replayed
        except ll.OutcomeUnknown:
            assert identifier != last
    assert state.table("plain").append(plain_rows(200, x=x), commit_user="etl", identifier=last + 1).replayed is False
    assert sorted(state.table("plain").to_arrow().column("k").to_pylist()) == [*state.plain_keys(), 200]


@packs_with("plain")
def test_every_kind_of_commit_goes_on(pack: Path, tmp_path: Path) -> None:
    state = State(pack, tmp_path)
    table = state.table("plain")
    x = "y" if "altered" in state.steps else "x"
    wanted = state.plain_keys()
    table.append(plain_rows(21, 22, x=x))
    table.overwrite(plain_rows(40, x=x), partition={"p": "b"})
    wanted = sorted([k for k in wanted if k % 2] + [21, 40])
    assert sorted(table.to_arrow().column("k").to_pylist()) == wanted
    assert table.update(where="k = 21", set={x: "1.25"}).rows_updated == 1
    assert table.delete(where="k = 1").rows_deleted == 1
    table.undo(table.snapshot().id)
    table.compact(full=True)
    assert sorted(table.to_arrow().column("k").to_pylist()) == wanted
    table.rollback(snapshot=1)
    assert table.count() == 4
    table.alter(ll.add_column("later", "STRING"))
    assert table.refresh().to_arrow(where="later IS NULL").num_rows == 4
    assert sound(table)
    assert table.expire(retain_max=1, older_than=_tomorrow()).snapshot_ids
    assert table.count() == 4
    assert sound(table)
    table.clean()  # the files of the pack look old enough
    assert table.count() == 4
    assert sound(table)


def _tomorrow() -> dt.datetime:
    return dt.datetime.now(dt.timezone.utc) + dt.timedelta(days=1)


@packs_with("keyed")
@pytest.mark.parametrize("name", ["keyed", "vectors", "dynamic"])
def test_keys_are_merged_and_upserted(pack: Path, tmp_path: Path, name: str) -> None:
    state = State(pack, tmp_path)
    table = state.table(name)
    turns, gone = {"keyed": (3, (0,)), "vectors": (2, ()), "dynamic": (1, ())}[name]
    assert by_key(table) == keyed_now(turns, *gone)
    assert sound(table)
    if name == "keyed":
        assert table.upsert(keyed_rows(LAST), commit_user="up", identifier=LAST).replayed
    table.upsert(pa.table({"k": [0, 3], "v": ["new", "new"], "n": [9, 9]}, schema=KEYED))
    wanted = keyed_now(turns, *gone) | {0: ("new", 9), 3: ("new", 9)}
    assert by_key(table) == wanted
    table.delete(pa.table({"k": [3]}))
    table.compact(full=True)
    assert by_key(table) == {k: row for k, row in wanted.items() if k != 3}
    assert sound(table)


@packs_with("summed")
def test_sums_go_on(pack: Path, tmp_path: Path) -> None:
    table = State(pack, tmp_path).table("summed")
    table.upsert(pa.table({"k": [1], "n": [100], "d": [None]}, schema=SUMMED))
    rows = {row["k"]: (row["n"], float(row["d"])) for row in table.to_arrow().to_pylist()}
    assert rows == {1: (103, 2.0), 2: (30, 1.0)}
    table.compact(full=True)
    assert {row["k"]: (row["n"], float(row["d"])) for row in table.to_arrow().to_pylist()} == rows
    assert sound(table)


@packs_with("marked")
def test_deleted_rows_stay_deleted(pack: Path, tmp_path: Path) -> None:
    table = State(pack, tmp_path).table("marked")
    assert sorted(table.to_arrow().column("v").to_pylist()) == list(range(7))
    table.delete(where="v = 0")
    table.compact(full=True)
    assert sorted(table.to_arrow().column("v").to_pylist()) == list(range(1, 7))
    assert sound(table)


@packs_with("undone")
def test_an_undo_stays_and_can_be_undone(pack: Path, tmp_path: Path) -> None:
    table = State(pack, tmp_path).table("undone")
    assert table.to_arrow().column("v").to_pylist() == [1]
    table.undo(3)
    assert sorted(table.to_arrow().column("v").to_pylist()) == [1, 2]
    assert sound(table)


@packs_with("riding")
def test_what_rode_is_read_and_rides_on(pack: Path, tmp_path: Path) -> None:
    table = State(pack, tmp_path).table("riding")
    assert table.append(pa.table({"v": [1]}), commit_user="r", identifier=1).replayed
    table.append(pa.table({"v": [2]}), commit_user="r", identifier=2)
    assert sorted(table.to_arrow().column("v").to_pylist()) == [1, 2]
    assert sound(table)


TABLES = ["plain", "keyed", "vectors", "marked", "summed", "dynamic", "undone"]


@pytest.mark.java
@packs_with("undone")
def test_apache_paimon_reads_what_goes_on(pack: Path, tmp_path: Path, paimon_java: Any) -> None:
    """G8: after a commit of this state on top of an earlier one's."""
    state = State(pack, tmp_path)
    goes_on: dict[str, Callable[[ll.Table], Any]] = {
        "plain": lambda table: table.append(plain_rows(21, x="y")),
        "keyed": lambda table: table.upsert(keyed_rows(7)),
        "vectors": lambda table: table.upsert(keyed_rows(3)),
        "marked": lambda table: table.delete(where="v = 5"),
        "summed": lambda table: table.upsert(pa.table({"k": [1], "n": [1], "d": [None]}, schema=SUMMED)),
        "dynamic": lambda table: table.upsert(keyed_rows(3)),
        "undone": lambda table: table.append(pa.table({"v": [5]})),
    }
    for name in TABLES:
        table = state.table(name)
        goes_on[name](table)
        assert len(paimon_java.rows(tmp_path / name)) == table.refresh().count()
