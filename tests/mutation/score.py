"""The score of a run as Markdown.

Owns: `summary`, the lines kept in docs/guarantees.md, and `table`, every survivor. Must not know: how verdicts came about.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from .judging import Verdict


def summary(seed: str, drawn: int, equivalent: int, verdicts: Sequence[Verdict], minutes: float) -> str:
    """What a run came to, in a line, and who survived, in another for each file.

    Args:
        drawn: size of the sample; `equivalent`: those of it that no test can notice; `verdicts`: on all others.
        minutes: that it took.
    """
    outcomes = Counter(verdict.outcome for verdict in verdicts)
    killed = outcomes["killed"] + outcomes["timeout"]
    share = 100 * killed / len(verdicts) if verdicts else 100.0
    lines = [
        f"* seed {seed}: {killed} of {len(verdicts)} noticed, {share:.1f} % ({outcomes['timeout']} of them because a test did"
        f" not end); {outcomes['survived']} survived, {outcomes['not covered']} stood where no fast test comes by. {drawn} were"
        f" drawn, {equivalent} of them on the list of those that change nothing. {minutes:.0f} minutes"
    ]
    survivors = Counter(verdict.file for verdict in verdicts if not verdict.is_killed)
    if survivors:
        lines.append(
            "* not noticed, by file: " + ", ".join(f"{file} {count}" for file, count in survivors.most_common())
        )
    return "\n".join(lines)


def table(verdicts: Sequence[Verdict]) -> str:
    """Every mutant that was not noticed, as a table; empty where there is none."""
    left = sorted((v for v in verdicts if not v.is_killed), key=lambda v: (v.file, v.function, v.mutation))
    rows = [f"| {v.file} | {v.function} | `{_cell(v.mutation)}` | {v.outcome}, {v.tests} tests |" for v in left]
    return "\n".join(["| file | function | mutation | outcome |", "|---|---|---|---|", *rows]) if rows else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
