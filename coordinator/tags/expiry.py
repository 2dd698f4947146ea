"""Which tags have outlived their retention.

Owns: `outlived`, `keeps_a_clone`. Must not know: how a tag is deleted. Source: format/snapshot §5; decisions 54, 72.
Invariants: a tag that keeps the files of a clone is deleted only by a person, who names it. A tag's time of creation has no
zone. It is old only if its file is, too, by the store's clock: one that was made in another zone is not deleted hours too early.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from ...core.metadata.tag import Tag
from ..branches.hold import is_branch_tag
from ..commit.checks.restored import protected_by
from ..history.timeline import Timeline
from ..maintenance.drop import REFERENCED
from ..maintenance.reference import CLONED
from .creation import find_tag


def wall_time(at_ms: int) -> datetime:
    """What the clock on this machine's wall shows at a time in milliseconds since 1970: a time without a zone."""
    return datetime.fromtimestamp(at_ms / 1_000, timezone.utc).astimezone().replace(tzinfo=None)


def keeps_a_clone(name: str, of_clone: bool) -> bool:
    """Is a tag one that keeps the files of a clone by reference, in the table or in the clone itself, or those of a branch?

    >>> keeps_a_clone("referenced-by-trial-6b046a21-7", False), keeps_a_clone("cloned", False), keeps_a_clone("cloned", True)
    (True, False, True)
    """
    return name.startswith(REFERENCED) or is_branch_tag(name) or (of_clone and name == CLONED)


def outlived(timeline: Timeline, now_ms: int, older_than_ms: int | None = None, *, of_clone: bool = False) -> list[Tag]:
    """The tags whose retention is over, by snapshot and name. Those that keep the files of a clone have none (decision 72), and
    those of a rollback stay for as long as what they protect (decision 86).

    Args:
        now_ms: milliseconds since 1970.
        older_than_ms: also tags that are older than this, whatever their retention. Their file's time counts if they have none.
        of_clone: the table is a clone by reference itself.
    """
    listed = {name: info for name, info in timeline.tag_files().items() if not keeps_a_clone(name, of_clone)}
    found = zip(timeline.parallel(lambda name: find_tag(timeline, name), listed), listed.values(), strict=True)
    over = [tag for tag, info in found if tag is not None and _is_over(tag, info.modified_ms, now_ms, older_than_ms)]
    needed = _still_protecting(timeline, {tag.name for tag in over})
    return sorted((tag for tag in over if tag.name not in needed), key=lambda tag: (tag.snapshot.id, tag.name))


def _still_protecting(timeline: Timeline, over: set[str]) -> set[str]:
    """The tags of rollbacks that protect files of an older snapshot, or of an older tag that stays."""
    names = timeline.tag_files()
    rollbacks = {name: found for name in names if (found := protected_by(name)) is not None}
    if over.isdisjoint(rollbacks):
        return set()
    last = {unique: number for number, unique in sorted(rollbacks.values())}
    staying = timeline.parallel(lambda name: find_tag(timeline, name), names.keys() - over - rollbacks.keys())
    older = [*timeline.snapshot_ids()[:1], *(tag.snapshot.id for tag in staying if tag is not None)]
    return {name for name, (_, unique) in rollbacks.items() if min(older, default=0) < last[unique]}


def _is_over(tag: Tag, modified_ms: int, now_ms: int, older_than_ms: int | None) -> bool:
    """Is the retention over, or was the tag made before a time?

    >>> from ...core.metadata.snapshot import Snapshot
    >>> made = wall_time(1_000_000)
    >>> tag = Tag("eod", Snapshot(1, 0, "b", "d", "me", 7, "APPEND", 0, 1, 1), made, 5_000)
    >>> [_is_over(tag, modified, 1_006_000, None) for modified in (1_000_000, 1_004_000)]
    [True, False]
    """
    if older_than_ms is not None:
        created_ms = modified_ms if tag.created is None else int(tag.created.timestamp() * 1_000)
        if created_ms < older_than_ms:
            return True
    if tag.created is None or tag.retained_ms is None:
        return False
    age_us = (wall_time(now_ms) - tag.created) // timedelta(microseconds=1)  # the end may be no date that Python knows
    return age_us > tag.retained_ms * 1_000 and now_ms > modified_ms + tag.retained_ms
