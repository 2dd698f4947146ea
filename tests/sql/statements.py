"""Statement files, and what a session answers to each statement, as plain values.

Owns: how a file is divided into statements, and the form of an answer. Must not know: who answers.
"""

from __future__ import annotations

import datetime
import decimal
import gzip
import json
import re
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
RECORDED = FOLDER / "recorded_from_paimon_2.json.gz"
_END = re.compile(r";\s*(?:\n|$)")


def files() -> dict[str, list[str]]:
    """The statements of each file, by the file's name."""
    found = sorted((FOLDER / "statements").glob("*.sql"))
    return {file.stem: [s.strip() for s in _END.split(file.read_text()) if s.strip()] for file in found}


def answer(session: Any, statement: str) -> dict[str, Any]:
    """What a session answers: columns and rows, or an error."""
    try:
        frame = session.sql(statement)
        rows = frame.collect()
    except Exception as error:
        return {"error": condition_of(error), "message": str(error).splitlines()[0][:300]}
    told = [[plain(value) for value in row] for row in rows]
    ordered = "ORDER BY" in statement.upper() or statement.upper().startswith("DESC")
    return {"columns": frame.columns, "rows": told if ordered else sorted(told, key=repr)}


def condition_of(error: Exception) -> str:
    """Spark's class of an error, or the name of the exception."""
    asked = getattr(error, "getCondition", None)
    condition = asked() if asked is not None else None
    return str(condition or type(error).__name__)


def plain(value: Any) -> Any:
    """A value as JSON has it."""
    match value:
        case datetime.datetime() | datetime.date():
            return value.isoformat()
        case decimal.Decimal() | float():
            return str(value)
        case bytes() | bytearray():
            return bytes(value).hex()
        case dict():
            return sorted([plain(k), plain(v)] for k, v in value.items())
        case list() | tuple():
            return [plain(part) for part in value]
    return value


def recorded() -> dict[str, list[dict[str, Any]]]:
    """What Apache Paimon's connector answered, in the order of the statements."""
    return json.loads(gzip.decompress(RECORDED.read_bytes()))
