"""What the Spark benchmarks share: the session, the rows, interleaved runs, and whose CPU time is counted.

CPU is user + system of this process, the JVM and all Python workers, by psutil: on a shared machine the wall clock says
more about the neighbours. Each round runs every variant once, in shuffled order; the first rounds warm the JVM up.

Times are medians. A ratio is the median, over the rounds, of a variant's time by that of the first variant in the same round:
what slows a whole round down, such as a neighbour, or the JVM's compiler in early rounds, cancels out, which it does not in a
ratio of two medians. `middle half` is where the ratios of half of the rounds lie, so that a ratio can be told from noise.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil
from recorded import add_json, record

sys.path.insert(0, str(Path(__file__).parent.parent / ".tools"))

WARM_UP = 2
CODEC = {"compression": "zstd", "parquet.compression.codec.zstd.level": "1"}


def arguments(description: str, more: Callable[[argparse.ArgumentParser], Any] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description)
    if more is not None:
        more(parser)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=5, help="measured rounds, after the warm-up")
    parser.add_argument("--folder", type=Path, help="where tables are written; a temporary folder by default")
    parser.add_argument(
        "--plain-daemon", action="store_true", help="Spark's own Python daemon instead of lakelatch.spark.daemon"
    )
    add_json(parser)
    return parser.parse_args()


def session(plain_daemon: bool, more: Mapping[str, str] | None = None) -> Any:
    """local[2], UTC, no UI, and `more` settings; Spark's defaults otherwise."""
    os.environ["PYTHONPATH"] = str(Path(__file__).parent.parent.resolve() / ".tools")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    settings = {
        "spark.driver.memory": "4g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraJavaOptions": "-Duser.timezone=UTC",
    }
    settings.update(more or {})
    if not plain_daemon:
        settings["spark.python.daemon.module"] = "lakelatch.spark.daemon"
    builder = SparkSession.builder.master("local[2]").appName("lakelatch-benchmark")
    for key, value in settings.items():
        builder = builder.config(key, value)
    found = builder.getOrCreate()
    found.sparkContext.setLogLevel("ERROR")
    return found


def make_rows(spark: Any, rows: int, path: str) -> None:
    """id BIGINT, k INT, amt DOUBLE, name STRING (unique), city STRING (200 values), ts TIMESTAMP; eight files."""
    from pyspark.sql import functions as F  # noqa: N812

    ids = F.col("id")
    spark.range(0, rows, 1, 8).select(
        "id",
        F.pmod(F.xxhash64(ids), F.lit(1_000_000)).cast("int").alias("k"),
        (F.rand(7) * 1000).alias("amt"),
        F.concat(F.lit("user-"), ids, F.lit("-"), ids % 97).alias("name"),
        F.concat(F.lit("city-"), F.pmod(F.xxhash64(ids, F.lit(1)), F.lit(200))).alias("city"),
        F.timestamp_micros(F.lit(1_700_000_000_000_000) + ids * 1_000_003).alias("ts"),
    ).write.options(**CODEC).parquet(path)


def cpu_seconds() -> float:
    """User and system time of this process and everything below it, ended children included."""
    me = psutil.Process()
    total = 0.0
    for process in (me, *me.children(recursive=True)):
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


def measure(variants: dict[str, Callable[[], Any]], rounds: int, warm_up: int = WARM_UP) -> dict[str, dict[str, Any]]:
    """Every variant once per round, in shuffled order. Returns medians, and ratios to the first variant in the same round."""
    dice = random.Random(1)
    seen: dict[str, list[tuple[float, float]]] = {name: [] for name in variants}
    for number in range(warm_up + rounds):
        order = list(variants)
        dice.shuffle(order)
        for name in order:
            cpu, wall = cpu_seconds(), time.monotonic()
            variants[name]()
            spent = cpu_seconds() - cpu, time.monotonic() - wall
            if number >= warm_up:
                seen[name].append(spent)
    return summed_up(seen)


def summed_up(seen: Mapping[str, Sequence[tuple[float, float]]]) -> dict[str, dict[str, Any]]:
    """What the rounds say: CPU and wall seconds of each variant, one pair a round, the first variant's being the measure.

    >>> summed_up({"a": [(1.0, 1.0), (2.0, 2.0), (9.0, 9.0)], "b": [(1.1, 1.0), (2.2, 2.0), (9.9, 9.0)]})["b"]["cpu_ratio"]
    1.1
    """
    base, found = next(iter(seen.values())), {}
    for name, spent in seen.items():
        cpu, wall = ([pair[which] for pair in spent] for which in (0, 1))
        cpu_ratios, wall_ratios = (
            [own[which] / max(first[which], 1e-9) for own, first in zip(spent, base, strict=True)] for which in (0, 1)
        )
        low, _, high = statistics.quantiles(cpu_ratios, method="inclusive") if len(spent) > 1 else [cpu_ratios[0]] * 3
        found[name] = {
            "cpu_s": round(statistics.median(cpu), 2),
            "cpu_ratio": round(statistics.median(cpu_ratios), 2),
            "wall_s": round(statistics.median(wall), 2),
            "wall_ratio": round(statistics.median(wall_ratios), 2),
            "middle half": f"{low:.2f}-{high:.2f}",
            "cpu_all_s": [round(one, 2) for one in cpu],
        }
    return found


def report(title: str, facts: dict[str, Any], results: dict[str, dict[str, Any]], file: Path | None) -> None:
    shown = ("cpu_s", "cpu_ratio", "wall_s", "wall_ratio")
    told = [{"variant": name} | {key.replace("_s", " s"): r[key] for key in shown} for name, r in results.items()]
    record(file, f"{title}, {facts['rows']:,} rows, {facts['measured rounds'].partition(',')[0]} rounds", told)
    print(f"\n{title}")
    for key, value in facts.items():
        print(f"  {key}: {value}")
    width = max(map(len, results))
    print(f"  {'':{width}}   CPU s  ratio  middle half   wall s  ratio")
    for name, r in results.items():
        print(
            f"  {name:{width}}  {r['cpu_s']:6.2f}  {r['cpu_ratio']:5.2f}  {r['middle half']:>11}   {r['wall_s']:6.2f}"
            f"  {r['wall_ratio']:5.2f}"
        )


def facts(spark: Any, args: argparse.Namespace, warm_up: int = WARM_UP) -> dict[str, Any]:
    import pyarrow

    return {
        "rows": args.rows,
        "measured rounds": f"{args.rounds}, after {warm_up} of warm-up",
        "pyspark": spark.version,
        "pyarrow": pyarrow.__version__,
        "cores": os.cpu_count(),
        "codec": "zstd level 1",
        "python daemon": "Spark's own" if args.plain_daemon else "lakelatch.spark.daemon",
    }
