"""VARIANTs that Apache Paimon (Java) shredded into columns of their own: put together, they are what they were (G8)."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from interop.agreement import our_rows
from values import Row, assert_same_rows

import lakelatch as ll

pytestmark = pytest.mark.java

DEEP = {
    "type": "ROW",
    "fields": [
        {"id": 0, "name": "a", "type": "BIGINT"},
        {"id": 1, "name": "b", "type": "STRING"},
        {"id": 2, "name": "c", "type": {"type": "ARRAY", "element": "INT"}},
        {
            "id": 3,
            "name": "d",
            "type": {
                "type": "ROW",
                "fields": [{"id": 4, "name": "x", "type": "DECIMAL(9, 2)"}, {"id": 5, "name": "y", "type": "BOOLEAN"}],
            },
        },
        {
            "id": 6,
            "name": "e",
            "type": {"type": "ARRAY", "element": {"type": "ROW", "fields": [{"id": 7, "name": "n", "type": "DOUBLE"}]}},
        },
    ],
}
SCHEMAS: dict[str, Any] = {
    "none": None,
    "inferred": "inferred",
    "deep": DEEP,
    "numbers": "BIGINT",
    "texts": "STRING",
    "lists": {"type": "ARRAY", "element": "STRING"},
}


def texts(rng: random.Random, count: int, of_shape: float) -> Iterator[str | None]:
    """JSON of the shape of `DEEP`, and of others."""

    def value(depth: int) -> Any:
        leaf = [None, True, 7, 300, 70_000, 2**40, -1, "", "text", "ü😀" * 20, 1.5, -0.25, "x" * 63, "x" * 64]
        kind = rng.choice(["leaf", "leaf", "list", "object"]) if depth < 3 else "leaf"
        if kind == "leaf":
            return rng.choice(leaf)
        if kind == "list":
            return [value(depth + 1) for _ in range(rng.randint(0, 4))]
        names = rng.sample(["a", "b", "c", "d", "e", "x", "y", "n", "other", "ä"], rng.randint(0, 5))
        return {name: value(depth + 1) for name in names}

    def shaped() -> Any:
        whole = {"a": 12, "b": "text", "c": [1, 2], "d": {"x": 1.25, "y": True}, "e": [{"n": 0.5}, {"n": 1, "m": 2}, 3]}
        kept = {name: part for name, part in whole.items() if rng.random() < 0.7}
        return {**kept, **({rng.choice(["a", "c", "d", "z"]): value(1)} if rng.random() < 0.5 else {})}

    for _ in range(count):
        yield None if rng.random() < 0.1 else json.dumps(shaped() if rng.random() < of_shape else value(0))


def plain(row: Row) -> Row:
    """With its text as every writer of JSON has it; Java leaves letters beyond ASCII as they are, PySpark does not."""
    return [row[0], row[1] and json.dumps(json.loads(row[1]))]


@pytest.mark.parametrize("schema", SCHEMAS)
def test_shredded_variants_equal_the_original_values(schema: str, tmp_path: Path, paimon_java: Any) -> None:
    wanted, options = SCHEMAS[schema], {"file.format": "parquet"}
    if wanted == "inferred":
        options["variant.inferShreddingSchema"] = "true"
    elif wanted is not None:
        row = {"type": "ROW", "fields": [{"id": 100, "name": "v", "type": wanted}]}
        options["parquet.variant.shreddingSchema"] = json.dumps(row)
    path = tmp_path / "t"
    paimon_java.create_table(path, [("id", "INT"), ("v", "VARIANT")], options=options)
    paimon_java.commit_rows(
        path,
        [[i, text] for i, text in enumerate(texts(random.Random(schema), 400, 1.0 if wanted == "inferred" else 0.6))],
    )
    table = ll.open_table(str(path))
    assert_same_rows(map(plain, our_rows(table)), map(plain, paimon_java.rows(path)), schema)
    (file,) = (path / "bucket-0").glob("*.parquet")
    assert ("typed_value" in str(pq.read_schema(file))) == (wanted is not None), (
        "the files are of the form that is meant"
    )
    assert table.to_arrow(columns=["id"]).num_rows == table.to_arrow(columns=["v"]).num_rows == 400
    assert table.verify("all", data=True) == []
