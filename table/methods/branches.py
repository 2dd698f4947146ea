"""The methods of `Table` that make, list, rename, delete and fast-forward branches.

Owns: these methods. Must not know: how branches are stored.
Source: format/snapshot §5. Invariant: a branch shares the data files of the table; only its metadata is its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.errors import InvalidArgument
from ...core.paths import TablePaths
from ..opened import OpenTable

if TYPE_CHECKING:
    from ...coordinator.branches.forward_plan import FastForward
    from ...coordinator.branches.names import Branch
    from ...coordinator.branches.remove import BranchDeletion
    from ...coordinator.history.timeline import Timeline
    from ...core.metadata.schema import TableSchema


class Branches(OpenTable):
    """The methods of `Table` for branches."""

    def branches(self) -> dict[str, Branch]:
        """The branches of the table besides `main`, by name, each with its newest snapshot and schema.

        >>> import pyarrow as pa, lakelatch as ll
        >>> table = ll.create_table("memory://branches-doctest/t", pa.schema([("v", pa.int64())]))
        >>> receipt = table.append(pa.table({"v": [1]}))
        >>> table.create_branch("staging", snapshot=1)
        >>> receipt = table.branch("staging").append(pa.table({"v": [2]}))
        >>> print(table.branches()["staging"])
        branch 'staging': snapshot 2, schema 0, 1 tags
        >>> print(table.fast_forward("staging"))
        main gets snapshot 2 of branch 'staging', 0 schemas, 0 tags: 2 rows
        """
        from ...coordinator.branches.names import list_branches

        return list_branches(self.timeline)

    def create_branch(self, name: str, *, snapshot: int | None = None, tag: str | None = None) -> None:
        """Make a branch of this table, or of this branch. It begins with the rows of a snapshot, and shares its files.

        Open it with `table.branch(name)`; every read and write works there as on the table itself. If several callers make a
        branch of one name, one of them does, and the others get `TableExists`. If a call is cut off, repeat it.

        Args:
            name: not `main`, not a number.
            snapshot: the id of the snapshot that it begins with.
            tag: the tag that it begins with; the branch gets the tag, too. Without snapshot and tag the branch has the table's
                schemas and no rows, as in Apache Paimon.

        A tag `branch-<snapshot>-…` here and in the branch keeps the files that both have; it goes with the branch.

        Raises:
            InvalidArgument: the name cannot be a branch's; or there is no such snapshot or tag, or it is expiring.
            TableExists: there is a branch of this name, or another call is making it.

        Source: format/snapshot §5.
        """
        from ...coordinator.branches.create import create_branch, source_of
        from ..travel import snapshot_at

        self._check_not_pinned()
        if snapshot is not None and tag is not None:
            raise InvalidArgument("create_branch takes snapshot= or tag=, not both")
        begin = None if snapshot is None and tag is None else snapshot_at(self.timeline, snapshot=snapshot, tag=tag)
        create_branch(source_of(self.timeline, begin, tag), name)

    def delete_branch(self, name: str, *, dry_run: bool = False) -> BranchDeletion:
        """Delete a branch: its schemas, snapshots and tags. `clean` frees the data files that nothing else names.

        If a run is cut off, run it again. A job that is writing to the branch is told that it was dropped.

        Args:
            dry_run: delete nothing.

        Returns:
            What was deleted, or with `dry_run` would be. Prints as one line.

        Raises:
            InvalidArgument: there is no such branch, or option `scan.fallback-branch` or `scan.primary-branch` names it.
        """
        from ...coordinator.branches.remove import apply_deletion, plan_deletion

        main, schema = self._main()
        plan = plan_deletion(main, schema, name)
        return plan if dry_run else apply_deletion(main, plan)

    def rename_branch(self, name: str, new_name: str) -> None:
        """Give a branch another name. Its metadata is copied and then deleted under the old name; data files do not move.

        Do it when no job writes to the branch: a commit in the moment in which the old name goes may be lost.

        Raises:
            InvalidArgument: there is no such branch, the new name cannot be a branch's, or an option names the branch.
            TableExists: the new name is taken.
        """
        from ...coordinator.branches.remove import rename_branch

        rename_branch(*self._main(), name, new_name)

    def plan_fast_forward(self, name: str) -> FastForward:
        """What `fast_forward` would change. Prints as one line. Changes nothing."""
        from ...coordinator.branches.forward_plan import plan_fast_forward

        self._check_not_pinned()
        return plan_fast_forward(self.timeline, name)

    def fast_forward(self, name: str) -> FastForward:
        """Bring the snapshots, schemas and tags of a branch into `main`, which must not have commits that the branch lacks.

        The snapshots keep their ids. They are published one after another, so `main` is at every moment in a state that the
        branch had, and a run that is cut off is finished by the next. The branch stays, and can be committed to and
        fast-forwarded to again.

        Returns:
            What `main` got. Prints as one line.

        Raises:
            CommitConflict: `main` has commits, schemas or tags that the branch lacks; names them. Nothing was changed, unless
                another writer committed to `main` in the midst of it, which the error says.
            InvalidArgument: there is no such branch, or snapshots that `main` lacks have expired in it.
            StoreUnavailable: the store failed before anything came into `main`.
            OutcomeUnknown: it failed midway; the error says what came into `main`. Run it again to finish.

        Source: decision 55.
        """
        from ...coordinator.branches.forward import apply_fast_forward

        self.settle()  # hints of earlier commits are not written late, above those of main's new snapshots
        plan = self.plan_fast_forward(name)
        done = apply_fast_forward(self.timeline, plan)
        self.refresh()
        return done

    def _main(self) -> tuple[Timeline, TableSchema]:
        """The main branch and its newest schema."""
        from ...coordinator.history.timeline import Timeline

        self._check_not_pinned()
        main = Timeline(self.store, TablePaths())
        return main, main.latest_schema()
