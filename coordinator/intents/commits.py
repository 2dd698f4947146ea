"""One commit, which may be one of several in its snapshot.

Owns: `Commit`, `commits_named`. Must not know: what is done with it. Source: decision 71, decision 85.
Invariant: the manifests of a commit are told by its id, which their names contain (`Intent`). Only appends share a snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ...core.errors import InvalidArgument, TableCorrupt
from ...core.metadata.manifest import ManifestFile
from ...core.metadata.snapshot import BATCH_IDENTIFIER, Snapshot
from ..history.timeline import Timeline
from ..identities.memory import name_of
from .carried import CARRIES_PROPERTY, Carried, carried_by


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit of a table. `carried` says which of its snapshot's commits; None where there is no other."""

    snapshot: Snapshot
    carried: Carried | None = None

    def __str__(self) -> str:
        kind, number = self.snapshot.commit_kind, self.snapshot.id
        if self.carried is None:
            return f"snapshot {number} ({kind} by {self.snapshot.commit_user})"
        return f"the commit of {self.carried} in snapshot {number} ({kind})"

    def delta_manifests(self, timeline: Timeline) -> tuple[ManifestFile, ...]:
        """Its own manifests of those that the snapshot added. Raises TableCorrupt if there is none."""
        lines = timeline.delta_manifests(self.snapshot)
        if self.carried is None:
            return lines
        own = tuple(line for line in lines if f"-{self.carried.commit}-" in line.file_name)
        if not own:
            raise TableCorrupt(
                f"{timeline.file_of(self.snapshot)}: property '{CARRIES_PROPERTY}' names commit {self.carried.commit},"
                f" of which {self.snapshot.delta_manifest_list} has no manifest"
            )
        return own


def only_commit_of(snapshot: Snapshot) -> Commit:
    """The commit of a snapshot. Raises InvalidArgument if it has several, and names them."""
    carried = carried_by(snapshot)
    if len(carried) < 2:
        return Commit(snapshot)
    told = ", ".join(str((one.user, one.identifier)) for one in carried)
    raise InvalidArgument(
        f"snapshot {snapshot.id} has {len(carried)} commits, which rode together",
        next_step=f"say which one is meant by its receipt, or by its commit user and identifier: {told}",
    )


def commits_named(snapshots: Iterable[Snapshot | None], commit_user: str, identifier: int | None) -> list[Commit]:
    """The commits of an identity, of those in some snapshots. A snapshot of another engine has one commit."""
    name, number = name_of(commit_user), BATCH_IDENTIFIER if identifier is None else identifier
    found = []
    for snapshot in (s for s in snapshots if s is not None):
        carried = carried_by(snapshot)
        if len(carried) > 1:
            found += [Commit(snapshot, c) for c in carried if (c.user, c.identifier) == (name, identifier)]
        elif (snapshot.commit_user, snapshot.commit_identifier) == (commit_user, number):
            found.append(Commit(snapshot))
    return found
