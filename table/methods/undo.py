"""The methods of `Table` that take one commit back.

Owns: these methods. Must not know: what the reverse of a commit is. Source: format/commit §11; decision 62.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ...coordinator.surroundings import MACHINE
from ...core.errors import InvalidArgument
from ..opened import OpenTable

if TYPE_CHECKING:
    from ...coordinator.commit.receipt import Receipt
    from ...coordinator.maintenance.undo import UndoPlan

AnyCommit: TypeAlias = "int | tuple[str, int | None] | Receipt"


class Undo(OpenTable):
    """The methods of `Table` that take one commit back."""

    def plan_undo(self, commit: AnyCommit) -> UndoPlan:
        """What `undo` of the same commit would change. Prints as one line. Changes nothing."""
        from ...coordinator.maintenance.undo import plan_undo
        from ..travel import commit_at, snapshot_at
        from ..writing.writer import check_writable

        self._check_not_pinned()
        schema = self.timeline.latest_schema()
        check_writable(schema, keyed=True)
        found = commit_at(self.timeline, self.committer, commit)
        try:
            before = snapshot_at(self.timeline, snapshot=found.snapshot.id - 1) if found.snapshot.id > 1 else None
        except InvalidArgument:  # it has expired
            before = None
        return plan_undo(self.timeline, schema, found, before, str(MACHINE.new_uuid()))

    def undo(self, commit: AnyCommit, *, commit_user: str | None = None, identifier: int | None = None) -> Receipt:
        """Take one commit back with another one: the files that it added go, those that it deleted come back.

        All other commits stay as they are, earlier and later ones and those in the same snapshot, so it can run while other
        jobs write. It is refused if a later commit builds on this one: has deleted, rewritten or compacted its files, deleted
        rows of them, or replaced a partition to which files come back. Undo that one first. An undo can be undone. The identity
        of the commit stays used: running its job again writes nothing. No snapshot is deleted. The schema does not change, and
        a stream that reads the table's changelog is not told, as with an overwrite. Where files come back, tags
        `rollback-<id>-…` protect them, as with `rollback`.

        Args:
            commit: the id of its snapshot, its identity (commit user, identifier), or its receipt. A snapshot in which commits
                ride together has several: then one of the other two.
            commit_user, identifier: make the undo exactly once, as for `append`.

        Raises:
            CommitConflict: a later commit builds on it; names that one.
            InvalidArgument: there is no such commit; it changed no row; or what it deleted has expired.
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
        from ..compaction.inline import show_restored
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
            receipt = self.committer.commit(plan.request(user, identifier, tag))
        show_restored(self, schema, plan.added)
        return receipt
