"""What a compaction looks up and records follows from a table's options (format/lookup-compaction §1, §2)."""

from __future__ import annotations

import pytest

from lakelatch.core.errors import InvalidArgument
from lakelatch.core.metadata.data_file import DataFile
from lakelatch.core.metadata.schema import new_schema
from lakelatch.core.metadata.schemas.merge_rules import merge_rules
from lakelatch.core.metadata.sorted_runs.lookup_rules import LookupRules, lookup_rules
from lakelatch.core.rows.types import AtomicType, Field

FIELDS = (Field(0, "k", AtomicType("INT", nullable=False)), Field(1, "a", AtomicType("INT")))
FILE, DELETES = DataFile("f", 1, 1), DataFile("f", 1, 1, delete_row_count=1)
OLD = DataFile("f", 1, 1, delete_row_count=None)
VECTORS, LOOKUP = {"deletion-vectors.enabled": "true"}, {"changelog-producer": "lookup"}
FULL = {"changelog-producer": "full-compaction"}
BY_SEQUENCE = {"sequence.field": "a"}
FIRST = {"merge-engine": "first-row"}


def rules_of(texts: dict[str, str]) -> LookupRules:
    schema = new_schema(FIELDS, primary_keys=["k"], options={"bucket": "1"} | texts)
    merge = merge_rules(schema)
    assert merge is not None
    return lookup_rules(schema, merge)


@pytest.mark.parametrize(
    ("texts", "looks_up", "needs_values", "writes_changelog"),
    [
        ({}, False, True, False),
        (VECTORS, True, False, False),
        (VECTORS | BY_SEQUENCE, True, True, False),
        (VECTORS | LOOKUP, True, True, True),
        (VECTORS | {"merge-engine": "partial-update"}, True, True, False),
        (LOOKUP, True, True, True),
        (FIRST, True, False, False),
        (FIRST | LOOKUP, True, False, True),
        ({"force-lookup": "true"}, True, True, False),
        (FULL, False, True, True),
        (FULL | {"force-lookup": "true"}, False, True, True),
        ({"changelog-producer": "input"}, False, True, False),
    ],
)
def test_the_rules_of_a_table(
    texts: dict[str, str], looks_up: bool, needs_values: bool, writes_changelog: bool
) -> None:
    rules = rules_of(texts)
    assert (rules.looks_up, rules.writes_changelog) == (looks_up, writes_changelog)
    assert not looks_up or rules.needs_values is needs_values


@pytest.mark.parametrize(
    ("texts", "file", "output", "expected"),
    [
        ({}, FILE, 5, "move"),
        (VECTORS, FILE, 4, "compare"),
        (VECTORS, DELETES, 5, "rewrite"),
        (VECTORS, OLD, 5, "rewrite"),
        (VECTORS | BY_SEQUENCE, FILE, 4, "rewrite"),
        (VECTORS | BY_SEQUENCE, FILE, 5, "compare"),
        (VECTORS, FILE._replace(level=3), 5, "move"),
        (LOOKUP, FILE, 4, "compare"),
        (LOOKUP, DELETES, 4, "compare"),
        (LOOKUP | BY_SEQUENCE, FILE, 4, "rewrite"),
        ({"force-lookup": "true"}, FILE, 4, "move"),
        (LOOKUP | {"file.format.per.level": "0:avro"}, FILE, 5, "rewrite"),
        (LOOKUP | {"file.format.per.level": "0:avro,4:avro"}, FILE, 4, "compare"),
        (FIRST, FILE, 4, "rewrite"),
        (FIRST, FILE, 5, "move"),
        (FIRST | LOOKUP, FILE, 5, "compare"),
        (FULL, FILE, 5, "compare"),
        (FULL, FILE, 4, "move"),
    ],
)
def test_a_file_moves_up_only_where_its_rows_stay_as_they_are(
    texts: dict[str, str], file: DataFile, output: int, expected: str
) -> None:
    assert rules_of(texts).upgrade(file, output, 5) == expected


def test_the_columns_that_count_as_changes() -> None:
    assert rules_of(LOOKUP).compared is None
    once = LOOKUP | {"changelog-producer.row-deduplicate": "true"}
    assert rules_of(once).compared == ("k", "a")
    assert rules_of(once | {"changelog-producer.row-deduplicate-ignore-fields": "a, b"}).compared == ("k",)


@pytest.mark.parametrize(
    ("texts", "word"),
    [
        ({"changelog-producer": "outcome"}, "'outcome' is not known"),
        (VECTORS | FULL, "does not go with 'changelog-producer' = full-compaction"),
        (VECTORS | FIRST, "does not go with 'merge-engine' = first-row"),
    ],
)
def test_options_that_contradict_each_other_are_refused(texts: dict[str, str], word: str) -> None:
    with pytest.raises(InvalidArgument, match=word):
        rules_of(texts)
