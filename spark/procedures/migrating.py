"""Procedure `migrate_table`: a table of Spark's own catalog, of plain files, becomes a table of the warehouse.

Owns: what the catalog tells about such a table, and the check that no row of it is left out. Must not know: how files are copied.
Invariant: the original is left as it is, unless `delete_origin => true` is written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...core.errors import InvalidArgument, Unsupported
from ...table.create import Schema
from ...table.migration.migrate import migrate
from ..types import from_spark_schema
from .files import options_of
from .procedure import DONE, Call, Rows

_FORMATS = ("parquet", "orc", "avro")


@dataclass(frozen=True)
class Plain:
    """A table of plain files: where they are, their format, and how many rows Spark reads."""

    url: str
    format: str
    rows: int
    columns: Any


def migrate_table(call: Call) -> Rows:
    kind, target = call.values["source_type"].lower(), call.text("target_table")
    if kind not in ("hive", *_FORMATS):
        raise Unsupported(
            f"source_type => {kind!r}",
            next_step="migrate a table of Spark's own catalog with 'hive', or CREATE TABLE … AS SELECT … FROM any table",
        )
    if target is None:
        raise Unsupported(
            "migrate_table without target_table: the table would have to take the place of one in another catalog",
            next_step="add target_table => 'database.table'",
        )
    if call.lake is None:
        raise InvalidArgument("migrate_table needs a catalog", next_step="CALL lake.sys.migrate_table(…)")
    database = target.partition(".")[0]
    if database not in call.lake.databases():
        raise InvalidArgument(f"there is no database {database!r}", next_step=f"CREATE DATABASE {database}")
    source = _plain(call, call.values["table"])
    about: dict[str, Any] = {
        "format": source.format,
        "files": "move" if call.values["delete_origin"] else "copy",
        "schema": Schema(from_spark_schema(source.columns)),
        "options": options_of(call),
        "storage_options": call.storage_options,
    }
    url = call.lake.url_of(target)
    planned = migrate(source.url, url, dry_run=True, **about)
    if planned.receipt is None and planned.row_count != source.rows:
        raise InvalidArgument(
            f"{call.values['table']} has {source.rows} rows, and the files in its folder have {planned.row_count}",
            next_step="partitions in other folders, or unknown to the catalog, cannot be migrated: CREATE TABLE … AS SELECT",
        )
    migrate(source.url, url, **about)
    return DONE


def _plain(call: Call, name: str) -> Plain:
    rows = call.spark_sql(f"DESCRIBE TABLE EXTENDED {name}").collect()
    told = {row[0]: row[1] for row in rows}
    told_format = " ".join(str(told.get(key, "")) for key in ("Provider", "InputFormat", "Serde Library")).lower()
    found = next((one for one in _FORMATS if one in told_format), None)
    if found is None or "Location" not in told:
        raise Unsupported(
            f"{name} is no table of Parquet, ORC or Avro files", next_step="CREATE TABLE … AS SELECT … FROM " + name
        )
    frame = call.spark_sql(f"SELECT * FROM {name}")
    url = str(told["Location"])
    return Plain(url.removeprefix("file:") if url.startswith("file:") else url, found, frame.count(), frame.schema)
