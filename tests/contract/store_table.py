"""The table of stores and cases in docs/stores/README.md, as a run of the contract saw it.

Owns: what is collected, how it is shown, where on the page it stands. Must not know: any particular store.
Written where `LAKELATCH_STORE_TABLE` names the page; a run of some stores only changes the columns that it ran.
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
"""Kind of store -> its column; also the names by which a run reports its servers."""

SIGNS = {"passed": "✓", "failed": "**✗**", "skipped": "·"}
Seen = dict[str, dict[str, list[str]]]
"""Case -> kind -> outcome of each of its variants."""


def case_of(name: str) -> str:
    """A case as people call it.

    >>> case_of("test_lost_answer")
    'lost answer'
    """
    return name.removeprefix("test_").replace("_", " ")


def table(seen: Seen, servers: dict[str, str], before: dict[str, dict[str, str]]) -> str:
    """The table in Markdown: cells of this run, and those of an earlier one where this run has none."""
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
    """Put the table on its page, where one is named."""
    page = os.environ.get(SETTING)
    if not page or not seen:
        return
    text = Path(page).read_text()
    head, _, rest = text.partition(BEGIN)
    old, _, tail = rest.partition(END)
    Path(page).write_text(f"{head}{BEGIN}\n{table(seen, servers, read(old))}\n{END}{tail}")


def read(text: str) -> dict[str, dict[str, str]]:
    """The cells of a table that was written before: row -> kind -> cell."""
    rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in text.strip().splitlines()[2:]]
    return {case: {kind: cell for kind, cell in zip(COLUMNS, cells, strict=True) if cell} for case, *cells in rows}
