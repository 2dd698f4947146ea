"""Finds and deletes files that no root names: leftovers of dead jobs, lost races and interrupted deletions.

Owns: `plan_orphans`, `OrphanPlan`, `apply_clean`, which files are candidates, the store's clock. Must not know: rows, the command
line. Source: format/commit §12; H10, H11.
Invariants: candidates are listed first, and the used files are looked up afterwards. A file that any root of any branch
mentions stays, live or deleted, and so do the files of commits that a journal or an open intent holds. Only folders of the
format are searched, and files are compared by their whole path. A file whose age the store does not report stays. Memory does
not grow with the number of candidates.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from ...backends.elsewhere import delete_located, store_elsewhere
from ...backends.requests.refusals import DeletionRefused, past_refusals
from ...backends.store import ObjectInfo, Store
from ...core import options as opt
from ...core.html_text import ShownAsText
from ...core.metadata.schema import TableSchema
from ...core.paths import (
    BRANCH_DIR,
    IDENTITY_DIR,
    INDEX_DIR,
    MANIFEST_DIR,
    SCHEMA_DIR,
    STATISTICS_DIR,
    UNTAGGED_DIR,
    TablePaths,
    version_of,
)
from ...core.places import named_locations, plain_url
from ...core.rows.partition import escape_path_name
from ..history.timeline import Timeline
from ..intents.shelf import KEY as INTENT_KEY
from ..intents.shelf import everywhere
from ..journal.object_journal import FOLDER as JOURNAL_FOLDER
from .deletion import Progress
from .reach.names import CHUNK, FileSpool
from .reach.roots import list_roots
from .reach.used import MANIFESTS_AT_ONCE, ReadManifests, UsedFiles, in_groups, read_journals

DAY_MS = 24 * 3_600_000
YOUNGEST_MS = 3_600_000
"""Files younger than this are never candidates: their writer may be about to commit them."""

DELETED_AT_ONCE = 8
"""How many requests delete at the same time, a chunk of files each."""
LOOK_EVERY = 8
"""After so many rounds of deletion the roots are looked at again."""

_METADATA = re.compile(rf"^({MANIFEST_DIR}|{INDEX_DIR}|{STATISTICS_DIR}|{IDENTITY_DIR})/[^/]+$")
_ENTROPY = re.compile("(/[01]{4}){3}/[01]{8}$")
"""The folders of a hash, which strategy `entropy-inject` puts between a bucket's folder and its files."""
_TEMPORARY = re.compile(
    r"^((branch/branch-[^/]+/)?(snapshot|schema|tag|changelog|consumer|lakelatch/intents)/|lakelatch/([^/]+/)*)\.[^/]+\.tmp$"
)
_UNTAGGED = re.compile(rf"^{UNTAGGED_DIR}/.")
"""Records of deleted tags: what they still hold are orphans, too."""
_JOURNAL = re.compile(rf"^{JOURNAL_FOLDER}(?P<commit>[^/]+)-\d+\.jsonl$")
_SCHEMA = re.compile(rf"^(branch/branch-[^/]+/)?{SCHEMA_DIR}/(?P<name>[^/]+)$")

DeleteFiles = Callable[[Sequence[Sequence[str]]], object]
"""Deletes batches of keys, several at a time."""


@dataclass(frozen=True)
class OrphanPlan(ShownAsText):
    """The files that no root names.

    Attributes:
        files: as listed: key, size and age. Large plans are kept on disk.
        until_ms: they are older than this, by the store's clock, in milliseconds since 1970.
        looked_at: the number of files that were old enough.
        quarantine: the name of the quarantine that the files were moved to; None if they are deleted.
        expired: the names of earlier quarantines that were deleted, because their time was over.
    """

    files: Sequence[ObjectInfo]
    until_ms: int
    looked_at: int
    seen: frozenset[ObjectInfo] = field(repr=False)
    used: UsedFiles = field(repr=False, compare=False)
    quarantine: str | None = None
    expired: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{len(self.files)} of {self.looked_at} files are orphans: {size_of(self.files)} bytes"

    def to_dict(self) -> dict[str, Any]:
        """The plan with stable keys, ready for JSON."""
        return {
            "until_ms": self.until_ms,
            "looked_at": self.looked_at,
            "orphans": [{"file": i.key, "size": i.size, "modified_ms": i.modified_ms} for i in self.files],
            "quarantine": self.quarantine,
            "expired_quarantines": list(self.expired),
        }


def size_of(files: Sequence[ObjectInfo]) -> int:
    return files.size if isinstance(files, FileSpool) else sum(info.size for info in files)


def plan_orphans(
    timeline: Timeline,
    schema: TableSchema,
    until_ms: int,
    *,
    external: bool = False,
    read_manifests: ReadManifests | None = None,
    at_once: int = MANIFESTS_AT_ONCE,
) -> OrphanPlan:
    """The files older than a time that no root of any branch mentions. Changes nothing.

    Args:
        external: also look at the locations that option `data-file.external-paths` names, or named in an earlier schema. What
            other tables store there is taken for orphans.
        read_manifests, at_once: read manifests in another way than with threads of this process, so many together.

    Raises:
        TableCorrupt: a root, a file that it names, or a journal cannot be read; then no file is known to be an orphan (H11).
    """
    candidates = FileSpool(_candidates(timeline, schema, until_ms, external))
    under_way = read_journals(timeline, schema)  # before the roots: a commit that lands leaves its journal afterwards
    waiting = everywhere(timeline)  # likewise
    listed = list_roots(timeline)
    used = UsedFiles(timeline, schema, read_manifests=read_manifests, at_once=at_once)
    used.add_journalled(under_way)
    used.add_intents(waiting, listed)
    seen = used.add_roots(listed)
    open_commits = {past.entries[0].commit for past in under_way}
    orphans = FileSpool(
        info
        for info in _unused(candidates.chunks(), used)
        if not ((found := _JOURNAL.match(info.key)) and found["commit"] in open_commits)
    )
    return OrphanPlan(orphans, until_ms, len(candidates), frozenset(seen), used)


def _unused(chunks: Iterable[list[ObjectInfo]], used: UsedFiles) -> Iterator[ObjectInfo]:
    for chunk in chunks:
        kept = used.names.holds([info.key for info in chunk]).tolist()
        yield from (info for info, keep in zip(chunk, kept, strict=True) if not keep)


# ---------------------------------------------------------------------------------------------------------- candidates


def _candidates(timeline: Timeline, schema: TableSchema, until_ms: int, external: bool) -> Iterator[ObjectInfo]:
    """The files of the format's folders that are old enough, except roots, hints, schemas and consumers."""
    is_data = data_pattern(schema)
    schemas: list[str] = []
    for info in list_everything(timeline.store):
        if _SCHEMA.match(info.key):
            schemas.append(info.key)
        if 0 < info.modified_ms < until_ms and _is_candidate(info, is_data, until_ms):
            yield info
    if external:
        for root in external_locations(timeline, schema, schemas):
            yield from _elsewhere(timeline.store, root, is_data, until_ms)


def list_everything(store: Store) -> Iterator[ObjectInfo]:
    """Every file under a table's root. Stores that show no temporary files in their listings have another one that does."""
    listing: Callable[[str], Iterator[ObjectInfo]] = getattr(store, "list_all", store.list)
    return listing("")


def _is_candidate(info: ObjectInfo, is_data: re.Pattern[str], until_ms: int) -> bool:
    # The name of a journal's object must stay taken as long as its writer may wake up.
    if info.modified_ms >= until_ms - DAY_MS and _JOURNAL.match(info.key):
        return False
    return in_a_folder_of_the_format(info.key, is_data)


def in_a_folder_of_the_format(key: str, is_data: re.Pattern[str]) -> bool:
    """Whether a key is that of a file that can be an orphan, if it is old and unused. `is_data`: from `data_pattern`."""
    return any(pattern.match(key) for pattern in (is_data, _METADATA, _TEMPORARY, _UNTAGGED, _JOURNAL, INTENT_KEY))


def external_locations(timeline: Timeline, schema: TableSchema, listed: Iterable[str] | None = None) -> list[str]:
    """The locations outside the table's folder that any schema of any branch names, in one spelling."""
    if listed is None:
        folders = (f"{SCHEMA_DIR}/", f"{BRANCH_DIR}/")
        listed = [i.key for folder in folders for i in timeline.store.list(folder) if _SCHEMA.match(i.key)]
    found = [schema]
    for key in listed:
        folder, _, name = key.rpartition("/")
        number = version_of(name, "schema")
        if number is not None:
            branch = folder.removeprefix("branch/branch-").split("/")[0] if folder.startswith("branch/") else ""
            paths = TablePaths(branch) if branch else TablePaths()
            found.append(Timeline(timeline.store, paths).schema(number))
    return sorted({plain_url(root).rstrip("/") for one in found for root in named_locations(one.options)})


def _elsewhere(store: Store, root: str, is_data: re.Pattern[str], until_ms: int) -> Iterator[ObjectInfo]:
    for info in list_everything(store_elsewhere(store, root)):
        folder, _, name = info.key.rpartition("/")
        if 0 < info.modified_ms < until_ms and is_data.match(f"{_ENTROPY.sub('', folder)}/{name}"):
            yield replace(info, key=f"{root}/{info.key}")


def data_pattern(schema: TableSchema) -> re.Pattern[str]:
    """Matches the keys of files in bucket folders, which are as deep as the table has partition columns.

    >>> from ...core.metadata.schema import new_schema
    >>> from ...core.rows.types import AtomicType, Field
    >>> schema = new_schema([Field(0, "dt", AtomicType("INT"))], partition_keys=["dt"])
    >>> [bool(data_pattern(schema).match(key)) for key in ("dt=1/bucket-0/data-1.parquet", "notes/bucket-0/data-1.parquet")]
    [True, False]
    """
    folder = schema.options.get(opt.DATA_FILE_DIRECTORY).strip("/")
    levels: Iterable[str] = (re.escape(escape_path_name(name)) + "=[^/]*/" for name in schema.partition_keys)
    return re.compile(f"^{re.escape(folder) + '/' if folder else ''}{''.join(levels)}bucket-(\\d+|postpone)/[^/]+$")


# ------------------------------------------------------------------------------------------------------------ deletion


@past_refusals()
def apply_clean(
    plan: OrphanPlan,
    progress: Progress | None = None,
    delete: DeleteFiles | None = None,
    at_once: int | None = None,
) -> OrphanPlan:
    """Delete the orphans, looking at newer roots again and again, and return the plan as it was carried out. `delete` does it in
    another way than threads of this process, `at_once` batches together. Raises StoreUnavailable: run it again.
    """
    timeline, done = plan.used.timeline, FileSpool()

    def deleted(batches: Sequence[Sequence[str]]) -> None:
        timeline.parallel(lambda batch: delete_located(timeline.store, batch, named=False), batches)

    for batches in still_unused(plan, at_once):
        (delete or deleted)([[info.key for info in batch] for batch in batches])
        for batch in batches:
            done.extend(batch)
        if progress is not None:
            progress(len(done), len(plan.files))
    return replace(plan, files=done)


def still_unused(plan: OrphanPlan, at_once: int | None = None) -> Iterator[list[list[ObjectInfo]]]:
    """The orphans in rounds of batches, without those that roots reach which came after the plan was made (H10).

    The roots are looked at again after `LOOK_EVERY` rounds, or before each, if a round has another size than usual.
    """
    seen = set(plan.seen)
    every = LOOK_EVERY if at_once is None else 1
    chunks = plan.files.chunks() if isinstance(plan.files, FileSpool) else in_groups(plan.files, CHUNK)
    for number, round_ in enumerate(in_groups(chunks, at_once or DELETED_AT_ONCE)):
        if number % every == 0:
            look_again(plan.used, seen)
        batches = [list(_unused([chunk], plan.used)) for chunk in round_]
        yield [batch for batch in batches if batch]


def look_again(used: UsedFiles, seen: set[ObjectInfo]) -> None:
    """Add what roots reach that came since, and what journals and intents hold by now. `seen`: the roots that were asked."""
    under_way = read_journals(used.timeline, used.schema)
    waiting = everywhere(used.timeline)
    listed = list_roots(used.timeline)
    new = [info for info in listed if info not in seen]
    used.add_journalled(under_way)
    used.add_intents(waiting, listed)
    seen |= used.add_roots(new)


def store_clock_ms(store: Store, unique: str) -> int:
    """The store's own time, from a file that is written, looked at and deleted; no other file's name ends with `unique`."""
    key = f"{MANIFEST_DIR}/lakelatch-clock-{unique}"
    store.put(key, b"")
    try:
        return store.head(key).modified_ms
    finally:
        with suppress(DeletionRefused):  # the time is known, and cleaning takes the file away when it may
            delete_located(store, [key])
