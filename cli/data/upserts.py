"""The commands `upsert`, `delete` and `update`, which change rows: by their keys, or by a condition.

Owns: their arguments. Must not know: file formats (see `sources`), or how a commit is made.
Invariants: one command is one commit, however many files it reads. Rows are streamed. Without `--apply`, `delete` and `update`
only say how many rows are concerned, and change nothing.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from ...core.errors import InvalidArgument
from ..frame.arguments import (
    Commands,
    Parser,
    add_branch,
    add_command,
    add_where,
    in_zone_of,
    open_table_of,
    pairs,
    where_of,
)
from ..frame.exit_codes import OK
from ..frame.output import Output
from ..upkeep.maintenance import add_apply
from .changes import CountedRows, add_commit, add_files, keep_journal, show_receipt

if TYPE_CHECKING:
    from ...table.writing.transaction import Transaction


def register(commands: Commands) -> None:
    example = (
        "lakelatch upsert s3://lake/orders today.parquet --commit-user etl-7 --identifier 42\n"
        "lakelatch upsert ./orders changes.jsonl --row-kind op"
    )
    about = "Add rows to a table with a primary key, or replace those with their keys. One commit."
    parser = add_command(commands, "upsert", upsert, about, example)
    add_branch(parser)
    add_files(parser)
    parser.add_argument(
        "--row-kind",
        metavar="COLUMN",
        help="the column that says what each row does: +I, -U, +U, -D, or c, r, u, d; it need not be in the table",
    )
    add_commit(parser)
    example = (
        'lakelatch delete s3://lake/flights --where "month = 1 AND carrier IS NULL"\n'
        "lakelatch delete s3://lake/orders --keys cancelled.csv --apply"
    )
    about = (
        "Delete the rows for which a condition is true, or those with some primary keys. Shows how many rows go; --apply deletes"
        " them, in one commit."
    )
    parser = add_command(commands, "delete", delete, about, example)
    add_branch(parser)
    add_where(parser, "the rows to delete, in any table", "SQL")
    add_files(parser, "--keys", required=False)
    _add_isolation(parser)
    add_commit(parser)
    add_apply(parser)
    example = 'lakelatch update ./flights --where "carrier = \'AA\'" --set "delay = delay + 1" --set "note = \'late\'" --apply'
    about = (
        "Give columns of the rows for which a condition is true new values. Shows how many rows change; --apply changes"
        " them, in one commit."
    )
    parser = add_command(commands, "update", update, about, example)
    add_branch(parser)
    add_where(parser, "the rows to update; all rows if it is left out", "SQL")
    parser.add_argument(
        "--set",
        action="append",
        required=True,
        metavar="COLUMN=SQL",
        help="a column and its new value, which may be computed from the row; text goes in single quotes",
    )
    _add_isolation(parser)
    add_commit(parser)
    add_apply(parser)


def _add_isolation(parser: Parser) -> None:
    parser.add_argument(
        "--isolation",
        choices=("serializable", "snapshot"),
        default="serializable",
        help="serializable: look again if other jobs add rows that the condition may concern",
    )


def upsert(args: argparse.Namespace, output: Output) -> int:
    def change(tx: Transaction, rows: Any) -> None:
        tx.upsert(rows, row_kind=args.row_kind)

    return _commit(args, output, change, "written", args.row_kind)


def update(args: argparse.Namespace, output: Output) -> int:
    given = {name.strip(): in_zone_of(args, value) for name, value in pairs(args.set, "--set").items()}
    return _changed(args, output, lambda table, about: table.update(where_of(args), set=given, **about), given)


def _changed(args: argparse.Namespace, output: Output, change: Any, new: Any = None) -> int:
    """Commit a change of rows that a condition chooses, or say what it would change. `new` are the new values of an update."""
    table = open_table_of(args)
    if not args.apply:
        from ...table.rowlevel.edit import Edit

        Edit.of(table.schema, where_of(args), new)  # refuses what does not fit
        return _planned(output, table.count(where_of(args)), "deleted" if new is None else "updated")
    journal = keep_journal(table, args.journal, output)
    about = {
        "commit_user": args.commit_user,
        "identifier": args.identifier,
        "isolation": args.isolation,
        "properties": pairs(args.property, "--property"),
    }
    receipt = change(table, about)
    if output.as_json:
        output.record({"applied": True, **receipt.to_dict(), "journal": journal})
    else:
        output.line(str(receipt))
    return OK


def _planned(output: Output, rows: int, done: str) -> int:
    if output.as_json:
        output.record({"applied": False, f"rows_{done}": rows})
        return OK
    output.line(f"{rows} rows are to be {done}")
    output.note(f"nothing was {done}; use --apply to do it")
    return OK


def delete(args: argparse.Namespace, output: Output) -> int:
    if (args.where is None) == (args.files is None):
        raise InvalidArgument(
            "delete takes the keys of rows, or a condition", next_step="pass --keys FILE or --where SQL"
        )
    if args.where is not None:
        return _changed(args, output, lambda table, about: table.delete(where=where_of(args), **about))

    def change(tx: Transaction, rows: Any) -> None:
        tx.delete(rows)

    return _commit(args, output, change, "of keys to delete")


def _commit(args: argparse.Namespace, output: Output, change: Any, done: str, more_text: str | None = None) -> int:
    """`more_text` is a column of texts that the files have beside those of the table."""
    import pyarrow as pa

    from ...table.writing.transaction import check_identity
    from .sources import format_of_name

    check_identity(args.commit_user, args.identifier)
    for name in args.files:
        format_of_name(name, args.format)  # reports an unknown format before anything is opened
    table = open_table_of(args)
    schema = table.arrow_schema
    if more_text is not None and more_text not in schema.names:
        schema = schema.append(pa.field(more_text, pa.string()))
    counted = CountedRows(args.files, schema, args.format, tuple(args.null))
    if not getattr(args, "apply", True):
        return _planned(output, sum(batch.num_rows for batch in counted), "deleted")
    journal = keep_journal(table, args.journal, output)
    identity = {"commit_user": args.commit_user, "identifier": args.identifier}
    with table.transaction(properties=pairs(args.property, "--property"), **identity) as tx:
        change(tx, counted)
    show_receipt(tx.receipt, counted.rows, journal, output, done)
    return OK
