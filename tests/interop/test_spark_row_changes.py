"""MERGE, UPDATE and DELETE of Apache Paimon's connector for Spark, on copies of our tables, end in the rows that ours end in.

By night, as each statement is a job of Spark; `LAKELATCH_CASES=6` runs as many. What the connector refuses is counted. So is
what it does otherwise than DuckDB, whose rows are then the right ones: of rows that the source does not match, it leaves out
those for which a condition in ON on the table alone is unknown.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from figures import NIGHTLY
from interop.spark_env import SparkConnector, connector
from report import not_here, tell
from row_changes import KINDS, SCHEMA, Case, sorted_rows

from lakelatch.core.errors import InvalidArgument

pytestmark = [pytest.mark.slow, pytest.mark.given, pytest.mark.timeout(7200)]
CASES = int(os.environ.get("LAKELATCH_CASES", "400" if NIGHTLY else "12"))


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("warehouse")
    (made / "default.db").mkdir()
    return made


@pytest.fixture(scope="module")
def spark_connector(warehouse: Path) -> Iterator[SparkConnector]:
    jar = connector()
    if jar is None:
        not_here("Apache Paimon's connector", "its jar is not in the folder that LAKELATCH_TOOLS names")
    made = SparkConnector(jar, warehouse)
    yield made
    made.close()


def test_random_changes_end_in_the_rows_of_the_connector(warehouse: Path, spark_connector: SparkConnector) -> None:
    same, refused, both, alone = 0, Counter[str](), 0, list[str]()
    kinds = list(KINDS)
    for number in range(CASES):
        kind = kinds[number % len(kinds)]
        ours, theirs = (warehouse / "default.db" / f"{name}_{number}" for name in ("ours", "theirs"))
        case = Case(Random(f"connector/{number}"), KINDS[kind], str(ours), local=True)
        case.table.committer.settle()
        shutil.copytree(ours, theirs)
        sql, change = case.change()
        told = f"{kind}, case {number}: {sql}"
        error = _theirs(case, spark_connector, sql, f"paimon.default.theirs_{number}")
        try:
            change()
        except InvalidArgument as own:
            assert error is not None, f"{told}\n{own}"
            both += 1
            continue
        if error is not None:
            refused[f"{kind}: {error}"] += 1
            continue
        if case.ours() != sorted_rows(spark_connector.table(theirs).cast(SCHEMA)):
            case.peer.execute(sql)
            assert case.ours() == case.theirs(), told
            alone.append(told)
        assert case.ours() == sorted_rows(spark_connector.table(ours).cast(SCHEMA)), f"{told}: read by the connector"
        same += 1
        shutil.rmtree(theirs)
    same -= len(alone)
    tell(
        f"row changes beside the connector: {same} of {CASES} the same, {both} refused by both, by it alone: {dict(refused)},"
        f" other rows than DuckDB's: {alone}"
    )
    assert all("NOT MATCHED BY SOURCE" in told for told in alone)
    assert same >= CASES // 2


def _theirs(case: Case, spark: SparkConnector, sql: str, name: str) -> str | None:
    """The same change by the connector; returns the end of its error."""
    source: pa.Table | None = None
    if sql.startswith("MERGE"):
        source = case.peer.sql("SELECT * FROM src").to_arrow_table().cast(SCHEMA)
        statement = sql.replace("MERGE INTO t ", f"MERGE INTO {name} AS t ", 1)
    else:
        statement = sql.replace(" t ", f" {name} ", 1)
    try:
        spark.sql(statement, source)
    except RuntimeError as error:
        lines = [line for line in str(error).splitlines() if "Exception" in line or "Error" in line]
        return (lines or [str(error)])[-1][:200]
    return None
