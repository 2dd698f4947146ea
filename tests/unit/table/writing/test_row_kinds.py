"""What each row does to the row that has its key, and which tables take rows that delete."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from lakelatch.core.errors import InvalidArgument
from lakelatch.core.metadata.schema import TableSchema, new_schema
from lakelatch.core.metadata.schemas.merge_rules import MergeRules, merge_rules
from lakelatch.core.rows.types import AtomicType, Field
from lakelatch.table.writing.row_kinds import check_retracts, columns_to_delete, counted, has_groups, kinds_of, retracts

KINDS = ["+I", "-U", "+U", "-D"]


def rules_of(**options: str) -> tuple[TableSchema, MergeRules]:
    texts = {name.replace("__", ".").replace("_", "-"): text for name, text in options.items()}
    fields = [
        Field(0, "k", AtomicType("INT", nullable=False)),
        *(Field(i, "kab"[i], AtomicType("INT")) for i in (1, 2)),
    ]
    schema = new_schema(fields, primary_keys=["k"], options={"bucket": "1"} | texts)
    rules = merge_rules(schema)
    assert rules is not None
    return schema, rules


@pytest.mark.parametrize("t", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())])
def test_kinds_are_named_as_the_format_or_debezium_does(t: pa.DataType) -> None:
    names = [*KINDS, "+i", "-d", "c", "C", "r", "R", "u", "U", "d", "D"]
    found = kinds_of(pa.array(names, t) if not pa.types.is_string_view(t) else pa.array(names).cast(t), "op")
    assert (found.type, found.to_pylist()) == (pa.int8(), [0, 1, 2, 3, 0, 3, 0, 0, 0, 0, 2, 2, 3, 3])


@pytest.mark.parametrize(
    ("values", "told"),
    [
        (pa.array(["+I", "x", "y"]), "column 'op': 'x' is no row kind"),
        (pa.array(["+I", None]), "column 'op': null is no row kind"),
        (pa.nulls(2), "column 'op': null is no row kind"),
        (pa.array(["I"]), "'I' is no row kind"),
        (pa.array([" +I"]), "' \\+I' is no row kind"),
        (pa.array([1, 2]), "column 'op' has type int64, which cannot name row kinds"),
        (pa.array([b"+I"]), "has type binary"),
        (pa.array([1, 1]).dictionary_encode(), "has type int64"),
    ],
)
def test_what_names_no_kind_is_refused_with_its_value(values: Any, told: str) -> None:
    with pytest.raises(InvalidArgument, match=told) as refused:
        kinds_of(values, "op")
    assert "c, r, u and d" in refused.value.next_step


def test_no_rows_have_no_kinds() -> None:
    assert kinds_of(pa.array([], pa.string()), "op").to_pylist() == []
    assert kinds_of(pa.nulls(0), "op").to_pylist() == []


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({}, None),
        ({"ignore_delete": "true"}, [True, False, True, False]),
        ({"ignore_update_before": "true"}, [True, False, True, True]),
        ({"ignore_delete": "true", "ignore_update_before": "true"}, [True, False, True, False]),
    ],
)
def test_rows_that_the_options_ignore_are_left_out(options: dict[str, str], kept: list[bool] | None) -> None:
    schema, rules = rules_of(**options)
    kinds = kinds_of(pa.array(KINDS), "op")
    assert retracts(kinds).to_pylist() == [False, True, False, True]
    found = counted(kinds, rules, schema.options)
    assert (None if found is None else found.to_pylist()) == kept
    assert counted(kinds_of(pa.array(["+I", "+U"]), "op"), rules, schema.options) is None, "all count"
    assert counted(kinds_of(pa.array([], pa.string()), "op"), rules, schema.options) is None


GROUP = {"merge_engine": "partial-update", "fields__a__sequence_group": "b"}
REMOVES = "partial_update__remove_record_on_delete"
DELETING: list[tuple[dict[str, str], Any, Any]] = [
    ({}, True, ()),
    ({"sequence__field": "a"}, True, ("a",)),
    ({"sequence__field": "b,a"}, True, ("b", "a")),
    ({"ignore_delete": "true"}, True, "'ignore-delete', so rows cannot be deleted"),
    ({"merge_engine": "first-row"}, "first-row takes no rows that delete", "first-row takes no rows that delete"),
    ({"merge_engine": "aggregation"}, True, "'merge-engine' = aggregation cannot be deleted by key"),
    ({"merge_engine": "aggregation", "aggregation__remove_record_on_delete": "true"}, True, ()),
    ({"merge_engine": "partial-update"}, "no option says what they mean", "no option says what they mean"),
    ({"merge_engine": "partial-update", REMOVES: "true"}, True, ()),
    ({"merge_engine": "partial-update", REMOVES: "false"}, "no option says what", "no option says what"),
    (GROUP, True, "partial-update cannot be deleted by key"),
    (GROUP | {"partial_update__remove_record_on_sequence_group": "a"}, True, ("a",)),
]


@pytest.mark.parametrize(("options", "takes", "needs"), DELETING, ids=lambda value: str(value)[:60])
def test_which_tables_take_rows_that_delete_and_which_delete_by_key(
    options: dict[str, str], takes: Any, needs: Any
) -> None:
    """A row that deletes by its key also needs the columns that say how new it is."""
    _, rules = rules_of(**options)
    if takes is True:
        check_retracts(rules)
    else:
        with pytest.raises(InvalidArgument, match=takes) as refused:
            check_retracts(rules)
        assert "'ignore-delete' = true" in refused.value.next_step or "'ignore-delete' or" in refused.value.next_step
    if isinstance(needs, tuple):
        assert columns_to_delete(rules) == needs
    else:
        with pytest.raises(InvalidArgument, match=needs):
            columns_to_delete(rules)
    assert has_groups(rules) == ("fields__a__sequence_group" in options)


@pytest.mark.parametrize(
    ("options", "option"),
    [
        ({"merge_engine": "aggregation"}, "set option 'aggregation.remove-record-on-delete' = true on the table"),
        (GROUP, "set option 'partial-update.remove-record-on-sequence-group' on the table"),
    ],
)
def test_the_option_that_lets_keys_delete_is_named(options: dict[str, str], option: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        columns_to_delete(rules_of(**options)[1])
    assert refused.value.next_step == option


def test_only_an_option_of_columns_makes_a_sequence_group() -> None:
    """Another program's option may end in the same way."""
    _, rules = rules_of(merge_engine="partial-update")
    for option in ("mine.a.sequence-group", "fields.a.sequence-groups", "sequence-group"):
        assert not has_groups(replace(rules, texts={**rules.texts, option: "b"})), option
    assert has_groups(replace(rules, texts={**rules.texts, "fields.a.sequence-group": "b"}))
