"""Fields of ROWs added, dropped, renamed and widened by either side at random, in every file format: everybody agrees (G1, G8).

A seed gives the same history again; `LAKELATCH_NIGHTLY=1` runs 600. On failure the changes are printed.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from interop.domains import ATOMIC
from interop.random_steps import taken
from jpype import JArray, JString
from values import Row, assert_same_rows, decode_rows, encode_rows

import lakelatch as ll
from lakelatch.core.rows.types import ArrayType, DataType, Field, MapType, RowType, parse_type

pytestmark = pytest.mark.java

SEEDS = range(600 if os.environ.get("LAKELATCH_NIGHTLY") else 24)
STEPS = 7
FORMATS = ["parquet", "orc", "avro"]
WIDER = {"i8": "i16", "i16": "i32", "i32": "i64", "vc": "st", "ch": "st"}
LEAVES = [*WIDER, "i64", "st", "bo", "d9", "by"]
SHAPES = ["row", "row of row", "array", "map"]


def row_type(*parts: tuple[int, str, Any]) -> dict[str, Any]:
    return {"type": "ROW", "fields": [{"id": i, "name": n, "type": t} for i, n, t in parts]}


def shaped(shape: str, row: dict[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The type of a column with that ROW in it, and the ROW's path."""
    return {
        "row": (row, ("v",)),
        "row of row": (row_type((20, "in", row), (21, "x", "INT")), ("v", "in")),
        "array": ({"type": "ARRAY", "element": row}, ("v", "element")),
        "map": ({"type": "MAP", "key": "INT NOT NULL", "value": row}, ("v", "value")),
    }[shape]


class History:
    """One seed: a table of one column with a ROW in it, and the values of its rows.

    Attributes:
        within: the path of that ROW, as schema changes name it.
        domains: of each of its fields, by field id.
        stays: the id of a field that is not dropped, see the other test.
        rows: values, ROWs as values by field id.
    """

    def __init__(self, seed: int, path: Path, java: Any) -> None:
        self.rng, self.java, self.path = random.Random(seed), java, path
        first, second = self.rng.sample(LEAVES, 2)
        row = row_type((10, "a", ATOMIC[first][0]), (11, "b", ATOMIC[second][0]))
        shape = self.rng.choice(SHAPES)
        kind, self.within = shaped(shape, row)
        options = {"file.format": self.rng.choice(FORMATS), "orc.timestamp-ltz.legacy.type": "false"}
        ll.create_table(str(path), ll.Schema([("v", kind)]), options=options)
        self.domains = dict(zip([f.id for f in self.inner.fields], (first, second), strict=True))
        self.stays = self.inner.fields[0].id
        self.rows: list[Any] = []
        self.log = [f"seed {seed}: {shape} of {first}, {second}; {options['file.format']}"]

    @property
    def fields(self) -> tuple[Field, ...]:
        return ll.open_table(str(self.path)).schema.fields

    @property
    def inner(self) -> RowType:
        """The ROW that changes."""
        kind: DataType = self.fields[0].type
        for step in self.within[1:]:
            match kind:
                case ArrayType(element=kind) | MapType(value=kind):
                    pass
                case RowType(fields=fields):
                    kind = next(f.type for f in fields if f.name == step)
        assert isinstance(kind, RowType)
        return kind

    # ----------------------------------------------------------------------------------------------------------- steps

    def step(self, number: int) -> None:
        changes: list[Callable[[bool, int], str]] = [
            self.append,
            self.append,
            self.append,
            self.compact,
            self.use_format,
        ]
        by_java, change = (
            self.rng.random() < 0.5,
            self.rng.choice([*changes, self.add, self.drop, self.rename, self.widen]),
        )
        self.log.append(f"{'Java' if by_java else 'lakelatch'}: {change(by_java, number)}")

    def append(self, by_java: bool, number: int) -> str:
        made = [self._value(self.fields[0].type) for _ in range(self.rng.randint(1, 6))]
        self.rows += made
        rows = self._as(made, self.fields[0].type)
        if by_java:
            self.java.commit_rows(self.path, rows, identifier=number)
        else:
            ll.open_table(str(self.path)).append(decode_rows(rows, self.fields))
        return f"append {len(rows)} rows"

    def compact(self, by_java: bool, number: int) -> str:
        if by_java:
            self.java.compact_append_table(self.path, "java", number)
        else:
            ll.open_table(str(self.path)).compact(min_files=2)
        return "compact"

    def use_format(self, by_java: bool, number: int) -> str:
        chosen = self.rng.choice(FORMATS)
        ll.open_table(str(self.path)).alter(ll.set_option("file.format", chosen))
        return f"files in {chosen}"

    def add(self, by_java: bool, number: int) -> str:
        domain, name = self.rng.choice(LEAVES), f"c{number}"
        kind = ATOMIC[domain][0]
        change = ll.add_column(".".join((*self.within, name)), parse_type(kind))
        self._alter(by_java, change, "addColumn", name, self.java.data_type(kind), None, None)
        self.domains[next(f.id for f in self.inner.fields if f.name == name)] = domain
        return f"add {name}, {kind}"

    def drop(self, by_java: bool, number: int) -> str:
        found = [f.name for f in self.inner.fields if f.id != self.stays]
        if not found:
            return "nothing"
        name = self.rng.choice(found)
        self._alter(by_java, ll.drop_column(".".join((*self.within, name))), "dropColumn", name)
        return f"drop {name}"

    def rename(self, by_java: bool, number: int) -> str:
        name = self.rng.choice(self.inner.fields).name
        change = ll.rename_column(".".join((*self.within, name)), f"r{number}")
        self._alter(by_java, change, "renameColumn", name, f"r{number}")
        return f"rename {name} to r{number}"

    def widen(self, by_java: bool, number: int) -> str:
        found = [f for f in self.inner.fields if self.domains[f.id] in WIDER]
        if not found:
            return "nothing"
        chosen = self.rng.choice(found)
        self.domains[chosen.id] = WIDER[self.domains[chosen.id]]
        kind = ATOMIC[self.domains[chosen.id]][0]
        change = ll.update_type(".".join((*self.within, chosen.name)), parse_type(kind))
        self._alter(by_java, change, "updateColumnType", chosen.name, self.java.data_type(kind), True)
        return f"{chosen.name} becomes {kind}"

    def _alter(self, by_java: bool, ours: Any, factory: str, name: str, *arguments: Any) -> None:
        if by_java:
            self.java.alter(self.path, factory, JArray(JString)([*self.within, name]), *arguments)
        else:
            ll.open_table(str(self.path)).alter(ours)

    # ---------------------------------------------------------------------------------------------------------- values

    def _value(self, kind: DataType) -> Any:
        rng = self.rng
        if rng.random() < 0.2:
            return None
        match kind:
            case RowType(fields=fields):
                return {f.id: self._value(f.type) if f.id not in self.domains else self._leaf(f.id) for f in fields}
            case ArrayType(element=element):
                return [self._value(element) for _ in range(rng.randint(0, 3))]
            case MapType(value=value):
                return [(key, self._value(value)) for key in range(rng.randint(0, 3))]
        return rng.randrange(100)

    def _leaf(self, field_id: int) -> Any:
        return None if self.rng.random() < 0.2 else self.rng.choice(ATOMIC[self.domains[field_id]][1])

    def _as(self, values: list[Any], kind: DataType) -> list[Row]:
        """Values as rows of the column with the fields that it has now."""

        def shaped(value: Any, kind: DataType) -> Any:
            match kind:
                case _ if value is None:
                    return None
                case RowType(fields=fields):
                    return [shaped(value.get(f.id), f.type) for f in fields]
                case ArrayType(element=element):
                    return [shaped(item, element) for item in value]
                case MapType(value=of):
                    return [[key, shaped(item, of)] for key, item in value]
            return value

        return [[shaped(value, kind)] for value in values]

    def assert_agreed(self) -> None:
        table = ll.open_table(str(self.path))
        wanted = self._as(self.rows, table.schema.fields[0].type)
        assert_same_rows(self.java.rows(self.path), wanted, "Java")
        assert_same_rows(encode_rows(table.to_arrow(), table.schema.fields), wanted, "lakelatch")


@pytest.mark.parametrize("seed", SEEDS)
def test_a_history_of_fields(seed: int, tmp_path: Path, paimon_java: Any) -> None:
    """G1, G8: fields by their ids, however deep they lie."""
    history = History(seed, tmp_path / "t", paimon_java)
    with taken(history, STEPS):
        history.assert_agreed()
        assert ll.open_table(str(history.path)).verify("all", data=True) == []


@pytest.mark.parametrize("file_format", FORMATS)
@pytest.mark.parametrize("shape", SHAPES)
def test_rows_without_remaining_fields(shape: str, file_format: str, tmp_path: Path, paimon_java: Any) -> None:
    """G8: Apache Paimon reads null for the ROW, and for the ARRAY or MAP around it, so that is what such files hold."""
    path = tmp_path / "t"
    kind, within = shaped(shape, row_type((10, "a", "INT")))
    ll.create_table(str(path), ll.Schema([("v", kind)]), options={"file.format": file_format})
    table = ll.open_table(str(path))
    value = {"row": [1], "row of row": [[1], 2], "array": [[1], None], "map": [[0, [1]], [1, None]]}[shape]
    table.append(decode_rows([[value], [None]], table.schema.fields))
    table.alter(ll.add_column(".".join((*within, "b")), "INT"), ll.drop_column(".".join((*within, "a"))))
    table = ll.open_table(str(path))
    assert_same_rows(encode_rows(table.to_arrow(), table.schema.fields), paimon_java.rows(path), shape)
