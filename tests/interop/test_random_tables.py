"""Random tables with the whole domain of every type: lakelatch, Java and Spark write, and all read alike (G1, G8).

Between the writes lakelatch compacts, overwrites and alters. Spark is another Spark process, with Apache Paimon's connector of
version 2, and takes part where its jar is (see `spark_env.connector`). A seed gives the same table again;
`LAKELATCH_NIGHTLY=1` makes 300 tables.
"""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest
from interop.domains import ATOMIC, EVERY, columns, has_year, storable
from interop.random_steps import taken
from interop.spark_env import SparkConnector
from values import assert_same_rows, decode_rows, encode_rows

import lakelatch as ll

pytestmark = [pytest.mark.java, pytest.mark.given]

SEEDS = range(300 if os.environ.get("LAKELATCH_NIGHTLY") else 5)
FORMATS = ["parquet", "orc", "avro"]
STEPS = 6
FINE = [name for name in ATOMIC if name[:2] in ("ts", "tz") and int(name[2:]) > 6] + ["at", "rr"]
NOT_AVRO = FINE
NOT_SPARK = [*FINE, "ch", "tm0", "tm3", "md", "ms"]
"""Spark has microseconds, fills CHAR up with blanks, and has neither TIME in this connector nor MULTISET."""
KEYS = ["bo", "i8", "i32", "d9", "dt", "ts3"]


def for_spark(value: Any) -> Any:
    """A value that Spark's connector stores as it is. Days of years that others lack are moved by Spark into another calendar."""
    if isinstance(value, list):
        return [for_spark(part) for part in value]
    return value if has_year(value, 1583, 9999) else None


class RandomTable:
    """A table that is changed at random, and the rows that it must have.

    Attributes:
        rows: by column name.
        domains: column name to the name of its domain in `EVERY`.
    """

    def __init__(self, seed: int, path: Path, java: Any, spark: SparkConnector | None) -> None:
        self.rng, self.path, self.java = random.Random(seed), path, java
        rng = self.rng
        self.format = FORMATS[seed % 3]
        self.spark = spark if rng.random() < 0.7 else None
        without = [*(NOT_AVRO if self.format == "avro" else ()), *(NOT_SPARK if self.spark else ())]
        self.names = [name for name in EVERY if name not in without]
        chosen = rng.sample(self.names, rng.randint(3, 6))
        keys = [rng.choice([n for n in KEYS if n in chosen])] if rng.random() < 0.5 and set(KEYS) & set(chosen) else []
        self.key = keys[0] if keys else None
        self.domains = {name: name for name in chosen}
        self.rows: list[dict[str, Any]] = []
        options = {"file.format": self.format, "orc.timestamp-ltz.legacy.type": "false"}
        if rng.random() < 0.5:
            ll.create_table(str(path), ll.Schema(columns(chosen)), partition_by=keys, options=options)
        else:
            java.create_table(path, columns(chosen), partition_keys=keys, options=options)
        self.log = [f"seed {seed}: {chosen}, partitions {keys}, {self.format}"]

    @property
    def table(self) -> ll.Table:
        return ll.open_table(str(self.path))

    def step(self, number: int) -> None:
        kinds = ["ours", "java", "overwrite", "compact", "add", "rename"]
        kinds += ["dynamic"] if self.key else []
        kinds += ["spark"] * 2 if self.spark else []
        kind = "ours" if number == 1 else self.rng.choice(kinds)
        self.log.append(f"{number}: {kind}")
        getattr(self, f"by_{kind}" if kind in ("java", "spark") else kind)()

    def ours(self) -> None:
        self.table.append(self.decoded(self.drawn(self.rng.randint(1, 12))))

    def by_java(self) -> None:
        self.java.commit_rows(self.path, self.drawn(self.rng.randint(1, 12)))

    def by_spark(self) -> None:
        assert self.spark is not None
        self.spark.append(self.path, self.drawn(self.rng.randint(1, 12), spark=True), self.table.schema.fields)

    def overwrite(self) -> None:
        self.rows = []
        self.table.overwrite(self.decoded(self.drawn(self.rng.randint(1, 6))), partition={})

    def dynamic(self) -> None:
        before, self.rows = self.rows, []
        rows = self.decoded(self.drawn(self.rng.randint(1, 6)))
        replaced = [repr(row[str(self.key)]) for row in self.rows]
        self.rows += [row for row in before if repr(row[str(self.key)]) not in replaced]
        self.table.overwrite(rows, dynamic=True)

    def compact(self) -> None:
        self.table.compact(min_files=2)

    def add(self) -> None:
        name, domain = f"n{len(self.domains)}", self.rng.choice(self.names)
        self.table.alter(ll.add_column(name, ll.Schema(columns([domain])).fields[0].type))
        self.domains[name] = domain
        for row in self.rows:
            row[name] = None

    def rename(self) -> None:
        old = self.rng.choice([name for name in self.domains if name != self.key])
        new = f"r{len(self.log)}"
        self.table.alter(ll.rename_column(old, new))
        self.domains = {new if name == old else name: domain for name, domain in self.domains.items()}
        for row in self.rows:
            row[new] = row.pop(old)

    def drawn(self, count: int, spark: bool = False) -> list[list[Any]]:
        """New rows, which the table is to have, in the order of its columns. Few partitions among them."""
        for _ in range(count):
            row = {}
            for name, domain in self.domains.items():
                values = EVERY[domain][1][-3:] if name == self.key else EVERY[domain][1]
                value = None if self.rng.random() < 0.125 else storable(self.rng.choice(values), self.format)
                row[name] = for_spark(value) if spark else value
            self.rows.append(row)
        return self.in_order(self.rows[-count:])

    def in_order(self, rows: list[dict[str, Any]]) -> list[list[Any]]:
        names = [field.name for field in self.table.schema.fields]
        return [[row[name] for name in names] for row in rows]

    def decoded(self, rows: list[list[Any]]) -> Any:
        return decode_rows(rows, self.table.schema.fields)

    def check(self) -> None:
        table, rows = self.table, self.in_order(self.rows)
        assert_same_rows(encode_rows(table.to_arrow(), table.schema.fields), rows, "lakelatch")
        assert_same_rows(self.java.rows(self.path), rows, "Java")
        if self.spark is not None:
            assert_same_rows(self.spark.rows(self.path, table.schema.fields), rows, "Spark")
        assert table.verify("all", data=True) == []


@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_table(seed: int, tmp_path: Path, paimon_java: Any, spark_connector: SparkConnector | None) -> None:
    made = RandomTable(seed, tmp_path / "t", paimon_java, spark_connector)
    with taken(made, STEPS):
        made.check()
