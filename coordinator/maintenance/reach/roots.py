"""The roots of a table: snapshots, tags and long-lived changelogs of every branch.

Owns: reading them. Must not know: what they reach, what is deleted. Source: format/snapshot §1, §5; format/commit §10.
Invariants: manifests and data belong to all branches, so roots are listed for all of them. A damaged one is an error (H11).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, cast

from ....backends.store import ObjectInfo, ObjectNotFound, Store
from ....core.metadata.snapshot import Snapshot, parse_snapshot
from ....core.paths import BRANCH_DIR, CHANGELOG_DIR, DEFAULT_BRANCH, SNAPSHOT_DIR, TAG_DIR, version_of
from ...history.timeline import Timeline

RootKind = Literal["snapshot", "tag", "changelog"]

_FOLDERS = (SNAPSHOT_DIR, TAG_DIR, CHANGELOG_DIR, BRANCH_DIR)
_ROOT = re.compile(r"^(?:branch/branch-(?P<branch>[^/]+)/)?(?P<kind>snapshot|tag|changelog)/(?P<name>[^/]+)$")


@dataclass(frozen=True)
class Root:
    info: ObjectInfo
    kind: RootKind
    branch: str
    snapshot: Snapshot

    @property
    def key(self) -> str:
        return self.info.key


def list_roots(timeline: Timeline) -> list[ObjectInfo]:
    """List every root of every branch; nothing is read."""
    store = timeline.store

    def listed(folder: str) -> list[ObjectInfo]:
        return [info for info in store.list(f"{folder}/") if _kind_of(info.key) is not None]

    return [info for part in timeline.parallel(listed, _FOLDERS) for info in part]


def read_roots(timeline: Timeline, infos: Iterable[ObjectInfo]) -> list[Root]:
    """Those that disappeared are left out. Raises TableCorrupt if one cannot be decoded: what it keeps is not known."""
    found = timeline.parallel(lambda info: _read(timeline.store, info), infos)
    return [root for root in found if root is not None]


def _read(store: Store, info: ObjectInfo) -> Root | None:
    try:
        return root_of(info, store.get(info.key))
    except ObjectNotFound:
        return None


def root_of(info: ObjectInfo, data: bytes) -> Root | None:
    """The root that a file holds; None for any other file. Raises TableCorrupt if it cannot be decoded."""
    kind_and_branch = cast("tuple[RootKind, str] | None", _kind_of(info.key))
    return None if kind_and_branch is None else Root(info, *kind_and_branch, parse_snapshot(data, info.key))


def _kind_of(key: str) -> tuple[str, str] | None:
    """Kind and branch of a root's key; None for hints, temporary files and everything else.

    >>> _kind_of("snapshot/snapshot-3"), _kind_of("branch/branch-dev/tag/tag-eod"), _kind_of("snapshot/LATEST")
    (('snapshot', 'main'), ('tag', 'dev'), None)
    """
    found = _ROOT.match(key)
    if found is None:
        return None
    kind, name = found["kind"], found["name"]
    named = name.startswith("tag-") and name != "tag-" if kind == "tag" else version_of(name, kind) is not None
    return (kind, found["branch"] or DEFAULT_BRANCH) if named else None
