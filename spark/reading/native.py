"""Lets Spark's own Parquet reader scan exactly the files of a plan, few or many.

Owns: how Spark is told the files, the options that its reader always gets, and when it may take partition columns from folders.
Must not know: which files are wanted, filters. Source: format/spark §4.

Invariants: A frame holds the rows of all given files and of no other file, whatever else lies in their folders and whatever the
session says about files. A file that is missing or damaged is an error, and never a frame with fewer rows. A partition column
comes from a folder only if the folder says what the manifest says.
"""

from __future__ import annotations

import json
import logging
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from itertools import groupby
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from ...backends.store import ObjectNotFound
from ...coordinator.history.timeline import Timeline
from ...core.errors import TableCorrupt
from ...core.metadata.data_file import DataFile
from ...core.metadata.schema import TableSchema
from ...core.places import codec_of
from ...core.rows.partition import unescape_path_name
from ...core.rows.types import INTEGER_ROOTS, Field
from ...core.rows.values import root_of
from ...table.scan.split import Split
from ..sessions.session import is_connect, setting

_LOG = logging.getLogger("lakelatch.spark")

READ_OPTIONS = {
    "mergeSchema": "false",
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
    "ignoredPathSegmentRegex": "",
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
}
"""What Spark's reader would otherwise take from the session: settings that leave out files, or change dates."""
SMALL_FILE_BYTES = 1 << 20
_LOOKS = dict.fromkeys((f"parquet.filter.{what}.enabled" for what in ("dictionary", "columnindex", "bloom")), "false")
"""For each file, Spark's reader looks whether a filter leaves anything of it. In small files that costs more than the rows."""
_PATHS_WITHOUT_JOB = "spark.sql.sources.parallelPartitionDiscovery.threshold"
_NO_LOG = "spark.sql.streaming.fileStreamSink.ignoreMetadata"
_BLOCK_SIZE = 128 << 20
_PLAIN_NAME = re.compile(r"[A-Za-z0-9._-]+")
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,18})")
_DAY = re.compile(r"[1-9][0-9]{3}-[0-9]{2}-[0-9]{2}")
_TIME = re.compile(_DAY.pattern + r"[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.([0-9]{3}){1,2})?)?")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_NULLS = frozenset(("", "__HIVE_DEFAULT_PARTITION__"))
"""Names of partitions that Spark reads as null."""


def scan_files(
    session: Any,
    timeline: Timeline,
    root: str,
    splits: Sequence[Split],
    schema: TableSchema,
    columns: StructType,
    options: dict[str, str],
) -> Iterator[Any]:
    """Frames over the files of splits, which Spark's reader must be able to read correctly.

    The first frame has the files whose partitions Spark knows from their folders, so that it can leave out partitions, also while
    a query runs; the second, if there is one, has the others. Dynamic pruning looks at the first part of a union alone. Of the
    others, Spark knows the columns that are null in all, and leaves them out of a join by such a column.

    They have the given columns, and may have more, in another order. `root` has no slash at the end.
    """
    base, known, others = by_folders(splits, schema)
    # With an explicit schema, Spark does not open a file to infer one.
    reader = session.read.schema(columns).options(**options, **READ_OPTIONS)
    if sum(split.size for split in splits) < SMALL_FILE_BYTES * sum(len(split.files) for split in splits):
        reader = reader.options(**_LOOKS)
    by_log = not is_connect(session) and setting(session, _NO_LOG, "false").lower() != "true"
    if known:
        folder = f"{root}/{base}".rstrip("/")
        # A log has no base: from each file Spark goes up to the first folder that is no `name=value`.
        if by_log and "=" not in folder.rpartition("/")[2]:
            yield _logged(reader, root, known)
        else:
            yield _listed(reader.option("basePath", folder), timeline, root, known)
    if others:
        flat = reader.option("recursiveFileLookup", "true")
        frame = _logged(flat, root, others) if by_log else _listed(flat, timeline, root, others)
        nulls = {n: F.lit(None).cast(columns[n].dataType) for n in null_columns(others, schema) if n in columns.names}
        yield frame.withColumns(nulls) if nulls else frame


def paths_without_job(session: Any) -> int:
    """For more paths than this, Spark starts a job with a task for each of them, only to look whether they exist."""
    text = setting(session, _PATHS_WITHOUT_JOB, "32")
    return int(text) if text.isdigit() else 32


def _listed(reader: Any, timeline: Timeline, root: str, splits: Sequence[Split]) -> Any:
    """A frame over files that Spark lists. It leaves out files without a byte, as it may find them in folders of others."""
    sizes = {key: file.file_size for split in splits for key, file in zip(split.keys, split.files, strict=True)}

    def check(key: str) -> None:
        with suppress(ObjectNotFound):  # Spark says so itself
            if timeline.store.head(key).size == 0 < sizes[key]:
                raise TableCorrupt(
                    f"data file {key} of {timeline.store.url} is empty, and should have {sizes[key]} bytes"
                )

    timeline.parallel(check, sizes)
    return reader.parquet(*(f"{root}/{key}" for split in splits for key in split.keys))


def _logged(reader: Any, root: str, splits: Sequence[Split]) -> Any:
    """A frame over files that Spark does not list, because they stand in a log of the form that its own file sink keeps.

    Spark reads the log when the frame is made, and never again. If it ever ignored the log, it would find the file beside it, and
    each query would fail, because that is no Parquet file and is gone by then.
    """
    with tempfile.TemporaryDirectory(prefix="lakelatch-plan-") as folder:
        log = Path(folder, "_spark_metadata", "0")
        log.parent.mkdir()
        with log.open("w", encoding="ascii") as out:
            out.write("v1")
            for split in splits:
                out.writelines(_log_line(root, key, file) for key, file in zip(split.keys, split.files, strict=True))
        Path(folder, "the-log-was-ignored.parquet").write_bytes(b"-")
        return reader.parquet(Path(folder).as_uri())


def _log_line(root: str, key: str, file: DataFile) -> str:
    entry = {
        "path": _uri(f"{root}/{key}"),
        "size": file.file_size,
        "isDir": False,
        "modificationTime": file.creation_time or 0,
        "blockReplication": 1,
        "blockSize": _BLOCK_SIZE,
        "action": "add",
    }
    return "\n" + json.dumps(entry)


def _uri(url: str) -> str:
    """A URL with its path quoted, and with the host as it is: Hadoop finds none in `host%3A8020` or `container%40account`.

    >>> _uri("hdfs://host:8020/lake/half=1/a b")
    'hdfs://host:8020/lake/half=1/a%20b'
    >>> _uri("file:/lake/a:b")
    'file:/lake/a%3Ab'
    """
    scheme, _, rest = url.partition(":")
    host, slash, path = rest[2:].partition("/") if rest.startswith("//") else ("", "", rest)
    return f"{scheme}:{rest[:2] if slash else ''}{host.replace('%', '%25')}{slash}{quote(path, safe='/=')}"


# ---------------------------------------------------------------------------------------------- columns out of folders


def by_folders(splits: Iterable[Split], schema: TableSchema) -> tuple[str, list[Split], list[Split]]:
    """Splits whose folders say to Spark what the manifest says of their partitions, after the folder of these; and all others."""
    if not schema.partition_keys or not all(map(_PLAIN_NAME.fullmatch, schema.partition_keys)):
        return "", [], list(splits)
    codec = codec_of(schema)
    known: dict[str, list[Split]] = {}
    others: list[Split] = []
    for path, group in groupby(sorted(splits, key=lambda s: s.partition_path), key=lambda s: s.partition_path):
        same = list(group)
        bases = {_base(key, path) for split in same for key in split.keys}
        base = bases.pop() if len(bases) == 1 else None
        alike = len({s.partition for s in same}) == 1
        if base is not None and alike and _says(path, codec.decode(same[0].partition), codec.fields):
            known.setdefault(base, []).extend(same)
        else:
            others += same
    if not known:
        return "", [], others
    files = Counter({base: sum(len(s.files) for s in found) for base, found in known.items()})
    chosen = files.most_common(1)[0][0]
    return chosen, known.pop(chosen), others + [split for found in known.values() for split in found]


def null_columns(splits: Iterable[Split], schema: TableSchema) -> list[str]:
    """Columns without a value in any split. A literal tells Spark before a query runs that no comparison finds a row there."""
    codec = codec_of(schema)
    values = [codec.decode(partition) for partition in {s.partition for s in splits}]
    return [f.name for i, f in enumerate(codec.fields) if all(row[i] is None for row in values)]


def _base(key: str, partition_path: str) -> str | None:
    """The folder that holds the folders of partitions, if Spark finds just these values on the way to a file."""
    base, found, rest = f"/{key}".partition(f"/{partition_path}/")
    return None if not found or "=" in base or "=" in rest else base.strip("/")


def _says(path: str, values: Sequence[Any], fields: Sequence[Field]) -> bool:
    """Does Spark read exactly these values from a partition's folder?"""
    parts = path.split("/")
    if len(parts) != len(fields):
        return False
    for part, value, field in zip(parts, values, fields, strict=True):
        name, _, text = part.partition("=")
        same = _SAME.get(root_of(field.type))
        if name != field.name or same is None or value is None or text in _NULLS or not same(text, value):
            return False
    return True


def _nanos(text: str) -> int | None:
    """The nanoseconds since 1970 of a time without a zone that Spark reads as Python does, else None."""
    if not _TIME.fullmatch(text):
        return None
    micros = (datetime.fromisoformat(f"{text}+00:00") - _EPOCH) // timedelta(microseconds=1)
    return micros * 1000


_SAME: dict[str, Callable[[str, Any], bool]] = {
    **dict.fromkeys(INTEGER_ROOTS, lambda text, value: bool(_NUMBER.fullmatch(text)) and int(text) == value),
    "BOOLEAN": lambda text, value: text == str(value).lower(),
    "DATE": lambda text, value: bool(_DAY.fullmatch(text)) and text == str(value),
    "DECIMAL": lambda text, value: text == f"{value:f}",
    "TIMESTAMP": lambda text, value: _nanos(unescape_path_name(text)) == value,
    "VARCHAR": lambda text, value: value.isprintable() and unescape_path_name(text) == value,
}
"""Whether Spark reads a value from text as the manifest has it, by the type's name; other types come from the files."""
