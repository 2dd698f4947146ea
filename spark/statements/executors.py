"""Who carries out which statement.

Owns: the table. Must not know: statements' texts. Source: decision 123.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..catalogs.run import Executor
from ..ddl import altering, caring, creating, databases, describing, spark_names
from ..grammar import other_statements as other
from ..grammar import row_statements as rows
from ..grammar import table_statements as tables
from ..procedures.calling import carry_out_call
from . import inserts, row_changes, temporary_views

EXECUTORS: Mapping[type, Executor] = {
    rows.Insert: inserts.insert,
    rows.MergeInto: row_changes.merge,
    rows.Update: row_changes.update,
    rows.Delete: row_changes.delete,
    rows.Truncate: row_changes.truncate,
    other.Call: carry_out_call,
    other.Use: databases.carry_out_use,
    other.ShowCatalogs: databases.carry_out_show_catalogs,
    other.ShowDatabases: databases.carry_out_show_databases,
    other.CreateDatabase: databases.carry_out_create_database,
    other.DropDatabase: databases.carry_out_drop_database,
    other.DescribeDatabase: databases.carry_out_describe_database,
    other.ShowTables: describing.carry_out_show_tables,
    other.ShowPartitions: describing.carry_out_show_partitions,
    other.ShowTblProperties: describing.carry_out_show_tblproperties,
    other.ShowCreateTable: describing.carry_out_show_create_table,
    other.ShowColumns: describing.carry_out_show_columns,
    other.Describe: describing.carry_out_describe,
    other.DescribeHistory: caring.carry_out_describe_history,
    other.DescribeDetail: caring.carry_out_describe_detail,
    other.Optimize: caring.carry_out_optimize,
    other.Vacuum: caring.carry_out_vacuum,
    other.Restore: caring.carry_out_restore,
    tables.CreateTable: spark_names.create,
    tables.CreateTableLike: spark_names.create_like,
    tables.CreateTemporaryView: temporary_views.create_view,
    tables.DropTable: creating.carry_out_drop_table,
    tables.RenameTable: creating.carry_out_rename_table,
    tables.AlterTable: altering.carry_out_alter_table,
}
"""By the class of the statement."""
