"""Carries out CALL.

Owns: which procedure a name means, and how its argument `table` becomes a table. Must not know: what a procedure does.
Source: decisions 123 and 125. Invariant: a table is looked for in the catalog that the CALL names.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

from ...core.errors import InvalidArgument, TableNotFound, Unsupported
from ..catalogs.names import Warehouse
from ..catalogs.run import Run
from ..grammar.other_statements import Call as CallStatement
from ..lake_table import LakeTable
from ..options.catalog import NAME, parts_of
from ..sessions.identity import identity_of
from .arguments import Given, evaluated, matched
from .entries import PROCEDURES
from .procedure import Call, Procedure
from .refused import REFUSED

SYSTEM = "sys"


def carry_out_call(run: Run, statement: CallStatement) -> Any:
    """The procedure's result; None if the name is none of a registered catalog."""
    parts = statement.name.parts
    lake, ours = _catalog(run, parts)
    if not ours:
        return None
    procedure = procedure_named(parts[-1])
    given = [Given(argument.name, argument.value.text) for argument in statement.arguments]
    values = evaluated(run.sparks, procedure, matched(procedure, given), run.arguments, **run.named)
    tables = _Tables(run, lake)
    with identity_of(run.session, commits=procedure.alone and not values.get("dry_run")) as about:
        call = Call(
            run.session,
            values,
            tables,
            run.sparks,
            None if lake is None else lake.catalog,
            about,
            {} if lake is None else lake.storage_options,
        )
        rows = [tuple(row) for row in procedure.run(call)]
    return run.session.createDataFrame(rows, procedure.columns)


def procedure_named(name: str) -> Procedure:
    """The procedure of a name, in any case."""
    key = name.lower()
    if key in REFUSED:
        raise Unsupported(f"procedure {key} is not supported", next_step=REFUSED[key])
    if key not in PROCEDURES:
        near = get_close_matches(key, [*PROCEDURES, *REFUSED], 1, 0.5)
        raise InvalidArgument(
            f"there is no procedure {name!r}",
            next_step=f"did you mean {near[0]}?" if near else "see docs/reference/procedures.md",
        )
    return PROCEDURES[key]


def _catalog(run: Run, parts: Sequence[str]) -> tuple[Warehouse | None, bool]:
    """The catalog of the statement, and whether it is one of ours. `lakelatch.sys` has every table that the session knows."""
    if parts[0].lower() in run.names.warehouses and (len(parts) != 3 or parts[1].lower() != SYSTEM):
        raise InvalidArgument(
            f"{'.'.join(parts)} is no procedure", next_step=f"write CALL {parts[0]}.{SYSTEM}.{parts[-1]}(…)"
        )
    if len(parts) < 2 or parts[-2].lower() != SYSTEM:
        return None, False
    if len(parts) == 2:
        current = run.names.current
        return (None, False) if current is None else (current[0], True)
    first = parts[0].lower()
    lake = run.names.warehouses.get(first) if len(parts) == 3 else None
    return lake, lake is not None or (len(parts) == 3 and first == NAME)


class _Tables:
    """From the text of an argument to a table."""

    def __init__(self, run: Run, lake: Warehouse | None) -> None:
        self._run, self._lake = run, lake

    def __call__(self, name: str) -> LakeTable:
        parts = self._within(parts_of(name))
        found = self._run.names.locate(parts)
        if found is None:
            raise TableNotFound(f"table => {name!r} is no table of lakelatch", next_step="write 'database.table'")
        if found.system is not None:
            raise InvalidArgument(f"table => {name!r} is a system table", next_step="name the table itself")
        return LakeTable(self._run.session, found.open(), found.storage_options)

    def _within(self, parts: list[str]) -> list[str]:
        """The name with its catalog, in which `air.flights` is looked for."""
        if self._lake is None or len(parts) > 2 or parts[0].lower() == NAME:
            return parts
        if len(parts) == 2:
            return [self._lake.name, *parts]
        current = self._run.names.current
        if current is None or current[0].name.lower() != self._lake.name.lower():
            raise InvalidArgument(f"table => {parts[0]!r} names no database", next_step="write 'database.table'")
        return [self._lake.name, current[1], *parts]
