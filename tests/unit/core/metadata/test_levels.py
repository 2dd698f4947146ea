"""The files of a bucket as sorted runs."""

from __future__ import annotations

from typing import Any

from lakelatch.core.metadata.data_file import DataFile
from lakelatch.core.metadata.sorted_runs.levels import level_count, overlapping, run_count, runs_of
from lakelatch.core.options import TableOptions
from lakelatch.core.rows.binary.binary_row import encode_row
from lakelatch.core.rows.types import AtomicType, Field

KEYS = [Field(0, "k", AtomicType("INT", nullable=False))]


def key(value: int) -> bytes:
    return encode_row([value], [f.type for f in KEYS])


def file(name: str, level: int = 0, low: int = 0, high: int = 9, **more: Any) -> DataFile:
    return DataFile(name, 10, 1, min_key=key(low), max_key=key(high), level=level, **more)


def test_each_file_of_level_0_is_a_run_and_each_higher_level_is_one() -> None:
    """The newest of level 0 comes first. Ties are broken by the smallest number, the time and the name, as in Apache Paimon."""
    files = [
        file("c", max_sequence_number=5, min_sequence_number=3, creation_time=7),
        file("top", 5, 4, 6),
        file("b", max_sequence_number=5, min_sequence_number=3, creation_time=7),
        file("low", 5, 1, 3),
        file("a", max_sequence_number=5, min_sequence_number=3, creation_time=8),
        file("newest", max_sequence_number=6),
        file("wide", max_sequence_number=5, min_sequence_number=2, creation_time=9),
        file("first", 1, -5, 9),
    ]
    runs = runs_of(files, KEYS)
    assert [(run.level, [f.file_name for f in run.files]) for run in runs] == [
        *((0, [name]) for name in ("newest", "wide", "b", "c", "a")),
        (1, ["first"]),
        (5, ["low", "top"]),
    ]
    assert run_count(files) == len(runs) == 7
    assert runs[-1].size == 20


def test_levels_are_as_many_as_the_options_say_or_the_files_have() -> None:
    assert level_count(TableOptions({}), []) == 6
    assert level_count(TableOptions({"num-sorted-run.compaction-trigger": "3"}), [file("a")]) == 4
    assert level_count(TableOptions({"num-levels": "3"}), [file("a", 2)]) == 3
    assert level_count(TableOptions({"num-levels": "3"}), [file("a", 4)]) == 5
    assert level_count(TableOptions({"num-levels": "1"}), []) == 2


def test_files_of_one_level_must_not_have_keys_in_common() -> None:
    assert overlapping([file("a", 1, 1, 4), file("b", 1, 5, 6), file("c", 2, 1, 9), file("d", 0)], KEYS) == []
    wide, inside, after = file("wide", 1, 1, 8), file("inside", 1, 2, 3), file("after", 1, 8, 9)
    found = overlapping([after, wide, inside], KEYS)
    assert found == [(wide, inside), (wide, after)]
