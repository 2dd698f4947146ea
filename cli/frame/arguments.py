"""Arguments that several commands share, and how their values are parsed.

Owns: the argument parser, which reports errors as `InvalidArgument`; `k=v` pairs; opening the table at a URL. Must not
know: individual commands. Invariant: a secret on the command line never appears in a message (H19).
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from ...core.errors import InvalidArgument
from ...core.json_text import loads

if TYPE_CHECKING:
    from ...backends.store import Store
    from ...table.table import Table

Commands = Any

_NO_CHOICE = re.compile(r"invalid choice: '([^']*)'")
_PAIR = re.compile(r"([\w.-]+)=\S+")


class Parser(argparse.ArgumentParser):
    """A parser that raises `InvalidArgument` and hides the values of secrets.

    Attributes:
        actions: the words of which one says what a command does, such as `create` and `list`; it and the URL may change places.
        url_first: this parser takes the URL before such a word.
    """

    actions: Collection[str] = ()
    url_first = False

    def __init__(self, **settings: Any) -> None:
        settings.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(allow_abbrev=False, **settings)

    def add_actions(self) -> Commands:
        """Give a command commands of its own: `tag create URL`, which is understood as `tag URL create` too."""
        commands = self.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=Parser)
        self.actions = commands.choices
        return commands

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        words = list(args or ())
        if len(words) > 1 and (words[1 - self.url_first] in self.actions) > (words[self.url_first] in self.actions):
            words[:2] = words[1], words[0]
        return super().parse_known_args(words, namespace)

    def error(self, message: str) -> NoReturn:
        from ...backends.storage_options import HIDDEN, is_secret

        def shown(found: re.Match[str]) -> str:
            return f"{found[1]}={HIDDEN}" if is_secret(found[1]) else found[0]

        see = f"see `{self.prog} --help`"
        raise InvalidArgument(_PAIR.sub(shown, message), next_step=f"{self._meant(message)}{see}")

    def _meant(self, message: str) -> str:
        """What a word that is none of the choices stands for: a command of another tool, or the choice that it is closest to."""
        found = _NO_CHOICE.search(message)
        of_commands = (action.choices for action in self._actions if isinstance(action, argparse._SubParsersAction))
        commands = next(of_commands, None)
        if found is None or commands is None:
            return ""
        from difflib import get_close_matches

        from ...core.other_names import COMMANDS

        here = COMMANDS.get(found[1], "")
        if here.split(" ")[0] in commands:
            return f"here it is {here}; "
        return next((f"did you mean {word!r}? " for word in get_close_matches(found[1], commands, n=1)), "")


def add_command(
    commands: Commands,
    name: str,
    run: Any,
    about: str,
    example: str,
    url: str = "where the table is: a path, s3://bucket/path, …",
    aliases: Sequence[str] = (),
) -> Parser:
    """Add a command with the arguments that all commands share.

    Args:
        run: called with the parsed arguments and the output; returns the exit code.
        about: its first sentence appears in the list of commands.
        example: one or more command lines.
        url: what the first argument is.
    """
    epilog = "example:\n  " + example.replace("\n", "\n  ")
    parser: Parser = commands.add_parser(
        name,
        aliases=aliases,
        help=about.partition(". ")[0].rstrip("."),
        description=about,
        epilog=epilog,
    )
    parser.set_defaults(run=run)
    parser.add_argument("url", metavar="URL", help=url)
    parser.add_argument("--json", action="store_true", help="print JSON with stable keys: one object, or one per line")
    parser.add_argument(
        "--storage-option",
        action="append",
        default=[],
        metavar="K=V",
        help="a storage option (repeatable), such as endpoint_url=http://host:9000; the value may be JSON",
    )
    return parser


def add_where(
    parser: Parser, about: str = "only rows for which this is true, as in SQL", metavar: str = "TEXT"
) -> None:
    """Add a condition, and the zone of the dates and times in it."""
    parser.add_argument("--where", metavar=metavar, help=about)
    told = "the zone of dates, and of times without one, where a column counts points in time: Europe/Berlin, +02:00"
    parser.add_argument("--time-zone", metavar="ZONE", help=told)


def in_zone_of(args: argparse.Namespace, text: str | None) -> Any:
    from ...core.expressions.zones import in_zone

    return text if text is None or args.time_zone is None else in_zone(text, args.time_zone)


def where_of(args: argparse.Namespace) -> Any:
    return in_zone_of(args, args.where)


def add_branch(parser: Parser) -> None:
    parser.add_argument("--branch", default="main", metavar="NAME", help="the branch of the table (default: main)")


def add_travel(parser: Parser, required: bool = False, watermark: bool = False) -> None:
    """The options that choose a snapshot. Without one, the newest is used, unless `required` is set."""
    which = parser.add_mutually_exclusive_group(required=required)
    which.add_argument("--snapshot", type=int, metavar="N", help="as of this snapshot")
    which.add_argument("--tag", metavar="NAME", help="as of this tag")
    which.add_argument("--timestamp", metavar="TIME", help="as of this time: ISO text with a zone, or ms since 1970")
    if watermark:
        told = "as of the first snapshot with this watermark or a later one, in the same forms"
        which.add_argument("--watermark", metavar="TIME", help=told)


def pairs(texts: Sequence[str], argument: str) -> dict[str, str]:
    """Raises InvalidArgument where a text has no `=`, or a name occurs twice; never shows a value.

    >>> pairs(["a=1", "b=x=y"], "--option")
    {'a': '1', 'b': 'x=y'}
    """
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise InvalidArgument(f"{argument} takes name=value", next_step=f"write {argument} name=value")
        if name in found:
            raise InvalidArgument(f"{argument} {name} is given more than once")
        found[name] = value
    return found


def names(text: str | None) -> list[str] | None:
    return None if text is None else [part.strip() for part in text.split(",") if part.strip()]


def storage_options_of(args: argparse.Namespace) -> dict[str, Any]:
    """The storage options. `true`, `false`, and values that begin with `{` or `[` are parsed as JSON; others stay text."""
    found: dict[str, Any] = {}
    for name, text in pairs(args.storage_option, "--storage-option").items():
        found[name] = text
        if text in ("true", "false") or text[:1] in ("{", "["):
            try:
                found[name] = loads(text)
            except ValueError:
                raise InvalidArgument(f"the value of --storage-option {name} is not valid JSON") from None
    return found


def open_store_of(args: argparse.Namespace) -> Store:
    from ...backends.registry import open_store

    return open_store(args.url, storage_options_of(args))


def open_table_of(args: argparse.Namespace) -> Table:
    from ...table.create import open_table

    table = open_table(args.url, branch=getattr(args, "branch", "main"), storage_options=storage_options_of(args))
    args.opened = [*getattr(args, "opened", []), table]
    return table


def settle(args: argparse.Namespace) -> None:
    """Wait for what follows the commits of a command, so that it is done when the command ends."""
    for table in getattr(args, "opened", ()):
        table.settle()


def open_as_of(args: argparse.Namespace) -> Table:
    table = open_table_of(args)
    given: Mapping[str, Any] = {
        "snapshot": args.snapshot,
        "tag": args.tag,
        "timestamp": moment_of(args.timestamp),
        "watermark": moment_of(getattr(args, "watermark", None)),
    }
    if all(value is None for value in given.values()):
        return table
    return table.at(**given)


WHEN = "how long ago ('7 d'), ISO text with a zone, or ms since 1970"


def moment_of(text: str | None) -> str | int | None:
    """Parse a time: a number is milliseconds since 1970, anything else stays text."""
    return int(text) if text is not None and re.fullmatch(r"-?\d+", text) else text


def add_commit(parser: Parser, about: str) -> None:
    parser.add_argument("snapshot", type=int, nargs="?", metavar="SNAPSHOT", help=about)
    parser.add_argument(
        "--user", metavar="NAME", help="in its place: the commit user, of one commit of several in a snapshot, too"
    )
    parser.add_argument(
        "--identifier", type=int, metavar="N", help="with --user: the identifier, if the commit has one"
    )


def commit_of(args: argparse.Namespace) -> int | tuple[str, int | None] | None:
    if args.user is not None and args.snapshot is not None:
        raise InvalidArgument("a commit is named by SNAPSHOT or by --user, not by both")
    if args.identifier is not None and args.user is None:
        raise InvalidArgument("--identifier needs --user")
    snapshot: int | None = args.snapshot
    return snapshot if args.user is None else (args.user, args.identifier)
