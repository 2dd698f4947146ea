"""What a user sees when the data source fails: one sentence, not a traceback. Runs again under Spark Connect."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
import lakelatch.spark as lake

pytestmark = pytest.mark.spark
DDL = "k int, c string"
SPARKS_OWN = ("An exception was thrown from the Python worker", "SQLSTATE:", "at ", "Driver stacktrace:", "Caused by:")
"""How lines begin that Spark adds before or after the text of a worker."""


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A table of one row."""
    url = str(tmp_path / "table")
    table = ll.create_table(url, ll.Schema([("k", "INT"), ("c", "VARCHAR(3)")]))
    table.append(pa.table({"k": pa.array([1], pa.int32()), "c": ["a"]}))
    return url


def told(action: Callable[[], Any]) -> list[str]:
    """The lines of the error that an action raises, without those that Spark adds."""
    with pytest.raises(Exception) as caught:  # noqa: PT011 - its class is Spark's, and the tests look at its text
        action()
    text = str(caught.value).partition("\n\nJVM stacktrace:")[0]  # which Connect adds
    lines = [line.strip() for line in text.splitlines()]
    return [line for line in lines if line and not line.startswith(SPARKS_OWN)]


def test_an_error_of_the_source_is_one_sentence(spark: Any, url: str) -> None:
    """While it plans, in a task, and at the commit: the sentence is the first line and the last one."""
    lake.register(spark)
    read = spark.read.format("lakelatch").option("timeZone", "UTC")  # which only the data source has

    def write(rows: list[tuple[Any, ...]], ddl: str = DDL, mode: str = "append", **options: Any) -> Callable[[], Any]:
        named = {name.replace("_", "-"): value for name, value in options.items()}
        frame = spark.createDataFrame(rows, ddl)
        return lambda: frame.write.format("lakelatch").mode(mode).options(**named).save(url)

    write([(2, "b")], commit_user="etl", identifier=5)()
    planned = read.load(url)
    gone = next(Path(url).rglob("data-*"))
    gone.rename(gone.with_name("gone"))
    cases = {
        "InvalidArgument: option 'snpshot' is unknown (did you mean": lambda: (
            spark.read.format("lakelatch").option("timeZone", "UTC").option("snpshot", 3).load(url).schema
        ),
        "TableNotFound: there is no table at": lambda: read.load(url + "-none").schema,
        "InvalidArgument: the table has no column 'nope'": write([(1, "b")], "k int, nope string"),
        "CommitConflict: snapshot 9, from which": write([(1, "b")], mode="overwrite", read_snapshot=9),
        "InvalidArgument: column 'c': 'toolong' is longer": write([(1, "toolong")]),
        "InvalidArgument: property 'lakelatch.mine'": write([(1, "b")], **{"property.lakelatch.mine": "1"}),
        f"TableCorrupt: data file bucket-0/{gone.name} is missing": planned.collect,
    }
    answers = {sentence: told(action) for sentence, action in cases.items()}
    assert [
        (sentence, lines)
        for sentence, lines in answers.items()
        if sentence not in lines[0] or sentence not in lines[-1] or "Traceback" in "".join(lines)
    ] == []
    assert ll.open_table(url).snapshot().id == 2  # type: ignore[union-attr]


def test_an_error_of_the_users_own_function_keeps_its_traceback(spark: Any, url: str) -> None:
    """Only what lakelatch raises on purpose is shortened, also in a job that writes to a table."""

    def broken(batches: Any) -> Any:
        yield from batches
        raise ValueError("theirs")

    lake.register(spark)
    frame = spark.range(1).selectExpr("cast(id AS int) k", "'a' c").mapInArrow(broken, DDL)
    with pytest.raises(Exception, match="theirs") as caught:
        frame.write.format("lakelatch").mode("append").save(url)
    assert "in broken" in str(caught.value)


def test_an_error_of_a_stream_is_one_sentence(spark: Any, url: str, tmp_path: Path) -> None:
    """Also those that 4.1 would hide behind an error of its own: the reader raises nothing before its first question."""
    lake.register(spark)

    def run(**options: Any) -> Callable[[], Any]:
        def start() -> None:
            stream = spark.readStream.format("lakelatch").options(**options).load(url).writeStream.format("noop")
            query = stream.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
            try:
                query.awaitTermination(60)
            finally:
                query.stop()

        return start

    def into(target: str | None) -> Callable[[], Any]:
        """A stream into a table. Its writer looks the table up while Spark pickles it, which hides what other errors say."""

        def start() -> None:
            stream = spark.readStream.format("rate").load().select("value").writeStream.format("lakelatch")
            query = stream.option("checkpointLocation", str(tmp_path / f"into-{hash(target)}")).start(target)
            try:
                query.awaitTermination(60)
            finally:
                query.stop()

        return start

    cases = {
        "InvalidArgument: there is no snapshot 7 to start at": run(**{"from": "7"}),
        "InvalidArgument: option 'maxRowsPerTrigger' is 0": run(maxRowsPerTrigger="0"),
        "InvalidArgument: options 'snapshot', 'tag', 'timestamp', 'watermark', 'system' and": run(snapshot="1"),
        "core.errors.TableNotFound: there is no table at": into(f"{url}-none"),
        "core.errors.InvalidArgument: the table has no column 'value'": into(url),
        "core.errors.InvalidArgument: the source needs the table's URL": into(None),
    }
    for sentence, action in cases.items():
        lines = told(action)
        assert sentence in lines[0]
        assert not any("UnboundLocalError" in line or "Traceback" in line for line in lines)
