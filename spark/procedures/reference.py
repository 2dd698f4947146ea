"""The page docs/reference/procedures.md, made from the table of procedures.

Owns: `page`. Must not know: what procedures do. `python -m lakelatch.spark.procedures.reference` prints it.
"""

from __future__ import annotations

from .entries import PROCEDURES
from .procedure import Parameter, Procedure
from .refused import REFUSED

_TOP = """# Procedures

`CALL lake.sys.NAME(argument => value, …)` in `spark.sql` of a [registered session](../sql.md), with the names and arguments that
the procedures have in Apache Paimon. Arguments are named, in any order and case, or all given by their place. `lake` is the name
of the registered catalog; `sys.NAME` is enough after `USE lake`. `CALL lakelatch.sys.NAME` works without a catalog too: its
`table` is a name of Spark's catalog, or `` 'lakelatch.`/path`' ``.

`table` is the name in the catalog, such as `'air.flights'`, or the table alone if its database is the current one;
`` 'air.flights$branch_dev' `` is a branch. Values are expressions without columns: `snapshot => 2 + 1`, `:name` and `?` work. An
argument that a procedure does not have, that is missing, or that has another type is an error, and nothing is done. Times without
a zone are those of the session's zone.

A procedure that makes a commit of its own (marked *commit*) takes its identity from `lakelatch.commit-user` and
`lakelatch.identifier`, as every statement does. Nothing is deleted, except by the procedures whose names say so.

This page is made from the table of procedures; a test compares both.
"""


def page() -> str:
    """The page's text."""
    parts = [_TOP, *(_section(p) for p in PROCEDURES.values()), _refused()]
    return "\n".join(parts)


def _section(procedure: Procedure) -> str:
    mark = " *commit*" if procedure.alone else ""
    lines = [f"## {procedure.name}", "", f"{procedure.about}{mark}", ""]
    lines += ["| argument | type | default | |", "|---|---|---|---|", *map(_row, procedure.parameters), ""]
    lines.append(f"Result: `{procedure.columns}`.")
    if procedure.example:
        lines += ["", "```sql", procedure.example, "```"]
    return "\n".join([*lines, ""])


def _row(parameter: Parameter) -> str:
    default = "needed" if parameter.needed else parameter.default or "none"
    kind = parameter.kind.replace("<", "&lt;").replace(">", "&gt;")
    return f"| `{parameter.name}` | {kind} | {default} | {parameter.about} |"


def _refused() -> str:
    lines = ["## Refused", "", "Procedures of Apache Paimon that are refused by their names.", ""]
    lines += ["| procedure | the way that works |", "|---|---|"]
    rows = (f"| `{name}` | {_plain(way)} |" for name, way in REFUSED.items())
    return "\n".join([*lines, *rows, ""])


def _plain(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    print(page(), end="")
