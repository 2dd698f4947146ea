"""Tables for testing a job, and the checks after it has run. The pytest fixtures return these objects.

Owns: `FaultyStore`, `ContendedTable`, `ReplayedBatch`, with the methods that plan faults and the checks, whose failures name a
next step. Must not know: pytest, Spark (a frame is anything that can be turned into Arrow). Invariant: a check fails if no
planned fault happened, because a job that met no fault has proved nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather

from ..backends.around.faulty import OPERATIONS, Faults
from ..core.errors import InvalidArgument
from ..table.conforming.sources import batches_of
from ..table.create import create_table, open_table
from .trouble import (
    KILL_AFTER,
    KILL_BEFORE,
    LOSE_ANSWER,
    RIVAL_AFTER_READ,
    RIVAL_BEFORE_COMMIT,
    Settings,
    Trouble,
)
from .troubled_store import Killed, troubled_url

_SHOWN = 3
_TABLE = "table"


def arrow_of(rows: Any) -> pa.Table:
    """Convert rows to Arrow: a list of dicts, an Arrow table, a pandas or polars frame, a Spark DataFrame.

    >>> arrow_of([{"month": 1}]).schema.names
    ['month']
    """
    if isinstance(rows, list):
        return pa.Table.from_pylist(rows)
    if hasattr(rows, "toArrow"):
        return rows.toArrow()
    return rows if isinstance(rows, pa.Table) else pa.Table.from_batches(batches_of(rows))


class TroubledTables:
    """Tables in one folder of faults.

    Args:
        folder: the folder for the faults. It also holds the tables, unless `on()` is called.
    """

    def __init__(self, folder: Path) -> None:
        self.trouble = Trouble(folder)
        self.trouble.settings = Settings(str(folder / "tables"))

    def on(self, url: str, storage_options: Mapping[str, Any] | None = None) -> None:
        """Store the tables below this URL (`s3://bucket/tests`, say) instead of in a temporary folder."""
        self.trouble.settings = replace(self.trouble.settings, url=url, storage_options=dict(storage_options or {}))

    def url(self, name: str = _TABLE) -> str:
        """The URL of a table, for the job. Every process on this machine can open it."""
        return troubled_url(self.trouble.folder, name)

    def create(self, like: Any, name: str = _TABLE, **arguments: Any) -> str:
        """Make an empty table.

        Args:
            like: rows or an Arrow schema with the columns of the table.
            arguments: passed to `lakelatch.create_table`: partition_by, options, …

        Returns:
            The URL of the table, for the job.
        """
        schema = like if isinstance(like, pa.Schema) else arrow_of(like).schema
        settings = self.trouble.settings
        create_table(f"{settings.url}/{name}", schema, storage_options=settings.storage_options, **arguments)
        return self.url(name)

    def rows(self, name: str = _TABLE) -> list[dict[str, Any]]:
        """The rows of the table, read without faults."""
        settings = self.trouble.settings
        found = open_table(f"{settings.url}/{name}", storage_options=settings.storage_options).to_arrow()
        return found.to_pylist()  # type: ignore[no-any-return]

    def snapshot_id(self, name: str = _TABLE) -> int:
        """The id of the latest snapshot, or 0 if there is none."""
        settings = self.trouble.settings
        latest = open_table(f"{settings.url}/{name}", storage_options=settings.storage_options).snapshot()
        return latest.id if latest is not None else 0

    def assert_struck(self) -> None:
        """Fail if a planned fault has not happened."""
        __tracebackhide__ = True
        left = self.trouble.planned()
        assert not left, (
            f"planned, but never happened: {', '.join(sorted(left))}. The job did not get that far, or did not use its URL."
            f"\nnext: give the job the URL of the fixture ({self.url()}), or plan less"
        )


class FaultyStore(TroubledTables):
    """Tables on a store that fails on request.

    >>> import tempfile
    >>> store = FaultyStore(Path(tempfile.mkdtemp()))
    >>> url = store.create([{"month": 1}])
    >>> store.lose_answer()
    >>> try:
    ...     _ = open_table(url).append(pa.table({"month": [1]}))
    ... except Exception as error:
    ...     print(type(error).__name__, store.rows())
    OutcomeUnknown [{'month': 1}]
    """

    def lose_answer(self, times: int = 1) -> None:
        """Let the next commits land and lose their answers, so that the job gets `OutcomeUnknown` (H2)."""
        self.trouble.plan(LOSE_ANSWER, times)

    def kill_before_commit(self, times: int = 1) -> None:
        """Kill the process that is about to commit: `Killed` is raised there, and it sends nothing more."""
        self.trouble.plan(KILL_BEFORE, times)

    def kill_after_commit(self, times: int = 1) -> None:
        """The same, just after the commit has landed and before its outcome is reported."""
        self.trouble.plan(KILL_AFTER, times)

    def rough(self, operation: str = "put_if_absent", seed: int = 0, **shares: float) -> None:
        """Inject random faults into every request of a kind. The same seed strikes the same requests.

        Args:
            operation: get, get_range, head, put, put_if_absent, list, delete_many, or "*" for all.
            shares: fault -> probability from 0 to 1: error, lost, refused, throttled (503), delayed, duplicate, stale
                (listings), late (lands after the client gave up).
        """
        known = [f.name for f in fields(Faults)]
        wrong = [name for name in shares if name not in known]
        if wrong or operation not in (*OPERATIONS, "*"):
            raise InvalidArgument(
                f"no fault is called {wrong[0]!r}" if wrong else f"no operation is called {operation!r}",
                next_step=f"faults: {', '.join(known)}; operations: {', '.join(OPERATIONS)}, *",
            )
        settings = self.trouble.settings
        self.trouble.settings = replace(settings, seed=seed, faults={**settings.faults, operation: shares})

    def calm(self) -> None:
        """Stop injecting faults."""
        self.trouble.calm()
        self.trouble.settings = replace(self.trouble.settings, faults={})

    def assert_once(self, rows: Any, name: str = _TABLE) -> None:
        """Fail unless the table holds exactly these rows, each as often as given."""
        __tracebackhide__ = True
        wanted, found = _counted(arrow_of(rows).to_pylist()), _counted(self.rows(name))
        assert found == wanted, _difference(found, wanted) + _IDENTITY.format(identifier="<number of this run>")


class ContendedTable(TroubledTables):
    """A table on which another writer commits at critical moments: `times` times after the job has read the table and before
    it looks for the latest snapshot again to write, and `times` times between that look and the job's publish.

    Args:
        rows: the first rows of the table, which also define its columns.
        rival: the rows that the other writer appends each time.

    >>> import tempfile
    >>> table = ContendedTable(Path(tempfile.mkdtemp()), [{"flight": 1}], rival=[{"flight": 9}])
    >>> open_table(table.url()).append(pa.table({"flight": [2]})).retries
    2
    >>> table.assert_rivals_survive()
    """

    def __init__(
        self,
        folder: Path,
        rows: Any,
        rival: Any,
        *,
        times: int = 2,
        url: str | None = None,
        storage_options: Mapping[str, Any] | None = None,
        **arguments: Any,
    ) -> None:
        super().__init__(folder)
        if url is not None:
            self.on(url, storage_options)
        given = arrow_of(rows)
        self._rival = arrow_of(rival).select(given.column_names).cast(given.schema)
        self.create(given, **arguments)
        settings = self.trouble.settings
        open_table(f"{settings.url}/{_TABLE}", storage_options=settings.storage_options).append(given)
        pyarrow.feather.write_feather(self._rival, str(self.trouble.rival_rows), compression="uncompressed")
        self.trouble.plan(RIVAL_AFTER_READ, times)
        self.trouble.plan(RIVAL_BEFORE_COMMIT, times)

    @property
    def rivals(self) -> int:
        """The number of commits of the other writer so far."""
        return len(self.trouble.struck())

    def assert_rivals_survive(self, on: Sequence[str] | None = None) -> None:
        """Fail if a row that the other writer has committed is gone, or if the job never met the other writer.

        Args:
            on: the columns that identify a row, if the job may change the others; by default all columns.
        """
        __tracebackhide__ = True
        assert self.trouble.struck(RIVAL_BEFORE_COMMIT), (
            "the job met no other writer: it committed nothing to the contended table"
            f"\nnext: give the job the fixture's URL ({self.url()})"
        )
        names = list(on or self._rival.column_names)
        wanted = _counted(self._rival.select(names).to_pylist() * self.rivals)
        lost = wanted - _counted([{name: row[name] for name in names} for row in self.rows()])
        moments = ", ".join(line["strike"] for line in self.trouble.struck())
        assert not lost, (
            f"{lost.total()} of {wanted.total()} rows that another writer committed are gone: {_shown(lost)}"
            f"\nIt committed while the job ran ({moments}); the job then replaced rows that it had never read."
            "\nnext: tell the write which snapshot its rows were made from: lake.write(df, url, mode='overwrite',"
            " read_snapshot=<id>); rows that came later then stay, or are a CommitConflict with isolation='serializable'"
        )


class ReplayedBatch(TroubledTables):
    """Runs a `foreachBatch` function as Spark may run it: killed before its commit, killed after it, again, once more.

    >>> import tempfile
    >>> replayed = ReplayedBatch(Path(tempfile.mkdtemp()))
    >>> rows = pa.table({"month": [1, 2]})
    >>> url = replayed.create(rows)
    >>> def write_batch(batch, batch_id):
    ...     open_table(url).append(batch, commit_user="query-1", identifier=batch_id)
    >>> replayed(write_batch, rows)
    """

    def __call__(
        self,
        write_batch: Callable[[Any, int], Any],
        batch: Any,
        *,
        rows: int | None = None,
        batch_id: int = 0,
        name: str = _TABLE,
    ) -> None:
        """Run the function, and fail unless the batch's rows are in the table once.

        Args:
            write_batch: takes (batch, batch id), as for `foreachBatch`, and writes to `url()`.
            rows: how many rows it adds for the batch; by default as many as the batch has.
            name: the name of the table that it writes to.
        """
        __tracebackhide__ = True
        start = _counted(self.rows(name))
        added = len(arrow_of(batch)) if rows is None else rows
        self._die(KILL_BEFORE, write_batch, batch, batch_id)
        self._die(KILL_AFTER, write_batch, batch, batch_id)
        told = f"batch {batch_id} ran again after its process was killed just after the commit"
        for _ in range(2):
            write_batch(batch, batch_id)
            found = _counted(self.rows(name)) - start
            assert found.total() == added, (
                f"{told}: it added {found.total()} rows instead of {added} (rows=… sets the number)\n{_shown(found)}"
                + _IDENTITY.format(identifier="batch_id")
            )
            told = f"batch {batch_id} ran once more with the same id"
        before = self.snapshot_id(name)
        write_batch(batch, batch_id + 1)
        assert self.snapshot_id(name) > before, (
            f"batch {batch_id + 1} was taken for a replay of batch {batch_id}, so nothing was written"
            + _IDENTITY.format(identifier="batch_id")
        )

    def _die(self, strike: str, write_batch: Callable[[Any, int], Any], batch: Any, batch_id: int) -> None:
        __tracebackhide__ = True
        self.trouble.plan(strike)
        with suppress(Killed):
            try:
                write_batch(batch, batch_id)
            except Exception:
                # A commit that Spark runs in another process ends as an error of Spark here.
                if self.trouble.planned()[strike]:
                    raise
        self.assert_struck()


_IDENTITY = (
    "\nnext: give the write an identity that a rerun repeats and that no other write has:"
    " lake.write(df, url, commit_user='<name of the job>', identifier={identifier})"
)


def _counted(rows: list[dict[str, Any]]) -> Counter[str]:
    return Counter(repr(row) for row in rows)


def _shown(rows: Counter[str]) -> str:
    told = [f"{count} x {row}" if count > 1 else row for row, count in rows.most_common(_SHOWN)]
    return ", ".join(told) + (", …" if len(rows) > _SHOWN else "")


def _difference(found: Counter[str], wanted: Counter[str]) -> str:
    more, less = found - wanted, wanted - found
    parts = [f"{more.total()} rows too many: {_shown(more)}"] if more else []
    parts += [f"{less.total()} rows are missing: {_shown(less)}"] if less else []
    return "; ".join(parts)
