"""The last two jobs of the demo: both upsert the same flights at the same moment.

The table has a primary key and holds the flights of January. Two observers then report each of these flights again, with other
delays. Whichever of the two comes second must be the one that is believed, about every flight.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import lakelatch as ll

KEY = ["time_hour", "carrier", "flight"]
DELAYS = {"tower": 1000.0, "airline": 2000.0}
"""What each observer adds to a delay, so that a row tells who reported it."""


def reports_of(flights: pa.Table) -> dict[str, pa.Table]:
    """The flights as each observer reports them."""
    column = flights.schema.get_field_index("dep_delay")
    delay = pc.fill_null(flights["dep_delay"], 0.0)
    return {name: flights.set_column(column, "dep_delay", pc.add(delay, more)) for name, more in DELAYS.items()}


def stored(reports: dict[str, pa.Table], folder: Path) -> dict[str, Path]:
    """A Parquet file for each report."""
    files = {name: folder / f"{name}.parquet" for name in reports}
    for name, path in files.items():
        pq.write_table(reports[name], path)
    return files


def create(url: str, flights: pa.Table, storage_options: dict[str, Any]) -> ll.Receipt:
    """The table of flights by their key, as they were first reported."""
    table = ll.create_table(
        url, flights.schema, primary_key=KEY, options={"bucket": "2"}, storage_options=storage_options
    )
    return table.upsert(flights)


def believed(found: pa.Table, reports: dict[str, pa.Table]) -> str | None:
    """The observer whose rows the table holds, all of them and no others; None if it is neither's."""
    order = [(name, "ascending") for name in KEY]
    rows = found.sort_by(order)
    for name, report in reports.items():
        if rows.select(report.schema.names).cast(report.schema).equals(report.sort_by(order)):
            return name
    return None
