"""The entry point of the command `lakelatch`: parses the arguments, runs a command, returns its exit code.

Owns: the list of commands and the top-level error handling. Must not know: what a command does. Invariants: users see a
traceback only if they set `LAKELATCH_DEBUG=1`. A closed pipe is not an error. `lakelatch --version` imports neither
pyarrow nor a store client.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any

from .. import __version__
from ..core.errors import LakelatchError
from .data import changes, follow, rows, system, upserts
from .frame.arguments import Parser, settle, storage_options_of
from .frame.completion import complete
from .frame.exit_codes import INTERRUPTED, MEANINGS, OK, PROBLEMS, USAGE, exit_code_of
from .frame.output import Output, print_error
from .inspect import checks, history, layout, outcomes, simulate
from .tables import alter, branches, catalog, tags
from .upkeep import clean, compact, consumers, maintenance, partitions, repair, rescale

ABOUT = "Read and write tables in the Apache Paimon format on plain object stores, with safe commits from many writers."
DEBUG = "LAKELATCH_DEBUG"


def build_parser() -> Parser:
    codes = "\n".join(f"  {code}  {meaning}" for code, meaning in MEANINGS.items())
    parser = Parser(
        prog="lakelatch",
        description=ABOUT,
        epilog=f"exit codes:\n{codes}\n\nSet {DEBUG}=1 to see the traceback of an error.",
    )
    parser.add_argument("--version", action="version", version=f"lakelatch {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command", parser_class=Parser)
    for group in (
        changes,
        upserts,
        alter,
        branches,
        rows,
        follow,
        history,
        layout,
        maintenance,
        clean,
        consumers,
        partitions,
        tags,
        compact,
        rescale,
        catalog,
        checks,
        repair,
        outcomes,
        simulate,
        system,
    ):
        group.register(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command, with the arguments after `lakelatch`, and return its exit code (see `exit_codes`)."""
    words = list(sys.argv[1:] if argv is None else argv)
    as_json = "--json" in words
    parser = build_parser()
    complete(parser)
    args: argparse.Namespace | None = None
    try:
        args = parser.parse_args(words)
        if args.command is None:
            parser.print_help(sys.stderr)
            return USAGE
        code: int = args.run(args, Output(as_json))
        settle(args)
        sys.stdout.flush()
        return code
    except SystemExit as asked:  # argparse's --help and --version
        return int(asked.code or OK)
    except LakelatchError as error:
        _tell(error, args, as_json)
        return exit_code_of(error)
    except BrokenPipeError:
        # The reader has closed the pipe. Redirect stdout, or the interpreter would report an error when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except Exception as error:
        message = f"{type(error).__name__}: {error}"
        _tell(LakelatchError(message, next_step=f"set {DEBUG}=1 to see where; please report this bug"), args, as_json)
        return PROBLEMS


def _tell(error: LakelatchError, args: argparse.Namespace | None, as_json: bool) -> None:
    redact = _redactor(args)
    if os.environ.get(DEBUG):
        import traceback

        print(redact(traceback.format_exc()), file=sys.stderr)
    print_error(error, redact, as_json)


def _redactor(args: argparse.Namespace | None) -> Any:
    """A function that removes the secrets in this run's storage options from a text."""
    if args is None or not getattr(args, "storage_option", None):
        return lambda text: text
    from ..backends.storage_options import StorageOptions

    try:
        return StorageOptions(storage_options_of(args)).redact
    except LakelatchError:
        return lambda text: text


if __name__ == "__main__":
    sys.exit(main())
