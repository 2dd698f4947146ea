"""A state of a table as a `StaticTable` of PyIceberg, whose metadata lies in a temporary folder of this machine.

Owns: that folder's life. Must not know: what is in it (`iceberg`). Invariant: the process that made the folder deletes it, and no
other: neither a copy of the process, nor before the last reader of the table is gone.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import warnings
import weakref
from collections.abc import Mapping
from typing import Any

from ...backends.local import LocalStore
from ...coordinator.history.timeline import Timeline
from ...core.errors import Unsupported
from ...core.metadata.schema import TableSchema
from ...core.rows.types import ArrayType, DataType, MapType, RowType, walk_types
from ..scan.plan import ScanPlan
from .iceberg import publish


def static_table(
    timeline: Timeline, plan: ScanPlan, schema: TableSchema, uuid: str, properties: Mapping[str, str]
) -> Any:
    """A table of PyIceberg; `uuid` names the table, `properties` are those of PyIceberg's `FileIO`. Raises as `publish`."""
    try:
        from pyiceberg.table import StaticTable
    except ImportError as error:
        raise Unsupported("PyIceberg is not installed", next_step="pip install 'lakelatch[iceberg]'") from error
    for field in schema.fields:
        if any(map(_loses_nulls, walk_types(field.type))):
            warnings.warn(
                f"PyIceberg shows a null list or map of ROWs as an empty one, in column '{field.name}'; other readers do not",
                stacklevel=3,
            )
    folder = tempfile.mkdtemp(prefix="lakelatch-iceberg-")
    try:
        store = LocalStore(folder, {"fsync": False})
        found = StaticTable.from_metadata(publish(timeline, plan, schema, uuid, store).document, dict(properties))
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    weakref.finalize(found.io, _delete, folder, os.getpid())  # scans of the table hold its `io`, and not the table
    return found


def _loses_nulls(part: DataType) -> bool:
    """Does PyIceberg (0.12) build the lists or maps anew, and forget which of them were null?"""
    return (isinstance(part, ArrayType) and isinstance(part.element, RowType)) or (
        isinstance(part, MapType) and isinstance(part.value, RowType)
    )


def _delete(folder: str, maker: int) -> None:
    if os.getpid() == maker:
        shutil.rmtree(folder, ignore_errors=True)
