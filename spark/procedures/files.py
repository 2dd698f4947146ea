"""Procedures about the files of a table: compaction, buckets, indexes, manifests, files that nothing names, and tables of others.

Owns: these procedures. Must not know: which files are chosen. Source: format/data-files §6; format/commit §12.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timezone
from typing import Any

from ...coordinator.surroundings import MACHINE
from ...core import options as opt
from ...core.errors import InvalidArgument, LakelatchError, Unsupported
from ...core.expressions.tree import Predicate
from ...core.metadata.schemas.changes import set_option
from ...core.options import parse_duration_ms
from ...core.places import codec_of
from ...table.compaction.plan import of_partitions
from ...table.partition_upkeep import wall_ms
from ...table.table import Table
from ..cleaning import clean
from ..lake_table import LakeTable
from .history import pattern_of
from .partitions import chosen, number, option_pairs, with_options
from .procedure import DONE, Call, Rows

_CURVES = ("order", "zorder", "hilbert")
_COMPACTION = {"target-file-size": "target_size", "compaction.min.file-num": "min_files"}


def compact(call: Call) -> Rows:
    lake_table = call.table
    table = lake_table.table.refresh()
    where = chosen(call, table.schema)
    strategy = (call.text("compact_strategy") or "full").lower()
    if strategy not in ("full", "minor"):
        raise InvalidArgument(f"compact_strategy => {strategy!r}", next_step="write 'full' or 'minor'")
    if call.text("buckets") is not None:
        raise Unsupported("compact with argument buckets", next_step="choose partitions with where or partitions")
    given = with_options(call, _COMPACTION)
    order, by = (call.text("order_strategy") or "none").lower(), call.text("order_by")
    if order != "none":
        return _sorted(call, table, order, by, where)
    if by is not None:
        raise InvalidArgument("order_by needs order_strategy", next_step=f"write one of {', '.join(_CURVES)}")
    where, none_idle = _idle(call, table, where)
    if none_idle:
        return DONE
    sizes = {"target_size": given["target_size"], "min_files": number(given["min_files"], "compaction.min.file-num")}
    done = lake_table.compact(where, full=strategy == "full", **sizes)
    return [(not done.given_up,)]


def _sorted(call: Call, table: Table, order: str, by: str | None, where: Predicate | None) -> Rows:
    if order not in _CURVES:
        raise InvalidArgument(f"order_strategy => {order!r}", next_step=f"write none or one of {', '.join(_CURVES)}")
    if by is None:
        raise InvalidArgument(f"order_strategy => {order!r} needs order_by", next_step="name columns: 'a,b'")
    if call.text("partition_idle_time") is not None:
        raise Unsupported("partition_idle_time together with order_strategy", next_step="choose partitions with where")
    full = (call.text("compact_strategy") or "full").lower() == "full"
    size = with_options(call, {"target-file-size": "target_size"})["target_size"]
    names = [name.strip() for name in by.split(",")]
    done = table.optimize(by=names, curve=order, where=where, full=full, target_size=size)  # type: ignore[arg-type]
    return [(not done.compaction.given_up,)]


def _idle(call: Call, table: Table, where: Predicate | None) -> tuple[Predicate | None, bool]:
    """The chosen partitions that got no file for a time; and whether there is none."""
    text = call.text("partition_idle_time")
    if text is None:
        return where, False
    try:
        before = wall_ms(MACHINE.wall_ms, None) - parse_duration_ms(text)
    except ValueError as error:
        raise InvalidArgument(f"partition_idle_time: {error}") from None
    if not table.schema.partition_keys:
        raise InvalidArgument("partition_idle_time: the table has no partitions", next_step="leave it out")
    found = table.partitions(where)
    times, names = (found.column(name).to_pylist() for name in ("last_creation_time_ms", "partition"))
    idle = [name for name, time in zip(names, times, strict=True) if time is not None and time < before]
    codec = codec_of(table.schema)  # the times in paths are those of UTC
    specs = [codec.parse_spec(name, timezone.utc) for name in idle]
    return (of_partitions(specs, table.schema), False) if idle else (None, True)


def compact_database(call: Call) -> Rows:
    lake = call.lake
    if lake is None:
        raise InvalidArgument("compact_database needs a catalog", next_step="CALL lake.sys.compact_database(…)")
    databases = pattern_of(call.text("including_databases"), "including_databases")
    wanted = pattern_of(call.text("including_tables"), "including_tables")
    spared = pattern_of(call.text("excluding_tables"), "excluding_tables")
    done, failed = 0, []
    for name in lake:
        inside = databases is None or databases.fullmatch(name.partition(".")[0])
        if not inside or (wanted is not None and not wanted.fullmatch(name)):
            continue
        if spared is not None and spared.fullmatch(name):
            continue
        values = dict.fromkeys(("partitions", "where", "compact_strategy", "buckets", "order_strategy", "order_by"))
        values |= {"table": name, "options": call.values["options"], "partition_idle_time": None}
        try:
            compact(replace(call, values=values, lake=lake, identity={}))
            done += 1
        except LakelatchError as error:
            failed.append(f"{name}: {error}")
    told = f"Compact database finished. Success: {done}, Failed: {len(failed)}"
    return [(f"{told}; {'; '.join(failed)}" if failed else told,)]


def rescale(call: Call) -> Rows:
    table, buckets = call.table.table.refresh(), call.values["bucket_num"]
    where = chosen(call, table.schema)
    known = table.schema.options.get(opt.BUCKET)
    if buckets is not None and buckets != known:
        if where is not None:
            raise Unsupported(
                f"bucket_num => {buckets} for some partitions: option 'bucket' is {known}, and one number holds for all",
                next_step="leave the partitions out, or set option 'bucket' first",
            )
        if buckets < 1 or known < 1:
            raise InvalidArgument(
                f"bucket_num => {buckets}, and the table's option 'bucket' is {known}",
                next_step="only tables with a fixed number of buckets can be rescaled, to another fixed number",
            )
        table.alter(set_option("bucket", str(buckets)))
    table.rescale(where)
    return DONE


def rewrite_file_index(call: Call) -> Rows:
    table = call.table.table.refresh()
    done = table.rewrite_file_index(chosen_where(call, table))
    return [(len({group.partition for group in done.plan.groups}) if done.files else 0, done.files)]


def chosen_where(call: Call, table: Table) -> Predicate | None:
    return chosen(replace(call, values={**call.values, "partitions": None}), table.schema)


def compact_manifest(call: Call) -> Rows:
    sorts = [n for n in call.values if n.startswith("manifest_sort") and call.values[n] is not None]
    if sorts:
        raise Unsupported(f"compact_manifest with argument {sorts[0]}", next_step="leave it out")
    with_options(call, {})
    call.table.table.compact_manifests(dry_run=bool(call.values["dry_run"]), **call.identity)
    return DONE


def remove_orphan_files(call: Call) -> Rows:
    """Argument `parallelism` is taken and has no effect: the session's tasks are used."""
    mode = (call.text("mode") or "distributed").lower()
    if mode not in ("local", "distributed"):
        raise InvalidArgument(f"mode => {mode!r}", next_step="write 'local' or 'distributed'")
    dry_run = bool(call.values["dry_run"])
    older = call.time_ms("older_than")
    files = size = 0
    for one in _tables(call):
        if mode == "local":
            found = one.table.orphans(older_than=older) if dry_run else one.table.clean(older_than=older)
        else:
            found = clean(
                call.session, one.table.url, older_than=older, dry_run=dry_run, storage_options=one.storage_options
            )
        files += len(found.files)
        size += sum(info.size for info in found.files)
    return [(files, size)]


def _tables(call: Call) -> list[LakeTable]:
    name = call.values["table"]
    if not name.endswith(".*"):
        return [call.table]
    if call.lake is None:
        raise InvalidArgument(f"table => {name!r} needs a catalog", next_step="name one table")
    database = name[: -len(".*")]
    return [call.table_named(f"{database}.{table}") for table in call.lake.tables(database)]


def copy(call: Call) -> Rows:
    if call.text("where") is not None:
        raise Unsupported(
            "copy with argument where",
            next_step="CREATE TABLE target LIKE source, then INSERT INTO target SELECT … WHERE …",
        )
    if call.lake is None:
        raise InvalidArgument("copy needs a catalog", next_step="CALL lake.sys.copy(…)")
    source, target = call.table_named(call.values["source_table"]), call.values["target_table"]
    source.table.clone(call.lake.url_of(target), storage_options=source.storage_options)
    return DONE


def options_of(call: Call) -> dict[str, Any]:
    """Arguments `options` and `options_map`."""
    return option_pairs(call.text("options")) | dict(call.values["options_map"] or {})
