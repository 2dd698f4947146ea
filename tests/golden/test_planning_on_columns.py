"""Manifests that Apache Paimon wrote, decoded side by side and record by record: the same entries."""

from __future__ import annotations

from collections.abc import Callable

import golden_tables
import pytest
from golden_tables import GoldenTable

from lakelatch.core.metadata.manifest import decode_manifest, decode_manifests


@pytest.mark.parametrize("table_id", golden_tables.packed("append_"))
def test_both_ways_give_the_same_entries(table_id: str, golden: Callable[[str], GoldenTable]) -> None:
    """Every form of manifest since 0.7, of one table together: fields that came later are null."""
    folder = golden(table_id).path / "manifest"
    found = [(p.name, p.read_bytes()) for p in sorted(folder.glob("manifest-*")) if "list" not in p.name]
    expected = [entry for name, data in found for entry in decode_manifest(data, name)]
    parts = decode_manifests(found)
    assert [e for part in parts for e in (part if isinstance(part, list) else part.entries())] == expected
    assert expected or "empty" in table_id
