"""The sink for `foreachBatch`: each batch of a stream is one commit, which a batch that is repeated does not make again.

Owns: `sink`, `Sink`. Must not know: how rows become files, how a commit is made. Source: format/spark §8; H8.

Invariants: The commit user is the id of the query, which its checkpoint keeps, and the identifier is the number of the batch. One
batch is written once under one name (decision 90). A compaction between two batches that fails does not fail the stream.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Mapping
from typing import Any

from ...coordinator.commit.receipt import Receipt
from ...coordinator.journal.lines import address_of
from ...coordinator.watching.batches import report_batch
from ...core.errors import InvalidArgument, LakelatchError
from ..compaction import compact
from ..options.asked import Asked, check_arguments
from ..write_job import carry_out
from .captured import applied
from .writer import QUERY_ID, query_of_checkpoint, written

_LOG = logging.getLogger("lakelatch.spark")
_RUN_ID = "spark.jobGroup.id"
_CONNECT_WORKER = "pyspark.sql.connect.streaming.worker.foreach_batch_worker"
_CLAIM = threading.Lock()
_WRITTEN: dict[tuple[str, str, str, str], int | None] = {}
"""The last batch that a sink of this process has begun to write, by table, branch, commit user and run of the query."""


def sink(
    url: str,
    *,
    checkpoint: str | None = None,
    query: str | None = None,
    compact_every: int | None = None,
    changes: Mapping[str, Any] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    **how: Any,
) -> Sink:
    """A function for `foreachBatch` that writes each batch into a table in one commit, exactly once.

    The rows are written as by `lakelatch.spark.write`: brought together by partition or bucket, and into few files.

    Args:
        url: the URL of the table, which must mean the same on the driver and on the executors.
        checkpoint: the `checkpointLocation` of the query. It holds the query's id, which is the commit user of the batches. It
            may be moved or copied to another machine; a new checkpoint is another query, whose batches land anew.
        query: a name to use instead of that id. It belongs to this checkpoint for ever: with a new checkpoint, batches are
            numbered from 0 again, and another query under this name is refused. A function that writes parts of its batch
            needs a sink with a name of its own for each part.
        compact_every: after so many batches, compact the table's small files by another job and in a commit of its own. Tables
            with a primary key compact what was written by themselves.
        changes: the batches hold changes that were captured from a database; these are the arguments `keys`, `sequence`, `kind`
            and `shape` of `lakelatch.spark.apply_changes`, of which none is required.
        storage_options: as for `lakelatch.spark.write`; also for the checkpoint, if its URL has the same scheme.
        how: any other arguments of `lakelatch.spark.write`, such as ``mode="overwrite"`` for output mode `complete`, or
            ``row_kind="op"``, but for `commit_user` and `identifier`.

    Returns:
        A function of a batch and its number, which returns the receipt.

    Raises:
        InvalidArgument: Neither `checkpoint` nor `query` was given, or an argument has no meaning here.

    Example:
        ``rows.writeStream.foreachBatch(lakelatch.spark.sink(url, checkpoint=c)).option("checkpointLocation", c).start()``
    """
    if (checkpoint is None) == (query is None):
        raise InvalidArgument(
            "sink needs the checkpoint of the query, or a name for it, but not both",
            next_step="pass the same location as option 'checkpointLocation', as checkpoint=",
        )
    check_arguments(how, "sink", ("commit_user", "identifier"))
    if compact_every is not None and compact_every < 1:
        raise InvalidArgument(f"compact_every={compact_every}", next_step="give 1 or more batches, or leave it out")
    return Sink(url, checkpoint, query, compact_every, changes, dict(storage_options or {}), how)


def run_of(frame: Any) -> tuple[str, str]:
    """The id of the query whose batch a frame is, and something that differs for each run of it; empty where nothing tells.

    Spark hands both to the thread that calls the function. Under Spark Connect that is a process of its own for each run.
    """
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    if spec is not None and spec.name == _CONNECT_WORKER:
        return "", f"process {os.getpid()}"
    try:
        context = frame.sparkSession.sparkContext
        query = context.getLocalProperty(QUERY_ID) or ""
        return query, (context.getLocalProperty(_RUN_ID) or "") if query else _session_of_its_own(frame.sparkSession)
    except Exception:  # a frame of Spark Connect has no context
        return "", ""


def _session_of_its_own(session: Any) -> str:
    """In other threads that the function starts, only the frame's session differs for each run: Spark clones one for it."""
    own, usual = session._jsparkSession, session._jvm.org.apache.spark.sql.classic.SparkSession.getDefaultSession()
    return f"session {own.hashCode()}" if usual.isDefined() and not own.equals(usual.get()) else ""


class Sink:
    """What `sink` returns. It can be pickled, as Spark Connect does."""

    def __init__(
        self,
        url: str,
        checkpoint: str | None,
        query: str | None,
        compact_every: int | None,
        changes: Mapping[str, Any] | None,
        storage_options: dict[str, Any],
        how: dict[str, Any],
    ) -> None:
        self._url, self._checkpoint, self._query, self._every = url, checkpoint, query, compact_every
        self._changes = None if changes is None else dict(changes)
        self._storage_options, self._how = storage_options, how

    def __repr__(self) -> str:
        return f"sink({self._url!r})"

    def __call__(self, frame: Any, batch_id: int) -> Receipt:
        """Write a batch; called by Spark."""
        query, run = run_of(frame)
        if self._query is None:
            assert self._checkpoint is not None
            self._query = query_of_checkpoint(self._checkpoint)
        asked = Asked(
            self._url,
            commit_user=self._query,
            identifier=batch_id,
            storage_options=self._storage_options,
            in_order=True,
            query=query,
            **self._how,
        )
        batch = (address_of(self._url), asked.branch, self._query, run)
        with _CLAIM:
            before = _WRITTEN.get(batch)
            if run and before == batch_id:
                raise InvalidArgument(
                    f"batch {batch_id} of '{self._query}' was written into {self._url} by a sink already: a second part of it"
                    " would count as a repetition, and be left out",
                    next_step="write the batch in one call; or give each part a sink of its own, with query= as its name",
                )
            _WRITTEN[batch] = batch_id
        try:
            receipt = carry_out(frame, asked) if self._changes is None else applied(frame, asked, **self._changes)
        except BaseException:
            _WRITTEN[batch] = before
            raise
        _LOG.info("batch %s: %s", batch_id, receipt)
        report_batch(written(self._url, batch_id, receipt))
        if self._every is not None and not receipt.replayed and (batch_id + 1) % self._every == 0:
            self._compact(frame.sparkSession, asked.branch)
        return receipt

    def _compact(self, session: Any, branch: str) -> None:
        try:
            _LOG.info("%s", compact(session, self._url, storage_options=self._storage_options, branch=branch))
        except LakelatchError as error:
            _LOG.warning("%s was not compacted after a batch: %s", self._url, error)
