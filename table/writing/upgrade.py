"""The files of an overwrite go to the highest level at once, so that they need no compaction.

Owns: `upgraded`. Must not know: how files are written. Source: format/primary-keys §9.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...coordinator.commit.message import CommitMessage
from ...core import options as opt
from ...core.metadata.data_file import DataFile
from ...core.metadata.schema import TableSchema
from ...core.metadata.schemas.merge_rules import POSTPONED
from ...core.metadata.sorted_runs.levels import level_count, overlapping


def upgraded(messages: Sequence[CommitMessage], schema: TableSchema) -> list[CommitMessage]:
    """Messages whose new files of level 0 are moved to the highest level, in buckets where no two of them share keys.

    Nothing is moved if the table has no primary key, or option `overwrite-upgrade` is false.
    """
    if not schema.primary_keys or not schema.options.get(opt.OVERWRITE_UPGRADE):
        return list(messages)
    highest = level_count(schema.options, ()) - 1
    keys = [schema.by_name[name] for name in schema.trimmed_primary_keys]
    files: dict[tuple[bytes, int], list[DataFile]] = {}
    for message in messages:
        files.setdefault((message.partition, message.bucket), []).extend(message.new_files)
    if any(file.level or bucket <= POSTPONED for (_, bucket), found in files.items() for file in found):
        return list(messages)
    moved = {
        place
        for place, found in files.items()
        if not overlapping([file._replace(level=highest) for file in found], keys)
    }
    return [
        replace(m, new_files=tuple(file._replace(level=highest) for file in m.new_files))
        if (m.partition, m.bucket) in moved
        else m
        for m in messages
    ]
