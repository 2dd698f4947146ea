"""The commands `read` and `plan`.

Owns: their arguments, and how many rows are shown on a terminal.
Must not know: file formats (see `sinks`), or how a scan is planned.
Invariants: rows are streamed. A pipe or a file gets every row, unless the user asked for fewer.
"""

from __future__ import annotations

import argparse
import itertools
from pathlib import Path

from ..core.errors import InvalidArgument
from .arguments import Commands, add_branch, add_command, add_travel, names, open_as_of
from .exit_codes import OK
from .output import Output

TERMINAL_ROWS = 100
"""The number of rows that are shown on a terminal without `--limit`."""

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
    add_travel(parser)
    parser.add_argument("--columns", metavar="A,B", help="read these columns, in this order")
    parser.add_argument("--where", metavar="TEXT", help="only rows for which this is true, as in SQL")
    parser.add_argument("--limit", type=int, metavar="N", help="read at most N rows")
    parser.add_argument(
        "--format", choices=_FORMATS, help="table (default), json (one object per line), csv, parquet or arrow"
    )
    parser.add_argument("--output", metavar="FILE", help="write to this file; its extension decides the format")
    example = 'lakelatch plan s3://lake/flights --where "month = 1"'
    parser = add_command(
        commands, "plan", plan, "Show which files a read would open, and which it would skip and why.", example
    )
    add_branch(parser)
    add_travel(parser)
    parser.add_argument("--where", metavar="TEXT", help="only rows for which this is true, as in SQL")


def read(args: argparse.Namespace, output: Output) -> int:
    from ..table.reading.arrow import arrow_schema_of
    from .sinks import open_sink

    file_format = _format(args)
    if args.limit is not None and args.limit < 0:
        raise InvalidArgument(f"--limit {args.limit}: must not be negative")
    table = open_as_of(args)
    columns = names(args.columns)
    cut = file_format == "table" and args.output is None and args.limit is None and output.on_terminal
    limit = TERMINAL_ROWS + 1 if cut else args.limit
    schema = arrow_schema_of(table.schema, columns)
    batches = table.to_batches(columns, args.where, limit)
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


def _format(args: argparse.Namespace) -> str:
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
    found = open_as_of(args).plan(args.where)
    if output.as_json:
        output.record(found.to_dict())
    else:
        output.line(str(found))
    return OK
