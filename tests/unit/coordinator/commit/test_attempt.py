"""The files of one attempt: how manifests are split and named, and every field of the snapshot that is built."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from lakelatch.coordinator.commit.attempt import (
    WRITER_PROPERTY,
    WRITER_VERSION,
    Delta,
    FileNames,
    MetadataFile,
    MetadataWriter,
    build_snapshot,
    check_manifest_format,
    committer_of,
)
from lakelatch.coordinator.commit.request import CommitRequest, LayoutDecision, Remarks
from lakelatch.coordinator.history.lost import ATTEMPTS_PROPERTY, lost_attempts, replaced_before, replaced_property
from lakelatch.coordinator.history.timeline import BASE_PROPERTY
from lakelatch.coordinator.identities.memory import IDENTIFIERS_PROPERTY, Memory
from lakelatch.coordinator.intents.carried import CARRIES_PROPERTY, Carried, carried_by
from lakelatch.coordinator.intents.intent import Intent
from lakelatch.coordinator.protocol.snapshot_ref import SnapshotRef
from lakelatch.core.errors import TableCorrupt, Unsupported
from lakelatch.core.metadata.data_file import ADD, DELETE, EMPTY_ROW, DataFile, IndexEntry, IndexFile, ManifestEntry
from lakelatch.core.metadata.manifest import decode_index_manifest, decode_manifest, decode_manifest_list
from lakelatch.core.metadata.schema import TableSchema, new_schema
from lakelatch.core.metadata.schemas.layout import SCHEMA_PROPERTY
from lakelatch.core.metadata.snapshot import BATCH_IDENTIFIER, Snapshot
from lakelatch.core.paths import TablePaths
from lakelatch.core.rows.arrow import from_arrow_schema

FIELDS = from_arrow_schema(pa.schema([("v", pa.int64())]))


def entry(name: str, rows: int = 5, kind: int = ADD) -> ManifestEntry:
    return ManifestEntry(kind, EMPTY_ROW, 0, -1, DataFile(name, 1, rows))


def schema(options: dict[str, str]) -> TableSchema:
    """As a table has it that another engine made; new ones are refused some of these options."""
    return replace(new_schema(FIELDS), option_texts=options)


def writer(**options: str) -> MetadataWriter:
    named = {name.replace("__", ".").replace("_", "-"): value for name, value in options.items()}
    return MetadataWriter(schema(named), TablePaths(), FileNames("u1"))


# ------------------------------------------------------------------------------------------------------------ its files


def test_each_kind_of_file_counts_for_itself() -> None:
    names = FileNames("u1")
    assert [names.next("manifest"), names.next("manifest-list"), names.next("manifest")] == [
        "manifest-u1-0", "manifest-list-u1-0", "manifest-u1-1",
    ]  # fmt: skip
    assert names.own("manifest-u1-7") and names.own("identities-u1-0")
    assert not names.own("manifest-u12-7") and not names.own("manifest-u2-0")


def test_no_entries_make_no_manifest_and_few_make_one() -> None:
    assert writer().manifests([]) == []
    ((line, file),) = writer().manifests([entry("a"), entry("b", kind=DELETE)])
    assert (line.file_name, line.file_size) == (file.name, len(file.data)) == ("manifest-u1-0", len(file.data))
    assert (line.num_added_files, line.num_deleted_files, line.schema_id) == (1, 1, 0)
    assert file.key == "manifest/manifest-u1-0"
    assert [e.file.file_name for e in decode_manifest(file.data, file.name)] == ["a", "b"]


def test_many_entries_are_split_evenly_at_the_target_size() -> None:
    entries = [entry(f"data-{number:05}") for number in range(100)]
    ((whole, _),) = writer(manifest__compression="none").manifests(entries)
    for target, parts in ((whole.file_size, 1), (whole.file_size - 1, 2), (-(-whole.file_size // 4), 4), (1, 100)):
        made = writer(manifest__compression="none", manifest__target_file_size=f"{target} b").manifests(entries)
        assert len(made) == parts
        read = [decode_manifest(file.data, file.name) for _, file in made]
        assert [e for part in read for e in part] == entries
        assert max(map(len, read)) - min(map(len, read)) <= 1
        assert [line.file_name for line, _ in made] == [f"manifest-u1-{number}" for number in range(parts)]


def test_lists_and_index_manifests_have_names_of_their_own() -> None:
    made = writer()
    ((line, _),) = made.manifests([entry("a")])
    listed = made.manifest_list([line])
    assert (listed.name, listed.key) == ("manifest-list-u1-0", "manifest/manifest-list-u1-0")
    assert decode_manifest_list(listed.data, "x") == [line]
    index = IndexEntry(ADD, EMPTY_ROW, 0, IndexFile("HASH", "index-1", 4, 1))
    found = made.index_manifest([index])
    assert (found.name, found.key) == ("index-manifest-u1-0", "manifest/index-manifest-u1-0")
    assert decode_index_manifest(found.data, "x") == [index]


@pytest.mark.parametrize(
    ("options", "starts"),
    [({}, b"Obj\x01"), ({"manifest.format": "orc"}, b"ORC"), ({"manifest.format": "PARQUET"}, b"PAR1")],
)
def test_all_kinds_of_manifests_have_the_tables_format(options: dict[str, str], starts: bytes) -> None:
    made = MetadataWriter(schema(options), TablePaths(), FileNames("u1"))
    ((line, file),) = made.manifests([entry("a")])
    index = made.index_manifest([IndexEntry(ADD, EMPTY_ROW, 0, IndexFile("HASH", "index-1", 4, 1))])
    assert all(data.startswith(starts) for data in (file.data, made.manifest_list([line]).data, index.data))


def test_compression_is_that_of_the_options() -> None:
    entries = [entry(f"data-{number:05}") for number in range(200)]
    sizes = {}
    for compression in ("none", "zstd"):
        ((line, file),) = writer(manifest__compression=compression).manifests(entries)
        sizes[compression] = line.file_size
        assert (b"zstandard" in file.data) == (compression == "zstd")
    assert sizes["zstd"] < sizes["none"] / 3
    ((line, _),) = writer(file__compression__zstd_level="19").manifests(entries)
    assert line.file_size < sizes["zstd"]


def test_a_format_that_readers_could_not_read_is_refused() -> None:
    for refuse in (
        lambda: check_manifest_format(schema({"manifest.format": "csv"})),
        lambda: writer(manifest__format="csv"),
    ):
        with pytest.raises(Unsupported, match=r"option 'manifest\.format' = 'csv': manifests are written as "):
            refuse()


# ------------------------------------------------------------------------------------------------------------ its delta


def rider(commit: str, rows: int = 2, identifier: int | None = 1) -> Intent:
    ((line, _),) = MetadataWriter(new_schema(FIELDS), TablePaths(), FileNames(commit)).manifests([entry("r", rows)])
    return Intent(commit, f"job-{commit}", identifier, SnapshotRef(3, "u3"), 0, -1, rows, (line,))


def test_a_delta_lists_its_own_manifests_before_those_of_its_riders() -> None:
    made, one, two = writer(), rider("c1"), rider("c2")
    delta = Delta.of((entry("a"),), made, (one,))
    listed = [line.file_name for line in decode_manifest_list(delta.list.data, "x")]
    assert listed == ["manifest-u1-0", "manifest-c1-0"] == [line.file_name for line in delta.lines]
    assert ([line.file_name for line in delta.own_lines], delta.riders) == (["manifest-u1-0"], (one,))
    assert delta.names == ("manifest-u1-0", "manifest-list-u1-0")
    other = delta.carrying((one, two), made)
    listed = [line.file_name for line in decode_manifest_list(other.list.data, "x")]
    assert listed == ["manifest-u1-0", "manifest-c1-0", "manifest-c2-0"]
    assert (other.files, other.riders, other.list.name) == (delta.files, (one, two), "manifest-list-u1-1")
    assert [line.file_name for line in other.carrying((), made).lines] == ["manifest-u1-0"]
    left = other.without_list()
    assert ([line.file_name for line in left.lines], left.riders, left.list.name) == (["manifest-u1-0"], (), "")
    assert left.files == delta.files, "a list that was not written is made anew, and the manifests are not"


# --------------------------------------------------------------------------------------------------------- its snapshot

BASE = Snapshot(
    id=4, uuid="u4", schema_id=2, base_manifest_list="b", delta_manifest_list="d", commit_user="other",
    commit_identifier=9, commit_kind="APPEND", time_ms=0, total_record_count=100, delta_record_count=1, watermark=50,
    statistics="stat-4", writer_version="lakelatch-0", properties={WRITER_PROPERTY: "w4"},
)  # fmt: skip
OURS = SnapshotRef(5, "u5")
LIST = MetadataFile("base-list", "k", b"12345")


def built(
    base: Snapshot | None = BASE, *, delta: Delta | None = None, of: Any = CommitRequest, **more: Any
) -> Snapshot:
    entries = more.pop("entries", (entry("a", 5), entry("b", 7), entry("c", 2, DELETE)))
    said = {name: more.pop(name) for name in ("identifier", "remarks") if name in more}
    request = of(kind="APPEND", entries=entries, commit_user="etl", **said)
    known: dict[str, Any] = {
        "schema_id": 2, "index_manifest": "index-manifest-1", "memory": Memory(), "lost": (), "next_row_id": 17,
        "writer_id": "w1", "now_ms": 1234,
    }  # fmt: skip
    delta = delta or Delta.of(entries, writer())
    return build_snapshot(request, base, OURS, entries, LIST, delta, **{**known, **more})


def test_a_snapshot_continues_its_base() -> None:
    made = built(identifier=8, remarks=Remarks(operation="WRITE", properties={"by": "me"}))
    assert (made.id, made.uuid, made.schema_id, made.time_ms, made.version) == (5, "u5", 2, 1234, 3)
    assert (made.base_manifest_list, made.base_manifest_list_size) == ("base-list", 5)
    assert made.delta_manifest_list == "manifest-list-u1-0"
    entries = entry("a", 5), entry("b", 7), entry("c", 2, DELETE)
    assert made.delta_manifest_list_size == len(Delta.of(entries, writer()).list.data)
    assert (made.commit_user, made.commit_identifier, made.commit_kind, made.operation) == ("etl", 8, "APPEND", "WRITE")
    assert (made.delta_record_count, made.total_record_count) == (10, 110)
    assert (made.index_manifest, made.next_row_id, made.writer_version) == ("index-manifest-1", 17, WRITER_VERSION)
    assert (made.changelog_manifest_list, made.changelog_manifest_list_size, made.changelog_record_count) == (None,) * 3
    assert made.properties == {
        "by": "me", WRITER_PROPERTY: "w1", BASE_PROPERTY: "4:u4", IDENTIFIERS_PROPERTY: Memory().to_property(),
    }  # fmt: skip
    assert committer_of(made) == "w1"


def test_a_first_snapshot_continues_nothing() -> None:
    made = built(None)
    assert (made.total_record_count, made.commit_identifier) == (10, BATCH_IDENTIFIER)
    assert (made.watermark, made.statistics, made.properties[BASE_PROPERTY]) == (None, None, "0:")
    assert built(identifier=0).commit_identifier == 0


@pytest.mark.parametrize(
    ("ours", "base", "wanted"),
    [(None, 50, 50), (60, 50, 60), (40, 50, 50), (0, None, 0), (-5, None, -5), (None, None, None)],
)
def test_the_watermark_never_goes_back(ours: int | None, base: int | None, wanted: int | None) -> None:
    assert built(replace(BASE, watermark=base), remarks=Remarks(watermark_ms=ours)).watermark == wanted


def test_statistics_are_kept_until_the_schema_changes() -> None:
    assert built().statistics == "stat-4"
    assert built(schema_id=3).statistics is None
    assert built(schema_id=3, remarks=Remarks(statistics="stat-5")).statistics == "stat-5"
    assert built(remarks=Remarks(statistics="stat-5")).statistics == "stat-5"
    assert built(None, remarks=Remarks(statistics="stat-5")).statistics == "stat-5"


def test_a_changelog_is_listed_and_counted() -> None:
    made = writer()
    log = Delta.of((entry("log", 3), entry("log too", 4)), made)
    delta = replace(Delta.of((entry("a"),), made), changelog=log)
    found = built(delta=delta, entries=(entry("a"),))
    assert (found.changelog_manifest_list, found.changelog_manifest_list_size) == (log.list.name, len(log.list.data))
    assert (found.changelog_record_count, found.delta_record_count) == (7, 5)


def test_rows_of_riders_count_and_everybody_in_it_is_listed() -> None:
    delta = Delta.of((entry("a"),), writer(), (rider("c1", 2), rider("c2", 3, None)))
    found = built(delta=delta, entries=(entry("a"),), identifier=8, named_as="u1")
    assert (found.delta_record_count, found.total_record_count) == (10, 110)
    assert carried_by(found) == (
        Carried("etl", 8, "u1", 5),
        Carried("job-c1", 1, "c1", 2),
        Carried("job-c2", None, "c2", 3),
    )
    assert CARRIES_PROPERTY not in built().properties


def test_the_decision_of_a_layout_names_its_schema() -> None:
    assert built(of=LayoutDecision, entries=()).properties[SCHEMA_PROPERTY] == "2"
    assert SCHEMA_PROPERTY not in built().properties


def test_a_snapshot_that_another_writer_put_in_the_place_of_ours_is_recorded() -> None:
    """By its identity: its id is that of the other, too."""
    assert replaced_before(built()) == []
    ours, theirs = replace(BASE, commit_user="us"), replace(BASE, uuid="another")
    wanted = {"id": 4, "identity": ours.identity, "user": "us", "by": theirs.identity}
    assert replaced_before(built(properties=replaced_property([(ours, theirs)]))) == [wanted]
    assert ours.identity != theirs.identity


def test_the_last_twenty_lost_attempts_are_recorded() -> None:
    assert ATTEMPTS_PROPERTY not in built().properties
    assert lost_attempts(built()) == []
    lost = [replace(BASE, id=number, uuid=f"u{number}") for number in range(5, 30)]
    found = built(lost=lost)
    told = lost_attempts(found)
    assert [one["id"] for one in told] == list(range(10, 30))
    assert told[0] == {"id": 10, "to": "u10", "by": "other"}
    assert " " not in found.properties[ATTEMPTS_PROPERTY]


@pytest.mark.parametrize("text", ["{", "[7]", '[{"id": 1, "to": "x"}]', "5"])
def test_a_garbled_record_of_lost_attempts_is_named(text: str) -> None:
    with pytest.raises(TableCorrupt, match=r"snapshot-5: property 'lakelatch\.attempts' is garbled"):
        lost_attempts(replace(built(), properties={ATTEMPTS_PROPERTY: text}))


def test_the_committer_of_another_writers_snapshot_is_its_user() -> None:
    assert committer_of(replace(BASE, writer_version=None)) == "other"
    assert committer_of(replace(BASE, properties={})) == "other"
    assert json.loads(built().to_json())["commitUser"] == "etl"
