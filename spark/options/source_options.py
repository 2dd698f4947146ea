"""Checks the options of the data source.

Owns: the names and values of the options, and the table that they describe. Must not know: reading, writing. Source:
architecture §6; format/spark §1 (keys arrive in lower case). Invariant: An unknown option is an error and is never ignored.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Any

from ...backends.registry import scheme_of, url_text
from ...backends.storage_options import StorageOptions
from ...core.errors import InvalidArgument
from ...core.expressions.tree import Predicate
from ...core.json_text import loads
from ...core.metadata.schema import TableSchema
from ...core.paths import DEFAULT_BRANCH
from ...core.rows.partition import closest
from ...table.create import open_table
from ...table.table import Table
from ...table.travel import epoch_millis
from ..sessions.session import check_path
from ..sessions.zones import bound_in, partition_in, zone_named
from .asked import Asked
from .streams import CHECKPOINT, READING, StreamOptions

STORAGE_PREFIX, PROPERTY_PREFIX = "storage.", "property."
READING_ROWS = (
    "where",
    "columns",
    "snapshot",
    "tag",
    "timestamp",
    "watermark",
    "incremental-between",
    "incremental-between-scan-mode",
    "overwrites",
    "system",
)
"""Options that say what is read, and mean nothing to a write."""
ONE_WRITE = ("commit-user", "identifier", "read-snapshot", "partition")
KNOWN = (
    "path",
    "branch",
    "timezone",
    "isolation",
    "group",
    "partitionoverwritemode",
    "mergeschema",
    "row-kind",
    *ONE_WRITE,
    *READING_ROWS,
    *READING,
    CHECKPOINT,
)


class SourceOptions:
    """The options that users pass with `.option(...)`.

    | option | for | meaning |
    |---|---|---|
    | `path` | both | the URL of the table, which is also the argument of `load` and `save`. A relative path begins at the
      folder in which the source was registered |
    | `where` | reading | a condition on the rows. It reaches partitions and files, and filters of a query do not |
    | `columns` | reading | the columns to read, separated by commas; all by default |
    | `branch` | both | a branch of the table |
    | `snapshot`, `tag`, `timestamp`, `watermark` | reading | the snapshot to read; the latest by default |
    | `incremental-between` | reading | `3,7` or two tags: the changes after the first, up to the second, instead of rows (see
      `lakelatch.spark.changes`) |
    | `incremental-between-scan-mode` | reading | `auto` (default), `delta`, `changelog` or `diff`, for such a read |
    | `overwrites` | reading | `false`: such a read leaves out what overwrites changed, as Apache Paimon does |
    | `system` | reading | a system table instead of the rows, such as `tags`; `where` and `columns` are then about its columns |
    | `timeZone` | both | the zone of times without one in other options; Spark does not tell a source the session's zone |
    | `commit-user`, `identifier` | writing | give both to commit exactly once, or neither |
    | `isolation` | writing | `snapshot` or `serializable`, for an overwrite |
    | `group` | writing | `auto`: an append that loses a race may ride with the next winner; `off`: it goes alone. By default,
      what the table's option `commit.group` says |
    | `read-snapshot` | writing | the id of the snapshot that an overwrite's rows were computed from |
    | `partition` | writing | the partition that mode `overwrite` replaces, as `month=1/day=2`; by default the whole table |
    | `partitionOverwriteMode` | writing | `dynamic`: `overwrite` replaces each partition that has rows; `static`: everything.
      By default, what the session's setting `spark.sql.sources.partitionOverwriteMode` says |
    | `mergeSchema` | writing | `true`: first add the columns that the table lacks, as a schema change of its own |
    | `row-kind` | writing | the column that names the kind of each row, on a table with a primary key: `+I`, `-U`, `+U`, `-D` |
    | `property.<name>` | writing | a property to store in the snapshot; Spark converts names to lower case |
    | `storage.<name>` | both | a storage option; a value that begins with a brace is JSON |

    Spark shows options in plans and in its UI, and hides values only by its own rule (`spark.redaction.regex`). So name a
    profile here instead of a key (H19).
    """

    def __init__(self, options: Mapping[str, str], folder: str | None = None) -> None:
        given = {str(key).lower(): str(value) for key, value in options.items()}
        for key in given:
            if key not in KNOWN and not key.startswith((STORAGE_PREFIX, PROPERTY_PREFIX)):
                raise InvalidArgument(f"option '{key}' is unknown", next_step=closest(key, KNOWN))
        if not given.get("path"):
            raise InvalidArgument(
                "the source needs the table's URL, and Spark does not tell it where a table of its catalog lies",
                next_step="pass it to load(), save() or start(), or as option 'path'; to use a table of the catalog, call"
                " lakelatch.spark.register(spark), create it with CREATE TABLE … USING lakelatch LOCATION 'url', and write"
                " with INSERT INTO in spark.sql(...)",
            )
        self._given = frozenset(given)
        self.url = _absolute(given["path"], folder)
        self.where = given.get("where")
        self.columns = None if "columns" not in given else [name.strip() for name in given["columns"].split(",")]
        self.branch = given.get("branch", DEFAULT_BRANCH)
        self.tag, self.timestamp, self.watermark = given.get("tag"), given.get("timestamp"), given.get("watermark")
        self.snapshot = _number(given, "snapshot")
        self.changes = _changes(given, self._travel)
        self.system = given.get("system")
        if self.system is not None and self.changes is not None:
            raise InvalidArgument("options 'system' and 'incremental-between' exclude each other")
        self.overwrites = _flag({"overwrites": "true", **given}, "overwrites", "overwrites")
        self.stream, self.checkpoint = StreamOptions.of(given), given.get(CHECKPOINT)
        self.commit_user, self.identifier = given.get("commit-user"), _number(given, "identifier")
        self.isolation: Any = given.get("isolation", "snapshot")
        self.group: Any = given.get("group")
        self.read_snapshot = _number(given, "read-snapshot")
        self.partition = given.get("partition")
        self.overwrite_mode = _overwrite_mode(given.get("partitionoverwritemode"))
        if self.overwrite_mode == "dynamic" and self.partition is not None:
            raise InvalidArgument(
                "options 'partition' and partitionOverwriteMode 'dynamic' exclude each other",
                next_step="leave one of them out: 'partition' names what is replaced, 'dynamic' takes it from the rows",
            )
        self.row_kind = given.get("row-kind")
        self.merge_schema = _flag(given, "mergeschema", "mergeSchema")
        self.zone = None if "timezone" not in given else zone_named(given["timezone"])
        self.properties = {k[len(PROPERTY_PREFIX) :]: v for k, v in given.items() if k.startswith(PROPERTY_PREFIX)}
        self.storage_options = StorageOptions(
            {k[len(STORAGE_PREFIX) :]: _value(k, v) for k, v in given.items() if k.startswith(STORAGE_PREFIX)}
        )

    @property
    def _travel(self) -> tuple[int | str | None, ...]:
        return self.snapshot, self.tag, self.timestamp, self.watermark

    def table(self) -> Table:
        return open_table(self.url, branch=self.branch, storage_options=self.storage_options)

    def table_to_read(self) -> Table:
        """The table at the snapshot, tag, time or watermark that the options name."""
        table = self.table()
        if self._travel == (None,) * 4:
            return table
        timestamp, watermark = self._moment("timestamp", self.timestamp), self._moment("watermark", self.watermark)
        return table.at(snapshot=self.snapshot, tag=self.tag, timestamp=timestamp, watermark=watermark)

    def check_batch(self, what: str) -> None:
        """Refuse the options that only streams have, for `what` is done."""
        self.stream.check_none(what)
        if self.checkpoint is not None:
            raise InvalidArgument(f"option 'checkpointLocation' goes with writeStream only, not with {what}")
        if self.changes is None and not self.overwrites:
            raise InvalidArgument("option 'overwrites' needs option 'incremental-between', or a stream")

    def asked(self, schema: TableSchema | None, overwrite: bool) -> Asked:
        """What is asked of a write. An overwrite without `partition` replaces what the session says.

        Options that go with reading only, or not with this mode, are an `InvalidArgument`.
        """
        for name in READING_ROWS:
            if name in self._given:
                raise InvalidArgument(
                    f"option '{name}' goes with reading only", next_step="choose rows and columns of the frame itself"
                )
        if not overwrite and (self.partition, self.read_snapshot) != (None, None):
            raise InvalidArgument("options 'partition' and 'read-snapshot' go with mode overwrite only")
        asked = Asked(
            self.url,
            commit_user=self.commit_user,
            identifier=self.identifier,
            isolation=self.isolation,
            read_snapshot=self.read_snapshot,
            properties=self.properties,
            storage_options=self.storage_options,
            evolve=self.merge_schema,
            row_kind=self.row_kind,
            branch=self.branch,
            group=self.group,
        )
        if not overwrite:
            return asked
        partitioned = schema is not None and bool(schema.partition_keys)
        if self.overwrite_mode == "dynamic" and partitioned:
            return replace(asked, mode="overwrite-partitions")
        if self.partition is not None:
            given: dict[str, Any] | None = self.replaced(schema or self.table().schema)
        else:
            given = None if self.overwrite_mode is None and partitioned else {}
        return replace(asked, mode="overwrite", partition=given)

    def check_stream_reader(self) -> None:
        """Refuse the options that a stream out of a table cannot have."""
        if (*self._travel, self.changes, self.system) != (None,) * 6:
            raise InvalidArgument(
                "options 'snapshot', 'tag', 'timestamp', 'watermark', 'system' and 'incremental-between' do not go with"
                " readStream",
                next_step="say with option 'from' where the stream begins: a snapshot id, a tag or a time",
            )
        if self.checkpoint is not None:
            raise InvalidArgument("option 'checkpointLocation' goes with writeStream, not with readStream")

    def start_moment(self, start: int | str) -> int | str:
        """Option `from`: a text that is a time without a zone gets the zone of option `timeZone`."""
        if isinstance(start, int) or self.zone is None or not start[:1].isdigit() or "@" in start:
            return start
        try:
            millis = epoch_millis(start, "option 'from'", self.zone)
        except InvalidArgument:
            return start
        return datetime.fromtimestamp(millis / 1000, timezone.utc).isoformat()

    def wanted_rows(self, schema: TableSchema) -> Predicate | None:
        """Option `where`, bound to the columns of the table; None for all rows."""
        with self._zone_told():
            return bound_in(self.zone, self.where, schema)

    def _moment(self, name: str, text: str | None) -> int | None:
        """Option `timestamp` or `watermark` in milliseconds since 1970."""
        if text is None or text.lstrip("-").isdigit():
            return None if text is None else int(text)
        with self._zone_told():
            return epoch_millis(text, f"option '{name}'", self.zone)

    def replaced(self, schema: TableSchema) -> dict[str, Any]:
        with self._zone_told():
            return partition_in(self.zone, self.partition or {}, schema)

    @contextmanager
    def _zone_told(self) -> Iterator[None]:
        """Add to an error about a missing zone that an option can name it for all options."""
        try:
            yield
        except InvalidArgument as error:
            if self.zone is None and "has no zone" in error.message:
                error.next_step += "; or set option 'timeZone', because Spark does not tell a source the session's zone"
            raise


@dataclass(frozen=True)
class ChangeOptions:
    """What option `incremental-between` and those that go with it ask for; as the arguments of `Table.changes`."""

    start: int | str
    end: int | str
    mode: Any
    overwrites: bool


def _changes(given: Mapping[str, str], moment: tuple[Any, ...]) -> ChangeOptions | None:
    between = given.get("incremental-between")
    if between is None:
        if "incremental-between-scan-mode" in given:
            raise InvalidArgument("option 'incremental-between-scan-mode' needs option 'incremental-between'")
        return None
    if any(part is not None for part in moment):
        raise InvalidArgument("option 'incremental-between' excludes 'snapshot', 'tag', 'timestamp' and 'watermark'")
    ends = [int(text) if text.isdecimal() else text for text in map(str.strip, between.split(","))]
    if len(ends) != 2 or "" in ends:
        raise InvalidArgument(
            f"option 'incremental-between' is {between!r}", next_step="give two snapshot ids or two tags, as 3,7"
        )
    mode = given.get("incremental-between-scan-mode", "auto").lower()
    return ChangeOptions(ends[0], ends[1], mode, _flag({"overwrites": "true", **given}, "overwrites", "overwrites"))


def _flag(given: Mapping[str, str], key: str, name: str) -> bool:
    text = given.get(key, "false").lower()
    if text not in ("true", "false"):
        raise InvalidArgument(f"option '{name}' is {text!r}", next_step="use true or false")
    return text == "true"


def _overwrite_mode(text: str | None) -> str | None:
    mode = None if text is None else text.lower()
    if mode not in (None, "static", "dynamic"):
        raise InvalidArgument(f"option 'partitionOverwriteMode' is {text!r}", next_step="use static or dynamic")
    return mode


def _absolute(url: str, folder: str | None) -> str:
    """A URL that means the same in every process of Spark on this machine."""
    url = url_text(url)
    if scheme_of(url) != "file" or url.startswith("file:"):
        return url
    if folder is not None and "://" in folder:
        check_path(url, folder)
    if url.startswith(("/", "~")):
        return url
    if folder is None:
        raise InvalidArgument(
            f"{url!r} is a relative path, and Spark's processes run in different folders",
            next_step=f"write the absolute path, for example {os.path.abspath(url)!r}",
        )
    return os.path.join(folder, url)


def _number(given: Mapping[str, str], key: str) -> int | None:
    text = given.get(key)
    if text is None:
        return None
    try:
        return int(text)
    except ValueError:
        raise InvalidArgument(f"option '{key}' is {text!r}, which is not a number") from None


def _value(key: str, text: str) -> Any:
    if not text.lstrip().startswith("{"):
        return text
    try:
        return loads(text)
    except ValueError:
        raise InvalidArgument(f"option '{key}' begins with a brace, but is not JSON") from None
