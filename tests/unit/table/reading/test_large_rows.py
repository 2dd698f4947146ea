"""Rows of 256 MiB and columns of 4 GiB go in and come out, where Arrow's offsets of 32 bits end at 2 GiB."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lakelatch as ll

MIB = 1 << 20
COLUMNS = [("k", "BIGINT NOT NULL"), ("s", "STRING")]
KEYED = {"primary_key": ["k"], "options": {"bucket": "1"}}


def rows(first: int, letter: str, sizes: list[int]) -> pa.Table:
    texts = pa.array([letter * size for size in sizes], pa.large_string())
    return pa.table({"k": range(first, first + len(sizes)), "s": texts})


def sizes_of(table: ll.Table) -> dict[int, int]:
    """Key -> bytes of its text, without the text."""
    read = table.to_arrow()
    return dict(zip(read["k"].to_pylist(), pc.binary_length(read["s"]).to_pylist(), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("keyed", [False, True])
def test_rows_of_256_mib(tmp_path: Path, keyed: bool) -> None:
    table = ll.create_table(str(tmp_path / "t"), ll.Schema(COLUMNS), **(KEYED if keyed else {}))
    write = table.upsert if keyed else table.append
    write(rows(1, "a", [256 * MIB, 10]))
    write(rows(3, "b", [256 * MIB]))
    source = rows(1, "c", [256 * MIB + 1])
    table.merge(source, on=["k"]).when_matched_update_all().when_not_matched_insert_all().execute()
    for _ in range(2):
        assert sizes_of(table) == {1: 256 * MIB + 1, 2: 10, 3: 256 * MIB}
        table.compact(full=True)
    table.update(set={"s": "concat(s, '!')"}, where="k = 1")
    assert sizes_of(table)[1] == 256 * MIB + 2


@pytest.mark.slow
@pytest.mark.parametrize("keyed", [False, True])
def test_a_column_of_4_gib(tmp_path: Path, keyed: bool) -> None:
    table = ll.create_table(str(tmp_path / "t"), ll.Schema(COLUMNS), **(KEYED if keyed else {}))
    write = table.upsert if keyed else table.append
    for number, letter in enumerate("abcd"):
        write(rows(16 * number, letter, [66 * MIB] * 16))
    table.compact(full=True)
    assert sizes_of(table) == dict.fromkeys(range(64), 66 * MIB)
    assert sum(pc.sum(pc.binary_length(batch["s"])).as_py() for batch in table.to_reader()) == 64 * 66 * MIB
