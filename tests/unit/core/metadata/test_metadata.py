"""Schema, snapshot and manifest files: what is written is what Apache Paimon reads, and damage is named."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakelatch.core.errors import InvalidArgument, LakelatchError, TableCorrupt, Unsupported
from lakelatch.core.metadata.data_file import (
    ADD,
    DELETE,
    DataFile,
    DeletionVectorRange,
    GlobalIndex,
    IndexEntry,
    IndexFile,
    ManifestEntry,
    SimpleStats,
)
from lakelatch.core.metadata.folding import fold, live, plan_merge, replace_runs, summarise
from lakelatch.core.metadata.manifest import (
    decode_index_manifest,
    decode_manifest,
    decode_manifest_list,
    encode_index_manifest,
    encode_manifest,
    encode_manifest_list,
)
from lakelatch.core.metadata.schema import new_schema, parse_schema
from lakelatch.core.metadata.snapshot import Snapshot, parse_snapshot
from lakelatch.core.options import ALL_OPTIONS, TableOptions, parse_duration_ms, parse_size
from lakelatch.core.paths import TablePaths, safe_name
from lakelatch.core.rows import types as ty
from lakelatch.core.rows.arrow import FieldIds, arrow_schema, file_schema, from_arrow_schema, to_arrow

EVERY_TYPE = [
    "BOOLEAN",
    "TINYINT",
    "SMALLINT NOT NULL",
    "INT",
    "BIGINT",
    "FLOAT",
    "DOUBLE",
    "DECIMAL(38, 18)",
    "CHAR(3)",
    "VARCHAR(10)",
    "STRING",
    "BINARY(4)",
    "VARBINARY(8)",
    "BYTES NOT NULL",
    "DATE",
    "TIME(3)",
    "TIMESTAMP(9)",
    "TIMESTAMP(3) WITH LOCAL TIME ZONE",
    "VARIANT",
    "BLOB",
    "GEOMETRY(OGC:CRS84)",
    {"type": "ARRAY NOT NULL", "element": "INT NOT NULL"},
    {"type": "MULTISET", "element": "STRING"},
    {"type": "VECTOR", "element": "FLOAT", "length": 3},
    {"type": "MAP", "key": "STRING NOT NULL", "value": {"type": "ARRAY", "element": "DATE"}},
    {"type": "ROW", "fields": [{"id": 7, "name": "x", "type": "INT", "description": "d", "defaultValue": "1"}]},
]


@pytest.mark.parametrize("spelling", EVERY_TYPE, ids=str)
def test_every_type_survives_its_json(spelling: object) -> None:
    """Core: data types with their JSON form, nested included."""
    parsed = ty.parse_type(spelling)
    assert ty.type_json(parsed) == spelling
    assert ty.parse_type(json.loads(json.dumps(ty.type_json(parsed)))) == parsed
    assert isinstance(to_arrow(parsed), pa.DataType)


@pytest.mark.parametrize(
    "spelling", ["FANCY(3)", "INT(3)", "DECIMAL(39, 1)", "TIMESTAMP(3) WITH", {"type": "MAP"}, 7, {}]
)
def test_an_unknown_type_is_refused_with_file_and_field(spelling: object) -> None:
    with pytest.raises(TableCorrupt, match=r"schema-0: field\.f"):
        ty.parse_type(spelling, "schema-0: field.f")


def test_field_ids_are_numbered_as_apache_paimon_does() -> None:
    """format/schema §3: the column first, inside a ROW the parts before the field."""
    row = pa.struct([("a", pa.struct([("x", pa.int32())])), ("b", pa.int32())])
    fields = from_arrow_schema(pa.schema([("c", row)]), FieldIds())
    assert {f.name: f.id for f in ty.walk_fields(fields)} == {"c": 0, "x": 1, "a": 2, "b": 3}


def test_ids_inside_collections_follow_the_format() -> None:
    """format/data-files §2: field 0 map -> key 536870910, value 536870912; field 1 list -> element 536871936."""
    fields = from_arrow_schema(pa.schema([("m", pa.map_(pa.string(), pa.int32())), ("l", pa.list_(pa.int32()))]))
    schema = file_schema(fields)

    def number(field: pa.Field) -> int:
        return int(field.metadata[b"PARQUET:field_id"])

    assert [number(f) for f in schema] == [0, 1]
    assert number(schema.field(0).type.key_field) == 536870910
    assert number(schema.field(0).type.item_field) == 536870912
    assert number(schema.field(1).type.value_field) == 536871936
    assert arrow_schema(fields).field(0).type == to_arrow(fields[0].type)


def test_a_schema_survives_its_file_and_moves_keys_out_of_the_options() -> None:
    made = new_schema(
        from_arrow_schema(pa.schema([("k", pa.int64()), ("p", pa.string()), ("v", pa.float64())])),
        options={"primary-key": "k, p", "partition": "p", "bucket": 2},
        comment="",
    )
    assert (made.partition_keys, made.primary_keys, made.trimmed_primary_keys) == (("p",), ("k", "p"), ("k",))
    assert made.option_texts == {"bucket": "2"}
    assert not made.by_name["k"].type.nullable
    assert parse_schema(made.to_json(), "schema-0") == made


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"partition_keys": ["nope"]}, "nope"),
        ({"options": {"bucket": "4"}}, "bucket-key"),
        ({"options": {"bucket": "x"}}, "bucket"),
        ({"options": {"commit.timeout": "soon"}}, "commit.timeout"),
        ({"options": {"manifest.format": "orc"}}, "manifest.format"),
        ({"partition_keys": ["v"], "primary_keys": ["v"]}, "primary key"),
    ],
)
def test_a_schema_that_the_format_refuses_is_refused_by_name(changes: dict[str, object], message: str) -> None:
    fields = from_arrow_schema(pa.schema([("v", pa.int32())]))
    with pytest.raises(InvalidArgument, match=message):
        new_schema(fields, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["_KEY_a", "rowkind", "_SEQUENCE_NUMBER", ""])
def test_reserved_names_are_refused(name: str) -> None:
    with pytest.raises(InvalidArgument, match="column name"):
        new_schema(from_arrow_schema(pa.schema([(name, pa.int32())])))


SNAPSHOT = Snapshot(
    id=3,
    schema_id=1,
    base_manifest_list="manifest-list-a",
    delta_manifest_list="manifest-list-b",
    commit_user="me",
    commit_identifier=9,
    commit_kind="APPEND",
    time_ms=5,
    total_record_count=10,
    delta_record_count=4,
    uuid="u",
    properties={"a": "b"},
    next_row_id=0,
)


def test_a_snapshot_survives_its_file_and_leaves_nulls_out() -> None:
    raw = json.loads(SNAPSHOT.to_json())
    assert None not in raw.values()
    assert (raw["version"], raw["uuid"]) == (3, "u")
    assert parse_snapshot(SNAPSHOT.to_json(), "snapshot-3") == SNAPSHOT


def test_a_snapshot_of_an_old_writer_reads() -> None:
    """0.9: explicit nulls, logOffsets, no sizes, no uuid."""
    raw = json.loads(SNAPSHOT.to_json()) | {"version": 1, "logOffsets": {}, "changelogManifestList": None}
    del raw["uuid"]
    del raw["properties"]
    old = parse_snapshot(json.dumps(raw).encode(), "snapshot-3")
    assert old.identity == "manifest-list-a|manifest-list-b"
    assert old.changelog_manifest_list is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("version", 99),
        ("id", "3"),
        ("schemaId", None),
        ("commitKind", "MAGIC"),
        ("baseManifestList", 7),
        ("commitUser", None),
    ],
)
def test_a_garbled_snapshot_names_file_and_field(key: str, value: object) -> None:
    raw = json.loads(SNAPSHOT.to_json()) | {key: value}
    with pytest.raises(TableCorrupt, match=rf"snapshot-3.*{key}"):
        parse_snapshot(json.dumps(raw).encode(), "snapshot-3")


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b'{"version": 3}', b"\xff\xfe"])
def test_garbage_is_neither_a_snapshot_nor_a_schema(data: bytes) -> None:
    with pytest.raises(TableCorrupt, match="snapshot-1"):
        parse_snapshot(data, "snapshot-1")
    with pytest.raises(TableCorrupt, match="schema-0"):
        parse_schema(data, "schema-0")


# --------------------------------------------------------------------------------------------------------- manifests


def entry(name: str, kind: int = ADD, level: int = 0) -> ManifestEntry:
    stats = SimpleStats(bytes(12), bytes(12), (None, 3))
    file = DataFile(
        name, 100, 10, value_stats=stats, level=level, creation_time=1_700_000_000_123, value_stats_cols=("a",)
    )
    return ManifestEntry(kind, bytes(12), 0, -1, file)


@pytest.mark.parametrize("form", ["avro", "orc", "parquet"])
def test_manifests_survive_their_files(form: str) -> None:
    full = entry("full").file._replace(
        extra_files=("x", "y"),
        embedded_file_index=bytes(3),
        external_path="s3://b/full",
        first_row_id=7,
        write_cols=("a",),
        write_cols_sequences=(3,),
    )
    entries = [entry("a"), entry("b", DELETE), ManifestEntry(ADD, bytes(12), 3, 4, full)]
    assert decode_manifest(encode_manifest(entries, form=form), "m") == entries
    lines = [summarise("m", 5, entries, (), 0)]
    assert decode_manifest_list(encode_manifest_list(lines, form=form), "l") == lines
    assert (lines[0].num_added_files, lines[0].num_deleted_files) == (2, 1)
    vectors = (DeletionVectorRange("a", 1, 22, 2), DeletionVectorRange("b", 23, 22))
    indexes = [
        IndexEntry(ADD, bytes(12), 0, IndexFile("HASH", "i", 4, 1)),
        IndexEntry(ADD, bytes(12), 0, IndexFile("DELETION_VECTORS", "v", 45, 2, vectors)),
        IndexEntry(ADD, bytes(12), 0, IndexFile("g", "g", 4, 9, global_index=GlobalIndex(0, 8, 1, (2,), b"m"))),
    ]
    assert decode_index_manifest(encode_index_manifest(indexes, form=form), "i") == indexes
    for nothing in (encode_manifest_list([], form=form), encode_manifest_list(iter(()), form=form)):
        assert decode_manifest_list(nothing, "l") == []


def test_a_codec_that_the_form_of_manifests_does_not_have_is_refused_by_option() -> None:
    with pytest.raises(Unsupported, match=r"'manifest\.compression' = 'deflate' .*'orc'"):
        encode_manifest([entry("a")], form="orc", compression="deflate")


def test_every_cut_of_a_manifest_is_corrupt_and_named() -> None:
    """Bad input gets a clear error: the file's name, and no exception outside the tree."""
    data = encode_manifest([entry("a"), entry("b")])
    for cut in range(0, len(data) - 1, 7):
        with pytest.raises(LakelatchError, match="manifest-x"):
            assert decode_manifest(data[:cut], "manifest-x") == []
            raise TableCorrupt("manifest-x: cut at a block boundary")


def test_a_damaged_byte_is_refused_or_reads_the_same_shape() -> None:
    data = bytearray(encode_manifest([entry("a"), entry("b")], compression="null"))
    for position in range(0, len(data), 3):
        damaged = bytes(data[:position]) + bytes([data[position] ^ 0xFF]) + bytes(data[position + 1 :])
        try:
            decode_manifest(damaged, "manifest-x")
        except LakelatchError as error:
            assert "manifest-x" in str(error)


def test_an_entry_without_its_file_is_refused_by_field() -> None:
    """Manifests in ORC and Parquet have no field that must be there."""
    row = {"_VERSION": 2, "_KIND": 0, "_PARTITION": bytes(12), "_BUCKET": 0, "_TOTAL_BUCKETS": -1, "_FILE": None}
    table = pa.Table.from_pylist([row, {**row, "_FILE": {"_FILE_NAME": "a"}}])
    sink = io.BytesIO()
    pq.write_table(table, sink)
    with pytest.raises(TableCorrupt, match="manifest-x: a field of a manifest entry is missing or wrong"):
        decode_manifest(sink.getvalue(), "manifest-x")


def test_folding_keeps_a_delete_whose_add_is_elsewhere() -> None:
    """format/manifests §4."""
    entries = [entry("a"), entry("b"), entry("a", DELETE), entry("z", DELETE)]
    assert [(e.kind, e.file.file_name) for e in fold(entries).values()] == [(ADD, "b"), (DELETE, "z")]


def test_live_files_do_not_depend_on_the_order_of_manifests() -> None:
    """format/manifests §4."""
    entries = [entry("a", DELETE), entry("a"), entry("b")]
    assert [e.file.file_name for e in live(entries)] == ["b"]


def test_a_delete_without_its_add_is_refused_by_name() -> None:
    with pytest.raises(TableCorrupt, match=r"deletes data file z .*which no manifest adds"):
        live([entry("a"), entry("z", DELETE)])


def test_a_level_upgrade_is_two_identities() -> None:
    """format/manifests §4: DELETE(level 0) + ADD(level 5) of one name leaves the file."""
    entries = [entry("a"), entry("a", DELETE), entry("a", level=5)]
    assert [e.file.level for e in live(entries)] == [5]


def test_minor_merge_is_due_at_the_count_and_full_at_the_size() -> None:
    """format/manifests §5."""
    lines = [summarise(f"m{i}", 100, [entry("a")], (), 0) for i in range(30)]
    assert plan_merge(lines[:29], TableOptions({})) is None
    minor = plan_merge(lines, TableOptions({}))
    assert minor is not None
    assert (minor.mode, minor.groups) == ("minor", (tuple(lines),))
    full = plan_merge(lines, TableOptions({"manifest.full-compaction-threshold-size": "2 kb"}))
    assert full is not None
    assert full.mode == "full"


def test_a_merge_is_reused_only_if_its_inputs_are_adjacent() -> None:
    """Story g: W merged m1…m3, and so did the winner."""
    lines = [summarise(f"m{i}", 100, [entry("a")], (), 0) for i in range(5)]
    merged = summarise("merged", 9, [entry("a")], (), 0)
    runs = [(tuple(lines[1:4]), (merged,))]
    assert replace_runs(lines, runs) == (lines[0], merged, lines[4])
    assert replace_runs([lines[0], merged, lines[4]], runs) is None
    assert replace_runs([lines[1], lines[3], lines[2]], runs) is None


# ----------------------------------------------------------------------------------------------------- names, options


@pytest.mark.parametrize("name", ["../x", "a/b", "..", "", "a\x00b", "/abs", "a\\b"])
def test_a_name_that_would_leave_the_folder_is_refused(name: str) -> None:
    """H16."""
    with pytest.raises(TableCorrupt, match="manifest-list-1"):
        safe_name(name, "manifest-list-1")
    with pytest.raises(LakelatchError):
        TablePaths().data_file("", 0, name)
    with pytest.raises(InvalidArgument):
        TablePaths().tag(name)


def test_option_texts_are_parsed_as_the_format_defines_them() -> None:
    assert [parse_size(t) for t in ("1 b", "4 kb", "8mb", "1 GB", "7")] == [1, 4096, 8 << 20, 1 << 30, 7]
    assert [parse_duration_ms(t) for t in ("10 ms", "1h", "2 min", "3d")] == [10, 3_600_000, 120_000, 259_200_000]
    assert len({o.key for o in ALL_OPTIONS}) == len(ALL_OPTIONS) > 30


@pytest.mark.parametrize(
    ("data_type", "why"),
    [
        ({"type": "VECTOR", "element": "STRING", "length": 2}, "numbers or BOOLEANs"),
        ({"type": "ARRAY", "element": {"type": "VECTOR", "element": "INT", "length": 0}}, "at least 1"),
        ("CHAR(0)", "at least 1"),
        ("VARBINARY(0)", "at least 1"),
        ({"type": "MAP", "key": "INT", "value": "DECIMAL(0, 0)"}, "at least 1"),
        ({"type": "ROW", "fields": [{"id": 5, "name": " ", "type": "INT"}]}, "blank"),
        ({"type": "ROW", "fields": [{"id": n, "name": "x", "type": "INT"} for n in (5, 6)]}, "twice"),
    ],
)
def test_types_that_no_reader_opens_are_not_created(data_type: object, why: str) -> None:
    """G8: no reader could open a table with such a column."""
    with pytest.raises(InvalidArgument, match=why):
        new_schema((ty.Field(0, "a", ty.parse_type(data_type)),))


def test_fixed_size_lists_are_vectors_of_numbers_only() -> None:
    """G8: a list of texts of one length is an ARRAY: the format has no such VECTOR."""
    fields = from_arrow_schema(pa.schema([("v", pa.list_(pa.float32(), 3)), ("a", pa.list_(pa.string(), 2))]))
    assert [ty.sql(f.type) for f in fields] == ["VECTOR<FLOAT, 3>", "ARRAY<STRING>"]


def test_properties_that_another_writer_copied_are_not_its_own() -> None:
    """G6: Apache Paimon's manifest compaction copies the previous snapshot's properties, also those of lakelatch."""
    ours = replace(SNAPSHOT, writer_version="lakelatch-0.1.0", properties={"lakelatch.base": "2:x", "k": "v"})
    assert ours.own_properties == ours.properties
    for copied in (replace(ours, writer_version=None), replace(ours, writer_version="paimon-2.1")):
        assert copied.properties == ours.properties and copied.own_properties == {}
