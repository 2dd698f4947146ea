"""The commands `create` and `write`.

Owns: their arguments and output; the arguments that all commands that commit rows share. Must not know: file formats
(see `sources`), or how a commit is made. Invariants: one `write` is one commit, however many files it reads. It keeps a
journal, so that the outcome can be found out if the process dies. Rows are streamed.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...core.errors import InvalidArgument, TableCorrupt
from ...core.json_text import loads
from ..frame.arguments import Commands, Parser, add_branch, add_command, names, open_table_of, pairs, storage_options_of
from ..frame.exit_codes import OK
from ..frame.journals import JOURNAL, journal_path
from ..frame.output import Output

if TYPE_CHECKING:
    from ...coordinator.commit.receipt import Receipt
    from ...table.table import Table

MODES = ("append", "overwrite", "overwrite-partitions")
_FILE_FORMATS = ("parquet", "csv", "json", "arrow")
_PROGRESS_SECONDS = 1.0


def register(commands: Commands) -> None:
    _register_create(commands)
    _register_write(commands)


# --------------------------------------------------------------------------------------------------------------- create


def _register_create(commands: Commands) -> None:
    example = (
        "lakelatch create s3://lake/flights --column carrier:STRING --column 'dep_delay:DECIMAL(8, 2)'"
        " --column month:INT --partition-by month"
    )
    parser = add_command(commands, "create", create, "Create a table.", example)
    columns = parser.add_mutually_exclusive_group(required=True)
    columns.add_argument(
        "--column",
        action="append",
        metavar="NAME:TYPE",
        help="a column (repeatable), such as id:BIGINT, 'price:DECIMAL(8, 2)' or 'tags:ARRAY<STRING>'; or a type in JSON",
    )
    columns.add_argument(
        "--schema-json", metavar="FILE", help="take columns, keys and options from a schema file in JSON"
    )
    columns.add_argument(
        "--like",
        metavar="FILE",
        help="take the columns of a file of rows; those of CSV and JSON are inferred from its beginning",
    )
    parser.add_argument("--partition-by", metavar="A,B", help="partition columns")
    parser.add_argument("--primary-key", metavar="A,B", help="primary key columns")
    parser.add_argument("--option", action="append", default=[], metavar="K=V", help="a table option (repeatable)")
    parser.add_argument(
        "--allow-unknown",
        action="store_true",
        help="accept table options that neither lakelatch nor Apache Paimon knows",
    )
    parser.add_argument("--comment", metavar="TEXT", help="the comment of the table")
    parser.add_argument("--exist-ok", action="store_true", help="do not fail if the table exists")


def create(args: argparse.Namespace, output: Output) -> int:
    from ...table.create import Schema, create_table

    given: dict[str, Any] = {}
    if args.like is not None:
        from .sources import schema_of

        columns: Any = schema_of(args.like)
    elif args.schema_json is not None:
        given, fields = _schema_file(args.schema_json)
        columns = Schema(fields)
    else:
        columns = Schema([column_of(text) for text in args.column])
    table = create_table(
        args.url,
        columns,
        partition_by=names(args.partition_by) or given.get("partitionKeys") or (),
        primary_key=names(args.primary_key) or given.get("primaryKeys") or (),
        options={**(given.get("options") or {}), **pairs(args.option, "--option")},
        comment=args.comment if args.comment is not None else given.get("comment"),
        exist_ok=args.exist_ok,
        storage_options=storage_options_of(args),
        allow_unknown=args.allow_unknown,
    )
    if output.as_json:
        from ..inspect.layout import schema_record

        output.record({"url": table.url, **schema_record(table.schema)})
    else:
        output.line(f"{table.url}: {len(table.schema.fields)} columns, schema {table.schema.id}")
    return OK


def column_of(text: str, argument: str = "--column") -> tuple[str, Any]:
    """A column from NAME:TYPE: its name, and its type as SQL text or as the format's JSON."""
    from ...table.create import Schema

    name, kind = named(text, argument)
    try:
        json_type = loads(kind) if kind.startswith("{") else kind
        Schema([(name, json_type)])
    except (ValueError, TableCorrupt) as error:
        said = error.message if isinstance(error, TableCorrupt) else f"column '{name}': {error}"
        raise InvalidArgument(said, next_step="use a SQL type: BIGINT, STRING NOT NULL, DECIMAL(10, 2), …") from error
    return name, json_type


def named(text: str, argument: str) -> tuple[str, str]:
    """The two parts of NAME:TYPE.

    >>> named("c: ROW<a: INT>", "--column")
    ('c', 'ROW<a: INT>')
    """
    name, colon, rest = text.partition(":")
    if not colon or not name.strip() or not rest.strip():
        raise InvalidArgument(f"{argument} {text!r} is not NAME:TYPE", next_step=f"write {argument} carrier:STRING")
    return name.strip(), rest.strip()


def _schema_file(path: str) -> tuple[dict[str, Any], list[Any]]:
    """Read a schema file. Returns its keys, options and comment as a dict, and its columns.

    The file holds a table's schema as the format stores it, or only a list of fields.
    """
    from ...core.rows.types import parse_field

    try:
        raw = loads(Path(path).read_bytes())
        given = raw if isinstance(raw, dict) else {"fields": raw}
        fields = [parse_field(f, path) if "id" in f else (str(f["name"]), f["type"]) for f in given["fields"]]
    except OSError as error:
        raise InvalidArgument(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidArgument(
            f"{path} is not a schema: {error!r}", next_step='it needs {"fields": [{"name": …, "type": …}]}'
        ) from error
    except TableCorrupt as error:
        raise InvalidArgument(error.message, next_step="see the format's types") from error
    return given, fields


# ---------------------------------------------------------------------------------------------------------------- write


def _register_write(commands: Commands) -> None:
    example = (
        "lakelatch write s3://lake/flights january.parquet february.csv --commit-user etl-7 --identifier 42\n"
        "duckdb -c '…' | lakelatch write ./flights - --format csv --mode overwrite --partition month=1"
    )
    about = "Append or overwrite rows in one commit."
    parser = add_command(commands, "write", write, about, example, aliases=["append"])
    add_branch(parser)
    add_files(parser)
    parser.add_argument(
        "--mode", choices=MODES, default=MODES[0], help="append (default); overwrite replaces the table, or --partition;"
        " overwrite-partitions replaces each partition that the rows belong to",
    )  # fmt: skip
    parser.add_argument("--partition", action="append", default=[], metavar="K=V", help="the partition to overwrite")
    parser.add_argument(
        "--isolation",
        choices=("snapshot", "serializable"),
        default="snapshot",
        help="for overwrites: rows that other writers append meanwhile are kept (snapshot), or are a conflict (serializable)",
    )
    parser.add_argument(
        "--group",
        choices=("auto", "off"),
        help="for appends: may they ride with others (default: what the table's option commit.group says)",
    )
    add_commit(parser)


def add_files(parser: Parser, option: str | None = None, required: bool = True) -> None:
    """Files follow the URL, or an `option`, which may be `required`."""
    about: dict[str, Any] = {
        "nargs": "+",
        "metavar": "FILE",
        "help": "Parquet, CSV, JSON lines or Arrow IPC; - reads stdin",
    }
    if option is None:
        parser.add_argument("files", **about)
    else:
        parser.add_argument(option, dest="files", required=required, **about)
    parser.add_argument("--format", choices=_FILE_FORMATS, help="the format of all files (default: by extension)")
    parser.add_argument(
        "--null", action="append", default=[], metavar="TEXT", help="a text that means null in CSV, such as NA"
    )


def add_commit(parser: Parser) -> None:
    parser.add_argument("--commit-user", metavar="NAME", help="with --identifier: makes the commit land exactly once")
    parser.add_argument(
        "--identifier", type=int, metavar="N", help="another number for each commit of the user, in any order"
    )
    parser.add_argument(
        "--property", action="append", default=[], metavar="K=V", help="a property to store in the snapshot"
    )
    parser.add_argument(
        "--journal",
        metavar="PATH",
        help=f"where to record the commit's events (default: ${JOURNAL}, or the state folder)",
    )


def write(args: argparse.Namespace, output: Output) -> int:
    from ...table.writing.transaction import check_identity
    from .sources import format_of_name

    check_identity(args.commit_user, args.identifier)
    if args.partition and args.mode != "overwrite":
        raise InvalidArgument("--partition needs --mode overwrite")
    if args.isolation != "snapshot" and args.mode == "append":
        raise InvalidArgument("--isolation is only for overwrites")
    for name in args.files:
        format_of_name(name, args.format)  # reports an unknown format before anything is opened
    table = open_table_of(args)
    journal = keep_journal(table, args.journal, output)
    counted = CountedRows(args.files, table.arrow_schema, args.format, tuple(args.null))
    identity = {"commit_user": args.commit_user, "identifier": args.identifier}
    properties = pairs(args.property, "--property")
    with table.transaction(isolation=args.isolation, properties=properties, group=args.group, **identity) as tx:
        if args.mode == "append":
            tx.append(counted)
        elif args.mode == "overwrite":
            tx.overwrite(counted, partition=pairs(args.partition, "--partition"), dynamic=False)
        else:
            tx.overwrite(counted, partition=None, dynamic=True)
    show_receipt(tx.receipt, counted.rows, journal, output)
    return OK


def show_receipt(receipt: Receipt, rows: int, journal: str | None, output: Output, done: str = "written") -> None:
    if output.as_json:
        output.record({**receipt.to_dict(), "rows": rows, "journal": journal})
    else:
        output.line(str(receipt))
        if not receipt.replayed:
            output.note(f"{rows} rows {done}")


class CountedRows:
    def __init__(self, files: Sequence[str], schema: Any, file_format: str | None, nulls: tuple[str, ...]) -> None:
        self._files, self._schema, self._format, self._nulls = files, schema, file_format, nulls
        self.rows = 0

    def __iter__(self) -> Iterator[Any]:
        from .sources import rows_of

        told, shows = time.monotonic(), sys.stderr.isatty()
        for name in self._files:
            for batch in rows_of(name, self._schema, self._format, self._nulls):
                self.rows += batch.num_rows
                yield batch
                if shows and time.monotonic() - told > _PROGRESS_SECONDS:
                    told = time.monotonic()
                    print(f"\r{name}: {self.rows:,} rows", end="", file=sys.stderr, flush=True)
        if shows:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def keep_journal(table: Table, argument: str | None, output: Output) -> str | None:
    """Choose the journal for the table's commits: the argument, else the environment's, the table's, or the user's."""
    from ...coordinator.journal.file_journal import FileJournal
    from ...coordinator.journal.lines import OBJECT
    from ...coordinator.journal.object_journal import ObjectJournal
    from ...core import options as opt

    named = argument or os.environ.get(JOURNAL)
    own = table.schema.options.get(opt.COMMIT_JOURNAL)
    if not named and own:
        return own
    path = journal_path(argument)
    if str(path) == OBJECT:
        table.committer.journal = ObjectJournal(table.store)
        return OBJECT
    try:
        table.committer.journal = FileJournal(path)
    except OSError as error:
        if named:
            raise InvalidArgument(f"journal {path} cannot be written: {error.strerror}") from error
        output.note(f"no journal is kept: {path} cannot be written ({error.strerror})")
        return None
    return str(path)
