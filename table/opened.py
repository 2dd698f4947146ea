"""An open table: its store, its schema, the snapshot that it shows, and its committer.

Owns: `OpenTable`, the common base of the classes that hold `Table`'s methods. Must not know: reads, changes, maintenance.
Invariant: a table that is pinned to a snapshot commits nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ..backends.requests.deadline import timed
from ..core import arguments
from ..core import options as opt
from ..core.errors import InvalidArgument
from ..core.paths import DEFAULT_BRANCH, TablePaths

if TYPE_CHECKING:
    from typing_extensions import Self

    from ..backends.store import Store
    from ..coordinator.commit.committer import Committer
    from ..coordinator.commit.request import Grouping, Isolation
    from ..coordinator.history.last_seen import LastSeen
    from ..coordinator.history.timeline import Timeline
    from ..coordinator.journal.lines import Damage, Entry, Journal
    from ..core.metadata.data_file import PartitionBucket
    from ..core.metadata.schema import TableSchema
    from ..core.metadata.snapshot import Snapshot
    from .writing.buckets.placing import KeyLookups
    from .writing.transaction import Transaction


class OpenTable:
    """The state that every method of a table works on.

    It has the newest schema, or that of the snapshot to which it is pinned, and the bytes of schema 0, by which commits
    recognise the table (see `Timeline`).
    """

    def __init__(
        self,
        store: Store,
        schema: TableSchema,
        *,
        branch: str = DEFAULT_BRANCH,
        journal: str | Journal | None = None,
        pinned: Snapshot | None = None,
        first_schema: bytes | None = None,
        last_seen: LastSeen | None = None,
    ) -> None:
        from ..coordinator.history.last_seen import LastSeen
        from ..coordinator.history.timeline import Timeline

        self.store = store
        self._schema = schema
        self._branch = branch
        self.paths = TablePaths(branch, schema.options.get(opt.DATA_FILE_DIRECTORY))
        self.timeline = Timeline(store, self.paths)
        self.pinned = pinned
        self._journal = journal
        self._committer: Committer | None = None
        self._first_schema = first_schema
        self._last_seen = last_seen or LastSeen()

    def __repr__(self) -> str:
        at = f" at snapshot {self.pinned.id}" if self.pinned is not None else ""
        return f"Table({self.url}{at})"

    def __reduce__(self) -> tuple[Any, ...]:
        """A table that is pickled or copied is opened again there. Its store's credentials travel with it."""
        again = partial(
            type(self), branch=self._branch, journal=self._journal, pinned=self.pinned, first_schema=self._first_schema
        )
        return again, (self.store, self._schema)

    @property
    def url(self) -> str:
        """The table's root, without credentials."""
        return self.store.url

    @property
    def schema(self) -> TableSchema:
        """Columns, keys and options; `schema.fields` are the columns."""
        return self._schema

    @timed("a look for the newest schema")
    def refresh(self) -> Self:
        """Use the newest schema from now on, whoever made it. Returns this table.

        Reads and changes do this by themselves, so it is needed only before looking at `schema` and `options`. A table of `at()`
        stays as it was. `TableNotFound`: the table was dropped, or made again, since it was opened.
        """
        if self.pinned is None:
            self._follow(self._newest_schema())
        return self

    def _newest_schema(self) -> TableSchema:
        from ..coordinator.history.timeline import Timeline

        watched = Timeline(self.store, self.paths, first_schema=self._first_schema)
        return watched.newest_schema(self._schema)

    def _follow(self, newest: TableSchema) -> None:
        """Use a schema that was found. A slower look of another thread does not bring an older one back."""
        if newest.id > self._schema.id:
            self._show(newest)

    @timed("a look for the newest snapshot")
    def _seen(self) -> tuple[Timeline, Snapshot | None, TableSchema]:
        """What a read works on: the snapshot and the newest schema, looked for at the same time."""
        timeline, schema = self.timeline, self._schema
        if self.pinned is not None:
            return timeline.holding(self._last_seen.files), self.pinned, schema
        (timeline, snapshot), schema = timeline.both(lambda: self._last_seen.look(timeline), self._newest_schema)
        if snapshot is not None and snapshot.schema_id > schema.id:  # both came after the look at the schemas
            schema = timeline.schema(snapshot.schema_id, timeline.file_of(snapshot))
        self._follow(schema)
        return timeline, snapshot, schema

    @timed("a look for the newest snapshot")
    def snapshot(self) -> Snapshot | None:
        """The snapshot that a read would see now; None for a table without one."""
        return self.pinned if self.pinned is not None else self.timeline.latest()

    def transaction(
        self,
        *,
        commit_user: str | None = None,
        identifier: int | None = None,
        isolation: Isolation = "snapshot",
        properties: Mapping[str, str] | None = None,
        watermark_ms: int | None = None,
        group: Grouping | None = None,
    ) -> Transaction:
        """Several appends, or one overwrite, as one snapshot. If the block raises, nothing is published.

        Its rows are written with the schema that is the newest when this is called. `group`: as for `append`.
        """
        self._check_not_pinned()
        return self.refresh()._begin(
            commit_user=commit_user,
            identifier=identifier,
            isolation=isolation,
            properties=properties,
            watermark_ms=watermark_ms,
            group=group,
        )

    def _begin(
        self,
        *,
        commit_user: str | None = None,
        identifier: int | None = None,
        isolation: Isolation = "snapshot",
        properties: Mapping[str, str] | None = None,
        watermark_ms: int | None = None,
        group: Grouping | None = None,
        newest_schema: bool = False,
        in_order: bool = False,
        query: str = "",
    ) -> Transaction:
        """A transaction with the schema that this table shows; `newest_schema`: give up if there is a newer one."""
        from .writing.transaction import Transaction

        return Transaction(
            self.committer,
            self.timeline,
            commit_user=commit_user,
            identifier=identifier,
            isolation=isolation,
            properties=arguments.mapping(properties, "properties"),
            watermark_ms=watermark_ms,
            group=group,
            newest_schema=newest_schema,
            written=self._after_write,
            lookups=self._lookups(),
            in_order=in_order,
            query=query,
        )

    def _lookups(self) -> KeyLookups | None:
        """What a transaction must read of the table's rows; the class that changes tables knows how."""
        return None

    def _after_write(self, buckets: frozenset[PartitionBucket]) -> None:
        """Called after a commit with the buckets that it wrote files into. Maintenance may follow; it never fails the commit."""

    @property
    def committer(self) -> Committer:
        """The committer of this table, made on first use."""
        self._check_not_pinned()
        if self._committer is None:
            self._committer = self._committer_with(self._schema)
        return self._committer

    def settle(self) -> None:
        """Wait for what follows commits that have returned: hints, clean-up, upkeep.

        A process that ends without it does not lose them, but who opens the table at once may see files that are going.
        """
        if self._committer is not None:
            self._committer.settle()

    def _check_not_pinned(self) -> None:
        if self.pinned is not None:
            raise InvalidArgument(f"{self!r} is read only", next_step="open the table without at()")

    def _show(self, schema: TableSchema) -> None:
        from ..coordinator.history.timeline import Timeline

        self._schema = schema
        self.paths = TablePaths(self._branch, schema.options.get(opt.DATA_FILE_DIRECTORY))
        self.timeline = Timeline(self.store, self.paths)
        self._committer = None

    def _committer_with(self, schema: TableSchema) -> Committer:
        from ..coordinator.commit.committer import Committer
        from ..coordinator.history.timeline import Timeline
        from ..coordinator.journal.object_journal import journal_of, open_journal

        paths = TablePaths(self._branch, schema.options.get(opt.DATA_FILE_DIRECTORY))
        journal = open_journal(self._journal or journal_of(schema.options, self.store), self.store)
        committer = Committer(self.store, paths, schema, journal, first_schema=self._first_schema)
        timeline = Timeline(self.store, paths, first_schema=self._first_schema)
        committer.afterwards(self._afterwards(timeline, schema))
        return committer

    def _journal_lines(self) -> Sequence[Entry | Damage]:
        """What the table's journal holds, of this process alone if it is kept in memory."""
        from ..coordinator.journal.lines import MemoryJournal
        from ..coordinator.journal.object_journal import journal_of, open_journal
        from ..coordinator.journal.shared_journal import SharedJournal

        if self._committer is not None:
            journal = self._committer.journal
        else:
            journal = open_journal(self._journal or journal_of(self._schema.options, self.store), self.store)
        if isinstance(journal, SharedJournal):
            return journal.lines()
        return journal.entries() if isinstance(journal, MemoryJournal) else ()

    def _afterwards(self, timeline: Timeline, schema: TableSchema) -> list[Callable[[], object]]:
        """The work that the table's options ask for after each commit, in order. It runs when the caller has the receipt."""
        return []
