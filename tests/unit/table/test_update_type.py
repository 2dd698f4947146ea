"""A change of a column's type is made only if the stored values are shown to survive it, or with `force=True`."""

from __future__ import annotations

from itertools import count
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.core.errors import InvalidArgument, LakelatchError

COUNTER = count()


def table_of(kind: Any, values: list[Any] | None, **options: str) -> ll.Table:
    url = f"memory://update-type-{next(COUNTER)}/t"
    table = ll.create_table(url, ll.Schema([("k", "INT"), ("v", kind)]), options=options)
    if values is not None:
        table.append(rows(table, values))
    return table


def rows(table: ll.Table, values: list[Any]) -> pa.Table:
    numbers = pa.array(range(len(values)), pa.int32())
    return pa.table({"k": numbers, "v": pa.array(values, table.arrow_schema.field("v").type)})


def read(table: ll.Table) -> list[Any]:
    found: list[Any] = table.to_arrow().sort_by("k")["v"].to_pylist()
    return found


KEPT: list[tuple[str, list[Any], str]] = [
    ("INT", [1, -5, None], "BIGINT"),
    ("BIGINT", [1, 2**31 - 1], "INT"),
    ("BIGINT", [-128, 127], "TINYINT"),
    ("BIGINT", [0, 2**53], "DOUBLE"),
    ("INT", [0, 1, None], "BOOLEAN"),
    ("INT", [999], "DECIMAL(5, 2)"),
    ("INT", [-7, 12], "STRING"),
    ("INT", [-(2**31)], "VARCHAR(11)"),
    ("DECIMAL(9, 2)", ["99.99"], "DECIMAL(4, 2)"),
    ("DECIMAL(9, 0)", ["127"], "TINYINT"),
    ("BOOLEAN", [True, False], "INT"),
    ("VARCHAR(3)", ["abc"], "VARCHAR(9)"),
    ("VARCHAR(3)", ["äöü"], "VARBINARY(12)"),
    ("DOUBLE", [1.5], "STRING"),
    ("DATE", ["2024-02-29"], "TIMESTAMP(3)"),
]


def values_of(kind: str, values: list[Any]) -> list[Any]:
    """The values as Arrow takes them."""
    import datetime as dt
    from decimal import Decimal

    if kind.startswith("DECIMAL"):
        return [Decimal(value) for value in values]
    return [dt.date.fromisoformat(value) for value in values] if kind == "DATE" else values


@pytest.mark.parametrize(("old", "values", "new"), KEPT, ids=[f"{old} to {new}" for old, _, new in KEPT])
def test_values_that_are_shown_to_survive(old: str, values: list[Any], new: str) -> None:
    """Each row has its own value afterwards, and the way back leads to the old ones, if there is one."""
    table = table_of(old, values_of(old, values))
    before = read(table)
    table.alter(ll.update_type("v", new))
    after = read(table)
    assert len({repr(value) for value in after}) == len({repr(value) for value in before})
    assert [value is None for value in after] == [value is None for value in before]


LOST: list[tuple[str, list[Any], str, str]] = [
    ("STRING", ["abc", "12"], "INT", "'abc', which is no INT, so every read of it would fail"),
    ("STRING", ["1", "x"], "DOUBLE", "'x', which is no DOUBLE"),
    ("STRING", ["2024-01-01", "never"], "DATE", "'never', which is no DATE"),
    ("STRING", ["maybe", "true"], "BOOLEAN", "'maybe', which is no BOOLEAN"),
    ("BIGINT", [1, 2**40], "INT", "1099511627776, which does not fit INT, so it would be read as another value"),
    ("BIGINT", [None, 2**40], "SMALLINT", "1099511627776, which does not fit SMALLINT"),
    ("BIGINT", [2**53 + 1], "DOUBLE", "9007199254740993, which does not fit DOUBLE"),
    ("INT", [2], "BOOLEAN", "2, which does not fit BOOLEAN"),
    ("INT", [1000], "DECIMAL(5, 2)", "1000, which does not fit"),
    ("DECIMAL(9, 2)", ["100.00"], "DECIMAL(4, 2)", "which does not fit"),
]


@pytest.mark.parametrize(("old", "values", "new", "said"), LOST, ids=[f"{old} to {new}" for old, _, new, _ in LOST])
def test_a_value_that_would_be_lost_is_named(old: str, values: list[Any], new: str, said: str) -> None:
    table = table_of(old, values_of(old, values))
    before = read(table)
    with pytest.raises(InvalidArgument) as caught:
        table.alter(ll.update_type("v", new))
    assert said in caught.value.message
    assert "data-" in caught.value.message, "names the file"
    assert "force=True" in caught.value.next_step
    assert (table.refresh().schema.id, read(table)) == (0, before)
    table.alter(ll.update_type("v", new, force=True))
    try:
        assert [str(value) for value in read(table)] != [str(value) for value in before], "it was right to refuse"
    except LakelatchError as error:
        assert "would fail" in caught.value.message, error


UNTOLD: list[tuple[Any, list[Any], str, str]] = [
    ("STRING", ["1", "1x", "2"], "INT", "INT"),  # the bounds are numbers, a value between them is not
    ("STRING", ["12345678901234567890"], "INT", "INT"),  # its bound is cut off
    ("VARCHAR(9)", ["ab"], "VARCHAR(3)", "VARCHAR(3)"),
    ("DOUBLE", [1.0, 2.0], "INT", "INT"),
    ("DECIMAL(9, 2)", ["1.00"], "DECIMAL(9, 1)", "DECIMAL(9, 1)"),
    ("TIMESTAMP(3)", [0], "DATE", "DATE"),
    ("TIMESTAMP(6)", [0], "TIMESTAMP(3)", "TIMESTAMP(3)"),
    ("VARBINARY(9)", [b"a"], "STRING", "STRING"),
    ({"type": "ARRAY", "element": "BIGINT"}, [[1]], "INT", "v.element"),
]


@pytest.mark.parametrize(("old", "values", "new", "said"), UNTOLD, ids=[f"{old} to {new}" for old, _, new, _ in UNTOLD])
def test_where_the_statistics_cannot_tell_the_caller_decides(old: Any, values: list[Any], new: str, said: str) -> None:
    table = table_of(old, values_of(old, values) if isinstance(old, str) else values)
    path = "v" if isinstance(old, str) else "v.element"
    with pytest.raises(InvalidArgument, match="cannot tell") as caught:
        table.alter(ll.update_type(path, new))
    assert said in caught.value.message
    assert "force=True" in caught.value.next_step
    assert table.refresh().schema.id == 0
    assert table.alter(ll.update_type(path, new, force=True)).id == 1


def test_a_table_without_statistics_cannot_tell() -> None:
    table = table_of("BIGINT", [1], **{"metadata.stats-mode": "none"})
    with pytest.raises(InvalidArgument, match="cannot tell"):
        table.alter(ll.update_type("v", "INT"))


def test_without_values_there_is_nothing_to_lose() -> None:
    table_of("STRING", None).alter(ll.update_type("v", "INT"))
    table_of("STRING", [None, None]).alter(ll.update_type("v", "INT"))
    later = table_of("INT", [1])
    later.alter(ll.add_column("w", "STRING"))
    later.alter(ll.update_type("w", "INT"))
    assert later.to_arrow()["w"].to_pylist() == [None]


def test_only_live_rows_count() -> None:
    """What an overwrite replaced does not hinder; one bad file among good ones does."""
    table = table_of("STRING", ["abc"])
    table.overwrite(rows(table, [None]), partition={})
    table.alter(ll.update_type("v", "INT"))
    assert read(table) == [None]
    mixed = table_of("BIGINT", [1])
    mixed.append(rows(mixed, [2**40]))
    mixed.append(rows(mixed, [3]))
    with pytest.raises(InvalidArgument, match="1099511627776"):
        mixed.alter(ll.update_type("v", "INT"))


def test_values_that_were_written_under_an_earlier_type_or_name() -> None:
    table = table_of("INT", [70000])
    table.alter(ll.update_type("v", "BIGINT"), ll.rename_column("v", "x"))
    with pytest.raises(InvalidArgument, match="70000"):
        table.alter(ll.update_type("x", "SMALLINT"))
    table.alter(ll.update_type("x", "INT"))
    assert table.to_arrow()["x"].to_pylist() == [70000]
    table.alter(ll.update_type("x", "STRING"))
    with pytest.raises(InvalidArgument, match="cannot tell"):  # bounds of numbers are no bounds of their texts
        table.alter(ll.update_type("x", "SMALLINT"))


def test_values_of_another_handle_are_seen() -> None:
    table = table_of("BIGINT", [1])
    ll.open_table(table.url).append(rows(table, [2**40]))
    with pytest.raises(InvalidArgument, match="1099511627776"):
        table.alter(ll.update_type("v", "INT"))
