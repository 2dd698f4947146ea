"""A new table that is like another one; batches of a size that the caller chooses."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.core.errors import InvalidArgument, TableNotFound

SQL = "day DATE NOT NULL, id BIGINT NOT NULL, name VARCHAR(9), parts ARRAY<ROW<a INT, b CHAR(2)>>"


@pytest.fixture
def model(tmp_path: Path) -> ll.Table:
    options = {"bucket": "2", "merge-engine": "partial-update", "data-file.external-paths": f"file:{tmp_path}/far"}
    options["data-file.external-paths.strategy"] = "round-robin"
    url, keys = str(tmp_path / "model"), ["day", "id"]
    table = ll.create_table(url, SQL, partition_by="day", primary_key=keys, options=options, comment="people")
    table.alter(ll.update_comment("name", "in full"), ll.drop_column("parts"), ll.add_column("city", "STRING"))
    return table


@pytest.mark.parametrize("given", ["table", "url", "name"])
def test_a_table_like_another_has_all_but_its_rows_and_places(model: ll.Table, tmp_path: Path, given: str) -> None:
    if given == "name":
        lake = ll.open_catalog(str(tmp_path / "lake"))
        lake.create_database("db")
        lake.create_table("db.first", like=model)
        made = lake.create_table("db.second", like="db.first")
    else:
        made = ll.create_table(str(tmp_path / "made"), like=model if given == "table" else model.url)
    assert made.arrow_schema == model.arrow_schema
    assert [f.description for f in made.schema.fields] == [f.description for f in model.schema.fields]
    assert (made.schema.partition_keys, made.schema.primary_keys) == (("day",), ("day", "id"))
    assert (made.options, made.schema.comment) == ({"bucket": "2", "merge-engine": "partial-update"}, "people")
    rows = pa.table({"day": ["2024-01-01"], "id": [1], "name": ["x"], "city": ["Oslo"]})
    made.upsert(rows)
    assert made.count() == 1 and model.count() == 0
    assert made.alter(ll.add_column("more", "INT")).names[-1] == "more"


def test_what_is_given_goes_before_the_model(model: ll.Table, tmp_path: Path) -> None:
    about = {"partition_by": [], "primary_key": "id", "options": {"bucket": "1"}, "comment": "others"}
    made = ll.create_table(str(tmp_path / "made"), like=model, **about)  # type: ignore[arg-type]
    assert (made.schema.partition_keys, made.schema.primary_keys) == ((), ("id",))
    assert (made.options["bucket"], made.schema.comment) == ("1", "others")


def test_a_model_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(TableNotFound):
        ll.create_table(str(tmp_path / "made"), like=str(tmp_path / "none"))
    with pytest.raises(InvalidArgument, match="URL 5 is not text"):
        ll.create_table(str(tmp_path / "made"), like=5)  # type: ignore[arg-type]
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(("size", "found"), [(7, [7, 7, 6]), (20, [20]), (10**9, [20]), (None, [20])])
def test_batches_have_at_most_as_many_rows_as_asked(tmp_path: Path, size: int | None, found: list[int]) -> None:
    table = ll.create_table(str(tmp_path / "t"), {"id": "BIGINT"})
    table.append(pa.table({"id": range(20)}))
    batches = list(table.to_batches(batch_size=size))
    assert [batch.num_rows for batch in batches] == found
    assert pa.Table.from_batches(batches).column("id").to_pylist() == list(range(20))
    assert sum(batch.num_rows for batch in table.to_batches([], batch_size=size)) == 20
    assert [b.num_rows for b in table.to_batches(limit=3, batch_size=2)] == [2, 1]
