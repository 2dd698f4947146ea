"""Which tables a query reads, and where their names stand.

Owns: `query_of`. Must not know: what becomes of the tables. Source: decision 123.

sqlglot's parser says which names are tables, and not common table expressions, aliases, columns or functions. It gets the query
with everything that it need not understand covered by names and blanks of the same length: names in several parts (whose parts
may be words of SQL), time travel, options. So what it takes for a table has the place of a table in the statement.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from .pieces import Name, Query, TableUse, Travel
from .reader import Reader, Stray

Span = tuple[int, int]
"""The numbers of a first word and of the word after the last one."""
_COVER = "z"
_BEHIND_TABLES = frozenset("FOR VERSION SYSTEM_VERSION TIMESTAMP SYSTEM_TIME @ WITH".split())
"""What time travel and options begin with."""
_BEFORE_QUERIES = ("AS", "ALL", "DISTINCT", "UNION", "EXCEPT", "INTERSECT", "MINUS", "EXISTS", "IN", ")")


class Unparsed(Exception):
    """sqlglot does not understand the query; `names` are those in several parts, and those that travel in time."""

    def __init__(self, said: str, names: Sequence[Name]) -> None:
        super().__init__(said)
        self.names = tuple(names)


@dataclass
class _Cover:
    """What was covered: names by their first place, and what comes after a name, by the place where the name ends."""

    text: list[str]
    names: dict[int, Name] = field(default_factory=dict)
    travels: dict[int, tuple[Travel, int]] = field(default_factory=dict)
    options: dict[int, tuple[dict[str, str], int]] = field(default_factory=dict)

    def blank(self, start: int, end: int) -> None:
        self.text[start:end] = " " * (end - start)


def query_of(
    reader: Reader,
    spans: Sequence[Span],
    *,
    select_at: int | None = None,
    formatted: bool = False,
    what: str = "SELECT",
) -> Query:
    """The query that some stretches of a statement are.

    Args:
        select_at: the place before which `SELECT * FROM` is put, over blanks.
        formatted: do braces hold what Python's caller of `sql` has named?

    Raises:
        Unparsed: it names tables, perhaps, but which ones is not understood.
    """
    text = _blanked(reader, spans, select_at)
    cover = _covered(reader, spans, text, formatted)
    several = [name for name in cover.names.values() if len(name.parts) > 1]
    tables, aliases = _parsed(cover, reader)
    uses = tuple(_use(reader, cover, found) for found in tables if found.start in cover.names)
    taken = {use.start for use in uses}
    return Query(text, uses, tuple(name for name in several if name.start not in taken), what, aliases=aliases)


def _blanked(reader: Reader, spans: Sequence[Span], select_at: int | None) -> str:
    sql, parts, last = reader.sql, list[str](), 0
    for first, after in spans:
        if first >= after:
            continue
        start, end = reader.words[first].start, reader.words[after - 1].end
        parts += [re.sub(r"[^\n]", " ", sql[last:start]), sql[start:end]]
        last = end
    text = "".join(parts)
    if select_at is not None:
        said = "SELECT * FROM "
        assert not text[select_at - len(said) : select_at].strip(), "there is no room for SELECT"
        text = f"{text[: select_at - len(said)]}{said}{text[select_at:]}"
    return text


# ------------------------------------------------------------------------------------------------------------ covering


def _covered(reader: Reader, spans: Sequence[Span], text: str, formatted: bool) -> _Cover:
    cover = _Cover(list(text))
    before = reader.at
    for first, after in spans:
        reader.at = first
        while reader.at < after:
            word = reader.peek()
            if word.raw == "{" and formatted:
                end = next((w.end for w in reader.words[reader.at : after] if w.raw == "}"), word.end)
                cover.text[word.start : end] = _COVER * (end - word.start)
                while reader.at < after and reader.peek().end <= end:
                    reader.at += 1
            elif word.kind == "hint":
                cover.blank(word.start, word.end)
                reader.at += 1
            elif word.raw == "." and _begins_number(reader, reader.at):  # .5, which is no number to sqlglot's dialect
                cover.text[word.start : reader.peek(1).end] = "1".ljust(reader.peek(1).end - word.start)
                reader.at += 2
            elif word.upper == "TABLE" and not _follows_dot(reader) and _whole_table(reader, first):
                _cover_table(reader, cover)
            elif word.is_name and not _follows_dot(reader):
                if _begins_number(reader, reader.at + 1):
                    reader.at += 1
                else:
                    _cover_name(reader, cover)
            else:
                reader.at += 1
    reader.at = before
    return cover


def _begins_number(reader: Reader, at: int) -> bool:
    """Is there a dot that a number begins with? One behind a name without space is of the name."""
    words = reader.words
    if at + 1 >= len(words) or words[at].raw != ".":
        return False
    before, dot, after = words[at - 1] if at else None, words[at], words[at + 1]
    if after.kind != "number" or after.start != dot.end:
        return False
    return before is None or before.end < dot.start or before.kind == "sign"


def _follows_dot(reader: Reader) -> bool:
    return reader.at > 0 and reader.peek(-1).raw == "."


def _cover_name(reader: Reader, cover: _Cover) -> None:
    first = reader.at
    try:
        name = reader.name()
    except Stray:  # such as t.*
        reader.at = first
        name = _name_before_star(reader)
    covers = len(name.parts) > 1 or reader.at - first > 1
    if covers:
        cover.text[name.start : name.end] = _COVER * (name.end - name.start)
    cover.names[name.start] = name
    after = reader.at
    if reader.ended or reader.peek().raw.upper() not in _BEHIND_TABLES:
        return
    try:
        travel = reader.travel()
    except Stray:
        travel, reader.at = None, after
    if travel is not None:
        cover.travels[name.end] = (travel, reader.words[reader.at - 1].end)
        cover.blank(reader.words[after].start, reader.words[reader.at - 1].end)
    _cover_options(reader, cover, name)


def _whole_table(reader: Reader, first: int) -> bool:
    """Is this `TABLE name` or `TABLE(name)`, and no column of that name? `first` is the number of the query's first word."""
    at = reader.at + 1 + (reader.at + 1 < len(reader.words) and reader.words[reader.at + 1].raw == "(")
    before = reader.words[reader.at - 1] if reader.at else None
    begins = before is None or reader.at == first or before.raw in ("(", ",", "=>") or before.upper in _BEFORE_QUERIES
    return begins and at < len(reader.words) and reader.words[at].is_name


def _cover_table(reader: Reader, cover: _Cover) -> None:
    """`TABLE name` is no query to sqlglot, and `FROM name`, which is shorter by a letter, is one."""
    start = reader.next().start
    if reader.takes("("):
        cover.text[start : reader.peek(-1).end] = "(FROM".ljust(reader.peek(-1).end - start)
    else:
        cover.text[start : start + len("TABLE")] = "FROM "
    _cover_name(reader, cover)


def _name_before_star(reader: Reader) -> Name:
    start = reader.peek().start
    parts = [reader.part()]
    while reader.sees(".") and reader.at + 1 < len(reader.words) and reader.peek(1).is_name:
        reader.at += 1
        parts.append(reader.part())
    return Name(tuple(parts), start, reader.peek(-1).end)


def _cover_options(reader: Reader, cover: _Cover, name: Name) -> None:
    at = reader.at
    if not reader.takes("WITH", "("):
        return
    try:
        if reader.peek().kind != "text":
            raise Stray
        reader.at -= 1
        options = reader.pairs()
    except Stray:
        reader.at = at
        return
    end = reader.words[reader.at - 1].end
    cover.options[name.end] = (options, end)
    cover.blank(reader.words[at].start, end)


# ------------------------------------------------------------------------------------------------------------- parsing


@dataclass(frozen=True)
class _Found:
    start: int
    aliased: bool
    scope: int


def _parsed(cover: _Cover, reader: Reader) -> tuple[list[_Found], frozenset[str]]:
    """The tables, in the order of their places, and the other names. Time travel behind what is no table was none."""
    try:
        found, aliases = _tables("".join(cover.text))
    except _parse_errors() as error:
        first: Exception | None = error
    else:
        first = None
        ends = {cover.names[f.start].end for f in found if f.start in cover.names}
        if cover.travels.keys() <= ends and cover.options.keys() <= ends:
            return found, aliases
    for covered in (cover.travels, cover.options):
        for name_end, (_, end) in list(covered.items()):
            if first is not None or name_end not in ends:
                cover.text[name_end:end] = reader.sql[name_end:end]
                del covered[name_end]
    try:
        return _tables("".join(cover.text))
    except _parse_errors() as error:
        said = str(first or error).partition("\n")[0].partition(". Line ")[0]
        names = [n for n in cover.names.values() if len(n.parts) > 1]
        raise Unparsed(said, names) from error


def _parse_errors() -> tuple[type[Exception], ...]:
    from sqlglot.errors import SqlglotError

    return (SqlglotError, RecursionError)


def _tables(text: str) -> tuple[list[_Found], frozenset[str]]:
    import sqlglot
    from sqlglot import exp

    logger = logging.getLogger("sqlglot")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        trees = sqlglot.parse(text, dialect="spark")
    finally:
        logger.setLevel(level)
    found: dict[int, _Found] = {}
    aliases: set[str] = set()
    scopes: dict[int, int] = {}
    for tree in trees:
        if tree is None:
            continue
        for table in tree.find_all(exp.Table, exp.TableAlias, exp.Command):
            if isinstance(table, exp.Command):
                raise sqlglot.ParseError("a statement of a form that is not known")
            if isinstance(table, exp.TableAlias):
                aliases.add(table.name.lower())
                continue
            identifier = table.this
            if not isinstance(identifier, exp.Identifier) or "start" not in identifier.meta:
                continue
            start = identifier.meta["start"]
            if not _is_common(table, exp):
                aliased = table.args.get("alias") is not None
                select = id(table.find_ancestor(exp.Select))
                found[start] = _Found(start, aliased, scopes.setdefault(select, len(scopes)))
    return [found[start] for start in sorted(found)], frozenset(aliases)


def _is_common(table: Any, exp: Any) -> bool:
    """Does the name mean a common table expression that is in sight?"""
    return any(cte.alias.lower() == table.name.lower() for cte in _in_sight(table, exp))


def _in_sight(node: Any, exp: Any) -> Iterator[Any]:
    before, own = node, None
    while before.parent is not None:
        parent = before.parent
        if isinstance(parent, exp.With):
            number = next(i for i, cte in enumerate(parent.expressions) if cte is before)
            yield from parent.expressions[: number + bool(parent.args.get("recursive"))]
            own = parent
        else:
            having = next((v for k, v in parent.args.items() if k in ("with", "with_") and v is not None), None)
            if having is not None and having is not own:
                yield from having.expressions
        before = parent


def _use(reader: Reader, cover: _Cover, found: _Found) -> TableUse:
    name = cover.names[found.start]
    travel, end = cover.travels.get(name.end, (None, name.end))
    options, end = cover.options.get(name.end, (None, end))
    number = next(i for i, word in enumerate(reader.words) if word.start == name.start)
    before = [word.upper for word in reader.words[max(0, number - 2) : number]]
    forbidden = before[-1:] == ["TABLE"] or before == ["TABLE", "("]
    return TableUse(
        name, name.start, end, found.aliased or forbidden, _alias_at(reader, end), travel, found.scope, options
    )


def _alias_at(reader: Reader, end: int) -> int:
    """Behind TABLESAMPLE (…) REPEATABLE (…), which Spark wants before another name."""
    before = reader.at
    reader.at = next((i for i, word in enumerate(reader.words) if word.start >= end), len(reader.words))
    for word in ("TABLESAMPLE", "REPEATABLE"):
        if reader.sees(word, "("):
            reader.at += 1
            reader.skip_parentheses()
            end = reader.words[reader.at - 1].end
    reader.at = before
    return end
