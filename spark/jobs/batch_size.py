"""Lifts Spark's byte limit on Arrow batches while a job runs, because checking it after every row is slow.

Owns: two session settings while a job runs, and restoring them afterwards. Must not know: what the job does.

Spark 4.1 computes the size of a batch after each row (`spark.sql.execution.arrow.maxBytesPerBatch`, 64 MB). This costs more than
filling the batch: 4 of 8 CPU seconds for 5 million rows of six small columns (measured). Frames with texts or nested columns also
get fewer rows per batch, so that long values still fit.

Invariants: A limit that the user has set is kept, and so is that for columns of bytes (BINARY, VARIANT), whose values may be
large. The settings are restored when the last job of the session that lifted them ends, even if it fails.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

from pyspark.sql import types as spark

_LOG = logging.getLogger("lakelatch.spark")
BYTES, RECORDS = "spark.sql.execution.arrow.maxBytesPerBatch", "spark.sql.execution.arrow.maxRecordsPerBatch"
_DEFAULT_BYTES = ("67108864", "67108864b", "64MB", "64m")
_NO_LIMIT = "2147483647"
_GROWING_RECORDS = 4096
_BYTES_INSIDE = (spark.BinaryType, spark.VariantType, spark.UserDefinedType)
_GROWING = (spark.StringType, spark.ArrayType, spark.MapType, spark.StructType)


class _Lifted:
    """Sessions whose limit is lifted, each with its number of running jobs and the settings to restore."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._jobs: dict[Any, tuple[int, dict[str, str]]] = {}

    def begin(self, session: Any, wanted: dict[str, str]) -> None:
        with self._lock:
            count, before = self._jobs.get(id(session), (0, {}))
            self._jobs[id(session)] = (count + 1, before)
            for key, value in wanted.items():
                if key not in before:
                    before[key] = session.conf.get(key)
                    session.conf.set(key, value)

    def end(self, session: Any) -> None:
        with self._lock:
            count, before = self._jobs.pop(id(session))
            if count > 1:
                self._jobs[id(session)] = (count - 1, before)
                return
            try:
                for key, value in before.items():
                    session.conf.set(key, value)
            except Exception as error:  # the session is gone; the job's own error matters more
                _LOG.warning("%s could not be restored: %s", ", ".join(before), error)


_LIFTED = _Lifted()


@contextmanager
def large_batches(session: Any, schema: spark.StructType) -> Iterator[None]:
    """Lift the byte limit for the jobs of the session in this context, if that is safe for columns of this schema."""
    wanted = _wanted(session, schema)
    if not wanted:
        yield
        return
    try:
        _LIFTED.begin(session, wanted)
        yield
    finally:
        _LIFTED.end(session)


def _wanted(session: Any, schema: spark.StructType) -> dict[str, str]:
    types = [f.dataType for f in schema.fields]
    if any(_holds_bytes(t) for t in types) or _current(session, BYTES) not in (*_DEFAULT_BYTES, _NO_LIMIT):
        return {}
    wanted = {BYTES: _NO_LIMIT}
    records = _current(session, RECORDS)
    if any(isinstance(t, _GROWING) for t in types) and not (records.isdigit() and 0 < int(records) <= _GROWING_RECORDS):
        wanted[RECORDS] = str(_GROWING_RECORDS)
    return wanted


def _current(session: Any, key: str) -> str:
    """The setting or its default in Spark; empty if this version of Spark does not have it."""
    try:
        return str(session.conf.get(key))
    except Exception:
        return ""


def _holds_bytes(data_type: spark.DataType) -> bool:
    match data_type:
        case spark.ArrayType(elementType=element):
            return _holds_bytes(element)
        case spark.MapType(keyType=key, valueType=value):
            return _holds_bytes(key) or _holds_bytes(value)
        case spark.StructType(fields=fields):
            return any(_holds_bytes(f.dataType) for f in fields)
        case _:
            return isinstance(data_type, _BYTES_INSIDE)
