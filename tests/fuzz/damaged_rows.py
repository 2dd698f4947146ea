"""Data files with something changed in them: does a read notice or differ, and does `verify(data="deep")` find it?

Owns: the tables, the damage, and what is counted. Must not know: how a check works.
"""

from __future__ import annotations

import datetime as dt
import random
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pyarrow as pa
from fuzz.mutations import mutated

import lakelatch as ll
from lakelatch.backends.memory import MemoryStore
from lakelatch.core.errors import LakelatchError
from lakelatch.core.metadata.schema import new_schema
from lakelatch.core.rows.types import ArrayType, AtomicType, Field, MapType, RowType, decimal, string, timestamp

FIELDS = [
    Field(0, "i", AtomicType("INT")),
    Field(1, "l", AtomicType("BIGINT")),
    Field(2, "d", AtomicType("DOUBLE")),
    Field(3, "s", string()),
    Field(4, "n", decimal(12, 2)),
    Field(5, "t", timestamp(6)),
    Field(6, "day", AtomicType("DATE")),
    Field(7, "ok", AtomicType("BOOLEAN")),
    Field(8, "a", ArrayType(AtomicType("INT"))),
    Field(9, "m", MapType(string(nullable=False), AtomicType("BIGINT"))),
    Field(10, "r", RowType((Field(11, "x", AtomicType("SMALLINT")), Field(12, "y", string())))),
]


def rows(rng: random.Random, count: int) -> pa.Table:
    """Rows of every kind of column; a few values are null."""

    def some(make: Any) -> list[Any]:
        return [None if rng.random() < 0.1 else make() for _ in range(count)]

    start = dt.datetime(2024, 1, 1)
    made = {
        "i": some(lambda: rng.randrange(-1000, 1000)),
        "l": some(lambda: rng.randrange(-(2**60), 2**60)),
        "d": some(lambda: rng.random() * 1e6),
        "s": some(lambda: "".join(rng.choices("abcdefgh ", k=rng.randrange(30)))),
        "n": some(lambda: Decimal(rng.randrange(-(10**9), 10**9)).scaleb(-2)),
        "t": some(lambda: start + dt.timedelta(microseconds=rng.randrange(10**13))),
        "day": some(lambda: start.date() + dt.timedelta(days=rng.randrange(1000))),
        "ok": some(lambda: rng.random() < 0.5),
        "a": some(lambda: [rng.randrange(100) for _ in range(rng.randrange(4))]),
        "m": some(lambda: [(key, rng.randrange(100)) for key in rng.sample("abc", rng.randrange(3))]),
        "r": some(lambda: {"x": rng.randrange(100), "y": rng.choice(["one", "two", None])}),
    }
    from lakelatch.core.rows.arrow import arrow_schema

    return pa.Table.from_pydict(made, schema=arrow_schema(FIELDS))


@dataclass
class Search:
    """What came of the damage to one table's files.

    Attributes:
        harmful: how many changes made a read fail or give other rows.
        missed: of these, the ones without a finding: the seed of each, and what the read did.
    """

    name: str
    tried: int = 0
    harmful: int = 0
    missed: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.name}: {self.tried} changed files, {self.harmful} of them read differently, {len(self.missed)} missed"


def search(name: str, options: dict[str, str], seeds: range) -> Search:
    """Change one file of a table, once for each seed."""
    store = MemoryStore(f"memory://damaged-rows-{name}")
    schema = new_schema(FIELDS, options=options)
    store.put("schema/schema-0", schema.to_json())
    table = ll.Table(store, schema)
    for seed in range(2):
        table.append(rows(random.Random(seed), 60))
    assert table.verify(data="deep") == []
    sound = table.to_arrow()
    files = [f"bucket-0/{entry.file.file_name}" for entry in table.entries()]
    found = Search(name)
    for seed in seeds:
        rng = random.Random(f"{name} {seed}")
        key = rng.choice(files)
        data = store.get(key)
        changed = damaged(data, rng)
        if changed == data:
            continue
        found.tried += 1
        store.put(key, changed)
        told = _what_a_read_does(table, sound)
        if told:
            found.harmful += 1
            if not any(finding.file == key for finding in table.verify(data="deep")):
                found.missed.append(f"seed {seed}: {told}")
        store.put(key, data)
    return found


def damaged(data: bytes, rng: random.Random) -> bytes:
    """One byte, a run of zeros, or any other damage. Half of it keeps the file's size, as a broken disk does."""
    out = bytearray(data)
    match rng.randrange(4):
        case 0:
            out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
        case 1:
            out[rng.randrange(len(out))] = rng.randrange(256)
        case 2:
            start, size = rng.randrange(len(out)), rng.randrange(1, 200)
            out[start : start + size] = bytes(len(out[start : start + size]))
        case _:
            return mutated(data, rng)
    return bytes(out)


def _what_a_read_does(table: ll.Table, sound: pa.Table) -> str:
    """How a read differs; empty if it does not."""
    try:
        found = table.to_arrow()
    except LakelatchError as error:
        return f"{error}"
    if found.equals(sound):
        return ""
    columns = [n for n in sound.column_names if not found.column(n).equals(sound.column(n))]
    return f"other values in {columns}"
