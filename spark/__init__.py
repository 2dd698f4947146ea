"""The PySpark pipeline: writes DataFrames as commits and reads tables as DataFrames, without a JVM plug-in.

It works with classic sessions and with Spark Connect. The public names are imported when they are first used, so
`import lakelatch.spark` works without PySpark; using a name then raises an error that says what to install.
Must not know: how a commit is made or how files are laid out (see `coordinator` and `table`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ..core.errors import Unsupported

if TYPE_CHECKING:
    from .cleaning import clean
    from .compaction import compact
    from .lake_table import LakeTable
    from .reading.change_scan import changes
    from .reading.scan import read
    from .statements.registering import register, sql, unregister
    from .statements.views import use
    from .streams.captured import apply_changes
    from .streams.sink import sink
    from .write_job import write

__all__ = [
    "LakeTable",
    "apply_changes",
    "changes",
    "clean",
    "compact",
    "read",
    "register",
    "sink",
    "sql",
    "unregister",
    "use",
    "write",
]

_OLDEST = (4, 1)
"""The oldest version of PySpark that has the types and the data source of Python that are used here."""
# No module may have the name of a function: importing the module would overwrite the function.
_HOMES = {
    "LakeTable": "lake_table",
    "apply_changes": "streams.captured",
    "changes": "reading.change_scan",
    "clean": "cleaning",
    "compact": "compaction",
    "read": "reading.scan",
    "register": "statements.registering",
    "sink": "streams.sink",
    "sql": "statements.registering",
    "unregister": "statements.registering",
    "use": "statements.views",
    "write": "write_job",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'lakelatch.spark' has no attribute {name!r}")
    from importlib import import_module

    install = "pip install 'lakelatch[spark]'"
    try:
        import_module("pyspark.sql")
    except ModuleNotFoundError as error:
        raise Unsupported(
            f"lakelatch.spark.{name} needs PySpark, and module {error.name!r} is not installed", next_step=install
        ) from error
    version = str(import_module("pyspark").__version__)
    if tuple(int(number) for number in re.findall(r"\d+", version)[:2]) < _OLDEST:
        oldest = ".".join(map(str, _OLDEST))
        raise Unsupported(
            f"lakelatch.spark.{name} needs PySpark {oldest} or newer, and {version} is installed", next_step=install
        )
    value = getattr(import_module(f".{home}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
