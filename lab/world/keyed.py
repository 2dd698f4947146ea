"""Rows with a primary key, as the lab's actors write them and its readers merge them.

Owns: the names of such rows, `winners`, `commits_of`.
Must not know: schedules, faults, which actor wrote what. Source: format/primary-keys §2, §3; H14.
Invariants: a row's name tells its commit, its key, its number, and whether it deletes; so files are read by their names. Rows are
merged by the rules of the format alone, never by the code that is under test.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from ...core import options as opt
from ...core.metadata.data_file import NO_BUCKETS, DataFile, ManifestEntry
from ...core.metadata.schema import parse_schema
from ...core.rows.binary.binary_row import encode_row
from ...core.rows.types import AtomicType
from .stage import file_of, rows_in

Marks = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class KeyRow:
    """One row: the newest one of its key that a commit wrote.

    >>> row = KeyRow("A1", 2, 205, deletes=True)
    >>> row.text, KeyRow.of("A1~2.205x") == row
    ('A1~2.205x', True)
    """

    commit: str
    key: int
    number: int
    deletes: bool = False

    @property
    def text(self) -> str:
        return f"{self.commit}~{self.key}.{self.number}{'x' if self.deletes else ''}"

    @staticmethod
    def of(text: str) -> KeyRow:
        commit, _, rest = text.partition("~")
        key, _, number = rest.removesuffix("x").partition(".")
        return KeyRow(commit, int(key), int(number), rest.endswith("x"))


def rows_of(file_name: str) -> list[KeyRow]:
    return [KeyRow.of(text) for text in rows_in(file_name)]


def commits_of(texts: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The commits that wrote some rows with keys, and what each put: a key, with a minus sign where it deletes.

    >>> commits_of(["B1~2.7", "A1~3.5x", "A1~1.4", "C1"])
    {'A1': ('1', '-3'), 'B1': ('2',)}
    """
    found: dict[str, tuple[str, ...]] = {}
    rows = [KeyRow.of(text) for text in texts if "." in text]
    for row in sorted(rows, key=lambda row: (row.commit, row.key)):
        found[row.commit] = (*found.get(row.commit, ()), f"{'-' if row.deletes else ''}{row.key}")
    return found


def key_file(rows: Iterable[KeyRow], *, made_by: str = "", level: int = 0, source: int = 0) -> DataFile:
    rows = sorted(rows, key=lambda row: row.key)
    numbers = [row.number for row in rows]
    return DataFile(
        file_of(*(row.text for row in rows), made_by=made_by),
        file_size=1,
        row_count=len(rows),
        min_key=_key(rows[0].key),
        max_key=_key(rows[-1].key),
        min_sequence_number=min(numbers),
        max_sequence_number=max(numbers),
        delete_row_count=sum(row.deletes for row in rows),
        level=level,
        file_source=source,
    )


def _key(value: int) -> bytes:
    return encode_row([value], [AtomicType("INT")])


@lru_cache(maxsize=100)
def is_keyed(schema_json: bytes) -> tuple[bool, bool]:
    schema = parse_schema(schema_json, "schema")
    return bool(schema.primary_keys), schema.options.get(opt.DELETION_VECTORS)


def winners(
    alive: Iterable[ManifestEntry], marks: Marks, *, vectors: bool
) -> tuple[tuple[KeyRow, ...], tuple[str, ...]]:
    """The newest row of each key, also one that deletes; and what is wrong with them.

    With vectors, a key has one row above level 0 that is not marked, and any row of level 0 is newer than that.
    """
    found: dict[int, list[tuple[bool, KeyRow, int]]] = {}
    for entry in alive:
        marked = marks.get(entry.file.file_name, ())
        for position, row in enumerate(rows_of(entry.file.file_name)):
            if position not in marked:
                found.setdefault(row.key, []).append((entry.file.level == 0, row, entry.bucket))
    newest, wrong = [], []
    for key, rows in sorted(found.items()):
        if len({bucket for _, _, bucket in rows}) > 1:
            wrong.append(f"key {key} is in two buckets")
        if vectors and sum(not first for first, _, _ in rows) > 1:
            wrong.append(f"key {key} has two rows above level 0")
        order = [(first if vectors else False, row.number) for first, row, _ in rows]
        if order.count(max(order)) > 1:
            wrong.append(f"two rows of key {key} have the number {max(order)[1]}")
        newest.append(rows[order.index(max(order))][1])
    return tuple(newest), tuple(wrong)


def hash_of(key: int) -> bytes:
    """The hash of a key is the key, as an index file of dynamic buckets holds it."""
    return key.to_bytes(4, "big")


def hashes_in(data: bytes) -> frozenset[bytes]:
    """The hashes that an index file of dynamic buckets holds.

    >>> hashes_in(hash_of(1) + hash_of(2)) == {hash_of(1), hash_of(2)}
    True
    """
    return frozenset(data[n : n + 4] for n in range(0, len(data), 4))


def unindexed(alive: Iterable[ManifestEntry], hashes: Mapping[int, bytes]) -> tuple[str, ...]:
    """Rows of dynamic buckets whose keys their hash index lacks: the next writer would give them another bucket."""
    known = {bucket: hashes_in(data) for bucket, data in hashes.items()}
    return tuple(
        row.text
        for entry in alive
        if entry.total_buckets == NO_BUCKETS
        for row in rows_of(entry.file.file_name)
        if hash_of(row.key) not in known.get(entry.bucket, ())
    )
