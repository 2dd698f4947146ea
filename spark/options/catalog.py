"""Tables of Spark's own catalog that belong to the data source.

Owns: what the catalog tells about such a table, and the mark by which a reader finds its location. Must not know: statements,
jobs. Source: format/spark §1; decision 23.

Spark hands a Python data source neither the name nor the options of a table of its catalog when the table is read. But the
schema that the source gave for `CREATE TABLE` is stored with the metadata of its columns, and comes back: the mark is there.

Invariant: only reads believe the mark. The columns of a query carry it with them into `INSERT` and `save()`, so a write that
believed it could hit another table.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import types as spark

from ...backends.storage_options import is_secret
from ...core.errors import InvalidArgument, Unsupported
from .source_options import ONE_WRITE, STORAGE_PREFIX

NAME = "lakelatch"
MARK = "__file_source_constant_metadata_col"
"""A key that Spark takes for its own, and removes from the columns of a table that it creates from a query."""
_CATALOGS = ("provider", "owner")
_OPTION = "option."
_COMMENT = re.compile(
    r"^Comment: (.*?)\n(?:Collation|Statistics|Table Properties|Location): ", re.MULTILINE | re.DOTALL
)


def options_of_statement(given: Mapping[str, str]) -> dict[str, str] | None:
    """The user's options, from those that the source gets for `CREATE TABLE`; None outside of this statement.

    Spark mixes OPTIONS, TBLPROPERTIES and the catalog's properties, and repeats OPTIONS with a prefix. Secrets are refused.
    """
    options = {str(key).lower(): str(value) for key, value in given.items()}
    if not all(key in options for key in _CATALOGS):
        return None
    found = {key[len(_OPTION) :]: value for key, value in options.items() if key.startswith(_OPTION)}
    found["path"] = options.get("location") or options.get("path") or found.get("path", "")
    for key in found:
        if key.startswith(STORAGE_PREFIX) and is_secret(key[len(STORAGE_PREFIX) :]):
            raise InvalidArgument(
                f"option '{key}' would be stored in Spark's catalog, where others can read it",
                next_step="name a profile of the store, or set the credentials in the environment",
            )
    return found


def marked(schema: spark.StructType, options: Mapping[str, str]) -> spark.StructType:
    """The schema of a table of the catalog, whose columns say where it is."""
    mark = {MARK: json.dumps(dict(options), sort_keys=True)}
    return spark.StructType(
        [spark.StructField(f.name, f.dataType, f.nullable, {**f.metadata, **mark}) for f in schema.fields]
    )


def options_of_mark(schema: spark.StructType) -> dict[str, str]:
    """The options that the columns of a table say; empty if they say nothing."""
    marks = {f.metadata[MARK] for f in schema.fields if MARK in f.metadata}
    if len(marks) > 1:
        raise InvalidArgument("the columns belong to several tables", next_step="DROP TABLE and CREATE TABLE again")
    found = json.loads(marks.pop()) if marks else {}
    return {str(k): str(v) for k, v in found.items()}


@dataclass(frozen=True)
class CatalogTable:
    url: str
    database: str
    options: Mapping[str, str] = field(default_factory=dict)

    def lasting(self) -> dict[str, str]:
        """The options of each read and write. Those of a single write are refused: a second one would count as its repetition."""
        for name in ONE_WRITE:
            if name in self.options:
                raise Unsupported(
                    f"the table was created in the catalog with option '{name}', which belongs to a single write",
                    next_step="DROP TABLE, which touches the catalog only, and CREATE TABLE without it",
                )
        return {**self.options, "path": self.url}


def catalog_table(sql: Any, name: str) -> CatalogTable | None:
    """What the catalog tells about a table; None if it is no table of the source. `InvalidArgument`: its location was changed."""
    row = _shown(sql, name)
    if row is None:
        return None
    told = dict(line.partition(": ")[::2] for line in str(row["information"]).splitlines())
    if told.get("Provider", "").lower() != NAME or "Location" not in told:
        return None
    options = options_of_mark(sql(f"SELECT * FROM {name}").schema) or _stored(told.get("Storage Properties", "[]"))
    url = options.pop("path", told["Location"])
    if url != told["Location"]:
        raise InvalidArgument(
            f"the catalog has {name} at {told['Location']}, but it was created for {url}",
            next_step="DROP TABLE, which touches the catalog only, and CREATE TABLE again",
        )
    return CatalogTable(url, row["namespace"], options)


def _stored(text: str) -> dict[str, str]:
    """The options that the catalog prints of a table. PySpark 4.3 hands the mark to the source alone.

    >>> _stored("[branch=dev, where=k IN (1, 2)]")
    {'branch': 'dev', 'where': 'k IN (1, 2)'}
    """
    _, *parts = re.split(r"(?:^\[|, )([\w.-]+)=", text.removesuffix("]"))
    return dict(zip(parts[::2], parts[1::2], strict=True))


def comment_of(sql: Any, name: str) -> str | None:
    """The comment of a table of Spark's catalog. Neither DESCRIBE nor `catalog.getTable` tells that of a Python source."""
    row = _shown(sql, name)
    found = None if row is None else _COMMENT.search(str(row["information"]))
    return None if found is None else found[1]


def _shown(sql: Any, name: str) -> Any:
    """What SHOW TABLE EXTENDED tells about a table; None for a view, or if there is none."""
    parts = [part.strip() for part in parts_of(name)]
    inside = f" IN {'.'.join(f'`{p}`' for p in parts[:-1])}" if len(parts) > 1 else ""
    pattern = parts[-1].replace("\\", "\\\\").replace("'", "\\'")
    try:
        rows = sql(f"SHOW TABLE EXTENDED{inside} LIKE '{pattern}'").collect()
    except Exception:  # another catalog, or no such database: Spark says so when it runs the statement
        return None
    named = [row for row in rows if row["tableName"].lower() == parts[-1].lower()]
    if len(named) != 1 or named[0]["isTemporary"]:
        return None  # a temporary view, which hides a table of its name
    return named[0]


def parts_of(name: str) -> list[str]:
    return [
        part[1:-1].replace("``", "`") if part[:1] == "`" else part
        for part in re.findall(r"`(?:[^`]|``)+`|[^.`]+", name)
    ]
