"""Random tables with a primary key, random changes by either side: Java, lakelatch and a model of the rows agree about the rows
and the changes of every snapshot (G1, G6, G8).

A seed gives the same history again; `LAKELATCH_NIGHTLY=1` runs fifteen times as many. On failure the changes are printed.
Histories are short and tables small, because what matters is how many combinations of options and changes meet.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from figures import NIGHTLY
from interop.agreement import our_rows
from interop.domains import ATOMIC, storable
from interop.key_model import ENGINES, KeyModel, Values
from interop.random_steps import taken
from interop.test_java_key_changes import changes
from values import Row, assert_same_rows, decode_rows

import lakelatch as ll
from lakelatch.core.rows.types import parse_type

pytestmark = pytest.mark.java

SEEDS = range(3000 if NIGHTLY else 200)
STEPS = 4
KEYS = ["i32", "st", "d28", "ts6"]
"""Few types, for each of which Java compiles code. `test_java_upserts` has more."""
FORMATS = ["parquet", "orc", "avro", "avro"]
BY_JAVA = 0.4
STATIC = {"dynamic-partition-overwrite": "false"}
SMALL = {"write-buffer-size": "1 mb", "scan.manifest.parallelism": "1"}
"""Java reserves memory and starts threads for the tables of others."""

EAGER = {
    "num-sorted-run.compaction-trigger": "2",
    "compaction.max-size-amplification-percent": "100000",
    "compaction.size-ratio": "0",
}
"""What is due is often a part of a bucket's files, the newest ones."""


class KeyHistory:
    """One seed: a table, and what it must hold."""

    def __init__(self, seed: int, path: Path, java: Any) -> None:
        self.rng, self.java, self.path = random.Random(f"key history {seed}"), java, path
        rng = self.rng
        self.engine = engine = ENGINES[seed % len(ENGINES)]
        self.partitioned, self.dynamic = rng.random() < 0.4, rng.random() < 0.2
        self.key = rng.choice(KEYS)
        options = {**engine.options, **SMALL, "file.format": rng.choice(FORMATS), **self.changelog()}
        options["bucket"] = "-1" if self.dynamic else rng.choice("12")
        if self.dynamic:
            options["dynamic-bucket.target-row-num"] = "2"
        if rng.random() < 0.5:
            options |= EAGER
        self.vectors = options.get("deletion-vectors.enabled") == "true"
        looks_up = self.vectors or engine.is_first_row or options.get("changelog-producer") == "lookup"
        self.hides_changes = (self.vectors or engine.is_first_row) and options.get("changelog-producer") != "lookup"
        """Java then tells nothing of level 0, which it hides."""
        self.write_only = not looks_up or rng.random() < 0.7
        options["write-only"] = str(self.write_only).lower()
        names = [*(["p"] if self.partitioned else []), "k"]
        types = [("k", ATOMIC[self.key][0]), ("v", "BIGINT"), ("s", "STRING"), ("w", "INT"), ("p", "INT")]
        if rng.random() < 0.5:
            java.create_table(path, types, names[:-1], names, options)
        else:
            ll.create_table(str(path), ll.Schema(types), partition_by=names[:-1], primary_key=names, options=options)
        hides = self.write_only and (self.vectors or engine.is_first_row)
        self.model = KeyModel(engine, tuple(names), hides)
        self.first_names = {name: name for name, _ in types}
        """The first name of each column by its present one."""
        self.seen = 0
        self.log = [f"seed {seed}: {types}, primary key {names}, {options}"]

    def changelog(self) -> dict[str, str]:
        """What the engine has of changelogs and deletion vectors."""
        if self.engine.is_first_row:
            return self.rng.choice([{}, {"changelog-producer": "lookup"}])
        vectors = self.rng.random() < 0.25
        producers = ["none", "input", "lookup"] if vectors else ["none", "input", "lookup", "full-compaction"]
        found = {"changelog-producer": self.rng.choice(producers)}
        return {**found, "deletion-vectors.enabled": "true"} if vectors else found

    # ----------------------------------------------------------------------------------------------------------- steps

    def step(self, number: int) -> None:
        rng = self.rng
        by_java = rng.random() < BY_JAVA
        steps = [self.write, self.write, self.write, self.compact, self.compact, self.overwrite, self.alter, self.alter]
        steps += [self.delete] if self.engine.deletes else []
        change = self.write if number == 1 else rng.choice(steps)
        self.log.append(f"{number}: {'Java' if by_java else 'lakelatch'}: {change.__name__}")
        change(by_java, number)
        self.check()

    def rows(self, count: int, partition: int | None = None) -> list[Row]:
        """Random rows of few keys, in the order of the columns."""
        rng = self.rng
        keys = [storable(v, "orc") for v in ATOMIC[self.key][1] if not isinstance(v, str) or len(v) < 100]
        values = {
            "k": [v for v in keys if v is not None][:4],
            "v": [None, 1, 2, 3] if "v" not in self.engine.options.get("sequence.field", "") else [0, 1, 2],
            "s": [None, "a", "b", ""],
            "p": [1, 2] if partition is None else [partition],
        }
        columns = [values.get(self.first_names[name], [None, 7, 8]) for name in self.first_names]
        return [[rng.choice(choices) for choices in columns] for _ in range(count)]

    def write(self, by_java: bool, number: int) -> None:
        rows = self.rows(self.rng.randint(1, 5))
        if self.engine.removes:
            rows = list(
                {self.model.key_of(values): row for row, values in zip(rows, self.named(rows), strict=True)}.values()
            )
        kinds = [self.rng.choice(self.engine.kinds) for _ in rows]
        self.log.append(f"  {list(zip(kinds, rows, strict=True))}")
        if by_java:
            bucket = self.java.dynamic_bucket(self.path) if self.dynamic else None
            self.java.commit_rows(self.path, rows, identifier=number, kinds=kinds, bucket=bucket)
        else:
            table = ll.open_table(str(self.path))
            data = decode_rows(rows, table.schema.fields).append_column("op", pa.array(kinds, pa.string()))
            table.upsert(data, row_kind="op")
        self.model.write(self.named(rows), kinds)

    def named(self, rows: Sequence[Row]) -> list[Values]:
        return [dict(zip(self.first_names.values(), row, strict=True)) for row in rows]

    def delete(self, by_java: bool, number: int) -> None:
        rows = [
            [v if name in self.model.keys else None for name, v in zip(self.first_names, row, strict=True)]
            for row in self.rows(2)
        ]
        self.log.append(f"  {rows}")
        if by_java:
            bucket = self.java.dynamic_bucket(self.path) if self.dynamic else None
            self.java.commit_rows(self.path, rows, identifier=number, kinds=["-D"] * len(rows), bucket=bucket)
        else:
            table = ll.open_table(str(self.path))
            table.delete(decode_rows(rows, table.schema.fields).select(list(self.model.keys)))
        self.model.write(self.named(rows), ["-D"] * len(rows))

    def overwrite(self, by_java: bool, number: int) -> None:
        """Of a partition, or of the whole table."""
        partition = self.rng.choice([1, 2]) if self.partitioned and self.rng.random() < 0.7 else None
        rows = self.rows(self.rng.randint(0, 3), partition)
        self.log.append(f"  partition {partition}: {rows}")
        if by_java:
            spec = {} if partition is None else {"p": str(partition)}
            bucket = self.java.dynamic_bucket(self.path, overwrites=True) if self.dynamic else None
            self.java.commit_rows(
                self.path, rows, identifier=number, overwrite_partition=spec, options=STATIC, bucket=bucket
            )
        else:
            table = ll.open_table(str(self.path))
            spec_of_ours = {} if partition is None else {"p": partition}
            table.overwrite(decode_rows(rows, table.schema.fields), partition=spec_of_ours)
        self.model.overwrite(partition, self.named(rows))

    def compact(self, by_java: bool, number: int) -> None:
        full = self.rng.random() < 0.6
        self.log.append(f"  full: {full}")
        if by_java:
            self.java.compact(self.path, identifier=number, full=full)
        else:
            ll.open_table(str(self.path)).compact(full=full)
        self.model.compact(full)

    def alter(self, by_java: bool, number: int) -> None:
        """A column comes, goes, or has another name or type, or files have another format."""
        later = [name for name, first in self.first_names.items() if first.startswith("x")]
        names = self.first_names
        match self.rng.choice(["add", "add", "widen", "format", *(["rename", "drop"] if later else [])]):
            case "add":
                name = f"x{number}"
                self._alter(by_java, ll.add_column(name, parse_type("INT")), "addColumn", name, "INT")
                names[name] = name
            case "widen":
                change = ll.update_type("w", parse_type("BIGINT"))
                self._alter(by_java, change, "updateColumnType", "w", "BIGINT")
            case "format":
                chosen = self.rng.choice(FORMATS)
                self._alter(by_java, ll.set_option("file.format", chosen), "setOption", "file.format", chosen)
            case "rename":
                old, new = self.rng.choice(later), f"y{number}"
                self._alter(by_java, ll.rename_column(old, new), "renameColumn", old, new)
                self.first_names = {new if name == old else name: first for name, first in names.items()}
            case "drop":
                name = self.rng.choice(later)
                self._alter(by_java, ll.drop_column(name), "dropColumn", name)
                del names[name]

    def _alter(self, by_java: bool, ours: Any, factory: str, *arguments: str) -> None:
        self.log.append(f"  {factory} {arguments}")
        if by_java:
            with_types = [self.java.data_type(a) if a in ("INT", "BIGINT") else a for a in arguments]
            self.java.alter(self.path, factory, *with_types)
        else:
            ll.open_table(str(self.path)).alter(ours)

    # ------------------------------------------------------------------------------------------------------ comparison

    def check(self) -> None:
        """The rows are those of the model, for both sides, and both tell the same changes since the last check."""
        table = ll.open_table(str(self.path))
        theirs = self.java.rows(self.path)
        where = f"after step {len(self.log)}"
        assert_same_rows(our_rows(table), theirs, f"lakelatch and Java, {where}")
        assert table.schema.names == tuple(self.first_names)
        shown = self.model.shown
        if shown is not None:
            wanted = [[row.get(first) for first in self.first_names.values()] for row in shown]
            assert_same_rows(theirs, wanted, f"both and the model, {where}")
        last = max((s.id for s in table.snapshots()), default=0)
        if last > self.seen and not self.hides_changes:
            between = {"incremental-between": f"{self.seen},{last}"}
            told = self.java.rows(self.path, options=between, with_kind=True)
            assert_same_rows(changes(table, self.seen, last, overwrites=False), told, f"changes, {where}")
        self.seen = last


@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_history_of_keys(seed: int, tmp_path: Path, paimon_java: Any) -> None:
    """G1, G6, G8: every snapshot has the rows and changes that Java reads, and those that the writes make of each other."""
    history = KeyHistory(seed, tmp_path / "t", paimon_java)
    with paimon_java.reading_manifests_once(), taken(history, STEPS):
        if seed % 10 == 0:
            assert ll.open_table(str(history.path)).verify("all", data=True) == []
