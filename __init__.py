"""lakelatch: safe multi-writer commits for tables in the Apache Paimon format, on plain object stores.

The public names, nothing else; each is imported when it is first used, so that `import lakelatch` costs nothing.

>>> import lakelatch as ll
>>> ll.col("month").is_in([1, 2]).column
'month'
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .core.version import __version__ as __version__

if TYPE_CHECKING:
    from .backends.trust import allow
    from .coordinator.commit.receipt import Receipt
    from .coordinator.recovery.recover import RecoveredCommit, Recovery, recover
    from .core.errors import (
        CommitConflict,
        Fenced,
        InvalidArgument,
        LakelatchError,
        OutcomeUnknown,
        ProtocolViolation,
        RetriesExhausted,
        StoreUnavailable,
        TableCorrupt,
        TableExists,
        TableNotFound,
        UnsafeBackend,
        Unsupported,
    )
    from .core.expressions.columns import col
    from .core.expressions.tree import lit
    from .core.expressions.zones import in_zone
    from .core.metadata.schemas.changes import (
        add_column,
        drop_column,
        move_column,
        remove_option,
        rename_column,
        set_comment,
        set_option,
        update_comment,
        update_default,
        update_nullability,
        update_type,
    )
    from .table.catalog.catalog import Catalog, open_catalog
    from .table.create import Schema, create_table, drop_table, is_table, open_table, rename_table
    from .table.migration.migrate import migrate
    from .table.table import Table

_HOMES = {
    "backends.trust": "allow",
    "core.errors": (
        "CommitConflict Fenced InvalidArgument LakelatchError OutcomeUnknown ProtocolViolation RetriesExhausted"
        " StoreUnavailable TableCorrupt TableExists TableNotFound UnsafeBackend Unsupported"
    ),
    "core.expressions.tree": "lit",
    "core.expressions.columns": "col",
    "core.expressions.zones": "in_zone",
    "core.metadata.schemas.changes": (
        "add_column drop_column move_column remove_option rename_column set_comment set_option update_comment"
        " update_default update_nullability update_type"
    ),
    "coordinator.commit.receipt": "Receipt",
    "coordinator.recovery.recover": "RecoveredCommit Recovery recover",
    "table.catalog.catalog": "Catalog open_catalog",
    "table.migration.migrate": "migrate",
    "table.create": "Schema create_table drop_table is_table open_table rename_table",
    "table.table": "Table",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = [
    "Catalog",
    "CommitConflict",
    "Fenced",
    "InvalidArgument",
    "LakelatchError",
    "OutcomeUnknown",
    "ProtocolViolation",
    "Receipt",
    "RecoveredCommit",
    "Recovery",
    "RetriesExhausted",
    "Schema",
    "StoreUnavailable",
    "Table",
    "TableCorrupt",
    "TableExists",
    "TableNotFound",
    "UnsafeBackend",
    "Unsupported",
    "add_column",
    "allow",
    "col",
    "create_table",
    "drop_column",
    "drop_table",
    "in_zone",
    "is_table",
    "lit",
    "migrate",
    "move_column",
    "open_catalog",
    "open_table",
    "recover",
    "remove_option",
    "rename_column",
    "rename_table",
    "set_comment",
    "set_option",
    "update_comment",
    "update_default",
    "update_nullability",
    "update_type",
]


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        from .core.other_names import PACKAGE, advice

        raise AttributeError(f"module 'lakelatch' has no attribute {name!r}{advice(name, PACKAGE)}")
    from importlib import import_module

    value = getattr(import_module(f".{home}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
