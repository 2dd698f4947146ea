"""Values that Spark has computed, as literals for `LakeTable`.

Owns: `values_of`. Must not know: statements. Source: core/rows/literals. Invariant: a literal is the value, to the last digit.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

from pyspark.sql import functions as F  # noqa: N812 - Spark's users know it by this name

from ...core.errors import Unsupported

MOST_VALUES = 10_000
"""So many values of a query are a list of literals; one more is read, so that it is known that there are more."""
OTHER_WAY = "MERGE INTO … USING (SELECT …), whose source Spark computes"


def values_of(frame: Any, distinct: bool = False) -> list[str]:
    """The values of a frame of one column, as literals."""
    rows = frame.toDF("v").distinct() if distinct else frame.toDF("v")
    kind = rows.schema.fields[0].dataType.simpleString()
    told = {"timestamp": "CAST(unix_micros(v) AS STRING)", "binary": "hex(v)"}.get(kind, "CAST(v AS STRING)")
    return [literal_of(kind, row[0]) for row in rows.select(F.expr(told)).limit(MOST_VALUES + 1).collect()]


def literal_of(kind: str, text: str | None) -> str:
    """A value that Spark has computed, as a literal for `LakeTable`."""
    if text is None:
        return "NULL"
    if kind in ("tinyint", "smallint", "int", "bigint") or kind.startswith("decimal"):
        return text
    if kind in ("float", "double"):
        if text.lower().lstrip("-") in ("nan", "infinity"):
            return f"CAST('{text}' AS {kind.upper()})"
        return text if "e" in text.lower() else f"{text}e0"
    if kind == "boolean":
        return text.upper()
    if kind == "timestamp":
        moment = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(microseconds=int(text))
        return f"TIMESTAMP_LTZ '{moment.replace(tzinfo=None).isoformat(sep=' ')}Z'"
    if kind in ("date", "timestamp_ntz"):
        return f"{kind.upper()} '{text}'"
    if kind == "binary":
        return f"X'{text}'"
    if kind == "string" or kind.startswith(("char", "varchar", "string")):
        return "'" + text.replace("'", "''") + "'"
    raise Unsupported(f"a value of type {kind} that Spark has computed", next_step=f"use {OTHER_WAY}")
