"""What is found out about the columns of small files holds for the later files of a job (decision 112)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakelatch as ll
from lakelatch.core.rows.types import AtomicType, Field
from lakelatch.table.formats.parquet import writer as parquet_writer
from lakelatch.table.formats.parquet.writer import LOOKS, Chosen, Encodings, ParquetCodec, ParquetForm

FIELDS = [Field(0, "id", AtomicType("BIGINT")), Field(1, "city", AtomicType("BIGINT"))]


def rows(count: int, *, cities: int = 3) -> pa.Table:
    return pa.table({"id": range(count), "city": [n % cities for n in range(count)]})


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of rows of the files that were looked at."""
    seen: list[int] = []
    look = parquet_writer.overflowing_columns

    def looked(first_rows: Any) -> Any:
        seen.append(first_rows.num_rows)
        return look(first_rows)

    monkeypatch.setattr(parquet_writer, "overflowing_columns", looked)
    return seen


def encodings() -> Encodings:
    return Encodings(ParquetForm.of(FIELDS), ParquetCodec("zstd", 1, True))


def test_small_files_of_about_as_many_rows_are_looked_at_a_few_times(looks: list[int]) -> None:
    chosen = encodings()
    for _ in range(3 * LOOKS):
        assert list(chosen.of(rows(600)).plain) == ["id"]
    for _ in range(2 * LOOKS):
        assert list(chosen.of(rows(5000)).plain) == ["id"]
    assert looks == [600] * LOOKS + [5000] * LOOKS


def test_each_large_file_is_looked_at(looks: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_writer, "SMALL_ROWS", 5000)
    chosen = encodings()
    for count in (5000, 5001):
        for _ in range(2 * LOOKS):
            chosen.of(rows(count))
    assert looks == [5000] * LOOKS + [5001] * 2 * LOOKS


@pytest.mark.parametrize(("odd", "plain"), [(LOOKS // 2, {"id"}), (LOOKS // 2 + 1, {"id", "city"})])
def test_what_most_files_need_is_chosen(odd: int, plain: set[str]) -> None:
    chosen = encodings()
    for number in range(LOOKS):
        chosen.of(rows(600, cities=600 if number < odd else 3))
    assert set(chosen.of(rows(600)).plain) == plain


def test_a_codec_is_chosen_once_too() -> None:
    """Numbers without a pattern are not compressed, in the ninth file as in the first."""
    hashes = rows(5000).set_column(0, "id", pa.array([hash((n, "x" * (n % 7))) for n in range(5000)], pa.int64()))
    chosen = encodings()
    for _ in range(LOOKS + 1):
        assert set(chosen.of(hashes).packed) == {"city"}


class Listed(tuple[str, ...]):
    def __contains__(self, name: object) -> bool:
        raise AssertionError("a search in a list for each column takes the square of their number")


def test_a_file_of_many_columns_takes_linear_time(monkeypatch: pytest.MonkeyPatch) -> None:
    form, chosen = ParquetForm.of(FIELDS), encodings()
    monkeypatch.setattr(chosen, "of", lambda first_rows: Chosen(frozenset(), Listed(("city",))))
    made = pa.BufferOutputStream()
    with form.writer(made, chosen, rows(5)) as writer:
        writer.write_table(form.stored(rows(5).cast(form.arrow)))
    group = pq.ParquetFile(made.getvalue()).metadata.row_group(0)
    assert [group.column(n).compression for n in range(2)] == ["UNCOMPRESSED", "ZSTD"]


def test_files_of_many_partitions_hold_their_rows_and_a_new_job_looks_again(tmp_path: Path, looks: list[int]) -> None:
    parts = 3 * LOOKS
    data = rows(parts * 100, cities=parts)
    table = ll.create_table(str(tmp_path / "t"), data.schema, partition_by=["city"], storage_options={"fsync": False})
    for job in (1, 2):
        table.append(data)
        assert len(looks) == job * LOOKS
    assert table.to_arrow().sort_by("id") == pa.concat_tables([data, data]).sort_by("id")
    files = [pq.ParquetFile(file).metadata.row_group(0).column(0) for file in tmp_path.rglob("data-*.parquet")]
    assert len(files) == 2 * parts
    assert not any("RLE_DICTIONARY" in column.encodings for column in files)
