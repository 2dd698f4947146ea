"""Options that name columns follow them when they are renamed, and hold them when they are dropped (format/schema §4)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.core.errors import InvalidArgument
from lakelatch.core.metadata.schemas.column_options import _LISTS, renamed
from lakelatch.core.metadata.schemas.functions import FUNCTIONS
from lakelatch.core.option_names import KNOWN, OF_A_COLUMN
from lakelatch.table.merging.aggregates import functions

ROWS = "ARRAY<ROW<id INT, n INT>>"
PARTIAL = {"merge-engine": "partial-update", "bucket": "1"}
SUMS = {"merge-engine": "aggregation", "bucket": "1"}


def table(path: Path, columns: str, options: dict[str, str], key: str | None = "k") -> ll.Table:
    fields = [tuple(column.split(" ", 1)) for column in columns.split("; ")]
    return ll.create_table(str(path / "t"), ll.Schema(fields), primary_key=key, options=options)


CASES = [
    ("k INT NOT NULL; a INT; g INT", {**PARTIAL, "fields.g.sequence-group": "a"}, ("a", "x"), {"fields.g.sequence-group": "x"}),
    ("k INT NOT NULL; a INT; g INT", {**PARTIAL, "fields.g.sequence-group": "a"}, ("g", "x"), {"fields.x.sequence-group": "a"}),
    ("k INT NOT NULL; a INT; g INT; h INT", {**PARTIAL, "fields.g,h.sequence-group": "a"},
     ("h", "x"), {"fields.g,x.sequence-group": "a"}),
    ("k INT NOT NULL; a INT; g INT",
     {**PARTIAL, "fields.g.sequence-group": "a", "partial-update.remove-record-on-sequence-group": "g"},
     ("g", "x"), {"partial-update.remove-record-on-sequence-group": "x", "fields.x.sequence-group": "a"}),
    ("k INT NOT NULL; a INT", {"bucket": "1", "sequence.field": "a"}, ("a", "x"), {"sequence.field": "x"}),
    ("k INT NOT NULL; a STRING", {"bucket": "1", "rowkind.field": "a"}, ("a", "x"), {"rowkind.field": "x"}),
    ("k INT NOT NULL; a BIGINT", {"bucket": "1", "record-level.time-field": "a", "record-level.expire-time": "1 d"},
     ("a", "x"), {"record-level.time-field": "x"}),
    ("k INT NOT NULL; a INT; b INT", {"bucket": "1", "changelog-producer.row-deduplicate-ignore-fields": "b,a"},
     ("a", "x"), {"changelog-producer.row-deduplicate-ignore-fields": "b,x"}),
    ("k INT NOT NULL; a INT", {"bucket": "1", "fields.a.stats-mode": "none"}, ("a", "x"), {"fields.x.stats-mode": "none"}),
    ("k INT NOT NULL; a INT", {"bucket": "1", "file-index.bitmap.columns": "k,a"},
     ("a", "x"), {"file-index.bitmap.columns": "k,x"}),
    ("k INT NOT NULL; a INT; a.b INT", {**SUMS, "fields.a.b.aggregate-function": "sum", "fields.a.aggregate-function": "max"},
     ("a", "x"), {"fields.a.b.aggregate-function": "sum", "fields.x.aggregate-function": "max"}),
    ("k INT NOT NULL; a INT; a.b INT", {**SUMS, "fields.a.b.aggregate-function": "sum", "fields.a.aggregate-function": "max"},
     ("a.b", "x"), {"fields.x.aggregate-function": "sum", "fields.a.aggregate-function": "max"}),
]  # fmt: skip


@pytest.mark.parametrize(("columns", "options", "rename", "expected"), CASES)
def test_a_rename_moves_the_option(
    columns: str, options: dict[str, str], rename: tuple[str, str], expected: dict[str, str], tmp_path: Path
) -> None:
    made = table(tmp_path, columns, options)
    made.alter(ll.rename_column(*rename))
    found = ll.open_table(made.url).options
    kept = {option: text for option, text in options.items() if option.startswith("record-level.expire")}
    left = {option: found[option] for option in found if option not in ("bucket", "merge-engine", *kept)}
    assert left == expected
    with pytest.raises(InvalidArgument, match=rf"'{rename[1]}'.* option '|option '.*'{rename[1]}'"):
        made.alter(ll.drop_column(rename[1]))


def test_two_names_are_swapped(tmp_path: Path) -> None:
    options = {**PARTIAL, "fields.g.sequence-group": "a", "fields.a.aggregate-function": "sum"}
    made = table(tmp_path, "k INT NOT NULL; a INT; g INT", options)
    made.alter(ll.rename_column("a", "_"), ll.rename_column("g", "a"), ll.rename_column("_", "g"))
    found = ll.open_table(made.url).options
    assert found["fields.a.sequence-group"] == "g"
    assert found["fields.g.aggregate-function"] == "sum"
    assert "fields.g.sequence-group" not in found


def test_rows_stay_what_they_were_when_a_column_of_a_group_is_renamed(tmp_path: Path) -> None:
    made = table(tmp_path, "k INT NOT NULL; a INT; g INT", {**PARTIAL, "fields.g.sequence-group": "a"})
    for row in ((1, 1, 5), (1, 2, 3)):
        made.upsert(pa.Table.from_pylist([dict(zip("kag", row, strict=True))], made.arrow_schema))
    made.alter(ll.rename_column("a", "b"), ll.rename_column("g", "h"))
    made.upsert(pa.table({"k": [1], "b": [9], "h": [4]}, ll.open_table(made.url).arrow_schema))
    assert ll.open_table(made.url).to_arrow().to_pylist() == [{"k": 1, "b": 1, "h": 5}]


def test_fields_of_nested_rows_follow_and_stay(tmp_path: Path) -> None:
    options = {**SUMS, "fields.v.aggregate-function": "nested_update", "fields.v.nested-key": "id,n"}
    made = table(tmp_path, f"k INT NOT NULL; v {ROWS}", options)
    made.alter(ll.rename_column("v.element.id", "number"), ll.rename_column("v", "w"))
    assert ll.open_table(made.url).options["fields.w.nested-key"] == "number,n"
    with pytest.raises(InvalidArgument, match=r"'w.element.number' cannot be dropped: option 'fields.w.nested-key'"):
        made.alter(ll.drop_column("w.element.number"))
    texts = {"fields.m.ts-field": "ts", "fields.mm.ts-field": "ts"}
    assert renamed(texts, "m.value.ts", "at", is_column=False) == {**texts, "fields.m.ts-field": "at"}


def test_an_option_must_name_columns_that_exist(tmp_path: Path) -> None:
    for option in ("clustering.columns", "record-level.time-field", "fields.z.stats-mode"):
        with pytest.raises(InvalidArgument, match=f"option '{option}': there is no column 'z'"):
            table(tmp_path, "k INT NOT NULL; a INT", {option: "z"}, key=None)


def test_a_name_with_a_dot_in_an_option_must_begin_with_a_column(tmp_path: Path) -> None:
    """Apache Paimon ends such a name at the first dot, and cannot open the table if there is no column of that name."""
    with pytest.raises(InvalidArgument, match=r"'fields\.z\.b\.distinct': Apache Paimon takes 'z'"):
        table(tmp_path, "k INT NOT NULL; z.b INT", {**SUMS, "fields.z.b.distinct": "true"})
    made = table(tmp_path, "k INT NOT NULL; a INT; b INT", {**SUMS, "fields.a.aggregate-function": "sum"})
    with pytest.raises(InvalidArgument, match="takes 'z' for the name of the column"):
        made.alter(ll.rename_column("a", "z.a"))
    made.alter(ll.rename_column("b", "z.b"))


def test_every_option_of_a_column_is_declared() -> None:
    """An option whose name tells that it names columns is in the one list."""
    telling = {name for name in KNOWN if name.endswith(("field", "-fields", ".columns", "bucket-key"))}
    others = {"fields", "blob-write-null-on-missing-field", "csv.field-delimiter", "field-delimiter", "sequence.field"}
    assert telling - others <= {*_LISTS}, telling - others - {*_LISTS}
    assert {"nested-key", "nested-sequence-field", "ts-field", "sequence-group"} <= {*OF_A_COLUMN}


WRONG: list[tuple[str, str, dict[str, str]]] = [
    ("listagg", "INT", {}),
    ("listagg", "VARCHAR(9)", {}),
    ("rbm32", "INT", {}),
    ("sum", "STRING", {}),
    ("product", "DATE", {}),
    ("max", "ARRAY<INT>", {}),
    ("max", "BOOLEAN", {}),
    ("bool_or", "INT", {}),
    ("collect", "INT", {}),
    ("merge_map", "ARRAY<INT>", {}),
    ("merge_map_with_keytime", "MAP<INT, INT>", {}),
    ("nested_update", "ARRAY<INT>", {}),
    ("nested_update", ROWS, {"nested-key": "z"}),
    ("nested_update", ROWS, {"nested-sequence-field": "n"}),
    ("nested_update", ROWS, {"nested-key": "id", "count-limit": "many"}),
    ("nested_update", ROWS, {"nested-key": "id", "nested-key-null-strategy": "skip"}),
    ("nested_partial_update", ROWS, {}),
    ("summ", "INT", {}),
]


@pytest.mark.parametrize(("function", "kind", "more"), WRONG)
def test_a_function_that_its_column_cannot_have_is_refused(
    function: str, kind: str, more: dict[str, str], tmp_path: Path
) -> None:
    """When the table is made, and when it is altered, before rows are acknowledged that nobody can read."""
    options = {"fields.v.aggregate-function": function, **{f"fields.v.{key}": text for key, text in more.items()}}
    with pytest.raises(ll.LakelatchError, match=r"\bv\b"):
        table(tmp_path, f"k INT NOT NULL; v {kind}", {**SUMS, **options})
    assert not (tmp_path / "t").exists()
    made = table(tmp_path, f"k INT NOT NULL; v {kind}", SUMS)
    with pytest.raises(ll.LakelatchError, match=r"\bv\b"):
        made.alter(*(ll.set_option(key, text) for key, text in options.items()))


def test_a_type_that_the_function_does_not_take_is_refused(tmp_path: Path) -> None:
    made = table(tmp_path, "k INT NOT NULL; v INT", {**SUMS, "fields.v.aggregate-function": "sum"})
    with pytest.raises(InvalidArgument, match="column 'v' is of type STRING: function 'sum'"):
        made.alter(ll.update_type("v", "STRING"))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"fields.g.sequence-group": "k"}, "'k' is part of the primary key"),
        ({"fields.g.sequence-group": "a,z"}, "there is no column 'z'"),
        ({"fields.g.sequence-group": "a, b"}, "blanks"),
        ({"fields.g.sequence-group": "a", "fields.b.sequence-group": "a"}, "'a' is in several sequence groups"),
        ({"fields.g.sequence-group": "a", "fields.a.sequence-group": "b"}, "'a' is in several sequence groups"),
        ({"fields.g.sequence-group": "a", "fields.b,g.sequence-group": "b"}, "'g' is in several sequence groups"),
        ({"fields.a.aggregate-function": "sum"}, "no sequence group"),
        ({"partial-update.remove-record-on-sequence-group": "g"}, "orders no sequence group"),
        ({"partial-update.remove-record-on-delete": "true", "ignore-delete": "true"}, "exclude each other"),
    ],
)
def test_groups_that_apache_paimon_cannot_open_are_refused(options: dict[str, str], told: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=told):
        table(tmp_path, "k INT NOT NULL; a INT; b INT; g INT", {**PARTIAL, **options})


def test_a_foreign_table_with_a_wrong_function_takes_no_rows(tmp_path: Path) -> None:
    made: Any = table(tmp_path, "k INT NOT NULL; v INT", SUMS)
    file = tmp_path / "t" / "schema" / "schema-0"
    text = file.read_text().replace('"merge-engine"', '"fields.v.aggregate-function": "listagg", "merge-engine"')
    file.write_text(text)
    with pytest.raises(InvalidArgument, match="column 'v' is of type INT: function 'listagg'"):
        ll.open_table(made.url).upsert(pa.table({"k": [1], "v": [1]}, made.arrow_schema))


def test_the_functions_that_are_checked_are_those_that_are_computed() -> None:
    assert FUNCTIONS.keys() == functions.FUNCTIONS.keys()
