"""Words that Apache Paimon's classes have, read from the class files of a jar: constants of enums, and texts of constant fields.

Owns: the few parts of the class file's form that this needs. Must not know: which words matter. No JVM is started, so that the
classes of two releases can be compared in one process.
"""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path

_ENUM = 0x4000
_SIZES = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4, 19: 2, 20: 2}
_UTF8, _TEXT = 1, 8


class _Bytes:
    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, size: int) -> bytes:
        self._at += size
        return self._data[self._at - size : self._at]

    def number(self, size: int = 2) -> int:
        return int.from_bytes(self.take(size), "big")


def _fields(data: bytes) -> Iterator[tuple[int, str, str | None]]:
    """Flags, name and constant text of each field."""
    read, pool = _Bytes(data), dict[int, tuple[int, bytes]]()
    assert struct.unpack(">I", read.take(4)) == (0xCAFEBABE,)
    read.take(4)
    index, count = 1, read.number()
    while index < count:
        tag = read.number(1)
        pool[index] = (tag, read.take(read.number() if tag == _UTF8 else _SIZES[tag]))
        index += 2 if tag in (5, 6) else 1

    def text(number: int) -> str:
        return pool[number][1].decode()

    read.take(6)
    read.take(2 * read.number())
    for _ in range(read.number()):
        flags, name, _, constant = read.number(), text(read.number()), read.number(), None
        for _ in range(read.number()):
            attribute, value = text(read.number()), read.take(read.number(4))
            tag, held = pool[int.from_bytes(value, "big")] if attribute == "ConstantValue" else (0, b"")
            constant = text(int.from_bytes(held, "big")) if tag == _TEXT else constant
        yield flags, name, constant


def enum_words(jar: Path, name: str) -> list[str] | None:
    """The constants of an enum, in order; None where the jar does not have it. `name` has slashes and dollars."""
    data = _class(jar, name)
    return None if data is None else [field for flags, field, _ in _fields(data) if flags & _ENUM]


def constant_text(jar: Path, name: str, field: str) -> str | None:
    """The text of a constant field; None where there is none."""
    data = _class(jar, name)
    return None if data is None else next((text for _, found, text in _fields(data) if found == field), None)


def _class(jar: Path, name: str) -> bytes | None:
    with zipfile.ZipFile(jar) as archive:
        path = f"org/apache/paimon/{name}.class"
        return archive.read(path) if path in archive.namelist() else None
