"""Every Arrow type into every type of column by every way in: what is read back is what was given, or the column is named and
nothing was committed.
"""

from __future__ import annotations

import contextlib
import io
import os
import uuid
from collections.abc import Callable, Iterator
from itertools import count
from tempfile import NamedTemporaryFile
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.core.errors import InvalidArgument, LakelatchError
from lakelatch.core.rows.type_text import parse_sql_type
from lakelatch.core.rows.types import AtomicType
from lakelatch.table.conforming.rules import rule_of

from .door import COLUMNS, ENCODINGS, LEAVES, NESTINGS, array_of, same

NIGHTLY = bool(os.environ.get("LAKELATCH_NIGHTLY"))
BUCKETED: dict[str, Any] = {"primary_key": ["k"], "options": {"bucket": "1"}}
EVOLVING: dict[str, Any] = {"options": {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}}


def merged(table: ll.Table, rows: Any) -> None:
    table.merge(rows, on=["k"]).when_matched_update_all().when_not_matched_insert_all().execute()


def updated(table: ll.Table, rows: Any) -> None:
    ids = table.to_arrow(columns=["k", "_ROW_ID"]).sort_by("k").column("_ROW_ID")
    table.update_columns(rows.drop_columns(["k"]).append_column("_ROW_ID", ids))


def by_transaction(table: ll.Table, rows: Any) -> None:
    with table.transaction() as tx:
        tx.append(rows)


def of_kinds(table: ll.Table, rows: Any) -> None:
    table.upsert(rows.append_column("kind", pa.array(["+I"] * len(rows))), row_kind="kind")


def by_shell(table: ll.Table, rows: Any) -> None:
    """The command, in this process, with the rows in a file of Arrow."""
    from lakelatch.cli.main import main

    told = io.StringIO()
    with NamedTemporaryFile(suffix=".arrow") as file:
        with pa.ipc.new_file(file.name, rows.schema) as out:
            out.write_table(rows)
        if not is_kept(file.name, rows):
            table.append(rows)
            return
        with contextlib.redirect_stderr(told), contextlib.redirect_stdout(told):
            code = main(["write", table.url, file.name])
    if code != 0:
        raise InvalidArgument(told.getvalue())


def is_kept(file: str, rows: pa.Table) -> bool:
    """Arrow's files lose dictionaries that are nested, and those of extension types."""
    try:
        read = pa.ipc.open_file(file).read_all()
        read.validate(full=True)
    except (pa.ArrowException, OSError):
        assert "dictionary" in str(rows.schema)
        return False
    return bool(read.to_pylist() == rows.to_pylist() or "dictionary" not in str(rows.schema))


def seeded(table: ll.Table, rows: pa.Table) -> None:
    table.append(rows.select(["k"]))


def nothing(table: ll.Table, rows: pa.Table) -> None:
    pass


Way = tuple[dict[str, Any], Callable[[ll.Table, pa.Table], None], Callable[[ll.Table, Any], Any]]
WAYS: dict[str, Way] = {
    "append": ({}, nothing, lambda table, rows: table.append(rows)),
    "overwrite": ({}, nothing, lambda table, rows: table.overwrite(rows)),
    "transaction": ({}, nothing, by_transaction),
    "upsert": (BUCKETED, nothing, lambda table, rows: table.upsert(rows)),
    "merge that inserts": ({}, nothing, merged),
    "merge that updates": ({}, seeded, merged),
    "merge by key": (BUCKETED, seeded, merged),
    "update of columns": (EVOLVING, seeded, updated),
    "captured changes": (BUCKETED, nothing, lambda table, rows: table.apply_changes(rows, keys=["k"])),
    "upsert of kinds": (BUCKETED, nothing, of_kinds),
    "merge into columns": (EVOLVING, seeded, merged),
    "shell": ({}, nothing, by_shell),
    "reader": ({}, nothing, lambda table, rows: table.append(rows.to_reader())),
}
_turn = count()
CASES = count()


def table_of(types: dict[str, str], about: dict[str, Any]) -> ll.Table:
    columns = [("k", "BIGINT NOT NULL"), *types.items()]
    return ll.create_table(f"memory://{uuid.uuid4().hex}/t", ll.Schema(columns), **about)


def check(
    way: str,
    arrays: dict[str, pa.Array],
    types: dict[str, str],
    values: list[Any],
    unwrap: Any,
    frame_of: Callable[[pa.Table], Any] = lambda rows: rows,
) -> None:
    """Write columns together, and compare what is read."""
    about, before, write = WAYS[way]
    rows = pa.table({"k": pa.array(range(len(values)), pa.int64()), **arrays})
    table = table_of(types, about)
    before(table, rows)
    write(table, frame_of(rows))
    read = table.to_arrow().sort_by("k")
    for name, column in types.items():
        leaf = column.replace("ARRAY<", "").replace("MAP<STRING, ", "").replace("ROW<f ", "").rstrip(">")
        found = [None if v is None else unwrap(v) for v in read.column(name).to_pylist()]
        wrong = [(g, f) for g, f in zip(values, found, strict=True) if not same(g, f, leaf)]
        assert not wrong, (way, arrays[name].type, column, wrong)
        next(CASES)


def is_refused(way: str, array: pa.Array, column: str) -> bool:
    """Write one column. An error of ours must name it, and leave nothing behind."""
    about, before, write = WAYS[way]
    rows = pa.table({"k": pa.array(range(len(array)), pa.int64()), "x": array})
    table = table_of({"x": column}, about)
    before(table, rows)
    was = len(table.snapshots())
    try:
        write(table, rows)
    except LakelatchError as error:
        assert "'x" in str(error), (way, array.type, column, str(error))
        assert len(table.refresh().snapshots()) == was
        return True
    finally:
        next(CASES)
    return False


def fits(name: str, value: Any, column: str) -> bool:
    """Is a value taken, alone? Found by the conforming room itself; what becomes of it is compared with what was given."""
    from lakelatch.core.rows.types import Field
    from lakelatch.table.conforming.conform import Conformer

    try:
        Conformer([Field(0, "x", parse_sql_type(column, "x"))])(pa.record_batch({"x": array_of(name, [value])}))
    except InvalidArgument as error:
        assert "'x'" in str(error), error
        return False
    return True


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("name", LEAVES)
def test_a_value_comes_back_or_its_column_is_named(name: str, encoding: str) -> None:
    source, values = LEAVES[name]
    chosen = [(column, [v for v in values if fits(name, v, column)]) for column in COLUMNS]
    for column, good in chosen:
        rule = rule_of(source, atom(column))
        if rule == "refused":
            assert not [v for v in good if v is not None], (name, column)
        elif rule in ("exact", "widened") and column != "VARCHAR(12)":
            assert good == values or len(good) == len(values), (name, column, rule, good)
        if len(good) < len(values) and encoding in ("plain", "dictionary"):
            bad = [v for v in values if v not in good and v == v][:1]
            for way in ways() if bad else ():
                assert is_refused(way, ENCODINGS[encoding](array_of(name, [*good, *bad])), column), (
                    way,
                    name,
                    column,
                    bad,
                )
    for wrap, text, unwrap in chosen_nestings(encoding):
        by_values: dict[int, list[str]] = {}
        for i, (_, good) in enumerate(chosen):
            if good:
                by_values.setdefault(len(good), []).append(COLUMNS[i])
        for columns in by_values.values():
            goods = dict(chosen)
            for same_values in _alike(columns, goods):
                good = [*goods[same_values[0]], None]
                given = wrap(ENCODINGS[encoding](array_of(name, good)))
                types = {f"x{i}": text.format(column) for i, column in enumerate(same_values)}
                for way in ways():
                    check(way, dict.fromkeys(types, given), types, good, unwrap)


def ways() -> list[str]:
    """All of them by night; otherwise, each has its turn."""
    return list(WAYS) if NIGHTLY else [list(WAYS)[next(_turn) % len(WAYS)]]


def chosen_nestings(encoding: str) -> list[Any]:
    """All of them by night; otherwise, encoded values are nested once."""
    if encoding == "plain" or NIGHTLY:
        return list(NESTINGS.values())
    return [NESTINGS["flat"], NESTINGS["depth 3"]]


FRAMES: dict[str, Callable[[pa.Table], Any]] = {
    "pandas": lambda rows: rows.to_pandas(),
    "pandas, indexed": lambda rows: rows.to_pandas().set_index(["k", *rows.column_names[1:2]]),
    "polars": polars.from_arrow,
    "polars, lazy": lambda rows: polars.from_arrow(rows).lazy(),  # type: ignore[union-attr]
    "duckdb": lambda rows: duckdb.connect().from_arrow(rows),
}
POLARS, PANDAS = ("polars", "polars, lazy"), ("pandas", "pandas, indexed")
OLD_ARROW = int(pa.__version__.split(".")[0]) < 24  # makes bytes of a uuid for pandas
OTHERS = {"date64": POLARS, "uuid": (*POLARS, "duckdb", *(PANDAS if OLD_ARROW else ())), "bool8": PANDAS}
"""Types of which a library makes other values before we see them."""
UNKNOWN = {"float16": ("pandas, indexed", "duckdb"), "decimal256": (*POLARS, "duckdb"), "interval": POLARS}
"""Types that a library does not take at all."""
PAIRS = [(name, b) for name in LEAVES for b in FRAMES if b not in (*OTHERS.get(name, ()), *UNKNOWN.get(name, ()))]


def framed(name: str, library: str) -> Any:
    """All values of a type as a frame of a library."""
    values = LEAVES[name][1]
    return FRAMES[library](pa.table({"k": pa.array(range(len(values))), "x": array_of(name, values)}))


@pytest.mark.parametrize(("name", "library"), [(name, b) for name, libraries in UNKNOWN.items() for b in libraries])
def test_only_what_a_library_does_not_take_is_left_out(name: str, library: str) -> None:
    any_error = BaseException  # a panic of polars is no Exception
    with pytest.raises(any_error, match=r"(?i)not support|unsupported|could not import"):
        framed(name, library)


@pytest.mark.parametrize(("name", "library"), PAIRS)
def test_a_frame_comes_back(name: str, library: str) -> None:
    values = LEAVES[name][1]
    good = {c: [v for v in values if fits(name, v, c) and v == v] for c in COLUMNS if c != "VARCHAR(12)"}
    for columns in _alike([c for c in good if good[c]], good):
        types = {f"x{i}": column for i, column in enumerate(columns)}
        given = good[columns[0]]
        way = ["append", "overwrite", "upsert", "merge that inserts", "transaction"][next(_turn) % 5]
        check(way, dict.fromkeys(types, array_of(name, given)), types, given, lambda v: v, FRAMES[library])


def _alike(columns: list[str], goods: dict[str, list[Any]]) -> Iterator[list[str]]:
    left = list(columns)
    while left:
        group = [c for c in left if repr(goods[c]) == repr(goods[left[0]])]
        yield group
        left = [c for c in left if c not in group]


def atom(column: str) -> AtomicType:
    found = parse_sql_type(column, "x")
    assert isinstance(found, AtomicType)
    return found


def test_there_are_enough_cases() -> None:
    found = next(CASES)
    print(found)
    assert found > 3000 or next(_turn) < 500, found
