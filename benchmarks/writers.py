"""What to expect of 1 to 100 writers on one table: waits, commits per minute, requests; as a table and a plot.

`python benchmarks/writers.py [--latency-ms L] [--commits N] [--long-commits M]`: the shipped committer with default options
on the simulated store, in virtual time (`lakelatch simulate`): the machine that it runs on does not matter. Then the same for
writers that ride together (`commit.group` = `auto`), and for what else writers do to tables. It fails where a commit fails or a
writer starves. With LAKELATCH_NIGHTLY=1 docs/many-writers.md and its plot are written anew.
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests")]

from figures import DOCS, NIGHTLY, keep  # noqa: E402
from recorded import add_json, record  # noqa: E402

from lakelatch.lab.seeded.simulate import Forecast, simulate  # noqa: E402
from lakelatch.lab.seeded.workloads import workload  # noqa: E402

WRITERS = (1, 2, 4, 8, 16, 32, 64, 100)
RIDING = ((8, 5), (32, 5), (100, 1), (100, 5), (100, 25), (1000, 1))
"""Writers and commits of each, where they ride together."""
KINDS = (
    *(("bucketed", n, rides) for rides in (False, True) for n in (1, 8, 32, 100)),
    *(("upsert", n, rides) for rides in (False, True) for n in (1, 8, 32, 100)),
    *((table, n, False) for table in ("overwrite", "update") for n in (1, 8, 16)),
)
"""Tables, writers, and whether they ride, with five commits of each."""
Run = tuple[str, int, int, bool]
"""Table, writers, commits of each, and whether they ride."""
STARVED = 20
"""A commit that waits so many times the median has been starved."""
HEADS = ("writers x commits", "failed", "commits per minute", "p50 s", "p99 s", "p99 / p50", "retries", "requests")


def forecast(run: Run, latency_ms: float) -> tuple[int, Forecast]:
    table, writers, commits, rides = run
    work = workload(table, rides=rides)
    return commits, simulate(writers, commits=commits, latency_ms=latency_ms, work=work)


def figures_of(commits: int, f: Forecast) -> dict[str, str]:
    """By column; retries and requests are per commit that landed."""
    seconds = (f"{f.p50_ms / 1000:.2f}", f"{f.p99_ms / 1000:.2f}", f"{f.p99_ms / f.p50_ms:.1f}")
    counts = (str(f.failed + f.unknown + f.dead_writers), f"{f.commits_per_minute:.0f}", *seconds)
    costs = (f"{f.retries_per_commit:.1f}", f"{f.requests_per_commit:.0f}")
    return dict(zip(HEADS, (f"{f.writers} x {commits}", *counts, *costs), strict=True))


def table(rows: list[dict[str, str]]) -> str:
    """As Markdown."""
    heads = tuple(rows[0])
    lines = [heads, tuple("---" for _ in heads), *(tuple(row.values()) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def of_kind(run: Run, figures: dict[str, str]) -> dict[str, str]:
    return {"table": f"{run[0]}, riding" if run[3] else run[0], **figures}


def plot(found: list[Forecast], path: Path, latency_ms: float) -> None:
    """Commits per minute and requests per commit over the number of writers, as SVG."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "lakelatch"  # the same figures, the same file
    from matplotlib import pyplot

    writers = [f.writers for f in found]
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    left.plot(writers, [f.commits_per_minute for f in found], marker="o")
    left.set(xlabel="writers", title="commits per minute, all together", xscale="log", ylim=(0, None))
    right.plot(writers, [f.requests_per_commit for f in found], marker="o", label="requests per commit")
    right.plot(writers, [f.p50_ms / latency_ms for f in found], marker="s", label="p50 wait, in latencies")
    right.set(xlabel="writers", title="what a commit costs", xscale="log", yscale="log")
    right.legend()
    for axes in (left, right):
        axes.set_xticks(writers, [str(n) for n in writers])
        axes.minorticks_off()
        axes.grid(alpha=0.3)
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--latency-ms", type=float, default=20.0, help="of one request")
    parser.add_argument("--commits", type=int, default=5, help="of each writer")
    parser.add_argument("--long-commits", type=int, default=25, help="of each of the most writers, in one more run")
    add_json(parser)
    options = parser.parse_args()
    alone: list[Run] = [("append", n, options.commits, False) for n in WRITERS]
    alone += [("append", WRITERS[-1], commits, False) for commits in (1, options.long_commits)]
    riding: list[Run] = [("append", *one, True) for one in RIDING]
    kinds: list[Run] = [(kind, n, options.commits, rides) for kind, n, rides in KINDS]
    runs = [*alone, *riding, *kinds]
    with ProcessPoolExecutor() as pool:
        futures = {run: pool.submit(forecast, run, options.latency_ms) for run in reversed(runs)}  # the longest first
        results: dict[Run, tuple[int, Forecast]] = {}
        for run in runs:
            results[run] = futures[run].result()
            together = " that ride" if run[3] else ""
            print(f"{run[0]}: {run[1]} writers{together} x {run[2]} commits simulated", file=sys.stderr, flush=True)
    for title, some, place in (("", alone, "writers"), (", riding", riding, "riding"), (", by table", kinds, "kinds")):
        rows = [figures_of(*results[run]) for run in some]
        if some is kinds:
            rows = [of_kind(run, row) for run, row in zip(some, rows, strict=True)]
        record(options.json, f"simulated{title}, {options.latency_ms:.0f} ms a request", rows)
        keep("many-writers.md", place, table(rows))
    if NIGHTLY:
        plot([results[run][1] for run in alone[: len(WRITERS)]], DOCS / "many-writers.svg", options.latency_ms)
    bad = [f for _, f in results.values() if f.failed + f.unknown + f.dead_writers or f.p99_ms > STARVED * f.p50_ms]
    sys.exit(f"failed or starved: {bad}" if bad else 0)


if __name__ == "__main__":
    main()
