"""The receipt of a change of rows, with what it did.

Owns: `RowReceipt`. Must not know: how rows are changed. Its names are part of the public API.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from ...coordinator.commit.receipt import Receipt


@dataclass(frozen=True, slots=True)
class RowReceipt(Receipt):
    """A receipt, and the rows that were changed.

    Attributes:
        rows_inserted, rows_updated, rows_deleted: numbers of rows; None for a replay, which does nothing.
        files_rewritten: data files that were written anew, because other rows of them stay.
        files_deleted: data files that went because none of their rows stays.
        files_marked: data files of which rows were marked as deleted, in deletion vectors.
        files_read: data files that were opened to find the rows.
        plans: how often the change was planned; again after a conflict.

    >>> told = str(RowReceipt(7, "u", "etl", 1, "OVERWRITE", 1, 0, 9, 4, 8.0, False, rows_deleted=2, files_rewritten=1))
    >>> print(told.partition(", 1 attempt")[0])
    snapshot 7 (OVERWRITE by etl/1): 0 rows inserted, 0 updated, 2 deleted, 1 file rewritten
    """

    rows_inserted: int | None = 0
    rows_updated: int | None = 0
    rows_deleted: int | None = 0
    files_rewritten: int | None = 0
    files_deleted: int | None = 0
    files_marked: int | None = 0
    files_read: int | None = 0
    plans: int = 1

    @staticmethod
    def of(receipt: Receipt, **counts: int) -> RowReceipt:
        """A receipt with counts; without any for a replay."""
        if isinstance(receipt, RowReceipt):
            return receipt
        given: dict[str, Any] = {f.name: getattr(receipt, f.name) for f in fields(Receipt)}
        if receipt.replayed:
            own = {f.name for f in fields(RowReceipt)} - set(given) - {"plans"}
            return RowReceipt(**given | dict.fromkeys(own), plans=0)
        return RowReceipt(**given | counts)

    def __str__(self) -> str:
        text = Receipt.__str__(self)
        if self.replayed:
            return text
        files = "file" if self.files_rewritten == 1 else "files"
        counts = (
            f"{self.rows_inserted} rows inserted, {self.rows_updated} updated, {self.rows_deleted} deleted,"
            f" {self.files_rewritten} {files} rewritten, "
        )
        head, _, tail = text.partition("): ")
        return f"{head}): {counts}{tail}"
