"""The statement files of tests/sql, run by a registered session: the answers that Apache Paimon's connector was recorded with.

What differs is listed here with its reason. Runs under Connect too.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from pages import CHECKOUT

import lakelatch.spark as spark_lake

sys.path.insert(0, str(CHECKOUT / "tests" / "sql"))
from statements import answer, files, recorded

pytestmark = pytest.mark.spark

_A_COMMIT = "a rollback is a commit: its snapshot is new, and none is deleted"
DIFFERENT = {
    "altering": {
        "ALTER TABLE narrow ALTER COLUMN a TYPE INT": "a narrower type is taken where the stored values fit; there are none",
    },
    "ansi": {
        "INSERT INTO lake.db.t VALUES (3, 1.256, 'x', 'ab', 'abc')": "a value is not rounded to its column; CAST says so",
        "INSERT INTO lake.db.t VALUES (6, true, 'x', 'ab', 'abc')": "a BOOLEAN is no number; CAST says so",
        "SELECT length(c) FROM lake.db.t WHERE id = 1": "a CHAR is stored as it is, and not filled with blanks",
    },
    "calls": {"CALL lake.sys.rollback(table => 'db.t', version => '2')": _A_COMMIT},
    "catalogs": {
        "SHOW DATABASES IN lake LIKE '*a*'": "the connector makes a database `default` by itself",
        "DROP TABLE chosen PURGE": "a table is deleted with PURGE or without; the connector refuses PURGE",
    },
    "ctas": {
        "DESCRIBE lake.db.all_types": "Spark reads CHAR and VARCHAR as STRING, and is told so",
        "CREATE OR REPLACE TABLE lake.db.t (other STRING)": "other columns would be a second change, which could stay alone",
    },
    "describe": {
        "SELECT current_catalog(), current_schema()": "Spark is not told of USE with a catalog that it does not know",
    },
    "nested": {
        "UPDATE lake.db.t SET xs = array(9), m = map('z', 26) WHERE id = 2": "lists are the values of a MERGE's source",
        "UPDATE lake.db.t SET s = named_struct('a', 7, 'b', named_struct('c', 'new', 'd', array('q'))) WHERE id = 3": (
            "structs are the values of a MERGE's source"
        ),
    },
    "procedures": {
        "CALL sys.rollback(table => 'pro.t', version => 'kept')": _A_COMMIT,
        "CALL sys.compact(table => 'pro.k')": "the connector fails after its own rescale, which leaves the option `bucket`",
    },
    "times": {
        "INSERT INTO lake.db.t VALUES (4, '2024-01-01', '2024-01-01 10:00:00', '2024-01-01 10:00:00')": (
            "a text without a zone is no point in time; TIMESTAMP '…' is one"
        ),
        "INSERT INTO lake.db.t SELECT 5, TIMESTAMP '2024-05-05 23:00:00', NULL, NULL": "a TIMESTAMP is not cut to a DATE",
    },
    "travel": {"CALL lake.sys.rollback(table => 'db.t', version => 'v2')": _A_COMMIT},
    "words": {
        "create table Lake.DB.`Mixed Case` (ID int, `select` string, `a b` int)": "a catalog is found whatever its case",
        "SELECT id FROM lake.db.t WHERE": "WHERE is a word of SQL, and no other name of the table",
        "CACHE TABLE cached AS SELECT * FROM lake.db.t": "Spark would run the text again later, and cannot know the table",
    },
}
"""File -> statement -> why an answer to it is another one."""


@pytest.mark.parametrize("name", files())
def test_the_answers_are_those_of_the_connector(spark: Any, no_views: None, tmp_path: Path, name: str) -> None:
    theirs = recorded()[name]
    assert [one["sql"] for one in theirs] == files()[name], "run tests/sql/record.py"
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark_lake.register(spark, catalog="lake", warehouse=str(tmp_path / "lake"))
    known_differences, wrong, differing = DIFFERENT.get(name, {}), list[str](), set[str]()
    try:
        for known in theirs:
            ours = answer(spark, known["sql"])
            told = difference(ours, known)
            if told is not None and known["sql"] not in known_differences:
                wrong.append(f"{known['sql']}\n    {told}")
            if told is not None:
                differing.add(known["sql"])
    finally:
        spark_lake.unregister(spark)
        spark.conf.set("spark.sql.session.timeZone", zone)
    assert not wrong, "\n".join(wrong)
    assert known_differences.keys() <= differing, "listed as different, and the same"


def difference(ours: dict[str, Any], theirs: dict[str, Any]) -> str | None:
    """How two answers differ. Spark's classes of errors are compared where both have one."""
    if "error" in ours and "error" in theirs:
        both = [one["error"] for one in (ours, theirs)]
        classes = [kind for kind in both if kind.isupper()]
        return (
            f"{both[0]} instead of {both[1]}: {ours['message']}" if len(classes) == 2 and both[0] != both[1] else None
        )
    if "error" in ours or "error" in theirs:
        return f"{ours.get('message', ours.get('rows'))} instead of {theirs.get('error', theirs.get('rows'))}"
    counted = not theirs["columns"]  # UPDATE, DELETE and MERGE tell their counts here, and the connector tells nothing
    for part in () if counted else ("columns", "rows"):
        if ours[part] != theirs[part]:
            return f"{part} {ours[part]} instead of {theirs[part]}"
    return None


def test_there_are_enough_statements() -> None:
    assert sum(map(len, files().values())) >= 200
