"""The options of the data source, checked.

Owns: their names, their values, the table that they mean. Must not know: reading, writing.
Source: architecture §6; format/spark §1 (keys arrive in lower case). Invariant: an option that is not known is an error, never
ignored.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ..backends.storage_options import StorageOptions
from ..core.errors import InvalidArgument
from ..core.paths import DEFAULT_BRANCH
from ..core.rows.partition import closest
from ..table.create import open_table
from ..table.table import Table

STORAGE_PREFIX, PROPERTY_PREFIX = "storage.", "property."
KNOWN = (
    "path",
    "branch",
    "snapshot",
    "tag",
    "timestamp",
    "commit-user",
    "identifier",
    "isolation",
    "read-snapshot",
    "partition",
    "partitionoverwritemode",
)


class SourceOptions:
    """What can be said with `.option(...)`.

    | option | for | meaning |
    |---|---|---|
    | `path` | both | the table's URL (what `load` and `save` take) |
    | `branch` | both | a branch of it |
    | `snapshot`, `tag`, `timestamp` | reading | what is read; the latest snapshot by default |
    | `commit-user`, `identifier` | writing | exactly once: both or neither |
    | `isolation` | writing | `snapshot` or `serializable`, for an overwrite |
    | `read-snapshot` | writing | id of the snapshot that an overwrite's rows were made from |
    | `partition` | writing | what mode `overwrite` replaces, as `month=1/day=2`; without it the whole table |
    | `partitionOverwriteMode` | writing | `dynamic`: mode `overwrite` replaces each partition that has rows |
    | `property.<name>` | writing | kept in the snapshot; Spark makes names lower case |
    | `storage.<name>` | both | storage options; a value that begins with a brace is JSON |

    Spark shows options in plans and in its UI, and hides values by its own rule (`spark.redaction.regex`): name a profile
    here rather than a key (H19).

    Args:
        options: as Spark gives them.

    Raises:
        InvalidArgument: an unknown option, or a value that cannot be meant.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        given = {str(key).lower(): str(value) for key, value in options.items()}
        for key in given:
            if key not in KNOWN and not key.startswith((STORAGE_PREFIX, PROPERTY_PREFIX)):
                raise InvalidArgument(f"option '{key}' is not known to the source", next_step=closest(key, KNOWN))
        if not given.get("path"):
            raise InvalidArgument(
                "the source needs the table's URL", next_step="pass it to load() or save(), or as option 'path'"
            )
        self.url = given["path"]
        self.branch = given.get("branch", DEFAULT_BRANCH)
        self.tag, self.timestamp = given.get("tag"), given.get("timestamp")
        self.snapshot = _number(given, "snapshot")
        self.commit_user, self.identifier = given.get("commit-user"), _number(given, "identifier")
        self.isolation: Any = given.get("isolation", "snapshot")
        self.read_snapshot = _number(given, "read-snapshot")
        self.partition = given.get("partition")
        mode = given.get("partitionoverwritemode", "static").lower()
        if mode not in ("static", "dynamic"):
            raise InvalidArgument(f"option 'partitionOverwriteMode' is {mode!r}", next_step="use static or dynamic")
        self.dynamic = mode == "dynamic"
        self.properties = {k[len(PROPERTY_PREFIX) :]: v for k, v in given.items() if k.startswith(PROPERTY_PREFIX)}
        self.storage_options = StorageOptions(
            {k[len(STORAGE_PREFIX) :]: _value(k, v) for k, v in given.items() if k.startswith(STORAGE_PREFIX)}
        )

    def table(self) -> Table:
        """The table, to write to."""
        return open_table(self.url, branch=self.branch, storage_options=self.storage_options)

    def table_to_read(self) -> Table:
        """The table as it was at the moment that the options say."""
        moment: Any = self.timestamp
        if moment is not None and moment.lstrip("-").isdigit():
            moment = int(moment)
        if (self.snapshot, self.tag, moment) == (None, None, None):
            return self.table()
        return self.table().at(snapshot=self.snapshot, tag=self.tag, timestamp=moment)


def _number(given: Mapping[str, str], key: str) -> int | None:
    text = given.get(key)
    if text is None:
        return None
    try:
        return int(text)
    except ValueError:
        raise InvalidArgument(f"option '{key}' is {text!r}, no number") from None


def _value(key: str, text: str) -> Any:
    if not text.lstrip().startswith("{"):
        return text
    try:
        return json.loads(text)
    except ValueError:
        raise InvalidArgument(f"option '{key}' begins with a brace, but is no JSON") from None
