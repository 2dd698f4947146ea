"""Deletes tags, and the files that only they keep.

Owns: `plan_untagging`, `UntaggingPlan`, `apply_untagging`, and the records of tags that are being deleted. Must not know: why a
tag is deleted. Source: format/snapshot §5; format/commit §10; H7, H10, H11; decision 54.
Invariants: the tag's file goes first, and its files after another look at all roots, so that no tag that can be seen lacks a
file. A record of the tag stays until its files are gone; with it, an interrupted run is finished by the next one. A record by
itself never takes away a tag that is there: the run that wrote it may have been about to replace the tag. Where the tag's
snapshot still exists, only the tag's file goes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

from ...backends.elsewhere import delete_located
from ...backends.requests.refusals import past_refusals
from ...backends.store import ObjectInfo, ObjectNotFound
from ...core.arguments import text
from ...core.errors import CommitConflict, InvalidArgument
from ...core.html_text import ShownAsText
from ...core.metadata.schema import TableSchema
from ...core.metadata.tag import SUCCESS_FOLDER, SUCCESS_SUFFIX, Tag, parse_tag
from ...core.paths import UNTAGGED_DIR
from ..history.timeline import Timeline
from ..maintenance.deletion import Progress, Steps, second_look
from ..maintenance.reach.reachable import Reach, Usage
from ..maintenance.reach.roots import Root, list_roots, read_roots


@dataclass(frozen=True)
class UntaggingPlan(ShownAsText):
    """The tags to delete, and the files that nothing else needs.

    Attributes:
        steps: the files, in the order of deletion; without the tags' own files.
        records: the keys of the records that stay until the files are gone, with what they hold.
        files: the files of the tags, which go first, with what they hold.
    """

    tags: tuple[Tag, ...] = ()
    steps: Steps = field(default_factory=Steps)
    records: tuple[tuple[str, bytes], ...] = field(default=(), repr=False)
    files: tuple[tuple[str, bytes], ...] = ()
    seen: frozenset[ObjectInfo] = field(default=frozenset(), repr=False)
    usage: Usage | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        if not self.tags:
            return "no tag is deleted"
        names = ", ".join(dict.fromkeys(tag.name for tag in self.tags))
        metadata = len(self.steps.leaves) + len(self.steps.lists)
        which = f"tag {names}" if len(self.tags) == 1 else f"{len(self.tags)} tags ({names})"
        return f"{which}: {len(self.steps.data)} data files, {metadata} files of metadata"

    def to_dict(self) -> dict[str, Any]:
        """The plan with stable keys, ready for JSON."""
        return {
            "tags": [tag.name for tag in self.tags],
            "snapshots": sorted({tag.snapshot.id for tag in self.tags}),
            "data_files": list(self.steps.data),
            "metadata_files": [*self.steps.leaves, *self.steps.lists],
        }


def plan_untagging(
    timeline: Timeline, schema: TableSchema, names: Iterable[str], interrupted: Iterable[str] = ()
) -> UntaggingPlan:
    """Plan the deletion of tags of the timeline's branch. Changes nothing. Raises as `Table.delete_tag`.

    Args:
        names: the tags to delete. What an interrupted deletion of the same names has left is part of the plan.
        interrupted: further names, of which only that is deleted; a tag of such a name stays.
    """
    listed = list_roots(timeline)
    by_key, recorded = {info.key: info for info in listed}, list(timeline.store.list(_records_dir(timeline)))
    doomed, left = _tags_of(timeline, dict.fromkeys(text(name, "tag") for name in names), by_key, recorded)
    left += _interrupted(timeline, set(interrupted) - {tag.name for tag, _, _ in doomed}, by_key, recorded)
    left = list({info.key: (tag, info, data) for tag, info, data in left}.values())
    files = tuple((info.key, data) for _, info, data in doomed)
    seen = frozenset(listed) - {info for _, info, _ in doomed}
    records = [(record_of(timeline, tag, data), data) for tag, _, data in doomed] + [(i.key, d) for _, i, d in left]
    tags = tuple(tag for tag, _, _ in (*doomed, *left))
    expired = [(tag, info) for tag, info, _ in (*doomed, *left) if not _has_snapshot(timeline, tag)]
    if not expired:
        return UntaggingPlan(tags, records=tuple((i.key, d) for _, i, d in left), files=files, seen=seen)
    steps, usage, seen = _planned(timeline, schema, expired, seen)
    return UntaggingPlan(tags, steps, tuple(records), files, seen, usage)


Found = tuple[Tag, ObjectInfo, bytes]


def _tags_of(
    timeline: Timeline, names: Iterable[str], listed: dict[str, ObjectInfo], recorded: Sequence[ObjectInfo]
) -> tuple[list[Found], list[Found]]:
    found: list[Found] = []
    left: list[Found] = []
    for name in names:
        key, before = timeline.paths.tag(name), len(found) + len(left)
        for info in [listed[key]] if key in listed else []:
            found += _read(timeline, name, info)
        left += _records_of(timeline, name, recorded)
        if len(found) + len(left) == before:
            raise InvalidArgument(f"there is no tag {name!r}", next_step="tags() lists them")
    return found, left


def _interrupted(
    timeline: Timeline, names: Iterable[str], listed: dict[str, ObjectInfo], recorded: Sequence[ObjectInfo]
) -> list[Found]:
    """The records of earlier deletions of these names. Not those of tags that are still there: their deletion had not begun."""
    left: list[Found] = []
    for name in sorted(names):
        key = timeline.paths.tag(name)
        held = {data for info in ([listed[key]] if key in listed else []) for _, _, data in _read(timeline, name, info)}
        left += [found for found in _records_of(timeline, name, recorded) if found[2] not in held]
    return left


def _records_of(timeline: Timeline, name: str, recorded: Sequence[ObjectInfo]) -> list[Found]:
    folder = f"{_records_dir(timeline)}{name}/"
    return [found for info in recorded if info.key.startswith(folder) for found in _read(timeline, name, info)]


def _read(timeline: Timeline, name: str, info: ObjectInfo) -> list[Found]:
    try:
        data = timeline.store.get(info.key)
    except ObjectNotFound:
        return []
    return [(parse_tag(data, name, info.key), info, data)]


def _records_dir(timeline: Timeline) -> str:
    return f"{UNTAGGED_DIR}/{timeline.paths.branch}/"


def record_of(timeline: Timeline, tag: Tag, data: bytes) -> str:
    return f"{_records_dir(timeline)}{tag.name}/{sha256(data).hexdigest()[:16]}"


def unfinished(timeline: Timeline) -> list[str]:
    """The names of tags whose deletion or replacement was interrupted, so that files are left over."""
    folder = _records_dir(timeline)
    records = [info.key.removeprefix(folder).rpartition("/") for info in timeline.store.list(folder)]

    def held(name: str) -> str | None:
        try:
            return sha256(timeline.store.get(timeline.paths.tag(name))).hexdigest()[:16]
        except ObjectNotFound:
            return None

    names = {name for name, _, _ in records}
    there = dict(zip(names, timeline.parallel(held, names), strict=True))
    return sorted({name for name, _, digest in records if digest != there[name]})


def _has_snapshot(timeline: Timeline, tag: Tag) -> bool:
    found = timeline.find(tag.snapshot.id)
    return found is not None and found.identity == tag.snapshot.identity


def _planned(
    timeline: Timeline, schema: TableSchema, expired: Sequence[tuple[Tag, ObjectInfo]], others: Iterable[ObjectInfo]
) -> tuple[Steps, Usage, frozenset[ObjectInfo]]:
    """What tags keep and other roots do not need, the check of it, and the roots that were asked."""
    reach = Reach(timeline, schema)
    gone = reach.named_by([Root(info, "tag", timeline.paths.branch, tag.snapshot) for tag, info in expired])
    files = reach.live_data(gone)
    leaves = dict.fromkeys(key for named in gone for key in sorted(named.leaves))
    lists = dict.fromkeys(key for named in gone for key in sorted(named.lists))
    steps, usage = Steps(tuple(sorted(files.keys)), tuple(leaves), tuple(lists)), reach.usage(files)
    kept = reach.kept_by(read_roots(timeline, others))
    steps = steps.without({key for named in kept for key in named.keys} | usage.live(kept))
    for key in (*steps.data, *steps.leaves):
        reach.keys.deletable(key)
    return steps, usage, frozenset(named.root.info for named in kept)


@past_refusals()
def apply_untagging(timeline: Timeline, plan: UntaggingPlan, progress: Progress | None = None) -> UntaggingPlan:
    """Carry out a plan, after a second look at newer roots. Raises CommitConflict if a tag was replaced, StoreUnavailable."""
    refuse_changed(timeline, plan)
    record(timeline, plan)
    keys = [key for key, _ in plan.files]
    names = dict.fromkeys(tag.name for tag in plan.tags if timeline.paths.tag(tag.name) in keys)
    delete_located(timeline.store, [*keys, *(success_file(timeline, name) for name in names)])
    return free(timeline, plan, progress)  # a tag that the store refused to delete is a root that the second look finds


def refuse_changed(timeline: Timeline, plan: UntaggingPlan) -> None:
    """Raises CommitConflict where the name of a tag to delete now holds something else (H18)."""

    def changed(held: tuple[str, bytes]) -> bool:
        try:
            return timeline.store.get(held[0]) != held[1]
        except ObjectNotFound:
            return False

    replaced = [
        key for (key, _), is_new in zip(plan.files, timeline.parallel(changed, plan.files), strict=True) if is_new
    ]
    if replaced:
        raise CommitConflict(f"{replaced[0]} was replaced since its deletion was planned")


def record(timeline: Timeline, plan: UntaggingPlan) -> None:
    """Write down which tags are being deleted, where files of theirs are to be deleted afterwards."""
    for key, data in plan.records if len(plan.steps) else ():
        timeline.store.put(key, data)


def free(timeline: Timeline, plan: UntaggingPlan, progress: Progress | None = None) -> UntaggingPlan:
    """Delete the files of a plan whose tags are gone, but for those that newer roots reach."""
    if plan.usage is not None:
        steps = second_look(plan.steps, plan.seen, plan.usage)
        steps.delete(timeline.store, progress)
        plan = replace(plan, steps=steps)
    delete_located(timeline.store, [key for key, _ in plan.records])
    return plan


def success_file(timeline: Timeline, name: str) -> str:
    """The file of option `tag.create-success-file`."""
    return f"{timeline.paths.tag_dir}tag-{SUCCESS_FOLDER}/{name}{SUCCESS_SUFFIX}"
