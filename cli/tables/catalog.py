"""The commands for whole tables and catalogs: `ls`, `maintain`, `drop`, `rename`, `migrate`, `clone`, `export`, `allow`.

Owns: their arguments and the stable keys of their JSON. Must not know: what belongs to a table, or how it is deleted.
Invariant: without `--apply`, `drop` and `maintain` only show the plan and change nothing.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from ...core.errors import InvalidArgument
from ..frame.arguments import Commands, add_command, add_where, open_table_of, storage_options_of, where_of
from ..frame.exit_codes import OK, PROBLEMS
from ..frame.output import Output
from ..upkeep.maintenance import add_apply, progress, tell_deletion

if TYPE_CHECKING:
    from ...coordinator.maintenance.clone import ClonePlan
    from ...coordinator.maintenance.reference import ReferencePlan
    from ...table.catalog.maintain import TableUpkeep


def register(commands: Commands) -> None:
    for add in (_add_ls, _add_maintain, _add_drop, _add_migrate, _add_clone, _add_export, _add_rename, _add_allow):
        add(commands)


def _add_ls(commands: Commands) -> None:
    parser = add_command(
        commands,
        "ls",
        ls,
        "List the tables of a catalog, in the layout of Apache Paimon's file-system catalog: DATABASE.db/TABLE.",
        "lakelatch ls s3://lake\nlakelatch ls s3://lake air --json",
        url="where the catalog is: a path, s3://bucket, …",
    )
    parser.add_argument("database", nargs="?", metavar="DB", help="only the tables of this database")


def _add_maintain(commands: Commands) -> None:
    parser = add_command(
        commands,
        "maintain",
        maintain,
        "Maintain every table of a catalog as its options say: expire partitions, compact, tag, expire snapshots, delete orphans."
        " Shows what is due; --apply does it, beside jobs that write. A run that was cut off is finished by running it again. A"
        " table that fails does not stop the others; the exit code is 1 then.",
        "lakelatch maintain s3://lake\nlakelatch maintain s3://lake air --apply",
        url="where the catalog is: a path, s3://bucket, …",
    )
    parser.add_argument("database", nargs="?", metavar="DB", help="only the tables of this database")
    parser.add_argument("--jobs", type=int, default=4, metavar="N", help="how many tables at the same time (4)")
    add_apply(parser)


def _add_drop(commands: Commands) -> None:
    parser = add_command(
        commands,
        "drop",
        drop,
        "Delete a table with its rows, snapshots, tags and branches. Jobs that write to it meanwhile get an error. Shows what"
        " goes; --apply deletes it. A drop that was cut off is finished by running it again.",
        "lakelatch drop s3://lake/air.db/flights\nlakelatch drop s3://lake/air.db/flights --apply",
    )
    add_apply(parser)


def _add_migrate(commands: Commands) -> None:
    parser = add_command(
        commands,
        "migrate",
        migrate,
        "Make a table of a folder of plain files, with or without Hive partitions, without rewriting a row. Shows the plan;"
        " --apply carries it out. A run that was cut off is continued by running it again.",
        "lakelatch migrate s3://lake/raw/flights s3://lake/air.db/flights\n"
        "lakelatch migrate raw/flights lake/air.db/flights --files move --apply",
        url="where the files are: a path, s3://bucket/path, …",
    )
    parser.add_argument("new_url", metavar="TABLE_URL", help="the table to make")
    parser.add_argument("--format", default="parquet", choices=("parquet", "orc"), help="of the files (parquet)")
    parser.add_argument(
        "--files",
        default="copy",
        choices=("copy", "move", "reference"),
        help="copy them into the table, move them, or leave them where they are (copy)",
    )
    add_apply(parser)


def _add_clone(commands: Commands) -> None:
    parser = add_command(
        commands,
        "clone",
        clone,
        "Copy a table with all snapshots, tags and branches to another place; within one store, by the store itself where it can."
        " Jobs may write meanwhile. Shows the plan; --apply carries it out, and continues a run that was cut off.",
        "lakelatch clone s3://lake/air.db/flights s3://lake/trial.db/flights --apply\n"
        "lakelatch clone s3://lake/air.db/flights s3://lake/trial.db/flights --reference --apply",
    )
    parser.add_argument("new_url", metavar="NEW_URL", help="where the copy will be")
    parser.add_argument(
        "--reference",
        action="store_true",
        help="the newest snapshot only, and its data files stay in the table, which gets a tag that keeps them",
    )
    add_apply(parser)


def _add_export(commands: Commands) -> None:
    parser = add_command(
        commands,
        "export",
        export,
        "Write the rows of a snapshot into a folder of plain files, in Hive's layout. With --format iceberg no row is copied:"
        " readers of Apache Iceberg take the folder for a table, which has the table's own files; a tag keeps these.",
        "lakelatch export s3://lake/air.db/flights /data/flights --tag eod\n"
        'lakelatch export lake/flights plain --where "month = 1" --format csv\n'
        "lakelatch export s3://lake/air.db/flights s3://lake/for-others/flights --tag eod --format iceberg",
    )
    parser.add_argument("folder", metavar="FOLDER", help="an empty folder")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--snapshot", type=int, metavar="N", help="as of this snapshot")
    which.add_argument("--tag", metavar="NAME", help="as of this tag")
    add_where(parser, 'only these rows, such as "month >= 3"')
    parser.add_argument(
        "--format", default="parquet", choices=("parquet", "orc", "csv", "iceberg"), help="of the files (parquet)"
    )


def _add_rename(commands: Commands) -> None:
    parser = add_command(
        commands,
        "rename",
        rename,
        "Rename a table in one atomic step, where the store can do that: on local disks and HDFS. On object stores, clone the"
        " table and drop the old one.",
        "lakelatch rename /lake/air.db/flights /lake/air.db/trips",
    )
    parser.add_argument("new_url", metavar="NEW_URL", help="where the table will be")


def _add_allow(commands: Commands) -> None:
    parser = add_command(
        commands,
        "allow",
        allow,
        "Allow a table to use places outside of its folder: locations of data files, a journal on this machine, a service that is"
        " told of partitions. Its files name them, so whoever writes to it chooses them. Without a place, tells what is allowed.",
        "lakelatch allow s3://lake/air.db/flights s3://archive/flights\nlakelatch allow /lake/air.db",
        url="the table, or a folder of tables",
    )
    parser.add_argument("places", metavar="PLACE", nargs="*", help="a folder, a file or a URL; all below it is meant")


def ls(args: argparse.Namespace, output: Output) -> int:
    from ...table.catalog.catalog import open_catalog

    lake = open_catalog(args.url, storage_options=storage_options_of(args))
    databases = [args.database] if args.database is not None else lake.databases()
    found = [(database, table) for database in databases for table in (*lake.tables(database),) or (None,)]
    if output.as_json:
        for database, table in found:
            url = None if table is None else lake.url_of(f"{database}.{table}")
            output.record({"database": database, "table": table, "url": url})
        return OK
    output.table(("database", "table"), [(database, table or "") for database, table in found])
    return OK


def maintain(args: argparse.Namespace, output: Output) -> int:
    from ...table.catalog.catalog import open_catalog

    if args.jobs < 1:
        raise InvalidArgument(f"--jobs {args.jobs}: must be at least 1")
    lake = open_catalog(args.url, storage_options=storage_options_of(args))

    def told(done: int, total: int, one: TableUpkeep) -> None:
        if output.as_json:
            output.record({"applied": args.apply, **one.to_dict()})
        elif one.due or one.failed:
            output.line(str(one))
        if sys.stderr.isatty():
            print(f"\r{done:,} of {total:,} tables", end="\n" if done == total else "", file=sys.stderr, flush=True)

    done = lake.maintain(args.database, dry_run=not args.apply, jobs=args.jobs, progress=told)
    if not output.as_json:
        output.line(str(done))
        if not args.apply and any(one.due for one in done.tables):
            output.note("nothing was changed; use --apply to carry it out")
    return PROBLEMS if done.failed else OK


def drop(args: argparse.Namespace, output: Output) -> int:
    from ...table.create import drop_table

    told = progress("deleted") if args.apply else None
    options = storage_options_of(args)
    plan = drop_table(args.url, dry_run=not args.apply, storage_options=options, progress=told)
    return tell_deletion(output, plan, args.apply)


def migrate(args: argparse.Namespace, output: Output) -> int:
    from ...table.migration.migrate import migrate

    done = migrate(
        args.url,
        args.new_url,
        format=args.format,
        files=args.files,
        dry_run=not args.apply,
        storage_options=storage_options_of(args),
        progress=progress("copied") if args.apply else None,
    )
    if output.as_json:
        output.record({"applied": args.apply, **done.to_dict()})
        return OK
    output.line(str(done))
    if not args.apply:
        output.facts(done.to_dict()["columns"])
        output.note("nothing was changed; use --apply to carry it out")
    return OK


def clone(args: argparse.Namespace, output: Output) -> int:
    told = progress("copied") if args.apply else None
    table, dry_run = open_table_of(args), not args.apply
    plan: ClonePlan | ReferencePlan
    if args.reference:
        plan = table.clone(args.new_url, reference=True, dry_run=dry_run, progress=told)
    else:
        plan = table.clone(args.new_url, dry_run=dry_run, progress=told)
    if output.as_json:
        output.record({"applied": args.apply, **plan.to_dict()})
        return OK
    output.line(f"{plan}, copied" if args.apply and not args.reference else str(plan))
    if not args.apply:
        output.note("nothing was copied; use --apply to copy")
    return OK


def export(args: argparse.Namespace, output: Output) -> int:
    done = open_table_of(args).export(
        args.folder, snapshot=args.snapshot, tag=args.tag, where=where_of(args), format=args.format
    )
    if output.as_json:
        output.record(done.to_dict())
    else:
        output.line(str(done))
    return OK


def rename(args: argparse.Namespace, output: Output) -> int:
    from ...table.create import rename_table

    moved = rename_table(args.url, args.new_url, storage_options=storage_options_of(args))
    if output.as_json:
        output.record({"url": moved.url})
    else:
        output.line(f"{args.url} is now {moved.url}")
    return OK


def allow(args: argparse.Namespace, output: Output) -> int:
    from ...backends.trust import allow as allowed

    places = allowed(args.url, *args.places)
    if output.as_json:
        output.record({"url": args.url, "places": list(places)})
    else:
        output.line(f"{args.url} may use {', '.join(places) or 'nothing outside of its folder'}")
    return OK
