"""`verify(data="deep")` finds every change of a data file that makes a read fail or give other rows (H11).

This holds for every format and codec that lakelatch writes, but for CSV and JSON without compression.

`LAKELATCH_NIGHTLY=1` tries a hundred times as many changes.
"""

from __future__ import annotations

import pytest
from figures import NIGHTLY
from fuzz.damaged_rows import search
from report import tell

CHANGES = 1200 if NIGHTLY else 12
KINDS = {
    f"{file_format}, {codec}": {"file.format": file_format, "file.compression": codec}
    for file_format, codecs in {
        "parquet": ("zstd", "none"),
        "orc": ("zstd", "none"),
        "avro": ("zstd", "null", "deflate", "snappy"),
        "json": ("gzip",),
    }.items()
    for codec in codecs
}


@pytest.mark.timeout(3600 if NIGHTLY else 120)
@pytest.mark.parametrize("kind", KINDS)
def test_no_damage_is_missed(kind: str) -> None:
    found = search(kind, KINDS[kind], range(CHANGES))
    tell(f"deep verify: {found}")
    assert not found.missed, "\n".join(found.missed)
    assert found.harmful > found.tried / 2, "the damage did no harm"
