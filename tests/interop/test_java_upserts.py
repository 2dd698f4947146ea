"""Tables with a primary key that lakelatch and Apache Paimon (Java) write in turns: all snapshots' rows, and the files (G8).

A seed gives the same history again; `LAKELATCH_NIGHTLY=1` runs many more. On failure the changes are printed.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from figures import NIGHTLY
from golden.test_key_files import facts
from interop.agreement import our_rows
from interop.domains import ATOMIC, storable
from interop.random_steps import taken
from key_schemas import COLUMNS, REFUSED
from values import Row, assert_same_rows, decode_rows, encode_column

import lakelatch as ll
from lakelatch.backends.local import LocalStore
from lakelatch.core.metadata.data_file import ADD, ManifestEntry
from lakelatch.core.metadata.schemas.merge_rules import row_fields
from lakelatch.core.metadata.snapshot import Snapshot
from lakelatch.core.places import FileKeys
from lakelatch.table.reading.run_reader import RunReader

pytestmark = pytest.mark.java

SEEDS = range(400 if NIGHTLY else 6)
EVERY_KIND = ("+I", "+I", "+U", "-U", "-D")
ADDS = ("+I", "+U")
ENGINES: list[tuple[dict[str, str], tuple[str, ...]]] = [
    ({}, EVERY_KIND),
    ({"ignore-delete": "true"}, EVERY_KIND),
    ({"ignore-update-before": "true"}, EVERY_KIND),
    ({"sequence.field": "v"}, EVERY_KIND),
    ({"sequence.field": "v,s"}, EVERY_KIND),
    ({"merge-engine": "first-row", "ignore-delete": "true"}, EVERY_KIND),
    ({"merge-engine": "partial-update"}, ADDS),
    ({"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"}, EVERY_KIND),
    ({"merge-engine": "partial-update", "fields.v.sequence-group": "s,w"}, EVERY_KIND),
    ({"merge-engine": "aggregation", "fields.v.aggregate-function": "sum", "fields.s.aggregate-function": "max"}, ADDS),
    (
        {
            "merge-engine": "aggregation",
            "fields.v.aggregate-function": "sum",
            "fields.s.aggregate-function": "last_value",
        },
        EVERY_KIND,
    ),
    ({"merge-engine": "aggregation", "aggregation.remove-record-on-delete": "true"}, ("+I", "-D")),
]
"""The options of each engine, and the kinds of rows that it takes."""
KEYS = ["i32", "i64", "st", "d9", "d28", "dt", "ts3", "ts6", "bo", "i8", "f64", "by", "tm3"]
"""Java takes NaN and -0.0 for equal to other numbers when it sorts keys, and merges their rows with those of others."""
OTHERS = ["ts9", "d38", "v8", "vc"]
CHOICES: dict[str, list[str]] = {
    "data-file.thin-mode": ["true"],
    "changelog-producer": ["input"],
    "metadata.stats-mode": ["none", "counts", "full", "truncate(2)"],
    "metadata.stats-mode.per.level": ["0:none"],
    "file.format.per.level": ["0:avro,5:orc"],
    "file.compression.per.level": ["0:snappy"],
    "changelog-file.format": ["avro"],
    "changelog-file.stats-mode": ["none"],
    "metadata.stats-keep-first-n-columns": ["2"],
}


class KeyHistory:
    """One seed: two tables with the same commits, by Java alone in one of them, and by both sides in turns in the other."""

    def __init__(self, seed: int, folder: Path, java: Any) -> None:
        self.rng, self.java = random.Random(f"upserts {seed}"), java
        rng = self.rng
        self.alone, self.mixed = folder / "alone", folder / "mixed"
        engine, self.kinds = ENGINES[seed % len(ENGINES)]
        self.format = rng.choice(["parquet", "orc", "avro"])
        self.keys = rng.sample(KEYS, rng.choice([1, 1, 2]))
        self.more = rng.sample(OTHERS, 1)
        chosen = {key: rng.choice(values) for key, values in CHOICES.items() if rng.random() < 0.25}
        if engine.get("merge-engine") == "first-row":
            chosen.pop("changelog-producer", None)
        options = {"bucket": rng.choice("123"), "write-only": "true", "file.format": self.format, **chosen, **engine}
        if "avro" in {self.format, *"".join(chosen.values()).split(":")} or "file.format.per.level" in chosen:
            self.more = ["v8"]
        self.partitions = ["p"] if rng.random() < 0.4 else []
        columns = [*((f"k{n}", ATOMIC[n][0]) for n in self.keys), ("v", "BIGINT"), ("s", "STRING"), ("w", "INT")]
        columns += [("p", "INT"), *((n, ATOMIC[n][0]) for n in self.more)]
        keys = [*self.partitions, *(f"k{n}" for n in self.keys)]
        rng.shuffle(keys)
        java.create_table(self.alone, columns, partition_keys=self.partitions, primary_keys=keys, options=options)
        if rng.random() < 0.5:
            java.create_table(self.mixed, columns, partition_keys=self.partitions, primary_keys=keys, options=options)
        else:
            ll.create_table(
                str(self.mixed), ll.Schema(columns), partition_by=self.partitions, primary_key=keys, options=options
            )
        self.log = [f"seed {seed}: {columns}, keys {keys}, partitions {self.partitions}, {options}"]
        self.ours = 0

    def row(self) -> Row:
        def value(name: str) -> Any:
            found = [storable(v, "orc") for v in ATOMIC[name][1] if not isinstance(v, str) or len(v) < 100]
            return self.rng.choice([v for v in found if v not in (None, "NaN", "-0.0")][:4])

        rng = self.rng
        keys = [value(n) for n in self.keys]
        rest = [
            rng.choice([None, 1, 2, 3]),
            rng.choice([None, "a", "b", ""]),
            rng.choice([None, 7, 8]),
            rng.choice([1, 2]),
        ]
        return [*keys, *rest, *(rng.choice([None, value(n)]) for n in self.more)]

    def step(self, number: int) -> None:
        count = self.rng.randint(1, 12)
        rows = [self.row() for _ in range(count)]
        kinds = ["+I", *(self.rng.choice(self.kinds) for _ in rows[1:])]
        by_us = self.rng.random() < 0.7 or number == 2
        self.log.append(f"{number}: by {'us' if by_us else 'Java'} {list(zip(kinds, rows, strict=True))}")
        self.java.commit_rows(self.alone, rows, identifier=number, kinds=kinds)
        if not by_us:
            self.java.commit_rows(self.mixed, rows, identifier=number, kinds=kinds)
            return
        self.ours += 1
        table = ll.open_table(str(self.mixed))
        data = decode_rows(rows, table.schema.fields).append_column("op", pa.array(kinds))
        table.upsert(data, row_kind="op")

    def compact(self) -> None:
        self.log.append("both compact")
        for path in (self.alone, self.mixed):
            self.java.compact(path, identifier=99)


def assert_same_files(ours: ll.Table, theirs: ll.Table, at: tuple[Snapshot, Snapshot], where: str) -> None:
    """What an APPEND wrote: data files and changelog files have the same rows, and the manifest says the same of them.

    Sequence numbers are counted from the first one of their bucket.
    """
    for what in ("data", "changelog"):
        found = [
            stored(table, added(table, snapshot, what)) for table, snapshot in zip((ours, theirs), at, strict=True)
        ]
        for (place, rows, told), (their_place, their_rows, their_told) in zip(*found, strict=True):
            assert place == their_place, f"{what}, {where}"
            assert rows == their_rows, f"{what} of {place}, {where}"
            for fact in told:
                assert repr(told[fact]) == repr(their_told[fact]), (
                    f"{fact}: {what} of {place}, {where}"
                )  # NaN is not NaN


def added(table: ll.Table, snapshot: Snapshot, what: str) -> list[ManifestEntry]:
    """The entries of the data files, or of the changelog files, of a snapshot."""
    timeline, changelog = table.timeline, snapshot.changelog_manifest_list
    manifests = timeline.delta_manifests(snapshot)
    if what == "changelog":
        manifests = timeline.manifest_list(changelog) if changelog else ()
    return [e for e in timeline.entries(manifests) if e.kind == ADD]


def stored(table: ll.Table, entries: Sequence[ManifestEntry]) -> list[tuple[Any, list[Any], dict[str, Any]]]:
    """Files by bucket: their rows, and what the manifest says of them."""
    schema, store, found = table.schema, LocalStore(table.url.removeprefix("file://")), []
    reader = RunReader(row_fields(schema), {schema.id: schema}, schema.options)
    for entry in sorted(entries, key=lambda e: (e.partition, e.bucket)):
        file, first = entry.file, entry.file.min_sequence_number
        ((_, rows),) = reader.rows({file: (store, FileKeys(schema).data(entry)[0])}, None, True)
        columns = [encode_column(rows.column(f.name), f.type) for f in row_fields(schema)]
        columns[0] = [number - first for number in columns[0]]
        counted = file._replace(min_sequence_number=0, max_sequence_number=file.max_sequence_number - first)
        place = (entry.partition, entry.bucket, entry.total_buckets)
        found.append((place, list(zip(*columns, strict=True)), facts(counted, schema)))
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_random_upserts_by_both_sides(seed: int, tmp_path: Path, paimon_java: Any) -> None:
    """The same rows and kinds give the same rows at every snapshot, and file by file the same merged rows, changelogs and
    metadata, whoever writes them, and whoever wrote before.
    """
    history = KeyHistory(seed, tmp_path, paimon_java)
    with taken(history, 5):
        if seed % 3 == 0:
            history.compact()
            history.step(6)
        mixed, alone = ll.open_table(str(history.mixed)), ll.open_table(str(history.alone))
        assert history.ours
        for snapshot, theirs in zip(mixed.snapshots(), alone.snapshots(), strict=True):
            where = f"snapshot {snapshot.id}"
            rows = paimon_java.rows(history.alone, snapshot=snapshot.id)
            assert_same_rows(paimon_java.rows(history.mixed, snapshot=snapshot.id), rows, f"Java, {where}")
            assert_same_rows(our_rows(mixed.at(snapshot=snapshot.id)), rows, f"lakelatch, {where}")
            assert snapshot.changelog_record_count == theirs.changelog_record_count
            if snapshot.commit_kind == "APPEND":
                assert_same_files(mixed, alone, (snapshot, theirs), where)
        assert mixed.verify("all", data=True) == []


@pytest.mark.parametrize(("keys", "partitions", "options", "said"), REFUSED)
def test_java_refuses_the_schemas_that_we_refuse(
    keys: Sequence[str], partitions: Sequence[str], options: dict[str, str], said: str, tmp_path: Path, paimon_java: Any
) -> None:
    import jpype

    columns = [
        (name, kind) if "ARRAY" not in kind else (name, {"type": "ARRAY", "element": "INT"}) for name, kind in COLUMNS
    ]

    def made_and_written() -> None:
        paimon_java.create_table(tmp_path / "t", columns, partitions, keys, options)
        paimon_java.commit_rows(tmp_path / "t", [[1, 1, 1, "a", []]])

    with pytest.raises(jpype.JException):
        made_and_written()
