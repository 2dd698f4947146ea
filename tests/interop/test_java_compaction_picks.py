"""Which runs are compacted: lakelatch chooses what Apache Paimon's `UniversalCompaction` (1.4.2) chooses, in random buckets.

Apache Paimon after 2.0 takes level 1 along once something is compacted; that one rule is turned off here.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from figures import NIGHTLY
from jpype import JClass, JImplements, JInt, JLong, JOverride

from lakelatch.core.metadata.data_file import DataFile
from lakelatch.core.metadata.sorted_runs.compaction_picks import PickRules, drops_deletes, pick
from lakelatch.core.metadata.sorted_runs.levels import runs_of

pytestmark = pytest.mark.java
BUCKETS = 10_000 if NIGHTLY else 400
LEVELS = 6


def bucket(rng: random.Random) -> list[DataFile]:
    """Files of level 0, with equal sequence numbers among them, and at most one file in each higher level."""
    chosen = rng.sample(range(1, LEVELS), rng.randint(0, LEVELS - 1))
    levels = [0] * rng.randint(0, 9) + chosen
    largest = rng.choice([3, 100, 1 << 40])
    return [
        DataFile(
            f"{rng.randrange(1 << 30)}-{i}",
            rng.randint(1, largest),
            1,
            level=level,
            min_sequence_number=rng.randint(0, 3),
            max_sequence_number=rng.randint(3, 9),
            creation_time=rng.randint(1, 3),
        )
        for i, level in enumerate(levels)
    ]


def rules_of(rng: random.Random) -> PickRules:
    return PickRules(
        levels=LEVELS,
        trigger=rng.randint(1, 8),
        amplification=rng.choice([25, 200, 100_000]),
        ratio=rng.choice([0, 1, 50]),
        total_bytes=rng.choice([None, None, 1000]),
        newer_bytes=rng.choice([None, None, 1000]),
        off_peak_ratio=0,
        raises_level_0=rng.random() < 0.3,
        absorbs_low_levels=False,
    )


def test_the_same_runs_are_picked(paimon_java: Any) -> None:
    package = "org.apache.paimon.mergetree"
    universal = JClass(f"{package}.compact.UniversalCompaction")
    early, force = (
        JClass(f"{package}.compact.EarlyFullCompaction"),
        JClass(f"{package}.compact.ForceUpLevel0Compaction"),
    )
    levels, meta = JClass(f"{package}.Levels"), JClass("org.apache.paimon.io.DataFileMeta")
    timestamp, array_list = JClass("org.apache.paimon.data.Timestamp"), JClass("java.util.ArrayList")
    row = JClass("org.apache.paimon.data.BinaryRow").EMPTY_ROW
    stats = JClass("org.apache.paimon.stats.SimpleStats").EMPTY_STATS

    @JImplements("java.util.Comparator")
    class NoOrder:
        """Levels above 0 have one file each, so that no two keys are compared."""

        @JOverride
        def compare(self, a: Any, b: Any) -> int:
            return 0

        @JOverride
        def equals(self, other: Any) -> bool:
            return self is other

    def of_java(file: DataFile) -> Any:
        numbers = (JLong(file.min_sequence_number), JLong(file.max_sequence_number), JLong(0))
        made = timestamp.fromEpochMillis(JLong(file.creation_time))
        head = (file.file_name, JLong(file.file_size), JLong(1), row, row, stats, stats)
        return meta.create(
            *head, *numbers, JInt(file.level), array_list(), made, None, None, None, None, None, None, None
        )

    rng = random.Random("compaction picks")
    seen = set()
    for number in range(BUCKETS):
        rules, files = rules_of(rng), bucket(rng)
        java = levels(NoOrder(), array_list([of_java(f) for f in files]), JInt(LEVELS))
        runs = runs_of(files)
        assert [int(r.level()) for r in java.levelSortedRuns()] == [run.level for run in runs]
        names = [str(f.fileName()) for f in java.allFiles()]
        assert names == [file.file_name for run in runs for file in run.files], f"bucket {number}"
        limits = [None if n is None else JLong(n) for n in (rules.total_bytes, rules.newer_bytes)]
        sooner = None if limits == [None, None] else early(None, *limits)
        strategy = universal(JInt(rules.amplification), JInt(rules.ratio), JInt(rules.trigger), sooner, None)
        if rules.raises_level_0:
            strategy = force(strategy, None)
        found, chosen = strategy.pick(JInt(LEVELS), java.levelSortedRuns()), pick(rules, runs, now_ms=0, hour=0)
        unit = found.get() if found.isPresent() else None
        if unit is not None and (
            not unit.files()
            or (unit.files().size() == 1 and int(unit.files().get(0).level()) == int(unit.outputLevel()))
        ):
            unit = None  # as its compaction manager leaves it out
        assert (unit is None) == (chosen is None), f"bucket {number}: {rules} {runs}"
        if chosen is not None:
            picked = (int(unit.outputLevel()), [str(f.fileName()) for f in unit.files()])
            assert picked == (chosen.output_level, [f.file_name for f in chosen.files]), (
                f"bucket {number}: {rules} {runs}"
            )
            assert drops_deletes(chosen, runs, False) == (chosen.output_level >= int(java.nonEmptyHighestLevel()))
        seen.add(chosen and chosen.why)
    assert len(seen) == 7  # nothing, and each rule but the one by time
