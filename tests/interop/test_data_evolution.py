"""Columns of the same rows in several files, written by Apache Paimon (Java) and lakelatch at random: both read rows whole (G8).

A seed gives the same history again; `LAKELATCH_NIGHTLY=1` runs 400. On failure the changes are printed.
"""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from golden_filters import golden_predicate
from interop.domains import ATOMIC
from interop.filters import filters_of, kept
from interop.random_steps import taken
from values import Row, assert_same_rows, decode_rows, encode_rows

import lakelatch as ll
from lakelatch.core.rows.types import Field, parse_type

pytestmark = pytest.mark.java

SEEDS = range(400 if os.environ.get("LAKELATCH_NIGHTLY") else 16)
STEPS = 8
FORMATS = ["parquet", "orc", "avro"]
DOMAINS = ["i8", "i16", "i32", "i64", "st", "vc", "bo", "d9", "by"]
WIDER = {"i8": "i16", "i16": "i32", "i32": "i64", "vc": "st"}
OPTIONS = {"row-tracking.enabled": "true", "data-evolution.enabled": "true", "bucket": "-1"}


class History:
    """One seed: a table of data evolution.

    Attributes:
        domains: of each column, by field id.
        rows: by row id: value by field id.
        ranges: (first row id, count) of each append.
    """

    def __init__(self, seed: int, path: Path, java: Any) -> None:
        self.rng, self.java, self.path = random.Random(seed), java, path
        names = self.rng.sample(DOMAINS, 3)
        file_format = self.rng.choice(FORMATS)
        java.create_table(path, [(n, ATOMIC[n][0]) for n in names], options={**OPTIONS, "file.format": file_format})
        self.domains = {f.id: f.name for f in self.fields}
        self.rows: list[dict[int, Any]] = []
        self.ranges: list[tuple[int, int]] = []
        self.log = [f"seed {seed}: {names}, {file_format}"]
        self.append(0)

    @property
    def fields(self) -> tuple[Field, ...]:
        return ll.open_table(str(self.path)).schema.fields

    def step(self, number: int) -> None:
        changes = [
            self.append,
            self.update,
            self.update_some,
            self.update_some,
            self.use_format,
            self.add,
            self.rename,
            self.widen,
        ]
        self.log.append(self.rng.choice(changes)(number))

    def append(self, number: int) -> str:
        count = self.rng.randint(1, 6)
        made = [{f.id: self._value(f) for f in self.fields} for _ in range(count)]
        self.ranges.append((len(self.rows), count))
        self.rows += made
        if self.rng.random() < 0.5:
            self.java.commit_rows(self.path, self._encoded(made), identifier=number)
            return f"Java appends {count} rows"
        ll.open_table(str(self.path)).append(decode_rows(self._encoded(made), self.fields))
        return f"append {count} rows"

    def update(self, number: int) -> str:
        first, count = self.rng.choice(self.ranges)
        chosen = self.rng.sample(self.fields, self.rng.randint(1, len(self.fields)))
        for row in self.rows[first : first + count]:
            row.update({f.id: self._value(f) for f in chosen})
        values = [[row[f.id] for f in chosen] for row in self.rows[first : first + count]]
        self.java.write_columns(self.path, [f.name for f in chosen], values, first, number)
        return f"Java updates {[f.name for f in chosen]} of rows {first} to {first + count - 1}"

    def update_some(self, number: int) -> str:
        chosen = self.rng.sample(self.fields, self.rng.randint(1, len(self.fields)))
        ids = self.rng.sample(range(len(self.rows)), self.rng.randint(1, len(self.rows)))
        for i in ids:
            self.rows[i].update({f.id: self._value(f) for f in chosen})
        values = decode_rows([[self.rows[i][f.id] for f in chosen] for i in ids], chosen)
        ll.open_table(str(self.path)).update_columns(values.append_column("_ROW_ID", pa.array(ids, pa.int64())))
        return f"update {[f.name for f in chosen]} of rows {ids}"

    def use_format(self, number: int) -> str:
        chosen = self.rng.choice(FORMATS)
        self.java.alter(self.path, "setOption", "file.format", chosen)
        return f"files in {chosen}"

    def add(self, number: int) -> str:
        domain, name = self.rng.choice(DOMAINS), f"c{number}"
        self.java.alter(self.path, "addColumn", name, self.java.data_type(ATOMIC[domain][0]))
        self.domains[next(f.id for f in self.fields if f.name == name)] = domain
        return f"add {name}, {domain}"

    def rename(self, number: int) -> str:
        chosen = self.rng.choice(self.fields)
        ll.open_table(str(self.path)).alter(ll.rename_column(chosen.name, f"r{number}"))
        return f"rename {chosen.name} to r{number}"

    def widen(self, number: int) -> str:
        found = [f for f in self.fields if self.domains[f.id] in WIDER]
        if not found:
            return "nothing"
        chosen = self.rng.choice(found)
        self.domains[chosen.id] = WIDER[self.domains[chosen.id]]
        kind = ATOMIC[self.domains[chosen.id]][0]
        ll.open_table(str(self.path)).alter(ll.update_type(chosen.name, parse_type(kind)))
        return f"{chosen.name} becomes {kind}"

    def _value(self, field: Field) -> Any:
        return None if self.rng.random() < 0.2 else self.rng.choice(ATOMIC[self.domains[field.id]][1])

    def _encoded(self, rows: list[dict[int, Any]]) -> list[Row]:
        return [[row.get(f.id) for f in self.fields] for row in rows]

    def assert_agreed(self) -> None:
        """All columns, some of them, and one filter on another than these."""
        table, wanted = ll.open_table(str(self.path)), self._encoded(self.rows)
        fields = table.schema.fields
        assert_same_rows(encode_rows(table.to_arrow(), fields), wanted, "lakelatch")
        assert_same_rows(self.java.rows(self.path), wanted, "Java")
        ids = table.to_arrow(columns=[fields[0].name, "_ROW_ID"]).sort_by("_ROW_ID")
        assert ids["_ROW_ID"].to_pylist() == list(range(len(wanted)))
        for _ in range(3):
            places = sorted(self.rng.sample(range(len(fields)), self.rng.randint(1, len(fields))))
            asked = self.rng.choice(fields)
            filter_ = self.rng.choice(list(filters_of(asked, ATOMIC[self.domains[asked.id]][1][:2])))
            where = golden_predicate(filter_, {f.name: f.type for f in fields})
            rows = [[row[place] for place in places] for row in kept(wanted, filter_, fields)]
            some = [fields[place] for place in places]
            found = encode_rows(table.to_arrow(columns=[f.name for f in some], where=where), some)
            assert_same_rows(found, rows, f"{[f.name for f in some]}, {filter_}")


@pytest.mark.parametrize("seed", SEEDS)
def test_a_history_of_columns(seed: int, tmp_path: Path, paimon_java: Any) -> None:
    """G8: of each column the newest file that holds it."""
    history = History(seed, tmp_path / "t", paimon_java)
    with taken(history, STEPS):
        history.assert_agreed()
        assert ll.open_table(str(history.path)).verify("all", data=True) == []


def test_blobs_are_read_alone(tmp_path: Path, paimon_java: Any) -> None:
    """G8: the file of BLOBs alone does not tell which rows there are, least where the BLOBs of one run are in several files."""
    options = {**OPTIONS, "blob-field": "pic", "blob.target-file-size": "1 kb"}
    kinds = [("id", "INT"), ("pic", "BLOB"), ("s", "STRING")]
    paimon_java.create_table(tmp_path / "t", kinds, options=options)
    rows = [[i, None if i % 3 == 1 else f"0x{'ab' * 300}{i:02x}", f"s{i}"] for i in range(9)]
    paimon_java.commit_rows(tmp_path / "t", rows[:7], identifier=1)
    paimon_java.commit_rows(tmp_path / "t", rows[7:], identifier=2)
    table = ll.open_table(str(tmp_path / "t"))
    assert sum(e.file.file_name.endswith(".blob") for e in table.entries()) > len(table.snapshots())
    fields = {f.name: f for f in table.schema.fields}
    for names in (["pic"], ["pic", "s"], ["s"], ["id", "pic", "s"]):
        wanted = [[row["id pic s".split().index(name)] for name in names] for row in rows]
        assert_same_rows(encode_rows(table.to_arrow(columns=names), [fields[n] for n in names]), wanted, str(names))
        assert table.to_arrow(columns=names, limit=1).num_rows == 1
        assert table.to_arrow(columns=names, limit=8).num_rows == 8
    assert (table.count("pic is null"), table.count("pic is not null"), table.count("pic is null and id > 3")) == (
        3,
        6,
        2,
    )
    found = table.to_arrow(columns=["pic", "_ROW_ID"], where="pic is null").sort_by("_ROW_ID")
    assert found["_ROW_ID"].to_pylist() == [1, 4, 7]
