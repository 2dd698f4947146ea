"""Conditions and values whose dates and times are those of a named zone."""

from __future__ import annotations

import datetime as dt
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.core.errors import InvalidArgument

UTC = dt.timezone.utc
NEW_YORK = "America/New_York"
SCHEMA = pa.schema(
    [pa.field("n", pa.int64(), False), ("t", pa.timestamp("us", "UTC")), ("l", pa.timestamp("us")), ("d", pa.date32())]
)


@pytest.fixture(params=["append", "keys"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> ll.Table:
    """Row 1 is the evening of 2023 in New York, row 2 the morning after; both are of 2024 in UTC."""
    keyed: dict[str, Any] = {"primary_key": ["n"], "options": {"bucket": "1"}} if request.param == "keys" else {}
    table = ll.create_table(str(tmp_path / "t"), SCHEMA, **keyed)
    moments = [dt.datetime(2024, 1, 1, 2, tzinfo=UTC), dt.datetime(2024, 1, 1, 12, tzinfo=UTC)]
    table.append(pa.table({"n": [1, 2], "t": moments, "l": pa.nulls(2), "d": pa.nulls(2)}))
    return table


def new_york(text: str) -> Any:
    return ll.in_zone(text, NEW_YORK)


@pytest.mark.parametrize(
    "text",
    [
        "t >= DATE '2024-01-01'",
        "t >= TIMESTAMP '2024-01-01 00:00:00'",
        "t >= '2024-01-01'",
        "t IN ('2024-01-01 07:00:00')",
        "t BETWEEN '2024-01-01' AND '2024-01-02'",
        "CAST(t AS DATE) = DATE '2024-01-01'",
        "YEAR(t) = 2024",
        "YEAR(t) = 2024 AND NOT (n + 0 = 9)",
        "n + 0 = 9 OR CAST(t AS DATE) = DATE '2024-01-01'",
    ],
)
def test_reads_and_deletes_take_the_zone_that_is_named(table: ll.Table, text: str) -> None:
    where = new_york(text)
    wanted = [2]
    assert table.to_arrow(where=where).column("n").to_pylist() == wanted
    assert table.to_arrow(where=ll.in_zone(text, "-05:00")).column("n").to_pylist() == wanted
    assert table.count(ll.in_zone(where, "Asia/Tokyo")) == 1, "the inner zone is the one that was meant"
    assert table.count(pickle.loads(pickle.dumps(where))) == 1
    assert table.delete(where=where).rows_deleted == 1  # type: ignore[attr-defined]
    assert table.to_arrow().column("n").to_pylist() == [1]


def test_parts_of_a_condition_may_have_zones_of_their_own(table: ll.Table) -> None:
    late, early = new_york("t >= DATE '2024-01-01'"), ll.in_zone("t < '2024-01-01 02:30'", "UTC")
    assert table.to_arrow(where=late & early).num_rows == 0
    assert table.to_arrow(where=late | early).num_rows == 2
    assert table.to_arrow(where=~late).column("n").to_pylist() == [1]


def test_an_update_computes_in_the_zone(table: ll.Table) -> None:
    given = {"t": new_york("'2024-06-01 12:00:00'"), "l": new_york("t"), "d": new_york("CAST(t AS DATE)")}
    table.update(where="n = 1", set=given)
    row = table.to_arrow(where="n = 1").to_pylist()[0]
    assert row["t"] == dt.datetime(2024, 6, 1, 16, tzinfo=UTC)
    assert (row["l"], row["d"]) == (dt.datetime(2023, 12, 31, 21), dt.date(2023, 12, 31))
    table.update(where="n = 1", set={"t": new_york("l")})
    assert table.to_arrow(where="n = 1").column("t")[0].as_py() == dt.datetime(2024, 1, 1, 2, tzinfo=UTC)


@pytest.mark.parametrize("given", [dt.date(2024, 6, 1), "2024-06-01", dt.datetime(2024, 6, 1, 4, tzinfo=UTC)])
def test_a_date_that_is_assigned_is_one_of_the_zone(table: ll.Table, given: Any) -> None:
    table.update(where="n = 1", set={"t": new_york(ll.lit(given))})
    assert table.to_arrow(where="n = 1").column("t").to_pylist() == [dt.datetime(2024, 6, 1, 4, tzinfo=UTC)]
    with pytest.raises(InvalidArgument, match="column 't'"):
        table.update(where="n = 1", set={"t": new_york(ll.lit(dt.datetime(2024, 6, 1)))})


def test_a_text_that_is_assigned_to_no_point_in_time_is_what_it_is_without_a_zone(table: ll.Table) -> None:
    given = {"l": new_york(ll.lit("2024-06-01 12:00:00")), "d": new_york("DATE ' 2024-06-01 '")}
    table.update(where="n = 1", set=given | {"t": new_york(ll.lit("2024-06-01 12:00:00"))})
    row = table.to_arrow(where="n = 1").to_pylist()[0]
    assert (row["l"], row["d"]) == (dt.datetime(2024, 6, 1, 12), dt.date(2024, 6, 1))
    assert row["t"] == dt.datetime(2024, 6, 1, 16, tzinfo=UTC)


def test_a_text_beside_a_computed_value_is_one_of_the_zone(table: ll.Table) -> None:
    given = {"d": new_york("CAST(t AS DATE)"), "t": new_york(ll.lit("2024-06-01 12:00:00"))}
    table.update(where="n = 1", set=given)
    row = table.to_arrow(where="n = 1").to_pylist()[0]
    assert (row["d"], row["t"]) == (dt.date(2023, 12, 31), dt.datetime(2024, 6, 1, 16, tzinfo=UTC))


def test_a_merge_takes_it_in_clauses_and_values(table: ll.Table) -> None:
    merge = table.merge(pa.table({"n": [1, 2]}), on=["n"])
    given = {"t": new_york("TIMESTAMP '2024-01-01 00:00:00'")}
    merge.when_matched_update(given, condition=new_york("t.t < DATE '2024-01-01'")).execute()
    assert table.to_arrow(where="n = 1").column("t")[0].as_py() == dt.datetime(2024, 1, 1, 5, tzinfo=UTC)
    assert table.to_arrow(where="n = 2").column("t")[0].as_py() == dt.datetime(2024, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("given", "zone", "told"),
    [
        ("t > DATE '2024-01-01'", "Mars/Olympus", "time_zone 'Mars/Olympus' is not known"),
        ("t > DATE '2024-01-01'", "+2", "time_zone '+2' is not known"),
        ("t > DATE '2024-01-01'", None, "time_zone None is not text"),
        (5, "UTC", "expression is 5"),
        ("t > ", "UTC", "expression, position 5"),
    ],
)
def test_what_names_no_zone_is_refused(given: Any, zone: Any, told: str) -> None:
    with pytest.raises(InvalidArgument) as raised:
        ll.in_zone(given, zone)
    assert raised.value.message.startswith(told)


def test_without_a_zone_it_is_said_how_to_name_one(table: ll.Table) -> None:
    with pytest.raises(InvalidArgument, match="in_zone"):
        table.count("YEAR(t) = 2024")
