"""TPC-DS in Spark: writes, frames and the 99 queries, over lakelatch's tables and over Parquet or Apache Paimon's connector.

    python benchmarks/tpcds.py --data FOLDER --queries FOLDER [--folder FOLDER] [--linked] [--only N ...] [--times 2]
    python benchmarks/tpcds.py --data FOLDER --queries FOLDER --connector JAR [--folder FOLDER] [--only N ...] [--times 2]

`--data` holds the 24 tables as `NAME.parquet`, as DuckDB's extension `tpcds` makes and copies them. `--queries` holds the queries
as `queryN.sql`, with table names as they are or behind `${catalog}.${database}.`; a file may have several statements. Neither is
part of this project.

Facts are partitioned by date. *Parquet* is what `df.write.partitionBy(...).parquet` makes; *the same files* (`--linked`) are
those of lakelatch's tables, linked into folders as `spark.read.parquet` wants them. With `--connector`, the jar of Apache
Paimon's connector for this Spark, the connector stands in Parquet's place: it gets tables with the same columns, and the rows of
facts sorted by partition, since it keeps a file open for each; the queries are the star joins. Every way has a session with views
of the tables' names, and runs each query `--times` times, by turns; the least counts. CPU is that of the driver, the JVM and its
Python workers. All must give the same rows, whatever their order; floating-point numbers may differ in the tenth digit.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from recorded import add_json, markdown, record
from spark_session import cpu_seconds, session

import lakelatch as ll

DATES = {
    "store_sales": "ss_sold_date_sk",
    "store_returns": "sr_returned_date_sk",
    "catalog_sales": "cs_sold_date_sk",
    "catalog_returns": "cr_returned_date_sk",
    "web_sales": "ws_sold_date_sk",
    "web_returns": "wr_returned_date_sk",
    "inventory": "inv_date_sk",
}
"""The facts, and the column by which each is partitioned."""
STAR_JOINS = (3, 7, 13, 15, 18, 19, 26, 27, 34, 36, 42, 43, 45, 46, 48, 52, 55, 68, 73, 79, 89)
"""Queries that join one fact with `date_dim`, restricted by year or month, and with other dimensions."""
OURS, PARQUET, LINKED, CONNECTOR = "lakelatch", "Parquet", "the same files", "Apache Paimon"
_NULL = "__HIVE_DEFAULT_PARTITION__"


def spent(act: Callable[..., Any], *given: Any) -> float:
    began = cpu_seconds()
    act(*given)
    return cpu_seconds() - began


# ------------------------------------------------------------------------------------------------------------- tables


def write_tables(spark: Any, data: Path, folder: Path, other: str) -> list[dict[str, Any]]:
    """Each table in both ways, by turns."""
    import lakelatch.spark as lake

    lines = []
    for name in names_of(data):
        frame, date = spark.read.parquet(str(data / f"{name}.parquet")), DATES.get(name)
        write = partial(lake.write, frame, partition_by=date or (), storage_options={"fsync": False})
        ours = spent(write, str(folder / OURS / name))
        theirs = spent(parquet if other == PARQUET else connector, frame, folder / other / name, date)
        if other == PARQUET:
            linked(folder / OURS / name, folder / LINKED / name, date)
        lines.append({"table": name, f"{OURS} CPU s": ours, f"{other} CPU s": theirs, "ratio": ours / theirs})
        lines[-1] |= {f"files, {way}": files_in(folder / way / name) for way in (OURS, other)}
        print(lines[-1], flush=True)
    return lines


def parquet(frame: Any, target: Path, date: str | None) -> None:
    (frame.write.partitionBy(date) if date else frame.write).parquet(str(target))


def connector(frame: Any, target: Path, date: str | None) -> None:
    """Apache Paimon's connector, to a new table with the columns of lakelatch's."""
    ll.create_table(str(target), like=str(target.parents[1] / OURS / target.name))
    rows = frame.sort(date) if date else frame
    rows.write.format("paimon").mode("append").save(str(target))


def names_of(data: Path) -> list[str]:
    return sorted(file.stem for file in data.glob("*.parquet"))


def files_in(folder: Path) -> int:
    return sum(1 for _ in folder.rglob("*.parquet"))


def linked(table: Path, target: Path, date: str | None) -> None:
    """The files of a table once more, in folders of partitions alone."""
    for entry in ll.open_table(str(table)).plan().splits:
        for key in entry.keys:
            part = target if date is None else target / Path(key).parts[0].replace("__DEFAULT_PARTITION__", _NULL)
            part.mkdir(parents=True, exist_ok=True)
            os.link(table / key, part / Path(key).name)


def sessions(spark: Any, data: Path, folder: Path, ways: list[str]) -> tuple[dict[str, Any], dict[str, float]]:
    """A session with views of all tables for each way, and the CPU that the frames took, the least of three."""
    import lakelatch.spark as lake

    types = {name: spark.read.parquet(str(data / f"{name}.parquet")).schema for name in names_of(data)}

    def frames(one: Any, way: str) -> None:
        for name, schema in types.items():
            url = str(folder / way / name)
            if way == OURS:
                frame = lake.read(one, url)
            elif way == CONNECTOR:
                frame = one.read.format("paimon").load(url)
            else:
                frame = one.read.schema(schema).parquet(url)
            frame.createOrReplaceTempView(name)

    found, cost = {}, {}
    for way in ways:
        found[way] = spark.newSession()
        cost[way] = min(spent(frames, found[way], way) for _ in range(3))
    return found, cost


# ------------------------------------------------------------------------------------------------------------ queries


def queries(folder: Path, only: list[int]) -> dict[int, list[str]]:
    """The statements of each query, with plain names of tables."""
    found = {}
    for file in folder.glob("query*.sql"):
        number = int(re.sub(r"\D", "", file.stem))
        text = re.sub(r"\$\{(catalog|database)\}\.|\$\{asof\}", "", file.read_text())
        if number in only or not only:
            found[number] = [part for part in text.split(";") if part.strip()]
    return dict(sorted(found.items()))


def run_query(one: Any, statements: list[str]) -> list[list[str]]:
    """The rows of each statement, in an order that does not depend on the way."""
    return [sorted(map(told, one.sql(statement).collect())) for statement in statements]


def told(row: Any) -> str:
    return repr([f"{value:.9g}" if isinstance(value, (float, Decimal)) else value for value in row])


def compare(ways: Mapping[str, Any], number: int, statements: list[str], times: int) -> dict[str, Any]:
    """One query in every way."""
    least: dict[str, float] = {}
    answers: dict[str, list[list[str]]] = {}
    for turn in range(times):
        # the first way of a turn may pay for what the others find in caches of the JVM
        for way in sorted(ways, reverse=(turn + number) % 2 == 1):
            began = cpu_seconds()
            answers[way] = run_query(ways[way], statements)
            cost = cpu_seconds() - began
            least[way] = min(cost, least.get(way, cost))
    same = all(answer == answers[OURS] for answer in answers.values())
    line: dict[str, Any] = {"query": number} | {f"{way} CPU s": least[way] for way in ways}
    line |= {f"ratio to {way}": least[OURS] / least[way] for way in ways if way != OURS}
    return line | {"rows": sum(map(len, answers[OURS])), "same rows": "yes" if same else "NO"}


def summed(lines: list[dict[str, Any]], ratios: Mapping[str, str]) -> dict[str, Any]:
    """A line of sums. `ratios`: for each ratio, whose CPU stands below."""
    total: dict[str, Any] = {next(iter(lines[0])): "all"}
    total |= {head: sum(line[head] for line in lines) for head in lines[0] if head.endswith("CPU s")}
    return total | {head: total[f"{OURS} CPU s"] / total[f"{way} CPU s"] for head, way in ratios.items()}


# --------------------------------------------------------------------------------------------------------------- main


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the 24 tables as files of Parquet")
    parser.add_argument("--queries", type=Path, required=True, help="the queries, queryN.sql")
    parser.add_argument(
        "--folder", type=Path, help="where tables are written, and stay; those that are there are taken"
    )
    parser.add_argument("--only", type=int, nargs="*", default=[], help="numbers of queries")
    parser.add_argument("--times", type=int, default=2)
    parser.add_argument("--linked", action="store_true", help="also over the same files as Parquet")
    parser.add_argument(
        "--connector", type=Path, help="the jar of Apache Paimon's connector, which takes Parquet's place"
    )
    add_json(parser)
    args = parser.parse_args()
    other = CONNECTOR if args.connector else PARQUET
    temporary = TemporaryDirectory(prefix="lakelatch-bench-")
    folder = args.folder or Path(temporary.name)
    jars = {"spark.jars": str(args.connector)} if args.connector else {}
    # Three sessions and a hundred queries in one JVM: with 4 GiB it collects garbage for a minute, and gives up in query 10.
    settings = {"spark.sql.shuffle.partitions": "8", "spark.driver.memory": "10g", **jars}
    spark = session(plain_daemon=False, more=settings)
    if not (folder / other).exists():
        warm = Path(temporary.name, "warm")
        (warm / "data").mkdir(parents=True)
        shutil.copy(args.data / "item.parquet", warm / "data")
        write_tables(spark, warm / "data", warm, other)
        lines = write_tables(spark, args.data, folder, other)
        lines.append(summed(lines, {"ratio": other}))
        print(markdown(lines))
        record(args.json, "Writing the tables", lines)
        spark.stop()  # its workers would end while a query is measured, and take their CPU along
        spark = session(plain_daemon=False, more=settings)
    chosen = [OURS, other, *([LINKED] if args.linked else [])]
    ways, cost = sessions(spark, args.data, folder, chosen)
    frames = [{"frames of all tables": way, "CPU s": seconds} for way, seconds in cost.items()]
    print(markdown(frames), flush=True)
    record(args.json, "Frames", frames)
    lines, asked = [], queries(args.queries, args.only or list(STAR_JOINS if args.connector else ()))
    for one in ways.values():  # the JVM is warm
        run_query(one, next(iter(asked.values())))
    for number, statements in asked.items():
        lines.append(compare(ways, number, statements, args.times))
        print({k: round(v, 2) if isinstance(v, float) else v for k, v in lines[-1].items()}, flush=True)
    differing = [line["query"] for line in lines if line["same rows"] == "NO"]
    lines.append(summed(lines, {f"ratio to {way}": way for way in chosen[1:]}))
    print(markdown(lines))
    record(args.json, "Queries", lines)
    spark.stop()
    temporary.cleanup()
    if differing:
        sys.exit(f"other rows: queries {differing}")


if __name__ == "__main__":
    main()
