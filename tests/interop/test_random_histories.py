"""Random tables, random changes by either side: Java, lakelatch and a list of rows agree about every snapshot (G1, G6, G8).

A seed gives the same history again; `LAKELATCH_NIGHTLY=1` runs 200. On failure the changes are printed.
"""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest
from interop.agreement import assert_agreed, assert_filters_agree
from interop.domains import ATOMIC, EVERY, columns, is_far, random_rows
from interop.filters import java_filters_of, order_of
from interop.histories import BUSY_MANIFESTS
from interop.ledger import COMPACT, COMPACT_MANIFESTS, TRUNCATE, Change, Java, Lakelatch, Ledger, Spec, Writer
from values import Row

import lakelatch as ll
from lakelatch.core.rows.types import Field

pytestmark = pytest.mark.java

SEEDS = range(200 if os.environ.get("LAKELATCH_NIGHTLY") else 6)
PARTITION_NAMES = ["bo", "i8", "i32", "i64", "d9", "d28", "ch", "dt", "tm3", "ts0", "ts3", "ts6", "tz3"]
CHOICES: dict[str, list[str]] = {
    "file.compression": ["zstd", "none", "snappy", "gzip", "lz4"],
    "metadata.stats-mode": ["none", "counts", "full", "truncate(16)", "truncate(2)"],
    "metadata.stats-dense-store": ["true", "false"],
    "partition.legacy-name": ["true", "false"],
    "target-file-size": ["1 kb", "256 mb"],
    "file.suffix.include.compression": ["true", "false"],
}


EXTERNAL = "data-file.external-paths"
STRATEGIES = ["round-robin", "entropy-inject", "none"]


class History:
    """One seed: a table, and changes to it as they are drawn."""

    def __init__(self, seed: int, path: Path, java: Any) -> None:
        self.rng, self.java, self.path = random.Random(seed), java, path
        rng = self.rng
        self.keys = rng.sample(PARTITION_NAMES, rng.choice([0, 1, 1, 2]))
        others = rng.sample([n for n in EVERY if n not in self.keys], rng.randint(2, 5))
        self.names = [*others, *self.keys]
        rng.shuffle(self.names)
        options = {key: rng.choice(values) for key, values in CHOICES.items() if rng.random() < 0.5}
        options |= BUSY_MANIFESTS if rng.random() < 0.7 else {}
        bucket_keys = [n for n in others if n in ATOMIC]
        self.bucketed = bool(bucket_keys) and rng.random() < 0.3
        if self.bucketed:  # write-only: else Java compacts by itself, in a snapshot of its own
            options |= {"bucket": rng.choice("137"), "bucket-key": rng.choice(bucket_keys), "write-only": "true"}
        elif rng.random() < 0.3:
            options["row-tracking.enabled"] = "true"
        if rng.random() < 0.3:
            options |= {EXTERNAL: f"file:{path.parent / 'elsewhere'}", f"{EXTERNAL}.strategy": rng.choice(STRATEGIES)}
        if rng.random() < 0.5:
            ll.create_table(str(path), ll.Schema(columns(self.names)), partition_by=self.keys, options=options)
        else:
            if rng.random() < 0.4:
                options["manifest.format"] = rng.choice(["orc", "parquet"])
            java.create_table(path, columns(self.names), partition_keys=self.keys, options=options)
            ll.allow(path, path.parent / "elsewhere")
        self.ledger = Ledger(path)
        self.writers: list[Writer] = [Lakelatch(), Lakelatch(warm=True), Lakelatch(warm=True), Java(java)]
        self.log = [f"seed {seed}: {self.names}, partitions {self.keys}, {options}"]

    def run(self, count: int) -> None:
        for _ in range(count):
            writer = self.rng.choice(self.writers)
            change = self.draw(isinstance(writer, Java))
            self.log.append(f"{type(writer).__name__}: {change.kind} {[len(r) for r in change.rows]} {change.specs}")
            self.ledger.change(writer, change)

    def draw(self, by_java: bool) -> Change:
        """A change that the writer has, of rows that it takes."""
        rng = self.rng
        kinds = ["append"] * 5 + ["overwrite", "truncate" if rng.random() < 0.3 else "overwrite"]
        kinds += ["dynamic", "drop"] if self.keys else []
        kinds += ["compact_manifests"] if by_java else []
        if not (by_java and self.bucketed):  # Java is asked to compact tables without buckets only
            kinds += ["compact"]
        match rng.choice(kinds):
            case "append":
                parts = rng.randint(1, 1 if by_java else 3)
                return Change("append", tuple(self.rows(rng.randint(1, 6)) for _ in range(parts)))
            case "overwrite":
                spec = self.spec() if self.keys and rng.random() < 0.8 else {}
                return Change("overwrite", (self.rows(rng.randint(0, 4), spec),), (spec,))
            case "dynamic":
                return Change("dynamic", (self.rows(rng.randint(1, 4)),))
            case "drop":
                return Change("drop", specs=tuple(self.spec() for _ in range(rng.randint(1, 3))))
            case "truncate":
                return TRUNCATE
            case "compact":
                return COMPACT
            case _:
                return COMPACT_MANIFESTS

    def rows(self, count: int, spec: Spec | None = None) -> list[Row]:
        """Random rows, few partitions among them; with `spec` those of one partition."""
        found = []
        for row in random_rows(self.rng, self.names, count):
            values = dict(zip(self.names, row, strict=True))
            for key in self.keys:
                # Not those far away, which Java cannot parse as the name of a partition.
                values[key] = self.rng.choice([None, *[v for v in EVERY[key][1] if not is_far(v)][-2:]])
            found.append(list((values | (spec or {})).values()))
        return found

    def spec(self) -> Spec:
        """A partition that is there, in whole or in part; else one that may be. Java takes a blank one for null."""
        rng = self.rng
        chosen = rng.sample(self.keys, rng.randint(1, len(self.keys)))
        row = rng.choice(self.ledger.rows) if self.ledger.rows else self.rows(1)[0]
        return {key: row[self.names.index(key)] for key in chosen}

    def check(self) -> None:
        ledger, rng = self.ledger, self.rng
        assert_agreed(self.java, self.path, ledger.expected)
        fields = [f for f in ledger.fields if f.name in ATOMIC]
        for snapshot in rng.sample(sorted(ledger.expected), min(3, len(ledger.expected))):
            filters = [rng.choice(java_filters_of(f, self.literals(f))) for f in fields]
            assert_filters_agree(self.java, self.path, ledger.expected[snapshot], filters, snapshot=snapshot)

    def literals(self, field: Field) -> list[Any]:
        return sorted(self.rng.sample(ATOMIC[field.name][1], 2), key=order_of(field))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_history(seed: int, tmp_path: Path, paimon_java: Any) -> None:
    """G1, G6, G8: no row is lost and no deleted row returns, in whichever order the writers commit."""
    history = History(seed, tmp_path / "t", paimon_java)
    try:
        history.run(count=10)
        history.check()
    except BaseException:
        print("\n".join(history.log))
        raise
