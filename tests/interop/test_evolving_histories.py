"""Random tables whose columns, formats and rows are changed by either side at random: everybody agrees on each snapshot.

A seed gives the same history again; `LAKELATCH_NIGHTLY=1` runs 2000. On failure the changes are printed.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from golden_filters import golden_predicate
from interop.domains import ATOMIC, EVERY, columns
from interop.filters import filters_of, kept
from interop.random_steps import taken
from jpype import JClass
from values import Row, assert_same_rows, decode_rows, encode_rows, sort_rows

import lakelatch as ll
from lakelatch.core.rows.types import Field, parse_type

pytestmark = pytest.mark.java

SEEDS = range(2000 if os.environ.get("LAKELATCH_NIGHTLY") else 40)
STEPS = 7
FORMATS = ["parquet", "orc", "avro"]
NAMES = "bo i8 i16 i32 i64 f32 f64 d9 d28 ch vc st b4 v8 by dt tm3 ts3 ts6 tz3 tz6 ar an aa ma ro".split()
"""Domains that every format holds."""
WIDER = {"i8": "i16", "i16": "i32", "i32": "i64", "f32": "f64", "vc": "st", "ch": "st", "ts3": "ts6"}
"""Domains whose values are also values of another: columns that may be retyped."""


def values_of(domain: str) -> list[Any]:
    """Its values, but for those that ORC's readers take for others: times before 1970 or out of an int64 of nanoseconds, and
    Java's -0.0, which it reads as 0.0, or that as -0.0, where a batch holds nothing but zeros."""
    values = [v for v in EVERY[domain][1] if v != "-0.0"]
    return [v for v in values if "1970" < str(v)[:4] < "2262"] if domain[:2] in ("ts", "tz") else values


class History:
    """One seed: a table, and what each of its snapshots must hold.

    Attributes:
        domains: of each column, by field id.
        rows: of the newest snapshot: value by field id; columns that a row's writer did not know are missing.
        expected: snapshot id -> columns of its schema, rows.
    """

    def __init__(self, seed: int, path: Path, java: Any) -> None:
        self.rng, self.java, self.path = random.Random(seed), java, path
        rng = self.rng
        names = rng.sample(NAMES, rng.randint(2, 4))
        self.keys = [name for name in names if name in ("i32", "dt")][: rng.randint(0, 1)]
        options = {"file.format": rng.choice(FORMATS), "orc.timestamp-ltz.legacy.type": "false"}
        if rng.random() < 0.5:
            ll.create_table(str(path), ll.Schema(columns(names)), partition_by=self.keys, options=options)
        else:
            java.create_table(path, columns(names), partition_keys=self.keys, options=options)
        self.domains = {f.id: f.name for f in self.fields}
        self.rows: list[dict[int, Any]] = []
        self.expected: dict[int, tuple[tuple[Field, ...], list[dict[int, Any]]]] = {}
        self.log = [f"seed {seed}: {names}, partitions {self.keys}, {options}"]

    @property
    def fields(self) -> tuple[Field, ...]:
        return ll.open_table(str(self.path)).schema.fields

    # ----------------------------------------------------------------------------------------------------------- steps

    def step(self, number: int) -> None:
        """A change by one of the two: of rows, of a column, or of the format."""
        rng = self.rng
        by_java = rng.random() < 0.5
        kinds: list[Callable[[bool, int], str]] = [self.append, self.append, self.append, self.overwrite, self.compact]
        change = rng.choice(
            [*kinds, self.use_format, self.add, self.drop, self.rename, self.move, self.widen, self.widen]
        )
        self.log.append(f"{'Java' if by_java else 'lakelatch'}: {change(by_java, number)}")

    def append(self, by_java: bool, number: int) -> str:
        return self._write(by_java, number, None)

    def overwrite(self, by_java: bool, number: int) -> str:
        self.rows = []
        return self._write(by_java, number, {})

    def _write(self, by_java: bool, number: int, replaced: dict[str, str] | None) -> str:
        fields, rng = self.fields, self.rng
        rows: list[Row] = [[self._value(f) for f in fields] for _ in range(rng.randint(1, 5))]
        self.rows = self.rows + [dict(zip([f.id for f in fields], row, strict=True)) for row in rows]
        if by_java:
            self.java.commit_rows(self.path, rows, identifier=number, overwrite_partition=replaced, options=STATIC)
        elif replaced is None:
            ll.open_table(str(self.path)).append(decode_rows(rows, fields))
        else:
            ll.open_table(str(self.path)).overwrite(decode_rows(rows, fields), partition=replaced)
        return self._landed(f"{'append' if replaced is None else 'overwrite'} {len(rows)} rows")

    def _value(self, field: Field) -> Any:
        if self.rng.random() < 0.2 and field.name not in self.keys:
            return None
        return self.rng.choice(
            values_of(self.domains[field.id])[-3:] if field.name in self.keys else values_of(self.domains[field.id])
        )

    def compact(self, by_java: bool, number: int) -> str:
        if by_java:
            self.java.compact_append_table(self.path, "java", number)
        else:
            ll.open_table(str(self.path)).compact(min_files=2)
        return self._landed("compact")

    def _landed(self, what: str) -> str:
        table = ll.open_table(str(self.path))
        for snapshot in table.snapshots():
            self.expected.setdefault(snapshot.id, (table.at(snapshot=snapshot.id).schema.fields, self.rows))
        return what

    # --------------------------------------------------------------------------------------------------------- columns

    def use_format(self, by_java: bool, number: int) -> str:
        chosen = self.rng.choice(FORMATS)
        self._alter(by_java, ll.set_option("file.format", chosen), "setOption", "file.format", chosen)
        return f"files in {chosen}"

    def add(self, by_java: bool, number: int) -> str:
        domain, name = self.rng.choice(NAMES), f"c{number}"
        kind = EVERY[domain][0]
        self._alter(by_java, ll.add_column(name, parse_type(kind)), "addColumn", name, self.java.data_type(kind))
        (self.domains[next(f.id for f in self.fields if f.name == name)],) = (domain,)
        return f"add {name}, {kind}"

    def drop(self, by_java: bool, number: int) -> str:
        chosen = self._free()
        if chosen is None or len(self.fields) < 3:
            return "nothing"
        self._alter(by_java, ll.drop_column(chosen.name), "dropColumn", chosen.name)
        return f"drop {chosen.name}"

    def rename(self, by_java: bool, number: int) -> str:
        chosen = self._free()
        if chosen is None:
            return "nothing"
        self._alter(by_java, ll.rename_column(chosen.name, f"r{number}"), "renameColumn", chosen.name, f"r{number}")
        return f"rename {chosen.name} to r{number}"

    def move(self, by_java: bool, number: int) -> str:
        chosen, after = self.rng.sample([f.name for f in self.fields], 2)
        move = JClass("org.apache.paimon.schema.SchemaChange$Move")
        self._alter(by_java, ll.move_column(chosen, after=after), "updateColumnPosition", move.after(chosen, after))
        return f"move {chosen} behind {after}"

    def widen(self, by_java: bool, number: int) -> str:
        found = [f for f in self.fields if self.domains[f.id] in WIDER and f.name not in self.keys]
        if not found:
            return "nothing"
        chosen = self.rng.choice(found)
        self.domains[chosen.id] = WIDER[self.domains[chosen.id]]
        kind = EVERY[self.domains[chosen.id]][0]
        change = ll.update_type(chosen.name, parse_type(kind))
        self._alter(by_java, change, "updateColumnType", chosen.name, self.java.data_type(kind))
        return f"{chosen.name} becomes {kind}"

    def _free(self) -> Field | None:
        """A column that is not a key."""
        found = [f for f in self.fields if f.name not in self.keys]
        return self.rng.choice(found) if found else None

    def _alter(self, by_java: bool, ours: Any, factory: str, *arguments: Any) -> None:
        if by_java:
            self.java.alter(self.path, factory, *arguments)
        else:
            ll.open_table(str(self.path)).alter(ours)

    # ------------------------------------------------------------------------------------------------------ comparison

    def assert_agreed(self) -> None:
        """Every snapshot with its own columns, and the newest with those that the table has now; three filters."""
        table = ll.open_table(str(self.path))
        assert [s.id for s in table.snapshots()] == sorted(self.expected)
        for snapshot, (fields, rows) in self.expected.items():
            wanted = [[row.get(f.id) for f in fields] for row in rows]
            assert_same_rows(self.java.rows(self.path, snapshot=snapshot), wanted, f"Java, snapshot {snapshot}")
            found = encode_rows(table.at(snapshot=snapshot).to_arrow(), fields)
            assert_same_rows(found, wanted, f"lakelatch, snapshot {snapshot}")
        wanted = [[row.get(f.id) for f in table.schema.fields] for row in self.rows]
        assert_same_rows(self.java.rows(self.path), wanted, "Java, now")
        assert_same_rows(encode_rows(table.to_arrow(), table.schema.fields), wanted, "lakelatch, now")
        self.assert_filters_agree(table, wanted)

    def assert_filters_agree(self, table: ll.Table, rows: list[Row]) -> None:
        """Three filters keep the rows that they should, and open no more files than Java, where it loses none of them."""
        fields = [f for f in table.schema.fields if self.domains[f.id] in ATOMIC]
        for chosen in self.rng.choices(fields, k=3) if fields and rows else ():
            filter_ = self.rng.choice(list(filters_of(chosen, values_of(self.domains[chosen.id])[:2])))
            wanted = kept(rows, filter_, table.schema.fields)
            where = golden_predicate(filter_, {f.name: f.type for f in table.schema.fields})
            assert_same_rows(
                encode_rows(table.to_arrow(where=where), table.schema.fields), wanted, f"lakelatch, {filter_}"
            )
            if self.domains[chosen.id] in ("f32", "f64"):
                continue  # bounds of writers who know no NaN are believed less than Java does
            theirs = self.java.plan(self.path, predicate=filter_)
            if sort_rows(self.java.rows(self.path, predicate=filter_)) == sort_rows(wanted):
                planned = table.plan(where=where)
                assert planned.file_count <= sum(len(split["files"]) for split in theirs), f"{filter_}\n{planned}"


STATIC = {"dynamic-partition-overwrite": "false"}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_history_of_changes(seed: int, tmp_path: Path, paimon_java: Any) -> None:
    """G1, G8: columns are matched by their ids, whichever writer changed them and in whichever format the rows were written."""
    history = History(seed, tmp_path / "t", paimon_java)
    with taken(history, STEPS):
        history.assert_agreed()
        assert ll.open_table(str(history.path)).verify("all", data=True) == []
