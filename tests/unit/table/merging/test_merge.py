"""The rows of one key, in the order of format/primary-keys §3, become one as the engine says (format/primary-keys §4)."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from merge_cases import SKETCHES
from pyroaring import BitMap

from lakelatch.core.errors import InvalidArgument, TableCorrupt, Unsupported
from lakelatch.core.metadata.schema import new_schema
from lakelatch.core.metadata.schemas.merge_rules import MergeRules, merge_rules
from lakelatch.core.rows.arrow import to_arrow
from lakelatch.core.rows.types import ArrayType, AtomicType, DataType, Field, MapType, RowType, string
from lakelatch.core.rows.value_numbers import value_numbers
from lakelatch.table.merging.codes import ordered_codes
from lakelatch.table.merging.merge import columns_to_merge, merge_key_rows, merge_section

INT = AtomicType("INT")
ADD, BEFORE, AFTER, DELETE = range(4)
SYSTEM = ["_SEQUENCE_NUMBER", "_VALUE_KIND"]


def merged(
    rows: list[tuple[Any, ...]], types: list[DataType] | None = None, levels: list[int] | None = None, **options: str
) -> list[tuple[Any, ...]]:
    """Rows of (sequence number, kind, key, values…), merged; the columns are `k`, `a`, `b`, …"""
    rules, fields, columns = section(rows, types, levels, options)
    names = [f.name for f in fields]
    assert columns_to_merge(rules, fields, names) <= {*names}
    count, found = merge_section(rules, columns.__getitem__, fields, names)
    result = list(zip(*(found[name].to_pylist() for name in names), strict=True))
    assert count == len(result)
    kept = written(rows, types, levels, drop_deletes=True, **options)
    assert [row[2:] for row in kept] == sorted(result)
    return sorted(result)


def written(
    rows: list[tuple[Any, ...]],
    types: list[DataType] | None = None,
    levels: list[int] | None = None,
    drop_deletes: bool = False,
    **options: str,
) -> list[tuple[Any, ...]]:
    """The merged rows of (sequence number, kind, key, values…) as a file would hold them, in its order."""
    rules, fields, columns = section(rows, types, levels, options)
    names = [f.name for f in fields]
    count, found = merge_key_rows(rules, columns.__getitem__, fields, names, drop_deletes=drop_deletes)
    result = list(zip(*(found[name].to_pylist() for name in [*SYSTEM, *names]), strict=True))
    assert count == len(result)
    assert (found["_SEQUENCE_NUMBER"].type, found["_VALUE_KIND"].type) == (pa.int64(), pa.int8())
    return result


def section(
    rows: list[tuple[Any, ...]], types: list[DataType] | None, levels: list[int] | None, options: dict[str, str]
) -> tuple[MergeRules, tuple[Field, ...], dict[str, Any]]:
    types = types or [INT] * (len(rows[0]) - 3)
    fields = [Field(0, "k", AtomicType("INT", nullable=False))]
    fields += [Field(i + 1, "abcdef"[i], kind) for i, kind in enumerate(types)]
    texts = {name.replace("__", ".").replace("_", "-"): value for name, value in options.items()}
    schema = new_schema(fields, primary_keys=["k"], options={"bucket": "1"} | texts)
    rules = merge_rules(schema)
    assert rules is not None
    columns = {
        "_SEQUENCE_NUMBER": pa.array([r[0] for r in rows], pa.int64()),
        "_VALUE_KIND": pa.array([r[1] for r in rows], pa.int8()),
        "_LEVEL": pa.array(levels or [0] * len(rows), pa.int32()),
    } | {f.name: pa.array([r[2 + i] for r in rows], to_arrow(f.type)) for i, f in enumerate(fields)}
    return rules, schema.fields, columns


def test_the_newest_row_wins_and_a_delete_removes_its_key() -> None:
    rows = [
        (1, ADD, 1, 10),
        (5, AFTER, 2, 20),
        (3, ADD, 3, 30),
        (2, AFTER, 1, 11),
        (4, BEFORE, 2, 0),
        (9, DELETE, 3, 31),
    ]
    assert merged(rows) == [(1, 11), (2, 20)]
    assert merged(rows, ignore_delete="true") == [(1, 11), (2, 20), (3, 30)]


def test_at_one_sequence_number_the_row_that_adds_is_newer() -> None:
    assert merged([(7, AFTER, 1, 2), (7, BEFORE, 1, 1)]) == [(1, 2)]


def test_sequence_fields_come_before_sequence_numbers_and_nulls_are_oldest() -> None:
    rows = [(1, ADD, 1, 5, 1), (2, ADD, 1, 4, 9), (3, ADD, 1, None, 9), (1, ADD, 2, 5, 1), (2, ADD, 2, 5, None)]
    assert merged(rows, sequence__field="a") == [(1, 5, 1), (2, 5, None)]
    assert merged(rows, sequence__field="a,b") == [(1, 5, 1), (2, 5, 1)]
    assert merged(rows, sequence__field="a", sequence__field__sort_order="descending") == [(1, 4, 9), (2, 5, None)]


def test_the_oldest_row_stays_in_first_row_tables() -> None:
    rows = [(2, ADD, 1, 20), (1, ADD, 1, 10), (1, DELETE, 2, 5)]
    assert merged(rows, merge_engine="first-row") == [(1, 10)]
    rows += [(0, DELETE, 1, 0)]
    assert merged(rows, merge_engine="first-row", ignore_delete="true") == [(1, 10)]
    with pytest.raises(InvalidArgument, match="first-row"):
        merged(rows, merge_engine="first-row")


@pytest.mark.parametrize(
    "values",
    [
        pa.array([None, -3, 0, 2**62], pa.int64()),
        pa.array([None, -math.inf, -0.0, 0.0, 1e-300, math.inf, math.nan], pa.float64()),
        pa.array([-1.5, -0.0, 0.0, math.nan], pa.float32()),
        pa.array(["", "A", "Z", "a", "é", "\U0001f600"]),
        pa.array([None, False, True]),
        pa.array([b"", b"\x00", b"\x7f", b"\x80", b"\xff"]),
        pa.array([None, -5, 0, 7], pa.decimal128(20, 2)),
        pa.array([-1, 0, 1], pa.timestamp("us")),
        pa.array([None, -1, 0], pa.date32()),
    ],
)
def test_codes_compare_like_values(values: Any) -> None:
    mixed = pa.concat_arrays([values[::-1], values])
    codes = ordered_codes(mixed).tolist()
    half = len(values)
    assert codes[half:] == codes[:half][::-1] == sorted(set(codes))
    same = value_numbers(mixed).tolist()
    assert same[half:] == same[:half][::-1]
    assert len(set(same)) == half


def test_of_rows_above_level_0_only_the_lowest_counts_where_compaction_looks_up() -> None:
    rows = [(1, ADD, 1, 100), (2, ADD, 1, 7), (3, ADD, 1, 1), (1, ADD, 2, 5)]
    options = {"merge_engine": "aggregation", "fields__a__aggregate_function": "sum"}
    assert merged(rows, levels=[5, 4, 0, 5], **options) == [(1, 108), (2, 5)]
    assert merged(rows, levels=[5, 4, 0, 5], changelog_producer="lookup", **options) == [(1, 8), (2, 5)]


# ------------------------------------------------------------------------------------------------------- partial-update

GROUPS = {"merge_engine": "partial-update", "fields__a__sequence_group": "b"}


def test_partial_updates_keep_the_newest_value_that_is_not_null() -> None:
    rows = [(1, ADD, 1, 10, None), (2, ADD, 1, None, 5), (3, ADD, 1, 11, None), (1, DELETE, 2, 1, 1)]
    assert merged(rows, merge_engine="partial-update") == [(1, 11, 5)]
    rows.append((4, DELETE, 1, None, None))
    with pytest.raises(InvalidArgument, match="no option says"):
        merged(rows, merge_engine="partial-update")
    assert merged(rows, merge_engine="partial-update", ignore_delete="true") == [(1, 11, 5)]
    removing = {"merge_engine": "partial-update", "partial_update__remove_record_on_delete": "true"}
    assert merged(rows, **removing) == []
    assert merged([*rows, (5, ADD, 1, None, 6)], **removing) == [(1, None, 6)]


def test_a_sequence_group_is_taken_together() -> None:
    rows = [(1, ADD, 1, 5, 50), (2, ADD, 1, 4, 40), (3, ADD, 1, None, 99)]
    assert merged(rows, **GROUPS) == [(1, 5, 50)]
    assert merged([*rows, (4, ADD, 1, 5, None)], **GROUPS) == [(1, 5, None)]
    assert merged([*rows, (4, DELETE, 1, 6, 7)], **GROUPS) == [(1, 6, None)]
    assert merged([*rows, (4, DELETE, 1, 3, 7)], **GROUPS) == [(1, 5, 50)]
    assert merged([(1, DELETE, 1, 1, 1), (2, BEFORE, 1, 2, 2)], **GROUPS) == []
    removing = GROUPS | {"partial_update__remove_record_on_sequence_group": "a"}
    assert merged([*rows, (4, DELETE, 1, 6, 7)], **removing) == []
    assert merged([*rows, (4, DELETE, 1, 3, 7)], **removing) == [(1, 5, 50)]
    assert merged([*rows, (4, BEFORE, 1, 6, 7)], **removing) == [(1, 6, None)]


@pytest.mark.parametrize("wanted", ["k", "a", "c"])
@pytest.mark.parametrize("second", [{"fields__b__sequence_group": "c"}, {"fields__a,c__sequence_group": "d"}])
def test_a_column_in_several_groups_is_refused_by_name(second: dict[str, str], wanted: str) -> None:
    """Apache Paimon merges it by the group that its hash map gives last, or refuses the table."""
    rules, fields, columns = section(
        [(1, ADD, 1, 5, 50, 7, 7), (2, ADD, 1, 4, 40, 8, 8)], None, None, {**GROUPS, **second}
    )
    with pytest.raises(Unsupported, match=r"column '[ab]' is in several sequence groups") as refused:
        columns_to_merge(rules, fields, [wanted])
    assert refused.value.next_step
    with pytest.raises(Unsupported, match="in several sequence groups"):
        merge_section(rules, columns.__getitem__, fields, [wanted])


@pytest.mark.parametrize(
    ("wanted", "needed"), [("k", "k"), ("a", "ka"), ("b", "kab"), ("c", "kc"), ("d", "kcd"), ("e", "ke")]
)
@pytest.mark.parametrize("removing", ["", "a"])
def test_only_the_sequence_columns_of_wanted_columns_are_read(wanted: str, needed: str, removing: str) -> None:
    options = {**GROUPS, "fields__c__sequence_group": "d"}
    options |= {"partial_update__remove_record_on_sequence_group": removing} if removing else {}
    rules, fields, _ = section([(1, ADD, 1, 5, 50, 7, 7, 1)], None, None, options)
    assert columns_to_merge(rules, fields, [wanted]) == {*needed, *removing}


def test_a_group_of_two_sequence_columns_compares_both() -> None:
    options = {"merge_engine": "partial-update", "fields__a,b__sequence_group": "c"}
    rows = [(1, ADD, 1, 1, 2, 10), (2, ADD, 1, 1, 1, 20), (3, ADD, 1, 0, 9, 30), (4, ADD, 1, None, 9, 40)]
    assert merged(rows, **options) == [(1, 1, 2, 10)]
    assert merged([*rows, (5, ADD, 1, 1, 3, 50)], **options) == [(1, 1, 3, 50)]


def test_functions_in_a_sequence_group_know_older_rows() -> None:
    rows = [(1, ADD, 1, 5, 50), (2, ADD, 1, 4, 40), (3, ADD, 1, 6, 60)]
    for function, value in {"sum": 150, "first_value": 40, "last_value": 60, "max": 60}.items():
        found = merged(rows, **GROUPS, fields__b__aggregate_function=function)
        assert found == [(1, 6, value)], function


def test_a_function_for_all_columns_is_none_of_keys_and_sequences() -> None:
    options = GROUPS | {"fields__default_aggregate_function": "sum"}
    assert merged([(1, ADD, 1, 5, 50), (2, ADD, 1, 4, 40), (3, ADD, 1, 6, 60)], **options) == [(1, 6, 150)]


TWO_GROUPS = {**GROUPS, "fields__c__sequence_group": "d"}


@pytest.mark.parametrize("function", ["sum", "max", "last_non_null_value"])
@pytest.mark.parametrize("column", ["b", "d"])
def test_of_several_groups_a_column_with_a_function_is_in_one(column: str, function: str) -> None:
    """Whichever group it is: it counts the rows in that group's order, and the others take the newest value of theirs."""
    rows = [
        (1, ADD, 1, 5, 50, 5, 50),
        (2, ADD, 1, 6, 40, 6, 40),
        (3, ADD, 1, 4, 30, 4, 30),
        (4, ADD, 1, 7, None, 7, None),
    ]
    found = merged(rows, **TWO_GROUPS, **{f"fields__{column}__aggregate_function": function})
    value = {"sum": 120, "max": 50, "last_non_null_value": 40}[function]
    assert found == [(1, 7, *((value, 7, None) if column == "b" else (None, 7, value)))]


def test_a_column_with_a_function_that_is_in_no_group_is_refused_by_name() -> None:
    options = TWO_GROUPS | {"fields__e__aggregate_function": "sum"}
    rules, fields, columns = section([(1, ADD, 1, 5, 50, 5, 50, 1), (2, ADD, 1, 6, 4, 6, 4, 2)], None, None, options)
    with pytest.raises(Unsupported, match=r"column 'e' .* has function 'sum' .* but no sequence group") as refused:
        columns_to_merge(rules, fields, ["e"])
    assert refused.value.next_step == "set option 'fields.<sequence column>.sequence-group' = e"
    with pytest.raises(Unsupported, match="no sequence group"):
        merge_section(rules, columns.__getitem__, fields, ["k", "e"])
    assert columns_to_merge(rules, fields, ["d"]) == {"k", "c", "d"}, "the others can be read"


# --------------------------------------------------------------------------------------------------------- aggregation


def aggregated(
    function: str, values: list[Any], kinds: list[int] | None = None, kind: DataType = INT, **more: str
) -> Any:
    rows = [(i, (kinds or [ADD] * len(values))[i], 1, value) for i, value in enumerate(values)]
    options = {"merge_engine": "aggregation", "fields__a__aggregate_function": function}
    found = merged(rows, [kind], **options, **{f"fields__a__{name}": text for name, text in more.items()})
    return found[0][1] if found else "gone"


TEXT, BOOL, FLOATS = string(), AtomicType("BOOLEAN"), AtomicType("DOUBLE")
PRICE, LONG = AtomicType("DECIMAL", precision=4, scale=1), AtomicType("DECIMAL", precision=38, scale=10)


@pytest.mark.parametrize(
    ("function", "values", "kind", "expected"),
    [
        ("sum", [1, None, 2], INT, 3),
        ("sum", [None, None], INT, None),
        ("sum", [0.1, 0.2, 0.3], FLOATS, 0.1 + 0.2 + 0.3),
        ("sum", [Decimal("999.9"), Decimal("999.9"), Decimal("-999.9")], PRICE, Decimal("999.9")),
        (
            "sum",
            [Decimal("1.5"), Decimal("7128016380860357696264869434.6565516851")],
            LONG,
            Decimal("7128016380860357696264869436.1565516851"),
        ),
        ("sum", [Decimal(9 * 10**27), Decimal(10**27)], LONG, None),
        ("product", [3, None, -2], INT, -6),
        ("product", [Decimal("0.5"), Decimal("0.5")], PRICE, Decimal("0.3")),
        ("max", [1, None, 3, 2], INT, 3),
        ("min", ["b", "a", None], TEXT, "a"),
        ("bool_and", [True, None, False], BOOL, False),
        ("bool_or", [False, True], BOOL, True),
        ("last_value", [1, None], INT, None),
        ("last_non_null_value", [1, None], INT, 1),
        ("first_value", [None, 1], INT, None),
        ("first_non_null_value", [None, 1, 2], INT, 1),
        ("listagg", ["a", "", None, " \u3000", "\u00a0", "b"], TEXT, "a,\u00a0,b"),
    ],
)
def test_functions_of_values(function: str, values: list[Any], kind: DataType, expected: Any) -> None:
    assert aggregated(function, values, kind=kind) == expected


@pytest.mark.parametrize(
    ("function", "values", "kind", "expected"),
    [
        ("sum", [5, 3], INT, 2),
        ("sum", [None, 3], INT, -3),
        ("product", [-7, 2], INT, -3),
        ("product", [None, 2], INT, None),
        ("last_value", [5, None], INT, None),
        ("last_non_null_value", [5, None], INT, 5),
        ("last_non_null_value", [5, 1], INT, None),
    ],
)
def test_functions_take_deleted_values_back(function: str, values: list[Any], kind: DataType, expected: Any) -> None:
    assert aggregated(function, values, [ADD, DELETE], kind) == expected
    assert aggregated(function, values, [ADD, DELETE], kind, ignore_retract="true") == values[0]


MAP = MapType(AtomicType("VARCHAR", length=5, nullable=False), INT)
BYTES = AtomicType("VARBINARY", length=1000)
ALONE: dict[str, tuple[DataType, Any, dict[str, str]]] = {
    "rbm32": (BYTES, BitMap([*range(9, 50)], optimize=False).serialize(), {}),  # as one run it would be shorter
    "rbm64": (BYTES, bytes.fromhex(SKETCHES["rbm64"][0].removeprefix("0x")), {}),
    "hll_sketch": (BYTES, b"no sketch", {}),
    "theta_sketch": (BYTES, b"no sketch", {}),
    "listagg": (TEXT, "a,a,,\u00a0", {"distinct": "true"}),
    "collect": (ArrayType(INT), [1, None, 1], {}),
    "merge_map": (MAP, [("b", 1), ("a", None)], {}),
    "nested_update": (ArrayType(RowType((Field(10, "id", INT),))), [{"id": 1}, {"id": 1}], {}),
}


@pytest.mark.parametrize("nulls", [(1, 0), (0, 1), (2, 2)])
@pytest.mark.parametrize("function", ALONE)
def test_a_value_that_meets_only_nulls_stays_as_it_was_written(function: str, nulls: tuple[int, int]) -> None:
    """Byte for byte, as in Apache Paimon, which does not even read it; so it may be in a form that nobody would choose."""
    kind, value, more = ALONE[function]
    before, after = ([None] * count for count in nulls)
    assert aggregated(function, [*before, value, *after], kind=kind, **more) == value


@pytest.mark.parametrize("function", ["rbm32", "rbm64"])
def test_a_bitmap_that_is_damaged_is_read_only_where_it_is_united_with_another(function: str) -> None:
    assert aggregated(function, [None, b"damaged", None], kind=BYTES) == b"damaged"
    with pytest.raises(TableCorrupt, match="bitmap"):
        aggregated(function, [b"damaged", b"damaged"], kind=BYTES)


def test_functions_that_cannot_take_back_say_which_option_helps() -> None:
    for function in ("max", "listagg", "first_value"):
        kind = TEXT if function == "listagg" else INT
        values = ["a", "b"] if function == "listagg" else [1, 2]
        with pytest.raises(InvalidArgument, match=rf"column 'a': function '{function}'") as caught:
            aggregated(function, values, [ADD, DELETE], kind)
        assert "fields.a.ignore-retract" in str(caught.value)


def test_a_single_row_is_not_merged_and_a_delete_removes_it() -> None:
    assert aggregated("sum", [4], [DELETE]) == "gone"
    assert aggregated("listagg", [""], kind=TEXT) == ""
    removing = {"merge_engine": "aggregation", "aggregation__remove_record_on_delete": "true"}
    rows = [(1, ADD, 1, 5), (2, DELETE, 1, 5)]
    assert merged(rows, **removing, fields__a__aggregate_function="sum") == []
    assert merged([*rows, (3, ADD, 1, 4)], **removing, fields__a__aggregate_function="sum") == [(1, 9)]


def test_functions_of_lists_and_maps() -> None:
    numbers, pairs = ArrayType(INT), MapType(AtomicType("VARCHAR", length=5, nullable=False), INT)
    rows = ArrayType(RowType((Field(10, "id", INT), Field(11, "x", INT), Field(12, "y", INT))))
    assert aggregated("collect", [[1, 1], None, [2, 1]], kind=numbers) == [1, 1, 2, 1]
    assert aggregated("collect", [[1, 1], None, [2, 1]], kind=numbers, distinct="true") == [1, 2]
    assert aggregated("collect", [[1, 1, 2], [1]], [ADD, DELETE], numbers) == [1, 2]
    assert dict(aggregated("merge_map", [[("a", 1), ("b", 2)], [("b", 3)]], kind=pairs)) == {"a": 1, "b": 3}
    assert dict(aggregated("merge_map", [[("a", 1), ("b", 2)], [("b", 3)]], [ADD, DELETE], pairs)) == {"a": 1}
    one, two, new = {"id": 1, "x": 1, "y": 1}, {"id": 2, "x": 2, "y": None}, {"id": 1, "x": None, "y": 9}
    by_id = {"nested_key": "id"}

    def found(function: str, values: list[Any], *kinds: int, **options: str) -> list[Any]:
        return sorted(aggregated(function, values, list(kinds) or None, rows, **options), key=lambda row: row["id"])

    assert found("nested_update", [[one, None], [two, new]], **by_id) == [new, two]
    assert found("nested_update", [[one], [two, new]], count_limit="2") == [one, two]
    assert found("nested_update", [[one, two], [new]], ADD, DELETE, **by_id) == [two]
    assert found("nested_update", [[one, two], [one]], ADD, DELETE) == [two]
    by_x = {**by_id, "nested_sequence_field": "x"}
    older, equal = {"id": 1, "x": 0, "y": 5}, {"id": 1, "x": 1, "y": 6}
    assert found("nested_update", [[one, two], [older, new]], **by_x) == [one, two], "older, and null is the oldest"
    assert found("nested_update", [[one, two], [equal]], **by_x) == [equal, two]
    assert found("nested_update", [[equal, older], [two]], **by_x) == [equal, two], "also within the first list"
    full = {**by_x, "count_limit": "1"}
    assert found("nested_update", [[one], [two, equal]], **full) == [equal], (
        "a full list still takes newer rows of its keys"
    )
    unkeyed = {"id": None, "x": 1, "y": 1}
    assert found("nested_update", [[one, unkeyed], [two]], **by_id, nested_key_null_strategy="ignore") == [one, two]
    with pytest.raises(InvalidArgument, match="a row in a list has a null in its key"):
        found("nested_update", [[one, unkeyed], [two]], **by_id, nested_key_null_strategy="error")
    with pytest.raises(InvalidArgument, match=r"'fields.a.nested-sequence-field' needs option 'fields.a.nested-key'"):
        found("nested_update", [[one], [two]], nested_sequence_field="x")
    assert found("nested_partial_update", [[one, two], [new]], **by_id) == [{"id": 1, "x": 1, "y": 9}, two]


@pytest.mark.parametrize("keys", ["zz", "id,zz"])
def test_a_key_of_nested_rows_that_they_do_not_have_is_named(keys: str) -> None:
    """Of a table that another engine has made: we do not make one."""
    kind = ArrayType(RowType((Field(2, "id", INT), Field(3, "x", INT))))
    schema = new_schema(
        [Field(0, "k", AtomicType("INT", nullable=False)), Field(1, "a", kind)],
        primary_keys=["k"],
        options={"bucket": "1", "merge-engine": "aggregation", "fields.a.aggregate-function": "nested_update"},
    )
    schema = replace(schema, option_texts=schema.option_texts | {"fields.a.nested-key": keys})
    rules = merge_rules(schema)
    assert rules is not None
    rows = pa.array([[{"id": 1, "x": 1}]] * 2, to_arrow(kind))
    columns = {
        "_SEQUENCE_NUMBER": pa.array([1, 2], pa.int64()),
        "_VALUE_KIND": pa.array([ADD, ADD], pa.int8()),
        "_LEVEL": pa.array([0, 0], pa.int32()),
        "k": pa.array([1, 1], pa.int32()),
        "a": rows,
    }
    with pytest.raises(InvalidArgument, match=f"option 'fields.a.nested-key' = {keys}: the rows have"):
        merge_section(rules, columns.__getitem__, schema.fields, ["k", "a"])


def test_functions_that_are_not_supported_are_refused_for_their_columns_only() -> None:
    schema = new_schema(
        [Field(0, "k", AtomicType("INT", nullable=False)), Field(1, "a", INT), Field(2, "b", INT)],
        primary_keys=["k"],
        options={"bucket": "1", "merge-engine": "aggregation", "fields.a.aggregate-function": "median"},
    )
    rules = merge_rules(schema)
    assert rules is not None
    assert columns_to_merge(rules, schema.fields, ["b"]) == {"k", "b"}
    with pytest.raises(Unsupported, match=r"column 'a' of a table with a primary key has function 'median'"):
        columns_to_merge(rules, schema.fields, ["a", "b"])


# ------------------------------------------------------------------------------------------- rows as a compaction writes them


def test_a_compacted_row_keeps_its_number_and_kind_and_deletes_stay() -> None:
    rows = [
        (4, ADD, 30, 1),
        (7, DELETE, 30, 2),
        (1, ADD, 20, 3),
        (9, AFTER, 20, 4),
        (5, BEFORE, 10, 5),
        (6, AFTER, 11, 6),
    ]
    kept = [(5, BEFORE, 10, 5), (6, AFTER, 11, 6), (9, AFTER, 20, 4), (7, DELETE, 30, 2)]
    assert written(rows) == kept
    assert written(rows, drop_deletes=True) == kept[1:3]


def test_rows_that_are_ignored_stay_only_where_nothing_is_merged() -> None:
    """As in Apache Paimon, whose engines do not see a single row."""
    rows = [(1, ADD, 1, 1), (2, DELETE, 1, 2), (3, DELETE, 2, 3), (4, DELETE, 3, 4), (5, DELETE, 3, 5)]
    for engine in ("deduplicate", "first-row"):
        assert written(rows, ignore_delete="true", merge_engine=engine) == [(1, ADD, 1, 1), (3, DELETE, 2, 3)]
    partial = written(rows, ignore_delete="true", merge_engine="partial-update")
    assert partial == [(1, ADD, 1, 1), (3, DELETE, 2, 3), (0, DELETE, 3, 4)]


def test_engines_that_make_rows_write_additions_and_deletes_only() -> None:
    rows = [
        (1, AFTER, 1, 1, 1),
        (2, AFTER, 1, 2, None),
        (3, AFTER, 2, 3, 3),
        (4, ADD, 3, 4, 4),
        (5, DELETE, 3, 5, 5),
        (6, DELETE, 4, 6, 6),
        (7, ADD, 5, 7, 7),
        (8, DELETE, 5, 8, 8),
        (9, AFTER, 5, None, 9),
    ]
    both = [(2, ADD, 1, 2, 1), (3, AFTER, 2, 3, 3), (5, DELETE, 3, 5, 5), (6, DELETE, 4, 6, 6), (9, ADD, 5, 8, 9)]
    for engine in ("partial-update", "aggregation"):
        removing = {"merge_engine": engine, f"{engine.replace('-', '_')}__remove_record_on_delete": "true"}
        assert written(rows, **removing) == both


def test_a_delete_of_sequence_groups_stays_as_a_delete() -> None:
    rows = [(1, DELETE, 1, 1, 1), (2, BEFORE, 1, 2, 2), (3, ADD, 2, 5, 50), (4, DELETE, 2, 6, 7)]
    assert written(rows, **GROUPS) == [(2, DELETE, 1, 2, None), (4, ADD, 2, 6, None)]
    removing = GROUPS | {"partial_update__remove_record_on_sequence_group": "a"}
    assert written(rows, **removing)[1] == (4, DELETE, 2, 6, 7)


@pytest.mark.parametrize(
    ("function", "values", "kinds", "told"),
    [
        ("sum", [2**31 - 1, 1], None, r"2147483647 \+ 1 \(function 'sum'\) does not fit into INT"),
        ("sum", [-(2**31), 1], [ADD, DELETE], r"-2147483648 - 1 \("),
        ("sum", [None, -(2**31)], [ADD, DELETE], r"0 - -2147483648 \("),
        ("product", [2**16, 2**15], None, r"65536 \* 32768 \("),
        ("product", [-(2**31), -1], [ADD, DELETE], r"-2147483648 / -1 \("),
    ],
)
def test_a_whole_number_that_does_not_fit_is_an_error_that_names_the_key(
    function: str, values: list[Any], kinds: list[int] | None, told: str
) -> None:
    with pytest.raises(InvalidArgument, match=rf"^key k = 1: column 'a': {told}"):
        aggregated(function, values, kinds)


def test_the_order_of_sequence_fields_counts_among_the_rows_of_one_write() -> None:
    rows = [(1, ADD, 1, 5), (2, ADD, 1, 4), (3, ADD, 1, None)]
    for order, number in (("descending", 2), ("ascending", 1)):
        options = {"sequence__field": "a", "sequence__field__sort_order": order, "changelog_producer": "lookup"}
        rules, fields, columns = section(rows, None, None, options)
        _, found = merge_key_rows(rules.of_new_rows, columns.__getitem__, fields, ["k"], drop_deletes=False)
        assert found["_SEQUENCE_NUMBER"].to_pylist() == [number]
        assert not rules.of_new_rows.has_lookups


def test_written_rows_ascend_by_key_as_utf_8() -> None:
    schema = new_schema(
        [Field(0, "k", AtomicType("STRING", nullable=False)), Field(1, "n", AtomicType("INT", nullable=False))],
        primary_keys=["n", "k"],
        options={"bucket": "1"},
    )
    rules, keys = merge_rules(schema), ["é", "b", "\U0001f600", "a", "\uffee", "Z"]
    assert rules is not None
    count = len(keys)
    columns = {
        "k": pa.array(keys * 2),
        "n": pa.array([2] * count + [1] * count, pa.int32()),
        "_SEQUENCE_NUMBER": pa.array(range(2 * count)),
        "_VALUE_KIND": pa.array([ADD] * 2 * count, pa.int8()),
    }
    _, found = merge_key_rows(rules, columns.__getitem__, schema.fields, ["k", "n"], drop_deletes=False)
    assert found["k"].to_pylist() == ["Z", "a", "b", "é", "\uffee", "\U0001f600"] * 2
    assert found["n"].to_pylist() == [1] * count + [2] * count
