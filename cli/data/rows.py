"""The commands `read`, `changes` and `plan`.

Owns: their arguments, and how many rows are shown on a terminal. Must not know: file formats (see `sinks`), or how a
scan is planned. Invariants: rows are streamed. A pipe or a file gets every row, unless the user asked for fewer.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ...core.errors import InvalidArgument
from ..frame.arguments import (
    Commands,
    Parser,
    add_branch,
    add_command,
    add_travel,
    add_where,
    names,
    open_as_of,
    open_table_of,
    where_of,
)
from ..frame.exit_codes import OK
from ..frame.output import Output

TERMINAL_ROWS = 100

_FORMATS = ("table", "json", "csv", "parquet", "arrow")
_EXTENSIONS = {
    "parquet": "parquet", "pq": "parquet", "csv": "csv", "json": "json", "jsonl": "json", "ndjson": "json",
    "arrow": "arrow", "arrows": "arrow", "txt": "table",
}  # fmt: skip


def register(commands: Commands) -> None:
    example = (
        "lakelatch read s3://lake/flights --columns carrier,dep_delay --where \"month = 1 AND carrier IN ('AA', 'UA')\"\n"
        "lakelatch read ./flights --tag eod --output eod.parquet"
    )
    parser = add_command(commands, "read", read, "Show or export rows.", example)
    add_branch(parser)
    add_travel(parser, watermark=True)
    add_rows(parser)
    example = (
        'lakelatch changes ./flights --start 3 --end 7 --where "month = 1"\n'
        "lakelatch changes ./flights --start eod-monday --end eod-tuesday --json\n"
        "lakelatch changes ./prices --start 3 --mode changelog"
    )
    about = "Show the rows that came (+I), went (-D) and changed (-U, +U) between two snapshots or tags."
    parser = add_command(commands, "changes", changes, about, example)
    add_branch(parser)
    start, end = "the snapshot (0 for the beginning) or tag after which", "the snapshot or tag with which"
    parser.add_argument("--start", required=True, metavar="N|TAG", help=f"{start} changes begin")
    parser.add_argument("--end", metavar="N|TAG", help=f"{end} they end (default: the newest)")
    parser.add_argument(
        "--no-overwrites",
        action="store_true",
        help="only appended rows or the changelog, as Apache Paimon's incremental-between",
    )
    parser.add_argument(
        "--mode",
        choices=("auto", "delta", "changelog", "diff"),
        default="auto",
        help="with a primary key: delta (rows as written) or changelog; diff compares two states (default: auto)",
    )
    add_rows(parser)
    example = 'lakelatch plan s3://lake/flights --where "month = 1"'
    parser = add_command(
        commands, "plan", plan, "Show which files a read would open, and which it would skip and why.", example
    )
    add_branch(parser)
    add_travel(parser, watermark=True)
    add_where(parser)


def add_rows(parser: Parser) -> None:
    parser.add_argument("--columns", metavar="A,B", help="read these columns, in this order")
    add_where(parser)
    parser.add_argument("--limit", type=int, metavar="N", help="read at most N rows")
    parser.add_argument(
        "--format", choices=_FORMATS, help="table (default), json (one object per line), csv, parquet or arrow"
    )
    parser.add_argument("--output", metavar="FILE", help="write to this file; its extension decides the format")


def read(args: argparse.Namespace, output: Output) -> int:
    from ...table.reading.arrow import arrow_schema_of

    file_format, limit = format_of(args), limit_of(args, output)
    table = open_as_of(args)
    columns = names(args.columns)
    batches = table.to_batches(columns, where_of(args), limit)
    return show_rows(batches, arrow_schema_of(table.schema, columns), file_format, args, output)


def changes(args: argparse.Namespace, output: Output) -> int:
    file_format, limit = format_of(args), limit_of(args, output)
    reader = open_table_of(args).changes(
        _snapshot_or_tag(args.start),
        None if args.end is None else _snapshot_or_tag(args.end),
        columns=names(args.columns),
        where=where_of(args),
        overwrites=not args.no_overwrites,
        mode=args.mode,
    )
    return show_rows(_first(reader, limit), reader.schema, file_format, args, output)


def _snapshot_or_tag(text: str) -> int | str:
    return int(text) if text.isdecimal() else text


def _first(batches: Iterable[Any], limit: int | None) -> Iterator[Any]:
    left = limit
    for batch in batches:
        if left is not None:
            batch = batch.slice(0, left)
            left -= batch.num_rows
        if batch.num_rows:
            yield batch
        if left == 0:
            return


def limit_of(args: argparse.Namespace, output: Output) -> int | None:
    """The number of rows to read: one more than a terminal shows, where the user gave none."""
    if args.limit is not None and args.limit < 0:
        raise InvalidArgument(f"--limit {args.limit}: must not be negative")
    return TERMINAL_ROWS + 1 if _is_cut(args, output) else args.limit


def _is_cut(args: argparse.Namespace, output: Output) -> bool:
    return format_of(args) == "table" and args.output is None and args.limit is None and output.on_terminal


def show_rows(batches: Iterator[Any], schema: Any, file_format: str, args: argparse.Namespace, output: Output) -> int:
    from .sinks import open_sink

    cut = _is_cut(args, output)
    first = next(batches, None)  # reports a read error before the output file is created
    rows = 0
    with open_sink(file_format, schema, args.output, output) as write:
        for batch in itertools.chain([] if first is None else [first], batches):
            shown = batch.slice(0, max(0, TERMINAL_ROWS - rows)) if cut else batch
            rows += batch.num_rows
            if shown.num_rows:
                write(shown)
    if cut and rows > TERMINAL_ROWS:
        output.note(f"only the first {TERMINAL_ROWS} rows are shown; --limit shows more")
    if args.output is not None:
        output.note(f"{rows} rows written to {args.output}")
    return OK


def format_of(args: argparse.Namespace) -> str:
    """The output format: from `--json`, from `--format`, or from the extension of the output file."""
    if args.json:
        if args.format not in (None, "json"):
            raise InvalidArgument(f"--json and --format {args.format} contradict each other")
        return "json"
    if args.format is not None:
        return str(args.format)
    if args.output is None:
        return "table"
    extension = Path(args.output).suffix.lower().lstrip(".")
    if extension not in _EXTENSIONS:
        raise InvalidArgument(f"--output {args.output}: the format is not known", next_step="add --format")
    return _EXTENSIONS[extension]


def plan(args: argparse.Namespace, output: Output) -> int:
    found = open_as_of(args).plan(where_of(args))
    if output.as_json:
        output.record(found.to_dict())
    else:
        output.line(str(found))
    return OK
