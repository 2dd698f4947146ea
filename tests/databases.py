"""A database whose rows change, and its changes as Debezium and Maxwell report them."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa

COLUMNS = [("id", "BIGINT NOT NULL"), ("part", "INT NOT NULL"), ("name", "STRING NOT NULL"), ("note", "STRING")]
ROW = pa.struct([("id", pa.int64()), ("part", pa.int32()), ("name", pa.string()), ("note", pa.string())])
DEBEZIUM = pa.schema(
    [("before", ROW), ("after", ROW), ("op", pa.string()), ("source", pa.struct([("lsn", pa.int64())]))]
)
OLD = pa.struct([("id", pa.int64()), ("name", pa.string())])
MAXWELL = pa.schema([("type", pa.string()), ("ts", pa.int64()), ("data", ROW), ("old", OLD)])


def row(key: int, name: str, note: str | None = None) -> dict[str, Any]:
    return {"id": key, "part": key % 3, "name": name, "note": note}


class Database:
    """Rows by key, and the changes that made them, as both tools report them."""

    def __init__(self, seed: int) -> None:
        self.chance, self.rows = random.Random(seed), dict[int, dict[str, Any]]()
        self.debezium: list[dict[str, Any]] = []
        self.maxwell: list[dict[str, Any]] = []

    def change(self) -> None:
        key, name = self.chance.randrange(8), f"n{self.chance.randrange(100)}"
        before = self.rows.get(key)
        if before is None:
            self._log("c", "insert", None, row(key, name), None)
            self.rows[key] = row(key, name)
        elif self.chance.random() < 0.3:
            only_key = {**before, "name": None, "note": None}
            self._log("d", "delete", only_key, None, None)
            self.debezium.append({"op": None, "before": None, "after": None, "source": {"lsn": len(self.maxwell)}})
            del self.rows[key]
        elif self.chance.random() < 0.3 and (free := [k for k in range(8) if k not in self.rows and k % 3 == key % 3]):
            moved = row(free[0], name)
            self._log("u", "update", before, moved, {"id": key, "name": before["name"]})
            del self.rows[key]
            self.rows[free[0]] = moved
        else:
            self._log("u", "update", before, row(key, name, "x"), {"id": None, "name": before["name"]})
            self.rows[key] = row(key, name, "x")

    def _log(self, op: str, kind: str, before: Any, after: Any, old: Any) -> None:
        at = len(self.maxwell)
        self.debezium.append({"op": op, "before": before, "after": after, "source": {"lsn": at}})
        self.maxwell.append({"type": kind, "ts": at, "data": after or before, "old": old})

    @property
    def state(self) -> list[dict[str, Any]]:
        return [self.rows[key] for key in sorted(self.rows)]
