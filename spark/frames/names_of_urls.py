"""`df.write.format("lakelatch").saveAsTable(name)`, which Spark would carry out so that nobody can read the table.

Owns: this method of Spark's writers, for frames of registered sessions. Must not know: how SQL is parsed, how rows are written.
Source: format/spark §1; decision 23.

Invariant: a writer of another format, or of a session that was not registered, gets Spark's own method.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from ...core.errors import InvalidArgument, Unsupported
from ...core.paths import DEFAULT_BRANCH
from ...table.create import is_table
from ..catalogs.run import Run
from ..catalogs.texts import absolute
from ..columns import named
from ..ddl.spark_names import register_name
from ..options.catalog import NAME, catalog_table
from ..options.source_options import STORAGE_PREFIX, SourceOptions
from ..sessions.session import checked_url, overwrite_mode, tells_case
from ..write_job import carry_out


@dataclass(frozen=True)
class Saved:
    """What a writer was told; `mode` is append, overwrite, ignore or error, and `layout` has `bucketBy` and `clusterBy`."""

    source: str
    mode: str
    partition_by: tuple[str, ...]
    options: dict[str, str]
    layout: tuple[str, ...] = ()

    def check_layout(self, name: str) -> None:
        """Refuse what the table, and not the write, says of where rows are."""
        for method in self.layout:
            raise Unsupported(
                f"a write of {name} with {method}: the table says how its rows lie",
                next_step=f"leave {method} out; CREATE TABLE … TBLPROPERTIES ('bucket' = '4', 'bucket-key' = 'id') makes buckets,"
                " and OPTIMIZE … ZORDER BY clusters",
            )

    def check_whole(self, name: str, columns: Iterable[str], frame: Any) -> None:
        """Refuse to replace all rows by some without a column of the table, which would be null."""
        case = tells_case(frame.sparkSession)
        missing = [column for column in columns if named(column, frame.columns, case) is None]
        if self.mode == "overwrite" and missing:
            raise Unsupported(
                f"saveAsTable({name!r}) with mode 'overwrite' of a frame without the column {missing[0]!r}: a table keeps its"
                " columns here, and rows without a value would be null",
                next_step=f"ALTER TABLE {name} DROP COLUMN, or give the frame the column",
            )


def save_in_spark(writer: Any, run: Run, name: str) -> bool:
    """Save a frame under a name of Spark's catalog, as a table at a URL; False if it is for Spark itself."""
    asked = asked_of_writer(writer)
    if asked.source.lower() != NAME:
        return False
    asked.check_layout(name)
    session = writer._spark
    url = asked.options.pop("path", None)
    url = absolute(checked_url(session, url)) if url is not None else None
    exists = session.catalog.tableExists(name)
    if exists and asked.mode == "ignore":
        return True
    found = catalog_table(run.sparks, name) if exists else None
    if exists and (found is None or asked.mode == "error"):
        return False
    if found is not None and url not in (None, found.url.removeprefix("file:"), found.url):
        raise InvalidArgument(f"{name} is at {found.url}, not at {url}", next_step="leave option 'path' out")
    if found is not None:
        url = found.url
    if url is None:
        raise InvalidArgument(f"saveAsTable('{name}') needs the table's URL", next_step="add .option('path', url)")
    known = {} if found is None else found.lasting()
    options = SourceOptions({**known, **asked.options, "path": url})
    if found is None and options.branch != DEFAULT_BRANCH:
        raise Unsupported(
            "saveAsTable of a new name with option 'branch'",
            next_step="CREATE TABLE ... USING lakelatch OPTIONS (path 'url', branch '...') first, or use save(url)",
        )
    there = is_table(url, storage_options=options.storage_options)
    if there and asked.mode in ("error", "ignore"):
        raise InvalidArgument(
            f"there is a table at {url}",
            next_step="say what happens to its rows: .mode('append') or .mode('overwrite')",
        )
    _write(frame_of_writer(writer), asked, options, there, name)
    if not exists:
        kept = {key: value for key, value in asked.options.items() if key.startswith(STORAGE_PREFIX)}
        register_name(run.sparks, name, {**kept, "path": url})
    return True


def _write(df: Any, saved: Saved, options: SourceOptions, there: bool, name: str) -> None:
    schema = options.table().schema if there else None
    if schema is not None:
        saved.check_whole(name, schema.names, df)
    wanted = options.asked(schema, saved.mode == "overwrite")
    if wanted.mode == "overwrite" and wanted.partition is None and overwrite_mode(df.sparkSession) != "dynamic":
        wanted = replace(wanted, partition={})
    carry_out(df, replace(wanted, partition_by=saved.partition_by or None, options=None if there else {}))


def asked_of_writer(writer: Any) -> Saved:
    """What the user told the writer. Neither of Spark's two kinds of writer has a public way to ask."""
    if hasattr(writer, "_write"):  # Spark Connect
        told = writer._write
        source, mode, columns, options = told.source, told.mode, told.partitioning_cols, told.options
        layout = ("bucketBy", told.num_buckets > 0), ("clusterBy", bool(told.clustering_cols))
    else:
        told = writer._jwrite
        source, mode = told.source(), told.curmode().toString()
        partitioning = told.partitioningColumns()
        columns = _list(partitioning.get()) if partitioning.isDefined() else ()
        layout = ("bucketBy", told.numBuckets().isDefined()), ("clusterBy", told.clusteringColumns().isDefined())
        pairs = told.extraOptions().toSeq()
        options = {pairs.apply(i)._1(): pairs.apply(i)._2() for i in range(pairs.size())}
    mode = (mode or "error").lower().removesuffix("ifexists").replace("default", "error")
    told_options = {str(k).lower(): str(v) for k, v in options.items()}
    return Saved(
        source or "", mode, tuple(columns or ()), told_options, tuple(name for name, is_set in layout if is_set)
    )


def _list(sequence: Any) -> list[str]:
    return [sequence.apply(i) for i in range(sequence.size())]


def frame_of_writer(writer: Any) -> Any:
    if not hasattr(writer, "_write"):
        return writer._df
    from pyspark.sql.connect.dataframe import DataFrame

    return DataFrame(writer._df, writer._spark)
