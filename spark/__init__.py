"""The pipeline: DataFrames to commits and tables to DataFrames, on PySpark, classic or Connect, without a JVM plug-in.

The names that people type, each imported when it is first used: `import lakelatch.spark` works without PySpark, using it
says what to install. Must not know: how a commit is made, how files are laid out (see `coordinator`, `table`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..core.errors import Unsupported

if TYPE_CHECKING:
    from .compaction import compact
    from .scan import read
    from .source import register
    from .write_job import write

__all__ = ["compact", "read", "register", "write"]

# No module bears the name of a function: importing it would put the module in the function's place.
_HOMES = {"compact": "compaction", "read": "scan", "write": "write_job", "register": "source"}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'lakelatch.spark' has no attribute {name!r}")
    from importlib import import_module

    try:
        import_module("pyspark.sql")
    except ModuleNotFoundError as error:
        raise Unsupported(
            f"lakelatch.spark.{name} needs PySpark, and module {error.name!r} is not installed",
            next_step="pip install 'lakelatch[spark]'",
        ) from error
    value = getattr(import_module(f".{home}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
