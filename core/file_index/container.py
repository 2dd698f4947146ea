"""The container of a data file's indexes, whose head lists the indexes of each column with their locations.

Owns: the bytes of the head. Must not know: the contents of an index. Source: format/file-indexes §1.
Invariant: `parse_container(write_container(x))` finds every part of x.
"""

from __future__ import annotations

from collections.abc import Mapping

from .block import NO_END, Block, Cursor, Fetch

MAGIC = 1493475289347502
VERSION = 1
EMPTY = -1
_FIXED_HEAD_BYTES = 16

Containers = dict[str, dict[str, Block | None]]
"""Indexes by column (`column` or `column[key]`) and kind; None for an index without rows."""


def parse_container(fetch: Fetch, length: int | None, where: str) -> Containers:
    """The indexes of a data file, whose container may be of unknown length. Raises TableCorrupt."""
    whole = Block(fetch, 0, NO_END if length is None else length, where)
    start = Cursor(whole)
    if start.number(8) != MAGIC:
        raise whole.damaged("it does not begin like a file index")
    version = start.number(4)
    if version != VERSION:
        raise whole.damaged(f"its version is {version}; supported is {VERSION}")
    head_length = start.number(4)
    # Read the head at once, so that one that claims to be longer than the file fails before it is parsed.
    head_bytes = whole.read(_FIXED_HEAD_BYTES, head_length - _FIXED_HEAD_BYTES)
    head = Cursor(Block(lambda a, b: head_bytes[a:b], 0, len(head_bytes), where))
    found: Containers = {}
    for _ in range(head.count(4, 6, "columns")):
        column = _text(head)
        kinds = found.setdefault(column, {})
        for _ in range(head.count(4, 10, "indexes")):
            kind, at, size = _text(head), head.number(4), head.number(4)
            if at == EMPTY:
                kinds[kind] = None
                continue
            if at < head_length:
                raise whole.damaged(f"its {kind} index of column '{column}' overlaps its head")
            part = whole.part(at, size)
            kinds[kind] = Block(fetch, part.start, part.length, f"{where}: {kind} of column '{column}'")
    return found


def write_container(indexes: Mapping[str, Mapping[str, bytes | None]]) -> bytes:
    """The bytes of a container, with columns and kinds in the given order.

    >>> sorted(parse_container(lambda a, b: write_container({"a": {"bitmap": b"x"}})[a:b], None, "doc"))
    ['a']
    """
    head_length = _FIXED_HEAD_BYTES + 4 + 4
    for column, kinds in indexes.items():
        head_length += len(_modified_utf8(column)) + 4
        head_length += sum(len(_modified_utf8(kind)) + 8 for kind in kinds)
    head = [MAGIC.to_bytes(8, "big"), _i32(VERSION), _i32(head_length), _i32(len(indexes))]
    bodies: list[bytes] = []
    at = head_length
    for column, kinds in indexes.items():
        head += [_modified_utf8(column), _i32(len(kinds))]
        for kind, body in kinds.items():
            head += [_modified_utf8(kind), _i32(EMPTY if body is None else at), _i32(len(body or b""))]
            at += len(body or b"")
            bodies.append(body or b"")
    return b"".join((*head, _i32(0), *bodies))


def _i32(number: int) -> bytes:
    return number.to_bytes(4, "big", signed=True)


def _modified_utf8(text: str) -> bytes:
    """Encode text like Java's `writeUTF`: its length, then each surrogate separately, and NUL in two bytes."""
    units = text.encode("utf-16-be", "surrogatepass")
    encoded = b"".join(_unit(units[i : i + 2]) for i in range(0, len(units), 2))
    return len(encoded).to_bytes(2, "big") + encoded


def _unit(unit: bytes) -> bytes:
    return b"\xc0\x80" if unit == b"\0\0" else chr(int.from_bytes(unit, "big")).encode("utf-8", "surrogatepass")


def _text(cursor: Cursor) -> str:
    data = cursor.take(int.from_bytes(cursor.take(2), "big"))
    try:
        halves = data.replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
        return halves.encode("utf-16-be", "surrogatepass").decode("utf-16-be")
    except UnicodeError as error:
        raise cursor.block.damaged(f"a name in it is not valid text: {error}") from error
