"""Queries that read tables of ours: Spark gets the text with frames in place of the tables' names.

Owns: `frame_of`, and what becomes of names, time travel, and the parameters of a part of a statement. Must not know: how a text
is understood, how rows are written. Source: decision 123.

A frame goes into a text by the placeholders of `spark.sql(text, name=frame)`, which Spark itself turns into views that end with
the planning of the statement (classic), or into a part of the plan (Connect). So a frame shows one snapshot, and nothing is
left behind. Invariant: everything else of the text reaches Spark as it was written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.errors import AnalysisException

from ...core.errors import InvalidArgument, LakelatchError, TableNotFound, Unsupported
from ..grammar.pieces import Name, Query, TableUse, Travel
from ..grammar.words import at, words_of
from ..options.source_options import SourceOptions
from ..reading.scan import read
from .errors import TableMissing
from .names import SPARKS_CATALOG, Located
from .run import Run
from .texts import quoted_name

_PLACEHOLDER = "lakelatch_{}"
_OF_SPARKS_CATALOG = re.compile(rf"RelationV2\[.*\] {SPARKS_CATALOG}\.")
"""In the text of a plan: a relation of a source of version 2, by its name in Spark's own catalog."""
_Meant = dict[str, tuple[int, set[int]]]
"""What a name in several parts begins with: by a table's last part, how many parts that are, and the places of the table."""
_LINE = "\n"
_TAG_OF_WATERMARK = re.compile(r"watermark-(\d+)")


def frame_of(run: Run, query: Query) -> Any:
    """The frame of a query; that of a statement which Spark carries out, such as CREATE TABLE in its own catalog."""
    return by_own_scan(run, query, _planned(run, query, *replaced(run, query)))


def _planned(run: Run, query: Query, text: str, frames: Mapping[str, Any]) -> Any:
    return run.sparks(text, arguments_of(run, query.text), **run.named, **frames)


def by_own_scan(run: Run, query: Query, planned: Any) -> Any:
    """The frame of a query, planned by Spark, with our scan in place of the data source for tables of Spark's own catalog.

    What our scan cannot do, such as the option `timeZone`, is left to the data source: then the frame is as it was.
    """
    if query.what != Query.what or not reads_by_source(planned):
        return planned
    try:
        text, frames = replaced(run, query, everywhere=True)
        return _planned(run, query, text, frames) if frames else planned
    except (LakelatchError, AnalysisException):
        return planned


def reads_by_source(frame: Any) -> bool:
    """May a classic frame read tables of Spark's own catalog by a data source of version 2, as ours is, and not from its cache?

    Nothing is known of a frame of Spark Connect before it runs.
    """
    if getattr(frame, "_jdf", None) is None:
        return False
    execution = frame._jdf.queryExecution()
    return (
        _OF_SPARKS_CATALOG.search(_relations(execution.analyzed())) is not None
        and not frame.isStreaming
        and _OF_SPARKS_CATALOG.search(_relations(execution.withCachedData())) is not None
    )


def _relations(plan: Any) -> str:
    """The text of a plan's relations, those of its subqueries among the rest of these."""
    return f"{plan.collectLeaves().mkString(_LINE)}{_LINE}{plan.subqueriesAll().mkString(_LINE)}"


def replaced(run: Run, query: Query, everywhere: bool = False) -> tuple[str, dict[str, Any]]:
    """The text for `spark.sql`, and the frames for the placeholders in it; no frames if it names no table of ours.

    Args:
        everywhere: are tables of Spark's own catalog replaced, too, which its data source can read as well?
    """
    found = [(use, located) for use in query.tables if (located := located_for(run, use, everywhere)) is not None]
    if not found:
        return query.text, {}
    if query.persists:
        raise Unsupported(
            f"{query.what} over {found[0][1].name}, {at(run.text, found[0][0].start)}: Spark would run the text again later, and"
            " cannot know the table",
            next_step="CREATE TEMPORARY VIEW name AS SELECT …, which shows the rows of now",
        )
    whole = {ref: meant for ref in query.references if (meant := _meant(query, ref, found))}
    aliases = _aliases(run, query, found, whole)
    frames: dict[str, Any] = {}
    changes: list[tuple[int, int, str]] = []
    for number, (use, located) in enumerate(found):
        name = _PLACEHOLDER.format(number)
        frames[name] = frame_at(run, located, use)
        changes.append((use.start, use.end, f"{{{name}}}"))
        if not use.aliased:
            changes.append((use.alias_at, use.alias_at, f" AS {_literal(aliases[use.start])}"))
    changes += [_requalified(run, reference, meant, aliases) for reference, meant in whole.items()]
    return _spliced(query.text, changes, formatted=bool(run.named)), frames


def located_for(run: Run, use: TableUse, everywhere: bool = False) -> Located | None:
    """The table of ours that is read. One of Spark's catalog is found if it is to travel in time, or `everywhere`."""
    known = run.names.locate if everywhere or use.travel is not None else run.names.in_warehouse
    return known(use.name)


def frame_at(run: Run, located: Located, use: TableUse) -> Any:
    """The rows of a table, as a place of a statement asks for them."""
    options = SourceOptions({**located.options, **(use.options or {})})
    options.check_batch("read")
    if options.changes is not None:
        raise Unsupported(
            f"option 'incremental-between' on {located.name}, {at(run.text, use.start)}",
            next_step="make a view of lakelatch.spark.changes(spark, url, start, end)",
        )
    moment: dict[str, Any] = {
        "snapshot": options.snapshot,
        "tag": options.tag,
        "timestamp": _millis_or_text(options.timestamp),
        "watermark": _millis_or_text(options.watermark),
    }
    if options.zone is not None:
        raise Unsupported(
            f"option 'timeZone' on {located.name}, {at(run.text, use.start)}: times are those of the session",
            next_step="SET spark.sql.session.timeZone, or write the zone behind the time",
        )
    if use.travel is not None:
        if any(value is not None for value in moment.values()):
            raise InvalidArgument(
                f"{located.name}, {at(run.text, use.start)}: two moments are named", next_step="name one"
            )
        moment = moment_of(run, use.travel)
    try:
        return _read(run, located, options, moment)
    except TableNotFound as error:
        raise TableMissing(located.name, error.message) from error


def _read(run: Run, located: Located, options: SourceOptions, moment: Mapping[str, Any]) -> Any:
    return read(
        run.session,
        located.url,
        columns=options.columns,
        where=options.where,
        system=located.system or options.system,
        storage_options=located.storage_options,
        branch=located.branch if options.branch == located.branch else options.branch,
        **moment,
    )


def _millis_or_text(given: str | None) -> int | str | None:
    return int(given) if given is not None and given.lstrip("-").isdigit() else given


def moment_of(run: Run, travel: Travel) -> dict[str, Any]:
    """`snapshot`, `tag`, `timestamp` or `watermark` for `read`, as VERSION AS OF or TIMESTAMP AS OF says it.

    A version of digits alone is the id of a snapshot, with or without quotes.
    """
    if travel.kind == "version":
        said = _version(run, travel.value.text)
        if said.isdigit():
            return {"snapshot": int(said)}
        mark = _TAG_OF_WATERMARK.fullmatch(said)
        return {"tag": said} if mark is None else {"watermark": int(mark[1])}
    text = travel.value.text
    if any(word.raw == "?" for word in words_of(text)):
        raise Unsupported(
            f"? in TIMESTAMP AS OF, {at(run.text, travel.value.start)}", next_step="use a named parameter, :name"
        )
    millis = run.sparks(f"SELECT unix_millis(CAST({text} AS TIMESTAMP))", run.arguments, **run.named).collect()[0][0]
    if millis is None:
        raise InvalidArgument(f"TIMESTAMP AS OF {text}, {at(run.text, travel.value.start)}: it is no time")
    return {"timestamp": millis}


def _version(run: Run, text: str) -> str:
    """What VERSION AS OF names: a number, a text, or a parameter."""
    if text.startswith(":"):
        return str(run.sparks(f"SELECT {text} AS v", run.arguments, **run.named).first()[0])
    (word,) = words_of(text)
    return word.value


def arguments_of(run: Run, text: str) -> Any:
    """The arguments of a part of the statement: of positional ones, those whose marks are in it."""
    if not isinstance(run.arguments, list) or text == run.text:
        return run.arguments
    places = [word.start for word in words_of(run.text) if word.raw == "?"]
    return [value for value, place in zip(run.arguments, places, strict=False) if text[place : place + 1] == "?"]


# ------------------------------------------------------------------------------------------------------------- names


def _aliases(
    run: Run, query: Query, found: Sequence[tuple[TableUse, Located]], whole: Mapping[Name, _Meant]
) -> dict[int, str]:
    """By the place of a table without another name: the name that it gets.

    It is the last part of its own, unless its neighbour has that too, or something else of the statement is called so, which
    `lake.air.flights.month` does not mean. `whole` are such references, and what they mean.

    Raises:
        InvalidArgument: the statement also says `flights.month`, which may mean either.
    """
    tables: dict[str, set[str]] = {}
    neighbours: dict[tuple[int, str], set[str]] = {}
    for use, located in found:
        if not use.aliased:
            last = use.name.parts[-1].lower()
            tables.setdefault(last, set()).add(located.name)
            neighbours.setdefault((use.scope, last), set()).add(located.name)
    named = {name for meant in whole.values() for name in meant}
    unsure = {name for name in named if len(tables[name]) > 1 or _is_anothers(query, name, found)}
    for ref in query.references:
        if ref not in whole and ref.parts[0].lower() in unsure:
            raise InvalidArgument(
                f"{ref}, {at(run.text, ref.start)}, may mean several tables",
                next_step=f"give them other names: FROM {min(tables[ref.parts[0].lower()])} AS a",
            )
    aliases = {}
    for use, located in found:
        if not use.aliased:
            last = use.name.parts[-1]
            own = len(neighbours[use.scope, last.lower()]) == 1 and last.lower() not in unsure
            aliases[use.start] = last if own else located.name.replace(".", "_")
    return aliases


def _is_anothers(query: Query, name: str, found: Sequence[tuple[TableUse, Located]]) -> bool:
    """Has a query, or a table that is not ours, this name too?"""
    ours = {use.start for use, _ in found}
    others = (use.name.parts[-1].lower() for use in query.tables if use.start not in ours and not use.aliased)
    return name in query.aliases or name in others


def _meant(query: Query, reference: Name, found: Sequence[tuple[TableUse, Located]]) -> _Meant:
    """Which tables `lake.air.flights.month` and `air.flights.*` begin with."""
    meant: _Meant = {}
    given = tuple(part.lower() for part in reference.parts)
    is_star = re.match(r"\s*\.\s*\*", query.text[reference.end :]) is not None
    for use, located in found:
        if use.aliased:
            continue
        full = tuple(part.lower() for part in (*(located.full or use.name.parts)[:-1], use.name.parts[-1]))
        for short in range(len(full) - 1):
            prefix = full[short:]
            if given[: len(prefix)] == prefix and len(given) + is_star > len(prefix):
                meant.setdefault(full[-1], (len(prefix), set()))[1].add(use.start)
    return meant


def _requalified(run: Run, reference: Name, meant: _Meant, aliases: Mapping[int, str]) -> tuple[int, int, str]:
    """`lake.air.flights.month` and `air.flights.*` by the name that the table has got."""
    lengths = {aliases[use]: length for length, uses in meant.values() for use in uses}
    if len(lengths) > 1:
        raise InvalidArgument(
            f"{reference}, {at(run.text, reference.start)}, is ambiguous", next_step="give the tables other names"
        )
    ((alias, length),) = lengths.items()
    words = [word for word in words_of(run.text) if reference.start <= word.start < reference.end]
    end = words[2 * length - 2].end
    return reference.start, end, _literal(alias)


def _spliced(text: str, changes: Sequence[tuple[int, int, str]], formatted: bool) -> str:
    """The text with changes. Braces are doubled where Python's formatting would take them for placeholders."""
    parts, last = list[str](), 0
    for start, end, new in sorted(changes, key=lambda change: change[:2]):
        parts += [_braced(text[last:start], formatted), new]
        last = end
    return "".join([*parts, _braced(text[last:], formatted)])


def _literal(name: str) -> str:
    return _braced(quoted_name(name), formatted=False)


def _braced(text: str, formatted: bool) -> str:
    return text if formatted else text.replace("{", "{{").replace("}", "}}")
