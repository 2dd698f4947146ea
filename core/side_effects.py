"""Options that promise more of a commit than its snapshot, and what becomes of that promise here.

Owns: the list, `check_side_effects`, `left_undone`. Must not know: how anything is written.
Source: format/commit §8; format/snapshot §5; format/schema §6. Invariant: a table whose rows or metadata would be wrong after
a commit of ours, for somebody who goes by the option, is refused by the option's name; the rest is told by `doctor`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .errors import Unsupported


@dataclass(frozen=True, slots=True)
class SideEffect:
    """What an option promises.

    Attributes:
        option: its key.
        off: values, in lower case, that promise nothing.
        undone: what a commit of lakelatch leaves undone.
        refused: rows or metadata would be wrong for somebody who goes by the option: the table is not written.
    """

    option: str
    undone: str
    off: frozenset[str] = frozenset({"", "false", "none"})
    refused: bool = False

    def is_asked_for(self, options: Mapping[str, str]) -> bool:
        return str(options.get(self.option, "")).strip().lower() not in self.off


SIDE_EFFECTS: tuple[SideEffect, ...] = (
    SideEffect(
        "metadata.iceberg.storage",
        "the Iceberg metadata beside the table would stay behind, and its readers would miss the rows",
        frozenset({"", "disabled"}),
        refused=True,
    ),
    SideEffect(
        "type",
        "the folder of such a table is laid out in another way",
        frozenset({"", "table", "materialized-table"}),
        refused=True,
    ),
    SideEffect("chain-table.enabled", "the branches of a chain are not checked against each other", refused=True),
    SideEffect(
        "commit.strict-mode.last-safe-snapshot",
        "commits of others since that snapshot are not looked for",
        frozenset({"", "-1"}),
        refused=True,
    ),
    SideEffect("commit.callbacks", "the classes are not called after a commit"),
    SideEffect("tag.callbacks", "the classes are not called after a tag is made"),
    SideEffect("tag.automatic-creation", "no tag is made: `create_tag`, or the next commit of Apache Paimon, makes it"),
    SideEffect("partition.expiration-time", "no partition is dropped: `drop_partitions` does it"),
    SideEffect("partition.mark-done-action", "no partition is marked as done"),
    SideEffect("partition.idle-time-to-done", "no partition is marked as done"),
    SideEffect("metastore.partitioned-table", "partitions are not registered in the metastore"),
    SideEffect("metastore.tag-to-partition", "tags are not registered in the metastore"),
    SideEffect("commit.force-compact", "nothing is compacted by a commit: `compact` does it"),
    SideEffect("full-compaction.delta-commits", "nothing is compacted by a commit: `compact` does it", frozenset({""})),
    SideEffect("query-auth.enabled", "only a catalog service can keep readers of the files from rows and columns"),
)
"""Retention (`snapshot.*`, `changelog.*`) is no promise of a commit here: `expire` keeps to it."""


def left_undone(options: Mapping[str, str]) -> list[SideEffect]:
    """What the options of a table promise and a commit of lakelatch does not do.

    >>> [effect.option for effect in left_undone({"tag.automatic-creation": "process-time", "commit.callbacks": ""})]
    ['tag.automatic-creation']
    """
    return [effect for effect in SIDE_EFFECTS if effect.is_asked_for(options)]


def check_side_effects(options: Mapping[str, str]) -> None:
    """Refuse to write a table that would be wrong afterwards.

    Raises:
        Unsupported: names the option.
    """
    for effect in left_undone(options):
        if effect.refused:
            value = options[effect.option]
            raise Unsupported(
                f"writing a table with option '{effect.option}' = '{value}' is not supported: {effect.undone}",
                next_step="write it with Apache Paimon, or remove the option",
            )
