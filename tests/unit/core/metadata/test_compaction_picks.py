"""Each rule by which runs are chosen for a compaction (format/primary-keys §7)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lakelatch.core.metadata.data_file import DataFile
from lakelatch.core.metadata.sorted_runs.compaction_picks import Pick, PickRules, drops_deletes, pick, pick_all
from lakelatch.core.metadata.sorted_runs.levels import SortedRun
from lakelatch.core.options import TableOptions

RULES = PickRules(levels=5, trigger=3, amplification=25)


def runs(*sizes: tuple[int, int]) -> list[SortedRun]:
    """Runs of (level, size)."""
    return [SortedRun(a, (DataFile(f"f{i}", size, 1, level=a, creation_time=0),)) for i, (a, size) in enumerate(sizes)]


def level_0(*sizes: int) -> list[SortedRun]:
    return runs(*((0, size) for size in sizes))


def picked(rules: PickRules, found: list[SortedRun], now_ms: int = 0, hour: int = 0) -> tuple[int, int] | None:
    """The number of runs, and their output level."""
    chosen = pick(rules, found, now_ms=now_ms, hour=hour)
    assert chosen is None or list(chosen.runs) == found[: len(chosen.runs)]
    return None if chosen is None else (len(chosen.runs), chosen.output_level)


def test_fewer_runs_than_the_trigger_stay() -> None:
    assert picked(RULES, level_0(1, 1)) is None
    assert picked(RULES, []) is None


def test_all_runs_go_to_the_last_level_if_the_newer_ones_are_large() -> None:
    large = replace(RULES, ratio=-100, trigger=3)
    assert picked(large, runs((0, 10), (1, 16), (4, 100))) == (3, 4)
    assert picked(large, runs((0, 10), (1, 15), (4, 100))) is None
    assert picked(large, runs((0, 100), (4, 100))) is None


def test_runs_of_about_one_size_are_joined() -> None:
    rules = replace(RULES, amplification=1000, levels=6)
    assert picked(rules, runs((0, 100), (3, 101), (4, 300), (5, 900))) == (2, 3)
    assert picked(rules, runs((0, 100), (3, 102), (5, 900))) is None
    assert picked(rules, runs((0, 1), (0, 1), (3, 2), (4, 100))) == (3, 3)
    assert picked(replace(rules, ratio=5), runs((0, 100), (3, 102), (5, 900))) == (2, 4)


def test_what_has_begun_takes_level_1_along() -> None:
    found = runs((0, 1), (0, 1), (1, 50), (4, 1000))
    joined = replace(RULES, amplification=1000)
    assert picked(joined, found) == (3, 3)
    assert picked(replace(joined, absorbs_low_levels=False), found) == (3, 1)
    assert picked(joined, runs((0, 1), (0, 1), (2, 50), (4, 1000))) == (2, 1)
    assert picked(joined, runs((0, 1), (1, 50), (4, 1000))) is None


def test_too_many_runs_are_joined_whatever_their_size() -> None:
    rules = replace(RULES, amplification=1000)
    assert picked(rules, runs((0, 1), (1, 2), (2, 4), (4, 50))) == (2, 1)
    assert picked(rules, runs((0, 1), (2, 2), (3, 4), (4, 50))) == (2, 2)
    assert picked(rules, runs((0, 1), (2, 2), (4, 50))) is None


def test_the_output_is_never_level_0() -> None:
    rules = replace(RULES, amplification=10**9, levels=6, trigger=5, absorbs_low_levels=False)
    assert picked(rules, level_0(1, 1, 1, 1024, 1024**2)) == (5, 5)
    assert picked(rules, runs((0, 1), (0, 1), (0, 10), (1, 100), (5, 1000))) == (4, 1)
    assert picked(rules, runs((0, 1), (0, 1), (0, 10), (0, 100), (1, 1000))) == (5, 5)


def test_in_off_peak_hours_larger_runs_are_taken_along() -> None:
    found = runs((0, 100), (3, 150), (4, 1000))
    night = replace(RULES, amplification=1000, off_peak=(22, 6), off_peak_ratio=60)
    assert [picked(night, found, hour=hour) for hour in (21, 22, 23, 5, 6)] == [None, *[(2, 3)] * 3, None]
    day = replace(night, off_peak=(9, 17))
    assert [picked(day, found, hour=hour) for hour in (8, 9, 16, 17)] == [None, (2, 3), (2, 3), None]


@pytest.mark.parametrize(
    ("early", "now_ms", "sizes", "is_full"),
    [
        ({"interval_ms": 1000}, 1001, [(0, 1), (4, 9)], True),
        ({"interval_ms": 1000}, 1000, [(0, 1), (4, 9)], False),
        ({"interval_ms": 1000}, 0, [(0, 1), (3, 9)], True),
        ({"total_bytes": 10}, 0, [(0, 1), (4, 8)], True),
        ({"total_bytes": 10}, 0, [(0, 1), (4, 9)], False),
        ({"total_bytes": 10}, 0, [(0, 1)], False),
        ({"newer_bytes": 10}, 0, [(0, 9), (1, 2), (4, 1000)], True),
        ({"newer_bytes": 10}, 0, [(0, 9), (1, 1), (4, 1000)], False),
    ],
)
def test_a_full_compaction_comes_early_by_time_or_size(
    early: dict[str, Any], now_ms: int, sizes: list[tuple[int, int]], is_full: bool
) -> None:
    rules = replace(RULES, trigger=9, **early)
    assert picked(rules, runs(*sizes), now_ms) == ((len(sizes), 4) if is_full else None)


def test_level_0_goes_up_where_readers_do_not_see_it() -> None:
    rules = replace(RULES, raises_level_0=True)
    assert picked(rules, runs((0, 1), (4, 50))) == (1, 3)
    assert picked(rules, runs((0, 1), (1, 50), (2, 9))) == (3, 4)
    assert picked(rules, level_0(1)) == (1, 4)
    assert picked(rules, runs((1, 1), (4, 50))) is None
    gentle = replace(rules, gentle_files=2)
    assert picked(gentle, runs((0, 1), (4, 50))) is None
    assert picked(gentle, runs((0, 1), (0, 9), (4, 50))) == (2, 3)


def test_one_file_that_is_in_its_level_already_stays() -> None:
    assert picked(replace(RULES, trigger=1, amplification=-1), runs((4, 10))) is None


def test_a_full_compaction_takes_everything_once() -> None:
    found = runs((0, 1), (4, 50))
    chosen = pick_all(RULES, found)
    assert chosen is not None and (chosen.runs, chosen.output_level, chosen.one_by_one) == (tuple(found), 4, False)
    assert pick_all(RULES, []) is None
    assert pick_all(RULES, runs((4, 50))) is None
    one = pick_all(RULES, runs((3, 50)))
    assert one is not None and one.output_level == 4
    top = [SortedRun(4, (DataFile("a", 1, 1, level=4), DataFile("b", 1, 1, level=4)))]
    for how in ({"marked": frozenset("b")}, {"rewrites": True}):
        again = pick_all(RULES, top, **how)  # type: ignore[arg-type]
        assert again is not None and again.one_by_one
        assert [f.file_name for f in again.files] == (["b"] if "marked" in how else ["a", "b"])


def test_deletes_are_dropped_only_if_nothing_older_is_left_outside() -> None:
    found = runs((0, 1), (1, 2), (3, 9))
    assert drops_deletes(Pick(tuple(found), 4, ""), found, False)
    assert drops_deletes(Pick(tuple(found[:2]), 3, ""), found[:2], False)
    assert not drops_deletes(Pick(tuple(found[:2]), 2, ""), found, False)
    assert drops_deletes(Pick(tuple(found[:2]), 2, ""), found, True)
    assert not drops_deletes(Pick(tuple(found[:1]), 0, ""), found[:1], True)


def test_the_rules_are_those_of_the_options() -> None:
    files = [DataFile("a", 1, 1, level=7)]
    assert PickRules.of(TableOptions({}), False) == PickRules()
    texts = {
        "num-levels": "4",
        "num-sorted-run.compaction-trigger": "7",
        "compaction.max-size-amplification-percent": "50",
        "compaction.size-ratio": "3",
        "compaction.optimization-interval": "1 min",
        "compaction.total-size-threshold": "1 kb",
        "compaction.incremental-size-threshold": "2 kb",
        "compaction.offpeak.start.hour": "22",
        "compaction.offpeak.end.hour": "6",
        "compaction.offpeak-ratio": "10",
        "compaction.force-up-level-0": "true",
    }
    all_set = PickRules(8, 7, 50, 3, 60_000, 1024, 2048, (22, 6), 10, True)
    assert PickRules.of(TableOptions(texts), False, files) == all_set
    lookups = PickRules.of(TableOptions({"lookup-compact": "gentle"}), True)
    assert lookups.raises_level_0 and lookups.gentle_files == 10
    assert PickRules.of(TableOptions({"lookup-compact.max-interval": "3"}), True).gentle_files is None
