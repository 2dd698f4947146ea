"""Drops a whole table: a plan of what is deleted, and its execution, which can be repeated after a crash.

Owns: `plan_drop`, `DropPlan`, `apply_drop`. Must not know: rows, catalogs. Source: decision 58; H11, H16, H21.
Invariants: only files of the format are deleted, and none of a table that lies below this one. Schema 0 is marked first: from
then on no commit of an open handle stands. It is deleted last, so that an interrupted drop is seen and can be run again, and no
table is made among the remains. The folder is listed until nothing is left, as commits before the mark may still bring files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ...backends.elsewhere import delete_located
from ...backends.files.folders import remove_folders
from ...backends.requests.refusals import past_refusals
from ...backends.store import ObjectInfo, ObjectNotFound, Store
from ...core.errors import InvalidArgument, StoreUnavailable, TableNotFound
from ...core.html_text import ShownAsText
from ...core.metadata.schemas.dropped import is_dropped, marked_dropped
from ...core.paths import (
    BRANCH_DIR,
    CHANGELOG_DIR,
    CONSUMER_DIR,
    INDEX_DIR,
    MANIFEST_DIR,
    SCHEMA_DIR,
    SNAPSHOT_DIR,
    STATISTICS_DIR,
    TAG_DIR,
    TablePaths,
)
from ..surroundings import MACHINE, Surroundings
from .deletion import BATCH, Progress

REFERENCED = "referenced-by-"
"""The beginning of the names of tags that keep the files of a clone by reference."""
METADATA = (
    *(SCHEMA_DIR, SNAPSHOT_DIR, MANIFEST_DIR, INDEX_DIR, STATISTICS_DIR, TAG_DIR, CHANGELOG_DIR, CONSUMER_DIR),
    *(BRANCH_DIR, "lakelatch"),
)
_OWN = re.compile(rf"^(?:({'|'.join(METADATA)})/|(?:[^/=]+=[^/]*/)+|bucket-(?:\d+|postpone)/).+")
_SCHEMA = re.compile(rf"^(?P<above>(?:.+/)?){SCHEMA_DIR}/schema-\d+$")
_BRANCH_ROOT = re.compile(rf"^{BRANCH_DIR}/branch-[^/]+/$")
_ROOTS = re.compile(rf"^(?:{BRANCH_DIR}/branch-[^/]+/)?(?:{SNAPSHOT_DIR}|{TAG_DIR}|{CHANGELOG_DIR}|{CONSUMER_DIR})/")
_FIRST = TablePaths().schema(0)
_ROUNDS = 50


@dataclass(frozen=True)
class DropPlan(ShownAsText):
    """What a drop deletes.

    Attributes:
        files: the table's own files, by key.
        foreign: the keys of files that are not the table's, and stay.
        snapshots: how many snapshots go, of all branches.
        referenced: the tags that keep files of clones by reference, which lose their rows (decision 72).
    """

    url: str
    files: tuple[ObjectInfo, ...]
    foreign: tuple[str, ...] = ()
    snapshots: int = 0
    data_directory: str = field(default="", repr=False)
    referenced: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """The size of the files in bytes."""
        return sum(info.size for info in self.files)

    def __str__(self) -> str:
        left = f"; {len(self.foreign)} files that are not the table's stay" if self.foreign else ""
        needed = (
            f"; clones that refer to it lose their rows: tags {', '.join(self.referenced)}" if self.referenced else ""
        )
        return f"{self.url}: {self.snapshots} snapshots, {len(self.files)} files, {self.size} bytes{left}{needed}"

    def to_dict(self) -> dict[str, Any]:
        """The plan with stable keys, ready for JSON."""
        return {
            "url": self.url,
            "snapshots": self.snapshots,
            "files": len(self.files),
            "bytes": self.size,
            "foreign": list(self.foreign),
            "referenced_by": list(self.referenced),
        }


def plan_drop(store: Store, data_directory: str = "") -> DropPlan:
    """What a drop deletes. Changes nothing. `data_directory` is the table's option `data-file.path-directory`.

    Raises:
        TableNotFound: there is no table, and nothing is left of one.
        InvalidArgument: another table lies below this one.
    """
    listed = sorted(store.list(""), key=lambda info: info.key)
    keys = [info.key for info in listed]
    if not any(key.startswith((f"{SCHEMA_DIR}/schema-", f"{SNAPSHOT_DIR}/snapshot-")) for key in keys):
        raise TableNotFound(f"there is no table at {store.url}")
    for key in keys:
        found = _SCHEMA.match(key)
        if found is not None and found["above"] and not _BRANCH_ROOT.match(found["above"]):
            raise InvalidArgument(
                f"{store.url} was not dropped: another table lies below it, at {found['above'].rstrip('/')}",
                next_step="move that table away first",
            )
    own = tuple(info for info in listed if is_own(info.key, data_directory))
    foreign = tuple(key for key in keys if not is_own(key, data_directory))
    snapshots = sum(bool(re.search(rf"(^|/){SNAPSHOT_DIR}/snapshot-\d+$", info.key)) for info in own)
    tags = TablePaths().tag(REFERENCED)
    referenced = tuple(key[len(TablePaths().tag_dir + "tag-") :] for key in keys if key.startswith(tags))
    return DropPlan(store.url, own, foreign, snapshots, data_directory, referenced)


def is_own(key: str, data_directory: str) -> bool:
    return bool(_OWN.match(key)) or key.startswith(f"{data_directory.strip('/')}/")


@past_refusals()
def apply_drop(
    store: Store, plan: DropPlan, progress: Progress | None = None, around: Surroundings = MACHINE
) -> DropPlan:
    """Drop the table, with what came to it since the plan was made. Raises StoreUnavailable if the store failed midway, or
    writers keep bringing files: run it again.
    """
    _mark(store, around)
    done, total, refused = 0, len(plan.files), set[str]()
    for _ in range(_ROUNDS):
        listed = [i.key for i in store.list("") if i.key != _FIRST and is_own(i.key, plan.data_directory)]
        left = [key for key in listed if key not in refused]
        if not left:
            break
        for batch in _in_order(left):
            refused |= delete_located(store, batch)
            done += len(batch)
            if progress is not None:
                progress(min(done, total), total)
    else:
        raise StoreUnavailable(
            f"{store.url} is not dropped yet: jobs keep writing files into its folder",
            next_step="stop these jobs, then run it again",
        )
    if refused:  # the table stays one that is being dropped, and none can be made in its place
        return plan
    delete_located(store, [_FIRST])
    if progress is not None:
        progress(total, total)
    remove_folders(store)
    return plan


def _mark(store: Store, around: Surroundings) -> None:
    """Make schema 0 another one. Every handle that is open compares it, once its base is gone or it looks for a schema."""
    try:
        first = store.get(_FIRST)
    except ObjectNotFound:
        return
    if not is_dropped(first):
        store.put(_FIRST, marked_dropped(first, around.wall_ms))


def _in_order(keys: Iterable[str]) -> Iterable[list[str]]:
    """Batches: schemas, so that nobody opens the table; roots, so that nobody reads it; then what they name."""
    steps: tuple[list[str], list[str], list[str]] = ([], [], [])
    for key in keys:
        steps[0 if _SCHEMA.match(key) else 1 if _ROOTS.match(key) else 2].append(key)
    for step in steps:
        for first in range(0, len(step), BATCH):
            yield step[first : first + BATCH]
