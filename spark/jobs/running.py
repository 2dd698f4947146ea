"""The one action of a job that writes, and the clean-up after it has failed.

Owns: `run_job`, and the errors of jobs. Must not know: frames' rows, commits. Source: format/spark §5.
Invariant: a job that failed leaves no file behind, or the error names those that are left (H5).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator
from typing import Any

from ...backends.elsewhere import store_elsewhere
from ...backends.store import ObjectInfo, Store
from ...core import options as opt
from ...core.errors import ERRORS, LakelatchError, OutcomeUnknown
from ...core.external_paths import ExternalPaths
from ...core.metadata.schema import TableSchema
from ...core.paths import TablePaths
from ...table.writing.buckets.placement import UNAWARE_BUCKET
from ...table.writing.unfinished import discard
from ..sessions.shipping import check_workers, shipped
from .batch_size import large_batches
from .tasks import MESSAGE_SCHEMA, ChangeTask, RewriteTask, WriteTask, messages_of

_LOG = logging.getLogger("lakelatch.spark")
_OURS = re.compile(r"lakelatch\.core\.errors\.(\w+): ([^\n]+)")
"""An error of ours in the text of a traceback, which is all that Spark brings from an executor."""
_RAISED_AGAIN = {kind.__name__: kind for kind in ERRORS.values() if kind is not OutcomeUnknown}


def run_job(frame: Any, task: WriteTask | RewriteTask | ChangeTask) -> list[Any]:
    """Run the one action and return its messages; after a failure, delete the job's files or name them in the error."""
    check_workers(frame.sparkSession)
    try:
        # One row per task that wrote rows; if a task ran twice, Spark returns the row of one attempt.
        with large_batches(frame.sparkSession, frame.schema):
            return messages_of(frame.mapInArrow(shipped(task), MESSAGE_SCHEMA).collect())
    except BaseException as error:
        left = _remove_job(task.store, task.schema, task.job)
        raise _job_error(error, left, task.job) from error


def _remove_job(store: Store, schema: TableSchema, job: str) -> list[str]:
    """Delete the job's data files, which no commit names yet. Returns those that cannot be deleted."""
    found: list[str] = []
    try:
        for folder, place in _places(store, schema):
            found += [f"{folder}{info.key}" for info in place if f"{job}-" in info.key.rpartition("/")[2]]
    except LakelatchError as error:
        _LOG.warning("files of job %s could not be listed: %s", job, error)
        return [*discard(store, found), f"{_data_folder(schema)}**/*{job}-*"]
    left = discard(store, found)
    if left:
        _LOG.warning("files of job %s could not be deleted: %s", job, ", ".join(left))
    return left


def _places(store: Store, schema: TableSchema) -> Iterator[tuple[str, Iterable[ObjectInfo]]]:
    """Where data files of the table may be: what comes before each key, and a listing."""
    yield "", store.list(_data_folder(schema))
    outside = ExternalPaths.of(schema.options)
    for root in outside.roots if outside is not None else ():
        yield f"{root}/", store_elsewhere(store, root).list("")


def _data_folder(schema: TableSchema) -> str:
    """The innermost folder that is known to contain all data files."""
    directory = schema.options.get(opt.DATA_FILE_DIRECTORY)
    if not schema.partition_keys and schema.bucket < 1 and not schema.primary_keys:
        return TablePaths(data_directory=directory).bucket_dir("", UNAWARE_BUCKET)
    return f"{directory.strip('/')}/" if directory else ""


def raised_again(error: BaseException, told: str) -> BaseException:
    """lakelatch's error from an executor, with something more to tell, if Spark's error holds one; else Spark's."""
    found = _OURS.findall(str(error))
    kind = _RAISED_AGAIN.get(found[-1][0]) if found else None
    return error if kind is None else kind(f"{found[-1][1]}; {told}", next_step="")


def _job_error(error: BaseException, left: list[str], job: str) -> BaseException:
    """The error to raise for a failed job: lakelatch's error from an executor, else Spark's; with `left_files`."""
    told = (
        f"nothing was committed; files that could not be deleted: {', '.join(left)}"
        if left
        else "nothing was committed"
    )
    raised = raised_again(error, told)
    if raised is error and hasattr(error, "add_note"):
        error.add_note(f"lakelatch: {told}; the names of all data files of this job contain {job}")
    try:
        raised.left_files = left  # type: ignore[attr-defined]
    except AttributeError:
        _LOG.warning("%s", told)
    return raised
