"""The methods of `Table` for tags.

Owns: these methods. Must not know: how tags are stored, which files they keep. Source: format/snapshot §5; decision 54.
Invariant: a tag is made with the table's current options, not those with which the table was opened.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from ...coordinator.surroundings import MACHINE
from ...core import arguments
from ...core import options as opt
from ...core.errors import InvalidArgument
from ..opened import OpenTable
from .maintenance import Moment

if TYPE_CHECKING:
    from ...coordinator.history.timeline import Timeline
    from ...coordinator.maintenance.deletion import Progress
    from ...coordinator.tags.automatic import AutomaticPlan
    from ...coordinator.tags.deletion import UntaggingPlan
    from ...core.metadata.schema import TableSchema
    from ...core.metadata.tag import Tag


class Tags(OpenTable):
    """The methods of `Table` for tags."""

    def tags(self) -> list[Tag]:
        """The tags, by snapshot and name. Each has `name`, `snapshot`, `created` and `retained_ms`, and prints as one line."""
        from ...coordinator.tags.creation import list_tags

        return list_tags(self.timeline)

    def create_tag(
        self,
        name: str,
        *,
        snapshot: int | None = None,
        tag: str | None = None,
        timestamp: Moment = None,
        keep: str | int | timedelta | None = None,
        replace: bool = False,
    ) -> Tag:
        """Give a snapshot a name. Its files are kept until the tag is deleted, also after the snapshot has expired.

        Args:
            name: not empty, not of digits alone, without `/`, control characters and spaces at its ends.
            snapshot, tag, timestamp: which snapshot, as for `at`; the newest by default.
            keep: for how long the tag is kept: text such as `7 d`, milliseconds, or a timedelta; option
                `tag.default-time-retained`. By default it is kept until it is deleted. After that time `expire_tags`, or
                Apache Paimon, deletes it.
            replace: a tag of this name that is there already is replaced, and the files that only it needed are deleted.

        Returns:
            The tag. If there is one that says the same already, nothing changes.

        Raises:
            InvalidArgument: the name cannot be used, or another tag has it; or the snapshot does not exist, or has just expired.
            OutcomeUnknown: the store does not say whether the tag was created; `resolve()` asks again.

        Source: format/snapshot §5.

        >>> import pyarrow as pa, lakelatch as ll
        >>> table = ll.create_table("memory://tag-doctest/t", pa.schema([("v", pa.int64())]))
        >>> receipts = [table.append(pa.table({"v": [n]})) for n in range(3)]
        >>> print(table.create_tag("eod", snapshot=2))
        tag eod: snapshot 2 with 2 rows
        >>> table.at(tag="eod").to_arrow()["v"].to_pylist()
        [0, 1]
        """
        from ...coordinator.tags.creation import create_tag, find_tag, replace_tag
        from ...coordinator.tags.expiry import wall_time
        from ...coordinator.tags.success import mark_created
        from ...core.metadata.tag import Tag, check_chosen_tag_name, check_tag_name
        from ..travel import snapshot_at

        self._check_not_pinned()
        schema = self.timeline.latest_schema()
        check_tag_name(name)
        kept_ms = schema.options.get(opt.TAG_TIME_RETAINED) if keep is None else _duration_ms(keep)
        if snapshot is None and tag is None and timestamp is None:
            found = self.timeline.latest()
            if found is None:
                raise InvalidArgument(f"{self.url} has no snapshot yet", next_step="commit rows first")
        else:
            found = snapshot_at(self.timeline, snapshot=snapshot, tag=tag, timestamp=timestamp)
        wanted = Tag(name, found, None if kept_ms is None else wall_time(MACHINE.wall_ms), kept_ms)
        old = find_tag(self.timeline, name) if replace else None
        if old is not None:
            return replace_tag(self.timeline, schema, old, wanted)
        check_chosen_tag_name(name)
        made = create_tag(self.timeline, wanted)
        if schema.options.get(opt.TAG_SUCCESS_FILE):
            mark_created(self.timeline, name, MACHINE.wall_ms)
        return made

    def delete_tag(self, name: str, *, dry_run: bool = False, progress: Progress | None = None) -> UntaggingPlan:
        """Delete a tag, and the files that no other tag, snapshot, changelog or branch needs. Interrupted: run it again.

        Args:
            dry_run: delete nothing.
            progress: called with the number of files deleted so far and their total.

        Returns:
            What was deleted, or with `dry_run` would be. Prints as one line.

        Raises:
            InvalidArgument: there is no such tag.
            TableCorrupt: metadata that another tag, a snapshot or a branch needs cannot be read; nothing was deleted.
            CommitConflict: the tag was replaced meanwhile.

        >>> import pyarrow as pa, lakelatch as ll
        >>> table = ll.create_table("memory://untag-doctest/t", pa.schema([("v", pa.int64())]))
        >>> receipt, tag = table.append(pa.table({"v": [1]})), table.create_tag("eod")
        >>> print(table.delete_tag("eod"))
        tag eod: 0 data files, 0 files of metadata
        """
        arguments.callback(progress, "progress")
        self._check_not_pinned()
        return self._untagged([name], dry_run, progress)

    def rename_tag(self, name: str, new_name: str) -> Tag:
        """Give a tag another name. If a run is cut off, both names exist; run it again.

        Raises:
            InvalidArgument: there is no such tag, or another one has the new name.
        """
        from ...coordinator.tags.creation import rename_tag
        from ...core.metadata.tag import check_chosen_tag_name

        self._check_not_pinned()
        return rename_tag(self.timeline, name, check_chosen_tag_name(new_name))

    def expire_tags(
        self, *, older_than: Moment = None, dry_run: bool = False, progress: Progress | None = None
    ) -> UntaggingPlan:
        """Delete the tags whose retention is over, and the files that only they need. Deletes what interrupted deletions and
        replacements of tags have left, too.

        Args:
            older_than: also tags that are older than this, whatever their retention: how long ago (`30 d`), ISO text with zone,
                milliseconds since 1970, or a datetime. Those that keep the files of a clone by reference stay: `referenced-by-…`,
                and in the clone `cloned`; those of a branch (`branch-…`) until it is deleted; those of a rollback (`rollback-…`)
                while there is an older snapshot or tag.
            dry_run, progress: as for `delete_tag`.

        Returns:
            What was deleted, or with `dry_run` would be. Prints as one line.
        """
        from ...coordinator.tags.deletion import unfinished
        from ...coordinator.tags.expiry import outlived
        from ...core.places import referenced_locations
        from ..travel import older_than_millis

        arguments.callback(progress, "progress")
        self._check_not_pinned()
        until_ms = None if older_than is None else older_than_millis(older_than, MACHINE.wall_ms)
        of_clone = bool(referenced_locations(self.timeline.latest_schema().options))
        over = [tag.name for tag in outlived(self.timeline, MACHINE.wall_ms, until_ms, of_clone=of_clone)]
        return self._untagged(over, dry_run, progress, unfinished(self.timeline))

    def auto_tag(self, *, dry_run: bool = False, progress: Progress | None = None) -> AutomaticPlan:
        """Make the automatic tags that are due, and delete those that the options no longer keep.

        Each commit does this by itself in a table with option `tag.automatic-creation`, after its caller has the receipt. Call
        it where no commit comes: the tags of a period are made of the first snapshot after it.

        Args:
            dry_run: change nothing.
            progress: called with the number of files deleted so far and their total.

        Returns:
            What was done, or with `dry_run` would be. Prints as one line.

        Raises:
            InvalidArgument: an option has no such value.
        """
        from ...coordinator.tags.automatic import Rules, apply_automatic, plan_automatic

        arguments.callback(progress, "progress")
        self._check_not_pinned()
        schema = self.timeline.latest_schema()
        rules = Rules.of(schema.options)
        plan = plan_automatic(self.timeline, rules, MACHINE.wall_ms)
        return plan if dry_run else apply_automatic(self.timeline, schema, rules, plan, progress=progress)

    def _afterwards(self, timeline: Timeline, schema: TableSchema) -> list[Callable[[], object]]:
        work = super()._afterwards(timeline, schema)
        if schema.option_texts.get(opt.TAG_AUTOMATIC.key, "none").lower() != "none":
            from ...coordinator.tags.automatic import tag_after_commit

            work.insert(0, lambda: tag_after_commit(timeline, schema))  # before an expiry takes the snapshot away
        return work

    def _untagged(
        self, names: Sequence[str], dry_run: bool, progress: Progress | None, interrupted: Sequence[str] = ()
    ) -> UntaggingPlan:
        from ...coordinator.tags.deletion import UntaggingPlan, apply_untagging, plan_untagging

        if not names and not interrupted:
            return UntaggingPlan()
        plan = plan_untagging(self.timeline, self.timeline.latest_schema(), names, interrupted)
        return plan if dry_run else apply_untagging(self.timeline, plan, progress)


def _duration_ms(keep: str | int | timedelta) -> int:
    """A duration in milliseconds.

    >>> _duration_ms("7 d"), _duration_ms(5), _duration_ms(timedelta(seconds=1))
    (604800000, 5, 1000)
    """
    from ...core.options import parse_duration_ms

    try:
        if isinstance(keep, timedelta):
            found = keep // timedelta(milliseconds=1)
        else:
            found = parse_duration_ms(keep) if isinstance(keep, str) else int(keep)
    except (TypeError, ValueError) as error:
        raise InvalidArgument(f"keep: {error}", next_step="give a text such as '7 d', or milliseconds") from error
    if isinstance(keep, bool) or found <= 0:
        raise InvalidArgument(
            f"keep {keep!r} is not a time span", next_step="give a text such as '7 d', or milliseconds"
        )
    return found
