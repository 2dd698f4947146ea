"""What other tools call the things that this one has by another name, for errors that would otherwise name no near thing.

Owns: the names of commands, of methods of a table and of the package, and what to use here. Must not know: who asks.
"""

from __future__ import annotations

_FILES = "clean for files of jobs that died, expire for old snapshots"
COMMANDS = {
    **dict.fromkeys(("vacuum", "gc"), _FILES),
    **dict.fromkeys(("optimize", "optimise", "bin-pack", "rewrite-data-files"), "compact"),
    **dict.fromkeys(("history", "snapshots", "commits"), "log"),
    **dict.fromkeys(("expire-snapshots", "expire_snapshots"), "expire"),
    **dict.fromkeys(("remove-orphan-files", "remove_orphan_files", "orphans"), "clean"),
    **dict.fromkeys(("select", "query", "scan", "cat", "head", "count"), "read"),
    **dict.fromkeys(("list", "tables", "databases"), "ls"),
    **dict.fromkeys(("describe", "desc", "info", "columns", "options"), "schema"),
    **dict.fromkeys(("insert", "load", "overwrite"), "write"),
    **dict.fromkeys(("merge", "put"), "upsert"),
    "restore": "rollback for a state, undo for one commit",
    "revert": "undo",
    "fsck": "verify",
    "copy": "clone",
    "import": "migrate",
    "tags": "tag list",
    "branches": "branch list",
    "consumers": "consumer",
}

METHODS = {
    "vacuum": _FILES,
    **dict.fromkeys(("expire_snapshots", "expireSnapshots"), "expire"),
    **dict.fromkeys(("remove_orphan_files", "removeOrphanFiles"), "clean"),
    **dict.fromkeys(("rewrite_data_files", "compact_files", "optimize_compact"), "compact"),
    **dict.fromkeys(("insert", "write", "add", "write_arrow", "write_pandas"), "append or overwrite"),
    **dict.fromkeys(
        ("restore", "rollback_to", "rollbackTo", "set_current_snapshot"), "rollback, or undo for one commit"
    ),
    **dict.fromkeys(("load_as_version", "as_of", "as_version", "version_as_of", "version"), "at(snapshot=…)"),
    **dict.fromkeys(("to_pyarrow_table", "new_read_builder", "to_table", "read", "collect"), "to_arrow"),
    **dict.fromkeys(("to_pyarrow_dataset", "dataset"), "to_dataset"),
    **dict.fromkeys(
        ("new_batch_write_builder", "new_stream_write_builder", "begin"), "append, overwrite or transaction"
    ),
    **dict.fromkeys(("load_cdf", "cdf", "incremental"), "changes"),
    **dict.fromkeys(("add_column", "add_columns", "update_schema", "update_spec", "alter_table"), "alter"),
    **dict.fromkeys(("current_snapshot", "latest_snapshot"), "snapshot"),
    **dict.fromkeys(("properties", "metadata"), "options, schema or snapshot"),
    "upsert_all": "upsert",
    "inspect": "system",
}

PACKAGE = {
    **dict.fromkeys(("DeltaTable", "load_table", "get_table", "read_table", "StaticTable"), "open_table"),
    **dict.fromkeys(("write_deltalake", "write_table", "write"), "open_table(url).append"),
    **dict.fromkeys(("load_catalog", "CatalogFactory", "RestCatalog"), "open_catalog"),
    "convert_to_deltalake": "migrate",
}


def advice(name: str, known: dict[str, str]) -> str:
    """What to say after "has no attribute", or nothing.

    >>> advice("vacuum", METHODS), advice("nonsense", METHODS)
    ('; here it is clean for files of jobs that died, expire for old snapshots', '')
    """
    return f"; here it is {known[name]}" if name in known else ""
