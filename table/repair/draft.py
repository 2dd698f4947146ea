"""The plan of a repair while it is made: the steps so far, and which findings they mend.

Owns: `Draft`. Must not know: which damage there is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ..verify.finding import Finding
from .steps import Step
from .survey import Survey


@dataclass
class Draft:
    """Collects the steps, in their order.

    Attributes:
        mended: the positions of the steps that mend a finding; `why_none` says why nothing is done about one.
        again: snapshots that are written again, by id; None before they were looked for.
        begin, end: the first and the last snapshot of the history; 0 where that is not known.
        expired: the ids below an EARLIEST that is right.
    """

    survey: Survey
    findings: Sequence[Finding]
    steps: list[Step] = field(default_factory=list)
    mended: dict[Finding, list[int]] = field(default_factory=dict)
    why_none: dict[Finding, str] = field(default_factory=dict)
    again: dict[int, bytes] | None = None
    begin: int = 0
    end: int = 0
    expired: frozenset[int] = frozenset()

    def add(self, step: Step, mends: Iterable[Finding]) -> None:
        self.steps.append(step)
        for finding in mends:
            self.mended.setdefault(finding, []).append(len(self.steps) - 1)

    def about(self, *keys: str) -> list[Finding]:
        """The findings about these files as a whole, and about files that only they name."""
        return [
            f for f in self.findings if f.file in keys or any(f.message.endswith(f"; {key} needs it") for key in keys)
        ]
