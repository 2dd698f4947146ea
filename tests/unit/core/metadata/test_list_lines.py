"""Manifest lists of lines whose bytes were kept from earlier lists: byte for byte what fastavro writes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lakelatch.core.avro import records
from lakelatch.core.metadata import manifest
from lakelatch.core.metadata.data_file import EMPTY_ROW, SimpleStats
from lakelatch.core.metadata.manifest import ManifestFile, decode_manifest_list, encode_manifest_list
from lakelatch.core.metadata.manifest_schema import parsed

LINES = [
    ManifestFile(
        f"manifest-{number}",
        file_size=number * 1_000_003,
        num_added_files=number,
        num_deleted_files=number % 3,
        partition_stats=SimpleStats(EMPTY_ROW, bytes([number % 256]) * 9, (None, number) if number % 2 else None),
        schema_id=number % 5,
        **({"min_bucket": 0, "max_bucket": number, "min_row_id": number << 40, "max_row_id": -1} if number % 4 else {}),
    )
    for number in range(700)
]


def by_fastavro(lines: list[ManifestFile], **how: Any) -> bytes:
    return records.write_records(parsed("list"), map(manifest._line, lines), **how)


@pytest.mark.parametrize("how", [{}, {"level": 9}, {"compression": "zstandard"}, {"compression": "none"}])
@pytest.mark.parametrize("count", [0, 1, 40, len(LINES)])
def test_a_list_has_the_bytes_that_fastavro_writes(count: int, how: dict[str, Any]) -> None:
    """Also where it has several blocks, and again when all of its lines are kept."""
    for _ in range(2):
        data = encode_manifest_list(LINES[:count], **how)
        assert data == by_fastavro(LINES[:count], **how)
    assert decode_manifest_list(data, "list") == LINES[:count]


@pytest.mark.parametrize(
    "how", [{"compression": "gzip"}, {"compression": "snappy"}, {"form": "parquet"}, {"form": "orc"}]
)
def test_other_forms_are_written_as_before(how: dict[str, Any]) -> None:
    assert decode_manifest_list(encode_manifest_list(LINES[:40], **how), "list") == LINES[:40]


def test_a_line_that_was_changed_is_encoded_again() -> None:
    encode_manifest_list(LINES[:3])
    changed = replace(LINES[1], num_deleted_files=77)
    assert decode_manifest_list(encode_manifest_list([LINES[0], changed, LINES[2]]), "list")[1] == changed


def test_a_line_is_encoded_once_for_all_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is what makes the base list of a small commit cheap; a line that was read is the same as the one that was written."""
    manifest._encoded_line.cache_clear()
    encoded, made = records.encoded, list[str]()

    def counted(schema: Any, record: dict[str, Any]) -> bytes:
        made.append(record["_FILE_NAME"])
        return encoded(schema, record)

    monkeypatch.setattr(records, "encoded", counted)
    read = decode_manifest_list(encode_manifest_list(LINES[:5]), "list-1")
    encode_manifest_list([*read, LINES[5]])
    assert made == [line.file_name for line in LINES[:6]]


def test_an_interrupt_within_compiled_code_is_an_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*args: Any, **kwargs: Any) -> None:
        raise SystemError("returned a result with an exception set") from KeyboardInterrupt()

    monkeypatch.setattr("fastavro.schemaless_writer", interrupted)
    with pytest.raises(KeyboardInterrupt):
        encode_manifest_list([replace(LINES[0], file_name="another")])
