"""Data files outside the table's folder (`data-file.external-paths`), written by both sides with every strategy (G7, G8, H16)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from interop.agreement import our_rows
from jpype import JClass
from values import assert_same_rows

import lakelatch as ll
from lakelatch.coordinator.maintenance.expiry.expire import apply_expiry, plan_expiry
from lakelatch.coordinator.maintenance.expiry.retention import Retention
from lakelatch.core.external_paths import ExternalPaths

pytestmark = pytest.mark.java

PATHS, STRATEGY = "data-file.external-paths", "data-file.external-paths.strategy"
STRATEGIES = {
    "none": {},
    "round-robin": {},
    "entropy-inject": {},
    "weight-robin": {"data-file.external-paths.weights": "1, 3"},
    "specific-fs": {"data-file.external-paths.specific-fs": "FILE"},
}
COLUMNS = [("id", "INT"), ("p", "STRING")]
STRANGE = "a b%2F:é"
"""A partition's value, of which a folder's name has few characters as they are."""


def data_files(folder: Path) -> set[str]:
    return {str(file) for file in folder.rglob("*") if file.is_file() and "bucket-" in str(file)}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_both_sides_write_and_delete_elsewhere(tmp_path: Path, paimon_java: Any, strategy: str) -> None:
    """G7, G8: appends, overwrites, compactions, expiries, each side on the other one's files; a file beside the index too."""
    path, roots = tmp_path / "t", [tmp_path / "one", tmp_path / "two"]
    options = {PATHS: f"file://{roots[0]}, FILE:{roots[1]}", STRATEGY: strategy, **STRATEGIES[strategy]}
    options |= {"file-index.bloom-filter.columns": "id", "file-index.in-manifest-threshold": "1 b"}
    paimon_java.create_table(path, COLUMNS, partition_keys=["p"], options=options)
    paimon_java.commit_rows(path, [[i, "a"] for i in range(3)])
    table = ll.open_table(str(path))
    if strategy != "none":
        with pytest.raises(ll.InvalidArgument, match="was not allowed for this table"):
            table.to_arrow()
    ll.allow(path, *roots)
    for i in range(6):
        table.append(pa.table({"id": [10 + i], "p": [STRANGE if i == 5 else "b"]}).cast(table.arrow_schema))
    wanted = [*([i, "a"] for i in range(3)), *([10 + i, STRANGE if i == 5 else "b"] for i in range(6))]
    assert_same_rows(paimon_java.rows(path), wanted)
    assert_same_rows(our_rows(table), wanted)
    assert table.count("id = 12") == 1
    is_inside = strategy == "none"
    assert bool(data_files(path)) == is_inside
    assert any(map(data_files, roots)) != is_inside
    assert {e.file.extra_files for e in table.entries()} != {()}

    table.overwrite(pa.table({"id": [20], "p": ["a"]}).cast(table.arrow_schema), partition={"p": "a"})
    assert str(table.compact(min_files=2)).startswith("5 files became 1")
    paimon_java.commit_rows(path, [[30, STRANGE]], identifier=2)
    wanted = [[20, "a"], *([10 + i, "b"] for i in range(5)), [15, STRANGE], [30, STRANGE]]
    assert_same_rows(paimon_java.rows(path), wanted)
    retention = Retention.of(table.schema.options, 2**62, retain_max=1, retain_min=1)
    apply_expiry(table.timeline, plan_expiry(table.timeline, table.schema, retention))
    live = {name for e in table.entries() for name in (e.file.file_name, *e.file.extra_files)}
    left = {Path(file).name for folder in (path, *roots) for file in data_files(folder)}
    assert left == live
    assert_same_rows(paimon_java.rows(path), wanted)

    paimon_java.drop_partitions(path, [{"p": STRANGE}])
    paimon_java.expire(path, 1)
    assert_same_rows(our_rows(ll.open_table(str(path))), wanted[:-2])
    assert len({Path(file).name for folder in (path, *roots) for file in data_files(folder)}) == 4

    paimon_java.alter(path, "setOption", PATHS, f"file://{tmp_path}/elsewhere")
    if not is_inside:
        with pytest.raises(ll.Unsupported, match=r"data-file\.external-paths"):
            ll.open_table(str(path)).to_arrow()


def test_orphans_elsewhere_are_deleted_only_if_asked_for(tmp_path: Path, paimon_java: Any) -> None:
    """G7: files of an aborted write are removed at once; of a dead one by `clean`, which spares what any snapshot names."""
    path, outside = tmp_path / "t", tmp_path / "out"
    options = {PATHS: f"file://{outside}", STRATEGY: "entropy-inject"}
    paimon_java.create_table(path, COLUMNS, partition_keys=["p"], options=options)
    paimon_java.commit_rows(path, [[1, "a"]])
    ll.allow(path, outside)
    table = ll.open_table(str(path))
    rows = pa.table({"id": [2], "p": ["a"]}).cast(table.arrow_schema)
    table.append(rows)
    named = data_files(outside)
    with pytest.raises(ZeroDivisionError), table.transaction() as tx:
        tx.append(pa.table({"id": list(range(10)), "p": ["z"] * 10}).cast(table.arrow_schema))
        raise ZeroDivisionError
    assert data_files(outside) == named
    left = [
        outside / "p=a/bucket-0/0101/0101/0101/01010101/data-x-0.parquet",
        outside / "p=a/bucket-0/data-y-0.parquet",
    ]
    other = outside / "p=a/bucket-0/notes/data-z-0.parquet"
    for file in (*left, other):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"left")
    for file in (*left, other, *map(Path, named)):
        os.utime(file, (0, 1_000_000))
    assert table.clean().files == ()
    assert {Path(info.key).name for info in table.orphans(external=True).files} == {file.name for file in left}
    table.clean(external=True)
    assert data_files(outside) == {*named, str(other)}
    assert_same_rows(paimon_java.rows(path), [[1, "a"], [2, "a"]])


def test_locations_take_turns_or_are_drawn_by_their_weights() -> None:
    even, weighted = ExternalPaths(("s3://a", "s3://b")), ExternalPaths(("s3://a", "s3://b"), weights=(1, 3))
    assert [even.folder("", "f", i, 0.9) for i in range(3)] == ["s3://a/", "s3://b/", "s3://a/"]
    assert [weighted.folder("", "f", 0, drawn) for drawn in (0.0, 0.24, 0.26, 0.99)] == ["s3://a/"] * 2 + [
        "s3://b/"
    ] * 2


def test_folders_of_a_hash_are_those_of_java() -> None:
    paths = JClass("java.util.ArrayList")([JClass("org.apache.paimon.fs.Path")("s3://b/x")])
    bucket = JClass("org.apache.paimon.fs.Path")("p=1/bucket-0")
    java = JClass("org.apache.paimon.fs.EntropyInjectExternalPathProvider")(paths, bucket)
    ours = ExternalPaths(("s3://b/x",), entropy=True)
    for i in range(50):
        name = f"data-{'é' * (i % 3)}{'x' * (i % 5)}{i}.orc"
        folder = ours.folder("p=1/bucket-0/", name, i, 0.0)
        assert str(java.getNextExternalDataPath(name).toString()) == folder + name


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({STRATEGY: "by-moon"}, "'by-moon' is not known"),
        ({STRATEGY: "weight-robin", "data-file.external-paths.weights": "1"}, "each of the 2 locations"),
        ({STRATEGY: "specific-fs", "data-file.external-paths.specific-fs": "oss"}, "no location of the scheme 'oss'"),
        ({STRATEGY: "round-robin", PATHS: "/data"}, "has no scheme"),
    ],
)
def test_options_that_name_no_location_are_refused_before_any_row_is_taken(
    tmp_path: Path, options: dict[str, str], said: str
) -> None:
    table = ll.create_table(
        str(tmp_path / "t"), ll.Schema([("v", "INT")]), options={PATHS: "file:/a,file:/b", **options}
    )
    with pytest.raises(ll.InvalidArgument, match=said):
        table.append(pa.table({"v": pa.array([1], pa.int32())}))
