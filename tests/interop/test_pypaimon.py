"""pypaimon 2.1 reads lakelatch's tables and commits on top of them, and lakelatch reads the result (G8).

What pypaimon cannot do is listed here with the reason, and asked for all the same: the day it can, the test says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from golden_filters import golden_predicate
from interop import pypaimon_env
from interop.agreement import assert_agreed, our_rows
from interop.domains import ATOMIC, EVERY, PARTITIONS, columns, edge_rows, has_year
from interop.filters import filters_of, kept, order_of
from interop.histories import BUSY_MANIFESTS, HISTORY_COLUMNS, long_history
from interop.ledger import COMPACT, Java, Lakelatch, Ledger, Pypaimon, append, overwrite
from interop.pypaimon_env import PypaimonError, Read, Write
from values import Row, assert_same_rows, decode_rows, encode_rows

import lakelatch as ll

NO_SUCH_TYPE = {"ms": "MULTISET"}
"""Columns whose type pypaimon does not know: it opens no table with one."""
OTHER_FOLDERS = {
    "fl": "Python's spelling of numbers (nan, inf, 1e-45), where Java's is in the folders' names",
    "do": "the same",
    "ts9": "datetime has microseconds only: it looks for the folder of another moment",
    "tz9": "the same",
}
"""Partition columns whose folders pypaimon does not find."""
NOT_WRITTEN = {
    "ts0": "it wants seconds from Arrow for TIMESTAMP(0), and Arrow's Parquet has none",
    "tz0": "the same",
    "ms": "MULTISET",
}
"""Columns that pypaimon does not append to."""


def assert_pypaimon_reads(reads: Sequence[Read], expected: Sequence[Sequence[Row]], but: Sequence[str] = ()) -> None:
    """The rows of each read; those of the tables named in `but` must be refused or wrong, or the list is out of date."""
    for read, found, rows in zip(reads, pypaimon_env.read_all(reads), expected, strict=True):
        name = Path(read.path).name
        if name in but:
            assert isinstance(found, PypaimonError) or found != rows, f"pypaimon has learnt to read {name}"
            continue
        if isinstance(found, PypaimonError):
            raise found
        assert_same_rows(found, rows, f"pypaimon, {name} at {read.snapshot}")


# ------------------------------------------------------------------------------------------------------------ reading


def test_every_type(tmp_path: Path) -> None:
    """G8: each type alone, and all of them in one table."""
    names = [name for name in EVERY if name not in NO_SUCH_TYPE]
    every = ll.create_table(str(tmp_path / "every"), ll.Schema(columns(names)))
    every.append(decode_rows(edge_rows(names), every.schema.fields))
    reads, expected = [Read(tmp_path / "every"), Read(tmp_path / "every", snapshot=1)], [edge_rows(names)] * 2
    for name, (data_type, values) in EVERY.items():
        table = ll.create_table(str(tmp_path / name), ll.Schema([(name, data_type)]))
        rows = [[value] for value in [*values, None]]
        table.append(decode_rows(rows, table.schema.fields))
        reads.append(Read(tmp_path / name))
        expected.append(rows)
    assert_pypaimon_reads(reads, expected, but=list(NO_SUCH_TYPE))


def test_partitions_of_every_type(tmp_path: Path) -> None:
    """G8: pypaimon finds the folders too, by both spellings."""
    reads, expected = [], []
    for legacy in ("true", "false"):
        for name, (data_type, values) in PARTITIONS.items():
            path = tmp_path / legacy / name
            schema = ll.Schema([("id", "INT"), ("p", data_type)])
            table = ll.create_table(str(path), schema, partition_by="p", options={"partition.legacy-name": legacy})
            near = [value for value in values if has_year(value, 1, 9999)]  # those that Python's `datetime` has
            rows = [[i, value] for i, value in enumerate([*near, None])]
            table.append(decode_rows(rows, schema.fields))
            reads.append(Read(path))
            expected.append(rows)
    assert_pypaimon_reads(reads, expected, but=list(OTHER_FOLDERS))


def test_histories(tmp_path: Path) -> None:
    """G8: every snapshot of a long history, by every codec, with manifests compacted minor and full."""
    reads, expected = [], []
    for codec in ("zstd", "none", "snappy", "gzip", "lz4"):
        options = BUSY_MANIFESTS | {"file.compression": codec}
        ll.create_table(str(tmp_path / codec), ll.Schema(HISTORY_COLUMNS), partition_by="p", options=options)
        ledger = Ledger(tmp_path / codec)
        long_history(ledger, Lakelatch(warm=True))
        chosen = list(ledger.expected) if codec == "zstd" else list(ledger.expected)[::9]
        reads += [Read(ledger.path, snapshot=i) for i in chosen]
        expected += [ledger.expected[i] for i in chosen]
    assert_pypaimon_reads(reads, expected)


# ------------------------------------------------------------------------------------------------------------ writing


@pytest.mark.java
def test_turns_of_three(tmp_path: Path, paimon_java: Any) -> None:
    """G8: lakelatch, pypaimon and Java change one table in turns; each of them reads every snapshot the same."""
    ll.create_table(str(tmp_path / "t"), ll.Schema(HISTORY_COLUMNS), partition_by="p", options=BUSY_MANIFESTS)
    ledger, ours, java, python = Ledger(tmp_path / "t"), Lakelatch(), Java(paimon_java), Pypaimon()

    def row(i: int, partition: str | None) -> list[Any]:
        return [i, partition, f"s{i}", i / 2, "2024-01-01T00:00:00.123000000"]

    for turn in range(2):
        i = 10 * turn
        ledger.change(ours, append([row(i, "a"), row(i, "b")], commit_user="etl", identifier=turn))
        ledger.change(python, append([row(i + 1, "a"), row(i + 1, None)]))
        ledger.change(java, append([row(i + 2, "a")]))
        ledger.change(python, overwrite([row(i + 3, "b")], {"p": "b"}))
        ledger.change(ours, overwrite([row(i + 4, "a")], {"p": "a"}))
        ledger.change(java, COMPACT)
        ledger.change(ours, append([row(i + 5, "b")]))
    ledger.change(python, append([row(100, "z")]))
    again = ll.open_table(str(ledger.path)).append(
        decode_rows([row(0, "a")], ledger.fields), commit_user="etl", identifier=1
    )
    assert again.replayed
    assert_agreed(paimon_java, ledger.path, ledger.expected)
    reads = [Read(ledger.path, snapshot=i) for i in ledger.expected]
    assert_pypaimon_reads(reads, [ledger.expected[i] for i in ledger.expected])


def test_files_that_pypaimon_writes(tmp_path: Path) -> None:
    """G8, G1: lakelatch reads them, of every type, and its filters lose no row by pypaimon's statistics."""
    tables, writes = {}, []
    for name, (data_type, values) in EVERY.items():
        tables[name] = ll.create_table(str(tmp_path / name), ll.Schema([(name, data_type)]))
        writes.append(Write(tmp_path / name, decode_rows([[v] for v in [*values, None]], tables[name].schema.fields)))
    failures = dict(zip(EVERY, pypaimon_env.write_all(writes), strict=True))
    assert [name for name, failure in failures.items() if failure is not None] == list(NOT_WRITTEN)
    for name in [name for name in EVERY if name not in NOT_WRITTEN]:
        table, rows = tables[name], [[value] for value in [*EVERY[name][1], None]]
        assert_same_rows(our_rows(table), rows, name)
        assert table.verify("all", data=True) == []
        if name in ATOMIC:
            (field,) = table.schema.fields
            for filter_ in filters_of(field, sorted(ATOMIC[name][1], key=order_of(field))):
                found = table.to_arrow(where=golden_predicate(filter_, {name: field.type}))
                assert_same_rows(encode_rows(found, [field]), kept(rows, filter_, [field]), str(filter_)[:100])
