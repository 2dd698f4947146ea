"""Containers whose schema was read before: the same records as fastavro's reader gives, and the same errors."""

from __future__ import annotations

import io
from typing import Any

import fastavro
import pytest

from lakelatch.core.avro import records
from lakelatch.core.avro.records import read_records, write_records
from lakelatch.core.errors import LakelatchError
from lakelatch.core.metadata.manifest_schema import parsed

LINES = [
    {
        "_VERSION": 2,
        "_FILE_NAME": f"manifest-{number}",
        "_FILE_SIZE": number << 33,
        "_NUM_ADDED_FILES": number,
        "_NUM_DELETED_FILES": 0,
        "_PARTITION_STATS": {
            "_MIN_VALUES": b"\0",
            "_MAX_VALUES": bytes([number % 256]),
            "_NULL_COUNTS": [None, number],
        },
        "_SCHEMA_ID": 3,
    }
    for number in range(500)
]


def told(data: bytes) -> Any:
    """What a reader makes of the bytes: their records, or its error."""
    try:
        return read_records(data, "manifest-list-1")
    except LakelatchError as error:
        return type(error), str(error)


def slowly(data: bytes, monkeypatch: pytest.MonkeyPatch) -> Any:
    with monkeypatch.context() as without:
        without.setattr(records, "_read_known", lambda data: None)
        return told(data)


@pytest.mark.parametrize("codec", ["zstd", "none", "gzip", "snappy"])
@pytest.mark.parametrize("count", [0, 1, len(LINES)])
def test_the_records_are_those_of_fastavro(count: int, codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = write_records(parsed("list"), LINES[:count], compression=codec)
    assert records._read_known(data) is not None
    assert told(data) == slowly(data, monkeypatch) == list(fastavro.reader(io.BytesIO(data)))


@pytest.mark.parametrize("codec", ["zstd", "none"])
def test_damage_is_told_as_before(codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte cut off, and each byte of the blocks changed: what fastavro refuses is refused, in the same words."""
    whole = write_records(parsed("list"), LINES[:3], compression=codec)
    header = len(write_records(parsed("list"), (), compression=codec))
    for end in range(4, len(whole)):
        assert told(whole[:end]) == slowly(whole[:end], monkeypatch), end
    for at in range(header, len(whole)):
        changed = whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :]
        found = told(changed)
        assert found == slowly(changed, monkeypatch), at


def test_a_schema_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is what makes a small manifest cheap to read; another writer's schema is another one."""
    records._rows_of.cache_clear()
    parse, schemas = fastavro.parse_schema, list[Any]()
    monkeypatch.setattr(fastavro, "parse_schema", lambda schema: schemas.append(schema) or parse(schema))
    other = parse({"type": "record", "name": "other", "fields": [{"name": "a", "type": "int"}]})
    for _ in range(3):
        assert read_records(write_records(parsed("list"), LINES[:1]), "list")[0]["_FILE_NAME"] == "manifest-0"
        assert read_records(write_records(other, [{"a": 7}]), "other") == [{"a": 7}]
    assert len(schemas) == 2


def test_an_interrupt_while_records_are_read_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*args: Any) -> None:
        raise SystemError("returned a result with an exception set") from KeyboardInterrupt()

    data = write_records(parsed("list"), LINES[:1])
    monkeypatch.setattr(fastavro, "schemaless_reader", interrupted)
    with pytest.raises(KeyboardInterrupt):
        read_records(data, "list")
