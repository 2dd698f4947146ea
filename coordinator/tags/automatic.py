"""Automatic tags: which are due, which of the older ones go, and making and deleting them.

Owns: `Rules`, `plan_automatic`, `apply_automatic`. Must not know: when it is called. Source: format/snapshot §5; decision 54.
Invariants: for the same history the names are Apache Paimon's. Several processes may do it at once: of two tags of one name the
first stays. A tag that would be deleted again at once is not made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone, tzinfo
from typing import Any

from ...core import options as opt
from ...core.errors import InvalidArgument
from ...core.html_text import ShownAsText
from ...core.metadata.schema import TableSchema
from ...core.metadata.snapshot import Snapshot
from ...core.metadata.tag import Tag, check_tag_name
from ...core.options import TableOptions
from ...core.places import referenced_locations
from ..history.timeline import Timeline
from ..maintenance.deletion import Progress
from ..surroundings import MACHINE, Surroundings
from .creation import create_tag, find_tag, list_tags, replace_tag
from .deletion import apply_untagging, plan_untagging, success_file, unfinished
from .expiry import keeps_a_clone, outlived, wall_time
from .periods import Periods, zone_of
from .success import mark_created

_BATCH_PREFIX = "batch-write-"
_NO_WATERMARK = -(1 << 63)
"""What a streaming writer stores until its first watermark."""
_STRIDE = 64


@dataclass(frozen=True)
class Rules:
    """What a table's options say of automatic tags.

    Attributes:
        mode: "none", "process-time", "watermark" or "batch".
        periods: None with modes "none" and "batch".
        zone: in which periods begin and end; None for this machine's.
        delay: how long after a period its tag is made.
        most: how many tags are kept, each for `kept_ms`.
        completes: periods without a tag get one, each of the next snapshot.
        batch_name: the name of the one tag of mode "batch"; None for one each day.
        expires: tags whose retention is over are deleted.
        marks: each new tag gets a success file.
        of_clone: the table is a clone by reference, whose tag `cloned` stays (decision 72).
    """

    mode: str
    periods: Periods | None = None
    zone: tzinfo | None = None
    delay: timedelta = timedelta()
    most: int | None = None
    kept_ms: int | None = None
    completes: bool = False
    batch_name: str | None = None
    expires: bool = True
    marks: bool = False
    of_clone: bool = False

    @staticmethod
    def of(options: TableOptions) -> Rules:
        """Raises InvalidArgument if an option has no such value."""
        mode = options.get(opt.TAG_AUTOMATIC)
        by_watermark = mode == "watermark"
        zone = options.get(opt.WATERMARK_TIME_ZONE) if by_watermark else options.get(opt.PROCESS_TIME_ZONE)
        named = opt.WATERMARK_TIME_ZONE.key if by_watermark else opt.PROCESS_TIME_ZONE.key
        return Rules(
            mode,
            Periods.of(options) if mode in ("process-time", "watermark") else None,
            zone_of(zone, named),
            timedelta(milliseconds=options.get(opt.TAG_DELAY)),
            options.get(opt.TAG_RETAINED_MAX),
            options.get(opt.TAG_TIME_RETAINED),
            options.get(opt.TAG_COMPLETION),
            options.get(opt.TAG_BATCH_NAME),
            options.get(opt.TAG_TIME_EXPIRES),
            options.get(opt.TAG_SUCCESS_FILE),
            bool(referenced_locations(options)),
        )

    def time_of(self, snapshot: Snapshot) -> datetime | None:
        """The time of a snapshot that counts, on the wall; None where it has no watermark."""
        at_ms = snapshot.watermark if self.mode == "watermark" else snapshot.time_ms
        if at_ms is None or at_ms == _NO_WATERMARK:
            return None
        return datetime.fromtimestamp(at_ms / 1_000, timezone.utc).astimezone(self.zone).replace(tzinfo=None)


@dataclass(frozen=True)
class AutomaticPlan(ShownAsText):
    """The automatic tags that are due.

    Attributes:
        made: name and snapshot of each new tag, oldest first.
        deleted: the tags that go, because there are more than `tag.num-retained-max`, or their retention is over.
        interrupted: the names of tags whose deletion or replacement was cut off, so that files are left over.
        unmarked: the newest automatic tag, if it was made without its success file, because its process died.
    """

    made: tuple[tuple[str, Snapshot], ...] = ()
    deleted: tuple[str, ...] = ()
    interrupted: tuple[str, ...] = ()
    unmarked: str | None = None

    def __str__(self) -> str:
        parts = [f"{name} of snapshot {snapshot.id}" for name, snapshot in self.made]
        made = f"new tags: {', '.join(parts)}" if parts else "no new tag"
        gone = f"; deleted: {', '.join(self.deleted)}" if self.deleted else ""
        left = f"; files left over from: {', '.join(self.interrupted)}" if self.interrupted else ""
        mark = f"; success file of: {self.unmarked}" if self.unmarked else ""
        return f"{made}{gone}{left}{mark}"

    @property
    def is_due(self) -> bool:
        return bool(self.made or self.deleted or self.interrupted or self.unmarked)

    def to_dict(self) -> dict[str, Any]:
        """The plan with stable keys, ready for JSON."""
        return {
            "made": [{"tag": name, "snapshot": snapshot.id} for name, snapshot in self.made],
            "deleted": list(self.deleted),
            "interrupted": list(self.interrupted),
            "unmarked": self.unmarked,
        }


def plan_automatic(timeline: Timeline, rules: Rules, now_ms: int, *, expires: bool = True) -> AutomaticPlan:
    """Plan the automatic tags that are due, at `now_ms` (milliseconds since 1970). Changes nothing. `expires`: also look for
    tags whose retention is over, and for tags above the number that is kept; if False, only where a new tag is due.
    """
    latest = timeline.latest() if rules.mode != "none" else None
    made: list[tuple[str, Snapshot]] = []
    gone: list[str] = []
    left: list[str] = []
    newest: str | None = None
    marked: set[str] = set()
    if latest is not None and rules.mode == "batch":
        made, gone, newest = _batch(timeline, rules, latest)
        marked = _names(timeline)[1] if rules.marks and newest is not None else marked
    elif latest is not None:
        names, marked = _names(timeline)
        made, gone, newest = _by_period(timeline, rules, latest, names, expires)
    if rules.expires and (expires or made):
        over = (tag.name for tag in outlived(timeline, now_ms, of_clone=rules.of_clone))
        gone, left = [*dict.fromkeys([*gone, *over])], unfinished(timeline)
    gone = [name for name in gone if all(name != new for new, _ in made)]
    unmarked = newest if rules.marks and newest not in marked and newest not in gone else None
    return AutomaticPlan(tuple(made), tuple(gone), tuple(name for name in left if name not in gone), unmarked)


# ----------------------------------------------------------------------------------------------------------- by period


def _by_period(
    timeline: Timeline, rules: Rules, latest: Snapshot, there: Sequence[str], counts: bool
) -> tuple[list[tuple[str, Snapshot]], list[str], str | None]:
    """The tags to make and to delete, and the newest automatic tag that is there. `counts`: look for tags to delete even if none
    is made, because an earlier run may have died in between.
    """
    periods = rules.periods
    assert periods is not None
    names = {name: time for name in there if (time := periods.time_of(name)) is not None}
    newest = max(names, key=names.__getitem__, default=None)
    tag = find_tag(timeline, newest) if newest is not None else None
    following = periods.after(names[tag.name]) if tag is not None else None
    time = rules.time_of(latest)
    if time is None or not _is_due(rules, periods, time, following):
        return (*(_most(timeline, rules, [], names) if counts else ([], [])), newest)
    made: list[tuple[str, Snapshot]] = []
    for snapshot in _snapshots_after(timeline, tag.snapshot.id if tag is not None else 0):
        time = rules.time_of(snapshot)
        if time is None or not _is_due(rules, periods, time, following):
            continue
        begins = following if rules.completes and following is not None else periods.before(time)
        if (name := periods.name_of(begins)) not in names:
            made.append((name, snapshot))
            names[name] = begins
        following = periods.after(begins)
    return (*(_most(timeline, rules, made, names) if counts or made else ([], [])), newest)


def _is_due(rules: Rules, periods: Periods, time: datetime, following: datetime | None) -> bool:
    """Is the period that began at `following` over, for a snapshot of this time?"""
    return following is None or time - rules.delay >= periods.after(following)


def _names(timeline: Timeline) -> tuple[list[str], set[str]]:
    keys = dict.fromkeys(info.key for info in timeline.store.list(timeline.paths.tag_dir))
    names = [name for key in keys if (name := timeline.paths.tag_of(key)) is not None]
    return names, {name for name in names if success_file(timeline, name) in keys}


def _snapshots_after(timeline: Timeline, last: int) -> Iterator[Snapshot]:
    ids = [number for number in timeline.snapshot_ids() if number > last]
    for first in range(0, len(ids), _STRIDE):
        found = timeline.parallel(timeline.find, ids[first : first + _STRIDE])
        yield from (snapshot for snapshot in found if snapshot is not None)


def _most(
    timeline: Timeline, rules: Rules, made: list[tuple[str, Snapshot]], names: dict[str, datetime]
) -> tuple[list[tuple[str, Snapshot]], list[str]]:
    """Only the newest tagged snapshots keep their automatic tags."""
    if rules.most is None:
        return made, []
    by_snapshot: dict[int, list[str]] = {}
    for tag in list_tags(timeline):
        if tag.name in names:
            by_snapshot.setdefault(tag.snapshot.id, []).append(tag.name)
    there = {name for tagged in by_snapshot.values() for name in tagged}
    for name, snapshot in made:
        by_snapshot.setdefault(snapshot.id, []).append(name)
    doomed = {name for number in sorted(by_snapshot)[: -rules.most or None] for name in by_snapshot[number]}
    return [(n, s) for n, s in made if n not in doomed], sorted(doomed & there)


# --------------------------------------------------------------------------------------------------------------- batch


def _batch(
    timeline: Timeline, rules: Rules, latest: Snapshot
) -> tuple[list[tuple[str, Snapshot]], list[str], str | None]:
    """One tag each day, or one with a name of its own, of the newest snapshot. All tags count for the number that is kept, but
    not those that keep the files of a clone. The third is the name, if its tag is there and right."""
    day = rules.time_of(latest)
    assert day is not None
    name = rules.batch_name or f"{_BATCH_PREFIX}{day:%Y-%m-%d}"
    tags = list_tags(timeline)
    old = next((tag for tag in tags if tag.name == name), None)
    made = [(name, latest)] if old is None or old.snapshot.identity != latest.identity else []
    counted = [tag.name for tag in tags if not keeps_a_clone(tag.name, rules.of_clone)]  # by snapshot: the oldest first
    others = [other for other in counted if other != name]
    extra = len(others) + 1 - rules.most if rules.most is not None else 0
    return made, others[: max(extra, 0)], None if made else name


# ------------------------------------------------------------------------------------------------------------- applied


def apply_automatic(
    timeline: Timeline,
    schema: TableSchema,
    rules: Rules,
    plan: AutomaticPlan,
    around: Surroundings = MACHINE,
    progress: Progress | None = None,
) -> AutomaticPlan:
    """Returns what was done: a tag that another process made meanwhile, or whose snapshot has expired, is left out."""
    made = []
    if plan.unmarked is not None:
        mark_created(timeline, plan.unmarked, around.wall_ms)
    for name, snapshot in plan.made:
        try:
            _make(timeline, schema, rules, name, snapshot, around)
        except InvalidArgument:
            continue
        made.append((name, snapshot))
        if rules.marks:
            mark_created(timeline, name, around.wall_ms)
    there = {*timeline.tag_files(), *unfinished(timeline)} if plan.deleted else set()
    doomed = [name for name in plan.deleted if name in there]
    if doomed or plan.interrupted:
        apply_untagging(timeline, plan_untagging(timeline, schema, doomed, plan.interrupted), progress)
    return AutomaticPlan(tuple(made), tuple(doomed), plan.interrupted, plan.unmarked)


def _make(
    timeline: Timeline, schema: TableSchema, rules: Rules, name: str, snapshot: Snapshot, around: Surroundings
) -> None:
    created = None if rules.kept_ms is None else wall_time(around.wall_ms)
    tag = Tag(check_tag_name(name), snapshot, created, rules.kept_ms)
    old = find_tag(timeline, name) if rules.mode == "batch" else None
    if old is not None:
        replace_tag(timeline, schema, old, tag)
    else:
        create_tag(timeline, tag, around)


def tag_after_commit(timeline: Timeline, schema: TableSchema) -> Sequence[str]:
    """Make the tags that are due, and return their names. Retentions are looked at where a tag is due."""
    rules = Rules.of(schema.options)
    plan = plan_automatic(timeline, rules, MACHINE.wall_ms, expires=False)
    done = apply_automatic(timeline, schema, rules, plan) if plan.is_due else plan
    return [name for name, _ in done.made]
