"""The locations of the files that a table's metadata names, and the check whether a location is allowed.

Owns: `FilePlaces` (data files by partition and bucket), `FileKeys` (the same by manifest entry), external paths.
Must not know: stores, which files exist. Source: format/snapshot §1; format/manifests §6, §7; format/binary-row §3.
Invariants: A key never leaves the table's directory. A file outside it has its whole URL as its key (H16). A file of another
table, which a clone refers to, is never one of the files that may be deleted (decision 72).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from . import options as opt
from .errors import Unsupported
from .metadata.data_file import RETURN_MARK, DataFile, IndexEntry, ManifestEntry
from .metadata.schema import TableSchema
from .options import TableOptions
from .paths import TablePaths, safe_name
from .rows.partition import PartitionCodec

if TYPE_CHECKING:
    from .metadata.manifest_columns import EntryColumns

_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*):(.*)$")
_URL = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:/")


def codec_of(schema: TableSchema) -> PartitionCodec:
    options = schema.options
    return PartitionCodec(
        schema.partition_fields, options.get(opt.PARTITION_DEFAULT_NAME), options.get(opt.PARTITION_LEGACY_NAME)
    )


@dataclass(frozen=True)
class FilePlaces:
    """The locations of a table's data files.

    Attributes:
        external_prefixes: the roots that option `data-file.external-paths` names.
        referenced_prefixes: the roots of other tables that option `lakelatch.referenced-paths` names.
    """

    paths: TablePaths
    external_prefixes: tuple[str, ...] = ()
    referenced_prefixes: tuple[str, ...] = ()

    @staticmethod
    def of(options: TableOptions) -> FilePlaces:
        """From a table's options. No branch is needed, because data files belong to all branches."""
        paths = TablePaths(data_directory=options.get(opt.DATA_FILE_DIRECTORY))
        return FilePlaces(paths, named_locations(options), referenced_locations(options))

    def keys(self, partition_path: str, bucket: int, files: Sequence[DataFile]) -> tuple[str, ...]:
        """The keys of the files of one (partition, bucket).

        Raises:
            TableCorrupt: a name that would leave the table's directory.
            Unsupported: a file outside the table, in a location that no option of the table names.
        """
        folder = self.paths.bucket_dir(partition_path, bucket)
        return tuple(
            folder + safe_name(f.file_name, "a manifest") if f.external_path is None else self.external(f.external_path)
            for f in files
        )

    def external(self, path: str) -> str:
        """The key of a file outside the table. Raises Unsupported where no option of the table names the location."""
        if _lies_in(path, (*self.external_prefixes, *self.referenced_prefixes)):
            return path
        raise Unsupported(
            f"file {path} is outside the table, and option '{opt.EXTERNAL_PATHS.key}' does not name its location",
            next_step=f"set the option to the folder, if you trust it, or '{opt.REFERENCED_PATHS.key}' if it is another table's",
        )

    def is_others(self, key: str) -> bool:
        """Is this the URL of a file of another table, which this one only refers to?"""
        return bool(self.referenced_prefixes) and is_external(key) and _lies_in(key, self.referenced_prefixes)


def _lies_in(path: str, prefixes: Iterable[str]) -> bool:
    plain = plain_url(path)
    if ".." in plain.split("/"):
        return False
    return any(plain.startswith(plain_url(prefix).rstrip("/") + "/") for prefix in prefixes)


def named_locations(options: TableOptions) -> tuple[str, ...]:
    return _parts(options.get(opt.EXTERNAL_PATHS))


def referenced_locations(options: TableOptions) -> tuple[str, ...]:
    return _parts(options.get(opt.REFERENCED_PATHS))


def _parts(text: str) -> tuple[str, ...]:
    return tuple(name for name in (part.strip() for part in text.split(",")) if name)


def scheme_of(url: str) -> str:
    """The scheme of a location in lower case; empty for a path without one.

    >>> scheme_of("FILE:/a"), scheme_of("s3://b/c"), scheme_of("/a")
    ('file', 's3', '')
    """
    found = _SCHEME.match(url)
    return found[1].lower() if found else ""


def plain_url(url: str) -> str:
    """A URL in one spelling: lower-case scheme, no doubled slashes (`FILE:/a` and `file:///a` are the same location)."""
    found = _SCHEME.match(url)
    scheme, rest = (found[1].lower(), found[2]) if found else ("", url)
    local = scheme in ("", "file")
    rest = re.sub(r"/+", "/", rest) if local else "//" + re.sub(r"/+", "/", rest).lstrip("/")
    return f"{'file' if local else scheme}:{rest}"


def is_external(key: str) -> bool:
    """Is this key the whole URL of a file outside the table's root?

    >>> is_external("bucket-0/data-1.parquet"), is_external("s3://other/data-1.parquet")
    (False, True)
    """
    return key.startswith("/") or _URL.match(key) is not None


def _beside(folder: str, names: Iterable[str]) -> Iterator[str]:
    """The keys of the files beside a data file. Outside the table a mark is only a name (decision 75)."""
    marked = not is_external(folder)
    return (folder + safe_name(n, "_EXTRA_FILES") for n in names if marked or not n.endswith(RETURN_MARK))


class FileKeys:
    """The keys of the files that manifests and index manifests name. Any schema of the table will do."""

    def __init__(self, schema: TableSchema) -> None:
        self._codec, self._places = codec_of(schema), FilePlaces.of(schema.options)
        self._index_beside_data = schema.options.get(opt.INDEX_BESIDE_DATA)
        self._partition_paths: dict[bytes, str] = {}

    def data(self, entry: ManifestEntry) -> tuple[str, ...]:
        """The keys of a data or changelog file, and of the files that belong to it. Raises as `FilePlaces.keys`."""
        key = self._places.keys(self.partition_path(entry.partition), entry.bucket, (entry.file,))[0]
        key = plain_url(key) if is_external(key) else key
        if not entry.file.extra_files:
            return (key,)
        return (key, *_beside(key[: key.rindex("/") + 1], entry.file.extra_files))

    def owned(self, entry: ManifestEntry) -> tuple[str, ...]:
        """The same; nothing for a file of another table, which must not be deleted."""
        return tuple(key for key in self.data(entry) if not self._places.is_others(key))

    def is_others(self, key: str) -> bool:
        return self._places.is_others(key)

    def named(self, manifest: EntryColumns | list[ManifestEntry]) -> Iterator[str]:
        """The keys of all files that a manifest names, as added or deleted, wherever they are. Raises TableCorrupt."""
        if isinstance(manifest, list):
            found: Iterable[tuple[bytes, int, str, Sequence[str], str | None]] = (
                (e.partition, e.bucket, e.file.file_name, e.file.extra_files, e.file.external_path) for e in manifest
            )
        else:
            found = manifest.locations()
        folders: dict[tuple[bytes, int], str] = {}
        for partition, bucket, name, beside, elsewhere in found:
            if elsewhere is not None:
                key = plain_url(elsewhere)
                folder = key.rpartition("/")[0] + "/"
            else:
                place = (partition, bucket)
                if place not in folders:
                    folders[place] = self._places.paths.bucket_dir(self.partition_path(partition), bucket)
                folder = folders[place]
                key = folder + safe_name(name, "a manifest")
            yield key
            yield from _beside(folder, beside)

    def deletable(self, key: str) -> str:
        """A key inside the table or in a location that an option names. Raises Unsupported for others and files of
        other tables.
        """
        if self._places.is_others(key):
            raise Unsupported(
                f"file {key} belongs to another table, and is not deleted (option '{opt.REFERENCED_PATHS.key}')"
            )
        return self._places.external(key) if is_external(key) else key

    def index(self, entry: IndexEntry) -> str:
        """The key in the table's index folder, beside its data file, or a whole URL. Raises TableCorrupt."""
        if entry.file.external_path is not None:
            return entry.file.external_path
        if not self._index_beside_data:
            return self._places.paths.index(entry.file.file_name, "_FILE_NAME")
        folder = self._places.paths.bucket_dir(self.partition_path(entry.partition), entry.bucket)
        return folder + safe_name(entry.file.file_name, "_FILE_NAME")

    def partition_path(self, partition: bytes) -> str:
        if partition not in self._partition_paths:
            self._partition_paths[partition] = self._codec.path(partition)
        return self._partition_paths[partition]
