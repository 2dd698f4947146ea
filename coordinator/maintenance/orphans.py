"""Finds and deletes files that no root names: leftovers of dead jobs, lost races and interrupted deletions.

Owns: `plan_orphans`, `OrphanPlan`, `apply_clean`, the store's clock. Must not know: rows, the command line. Source:
format/commit §12; H10, H11.
Invariants: candidates are listed first, and the used files are looked up afterwards. A file that any root of any branch
mentions stays, live or deleted. Only folders of the format are searched, and files are compared by their whole path. A file
whose age the store does not report stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from ...backends.registry import open_beside
from ...backends.store import ObjectInfo, Store
from ...core import options as opt
from ...core.html_text import ShownAsText
from ...core.metadata.schema import TableSchema
from ...core.paths import IDENTITY_DIR, INDEX_DIR, MANIFEST_DIR, STATISTICS_DIR
from ...core.places import named_locations, plain_url
from ...core.rows.partition import escape_path_name
from ..history.timeline import Timeline
from .deletion import Progress, Steps, second_look
from .reachable import Candidates, Reach, Usage
from .roots import list_roots, read_roots

DAY_MS = 24 * 3_600_000
YOUNGEST_MS = 3_600_000
"""Files younger than this are never candidates: their writer may be about to commit them."""

_METADATA = re.compile(rf"^({MANIFEST_DIR}|{INDEX_DIR}|{STATISTICS_DIR}|{IDENTITY_DIR})/[^/]+$")
_ENTROPY = re.compile("(/[01]{4}){3}/[01]{8}$")
"""The folders of a hash, which strategy `entropy-inject` puts between a bucket's folder and its files."""
_TEMPORARY = re.compile(r"^(branch/branch-[^/]+/)?(snapshot|schema|tag|changelog|consumer)/\.[^/]+\.tmp$")


@dataclass(frozen=True)
class OrphanPlan(ShownAsText):
    """The files that no root names.

    Attributes:
        files: as listed, by key.
        until_ms: they are older than this, by the store's clock, in milliseconds since 1970.
        looked_at: the number of files that were old enough.
    """

    files: tuple[ObjectInfo, ...]
    until_ms: int
    looked_at: int
    steps: Steps = field(repr=False)
    seen: frozenset[ObjectInfo] = field(repr=False)
    usage: Usage = field(repr=False, compare=False)

    def __str__(self) -> str:
        size = sum(info.size for info in self.files)
        return f"{len(self.files)} of {self.looked_at} files are orphans: {size} bytes"

    def to_dict(self) -> dict[str, Any]:
        """The plan with stable keys, ready for JSON."""
        return {
            "until_ms": self.until_ms,
            "looked_at": self.looked_at,
            "orphans": [{"file": i.key, "size": i.size, "modified_ms": i.modified_ms} for i in self.files],
        }


def plan_orphans(timeline: Timeline, schema: TableSchema, until_ms: int, *, external: bool = False) -> OrphanPlan:
    """The files older than a time that no root of any branch mentions. Changes nothing.

    Args:
        external: also look at the locations of option `data-file.external-paths`. What other tables store there is taken for
            orphans.

    Raises:
        TableCorrupt: a root, or a file that it names, cannot be read; then no file is known to be an orphan (H11).
    """
    is_data = data_pattern(schema)
    old = {info.key: info for info in timeline.store.list("") if 0 < info.modified_ms < until_ms}
    data = frozenset(key for key in old if is_data.match(key))
    if external:
        found = _elsewhere(timeline.store, schema, is_data, until_ms)
        old, data = old | found, data | found.keys()
    metadata = [key for key in old if _METADATA.match(key)]
    temporary = [key for key in old if _TEMPORARY.match(key)]
    listed = list_roots(timeline)
    reach = Reach(timeline, schema, identities=True)
    usage = reach.usage(Candidates(data))
    kept = reach.kept_by(read_roots(timeline, listed))
    used = {key for named in kept for key in named.keys} | usage.mentioned(kept)
    steps = Steps(tuple(sorted(data)), tuple(sorted(metadata)), tuple(sorted(temporary))).without(used)
    return OrphanPlan(
        _files(old, steps), until_ms, len(data) + len(metadata) + len(temporary), steps, frozenset(listed), usage
    )


def _elsewhere(store: Store, schema: TableSchema, is_data: re.Pattern[str], until_ms: int) -> dict[str, ObjectInfo]:
    """The old data files in the locations that the table's option names, by their URLs."""
    found = {}
    for root in map(plain_url, named_locations(schema.options)):
        for info in open_beside(store, root.rstrip("/")).list(""):
            folder, _, name = info.key.rpartition("/")
            if 0 < info.modified_ms < until_ms and is_data.match(f"{_ENTROPY.sub('', folder)}/{name}"):
                key = f"{root.rstrip('/')}/{info.key}"
                found[key] = replace(info, key=key)
    return found


def _files(listed: dict[str, ObjectInfo], steps: Steps) -> tuple[ObjectInfo, ...]:
    return tuple(listed[key] for key in (*steps.data, *steps.leaves, *steps.lists))


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


def apply_clean(plan: OrphanPlan, progress: Progress | None = None) -> OrphanPlan:
    """Delete the orphans, after a second look at newer roots.

    Returns:
        The plan as it was carried out.

    Raises:
        StoreUnavailable: the store failed midway: run it again.
    """
    steps = second_look(plan.steps, plan.seen, plan.usage)
    steps.delete(plan.usage.reach.timeline.store, progress)
    return replace(plan, files=_files({info.key: info for info in plan.files}, steps), steps=steps)


def store_clock_ms(store: Store, unique: str) -> int:
    """The store's own time, from a file that is written, looked at and deleted.

    Args:
        unique: a text with which no other file's name ends.
    """
    key = f"{MANIFEST_DIR}/lakelatch-clock-{unique}"
    store.put(key, b"")
    try:
        return store.head(key).modified_ms
    finally:
        store.delete_many([key])
