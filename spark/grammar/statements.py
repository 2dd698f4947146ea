"""Statements, as values: what a text of SQL asks for, and where its names stand.

Owns: the list of all statements. Must not know: how statements are read, sessions, tables.
Source: decision 123.
"""

from __future__ import annotations

from typing import TypeAlias

from .other_statements import (
    Call,
    CreateDatabase,
    Describe,
    DescribeDatabase,
    DescribeDetail,
    DescribeHistory,
    DropDatabase,
    Optimize,
    Refused,
    Restore,
    ShowCatalogs,
    ShowColumns,
    ShowCreateTable,
    ShowDatabases,
    ShowPartitions,
    ShowTables,
    ShowTblProperties,
    Use,
    Vacuum,
)
from .pieces import (
    Query,
)
from .row_statements import (
    Delete,
    Insert,
    MergeInto,
    Truncate,
    Update,
)
from .table_statements import (
    AlterTable,
    CreateTable,
    CreateTableLike,
    CreateTemporaryView,
    DropTable,
    RenameTable,
)

Statement: TypeAlias = (
    Query
    | Insert
    | MergeInto
    | Update
    | Delete
    | Truncate
    | CreateTable
    | CreateTableLike
    | CreateTemporaryView
    | DropTable
    | RenameTable
    | AlterTable
    | CreateDatabase
    | DropDatabase
    | Use
    | ShowCatalogs
    | ShowDatabases
    | ShowTables
    | ShowPartitions
    | ShowTblProperties
    | ShowCreateTable
    | ShowColumns
    | Describe
    | DescribeHistory
    | DescribeDetail
    | DescribeDatabase
    | Call
    | Optimize
    | Vacuum
    | Restore
    | Refused
)
