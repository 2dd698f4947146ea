"""The methods of `Table` that take one commit back.

Owns: these methods. Must not know: what the reverse of a commit is. Source: format/commit §11; decision 62.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...coordinator.surroundings import MACHINE
from ...core.errors import InvalidArgument
from ..opened import OpenTable

if TYPE_CHECKING:
    from ...coordinator.commit.receipt import Receipt
    from ...coordinator.maintenance.undo import UndoPlan


class Undo(OpenTable):
    """The methods of `Table` that take one commit back."""

    def plan_undo(self, commit: int | tuple[str, int]) -> UndoPlan:
        """What `undo` of the same commit would change. Prints as one line. Changes nothing."""
        from ...coordinator.maintenance.undo import plan_undo
        from ..travel import snapshot_at
        from ..writing.writer import check_writable

        self._check_not_pinned()
        schema = self.timeline.latest_schema()
        check_writable(schema, keyed=True)
        if isinstance(commit, tuple) and len(commit) == 2:
            commit = self._snapshot_of(*commit)
        if isinstance(commit, bool) or not isinstance(commit, int):
            raise InvalidArgument(
                f"{commit!r} is not a commit", next_step="give the id of a snapshot, or (commit_user, identifier)"
            )
        found = self.timeline.find(commit) if commit > 0 else None
        if found is None:
            ids = self.timeline.snapshot_ids()
            there = f"there are snapshots {ids[0]} to {ids[-1]}" if ids else "the table has no snapshot yet"
            raise InvalidArgument(f"there is no snapshot {commit}", next_step=there)
        try:
            before = snapshot_at(self.timeline, snapshot=commit - 1) if commit > 1 else None
        except InvalidArgument:  # it has expired
            before = None
        return plan_undo(self.timeline, schema, found, before, str(MACHINE.new_uuid()))

    def _snapshot_of(self, commit_user: str, identifier: int) -> int:
        """The snapshot of an identity. Only the last one of each user is remembered; for others all snapshots are read."""
        receipt = self.committer.lookup(commit_user, identifier)
        if receipt is not None:
            return receipt.snapshot_id
        for found in self.timeline.parallel(self.timeline.find, self.timeline.snapshot_ids()):
            if found is not None and (found.commit_user, found.commit_identifier) == (commit_user, identifier):
                return found.id
        raise InvalidArgument(f"{self.url} has no commit {identifier} of {commit_user!r}")

    def undo(
        self, commit: int | tuple[str, int], *, commit_user: str | None = None, identifier: int | None = None
    ) -> Receipt:
        """Take one commit back with another one: the files that it added go, those that it deleted come back.

        All other commits stay as they are, earlier and later ones, so it can run while other jobs write. It is refused if a later
        commit builds on this one: has deleted, rewritten or compacted its files, or deleted rows of them. Undo that one first. An
        undo can be undone. No snapshot is deleted. The schema does not change, and a stream that reads the table's changelog is
        not told, as with an overwrite. Where files come back, a tag `rollback-<id>-…` protects them, as with `rollback`.

        Args:
            commit: the id of its snapshot, or its identity (commit user, identifier).
            commit_user, identifier: make the undo exactly once, as for `append`.

        Raises:
            CommitConflict: a later commit builds on it; names that one.
            InvalidArgument: there is no such snapshot; it changed nothing; or what it deleted has expired.
            TableCorrupt: files that it deleted no longer exist; names them.

        Source: format/commit §11.

        >>> import pyarrow as pa, lakelatch as ll
        >>> table = ll.create_table("memory://undo-doctest/t", pa.schema([("v", pa.int64())]))
        >>> receipts = [table.append(pa.table({"v": [n]}), commit_user="etl", identifier=n) for n in range(3)]
        >>> print(table.plan_undo(2))
        without snapshot 2 (APPEND by etl), as snapshot 4: 0 files with 0 rows come back, 1 with 1 go
        >>> table.undo(("etl", 1)).snapshot_id, sorted(table.to_arrow()["v"].to_pylist())
        (4, [0, 2])
        """
        from ...coordinator.commit.committer import new_commit_user
        from ...coordinator.maintenance.rollback import protected
        from ..writing.transaction import check_identity

        check_identity(commit_user, identifier)
        if commit_user is not None and identifier is not None:
            replayed = self.committer.lookup(commit_user, identifier)
            if replayed is not None:
                return replayed
        plan = self.plan_undo(commit)
        schema = self.timeline.latest_schema()
        user = commit_user or new_commit_user(schema)
        with protected(self.timeline, schema, plan.restored, commit_user, identifier) as tag:
            return self.committer.commit(plan.request(user, identifier, tag))
