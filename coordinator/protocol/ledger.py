"""Tracks the metadata files that one commit wrote, and which of them a snapshot that may have landed needs.

Owns: `Ledger`, the only record of a commit's own metadata files, and the only rule for deleting them. Must not know: stores,
phases, why a commit ended. Hazards: H5, H20.
Invariant: the files to discard are all written files minus all named files, computed once, when the commit has ended. Nothing
is discarded while a send or an upload may still land.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from ...core.errors import ProtocolViolation


@dataclass(frozen=True, slots=True)
class Ledger:
    """The metadata files of one commit, over all of its attempts.

    Attributes:
        written: the names of all files that were written, or were about to be.
        named: those that the last snapshot which was built references; None where they were not recorded.
        unsettled: a send or an upload got no answer and may still land, so nothing can be discarded any more.
    """

    written: tuple[str, ...] = ()
    named: tuple[str, ...] | None = ()
    unsettled: bool = False

    def with_files(self, names: Iterable[str]) -> Ledger:
        return replace(self, written=tuple(dict.fromkeys((*self.written, *names))))

    def with_snapshot(self, names: tuple[str, ...] | None) -> Ledger:
        """Before sending a snapshot that references these files. Raises ProtocolViolation if one was never written."""
        unknown = min(set(names or ()).difference(self.written), default=None)
        if unknown is not None:
            raise ProtocolViolation(f"the snapshot references {unknown}, which this commit did not write")
        return replace(self, named=names)

    def without_named(self) -> Ledger:
        """After a snapshot has landed that is not the commit's own: what it references is no file of the commit any more."""
        named = frozenset(self.named or ())
        return replace(self, written=tuple(name for name in self.written if name not in named), named=())

    def with_doubt(self) -> Ledger:
        return replace(self, unsettled=True)

    def discardable(self, *, landed: bool) -> tuple[str, ...]:
        """The files that are no longer needed after the commit has ended.

        Args:
            landed: whether the current attempt's snapshot landed. If not, no send was made, or every one provably failed.

        >>> ledger = Ledger().with_files(["list-1", "delta"]).with_files(["list-2"]).with_snapshot(("list-2", "delta"))
        >>> ledger.discardable(landed=True), ledger.discardable(landed=False)
        (('list-1',), ('list-1', 'delta', 'list-2'))
        >>> ledger.with_doubt().discardable(landed=False)
        ()
        """
        named = self.named if landed else ()
        if self.unsettled or named is None:
            return ()
        needed = frozenset(named)
        return tuple(name for name in self.written if name not in needed)


EMPTY = Ledger()


def check_discard(names: Iterable[str], needed: Iterable[str]) -> None:
    """Last check before files are deleted (H20). Raises ProtocolViolation if a published snapshot needs one of them."""
    lost = min(set(names).intersection(needed), default=None)
    if lost is not None:
        raise ProtocolViolation(f"{lost} was about to be deleted, but the published snapshot needs it")
