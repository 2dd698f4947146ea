"""What every type obeys: its values come back from each file format, as a key and as a partition too, or it is refused by name.

The types are those of `ATOMIC_ROOTS`. One that is added needs values here, and is then held to this.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest
from merge_cases import VALUES
from values import decode_rows

import lakelatch as ll
from lakelatch.core.errors import InvalidArgument, Unsupported
from lakelatch.core.rows.arrow import to_arrow
from lakelatch.core.rows.types import ATOMIC_ROOTS, UNRELEASED_ROOTS, AtomicType, parse_type

OF_THEIR_OWN = {"BLOB": "tests/unit/table/writing/test_blobs.py"}
"""Types that a table takes only with options of their own, and the tests that hold them to this."""
REFUSED: dict[str, set[str]] = {
    "parquet": set(),
    "orc": {
        "VARIANT",
        "TIMESTAMP(9)",
        "TIMESTAMP(6) WITH LOCAL TIME ZONE",
    },  # of times those in the last second before 1970
    "avro": {"VARIANT", "TIMESTAMP(9)"},
    "a partition": {"VARIANT", "BINARY(2)", "VARBINARY(9)"},
    "a key": {"VARIANT"},
}
"""What cannot hold which types."""
COUNTER = itertools.count()
SEVEN = {"value": b"\x0c\x07", "metadata": b"\x01\x00\x00"}
"""A VARIANT, which the encoding of tests/values.py does not write."""


def columns() -> dict[str, Any]:
    """For each type one that has it, and values of that."""
    found = {"VARIANT": pa.array([SEVEN], to_arrow(parse_type("VARIANT")))}
    for text, values in VALUES.items():
        kind = parse_type(text)
        assert isinstance(kind, AtomicType)
        fields = ll.Schema([("c", text)]).fields
        found[text] = decode_rows([[value] for value in values], fields)["c"].combine_chunks()
    return found


COLUMNS = columns()


@contextmanager
def refused_by_name(text: str, where: str) -> Iterator[None]:
    """Where a type is one of `REFUSED`, an error names the column; else there is none."""
    if text not in REFUSED[where]:
        yield
        return
    with pytest.raises((InvalidArgument, Unsupported), match="column 'c'"):
        yield


def table_of(text: str, **how: Any) -> ll.Table:
    """An empty table with a column of the type."""
    return ll.create_table(f"memory://types-{next(COUNTER)}/t", ll.Schema([("n", "INT NOT NULL"), ("c", text)]), **how)


def rows_of(column: Any) -> list[Any]:
    return sorted(repr(value) for value in column.to_pylist())


def test_every_type_has_values_here() -> None:
    here = {kind.root for kind in map(parse_type, COLUMNS) if isinstance(kind, AtomicType)}
    assert here == ATOMIC_ROOTS - {*OF_THEIR_OWN, *UNRELEASED_ROOTS}


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("text", COLUMNS)
def test_values_come_back_from_each_format(text: str, file_format: str) -> None:
    values = pa.concat_arrays([COLUMNS[text], pa.nulls(1, COLUMNS[text].type)])
    with refused_by_name(text, file_format):
        table = table_of(text, options={"file.format": file_format})
        table.append(pa.table({"n": pa.array(range(len(values)), pa.int32()), "c": values}))
        assert rows_of(table.to_arrow()["c"]) == rows_of(values)
        assert table.count("c IS NULL") == 1
        table.append(pa.table({"n": pa.array([-1], pa.int32()), "c": values[:1]}))
        table.compact()
        assert rows_of(table.to_arrow()["c"]) == rows_of(pa.concat_arrays([values, values[:1]]))


@pytest.mark.parametrize("text", COLUMNS)
def test_each_value_is_a_partition_of_its_own(text: str) -> None:
    values = COLUMNS[text]
    with refused_by_name(text, "a partition"):
        table = table_of(text, partition_by=["c"])
        table.append(pa.table({"n": pa.array(range(len(values)), pa.int32()), "c": values}))
        assert rows_of(table.to_arrow()["c"]) == rows_of(values)
        assert len(table.partitions()) == len(values)


@pytest.mark.parametrize("text", COLUMNS)
def test_each_value_is_a_key_of_its_own(text: str) -> None:
    values = COLUMNS[text]
    with refused_by_name(text, "a key"):
        table = table_of(f"{text} NOT NULL", primary_key=["c"], options={"bucket": "2"})
        for n in (1, 2):
            table.upsert(pa.table({"n": pa.array([n] * len(values), pa.int32()), "c": values}))
        assert rows_of(table.to_arrow()["c"]) == rows_of(values)
        assert table.count("n = 2") == len(values)
