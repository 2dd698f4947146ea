"""Which files of one bucket are merged with each other, and which are read as they are (format/primary-keys §2)."""

from __future__ import annotations

from typing import Any

import pytest

from lakelatch.core.metadata.data_file import DataFile
from lakelatch.core.metadata.schema import new_schema
from lakelatch.core.metadata.schemas.merge_rules import MergeRules, merge_rules
from lakelatch.core.rows.binary.binary_row import encode_row
from lakelatch.core.rows.types import AtomicType, DataType, Field
from lakelatch.table.merging.sections import are_in_order, groups_of, sections_of, sorted_runs


def rules_of(kind: DataType | None = None, **options: str) -> MergeRules:
    kind = kind or AtomicType("INT", nullable=False)
    texts = {name.replace("__", "."): value for name, value in options.items()}
    found = merge_rules(
        new_schema(
            [Field(0, "k", kind), Field(1, "v", AtomicType("INT"))], primary_keys=["k"], options={"bucket": "1"} | texts
        )
    )
    assert found is not None
    return found


def file(
    name: str, low: Any, high: Any, level: int, newest: int = 0, deletes: int | None = 0, kind: DataType | None = None
) -> DataFile:
    key = [kind or AtomicType("INT", nullable=False)]
    return DataFile(
        name,
        1,
        1,
        encode_row([low], key),
        encode_row([high], key),
        level=level,
        max_sequence_number=newest,
        delete_row_count=deletes,
    )


def shown(files: list[DataFile], rules: MergeRules) -> list[tuple[str, bool]]:
    return sorted(("".join(f.file_name for f in group.files), group.is_raw) for group in groups_of(files, rules))


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ([file("a", 1, 5, 0, 1), file("b", 6, 9, 0, 2)], [("a", True), ("b", True)]),
        ([file("b", 5, 9, 0, 2), file("a", 1, 5, 0, 1)], [("ab", False)]),
        ([file("a", 1, 2, 0, 1), file("b", 4, 5, 0, 2), file("c", 1, 5, 0, 3)], [("abc", False)]),
        # The wide file still reaches a later one after a narrow one in between.
        ([file("a", 1, 9, 5, 1), file("b", 2, 3, 0, 2), file("c", 8, 9, 0, 3)], [("abc", False)]),
        ([file("a", 1, 9, 0, 7), file("b", 1, 9, 5, 9)], [("ba", False)]),
        ([file("a", 1, 5, 0, deletes=1)], [("a", False)]),
        ([file("a", 1, 5, 5, deletes=None)], [("a", False)]),
        ([file("a", 1, 5, 5), file("b", 3, 9, 5)], [("a", True), ("b", True)]),
        ([file("a", 1, 5, 5), file("b", 3, 9, 4)], [("ab", False)]),
    ],
)
def test_files_whose_keys_overlap_are_merged(files: list[DataFile], expected: list[tuple[str, bool]]) -> None:
    assert shown(files, rules_of()) == expected


def test_vectors_and_first_row_leave_one_version_above_level_0() -> None:
    files = [file("a", 1, 5, 5), file("b", 3, 9, 4)]
    for option in ({"deletion_vectors__enabled": "true"}, {"merge_engine": "first-row"}):
        rules = rules_of(
            **{name.replace("_vectors", "-vectors").replace("merge_", "merge-"): v for name, v in option.items()}
        )
        assert rules.hides_level_0
        assert shown(files, rules) == [("a", True), ("b", True)]


@pytest.mark.parametrize(
    ("kind", "low", "high"),
    [
        (AtomicType("VARCHAR", length=10), "Z", "a"),
        (AtomicType("VARCHAR", length=10), None, "a"),
        (AtomicType("DOUBLE"), -0.0, 0.0),
        (AtomicType("DOUBLE"), float("inf"), float("nan")),
        (AtomicType("DOUBLE"), -2.0, -1.0),
    ],
)
def test_keys_compare_as_in_java(kind: DataType, low: Any, high: Any) -> None:
    files = [file("b", high, high, 0, kind=kind), file("a", low, low, 0, kind=kind)]
    assert shown(files, rules_of(kind)) == [("a", True), ("b", True)]
    wide = file("c", low, high, 0, 9, kind=kind)
    assert len(shown([*files, wide], rules_of(kind))) == 1


def test_a_file_without_a_range_of_keys_overlaps_all() -> None:
    files = [file("a", 1, 2, 0), DataFile("b", 1, 1), file("c", 8, 9, 0)]
    assert [len(group.files) for group in groups_of(files, rules_of())] == [3]


@pytest.mark.parametrize(("newer", "in_order"), [((11, 20), True), ((10, 20), False), ((9, 20), False)])
def test_runs_that_share_a_number_are_not_in_order(newer: tuple[int, int], in_order: bool) -> None:
    """Of two rows with one number, the one that adds counts as the newer, whichever file it is in."""
    files = [_numbered(1, 10), _numbered(*newer)]
    assert are_in_order(files, [[0], [1]]) is in_order


def _numbered(low: int, high: int) -> DataFile:
    return DataFile("data", 1, 2, min_sequence_number=low, max_sequence_number=high)


def test_sections_come_by_their_keys_and_their_files_by_age() -> None:
    files = [
        file("d", 7, 9, 0, 3),
        file("c", 4, 5, 2, 9),
        file("b", 1, 4, 0, 2),
        file("a", 1, 3, 5, 5),
        file("e", 8, 8, 0, 1),
    ]
    found = [[f.file_name for f in section] for section in sections_of(files, rules_of())]
    assert found == [["a", "c", "b"], ["e", "d"]]
    assert [[f.file_name for f in s] for s in sections_of([*reversed(files)], rules_of())] == found


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ([], []),
        ([file("a", 1, 5, 0)], [[0]]),
        ([file("a", 1, 5, 0), file("b", 5, 9, 0)], [[0], [1]]),
        ([file("a", 1, 5, 0), file("b", 6, 9, 0)], [[0, 1]]),
        ([file("b", 6, 9, 0), file("a", 1, 5, 0)], [[1, 0]]),
        ([file("a", 1, 9, 0), file("b", 1, 2, 0), file("c", 3, 4, 0), file("d", 5, 6, 0)], [[1, 2, 3], [0]]),
        ([file("a", 1, 4, 0), file("b", 2, 3, 0), file("c", 5, 9, 0), file("d", 5, 6, 0)], [[0, 2], [1, 3]]),
        ([file("a", 1, 2, 0), DataFile("b", 1, 1), file("c", 8, 9, 0)], [[0], [1], [2]]),
    ],
)
def test_the_files_of_a_section_are_as_few_runs_as_can_be(files: list[DataFile], expected: list[list[int]]) -> None:
    assert sorted(sorted_runs(files, rules_of())) == sorted(expected)


def test_runs_are_in_order_only_if_the_later_files_have_the_newer_numbers() -> None:
    old, mid, new = _numbered(1, 10), _numbered(11, 20), _numbered(21, 30)
    assert are_in_order([old, mid, new], [[0], [1], [2]])
    assert are_in_order([old, mid, new], [[2], [0], [1]]), "the order of the runs does not count"
    assert are_in_order([old, mid, new], [[0, 1], [2]])
    assert are_in_order([old], [[0]]) and are_in_order([], [])
    assert not are_in_order([new, old], [[0], [1]]), "the file that comes later has the older numbers"
    assert not are_in_order([old, new, mid], [[0], [1], [2]])
    assert not are_in_order([old, mid, new], [[0, 2], [1]]), "another run is between the files of one"
    assert not are_in_order([mid, old, new], [[0], [1, 2]]), "a run begins with its smallest number"


@pytest.mark.parametrize("engine", ["deduplicate", "first-row"])
@pytest.mark.parametrize("level", [0, 1])
def test_rows_of_one_level_above_0_are_read_as_they_are(engine: str, level: int) -> None:
    files = [file("a", 1, 5, 1), file("b", 4, 9, 1), file("c", 20, 21, level)]
    expected = [("a", True), ("b", True), ("c", True)] if level else [("ab", False), ("c", True)]
    assert shown(files, rules_of(**{"merge-engine": engine})) == expected
    deleting = file("d", 30, 31, 1, deletes=1)
    assert ("d", False) in shown([*files, deleting], rules_of(**{"merge-engine": engine}))
