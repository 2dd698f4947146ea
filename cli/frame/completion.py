"""Names that the shell completes: branches, tags and consumers of the table on the line, tables and databases of a catalog.

Owns: what is offered for which argument. Must not know: what a command does. Invariants: nothing is imported or asked
unless the shell asks for names. A store that does not answer offers none, and the line stays as it is.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from .arguments import Parser, open_table_of, storage_options_of

Names = Callable[[argparse.Namespace, str], Iterable[str]]
ASKED = "_ARGCOMPLETE"


def complete(parser: Parser, **settings: Any) -> None:
    """Answer the shell and end the process, if the shell asks for names, and package argcomplete is there."""
    if ASKED not in os.environ:
        return
    try:
        import argcomplete
    except ImportError:
        return
    _attach(parser)
    argcomplete.autocomplete(parser, **settings)


def _attach(parser: argparse.ArgumentParser) -> None:
    command = parser.prog.split()[1:2]
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for further in {id(choice): choice for choice in action.choices.values()}.values():
                _attach(further)
        elif (
            names := _NAMES.get("".join(command) if action.dest in ("name", "new_name") else action.dest)
        ) is not None:
            action.completer = _completer(names)  # type: ignore[attr-defined]


def _completer(names: Names) -> Callable[..., list[str]]:
    def completed(prefix: str, parsed_args: argparse.Namespace, **more: Any) -> list[str]:
        try:
            return [name for name in names(parsed_args, prefix) if name.startswith(prefix)]
        except Exception:  # a table that is not there, a store that does not answer, a half-typed option
            return []

    return completed


def _branches(args: argparse.Namespace, prefix: str) -> Iterable[str]:
    found = open_table_of(argparse.Namespace(**{**vars(args), "branch": "main"})).branches()
    return ["main", *found]


def _tags(args: argparse.Namespace, prefix: str) -> Iterable[str]:
    return [tag.name for tag in open_table_of(args).tags()]


def _consumers(args: argparse.Namespace, prefix: str) -> Iterable[str]:
    return [consumer.name for consumer in open_table_of(args).consumers()]


def _databases(args: argparse.Namespace, prefix: str) -> Iterable[str]:
    from ...table.catalog.catalog import open_catalog

    return open_catalog(args.url, storage_options=storage_options_of(args)).databases()


def _locations(args: argparse.Namespace, prefix: str) -> Iterator[str]:
    """The databases below a URL, and the tables of a database. Files of this machine are left to the shell."""
    from ...table.catalog.catalog import open_catalog

    parent = prefix.rpartition("/")[0]
    if "://" not in prefix or parent.endswith(":/"):
        return
    options = storage_options_of(args)
    if parent.endswith(".db"):
        root, _, database = parent.removesuffix(".db").rpartition("/")
        yield from (f"{parent}/{table}" for table in open_catalog(root, storage_options=options).tables(database))
    else:
        yield from (f"{parent}/{name}.db/" for name in open_catalog(parent, storage_options=options).databases())


_NAMES: dict[str, Names] = {
    "branch": _branches,
    "tag": _tags,
    "consumer": _consumers,
    "database": _databases,
    "url": _locations,
}
"""By the argument, or, for an argument that is only called a name, by the command."""
