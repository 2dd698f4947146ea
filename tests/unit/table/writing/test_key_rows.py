"""What rows become in a table with a primary key: their kinds, and values for what a row that deletes need not have."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lakelatch.core.errors import InvalidArgument
from lakelatch.core.metadata.schema import new_schema
from lakelatch.core.metadata.schemas.merge_rules import merge_rules
from lakelatch.core.rows.types import AtomicType, Field, string
from lakelatch.table.writing.key_rows import KeyConformer

FIELDS = (
    Field(0, "k", AtomicType("BIGINT", nullable=False)),
    Field(1, "s", AtomicType("INT", nullable=False)),
    Field(2, "n", AtomicType("INT", nullable=False)),
    Field(3, "d", AtomicType("INT", nullable=False), default_value="7"),
    Field(4, "t", string(nullable=False)),
    Field(5, "flag", AtomicType("BOOLEAN", nullable=False)),
    Field(6, "note", string()),
    Field(7, "more", AtomicType("INT"), default_value="8"),
)
WHOLE = {"k": 1, "s": 2, "n": 3, "d": 4, "t": "x", "flag": True, "note": "y", "more": 5}


def conformer(
    row_kind: str | None = None, deletes: bool = False, fields: tuple[Field, ...] = FIELDS, **options: str
) -> KeyConformer:
    texts = {name.replace("__", ".").replace("_", "-"): text for name, text in options.items()}
    schema = new_schema(fields, primary_keys=["k"], options={"bucket": "1"} | texts)
    rules = merge_rules(schema)
    assert rules is not None
    return KeyConformer(schema, rules, row_kind=row_kind, deletes=deletes)


def rows(*found: dict[str, Any], **types: pa.DataType) -> pa.RecordBatch:
    batch = pa.RecordBatch.from_pylist(list(found))
    for name, kind in types.items():
        batch = batch.set_column(batch.schema.get_field_index(name), name, batch.column(name).cast(kind))
    return batch


def test_a_row_that_deletes_by_its_key_has_some_value_in_each_column_that_must_have_one() -> None:
    """Its default, where the column has one. The others are null."""
    (row,) = conformer(deletes=True)(rows({"k": 5})).to_pylist()
    assert row == {
        "_VALUE_KIND": 3, "k": 5, "s": 0, "n": 0, "d": 7, "t": "", "flag": False, "note": None, "more": 8,
    }  # fmt: skip
    (row,) = conformer(deletes=True)(rows({"n": 9, "k": 5, "note": "y"})).to_pylist()
    assert (row["n"], row["note"], row["_VALUE_KIND"]) == (9, "y", 3), "what is given stays"


def test_rows_without_a_kind_are_inserted() -> None:
    made = conformer()
    found = made(rows(WHOLE, WHOLE | {"k": 2}))
    assert found.to_pylist() == [{"_VALUE_KIND": 0, **WHOLE}, {"_VALUE_KIND": 0, **WHOLE, "k": 2}]
    assert found.schema == made.schema and found.schema.field(0) == pa.field("_VALUE_KIND", pa.int8(), nullable=False)


@pytest.mark.parametrize("kind", ["-D", "-U"])
def test_a_row_that_deletes_may_have_nulls_outside_of_its_key(kind: str) -> None:
    """As databases send them. One that adds may not, and none may have a null in what finds and orders it."""
    made = conformer("op", sequence__field="s")
    gone = {"k": 5, "s": 1, "op": kind} | dict.fromkeys(("n", "d", "t", "flag", "note", "more"))
    found = made(rows(WHOLE | {"op": "+I"}, gone)).to_pylist()
    whole = {"n": 0, "d": 0, "t": "", "flag": False}
    assert {name: found[1][name] for name in whole} == whole and found[1]["note"] is None
    assert found[0] == {"_VALUE_KIND": 0, **WHOLE} and found[1]["_VALUE_KIND"] == {"-U": 1, "-D": 3}[kind]
    for name in ("n", "t", "flag"):
        with pytest.raises(InvalidArgument, match=f"column '{name}' has 1 nulls, but it is NOT NULL"):
            made(rows(WHOLE | {"op": "+U", name: None}, WHOLE | {"op": kind}, gone | {name: WHOLE[name]}))
    for name in ("k", "s"):
        with pytest.raises(InvalidArgument, match=f"column '{name}' has 1 nulls, but it is NOT NULL"):
            made(rows(WHOLE | {"op": "+U"}, gone | {name: None}))


def test_a_null_among_the_values_of_a_dictionary_is_one_like_others() -> None:
    texts = pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["x", None]))
    assert texts.null_count == 0
    batch = rows(WHOLE | {"op": "+I"}, WHOLE | {"op": "-D"})
    batch = batch.set_column(batch.schema.get_field_index("t"), "t", texts)
    assert conformer("op")(batch).column("t").to_pylist() == ["x", ""]


def test_a_type_that_does_not_fit_is_told_also_of_a_row_that_deletes() -> None:
    made = conformer("op")
    with pytest.raises(InvalidArgument, match="'n'"):
        made(rows(WHOLE | {"op": "+I", "n": "x"}, WHOLE | {"op": "-D", "n": None}))


@pytest.mark.parametrize(
    ("given", "options", "told"),
    [
        ({"n": 1}, {}, "no column 'k', which is part of the primary key"),
        ({"k": 1}, {"sequence__field": "s"}, "no column 's', which is part of what orders the rows of a key"),
        ({"k": 1, "unknown": 1}, {}, "unknown"),
    ],
)
def test_what_a_row_must_have_to_delete_another_is_named(given: Any, options: dict[str, str], told: str) -> None:
    with pytest.raises(InvalidArgument, match=told):
        conformer(deletes=True, **options)(rows(given))


def test_the_column_of_kinds_is_stored_only_if_the_table_has_it() -> None:
    apart = conformer("op")(rows(WHOLE | {"op": "u"}))
    assert apart.to_pylist() == [{"_VALUE_KIND": 2, **WHOLE}]
    inside = conformer("note")(rows(WHOLE | {"note": "+U"}))
    assert inside.to_pylist() == [{"_VALUE_KIND": 2, **WHOLE, "note": "+U"}]
    own = {"rowkind__field": "note"}
    for named in (None, "note"):
        made = conformer(named, **own)(rows(WHOLE | {"note": "-U"}))
        assert made.to_pylist() == [{"_VALUE_KIND": 1, **WHOLE, "note": "-U"}]
    with pytest.raises(InvalidArgument, match="takes the kinds of its rows from column 'note'"):
        conformer("t", **own)
    (deleted,) = conformer(deletes=True, **own)(rows({"k": 5})).to_pylist()
    assert (deleted["_VALUE_KIND"], deleted["note"]) == (3, "-D")
    (deleted,) = conformer(deletes=True, **own)(rows({"k": 5, "note": "+I"})).to_pylist()
    assert deleted["_VALUE_KIND"] == 3, "whatever the column says"


@pytest.mark.parametrize("place", range(len(WHOLE) + 1))
def test_the_column_of_kinds_may_stand_anywhere_in_the_data(place: int) -> None:
    columns = [*WHOLE.items()]
    columns.insert(place, ("op", "-D"))
    assert conformer("op")(rows(dict(columns))).to_pylist() == [{"_VALUE_KIND": 3, **WHOLE}]
    own = [("note", "-U"), *((name, value) for name, value in WHOLE.items() if name != "note")]
    found = conformer(rowkind__field="note")(rows(dict(own[-place:] + own[:-place]))).to_pylist()
    assert found == [{"_VALUE_KIND": 1, **WHOLE, "note": "-U"}]


@pytest.mark.parametrize("kinds", [{"row_kind": "op"}, {"rowkind__field": "op"}])
def test_data_without_the_column_of_kinds_are_refused(kinds: dict[str, str]) -> None:
    fields = (*FIELDS, Field(8, "op", string()))
    with pytest.raises(InvalidArgument, match="no column 'op', which names the kind of each row"):
        conformer(fields=fields, **kinds)(rows(WHOLE))


def test_rows_that_do_not_count_are_left_out() -> None:
    every = rows(*(WHOLE | {"k": key, "op": op} for key, op in enumerate(["+I", "-U", "+U", "-D"])))
    ignoring = conformer("op", ignore_delete="true")(every).to_pylist()
    assert [(row["_VALUE_KIND"], row["k"]) for row in ignoring] == [(0, 0), (2, 2)]
    before = conformer("op", ignore_update_before="true")(every).to_pylist()
    assert [(row["_VALUE_KIND"], row["k"]) for row in before] == [(0, 0), (2, 2), (3, 3)]
    first = conformer("op", merge_engine="first-row")
    with pytest.raises(InvalidArgument, match="first-row takes no rows that delete"):
        first(every)
    assert len(first(every.slice(0, 1))) == len(first(every.slice(2, 1))) == 1
    assert len(conformer("op", merge_engine="first-row", ignore_delete="true")(every)) == 2
    assert conformer("op")(every.slice(4)).num_rows == 0
