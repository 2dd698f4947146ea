"""The commands `upsert` and `delete`, which change the rows of tables with a primary key.

Owns: their arguments. Must not know: file formats (see `sources`), or how a commit is made.
Invariant: one command is one commit, however many files it reads. Rows are streamed.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from .arguments import Commands, add_branch, add_command, open_table_of, pairs
from .changes import CountedRows, add_commit, add_files, keep_journal, show_receipt
from .exit_codes import OK
from .output import Output

if TYPE_CHECKING:
    from ..table.writing.transaction import Transaction


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
    example = "lakelatch delete s3://lake/orders --keys cancelled.csv"
    about = "Delete the rows with some keys from a table with a primary key. One commit."
    parser = add_command(commands, "delete", delete, about, example)
    add_branch(parser)
    add_files(parser, "--keys")
    add_commit(parser)


def upsert(args: argparse.Namespace, output: Output) -> int:
    def change(tx: Transaction, rows: Any) -> None:
        tx.upsert(rows, row_kind=args.row_kind)

    return _commit(args, output, change, "written", args.row_kind)


def delete(args: argparse.Namespace, output: Output) -> int:
    def change(tx: Transaction, rows: Any) -> None:
        tx.delete(rows)

    return _commit(args, output, change, "of keys to delete")


def _commit(args: argparse.Namespace, output: Output, change: Any, done: str, more_text: str | None = None) -> int:
    """Commit the rows of the files.

    Args:
        more_text: a column of texts that the files have beside those of the table.
    """
    import pyarrow as pa

    from ..table.writing.transaction import check_identity
    from .sources import format_of_name

    check_identity(args.commit_user, args.identifier)
    for name in args.files:
        format_of_name(name, args.format)  # reports an unknown format before anything is opened
    table = open_table_of(args)
    schema = table.arrow_schema
    if more_text is not None and more_text not in schema.names:
        schema = schema.append(pa.field(more_text, pa.string()))
    journal = keep_journal(table, args.journal, output)
    counted = CountedRows(args.files, schema, args.format, tuple(args.null))
    identity = {"commit_user": args.commit_user, "identifier": args.identifier}
    with table.transaction(properties=pairs(args.property, "--property"), **identity) as tx:
        change(tx, counted)
    show_receipt(tx.receipt, counted.rows, journal, output, done)
    table.committer.settle()
    return OK
