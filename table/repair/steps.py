"""The steps of a repair, as values, and the plan that they make up.

Owns: `Step`, `Lost`, `Remedy`, `RepairPlan`. Must not know: stores, how damage is found.
Invariants: a plan tells every finding and what is done about it, or why nothing is. A step that gives up rows or earlier states
says which, and is carried out only if the caller accepts that.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from ...core.html_text import ShownAsText
from ...core.metadata.data_file import ManifestEntry
from ..verify.finding import Finding

StepKind = Literal["restore", "reword", "retire", "cut", "untag", "hint", "drop", "bring_back", "rewrite"]


@dataclass(frozen=True)
class Lost:
    """Files of one partition, such as `month=1` (empty without partitions), and their rows, by the manifests."""

    partition: str
    rows: int
    files: tuple[str, ...]

    def __str__(self) -> str:
        where = f"{self.partition}: " if self.partition else ""
        shown = ", ".join(self.files[:5]) + (f" and {len(self.files) - 5} more" if len(self.files) > 5 else "")
        return f"{where}{self.rows} rows in {len(self.files)} files ({shown})"


@dataclass(frozen=True)
class Step:
    """One thing that a repair does.

    Attributes:
        kind: `restore` a file from a copy; `reword` one that others cannot parse, in its place; `retire` snapshots from the lower
            end of the history, and `cut` them from its upper end; `untag`; write a `hint`; `drop` files that are gone with a
            commit, `bring_back` files with one, or `rewrite` manifests.
        told: what it does, in one sentence.
        loses: what is given up; empty if nothing is.
        creates, puts: files that it creates or writes, with their contents.
        deletes: files that it deletes or writes anew, in order, with the digest of what is there. They are copied to
            `lakelatch/repaired/` before.
        lost: the rows that a `drop` gives up, or that come back.
        entries: the manifest entries of these files; for a `rewrite`, of all files.
    """

    kind: StepKind
    told: str
    loses: str = ""
    creates: tuple[tuple[str, bytes], ...] = field(default=(), repr=False)
    puts: tuple[tuple[str, bytes], ...] = field(default=(), repr=False)
    deletes: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    lost: tuple[Lost, ...] = ()
    entries: tuple[ManifestEntry, ...] = field(default=(), repr=False)

    def __str__(self) -> str:
        return f"{self.told}; gives up {self.loses}" if self.loses else self.told

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "does": self.told,
            "gives_up": self.loses,
            "writes": [key for key, _ in (*self.creates, *self.puts)],
            "deletes": [key for key, _ in self.deletes],
            "partitions": [{"partition": p.partition, "rows": p.rows, "files": list(p.files)} for p in self.lost],
        }


@dataclass(frozen=True)
class Remedy:
    """What is done about one finding, by positions in the plan's steps; if nothing is, `told` says why, and what one can do."""

    finding: Finding
    steps: tuple[int, ...] = ()
    told: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {"finding": self.finding.to_dict(), "steps": list(self.steps), "why_none": self.told}


@dataclass(frozen=True)
class RepairPlan(ShownAsText):
    """What is wrong with a table, and what is done about it, in order. Prints as text of a few lines."""

    steps: tuple[Step, ...]
    remedies: tuple[Remedy, ...]
    newest_id: int = 0

    def __str__(self) -> str:
        lines = [f"{number}. {step}" for number, step in enumerate(self.steps, 1)]
        for remedy in self.remedies:
            by = ", ".join(str(number + 1) for number in remedy.steps)
            lines.append(f"{remedy.finding}")
            lines.append(f"   step {by}" if by else f"   nothing is done: {remedy.told}")
        return "\n".join(lines) if lines else "nothing to repair"

    def allowed(self, accept_loss: bool) -> tuple[Step, ...]:
        return tuple(step for step in self.steps if accept_loss or not step.loses)

    def to_dict(self) -> dict[str, Any]:
        """The plan with stable keys, ready for JSON."""
        return {
            "steps": [step.to_dict() for step in self.steps],
            "findings": [remedy.to_dict() for remedy in self.remedies],
        }
