"""What the metadata of the files tells about the values of one column: columns that a file has not, other types, damage."""

from __future__ import annotations

from decimal import Decimal
from itertools import count
from typing import Any

import pyarrow as pa
import pytest
from changes import publish, written

import lakelatch as ll
from lakelatch.core.errors import InvalidArgument
from lakelatch.core.metadata.data_file import SimpleStats

COUNTER = count()


def table_of(kind: Any, **options: str) -> ll.Table:
    url = f"memory://stored-values-{next(COUNTER)}/t"
    return ll.create_table(url, ll.Schema([("k", "INT"), ("v", kind)]), options=options)


def rows(table: ll.Table, *values: Any) -> pa.Table:
    numbers = pa.array(range(len(values)), pa.int32())
    return pa.table({"k": numbers, "v": pa.array(values, table.arrow_schema.field("v").type)})


def files(table: ll.Table) -> list[str]:
    """The names of the newest snapshot's files, in their order."""
    return [entry.file.file_name for entry in table.entries()]


def refused(table: ll.Table, new: str, **more: Any) -> InvalidArgument:
    with pytest.raises(InvalidArgument) as caught:
        table.alter(ll.update_type("v", new, **more))
    assert caught.value.next_step.startswith("look at the values")
    return caught.value


def test_the_first_file_that_cannot_tell_is_the_example() -> None:
    table = table_of("STRING")
    for values in ([None], ["1", "2"], [None], ["3", "4"]):
        table.append(rows(table, *values))
    error = refused(table, "INT")
    assert f"(of {files(table)[1]}, for example)" in error.message
    assert error.message.startswith("changing column 'v' from STRING to INT may not keep its values")
    assert error.message.endswith("a text that is none makes every later read fail")


def test_a_value_that_does_not_fit_counts_more_than_files_that_cannot_tell() -> None:
    table = table_of("STRING")
    for values in (["1", "2"], ["never"]):
        table.append(rows(table, *values))
    error = refused(table, "INT")
    assert error.message == (
        "changing column 'v' from STRING to INT would not keep its values: "
        f"{files(table)[1]} has 'never', which is no INT, so every read of it would fail"
    )


def test_a_change_that_cannot_fail_may_still_change_values() -> None:
    table = table_of("DOUBLE")
    table.append(rows(table, 1.5))
    assert refused(table, "INT").message.endswith(": a value that does not fit is read as another one or as null")


def test_nulls_of_another_type_are_nulls() -> None:
    """Bounds in another type say nothing, but a column without a value has nothing to lose."""
    table = table_of("INT")
    table.append(rows(table, None, None))
    table.alter(ll.update_type("v", "STRING"))
    table.alter(ll.update_type("v", "INT"))
    table.append(rows(table, 7))
    table.alter(ll.update_type("v", "STRING"))
    assert "cannot tell" in refused(table, "INT").message


def test_whether_a_column_may_be_null_is_no_other_type() -> None:
    table = table_of("DECIMAL(9, 2) NOT NULL")
    table.append(rows(table, Decimal("1.00")))
    table.alter(ll.update_nullability("v", True))
    assert table.alter(ll.update_type("v", "DECIMAL(4, 2)")).id == 2


def test_a_file_without_the_column_has_no_values_to_lose() -> None:
    """An update of other columns writes files with these alone."""
    table = table_of("BIGINT", **{"row-tracking.enabled": "true", "data-evolution.enabled": "true"})
    table.append(rows(table, 5, 6))
    ids = table.to_arrow(columns=["_ROW_ID"])
    table.update_columns(ids.append_column("k", pa.array([8, 9], pa.int32())))
    assert [entry.file.write_cols for entry in table.entries()][-1] == ("k",)
    assert table.alter(ll.update_type("v", "INT")).id == 1
    assert sorted(table.to_arrow()["v"].to_pylist()) == [5, 6]


def test_a_file_with_the_column_alone_is_judged_by_it() -> None:
    table = table_of("BIGINT", **{"row-tracking.enabled": "true", "data-evolution.enabled": "true"})
    table.append(rows(table, 5))
    ids = table.to_arrow(columns=["_ROW_ID"])
    table.update_columns(ids.append_column("v", pa.array([2**40])))
    assert "1099511627776, which does not fit INT" in refused(table, "INT").message


@pytest.mark.parametrize(
    "stats",
    [
        SimpleStats(b"\x00\x00\x00\x02", b"\x00\x00\x00\x02", (0, 0)),
        SimpleStats(bytes(12), bytes(12), None),
    ],
    ids=["cut off", "none"],
)
def test_statistics_that_cannot_be_read_cannot_tell(stats: SimpleStats) -> None:
    table = table_of("BIGINT")
    (entry,) = written(table, rows(table, 5))
    publish(table, "APPEND", [entry._replace(file=entry.file._replace(value_stats=stats))])
    assert "cannot tell" in refused(table, "INT").message


def test_bounds_of_smaller_integers_are_bounds_of_larger_ones() -> None:
    table = table_of("INT")
    table.append(rows(table, 70_000))
    table.alter(ll.update_type("v", "BIGINT"))
    assert "70000, which does not fit SMALLINT" in refused(table, "SMALLINT").message
    assert table.alter(ll.update_type("v", "INT")).id == 2


def test_bounds_of_texts_are_no_bounds_of_numbers() -> None:
    table = table_of("STRING")
    table.append(rows(table, "5", "7"))
    table.alter(ll.update_type("v", "INT", force=True))
    assert "cannot tell" in refused(table, "SMALLINT").message


def test_there_are_no_statistics_of_a_part_of_a_column() -> None:
    table = table_of({"type": "ARRAY", "element": "BIGINT"})
    table.append(rows(table, [5]))
    with pytest.raises(InvalidArgument, match=r"column 'v\.element' from BIGINT to INT may not keep its values"):
        table.alter(ll.update_type("v.element", "INT"))
    with pytest.raises(InvalidArgument, match="cannot tell"):
        table.alter(ll.update_type("v.element", "TINYINT"))


def test_a_type_that_holds_all_values_needs_no_look_at_the_files() -> None:
    table = table_of("INT")
    table.append(rows(table, 5))
    table.store.delete_many([info.key for info in table.store.list("manifest/")])
    assert table.alter(ll.update_type("v", "BIGINT")).id == 1


def test_statistics_of_other_columns_cannot_tell() -> None:
    table = table_of("BIGINT", **{"metadata.stats-mode": "none", "fields.k.stats-mode": "full"})
    table.append(rows(table, 5))
    assert "cannot tell" in refused(table, "INT").message
