"""Reads a table as a DataFrame: the driver plans, Spark's Parquet reader scans, and Arrow reads what Spark would misread.

Owns: `read`, the choice between the two legs (Spark's reader and Arrow) for each file, and the packing of files into
tasks. Must not know: how files are chosen or decoded. Source: architecture §6; format/spark §4.

Invariants: A frame shows one snapshot, whatever is committed later. Both legs give the same types, and together they give
the rows of `Table.to_arrow`. Spark never infers a type from a path or a file.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import reduce
from typing import Any

from pyspark.sql import functions as F  # noqa: N812 - Spark's users know it by this name
from pyspark.sql import types as spark_types

from ...backends.elsewhere import native_root
from ...backends.registry import scheme_of
from ...core import options as opt
from ...core.errors import Unsupported
from ...core.expressions.tree import Predicate, columns_of
from ...core.paths import DEFAULT_BRANCH
from ...core.rows.types import Field
from ...table.create import open_table
from ...table.reading.arrow import SplitReader, fields_of
from ...table.scan.fallback import file_schemas_of
from ...table.scan.plan import ScanPlan, count_rows
from ...table.scan.split import Split
from ...table.system.rows import read_optimized_plan
from ...table.table import Table
from ...table.travel import epoch_millis
from ..jobs.packing import TASK_BYTES, frame_of, packed
from ..jobs.tasks import NO_COLUMN, ReadTask
from ..predicate import Untranslatable, quoted, to_column
from ..sessions.hadoop import hadoop_options
from ..sessions.session import FILE_SYSTEMS, checked_url, has_time_type, is_connect, parallelism, setting, tells_case
from ..sessions.shipping import shipped
from ..sessions.zones import bound_in, session_zone
from ..types import spark_schema, unread_by_spark
from .native import paths_without_job, scan_files
from .read_marks import Mark, mark_of, with_mark
from .system import system_frame
from .vectors import ROW_INDEX, MarkedScan, can_name_rows, has_only_deleted_rows, marked_scans, worth_it

_LOG = logging.getLogger("lakelatch.spark")

NATIVE_FILES = 20_000
"""Spark's own reader takes this many files, however small, as far as it does not look at each of them in a task of its own …"""
NATIVE_FILE_BYTES = 4 << 20
"""… which is worthwhile if their mean size is at least this (format/spark §4)."""
_GLOB = frozenset("*?[]{}\\")
_DEFAULT_PREFIX = "data-"
_AZURE, _ACCOUNT_URL = ("abfs", "abfss", "az"), "abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/PATH"


def read(
    spark: Any,
    url: str,
    columns: Sequence[str] | None = None,
    where: Predicate | str | None = None,
    *,
    snapshot: int | None = None,
    tag: str | None = None,
    timestamp: str | int | datetime | None = None,
    watermark: str | int | datetime | None = None,
    system: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    branch: str = DEFAULT_BRANCH,
) -> Any:
    """Read a table as a DataFrame, with Spark's native scan for all files that it can read correctly.

    Args:
        spark: the session, classic or Connect.
        url: the URL of the table, which must mean the same on the driver and on the executors.
        columns: the names of the columns, in the order wanted. None means all; [] gives the right number of rows without
            columns.
        where: an `ll.col(...)` predicate or its text. It prunes files and filters rows. Text and dates without a zone are
            times of `spark.sql.session.timeZone`, as in Spark's SQL.
        snapshot, tag, timestamp, watermark: at most one of them, as for `Table.at`; by default the latest snapshot at this
            moment. A time without a zone is one of the session's zone, too.
        system: read this system table instead, such as "tags" or "files"; `columns` and `where` are then about its columns. One
            task reads it, but the rows of "ro" are read as those of a table.
        storage_options: fsspec's options for the store. Keys given here are sent to the executors; prefer profiles (H19).
        branch: the branch of the table that is read.

    Returns:
        A DataFrame, which always shows the same snapshot. `spark.types` lists its types.

    Raises:
        TableNotFound, InvalidArgument, TableCorrupt: as for `Table.plan`.
        Unsupported: The table uses a feature that is not supported, or has columns that this session cannot tell apart.

    Example:
        ``lakelatch.spark.read(spark, "s3://lake/flights", columns=["carrier"], where="month = 1").show()``
    """
    opened = table = open_table(checked_url(spark, url), branch=branch, storage_options=storage_options)
    zone = session_zone(spark)
    chosen = (snapshot, tag, timestamp, watermark) != (None,) * 4
    if chosen:
        moment = None if timestamp is None else epoch_millis(timestamp, zone=zone)
        mark = None if watermark is None else epoch_millis(watermark, "watermark", zone)
        table = table.at(snapshot=snapshot, tag=tag, timestamp=moment, watermark=mark)
    names = None if columns is None else list(columns)
    if system is not None and system.lower() != "ro":
        return system_frame(spark, table, system, names, where, zone)
    if system is not None:
        plan = read_optimized_plan(table.system_view(), bound_in(zone, where, table.schema), names)
    else:
        plan = table.plan(bound_in(zone, where, table.schema), names)
    shown = mark_of(opened, plan.snapshot, "chosen" if chosen else "newest")
    return Scan(spark, table, plan, names, dict(storage_options or {}), shown).frame()


class Scan:
    """Turns one scan plan into a frame.

    Args:
        plan: the plan of the table, with the predicate.
        columns: the names of the columns, in the order wanted; None means all.
        mark: says what the frame shows; None if nothing is to remember that.
    """

    def __init__(
        self,
        spark: Any,
        table: Table,
        plan: ScanPlan,
        columns: list[str] | None,
        storage_options: Mapping[str, Any],
        mark: Mark | None = None,
    ) -> None:
        self.mark = mark
        self.spark, self.table, self.plan, self.storage_options = spark, table, plan, storage_options
        schema = table.schema
        self.output = fields_of(schema, columns)  # rejects unknown columns and suggests similar names
        tested = columns_of(plan.residual) if plan.residual is not None else frozenset()
        self.touched = (
            *self.output,
            *(f for f in schema.fields if f.name in tested and f not in self.output),
        )
        self.has_time = has_time_type(spark)
        self._check_case()

    def _check_case(self) -> None:
        if tells_case(self.spark):
            return
        seen: dict[str, str] = {}
        for field in self.output:
            other = seen.setdefault(field.name.lower(), field.name)
            if other != field.name:
                raise Unsupported(
                    f"this session cannot tell the columns '{other}' and '{field.name}' apart",
                    next_step="set spark.sql.caseSensitive to true, or read one of them",
                )

    def frame(self) -> Any:
        """The DataFrame."""
        known = count_rows(self.plan)
        if not self.output and known is not None:
            return self.spark.range(known).select()
        native, others = self._legs()
        frames = []
        if native:
            found = self._native(native)
            if found is None:
                others = self.plan.splits
            else:
                frames.extend(found)
        if others or not frames:
            frames.append(self._arrow(others))
        frame = reduce(lambda a, b: a.unionByName(b), frames)
        frame = frame if self.output else frame.select()
        return frame if self.mark is None else frame.alias(str(self.mark))

    # ---------------------------------------------------------------------------------------------------- the legs

    def _legs(self) -> tuple[list[Split], Sequence[Split]]:
        """The splits for Spark's own reader, and the splits for Arrow."""
        reason = self._no_native()
        if reason is not None:
            _LOG.info("%s is read by Arrow: %s", self.table.url, reason)
            return [], self.plan.splits
        native = [s for s in self.plan.splits if not s.needs_arrow and self._has_plain_names(s)]
        marked = [s for s in self.plan.splits if has_only_deleted_rows(s) and self._has_plain_names(s)]
        if worth_it(marked) and can_name_rows(self.table.schema.fields):
            native += marked
        files = sum(len(s.files) for s in native)
        limit = min(NATIVE_FILES, paths_without_job(self.spark)) if is_connect(self.spark) else NATIVE_FILES
        if files > limit and sum(s.size for s in native) < files * NATIVE_FILE_BYTES:
            _LOG.info("%d small files of %s are read by Arrow", files, self.table.url)
            return [], self.plan.splits
        chosen = {id(s) for s in native}
        return native, [s for s in self.plan.splits if id(s) not in chosen]

    def _no_native(self) -> str | None:
        scheme = self.table.store.capabilities.native_scheme
        if scheme is None:
            wanted = f"; use {_ACCOUNT_URL}" if scheme_of(self.table.url) in _AZURE else ""
            return f"Spark cannot open its store by this URL{wanted}"
        if FILE_SYSTEMS.opening(self.spark, scheme) is None:
            return f"this session cannot open {scheme}://"
        if hadoop_options(native_root(self.table.store), self.storage_options) is None:
            return "its storage options have no equivalent in Hadoop (docs/stores)"
        if self.plan.residual is not None:
            try:
                to_column(self.plan.residual, self.table.schema.fields)
            except Untranslatable as error:
                return f"Spark has no equivalent of {error}"
        return unread_by_spark(self.touched)

    def _has_plain_names(self, split: Split) -> bool:
        """Can Spark's own reader find the split's files and columns by their names?"""
        if not self._holds_partition_columns(split):
            return False
        return not any(_GLOB.intersection(key) or key.rpartition("/")[2].startswith(("_", ".")) for key in split.keys)

    def _holds_partition_columns(self, split: Split) -> bool:
        """Do the split's files hold the partition columns? All but files from Hive do, and those have other names."""
        keys = set(self.table.schema.partition_keys)
        if not any(f.name in keys for f in self.touched):
            return True
        prefixes = (self.table.schema.options.get(opt.DATA_FILE_PREFIX), _DEFAULT_PREFIX)
        return all(f.file_name.startswith(prefixes) for f in split.files)

    # --------------------------------------------------------------------------------------------------- native leg

    def _native(self, splits: Sequence[Split]) -> list[Any] | None:
        """Spark's own scans, or None if it turns out that the session cannot open the files."""
        store = self.table.store
        root = native_root(store)
        if _GLOB.intersection(root):
            return None
        opening = FILE_SYSTEMS.opening(self.spark, root.partition(":")[0]) or {}
        options = {**opening, **(hadoop_options(root, self.storage_options) or {})}
        whole = [s for s in splits if not s.needs_arrow]
        scans: list[tuple[Sequence[Split], Sequence[Field], MarkedScan | None]] = []
        if whole:
            scans.append((whole, self.touched, None))
        with_deleted = marked_scans(store, [s for s in splits if s.needs_arrow])
        scans += [(scan.splits, (*self.touched, ROW_INDEX), scan) for scan in with_deleted]
        try:
            found = [
                (frame, marked)
                for s, fields, marked in scans
                for frame in scan_files(
                    self.spark, self.table.timeline, root, s, self.table.schema, self._marked(fields), options
                )
            ]
        except Exception as error:
            if root.startswith("file:"):
                raise
            said = "; ".join(
                line.strip(": ") for line in str(error).splitlines()[:2]
            )  # the first line only names the Java class
            _LOG.warning("%s is read by Arrow, because Spark cannot read it: %s", store.url, said)
            return None
        return [self._rows(frame, scan) for frame, scan in found]

    def _marked(self, fields: Sequence[Field]) -> spark_types.StructType:
        return with_mark(spark_schema(fields, has_time=self.has_time), self.mark)

    def _rows(self, frame: Any, marked: MarkedScan | None) -> Any:
        """The wanted rows and columns of a scan by Spark's own reader."""
        if marked is not None:
            frame = marked.live_rows(self.spark, frame, self.table.url)
        if self.plan.residual is not None:
            frame = frame.filter(to_column(self.plan.residual, self.table.schema.fields))
        if not self.output:
            return frame.select(F.lit(None).cast("boolean").alias(NO_COLUMN.name))
        if self.touched == self.output and not self.table.schema.partition_keys:
            return frame.select("*")  # without it, Spark lets a view of the frame take rows, and loses them
        return frame.selectExpr(*[quoted(f.name) for f in self.output])

    # ---------------------------------------------------------------------------------------------------- Arrow leg

    def _arrow(self, splits: Sequence[Split]) -> Any:
        schema = self._marked(self.output or (NO_COLUMN,))
        groups = packed(splits, parallelism(self.spark), self._task_bytes())
        if not groups:
            return self.spark.createDataFrame([], schema).select("*")  # so that Spark refuses rows for a view of it
        task = ReadTask(self.table.store, self._reader(splits), self.has_time).check(splits)
        return frame_of(self.spark, groups).mapInArrow(shipped(task), schema)

    def _reader(self, splits: Sequence[Split]) -> SplitReader:
        schemas = file_schemas_of(self.table.timeline, self.table.schema, splits)
        return SplitReader(self.table.schema, [f.name for f in self.output], self.plan.residual, schemas)

    def _task_bytes(self) -> int:
        text = setting(self.spark, "spark.sql.files.maxPartitionBytes", f"{TASK_BYTES}b").removesuffix("b")
        return int(text) if text.isdigit() else TASK_BYTES
