"""Manifests decoded as columns give the same entries, or the same error, as a reader that decodes record by record."""

from __future__ import annotations

import io
import json
import random
from itertools import pairwise

import fastavro
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakelatch.core.avro import columns as avro_columns
from lakelatch.core.errors import LakelatchError
from lakelatch.core.metadata.data_file import DataFile, ManifestEntry, SimpleStats
from lakelatch.core.metadata.manifest import decode_manifest, decode_manifests, encode_manifest
from lakelatch.core.metadata.manifest_columns import EntryColumns

LONG = st.integers(-(2**63), 2**63 - 1)
INT = st.integers(-(2**31), 2**31 - 1)
TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
BYTES = st.binary(max_size=40)
COUNTS = st.none() | st.lists(st.none() | LONG, max_size=3).map(tuple)
STATS = st.builds(SimpleStats, BYTES, BYTES, COUNTS)
TEXTS = st.lists(TEXT, max_size=3).map(tuple)
FILES = st.builds(
    DataFile,
    file_name=TEXT,
    file_size=LONG,
    row_count=LONG,
    min_key=BYTES,
    max_key=BYTES,
    key_stats=STATS,
    value_stats=STATS,
    min_sequence_number=LONG,
    max_sequence_number=LONG,
    schema_id=LONG,
    level=INT,
    extra_files=TEXTS,
    creation_time=st.none() | st.integers(0, 2**42),
    delete_row_count=st.none() | LONG,
    embedded_file_index=st.none() | BYTES,
    file_source=st.none() | INT,
    value_stats_cols=st.none() | TEXTS,
    external_path=st.none() | TEXT,
    first_row_id=st.none() | LONG,
    write_cols=st.none() | TEXTS,
    write_cols_sequences=st.none() | st.lists(LONG, max_size=3).map(tuple),
)
ENTRIES = st.builds(ManifestEntry, st.sampled_from([0, 1]), BYTES, INT, INT, FILES)


def decoded(*manifests: bytes) -> list[ManifestEntry]:
    parts = decode_manifests([(f"m{i}", data) for i, data in enumerate(manifests)])
    return [e for part in parts for e in (part if isinstance(part, list) else part.entries())]


@given(
    st.lists(st.lists(ENTRIES, max_size=6), min_size=1, max_size=4),
    st.sampled_from(["zstd", "none", "gzip", "snappy", "bzip2", "xz"]),
)
@settings(max_examples=150, deadline=None)
def test_entries_are_those_of_a_reader_record_by_record(parts: list[list[ManifestEntry]], compression: str) -> None:
    manifests = [encode_manifest(entries, compression=compression) for entries in parts]
    assert decoded(*manifests) == [e for entries in parts for e in entries]
    columns = list(decode_manifests([(str(i), m) for i, m in enumerate(manifests)]))
    assert all(isinstance(part, EntryColumns) for part in columns), "none of it went the slow way"


def sample(count: int = 200, seed: int = 7) -> list[ManifestEntry]:
    rng = random.Random(seed)
    made = []
    for n in range(count):
        stats = SimpleStats(rng.randbytes(20), rng.randbytes(20), (0, None, n))
        file = DataFile(f"data-{n}.parquet", n, n * 10, value_stats=stats, extra_files=("x.index",) * (n % 3))
        made.append(ManifestEntry(n % 7 == 0, rng.randbytes(12), n % 4, 4, file))  # type: ignore[arg-type]
    return made


def test_many_blocks_of_different_lengths() -> None:
    """Blocks end at different records; rows still come in order, and some of them alone too, before all and after them."""
    entries = sample(5000)
    cuts = [0, 1, 700, 701, 2500, 5000]
    manifests = [encode_manifest(entries[a:b]) for a, b in pairwise(cuts)]
    assert decoded(*manifests) == entries
    (columns,) = decode_manifests([(str(i), m) for i, m in enumerate(manifests)])
    assert isinstance(columns, EntryColumns)
    rows = np.array([0, 5, 699, 4999])
    assert columns.entries(rows) == [entries[i] for i in rows]
    assert columns.entries() == entries
    assert columns.entries(rows) == [entries[i] for i in rows]
    partitions, which = columns.partitions()
    assert [partitions[i] for i in which] == [e.partition for e in entries]


def alike(count: int, decoys: int = 0, seed: int = 7) -> list[ManifestEntry]:
    """Entries of one partition column, so that all records begin alike; some hold what looks like the begin of another."""
    rng, made = random.Random(seed), []
    for n, entry in enumerate(sample(count, seed)):
        partition = b"\0\0\0\1" + bytes(8) + (n % 5).to_bytes(8, "little")
        decoy = b"\x04\x00\x28" + partition[:16]
        key = decoy if decoys and n % decoys == 3 else rng.randbytes(n % 30)
        made.append(entry._replace(kind=n % 9 == 8, partition=partition, file=entry.file._replace(min_key=key)))
    return made


def test_records_that_begin_alike_are_found_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records are found at any offset. Those that begin differently, such as DELETEs among ADDs, are found after the others."""
    entries = alike(2000)
    with monkeypatch.context() as patched:
        patched.delattr(avro_columns, "_block_by_block")
        assert decoded(encode_manifest(entries[:1200]), encode_manifest(entries[1200:], compression="none")) == entries


@pytest.mark.parametrize("decoys", [4, 40, 400])
def test_bytes_that_only_look_like_a_record_are_not_decoded(decoys: int) -> None:
    entries = alike(1000, decoys)
    assert decoded(encode_manifest(entries)) == entries


@pytest.mark.parametrize("seed", range(150))
def test_damage_of_records_that_begin_alike(seed: int) -> None:
    """Like damage of other records: never wrong entries, never another kind of error."""
    rng = random.Random(seed)
    data = bytearray(encode_manifest(alike(300, rng.choice([0, 50])), compression="none"))
    for _ in range(rng.randint(1, 2)):
        data[rng.randrange(1000, len(data))] ^= 1 << rng.randrange(8)
    assert outcome(lambda: decode_manifest(bytes(data), "m0")) == outcome(lambda: decoded(bytes(data)))


@pytest.mark.parametrize("seed", range(300))
def test_damage_is_reported_as_by_a_reader_record_by_record(seed: int) -> None:
    """Bytes changed, cut off or doubled: never wrong entries, never another kind of error."""
    rng = random.Random(seed)
    data = bytearray(encode_manifest(sample(40), compression=rng.choice(["none", "zstd", "snappy"])))
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(data))
        match rng.randrange(4):
            case 0:
                data[at] ^= 1 << rng.randrange(8)
            case 1:
                del data[at : at + rng.randint(1, 40)]
            case 2:
                data[at:at] = rng.randbytes(rng.randint(1, 9))
            case _:
                data[at] = 0xFF
    assert outcome(lambda: decode_manifest(bytes(data), "m0")) == outcome(lambda: decoded(bytes(data)))


def outcome(decode: object) -> object:
    try:
        return decode()  # type: ignore[operator]
    except LakelatchError as error:
        return type(error), "m0" in error.message


def test_values_that_no_writer_writes_are_refused_by_field() -> None:
    record = {
        "type": "record",
        "name": "r",
        "fields": [{"name": "_VERSION", "type": "int"}, {"name": "_KIND", "type": "int"}],
    }
    out = io.BytesIO()
    fastavro.writer(out, fastavro.parse_schema(record), [{"_VERSION": 2, "_KIND": 0}])
    with pytest.raises(
        LakelatchError, match="m0: a field of a manifest entry is missing or wrong: KeyError\\('_PARTITION'"
    ):
        decoded(out.getvalue())


@pytest.mark.parametrize(("field", "kind", "value"), [("_FILE_SIZE", "string", "5"), ("_FILE_NAME", "long", 7)])
def test_a_field_of_another_type_is_never_taken_for_the_one_it_should_be(field: str, kind: str, value: object) -> None:
    """An offset in the bytes is not a number, and a number is not an offset. The plain reader decodes such manifests."""
    reader = fastavro.reader(io.BytesIO(encode_manifest(sample(3))))
    records, schema = list(reader), json.loads(json.dumps(reader.writer_schema))
    (file,) = (part["type"] for part in schema["fields"] if part["name"] == "_FILE")
    file = file if isinstance(file, dict) else next(part for part in file if part != "null")
    next(part for part in file["fields"] if part["name"] == field)["type"] = kind
    for record in records:
        record["_FILE"][field] = value
    out = io.BytesIO()
    fastavro.writer(out, fastavro.parse_schema(schema), records)
    assert outcome(lambda: decode_manifest(out.getvalue(), "m0")) == outcome(lambda: decoded(out.getvalue()))
