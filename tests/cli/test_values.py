"""Values convert to text and back without loss."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.cli.frame.json_values import from_json, to_json

NESTED = pa.list_(pa.struct([("k", pa.map_(pa.string(), pa.decimal128(5, 2))), ("b", pa.binary())]))
ARRAYS = {
    "double": pa.array([math.nan, -math.inf, -0.0, 1e300, 0.1, None]),
    "float": pa.array([1.1, None], pa.float32()),
    "bigint": pa.array([2**63 - 1, -(2**63), None]),
    "decimal": pa.array([Decimal("0E-10"), Decimal("-1234567890.0123456789"), None], pa.decimal128(38, 10)),
    "timestamp ns": pa.array([1, -1, None], pa.timestamp("ns")),
    "timestamp ltz": pa.array([1, -1, None], pa.timestamp("us", "UTC")),
    "date": pa.array([-719162, 0, None], pa.date32()),
    "date far": pa.array([-719_164, 2_932_897, -(2**31), None], pa.int32()).cast(pa.date32()),
    "timestamp far": pa.array([-719_164 * 86_400_000_001, 2**60, None], pa.timestamp("us")),
    "time": pa.array([0, 86_399_999, None], pa.time32("ms")),
    "binary": pa.array([b"", b"\x00\xff", None]),
    "text": pa.array(["", 'ä\n"', "null", None]),
    "boolean": pa.array([True, False, None]),
    "nested": pa.array(
        [[], None, [None, {"k": [("a", Decimal("1.50")), ("b", None)], "b": b"x"}], [{"k": None}]], NESTED
    ),
}


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("start", [0, 1])
def test_json_and_back(name: str, start: int) -> None:
    """Values of each type survive a round trip through JSON text, also in sliced arrays."""
    array = ARRAYS[name].slice(start)
    text = json.dumps(to_json(array), allow_nan=False)
    back = from_json(json.loads(text, parse_float=Decimal), array.type)
    assert back.type == array.type
    assert json.dumps(to_json(back)) == text
    assert back.is_null().to_pylist() == array.is_null().to_pylist()
    if name != "double":
        assert back.equals(array)


@pytest.mark.parametrize(
    ("value", "kind"),
    [("x", pa.float64()), (1.5, pa.int64()), ("00ff", pa.binary()), (True, pa.decimal128(5, 1)), (1, pa.string())],
)
def test_a_value_of_another_type_is_refused(value: Any, kind: pa.DataType) -> None:
    """Values are never guessed."""
    with pytest.raises((pa.ArrowException, TypeError, ValueError, ArithmeticError)):
        from_json([value], kind)


@pytest.mark.parametrize("kind", ["json", "csv"])
def test_every_type_through_files(run: Any, tmp_path: Path, kind: str) -> None:
    """A table with columns of all types is exported to a text file and imported into another table unchanged."""
    arrays = {name: array for name, array in ARRAYS.items() if name != "float"}
    rows = max(len(a) for a in arrays.values())
    columns = {n: pa.concat_arrays([a, pa.nulls(rows - len(a), a.type)]) for n, a in arrays.items()}
    source = ll.create_table(str(tmp_path / "source"), pa.table(columns).schema)
    source.append(pa.table(columns))
    target = ll.create_table(str(tmp_path / "target"), pa.table(columns).schema)
    assert run("read", source.url, "--format", kind, "--output", tmp_path / f"x.{kind}").code == 0
    written = run("write", target.url, tmp_path / f"x.{kind}")
    assert written.code == 0, written.err
    for name in columns:
        assert to_json(target.to_arrow()[name].combine_chunks()) == to_json(source.to_arrow()[name].combine_chunks()), (
            name
        )
