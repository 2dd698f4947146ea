"""A checksum over a whole Avro file, for codecs that have none of their own.

Owns: setting it in the header's metadata, and finding it. Must not know: stores, records. Source: the Avro specification.

The item of the metadata has a fixed size, so that it can be set in a finished file. The checksum is the CRC-32 of the file with
zeros in its place, and zeros mean that there is none.
"""

from __future__ import annotations

KEY = "lakelatch.crc32"
NO_CHECKSUM = "0" * 8
_MARK = KEY.encode() + bytes((2 * len(NO_CHECKSUM),))
_HEADER_BYTES = 1 << 20


def place_of(header: bytes) -> int | None:
    """The offset of the checksum's digits in the first MiB of a file; None if it has none."""
    found = header.find(_MARK, 0, _HEADER_BYTES)
    end = found + len(_MARK) + len(NO_CHECKSUM)
    return None if found < 0 or end > len(header) else end - len(NO_CHECKSUM)


def with_checksum(data: bytes, checksum: int) -> bytes:
    """A file with the checksum in its metadata, from the whole file with `NO_CHECKSUM` there."""
    place = place_of(data)
    return data if place is None else data[:place] + b"%08x" % checksum + data[place + len(NO_CHECKSUM) :]
