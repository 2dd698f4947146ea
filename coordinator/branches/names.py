"""The names of branches, and which branches a table has.

Owns: `check_branch_name`, `Branch`, `list_branches`. Must not know: how a branch is made.
Source: format/snapshot §5. Invariant: a branch exists as soon as it has a schema, because a reader opens it by its schemas.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ...backends.store import ObjectInfo
from ...core.errors import InvalidArgument
from ...core.html_text import ShownAsText
from ...core.paths import BRANCH_DIR, DEFAULT_BRANCH, new_name, safe_argument, version_of
from ..history.timeline import Timeline

_INSIDE = re.compile(r"^branch/branch-(?P<branch>[^/]+)/(?P<folder>[^/]+)/(?P<name>[^/]+)$")


@dataclass(frozen=True)
class Branch(ShownAsText):
    """A branch, as a listing shows it.

    Attributes:
        created_ms: the time of its first schema file by the store's clock, in milliseconds since 1970.
        schema_id: its newest schema.
        snapshot_id: its newest snapshot; None for a branch without one.
        tags: how many tags it has.
    """

    name: str
    created_ms: int
    schema_id: int
    snapshot_id: int | None
    tags: int

    def __str__(self) -> str:
        newest = "no snapshot" if self.snapshot_id is None else f"snapshot {self.snapshot_id}"
        return f"branch '{self.name}': {newest}, schema {self.schema_id}, {self.tags} tags"

    def to_dict(self) -> dict[str, Any]:
        """The branch with stable keys, ready for JSON."""
        return {
            "branch": self.name,
            "created_ms": self.created_ms,
            "schema": self.schema_id,
            "snapshot": self.snapshot_id,
            "tags": self.tags,
        }


def check_branch_name(name: str) -> str:
    """A name that a new branch may have. Raises InvalidArgument if it is blank, `main`, a number, too long, or no file name, or
    has invisible characters.

    >>> check_branch_name("staging")
    'staging'
    """
    new_name(name, "branch")
    if name == DEFAULT_BRANCH:
        raise InvalidArgument(f"branch {name!r} is the table itself", next_step="choose another name")
    if name.isdecimal():
        raise InvalidArgument(f"branch {name!r} is a number", next_step="choose a name with a letter in it")
    return name


def branch_root(name: str) -> str:
    return f"{BRANCH_DIR}/branch-{safe_argument(name, 'branch')}/"


def list_branches(timeline: Timeline) -> dict[str, Branch]:
    """Every branch except `main`, by name, from one listing. A branch that is still being made is left out."""
    return branches_among(timeline.store.list(f"{BRANCH_DIR}/"))


def branches_among(listed: Iterable[ObjectInfo]) -> dict[str, Branch]:
    schemas: dict[str, dict[int, int]] = {}
    snapshots: dict[str, list[int]] = {}
    tags: dict[str, int] = {}
    for info in listed:
        found = _INSIDE.match(info.key)
        if found is None:
            continue
        branch, folder, name = found["branch"], found["folder"], found["name"]
        if folder == "schema" and (number := version_of(name, "schema")) is not None:
            schemas.setdefault(branch, {})[number] = info.modified_ms
        elif folder == "snapshot" and (number := version_of(name, "snapshot")) is not None:
            snapshots.setdefault(branch, []).append(number)
        elif folder == "tag" and name.startswith("tag-") and name != "tag-":
            tags[branch] = tags.get(branch, 0) + 1
    return {
        name: Branch(name, times[min(times)], max(times), max(snapshots.get(name, ()), default=None), tags.get(name, 0))
        for name, times in sorted(schemas.items())
    }
