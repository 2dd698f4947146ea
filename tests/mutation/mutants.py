"""Mutants of the checkout: which there are, which a seed draws, and which are known to change nothing.

Owns: `Mutant`, `mutants_of`, `sample`, `KnownEquivalents`. Must not know: how a mutant is judged.
Invariants: a mutant's key holds no line number, so that it outlives edits elsewhere; a sample depends on the seed and on
the keys alone, so that an edit of one function leaves the draw of all others as it was.
"""

from __future__ import annotations

import ast
import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType

from .edits import Edit, applied, edits


@dataclass(frozen=True)
class Equivalent:
    """A mutation that no test can notice, or that none should, and why.

    Attributes:
        file: relative to the checkout.
        function: qualified name, empty for the module itself.
        mutation: as a run prints it: `before → after`.
        reason: why nothing that a caller is promised depends on it.
    """

    file: str
    function: str
    mutation: str
    reason: str

    @property
    def key(self) -> tuple[str, str, str]:
        return self.file, self.function, self.mutation


@dataclass(frozen=True)
class Mutant:
    """One small bug.

    Attributes:
        file: relative to the checkout.
        number: 1 for the first place in its function that reads the same, 2 for the second.
    """

    file: str
    edit: Edit
    number: int = 1

    @property
    def mutation(self) -> str:
        """What is different, as one line."""
        again = f" (place {self.number})" if self.number > 1 else ""
        before, after = (" ".join(text.split()) for text in (self.edit.before, self.edit.after))
        return f"{before} → {after or 'nothing'}{again}"

    @property
    def key(self) -> tuple[str, str, str]:
        return self.file, self.edit.function, self.mutation

    @property
    def name(self) -> str:
        """A short name that stays the same as long as the key does."""
        return hashlib.sha256("\0".join(self.key).encode()).hexdigest()[:16]

    def code(self, root: Path) -> CodeType:
        """The module with the bug, compiled."""
        path = root / self.file
        return compile(applied(ast.parse(path.read_text()), self.edit), str(path), "exec")


def mutants_of(root: Path, files: Iterable[str]) -> Iterator[Mutant]:
    """Every mutant of the files, in the order of their text."""
    for file in files:
        seen = Counter[tuple[str, str, str]]()
        for edit in edits(ast.parse((root / file).read_text())):
            first = Mutant(file, edit)
            seen[first.key] += 1
            yield Mutant(file, edit, seen[first.key])


def sample(mutants: Iterable[Mutant], seed: str, size: int) -> list[Mutant]:
    """As many mutants as asked for, drawn by the seed."""

    def draw(mutant: Mutant) -> str:
        return hashlib.sha256(f"{seed} {mutant.name}".encode()).hexdigest()

    return sorted(mutants, key=draw)[:size]


class KnownEquivalents:
    """The list of equivalents, matched with the mutants that there are.

    Raises:
        LookupError: an entry of the list fits no mutant: the code has changed, and so must the list.
    """

    def __init__(self, known: Sequence[Equivalent], mutants: Iterable[Mutant]) -> None:
        self._reasons = {entry.key: entry.reason for entry in known}
        stale = self._reasons.keys() - {mutant.key for mutant in mutants}
        if stale:
            lines = "\n".join(f"  {file}, {function}: {mutation}" for file, function, mutation in sorted(stale))
            raise LookupError(f"equivalents that fit no mutant any more; take them out or correct them:\n{lines}")

    def reason(self, mutant: Mutant) -> str | None:
        """Why nothing can notice this mutant; None where it is not on the list."""
        return self._reasons.get(mutant.key)
