"""Tests the four kinds of file indexes against brute force over rows."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from file_indexes import answer, built, column, columns_of_file, opened, spec
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap

from lakelatch.core.errors import InvalidArgument
from lakelatch.core.expressions.binding import bind
from lakelatch.core.expressions.columns import col
from lakelatch.core.expressions.tree import Comparison
from lakelatch.core.file_index.asking import IndexedColumn
from lakelatch.core.file_index.options import KINDS, index_specs, takes
from lakelatch.core.rows.arrow import to_arrow
from lakelatch.core.rows.literals import Instant, Nanos
from lakelatch.core.rows.types import AtomicType, Field, MapType, decimal, parse_atomic, string, timestamp
from lakelatch.core.rows.values import column_values
from lakelatch.tests.interop.domains import ATOMIC
from lakelatch.tests.predicates import FIELDS, evaluate, predicates, tables, values_of
from lakelatch.tests.values import decode_rows

POSITIONAL = ("bitmap", "bsi", "range-bitmap")
RANGES = ("<", "<=", ">", ">=")
EVERY_OPERATOR = ("=", "!=", *RANGES, "is_null", "is_not_null", "in")


# ----------------------------------------------------------------------------------------------------- right or missed


@settings(max_examples=120, deadline=None)
@given(tables(12), predicates(), st.sets(st.sampled_from(KINDS), min_size=1), st.integers(1, 3))
def test_no_matching_row_is_excluded(table: pa.Table, predicate: Any, kinds: set[str], cuts: int) -> None:
    """G4: For any predicate, the indexes keep every row that the predicate keeps."""
    bound = bind(predicate, FIELDS)
    specs = [
        spec(kind, f.type, f.name, items="20")  # type: ignore[arg-type]
        for kind in sorted(kinds)
        for f in FIELDS
        if takes(kind, f.type) and not (kind == "bsi" and f.name == "n")  # whose numbers need more than 64 bits
    ]
    found = answer(opened(built(specs, table, cuts), table.num_rows), bound, columns_of_file(FIELDS))
    kept = {i for i, row in enumerate(values_of(table)) if evaluate(bound, row) is True}
    assert found is None or kept <= set(found)


def domain(name: str) -> tuple[AtomicType, pa.Array, list[Any]]:
    """A column with each value of a type twice and nulls between them, as Arrow and as Python values."""
    text, encoded = ATOMIC[name]
    data_type = parse_atomic(text)
    rows = [[v] for v in [*encoded, None, *reversed(encoded), None]]
    array = decode_rows(rows, [Field(0, "c", data_type)]).column(0).combine_chunks()
    return data_type, array, column_values(array, data_type)


def literal_of(value: Any, data_type: AtomicType) -> Any:
    if data_type.root.startswith("TIMESTAMP"):
        return Instant(value) if data_type.root == "TIMESTAMP_LTZ" else Nanos(value)
    return value


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", sorted(ATOMIC))
def test_every_type(kind: str, name: str) -> None:
    """G4: Every comparison with every value of every type. Bitmaps are exact, except for nanoseconds."""
    data_type, array, values = domain(name)
    if not takes(kind, data_type):
        with pytest.raises(InvalidArgument, match="does not support"):
            index_specs([Field(0, "c", data_type)], {f"file-index.{kind}.columns": "c"})
        return
    table = pa.table({"c": array})
    try:
        data = built([spec(kind, data_type, items="20", fpp="0.001")], table)
    except InvalidArgument as error:
        assert kind == "bsi" and name in ("i64", "d28", "d38"), error
        return
    index = opened(data, len(array))
    index.check(lambda _: data_type)
    fields = [Field(0, "c", data_type)]
    exact = data_type.root not in ("TIMESTAMP", "TIMESTAMP_LTZ") or data_type.precision <= 6
    answered = {"bloom-filter": (), "bitmap": ("=", "!=", "in", "is_null", "is_not_null")}.get(kind, EVERY_OPERATOR)
    for op in EVERY_OPERATOR:
        for value in {literal_of(v, data_type) for v in values if v is not None}:
            literals = () if op.startswith("is_") else (value,)
            for negated in (False, True):
                leaf = bind(Comparison(op, "c", literals), fields)
                wanted = ~leaf if negated else leaf
                found = answer(index, wanted, columns_of_file(fields))
                kept = BitMap(i for i, v in enumerate(values) if evaluate(wanted, {"c": v}) is True)
                assert found is None or kept <= found, (op, value, negated)
                if op in answered and exact:
                    assert found == kept, (op, value, negated)
    if data_type.root == "BOOLEAN":
        return  # the column has both values
    absent = bind(col("c") == absent_value(data_type), fields)
    assert answer(opened(data, len(array)), absent, columns_of_file(fields)) == BitMap()


def absent_value(data_type: AtomicType) -> Any:
    """A value of the type that the column does not have."""
    root = data_type.root
    if root in ("CHAR", "VARCHAR"):
        return "nope"
    if root in ("BINARY", "VARBINARY"):
        return b"nope"
    if root == "DATE":
        return dt.date(2000, 1, 1)
    if root == "TIME":
        return dt.time(1, 2, 3)
    if root == "DECIMAL":
        return Decimal(5).scaleb(-data_type.scale)
    if root.startswith("TIMESTAMP"):
        return dt.datetime(2001, 2, 3, 4, 5, 6, tzinfo=dt.timezone.utc if data_type.root == "TIMESTAMP_LTZ" else None)
    return 42.0 if root in ("FLOAT", "DOUBLE") else 42


def test_a_column_of_nulls() -> None:
    """All rows without a value are found; Apache Paimon 1.4 finds only the first and the last (format/file-indexes §5)."""
    data_type = AtomicType("INT")
    for kind in KINDS:
        index = opened(built([spec(kind, data_type, items="5")], column([None] * 9, data_type)), 9)
        index.check(lambda _: data_type)
        asked = columns_of_file([Field(0, "c", data_type)])
        assert answer(index, col("c") == 1, asked) == BitMap()
        if kind in POSITIONAL:
            assert answer(index, col("c").is_null(), asked) == BitMap(range(9))
            assert answer(index, ~col("c").is_in([3]), asked) == BitMap()


@pytest.mark.parametrize("kind", POSITIONAL)
@pytest.mark.parametrize("count", [1, 3000, 70_000])
def test_many_rows(kind: str, count: int) -> None:
    """Many values in several blocks, chunks and containers, added in batches."""
    rng = random.Random(count)
    values = [None if rng.random() < 0.1 else rng.randrange(-count, count) for _ in range(count)]
    options = {"index_block_size": "1 kb", "chunk_size": "1 kb"}
    data_type = AtomicType("INT")
    index = opened(built([spec(kind, data_type, **options)], column(values, data_type), 4), count)
    index.check(lambda _: data_type)
    asked = columns_of_file([Field(0, "c", data_type)])
    for literal in [v for v in values if v is not None][:20]:
        assert answer(index, col("c") == literal, asked) == BitMap(i for i, v in enumerate(values) if v == literal)
        if kind != "bitmap":
            smaller = BitMap(i for i, v in enumerate(values) if v is not None and v < literal)
            assert answer(index, col("c") < literal, asked) == smaller


@pytest.mark.parametrize("kind", ["bitmap", "range-bitmap", "bloom-filter"])
def test_many_texts(kind: str) -> None:
    """Texts of many lengths, in blocks and chunks with a few texts each."""
    rng = random.Random(kind)
    texts = ["".join(rng.choices("aäß😀", k=rng.randrange(90))) for _ in range(400)]
    values = [rng.choice(texts[:300]) for _ in range(2000)]
    options = {"index_block_size": "1 kb", "chunk_size": "1 kb", "items": "400", "fpp": "0.0001"}
    index = opened(built([spec(kind, string(), **options)], column(values, string()), 3), 2000)
    index.check(lambda _: string())
    asked = columns_of_file([Field(0, "c", string())])
    there = set(values)
    for text in texts:
        found = answer(index, col("c") == text, asked)
        if kind == "bloom-filter":
            assert found is None if text in there else found in (None, BitMap())
        else:
            assert found == BitMap(i for i, v in enumerate(values) if v == text)


def test_version_1_finds_what_version_2_finds() -> None:
    values = [None, *random.Random(1).choices(range(40), k=500), None]
    for data_type in (AtomicType("BIGINT"), string()):
        column_ = [v if v is None or data_type.root == "BIGINT" else "x" * v for v in values]
        one, two = (
            opened(built([spec("bitmap", data_type, version=version)], column(column_, data_type)), len(values))
            for version in "12"
        )
        one.check(lambda _, t=data_type: t)
        asked = columns_of_file([Field(0, "c", data_type)])
        for v in [*range(50)]:
            where = col("c") != (v if data_type.root == "BIGINT" else "x" * v)
            assert answer(one, where, asked) == answer(two, where, asked) is not None
            assert answer(one, ~where, asked) == answer(two, ~where, asked)


# ----------------------------------------------------------------------------------------------- columns that changed


@pytest.mark.parametrize("kind", KINDS)
def test_a_column_that_was_widened(kind: str) -> None:
    """A literal of the new type that does not fit into the old type is not a value of the file."""
    written = AtomicType("TINYINT")
    values = [-128, -1, 0, 1, 127, None]
    index = opened(built([spec(kind, written, items="9")], column(values, written)), len(values))
    fields, asked = [Field(0, "c", AtomicType("BIGINT"))], {"c": IndexedColumn("c", written)}
    for literal in (-(2**63), -129, -1, 1, 127, 128, 2**63 - 1):
        for op in EVERY_OPERATOR:
            where = bind(Comparison(op, "c", () if op.startswith("is_") else (literal,)), fields)
            kept = BitMap(i for i, v in enumerate(values) if evaluate(where, {"c": v}) is True)
            found = answer(index, where, asked)
            assert found is None or kept <= found
            if kind in ("bsi", "range-bitmap"):
                assert found == kept


@pytest.mark.parametrize("kind", ["bsi", "range-bitmap"])
def test_a_finer_literal_lies_between_the_values(kind: str) -> None:
    """If a DECIMAL or TIMESTAMP column got more digits, a literal between two values of the file loses no row."""
    written, now = decimal(9, 1), decimal(12, 3)
    values = [Decimal("-1.5"), Decimal("0.0"), Decimal("0.1"), None]
    index = opened(built([spec(kind, written)], column(values, written)), len(values))
    asked = {"c": IndexedColumn("c", written)}
    for literal in ("-1.501", "-1.5", "-0.001", "0.05", "0.1", "0.101"):
        for op in ("=", "!=", *RANGES):
            where = bind(Comparison(op, "c", (Decimal(literal),)), [Field(0, "c", now)])
            found = answer(index, where, asked)
            assert found is not None
            assert {i for i, v in enumerate(values) if evaluate(where, {"c": v}) is True} <= set(found)
    millis = timestamp(3)
    index = opened(built([spec(kind, millis)], column([0, 1_000_000], millis)), 2)
    where = bind(col("c") < pa.scalar(500, pa.timestamp("us")), [Field(0, "c", timestamp(6))])
    assert 0 in (answer(index, where, {"c": IndexedColumn("c", millis)}) or ())


def test_nanoseconds_within_a_microsecond() -> None:
    """An index cannot distinguish rows within a microsecond, but `!=` loses none of them, unlike in Apache Paimon."""
    nanos = timestamp(9)
    values = [1001, 1002, 2000, None]
    for kind in ("bitmap", "bsi"):
        index = opened(built([spec(kind, nanos)], column(values, nanos)), 4)
        asked = columns_of_file([Field(0, "c", nanos)])
        where = bind(col("c") != pa.scalar(1001, pa.timestamp("ns")), [Field(0, "c", nanos)])
        assert {1, 2} <= set(answer(index, where, asked) or range(4))
        after = bind(col("c") > pa.scalar(1001, pa.timestamp("ns")), [Field(0, "c", nanos)])
        assert {1, 2} <= set(answer(index, after, asked) or range(4))


def test_blanks_that_readers_drop() -> None:
    """Readers of ORC drop blanks at the end of a CHAR, so the index may contain `a  ` for `a`."""
    char = parse_atomic("CHAR(5)")
    values = ["ab", "ab  ", "", "    ", "c"]
    index = opened(built([spec("bitmap", char)], column(values, char)), 5)
    asked = {"c": IndexedColumn("c", char, trimmed=True)}
    shown = [v.rstrip(" ") for v in values]
    for text in ("ab", "ab ", "", "c", "d"):
        for where in (col("c") == text, col("c") != text, col("c") < text, col("c").is_in([text, "c"])):
            bound = bind(where, [Field(0, "c", char)])
            found = answer(index, bound, asked)
            assert found is None or {i for i, v in enumerate(shown) if evaluate(bound, {"c": v}) is True} <= set(found)
    assert answer(index, col("c") == "ab", asked) == BitMap([0, 1])


def test_a_value_of_a_map() -> None:
    """`m[key]` is the value of one key, or null if the map is null or does not have the key."""
    kind = MapType(string(False), AtomicType("INT"))
    maps = pa.array([[("a", 1)], None, [("b", 1), ("a", 2)], [], [("a", None)]], to_arrow(kind))
    specs = index_specs([Field(0, "m", kind)], {"file-index.bitmap.columns": "m[a]"})
    index = opened(built(list(specs), pa.table({"m": maps})), 5)
    asked = {"m[a]": IndexedColumn("m[a]", AtomicType("INT"))}
    assert answer(index, Comparison("=", "m[a]", (2,)), asked) == BitMap([2])
    assert answer(index, Comparison("is_null", "m[a]"), asked) == BitMap([1, 3, 4])


def test_values_that_an_index_cannot_hold() -> None:
    for data_type, value, word in (
        (AtomicType("BIGINT"), -(2**63), "cannot hold"),
        (decimal(30, 0), Decimal(10**25), "64 bits"),
    ):
        with pytest.raises(InvalidArgument, match=word) as caught:
            built([spec("bsi", data_type)], column([value], data_type))
        assert "column 'c'" in str(caught.value)
    with pytest.raises(InvalidArgument, match="larger than a block"):
        built([spec("bitmap", string(), index_block_size="64 b")], column(["x" * 60], string()))
