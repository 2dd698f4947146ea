"""Makes an error that is raised in one of Spark's Python workers arrive as one sentence, without a traceback.

Owns: which errors lose their traceback. Must not know: what failed.

Spark brings an error out of a worker as text. By default this is the whole traceback, so that the sentence that says what is
wrong stands below twenty lines about lakelatch's own modules. Spark leaves the traceback out if the worker's environment says
so at the moment at which the worker ends. The traceback is then only in the worker's log, at level DEBUG.

Invariants: Only errors that lakelatch raises on purpose lose their traceback; a bug keeps it. Nothing is set outside of a
worker. A worker that has raised ends, so no later task is affected.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pickle import PickleError

from ...core.errors import LakelatchError
from ..daemon import OF_WORKERS

HIDE_TRACEBACK = "SPARK_HIDE_TRACEBACK"
"""Spark's variable for the setting `spark.sql.execution.pyspark.udf.hideTraceback.enabled`."""
_LOG = logging.getLogger("lakelatch.spark")


@contextmanager
def one_sentence() -> Iterator[None]:
    """Let a `LakelatchError` that leaves this context and ends the worker arrive as one sentence; it is raised as it is."""
    try:
        yield
    except LakelatchError:
        if any(name.startswith(OF_WORKERS) for name in os.environ):
            _LOG.debug("a task of lakelatch failed", exc_info=True)
            os.environ[HIDE_TRACEBACK] = "1"
        raise


@contextmanager
def let_through_by_pickle() -> Iterator[None]:
    """Let a `LakelatchError` that is raised while Spark pickles something arrive under its own name.

    Spark's pickler replaces every error but those of pickle by a `PicklingError`. So it becomes one of them, too.
    """
    try:
        yield
    except LakelatchError as error:
        kind = type(error)
        named = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
        error.__class__ = type(kind.__name__, (kind, PickleError), named)
        raise
