"""A split: data files that one task reads, and how files are packed into splits.

Owns: `Split`, bin packing, where a file's object lies. Must not know: predicates, Arrow.
Source: data-layer §10.4. Invariants: every file is in exactly one split; the files of a split are of one (partition, bucket)
and keep the order of their sequence numbers; a key never leaves the table's directory (H16).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from ..core import options as opt
from ..core.data_file import DataFile
from ..core.errors import Unsupported
from ..core.options import TableOptions
from ..core.paths import TablePaths

_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*):(.*)$")
_URL = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:/")


@dataclass(frozen=True)
class Split:
    """Files of one (partition, bucket) to be read by one task. Can be pickled to another machine.

    Attributes:
        partition: `_PARTITION` of the files.
        partition_path: `k=v/…`, or empty; for people only, values come from `partition`.
        bucket: the bucket number.
        total_buckets: the bucket count when the files were written; -1 for none.
        files: as the manifest describes them, by ascending `min_sequence_number`.
        keys: per file its object relative to the table's root, or a whole URL for a file in an external path.
        needs_arrow: why a reader that finds columns by their names, such as Spark's own, would give other rows; else empty.
    """

    partition: bytes
    partition_path: str
    bucket: int
    total_buckets: int
    files: tuple[DataFile, ...]
    keys: tuple[str, ...]
    needs_arrow: tuple[str, ...] = ()

    @cached_property
    def row_count(self) -> int:
        """Rows in all files, before any filter."""
        return sum(f.row_count for f in self.files)

    @cached_property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(f.file_size for f in self.files)

    @cached_property
    def schema_ids(self) -> tuple[int, ...]:
        """The schemas that the files were written with, ascending."""
        return tuple(sorted({f.schema_id for f in self.files}))

    def to_dict(self) -> dict[str, object]:
        """What people ask about: place, files, rows, bytes."""
        return {
            "partition": self.partition_path,
            "bucket": self.bucket,
            "files": list(self.keys),
            "row_count": self.row_count,
            "size": self.size,
            "needs_arrow": list(self.needs_arrow),
        }


def pack(files: Iterable[DataFile], target_bytes: int, open_cost_bytes: int) -> Iterator[tuple[DataFile, ...]]:
    """Files in runs of about the target size, in the order of their sequence numbers.

    Args:
        target_bytes: a run is closed when the next file would make it larger; option `source.split.target-size`.
        open_cost_bytes: the least that a file counts; option `source.split.open-file-cost`.

    >>> [len(run) for run in pack([DataFile(f"f{i}", 40, 1) for i in range(5)], 100, 4)]
    [2, 2, 1]
    """
    run: list[DataFile] = []
    weight = 0
    for file in sorted(files, key=lambda f: f.min_sequence_number):
        cost = max(file.file_size, open_cost_bytes)
        if run and weight + cost > target_bytes:
            yield tuple(run)
            run, weight = [], 0
        run.append(file)
        weight += cost
    if run:
        yield tuple(run)


@dataclass(frozen=True)
class FilePlaces:
    """Where the data files of a table lie.

    Attributes:
        paths: the table's.
        external_prefixes: the roots that option `data-file.external-paths` names.
    """

    paths: TablePaths
    external_prefixes: tuple[str, ...] = ()

    @staticmethod
    def of(options: TableOptions) -> FilePlaces:
        """From a table's options. Data belongs to all branches, so no branch is asked for."""
        names = (part.strip() for part in options.get(opt.EXTERNAL_PATHS).split(","))
        return FilePlaces(TablePaths(data_directory=options.get(opt.DATA_FILE_DIRECTORY)), tuple(n for n in names if n))

    def keys(self, partition_path: str, bucket: int, files: Sequence[DataFile]) -> tuple[str, ...]:
        """The objects of files of one (partition, bucket).

        Raises:
            TableCorrupt: a name that would leave the table's directory.
            Unsupported: a file outside of the table that no option of the table names.
        """
        return tuple(
            self.paths.data_file(partition_path, bucket, f.file_name, "a manifest")
            if f.external_path is None
            else self._external(f.external_path)
            for f in files
        )

    def _external(self, path: str) -> str:
        plain = _plain_url(path)
        if ".." not in plain.split("/"):
            for prefix in self.external_prefixes:
                if plain.startswith(_plain_url(prefix).rstrip("/") + "/"):
                    return path
        raise Unsupported(
            f"data file {path} lies outside of the table, and option '{opt.EXTERNAL_PATHS.key}' does not name its place",
            next_step="set the option to the folder, if you trust it",
        )


def _plain_url(url: str) -> str:
    """A URL in one spelling: lower-case scheme, no doubled slashes (`FILE:/a` and `file:///a` are the same place)."""
    found = _SCHEME.match(url)
    scheme, rest = (found[1].lower(), found[2]) if found else ("", url)
    local = scheme in ("", "file")
    rest = re.sub(r"/+", "/", rest) if local else "//" + re.sub(r"/+", "/", rest).lstrip("/")
    return f"{'file' if local else scheme}:{rest}"


def is_external(key: str) -> bool:
    """Is this key of a split a whole URL, of a file outside of the table's root?

    >>> is_external("bucket-0/data-1.parquet"), is_external("s3://other/data-1.parquet")
    (False, True)
    """
    return key.startswith("/") or _URL.match(key) is not None
