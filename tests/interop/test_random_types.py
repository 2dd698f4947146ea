"""Random types within types, in every file format: what either side writes, both read (G1, G8).

A seed gives the same table again; `LAKELATCH_NIGHTLY=1` draws 600.
"""

from __future__ import annotations

import os
import random
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from interop.domains import ATOMIC, Column, storable
from values import Row, assert_same_rows, decode_rows, encode_rows

import lakelatch as ll

pytestmark = pytest.mark.java

SEEDS = range(600 if os.environ.get("LAKELATCH_NIGHTLY") else 12)
FORMATS = ["parquet", "orc", "avro"]
LEAVES = "bo i8 i16 i32 i64 d9 d28 ch vc b4 v8 dt tm3 ts3 ts6 tz3 tz6 f64".split()
KEYS = {"STRING NOT NULL": ["", "a", "zz", "😀"], "INT NOT NULL": [-1, 0, 7]}
PLACES = 2
"""Partitions: rows of several lie between each other, so that files are written from parts of a batch."""


class Types:
    """Draws types and their values.

    Args:
        ids: for the fields of ROWs, which have numbers of their own.
    """

    def __init__(self, rng: random.Random, file_format: str) -> None:
        self.rng, self._ids, self._format = rng, count(1000), file_format

    def kind(self, depth: int = 0) -> Any:
        rng = self.rng
        shape = rng.choice(["leaf", "row", "row", "array", "map"]) if depth < 3 else "leaf"
        if shape == "leaf":
            return ATOMIC[rng.choice(LEAVES)][0]
        if shape == "array":
            return {"type": "ARRAY", "element": self.kind(depth + 1)}
        if shape == "map":
            return {"type": "MAP", "key": rng.choice(list(KEYS)), "value": self.kind(depth + 1)}
        parts = [
            {"id": next(self._ids), "name": f"f{n}", "type": self.kind(depth + 1)} for n in range(rng.randint(1, 3))
        ]
        return {"type": "ROW", "fields": parts}

    def value(self, kind: Any) -> Any:
        rng = self.rng
        if rng.random() < 0.3:
            return None
        if isinstance(kind, str):
            return rng.choice(_values(kind, self._format))
        if kind["type"] == "ROW":
            return [self.value(part["type"]) for part in kind["fields"]]
        if kind["type"] == "ARRAY":
            return [self.value(kind["element"]) for _ in range(rng.randint(0, 3))]
        keys = rng.sample(KEYS[kind["key"]], rng.randint(0, 3))
        return [[key, self.value(kind["value"])] for key in sorted(keys)]


def _values(kind: str, file_format: str) -> list[Any]:
    """The values of a type's domain that the format can store."""
    (values,) = (values for name, (text, values) in ATOMIC.items() if text == kind and name in LEAVES)
    return [storable(value, file_format) for value in values]


@pytest.mark.parametrize("file_format", FORMATS)
@pytest.mark.parametrize("seed", SEEDS)
def test_types_within_types(seed: int, file_format: str, tmp_path: Path, paimon_java: Any) -> None:
    drawn = Types(random.Random(seed), file_format)
    columns: list[Column] = [("p", "INT"), *((f"c{n}", drawn.kind()) for n in range(drawn.rng.randint(1, 3)))]
    options = {"file.format": file_format, "orc.timestamp-ltz.legacy.type": "false"}
    ll.create_table(str(tmp_path / "t"), ll.Schema(columns), partition_by=["p"], options=options)
    table = ll.open_table(str(tmp_path / "t"))

    def rows() -> list[Row]:
        return [
            [drawn.rng.randrange(PLACES), *(drawn.value(kind) for _, kind in columns[1:])]
            for _ in range(drawn.rng.randint(1, 12))
        ]

    ours, theirs = rows(), rows()
    table.append(decode_rows(ours, table.schema.fields))
    assert_same_rows(encode_rows(table.to_arrow(), table.schema.fields), ours, f"lakelatch, of lakelatch's: {columns}")
    assert_same_rows(paimon_java.rows(tmp_path / "t"), ours, f"Java, of lakelatch's: {columns}")
    paimon_java.commit_rows(tmp_path / "t", theirs)
    assert_same_rows(
        encode_rows(table.to_arrow(), table.schema.fields), ours + theirs, f"lakelatch, of Java's: {columns}"
    )
    assert table.verify(data=True) == []
