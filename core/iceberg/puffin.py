"""Puffin files of deletion vectors.

Owns: `puffin_of`, `VectorBlob`. Must not know: which rows are deleted. Source: the Puffin specification, blob type
`deletion-vector-v1`, whose bytes are those of the format's own vectors of 64 bits.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

_MAGIC = b"PFA1"
_ROW_POSITION = 2147483645
"""The id of the column of row positions, which Iceberg reserves."""


class VectorBlob(NamedTuple):
    """A deletion vector: the data file that it belongs to, its bytes with their size and checksum, and the number of rows."""

    data_file: str
    vector: bytes
    cardinality: int


def puffin_of(blobs: Sequence[VectorBlob], created_by: str) -> tuple[bytes, list[int]]:
    """A file of vectors, and where each begins in it."""
    at, places = len(_MAGIC), list[int]()
    for blob in blobs:
        places.append(at)
        at += len(blob.vector)
    footer = {
        "blobs": [
            {
                "type": "deletion-vector-v1",
                "fields": [_ROW_POSITION],
                "snapshot-id": -1,
                "sequence-number": -1,
                "offset": place,
                "length": len(blob.vector),
                "properties": {"referenced-data-file": blob.data_file, "cardinality": str(blob.cardinality)},
            }
            for blob, place in zip(blobs, places, strict=True)
        ],
        "properties": {"created-by": created_by},
    }
    payload = json.dumps(footer).encode()
    plain_footer = bytes(4)
    end = [_MAGIC, payload, len(payload).to_bytes(4, "little"), plain_footer, _MAGIC]
    return b"".join([_MAGIC, *(blob.vector for blob in blobs), *end]), places
