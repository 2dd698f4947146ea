"""Which sorted runs of a bucket are compacted, and into which level: Apache Paimon's universal compaction.

Owns: `PickRules`, `pick`, `pick_all`, `drops_deletes`, `stop_trigger`. Must not know: stores, clocks, how files are rewritten.
Source: format/primary-keys §7. Invariants: A pick is the newest runs of a bucket without a gap, so that no older version of a
row becomes newer than another. Its output is never level 0, and never above a run that it leaves out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ... import options as opt
from ...options import TableOptions
from ..data_file import DataFile
from .levels import SortedRun, level_count


@dataclass(frozen=True)
class PickRules:
    """The options of a table that decide about compaction. None means never, or any number.

    Attributes:
        trigger: with fewer runs nothing is compacted; option `num-sorted-run.compaction-trigger`.
        amplification: all runs are compacted if those above the last are larger than so many percent of it.
        ratio: a run is taken along if it is at most so many percent larger than what is taken already.
        interval_ms: all runs are compacted so long after the last time.
        total_bytes: all runs are compacted while they are smaller together.
        newer_bytes: all runs are compacted if those outside of the last level are larger together.
        off_peak: hours of the day, from the first to before the second, in which `off_peak_ratio` is added to `ratio`.
        raises_level_0: files of level 0 always go up, because readers do not see them there, or because options say so.
        gentle_files: where level 0 goes up: only if it has so many files.
        absorbs_low_levels: what has begun takes all runs of levels 0 and 1 along, as in Apache Paimon after 2.0.
    """

    levels: int = 6
    trigger: int = 5
    amplification: int = 200
    ratio: int = 1
    interval_ms: int | None = None
    total_bytes: int | None = None
    newer_bytes: int | None = None
    off_peak: tuple[int, int] | None = None
    off_peak_ratio: int = 0
    raises_level_0: bool = False
    gentle_files: int | None = None
    absorbs_low_levels: bool = True

    @property
    def last_level(self) -> int:
        return self.levels - 1

    @staticmethod
    def of(options: TableOptions, has_lookups: bool, files: Sequence[DataFile] = ()) -> PickRules:
        """The rules for a bucket with these files. `has_lookups` is that of `MergeRules`. Raises InvalidArgument."""
        trigger = options.get(opt.RUNS_TO_COMPACT)
        start, end = options.get(opt.OFF_PEAK_START), options.get(opt.OFF_PEAK_END)
        gentle = has_lookups and options.get(opt.LOOKUP_COMPACT) == "gentle"
        return PickRules(
            levels=level_count(options, files),
            trigger=trigger,
            amplification=options.get(opt.COMPACTION_AMPLIFICATION),
            ratio=options.get(opt.COMPACTION_SIZE_RATIO),
            interval_ms=options.get(opt.COMPACTION_INTERVAL),
            total_bytes=options.get(opt.COMPACTION_TOTAL_SIZE),
            newer_bytes=options.get(opt.COMPACTION_INCREMENTAL_SIZE),
            off_peak=None if -1 in (start, end) or start == end else (start, end),
            off_peak_ratio=options.get(opt.OFF_PEAK_RATIO),
            raises_level_0=has_lookups or options.get(opt.COMPACTION_FORCE_LEVEL_0),
            gentle_files=(options.get(opt.LOOKUP_COMPACT_INTERVAL) or 2 * trigger) if gentle else None,
        )

    def ratio_at(self, hour: int) -> int:
        if self.off_peak is None:
            return self.ratio
        start, end = self.off_peak
        is_off_peak = start <= hour < end if start <= end else hour < end or start <= hour
        return self.ratio + (self.off_peak_ratio if is_off_peak else 0)


@dataclass(frozen=True)
class Pick:
    """Runs, newest first, that are compacted together.

    Attributes:
        one_by_one: each file is rewritten by itself, and keeps its level.
    """

    runs: tuple[SortedRun, ...]
    output_level: int
    why: str
    one_by_one: bool = False

    @property
    def files(self) -> tuple[DataFile, ...]:
        return tuple(file for run in self.runs for file in run.files)


def stop_trigger(options: TableOptions) -> int:
    """The number of runs that a bucket should never have more of; option `num-sorted-run.stop-trigger`."""
    trigger, stop = options.get(opt.RUNS_TO_COMPACT), options.get(opt.RUNS_TO_STOP)
    return max(trigger, trigger + 3 if stop is None else stop)


def pick(rules: PickRules, runs: Sequence[SortedRun], *, now_ms: int, hour: int) -> Pick | None:
    """Which of a bucket's runs (see `runs_of`) should be compacted now. `now_ms` is the wall clock as files store it
    (see `DataFile.creation_time`), `hour` the hour of the day.
    """
    found = _early(rules, runs, now_ms) or _by_amplification(rules, runs)
    if found is None and len(runs) >= rules.trigger:
        found = _by_ratio(rules, runs, 1, hour, "runs of about one size")
    if found is None and len(runs) > rules.trigger:
        found = _by_ratio(rules, runs, len(runs) - rules.trigger + 1, hour, "too many runs")
    if found is None and rules.raises_level_0:
        fresh = sum(run.level == 0 for run in runs)
        if fresh and fresh >= (rules.gentle_files or 0):
            found = _by_ratio(rules, runs, fresh, hour, "level 0 goes up", forced=True)
    if found is None or _changes_nothing(found):
        return None
    return found


def pick_all(
    rules: PickRules, runs: Sequence[SortedRun], *, marked: frozenset[str] = frozenset(), rewrites: bool = False
) -> Pick | None:
    """All runs, for a full compaction into the last level. If they are there already, only those with deleted rows
    (`marked`), or, if `rewrites` (option `compaction.force-rewrite-all-files`), all.
    """
    if not runs:
        return None
    if len(runs) > 1 or runs[0].level != rules.last_level:
        return Pick(tuple(runs), rules.last_level, "full compaction")
    chosen = tuple(file for file in runs[0].files if rewrites or file.file_name in marked)
    if not chosen:
        return None
    return Pick((SortedRun(rules.last_level, chosen),), rules.last_level, "full compaction", one_by_one=True)


def drops_deletes(picked: Pick, runs: Sequence[SortedRun], has_vectors: bool) -> bool:
    """May rows that delete be left out, because no older version of their keys is outside of the pick? With vectors,
    the older versions in higher levels are already marked as deleted.
    """
    highest = max((run.level for run in runs), default=-1)
    return picked.output_level != 0 and (picked.output_level >= highest or has_vectors)


def _early(rules: PickRules, runs: Sequence[SortedRun], now_ms: int) -> Pick | None:
    if len(runs) < 2:
        return None
    last = [f.creation_time or 0 for run in runs if run.level == rules.last_level for f in run.files]
    newer = sum(run.size for run in runs if run.level != rules.last_level)
    reasons = (
        (
            rules.interval_ms is not None and (not last or now_ms - max(last) > rules.interval_ms),
            "the interval is over",
        ),
        (rules.total_bytes is not None and sum(run.size for run in runs) < rules.total_bytes, "the bucket is small"),
        (rules.newer_bytes is not None and newer > rules.newer_bytes, "newer rows have grown large"),
    )
    why = next((text for holds, text in reasons if holds), None)
    return None if why is None else Pick(tuple(runs), rules.last_level, why)


def _by_amplification(rules: PickRules, runs: Sequence[SortedRun]) -> Pick | None:
    if len(runs) < max(rules.trigger, 1):
        return None
    newer = sum(run.size for run in runs[:-1])
    if newer * 100 <= rules.amplification * runs[-1].size:
        return None
    return Pick(tuple(runs), rules.last_level, "size amplification")


def _by_ratio(
    rules: PickRules, runs: Sequence[SortedRun], count: int, hour: int, why: str, forced: bool = False
) -> Pick | None:
    """The first `count` runs, and those that follow as long as they are not much larger than all before them."""
    size, ratio, begun = sum(run.size for run in runs[:count]), rules.ratio_at(hour), forced or count > 1
    for run in runs[count:]:
        is_larger = size * (100.0 + ratio) / 100.0 < float(run.size)
        if is_larger and not (rules.absorbs_low_levels and begun and run.level <= 1):
            break
        size, count, begun = size + run.size, count + 1, True
    return _into_level(rules, runs, count, why) if begun else None


def _into_level(rules: PickRules, runs: Sequence[SortedRun], count: int, why: str) -> Pick:
    """The level below the next run; never level 0, so that runs are taken along up to the first of a higher level."""
    level = rules.last_level if count == len(runs) else max(0, runs[count].level - 1)
    while level == 0 and count < len(runs):
        level, count = runs[count].level, count + 1
    return Pick(tuple(runs[:count]), rules.last_level if count == len(runs) else level, why)


def _changes_nothing(found: Pick) -> bool:
    return len(found.files) == 1 and found.files[0].level == found.output_level
