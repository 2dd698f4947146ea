"""Makes the tables of one state of this project, which later states must read and go on with.

    PYTHONPATH=CHECKOUT/.tools python tests/earlier/make.py CHECKOUT DATE

packs them into `states/DATE-COMMIT.tar.xz`, with `steps.json`: which of the steps below that state was able to do. Add a pack
when the changelog says under "Changed in a table's files" what is new. It imports nothing of the tests, which are younger.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

import lakelatch as ll

PLAIN = pa.schema(
    [
        ("p", pa.string()),
        ("k", pa.int64()),
        ("t", pa.timestamp("us")),
        ("d", pa.decimal128(12, 2)),
        ("x", pa.float64()),
        ("b", pa.bool_()),
        ("l", pa.list_(pa.int32())),
    ]
)
KEYED = pa.schema([("k", pa.int64(), False), ("v", pa.string()), ("n", pa.int64())])
SUMMED = pa.schema([("k", pa.int64(), False), ("n", pa.int64()), ("d", pa.decimal128(10, 2))])
ONE = pa.schema([("v", pa.int64())])


def plain_rows(*keys: int, x: str = "x") -> pa.Table:
    """Rows that are computed from their keys. After the change of the schema, `x` has another name."""
    rows = [
        {
            "p": "a" if k % 2 else "b",
            "k": k,
            "t": dt.datetime(2026, 1, 1, 0, 0, k % 60),
            "d": Decimal(k) / 4,
            "x": k * 0.5 if k % 3 else None,
            "b": k % 2 == 0,
            "l": [k, None],
        }
        for k in keys
    ]
    return pa.Table.from_pylist(rows, PLAIN).rename_columns([x if name == "x" else name for name in PLAIN.names])


def keyed_rows(turn: int) -> pa.Table:
    """Five rows, which overlap with those of the turns before and after."""
    return pa.table({"k": list(range(turn, turn + 5)), "v": [f"v{turn}"] * 5, "n": [turn] * 5}, schema=KEYED)


def plain() -> None:
    """Three appends under one user's names, and an overwrite of a partition."""
    table = ll.create_table("plain", PLAIN, partition_by=["p"])
    for turn in range(3):
        table.append(plain_rows(*range(4 * turn, 4 * turn + 4)), commit_user="etl", identifier=10 + turn)
    table.overwrite(plain_rows(100, 102), partition={"p": "b"})


def altered() -> None:
    """Another schema, and rows under it."""
    ll.open_table("plain").alter(ll.add_column("new", "INT"), ll.rename_column("x", "y"))
    rows = plain_rows(7, 8, x="y").append_column("new", pa.array([1, 2], pa.int32()))
    ll.open_table("plain").append(rows, commit_user="etl", identifier=13)


def tagged() -> None:
    ll.open_table("plain").create_tag("first", snapshot=1)


def branched() -> None:
    ll.open_table("plain").create_branch("dev")
    ll.open_table("plain").branch("dev").append(plain_rows(50, x="y"))


def deleted() -> None:
    ll.open_table("plain").delete(where="k = 8")


def keyed() -> None:
    """Upserts under names, and a delete by key."""
    table = ll.create_table("keyed", KEYED, primary_key=["k"], options={"bucket": "2"})
    for turn in range(3):
        table.upsert(keyed_rows(turn), commit_user="up", identifier=turn)
    table.delete(pa.table({"k": [0]}))


def compacted() -> None:
    ll.open_table("keyed").compact(full=True)


def vectors() -> None:
    options = {"bucket": "1", "deletion-vectors.enabled": "true", "changelog-producer": "lookup"}
    table = ll.create_table("vectors", KEYED, primary_key=["k"], options=options)
    for turn in range(2):
        table.upsert(keyed_rows(turn))


def marked() -> None:
    table = ll.create_table("marked", ONE, options={"deletion-vectors.enabled": "true"})
    table.append(pa.table({"v": list(range(10))}))
    table.delete(where="v > 6")


def summed() -> None:
    functions = {"fields.n.aggregate-function": "sum", "fields.d.aggregate-function": "max"}
    options = {"bucket": "1", "merge-engine": "aggregation", **functions}
    table = ll.create_table("summed", SUMMED, primary_key=["k"], options=options)
    for turn in range(3):
        table.upsert(pa.table({"k": [1, 2], "n": [turn, 10], "d": [Decimal(turn), Decimal(1)]}, schema=SUMMED))


def riding() -> None:
    table = ll.create_table("riding", ONE, options={"commit.group": "auto"})
    table.append(pa.table({"v": [1]}), commit_user="r", identifier=1)


def dynamic() -> None:
    table = ll.create_table("dynamic", KEYED, primary_key=["k"], options={"bucket": "-1"})
    table.upsert(keyed_rows(0))


def undone() -> None:
    table = ll.create_table("undone", ONE)
    for value in (1, 2):
        table.append(pa.table({"v": [value]}))
    table.undo(2)


STEPS: list[Callable[[], None]] = [
    *(plain, altered, tagged, branched, deleted, keyed, compacted, vectors, marked, summed, riding, dynamic, undone),
]


def made(step: Callable[[], None]) -> bool:
    """Whether this state of the project can do the step. What it cannot do, it refuses before it writes anything."""
    try:
        step()
    except (AttributeError, TypeError, ll.LakelatchError):
        return False
    return True


def main(checkout: str, date: str) -> None:
    commit = subprocess.check_output(["git", "-C", checkout, "rev-parse", "--short=8", "HEAD"], text=True).strip()
    target = Path(__file__).resolve().parent / "states" / f"{date}-{commit}.tar.xz"
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        steps = [step.__name__ for step in STEPS if made(step)]
        Path("steps.json").write_text(json.dumps(steps))

        def plain_entry(entry: tarfile.TarInfo) -> tarfile.TarInfo:
            entry.uid = entry.gid = entry.mtime = 0
            entry.uname = entry.gname = ""
            return entry

        with tarfile.open(target, "w:xz") as pack:
            pack.add(".", filter=plain_entry)
        os.chdir("/")
    told: dict[str, Any] = {"state": target.name, "steps": steps, "bytes": target.stat().st_size}
    print(told)


if __name__ == "__main__":
    main(*sys.argv[1:])
