"""Sends tasks and the data source to Spark's Python workers, and checks first that the workers have the same packages.

Owns: `shipped`, `Carried`, `carried`, and `check_workers`. Must not know: what the tasks do. Source: format/spark §7.

Objects of lakelatch are pickled by reference, so a worker that cannot import lakelatch fails before any of its code runs, with
a bare `ModuleNotFoundError`, and fails again in every attempt of the task. So what is sent is a small function that is pickled
by value. It needs only the standard library: it compares the packages, and only then unpickles the object.

Invariants: The function refers to nothing in this module. Every problem is one sentence that says what to do. A session with
a cluster is asked once, before its first job that could be expensive, and each worker is checked again by its own task.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql.datasource import DataSource

from ...backends.trust import Allowed, allowed_now, learn
from ...core.errors import Unsupported
from ...core.version import __version__
from .session import parallelism, setting
from .worker_errors import one_sentence

_MOST_ASKED = 16
_DAEMON = "lakelatch.spark.daemon"
_HOST = re.compile(r"\(TID \d+\) \((\S+) executor")


def opener(lakelatch: str = __version__, pyarrow: str = pa.__version__) -> Callable[[bytes], Any]:
    """A function that unpickles an object in a worker if the packages there fit; the function itself is pickled by value.

    The worker must have the sender's version of lakelatch, because pickled objects are those of one version, and the same major
    version of pyarrow, because one may know types, and write files, that another does not. Else the function raises an error that
    arrives as one line, with the name of `Unsupported`.
    """

    def opened(payload: bytes) -> Any:
        import os
        import pickle
        import platform
        import sys
        from importlib import import_module

        def stop(problem: str, next_step: str) -> RuntimeError:
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"  # as `worker_errors` does, which may be missing here
            kind = type("Unsupported", (RuntimeError,), {"__module__": "lakelatch.core.errors"})
            where = f"host {platform.node()}, {sys.executable}"
            error: RuntimeError = kind(f"Spark's Python workers {problem}: {where} ({next_step}; see docs/clusters.md)")
            return error

        def version(package: str, module: str, wanted: str) -> str:
            try:
                return str(import_module(module).__version__)
            except ImportError as error:
                missing = (error.name or package).partition(".")[0]
                if missing == package:
                    told = stop(
                        f"cannot import {package}", f"install {package} {wanted} there, or send it with the job"
                    )
                else:
                    told = stop(f"cannot import {package}, which needs {missing}", f"install {missing} there")
                raise told from None

        ours = version("lakelatch", "lakelatch.core.version", lakelatch)
        if ours != lakelatch:
            raise stop(f"have lakelatch {ours}, and the driver has {lakelatch}", "install the same version on both")
        arrow = version("pyarrow", "pyarrow", pyarrow)
        if arrow.partition(".")[0] != pyarrow.partition(".")[0]:
            raise stop(f"have pyarrow {arrow}, and the driver has {pyarrow}", "install the same major version on both")
        from lakelatch.spark.sessions.worker_errors import one_sentence

        try:
            with one_sentence():
                return pickle.loads(payload)
        except ModuleNotFoundError as error:
            raise stop(f"cannot import {error.name}, which the job needs", "install it there") from None

    return opened


class _Call:
    """Is unpickled as the result of a call."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self._call = (function, arguments)

    def __reduce__(self) -> tuple[Any, ...]:
        return self._call


def _sealed(function: Callable[..., Any], *arguments: Any) -> bytes:
    """Bytes that `opener` turns into the result of the call; what the caller allowed tables to use elsewhere travels along."""
    call = _Call(_called, allowed_now(), function, arguments)
    return bytes(cloudpickle.dumps(call))  # type: ignore[no-untyped-call]


def _called(allowed: Allowed, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    learn(allowed)
    return function(*arguments)


# ------------------------------------------------------------------------------------------------------------- tasks


class _Parcel:
    def __init__(self, task: Callable[[Any], Any]) -> None:
        self.task = task

    def __call__(self, argument: Any) -> Any:
        return self.task(argument)

    def __reduce__(self) -> tuple[Any, ...]:
        return opener(), (_sealed(_guarded, self.task),)


def shipped(task: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A task for `mapInArrow`, whose workers are checked before it is unpickled."""
    parcel = _Parcel(task)

    def lakelatch(batches: Any) -> Any:
        return parcel(batches)

    return lakelatch


def shipped_function(task: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The same for `arrow_udf`, which looks at the types of the arguments."""
    parcel = _Parcel(task)

    def lakelatch(array: pa.Array) -> pa.Array:
        return parcel(array)

    return lakelatch


def _guarded(task: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The task, with errors that arrive as one sentence."""

    def run(argument: Any) -> Any:
        with one_sentence():
            result = task(argument)
        return _each(result) if isinstance(result, Iterator) else result

    return run


def _each(results: Iterator[Any]) -> Iterator[Any]:
    with one_sentence():
        yield from results


# ---------------------------------------------------------------------------------------------------- the data source


class Carried:
    """A base of readers and writers, which Spark pickles and sends to executors: they are checked as tasks are."""

    def __reduce__(self) -> tuple[Any, ...]:
        return opener(), (_sealed(_restored, type(self), self.__dict__),)


def _restored(kind: Any, state: dict[str, Any]) -> Any:
    made = kind.__new__(kind)
    made.__dict__.update(state)
    return made


def carried(source: type[DataSource], **attributes: Any) -> type[DataSource]:
    """A class for `dataSource.register` that opens the source, with these attributes, where Spark plans.

    That is a worker on the driver's host, which under Spark Connect is the server. The class is pickled by value, so a host
    without lakelatch answers with one sentence, too.
    """
    name, opened, payload = source.name(), opener(), _sealed(_asking, source, attributes)

    class LakelatchSource(DataSource):
        @classmethod
        def name(cls) -> str:
            return name

        def schema(self) -> Any:
            return opened(payload)(self.options, "schema")

        def reader(self, schema: Any) -> Any:
            return opened(payload)(self.options, "reader", schema)

        def writer(self, schema: Any, overwrite: bool) -> Any:
            return opened(payload)(self.options, "writer", schema, overwrite)

        def streamReader(self, schema: Any) -> Any:  # noqa: N802 - Spark's name
            return opened(payload)(self.options, "streamReader", schema)

        def streamWriter(self, schema: Any, overwrite: bool) -> Any:  # noqa: N802 - Spark's name
            return opened(payload)(self.options, "streamWriter", schema, overwrite)

    return LakelatchSource


def _asking(source: type[DataSource], attributes: dict[str, Any]) -> Callable[..., Any]:
    def ask(options: dict[str, str], method: str, *arguments: Any) -> Any:
        with one_sentence():
            made = source(options)
            vars(made).update(attributes)
            return getattr(made, method)(*arguments)

    return ask


# -------------------------------------------------------------------------------------------------------- the cluster


class _Asked:
    def __init__(self) -> None:
        self.sessions: set[str] = set()


_ASKED = _Asked()


def worker_problem(text: str) -> Unsupported | None:
    """The sentence for an error of Spark whose text says that no worker could start there; None for any other text."""
    found = _HOST.search(text)
    where = f": host {found[1]}" if found else ""
    if _DAEMON in text and "No module named" in text:
        return Unsupported(
            f"Spark's Python workers cannot start {_DAEMON}{where}",
            next_step="install lakelatch there, or remove the setting spark.python.daemon.module; see docs/clusters.md",
        )
    if "No module named 'pyarrow'" in text or ("PyArrow" in text and "must be installed" in text):
        return Unsupported(
            f"Spark's Python workers cannot import pyarrow{where}",
            next_step=f"install pyarrow {pa.__version__} there, or send it with the job; see docs/clusters.md",
        )
    return None


def check_workers(session: Any) -> None:
    """Ask the workers of a cluster for their packages with one small job, once for each session.

    Those of a local session are on this machine, and their first task checks them. `Unsupported` names a host and what to do.
    """
    master = setting(session, "spark.master", "local")
    key = str(getattr(session, "session_id", None) or id(session))
    if master == "local" or master.startswith("local[") or key in _ASKED.sessions:
        return
    opened, payload = opener(), _sealed(str)

    def lakelatch_packages(batches: Any) -> Any:
        import os

        import pyarrow as pa

        for _ in batches:
            pass
        before = os.environ.get("SPARK_HIDE_TRACEBACK")
        try:
            said = opened(payload)
        except RuntimeError as error:
            said = str(error)
            if before is None:  # this worker goes on, so later tasks need their tracebacks
                os.environ.pop("SPARK_HIDE_TRACEBACK", None)
        yield pa.record_batch({"said": pa.array([said], pa.string())})

    tasks = min(parallelism(session), _MOST_ASKED)
    try:
        answers = session.range(0, tasks, 1, tasks).mapInArrow(lakelatch_packages, "said string").collect()
    except Exception as error:
        told = worker_problem(str(error))
        if told is not None:
            raise told from error
        raise
    problems = sorted({str(row[0]) for row in answers} - {""})
    if problems:
        raise Unsupported(problems[0], next_step="")
    _ASKED.sessions.add(key)
