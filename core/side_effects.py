"""Options that ask a commit for more than a snapshot, and how lakelatch treats them.

Owns: the list, `check_side_effects`, `left_undone`. Must not know: how anything is written.
Source: format/commit §8; format/snapshot §5; format/schema §6. Invariant: If a reader that relies on an option would see wrong
rows or metadata after a lakelatch commit, the table is not written, and the error names the option. `doctor` reports the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .errors import Unsupported


@dataclass(frozen=True, slots=True)
class SideEffect:
    """An option that asks a commit for a side effect.

    Attributes:
        off: the values, in lower case, that ask for nothing.
        undone: what a lakelatch commit does not do.
        refused: a reader that relies on the option would see wrong rows or metadata, so the table is not written.
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
        "the Iceberg metadata beside the table would not be updated, and Iceberg readers would miss the rows",
        frozenset({"", "disabled"}),
        refused=True,
    ),
    SideEffect(
        "type",
        "the folder of such a table has a different layout",
        frozenset({"", "table", "materialized-table"}),
        refused=True,
    ),
    SideEffect("chain-table.enabled", "the branches of a chain are not checked against each other", refused=True),
    SideEffect(
        "commit.strict-mode.last-safe-snapshot",
        "other writers' commits since that snapshot are not checked",
        frozenset({"", "-1"}),
        refused=True,
    ),
    SideEffect("commit.callbacks", "the classes are not called after a commit"),
    SideEffect("tag.callbacks", "the classes are not called after a tag is created"),
    SideEffect("partition.mark-done-action", "no partition is marked as done by a commit: use `mark_done`"),
    SideEffect("partition.idle-time-to-done", "no partition is marked as done by a commit: use `mark_done`"),
    SideEffect("metastore.partitioned-table", "partitions are not registered in the metastore"),
    SideEffect("metastore.tag-to-partition", "tags are not registered in the metastore"),
    SideEffect("commit.force-compact", "a commit to an append table compacts nothing: use `compact`"),
    SideEffect(
        "full-compaction.delta-commits", "a commit to an append table compacts nothing: use `compact`", frozenset({""})
    ),
    SideEffect("query-auth.enabled", "row and column permissions are not enforced: only a catalog service can do that"),
)
"""The retention options (`snapshot.*`, `changelog.*`) are not listed, because expiry follows them, also after commits."""


def left_undone(options: Mapping[str, str]) -> list[SideEffect]:
    """The side effects that a table's options ask for and lakelatch does not perform.

    >>> [effect.option for effect in left_undone({"tag.callbacks": "Ours", "commit.callbacks": ""})]
    ['tag.callbacks']
    """
    return [effect for effect in SIDE_EFFECTS if effect.is_asked_for(options)]


def check_side_effects(options: Mapping[str, str]) -> None:
    for effect in left_undone(options):
        if effect.refused:
            value = options[effect.option]
            raise Unsupported(
                f"writing a table with option '{effect.option}' = '{value}' is not supported: {effect.undone}",
                next_step="write it with Apache Paimon, or remove the option",
            )
