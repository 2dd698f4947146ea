"""All names and paths of the format, and the check that refuses hostile names (H16).

Owns: the location of each file of a table, relative to the table's root. Must not know: stores, bytes.
Source: format/snapshot §1; format/binary-row §3. Invariant: no path from this module leaves the table's directory.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .errors import InvalidArgument, TableCorrupt

_NUMBER = re.compile(r"0|[1-9][0-9]{0,18}")
_NAME = re.compile(r"^[^/\\\x00]+$")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_LONGEST_BYTES = 200

DEFAULT_BRANCH = "main"
SCHEMA_DIR, SNAPSHOT_DIR, MANIFEST_DIR, INDEX_DIR, TAG_DIR = "schema", "snapshot", "manifest", "index", "tag"
STATISTICS_DIR, CHANGELOG_DIR, CONSUMER_DIR, BRANCH_DIR = "statistics", "changelog", "consumer", "branch"
IDENTITY_DIR = "lakelatch/identities"
"""Commit users that do not fit into the property of the snapshots. Other engines do not look into `lakelatch/`."""
UNTAGGED_DIR = "lakelatch/untagged"
"""Tags that are being deleted, until their files are gone."""
IDENTITY_PREFIX = "identities-"
INDEX_SUFFIX = ".index"
"""The suffix after a data file's name that names the file with its indexes, in the same folder."""
BLOB_FORMAT = "blob"
_TEXT_CODECS = ("gz", "bz2", "deflate", "snappy", "lz4", "zst")
"""Extensions that follow the format of files that are compressed as a whole, which CSV and JSON files may be."""
POSTPONE_BUCKET = -2


def safe_name(name: str, where: str) -> str:
    """A name in a table's file must be a single path part, other than `.` and `..`; else raises TableCorrupt with `where`."""
    if not isinstance(name, str) or not _NAME.match(name) or name in (".", ".."):
        raise TableCorrupt(
            f"{where} names {name!r}, which would leave the table's directory",
            next_step="do not trust this table: a path was written into a field that holds a file name",
        )
    return name


def safe_argument(name: str, what: str) -> str:
    if not isinstance(name, str):
        raise InvalidArgument(f"{what} {name!r} is not text", next_step="give its name")
    if not name.strip() or not _NAME.match(name) or name in (".", ".."):
        raise InvalidArgument(f"{what} {name!r} cannot be a file name", next_step="use a name without path separators")
    return name


def new_name(name: str, what: str) -> str:
    """Check the name of a tag or branch that is about to be made, and return it. Raises InvalidArgument where it is
    empty, is too long, would leave its folder, or has invisible characters.

    >>> new_name("2026-01-01 05", "tag")
    '2026-01-01 05'
    """
    safe_argument(name, what)
    if _CONTROL.search(name) or name != name.strip():
        raise InvalidArgument(
            f"{what} {name!r} has control characters, or spaces at an end", next_step="use a name that people can type"
        )
    if len(name.encode()) > _LONGEST_BYTES:
        raise InvalidArgument(
            f"{what} {name[:20]!r}… is longer than {_LONGEST_BYTES} bytes", next_step="use a shorter name"
        )
    return name


@dataclass(frozen=True, slots=True)
class TablePaths:
    """Keys of a table's files, relative to its root.

    Attributes:
        branch: the branch of the folders `schema`, `snapshot` and `tag`; manifests and data belong to all branches.
        data_directory: option `data-file.path-directory`.

    >>> TablePaths().snapshot(3), TablePaths("dev").schema(0)
    ('snapshot/snapshot-3', 'branch/branch-dev/schema/schema-0')
    """

    branch: str = DEFAULT_BRANCH
    data_directory: str = ""

    @property
    def root(self) -> str:
        return "" if self.branch == DEFAULT_BRANCH else f"branch/branch-{safe_argument(self.branch, 'branch')}/"

    @property
    def snapshot_dir(self) -> str:
        return f"{self.root}{SNAPSHOT_DIR}/"

    @property
    def schema_dir(self) -> str:
        return f"{self.root}{SCHEMA_DIR}/"

    @property
    def tag_dir(self) -> str:
        return f"{self.root}{TAG_DIR}/"

    def snapshot(self, snapshot_id: int) -> str:
        return f"{self.snapshot_dir}snapshot-{snapshot_id}"

    def hint(self, name: str) -> str:
        return f"{self.snapshot_dir}{name}"

    @property
    def changelog_dir(self) -> str:
        return f"{self.root}{CHANGELOG_DIR}/"

    def changelog(self, snapshot_id: int) -> str:
        """The copy of an expired snapshot whose changes are kept longer."""
        return f"{self.changelog_dir}changelog-{snapshot_id}"

    @property
    def consumer_dir(self) -> str:
        return f"{self.root}{CONSUMER_DIR}/"

    def schema(self, schema_id: int) -> str:
        return f"{self.schema_dir}schema-{schema_id}"

    def tag(self, name: str) -> str:
        return f"{self.tag_dir}tag-{safe_argument(name, 'tag')}"

    def tag_of(self, key: str) -> str | None:
        """The name of the tag whose file this is; None for any other file, such as one without a name behind `tag-`.

        >>> TablePaths().tag_of("tag/tag-eod"), TablePaths().tag_of("tag/tag-")
        ('eod', None)
        """
        name = key.removeprefix(f"{self.tag_dir}tag-")
        return name if name != key and name and "/" not in name else None

    def manifest(self, name: str, where: str = "a list of manifests") -> str:
        """A manifest, manifest list or index manifest, which are all in one folder."""
        return f"{MANIFEST_DIR}/{safe_name(name, where)}"

    def index(self, name: str, where: str = "an index manifest") -> str:
        return f"{INDEX_DIR}/{safe_name(name, where)}"

    def statistics(self, name: str, where: str = "field 'statistics'") -> str:
        return f"{STATISTICS_DIR}/{safe_name(name, where)}"

    def identities(self, name: str, where: str = "a page of identities") -> str:
        return f"{IDENTITY_DIR}/{safe_name(name, where)}"

    def written(self, name: str) -> str:
        """The key of a metadata file that a commit wrote, by its name: a manifest, a manifest list, a file of identities.

        >>> TablePaths().written("manifest-1-0"), TablePaths().written("identities-1-0")
        ('manifest/manifest-1-0', 'lakelatch/identities/identities-1-0')
        """
        return (
            self.identities(name, "a commit") if name.startswith(IDENTITY_PREFIX) else self.manifest(name, "a commit")
        )

    def bucket_dir(self, partition_path: str, bucket: int) -> str:
        """The folder of one (partition, bucket), ending in a slash; `partition_path` is `k=v/…` or empty."""
        bucket_name = "bucket-postpone" if bucket == POSTPONE_BUCKET else f"bucket-{bucket}"
        parts = [p for p in (self.data_directory.strip("/"), partition_path, bucket_name) if p]
        if any(part in (".", "..") for p in parts for part in p.split("/")):
            raise TableCorrupt(f"partition path {partition_path!r} would leave the table's directory")
        return "/".join(parts) + "/"

    def data_file(self, partition_path: str, bucket: int, file_name: str, where: str = "data file name") -> str:
        return self.bucket_dir(partition_path, bucket) + safe_name(file_name, where)


def version_of(name: str, kind: str) -> int | None:
    """The id in a name such as `snapshot-7` or `schema-7`; None for any other name, such as a temporary file's.

    >>> version_of("snapshot-7", "snapshot"), version_of("snapshot-7.tmp", "snapshot"), version_of("LATEST", "snapshot")
    (7, None, None)
    """
    prefix = f"{kind}-"
    return number_in(name[len(prefix) :]) if name.startswith(prefix) else None


def number_in(text: str) -> int | None:
    """The number that a text is, as the format's writers and lakelatch's own spell it. `snapshot-007` is somebody else's file.

    >>> [number_in(text) for text in ("0", "7", "007", "+7", "\u0667", "\u00b2", "7\\n", "9" * 5000)]
    [0, 7, None, None, None, None, None, None]
    """
    return int(text) if _NUMBER.fullmatch(text) else None


def format_of(file_name: str) -> str:
    """The file format, by a data file's extension.

    >>> format_of("data-1-0.zst.parquet"), format_of("data-1-0.csv.gz")
    ('parquet', 'csv')
    """
    stem, _, extension = file_name.lower().rpartition(".")
    return stem.rpartition(".")[2] if extension in _TEXT_CODECS else extension


def codec_of_name(file_name: str) -> str:
    """The codec of a whole file, by the extension after its format; empty for none.

    >>> codec_of_name("data-1-0.zst.parquet"), codec_of_name("data-1-0.csv.gz")
    ('', 'gz')
    """
    extension = file_name.lower().rpartition(".")[2]
    return extension if extension in _TEXT_CODECS else ""
