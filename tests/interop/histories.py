"""A long history of one table by one writer, that several tests read back.

Owns: its columns and changes. Must not know: who compares. Every kind of change, manifests merged again and again.
"""

from __future__ import annotations

from typing import Any

from .ledger import TRUNCATE, Lakelatch, Ledger, append, drop, dynamic, overwrite

BUSY_MANIFESTS = {
    "manifest.merge-min-count": "3",
    "manifest.target-file-size": "4 kb",
    "manifest.full-compaction-threshold-size": "8 kb",
}
"""Every few commits a minor manifest compaction, and every few of these a full one."""

HISTORY_COLUMNS = [("id", "INT NOT NULL"), ("p", "STRING"), ("s", "STRING"), ("d", "DOUBLE"), ("t", "TIMESTAMP(3)")]
"""Partitioned by `p`."""


def _row(i: int, partition: str | None) -> list[Any]:
    floats = ["NaN", "-0.0", 0.0, i / 2]
    return [
        i,
        partition,
        f"value-{i}" if i % 5 else None,
        floats[i % 4],
        f"2024-01-01T00:00:{i % 60:02d}.{i % 1000:03d}000000",
    ]


def long_history(ledger: Ledger, writer: Lakelatch) -> None:
    """Carries the changes out: appends, transactions, each kind of overwrite, identities, properties, watermarks."""
    change = ledger.change
    for i in range(8):
        change(writer, append([_row(i, "a"), _row(i + 1, "b"), _row(i + 2, None)], commit_user="etl", identifier=i))
    change(writer, append([_row(20, "a")], [_row(21, "c")], [_row(22, "a")], properties={"who": "test", "ü": "😀"}))
    change(writer, overwrite([_row(30, "a"), _row(31, "a")], {"p": "a"}, commit_user="etl", identifier=100))
    change(writer, append([_row(32, "d")], watermark_ms=1_700_000_000_000))
    change(writer, dynamic([_row(33, "b"), _row(34, "e")]))
    change(writer, append([_row(35, "e")], watermark_ms=5))
    change(writer, drop({"p": None}, {"p": "c"}))
    for i in range(40, 46):
        change(writer, append([_row(i, "f"), _row(i, "a")]))
    change(writer, overwrite([], {"p": "f"}))
    change(writer, TRUNCATE)
    change(writer, append([_row(50, ""), _row(51, None), _row(52, "a")]))
    change(writer, overwrite([_row(53, "z")], {}))
    change(writer, append([_row(54, "a")]))
