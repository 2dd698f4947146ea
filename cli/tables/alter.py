"""The command `alter`.

Owns: its arguments, and how the difference of two schemas is shown. Must not know: which changes the format allows (see
`core.metadata.schema_changes`). Invariants: all changes of one run become one new schema, in the order in which they
are given. Without `--apply` it only shows the difference.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ...core.errors import InvalidArgument
from ..data.changes import column_of, named
from ..frame.arguments import Commands, add_branch, add_command, open_table_of
from ..frame.exit_codes import OK
from ..frame.output import Output
from ..upkeep.maintenance import add_apply

if TYPE_CHECKING:
    from ...core.metadata.schema import TableSchema
    from ...core.metadata.schemas.changes import SchemaChange

_ARGUMENTS = {
    "--add-column": ("NAME:TYPE", "add a column, such as delay:DOUBLE; `st.b:INT` adds a field to the ROW st"),
    "--rename": ("OLD=NEW", "rename a column"),
    "--drop": ("NAME", "drop a column"),
    "--type": ("NAME:TYPE", "change the type of a column; existing values are cast when they are read"),
    "--nullable": ("NAME", "let a column be null"),
    "--not-null": ("NAME", "let a column not be null"),
    "--default": ("NAME=VALUE", "the default of a column; an empty VALUE removes it"),
    "--column-comment": ("NAME=TEXT", "the comment of a column; an empty TEXT removes it"),
    "--move": ("NAME=WHERE", "move a column: WHERE is first, last, after:OTHER or before:OTHER"),
    "--set": ("K=V", "set a table option"),
    "--unset": ("K", "remove a table option, so that its default applies"),
    "--comment": ("TEXT", "the comment of the table; an empty TEXT removes it"),
}


def register(commands: Commands) -> None:
    parser = add_command(
        commands,
        "alter",
        alter,
        "Change columns, options or comments. No data file is rewritten, and jobs that write meanwhile go on. Every option can be"
        " given several times; together they become one new schema. Shows the difference; --apply makes it.",
        "lakelatch alter s3://lake/flights --add-column arr_delay:DOUBLE --rename carrier=airline\n"
        "lakelatch alter s3://lake/flights --set 'target-file-size=256 mb' --apply",
    )
    add_branch(parser)
    for argument, (shown, about) in _ARGUMENTS.items():
        parser.add_argument(argument, action=_InOrder, dest="changes", default=[], metavar=shown, help=about)
    parser.add_argument(
        "--force", action="store_true", help="with --type: do not check that the stored values are kept"
    )
    parser.add_argument(
        "--allow-unknown",
        action="store_true",
        help="with --set: accept options that neither lakelatch nor Apache Paimon knows",
    )
    add_apply(parser)


class _InOrder(argparse.Action):
    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        setattr(namespace, self.dest, [*getattr(namespace, self.dest), (option_string, values)])


def alter(args: argparse.Namespace, output: Output) -> int:
    from ...coordinator.stored_values import StoredValues
    from ...core.metadata.schemas.changes import changed
    from ...core.metadata.schemas.layout import held_files

    if not args.changes:
        raise InvalidArgument("no change is given", next_step="see `lakelatch alter --help`")
    changes = [_change(argument, value, args) for argument, value in args.changes]
    table = open_table_of(args)
    before = table.schema
    if args.apply:
        after = table.alter(*changes)
    else:
        # The answer may be another one later: --apply decides on the schema that is the newest then.
        latest, now_ms = table.snapshot(), int(time.time() * 1000)
        check = StoredValues(table.timeline, latest).check
        after = changed(before, changes, has_snapshots=held_files(latest), time_ms=now_ms, check_values=check)
    differences = list(_differences(before, after))
    if output.as_json:
        from ..inspect.layout import schema_record

        told = {"applied": args.apply, "url": table.url, "before": before.id, "changes": differences}
        output.record({**told, **schema_record(after)})
        return OK
    for difference in differences:
        output.line(_line(difference))
    if not args.apply:
        output.note("nothing was changed; use --apply to make this schema " + str(after.id))
    else:
        output.line(f"{table.url}: schema {after.id}")
    return OK


# -------------------------------------------------------------------------------------------------------- the changes


def _change(argument: str, value: str, args: argparse.Namespace) -> SchemaChange:
    from ...core.metadata.schemas import changes as of

    def pair() -> tuple[str, str]:
        name, equals, rest = value.partition("=")
        if not equals or not name.strip():
            shown = _ARGUMENTS[argument][0]
            raise InvalidArgument(f"{argument} {value!r} is not {shown}", next_step=f"write {argument} {shown}")
        return name.strip(), rest

    def move() -> SchemaChange:
        name, where = pair()
        place, _, other = where.partition(":")
        if place in ("first", "last") and not other:
            return of.move_column(name, first=place == "first")
        if place == "after" and other:
            return of.move_column(name, after=other)
        if place == "before" and other:
            return of.move_column(name, before=other)
        raise InvalidArgument(
            f"{argument} {value!r}: {where!r} is no place", next_step="write first, last, after:OTHER or before:OTHER"
        )

    made: dict[str, Callable[[], SchemaChange]] = {
        "--add-column": lambda: of.add_column(*column_of(value, argument)),
        "--rename": lambda: of.rename_column(*pair()),
        "--drop": lambda: of.drop_column(value),
        "--type": lambda: of.update_type(*named(value, argument), force=args.force),
        "--nullable": lambda: of.update_nullability(value, True),
        "--not-null": lambda: of.update_nullability(value, False),
        "--default": lambda: of.update_default(pair()[0], pair()[1] or None),
        "--column-comment": lambda: of.update_comment(pair()[0], pair()[1] or None),
        "--move": move,
        "--set": lambda: of.set_option(*pair(), allow_unknown=args.allow_unknown),
        "--unset": lambda: of.remove_option(value),
        "--comment": lambda: of.set_comment(value or None),
    }
    return made[argument]()


# ----------------------------------------------------------------------------------------------------- the difference


def _differences(before: TableSchema, after: TableSchema) -> Iterator[dict[str, Any]]:
    """What is different, with stable keys: `what`, `name`, `before` and `after`. Columns are compared by field id."""
    from ...core.rows.types import sql, walk_fields

    def told(schema: TableSchema) -> dict[int, dict[str, Any]]:
        return {
            f.id: {"name": f.name, "type": sql(f.type), "comment": f.description, "default": f.default_value}
            for f in walk_fields(schema.fields)
        }

    old, new = told(before), told(after)
    for number, column in old.items():
        if number not in new:
            yield {"what": "dropped column", "name": column["name"], "before": column["type"], "after": None}
            continue
        for part in ("name", "type", "comment", "default"):
            if column[part] != new[number][part]:
                was, became = column[part], new[number][part]
                yield {"what": f"column {part}", "name": column["name"], "before": was, "after": became}
    for number, column in new.items():
        if number not in old:
            yield {"what": "added column", "name": column["name"], "before": None, "after": column["type"]}
    order, now = ([f.name for f in s.fields if f.id in old and f.id in new] for s in (before, after))
    if [f.id for f in before.fields if f.id in new] != [f.id for f in after.fields if f.id in old]:
        yield {"what": "column order", "name": None, "before": ", ".join(order), "after": ", ".join(now)}
    for key in sorted(before.option_texts.keys() | after.option_texts.keys()):
        was, became = before.option_texts.get(key), after.option_texts.get(key)
        if was != became:
            yield {"what": "option", "name": key, "before": was, "after": became}
    if before.comment != after.comment:
        yield {"what": "table comment", "name": None, "before": before.comment, "after": after.comment}


def _line(difference: dict[str, Any]) -> str:
    what, name, was, became = (difference[key] for key in ("what", "name", "before", "after"))
    head = what if name is None else f"{what} {name}"
    if what in ("added column", "dropped column"):
        return f"{head}: {became or was}"
    return f"{head}: {'none' if was is None else was} -> {'none' if became is None else became}"
