"""Batches of streams as log records and metrics: what a stream has read or written, and how far it is behind.

Owns: `StreamBatch`, `report_batch`. Must not know: how changes are found, Spark.
Invariants: a report never changes what a stream does (H17): an error in a filter, a handler or an exporter ends there. Records
hold numbers and the table's URL, no rows and no options (H19).
"""

from __future__ import annotations

import logging
import os
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass

STREAM_LOG = logging.getLogger("lakelatch.stream")
STREAM_LOG.addHandler(logging.NullHandler())
LOG_VARIABLE = "LAKELATCH_STREAM_LOG"
"""Names a file to which the records are appended as lines of JSON too. Spark plans and commits batches of a data source in Python
processes of its own, which no application can configure, but which have its environment."""


@dataclass(frozen=True, slots=True)
class StreamBatch:
    """One batch of a stream.

    Attributes:
        doing: `follow` for `Table.follow`, `read` for `readStream`, `write` for `writeStream` and the sink of `foreachBatch`.
        table: URL of the table, without credentials.
        outcome: `planned` for changes that are about to be read; `committed` or `replayed` for a batch that is written.
        snapshot_id: the last snapshot of the batch, or the one in which it landed.
        batch: the number of the batch, if it has one.
        query: the id of the stream that writes: its commit user.
        snapshots: how many snapshots the batch reads.
        behind: how many newer snapshots there are, of those that were seen.
        rows, size: rows and bytes of the files that are read or written; None if that is not known.
    """

    doing: str
    table: str
    outcome: str
    snapshot_id: int | None
    batch: int | None = None
    query: str | None = None
    snapshots: int = 0
    behind: int | None = None
    rows: int | None = None
    size: int | None = None

    def __str__(self) -> str:
        """The batch as one line.

        >>> print(StreamBatch("read", "lake/t", "planned", 7, snapshots=2, behind=1, rows=10, size=99))
        read of lake/t: planned up to snapshot 7, 2 snapshots, 10 rows, 99 bytes, 1 behind
        """
        number = "" if self.batch is None else f"batch {self.batch} "
        at = (
            ""
            if self.snapshot_id is None
            else f" {'up to ' if self.doing != 'write' else ''}snapshot {self.snapshot_id}"
        )
        sums = (
            (self.snapshots or None, "snapshots"),
            (self.rows, "rows"),
            (self.size, "bytes"),
            (self.behind, "behind"),
        )
        told = "".join(f", {count} {what}" for count, what in sums if count is not None)
        return f"{self.doing} of {self.table}: {number}{self.outcome}{at}{told}"


def report_batch(batch: StreamBatch) -> None:
    """Report a batch to loggers, to the file of `LAKELATCH_STREAM_LOG`, and to OpenTelemetry if the process uses it."""
    with suppress(Exception):  # from a filter, a handler or an exporter of the application (H17)
        if STREAM_LOG.isEnabledFor(logging.INFO):
            STREAM_LOG.info("%s", batch, extra={"lakelatch": asdict(batch)})
    path = os.environ.get(LOG_VARIABLE)
    if path:
        _append(path, batch)
    if "opentelemetry.metrics" in sys.modules:
        with suppress(Exception):
            from .telemetry import count_batch

            count_batch(batch)


def _append(path: str, batch: StreamBatch) -> None:
    import json

    line = json.dumps(asdict(batch)) + "\n"
    with suppress(OSError), open(path, "ab", 0) as file:  # one write per line: several processes append to it
        file.write(line.encode())
