"""Writes the table of stores and cases in docs/stores/README.md from a run of the contract.

Owns: which results are collected, how they are shown, and where they are on the page. Must not know: any particular store.
The table is written if `LAKELATCH_STORE_TABLE` names the page. A run of some stores changes only their columns.
"""

from __future__ import annotations

import os
from pathlib import Path

from lakelatch.lab.contract import StoreContract

SETTING = "LAKELATCH_STORE_TABLE"
BEGIN, END = "<!-- written by the contract -->", "<!-- to here -->"
COLUMNS = {
    "memory": "memory",
    "local": "local disk",
    "s3": "S3",
    "minio": "S3, the other one",
    "gcs": "GCS",
    "adls": "ADLS",
    "hdfs": "HDFS",
}
"""Kind of store -> its column. Runs report their servers by these names too."""

SIGNS = {"passed": "✓", "failed": "**✗**", "skipped": "·"}
Seen = dict[str, dict[str, list[str]]]
"""Case -> kind -> outcome of each of its variants."""


def case_of(name: str) -> str:
    """The readable name of a case.

    >>> case_of("test_lost_answer")
    'lost answer'
    """
    return name.removeprefix("test_").replace("_", " ")


def table(seen: Seen, servers: dict[str, str], before: dict[str, dict[str, str]]) -> str:
    """The table in Markdown: the cells of this run, and those of an earlier run for the stores that this one skipped."""
    rows = {"server": {kind: servers[title] for kind, title in COLUMNS.items() if title in servers}}
    for case, kinds in seen.items():
        rows[case] = {kind: _cell(case, outcomes) for kind, outcomes in kinds.items()}
    lines = ["| case | " + " | ".join(COLUMNS.values()) + " |", "|---" * (len(COLUMNS) + 1) + "|"]
    for case in dict.fromkeys([*before, *rows]):
        cells = before.get(case, {}) | rows.get(case, {})
        lines.append(f"| {case} | " + " | ".join(cells.get(kind, "") for kind in COLUMNS) + " |")
    return "\n".join(lines)


def _cell(case: str, outcomes: list[str]) -> str:
    worst = next((outcome for outcome in ("failed", "passed") if outcome in outcomes), "skipped")
    if case == "create race" and worst == "passed":
        return f"{SIGNS[worst]} {StoreContract.racers} × {StoreContract.rounds}"
    return f"{SIGNS[worst]} {len(outcomes)}" if len(outcomes) > 1 and worst == "passed" else SIGNS[worst]


def write(seen: Seen, servers: dict[str, str]) -> None:
    """Write the table to its page, if one is named."""
    page = os.environ.get(SETTING)
    if not page or not seen:
        return
    text = Path(page).read_text()
    head, _, rest = text.partition(BEGIN)
    old, _, tail = rest.partition(END)
    Path(page).write_text(f"{head}{BEGIN}\n{table(seen, servers, read(old))}\n{END}{tail}")


def read(text: str) -> dict[str, dict[str, str]]:
    """The cells of an existing table: row -> kind -> cell."""
    rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in text.strip().splitlines()[2:]]
    return {case: {kind: cell for kind, cell in zip(COLUMNS, cells, strict=True) if cell} for case, *cells in rows}
