"""The command `simulate`, which forecasts the throughput of many writers.

Owns: its arguments, and how the forecast is printed. Must not know: how the forecast is made (see `lab.simulate`).
Invariants: it accesses no store. Progress goes to stderr.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from ...core.errors import InvalidArgument
from ..frame.arguments import Commands, Parser
from ..frame.exit_codes import OK
from ..frame.output import Output

_EVERY_S = 3.0
_ABOUT = (
    "Forecast the commits per minute, retries and requests of many writers on one table. The shipped committer runs on a"
    " simulated store in virtual time. No store is accessed, and the same arguments give the same numbers."
)


def register(commands: Commands) -> None:
    parser: Parser = commands.add_parser(
        "simulate",
        help=_ABOUT.partition(". ")[0],
        description=_ABOUT,
        epilog="example:\n  lakelatch simulate --writers 20 --latency 40 --faults 0.2",
    )
    parser.set_defaults(run=run)
    parser.add_argument("--writers", type=int, default=8, metavar="N", help="jobs that commit at the same time (8)")
    parser.add_argument(
        "--table",
        choices=("append", "bucketed", "upsert", "overwrite", "update"),
        default="append",
        help="what jobs do: append, append to fixed buckets, upsert, replace a partition or change a row of their own (append)",
    )
    parser.add_argument("--steps", type=int, default=10, metavar="N", help="commits of each job (10)")
    parser.add_argument(
        "--latency", type=float, default=50.0, metavar="MS", help="latency of a request in milliseconds (50)"
    )
    parser.add_argument(
        "--faults",
        type=float,
        default=0.0,
        metavar="X",
        help="strength of faults: 0 for none, 1 for a very bad day (0)",
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the random numbers (0)")
    parser.add_argument("--group", action="store_true", help="let commits ride together (option commit.group = auto)")
    parser.add_argument(
        "--trace", metavar="FILE", help="write every request to this file; the same seed gives the same file"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object with stable keys")


def run(args: argparse.Namespace, output: Output) -> int:
    from ...lab.seeded.simulate import simulate
    from ...lab.seeded.workloads import workload

    if args.writers < 1 or args.steps < 1 or args.latency <= 0 or not 0 <= args.faults <= 1:
        raise InvalidArgument(
            "--writers and --steps must be at least 1, --latency above 0, and --faults between 0 and 1"
        )
    forecast = simulate(
        args.writers,
        commits=args.steps,
        latency_ms=args.latency,
        faults=args.faults,
        seed=args.seed,
        work=workload(args.table, rides=args.group),
        ended=_progress(args.writers * args.steps, output),
    )
    if args.trace is not None:
        _write(args.trace, forecast.trace)
    if output.as_json:
        output.record(forecast.to_dict())
    else:
        output.facts({name.replace("_", " "): value for name, value in forecast.to_dict().items()})
    return OK


def _progress(commits: int, output: Output) -> Callable[[int], None]:
    """Report progress on stderr every few seconds; a short run reports nothing."""
    said_s = time.monotonic()

    def ended(count: int) -> None:
        nonlocal said_s
        if time.monotonic() - said_s > _EVERY_S:
            said_s = time.monotonic()
            output.note(f"{count} of {commits} commits simulated")

    return ended


def _write(path: str, lines: Iterable[str]) -> None:
    try:
        Path(path).write_text("".join(f"{line}\n" for line in lines))
    except OSError as error:
        raise InvalidArgument(
            f"--trace {path}: {error.strerror}", next_step="choose a file that can be written"
        ) from error
