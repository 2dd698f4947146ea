"""Lets Spark's own Parquet reader scan exactly the files of a plan, few or many.

Owns: how Spark is told the files (as paths, or as folders and the names in them) and when it may take partition columns from
folders. Must not know: which files are wanted, filters. Source: format/spark §4.

Invariants: The frame holds the rows of all given files and of no other file, whatever else lies in their folders. A file that
is missing is an error, and never a frame with fewer rows. A partition column comes from folders only if each of them says
what the manifest says.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Sequence
from itertools import groupby, zip_longest
from typing import Any
from urllib.parse import unquote, urlsplit

from ..core.metadata.schema import TableSchema
from ..core.places import codec_of
from ..core.rows.partition import escape_path_name
from ..core.rows.types import INTEGER_ROOTS, Field
from ..core.rows.values import root_of
from ..table.scan.split import Split
from .session import is_connect, setting
from .types import spark_schema

_LOG = logging.getLogger("lakelatch.spark")

_PATHS_WITHOUT_JOB = "spark.sql.sources.parallelPartitionDiscovery.threshold"
_PLAIN_NAME = re.compile(r"[A-Za-z0-9._-]+")
_PLAIN_VALUE = re.compile(r"[A-Za-z0-9._ +@~-]*[A-Za-z0-9]")
_NUMBER = re.compile(r"-?[0-9]{1,19}")
_DAY = re.compile(r"[1-9][0-9]{3}-[0-9]{2}-[0-9]{2}")


def scan_files(
    session: Any,
    root: str,
    splits: Sequence[Split],
    schema: TableSchema,
    fields: Sequence[Field],
    options: dict[str, str],
) -> Any:
    """A frame over the files of splits, which Spark's reader must be able to read correctly.

    Args:
        root: the URL by which Spark opens the table's root, without a slash at the end.
        schema: the table's schema.
        fields: the columns of the frame. It may have more, and in another order.
        options: options for Spark's reader: credentials.
    """
    keys = [key for split in splits for key in split.keys]
    base = folders_with_values(splits, schema)
    layout = {"recursiveFileLookup": "true"} if base is None else {"basePath": f"{root}/{base}".rstrip("/")}

    def reader(**more: str) -> Any:
        # With an explicit schema, Spark does not open a file to infer one.
        return session.read.schema(spark_schema(fields)).options(mergeSchema="false", **layout, **options, **more)

    if len(keys) > paths_without_job(session) and not is_connect(session):
        # A Connect frame looks into its folders again for each action, and would not notice that a file has gone.
        names = sorted({key.rpartition("/")[2] for key in keys})
        if all(map(_PLAIN_NAME.fullmatch, names)):
            folders = sorted({key.rpartition("/")[0] for key in keys})
            frame = reader(pathGlobFilter=names_as_glob(names)).parquet(*(f"{root}/{f}" for f in folders))
            if _keys_of(frame, root) == set(keys):
                return frame
            _LOG.info("the folders of %s do not hold just the files of the plan", root)
    return reader().parquet(*(f"{root}/{key}" for key in keys))


def paths_without_job(session: Any) -> int:
    """For more paths than this, Spark starts a job with a task for each of them, only to look whether they exist."""
    text = setting(session, _PATHS_WITHOUT_JOB, "32")
    return int(text) if text.isdigit() else 32


def _keys_of(frame: Any, root: str) -> set[str]:
    """The files that Spark has found for a frame, relative to the root."""
    prefix = urlsplit(root).path + "/"
    return {unquote(urlsplit(url).path).removeprefix(prefix) for url in frame.inputFiles()}


def names_as_glob(names: Sequence[str], start: int = 0) -> str:
    """A pattern in Hadoop's form that matches exactly these names. What names begin with in common is written once.

    Args:
        names: sorted, without duplicates, and without characters that mean something in a pattern.
        start: what comes before this position is the same in all names, and is left out.

    >>> names_as_glob(["data-1.parquet", "data-12.parquet", "x"])
    '{data-1{.parquet,2.parquet},x}'
    """
    if len(names) == 1:
        return names[0][start:]
    common = next(i for i, (a, b) in enumerate(zip_longest(names[0], names[-1])) if a != b)
    groups = (list(group) for _, group in groupby(names, key=lambda name: name[common : common + 1]))
    inside = ",".join(names_as_glob(group, common) for group in groups)
    return f"{names[0][start:common]}{{{inside}}}"


# ---------------------------------------------------------------------------------------------- columns out of folders


def folders_with_values(splits: Iterable[Split], schema: TableSchema) -> str | None:
    """The folder from which Spark may read the values of the partition columns, so that it can leave out partitions.

    Returns:
        The folder relative to the root ("" for the root itself), or None if Spark would read other values than the
        manifest has.
    """
    if not schema.partition_keys:
        return None
    codec = codec_of(schema)
    bases: set[str] = set()
    for path, group in groupby(sorted(splits, key=lambda s: s.partition_path), key=lambda s: s.partition_path):
        same = list(group)
        if len({s.partition for s in same}) > 1 or not _says(path, codec.decode(same[0].partition), codec.fields):
            return None
        for split in same:
            for key in split.keys:
                base, found, rest = f"/{key}".partition(f"/{path}/")
                if not found or "=" in base or "=" in rest:
                    return None
                bases.add(base.strip("/"))
    return bases.pop() if len(bases) == 1 else None


def _says(path: str, values: Sequence[Any], fields: Sequence[Field]) -> bool:
    """Does Spark read exactly these values from a partition's folder?"""
    parts = path.split("/")
    if len(parts) != len(fields):
        return False
    for part, value, field in zip(parts, values, fields, strict=True):
        name, _, text = part.partition("=")
        if name != field.name or escape_path_name(name) != name or not _PLAIN_NAME.fullmatch(name):
            return False
        root = root_of(field.type)
        if root in INTEGER_ROOTS:
            same = bool(_NUMBER.fullmatch(text)) and int(text) == value
        elif root == "VARCHAR":
            same = text == value and bool(_PLAIN_VALUE.fullmatch(text))
        elif root == "DATE":
            same = bool(_DAY.fullmatch(text)) and text == str(value)
        else:
            same = False
        if not same:
            return False
    return True
