"""Manifest compaction: the same live files as before, no DELETE that is no longer needed, and nothing read or written twice."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.coordinator.commit.attempt import FileNames, MetadataWriter
from lakelatch.coordinator.commit.settling.manifest_compaction import Merge, merge_manifests
from lakelatch.coordinator.history.timeline import Timeline
from lakelatch.core.metadata.data_file import ADD, ManifestEntry
from lakelatch.core.metadata.folding import MergePlan, live
from lakelatch.core.metadata.manifest import ManifestFile, decode_manifest, encode_manifest
from lakelatch.core.paths import TablePaths
from lakelatch.table.table import Table

COUNTER = itertools.count()
SCHEMA = pa.schema([("p", pa.string()), ("v", pa.int64())])


def table(**options: str) -> Table:
    """The threshold is out of reach, so no merge happens by itself. A manifest of one byte counts as large."""
    quiet = {"manifest.merge-min-count": "1000", "manifest.full-compaction-threshold-size": "1 gb"}
    url = f"memory://manifests-{next(COUNTER)}/t"
    return ll.create_table(url, SCHEMA, partition_by=["p"], options={**quiet, **options})


def rows(part: str, *values: int) -> pa.Table:
    return pa.table({"p": [part] * len(values), "v": list(values)})


class Reading(Timeline):
    """A timeline that records which manifests were read."""

    def __init__(self, of: Table) -> None:
        super().__init__(of.store, TablePaths())
        self.read: list[str] = []

    def entries_of(self, manifest: ManifestFile) -> list[ManifestEntry]:
        self.read.append(manifest.file_name)
        return super().entries_of(manifest)


def manifests(of: Table) -> tuple[ManifestFile, ...]:
    latest = of.snapshot()
    assert latest is not None
    return tuple(of.timeline.manifests(latest))


def merged(of: Table, mode: str, *groups: tuple[ManifestFile, ...]) -> tuple[Merge, list[str]]:
    """The merge, and the manifests that were read one by one for it."""
    timeline = Reading(of)
    writer = MetadataWriter(of.schema, TablePaths(), FileNames("merge"))
    return merge_manifests(MergePlan(mode, groups), timeline, writer), timeline.read


def entries(of: Table, merge: Merge, lines: tuple[ManifestFile, ...]) -> list[ManifestEntry]:
    """The entries of manifests, including those that the merge made and that are not written yet."""
    made = {file.name: file.data for file in merge.files}
    return [
        entry
        for line in lines
        for entry in (
            decode_manifest(made[line.file_name], line.file_name)
            if line.file_name in made
            else of.timeline.entries_of(line)
        )
    ]


def names(lines: tuple[ManifestFile, ...]) -> list[str]:
    return [line.file_name for line in lines]


@pytest.mark.parametrize("mode", ["full", "minor"])
def test_deleted_entries_are_gone_and_all_others_stay(mode: str) -> None:
    made = table(**{"manifest.target-file-size": "1 b"})
    made.append(rows("a", 1))
    made.append(rows("b", 2))
    made.overwrite(rows("a", 3), partition={"p": "a"})
    before = manifests(made)
    wanted = {e.identity for e in live(made.timeline.entries(before))}
    merge, _ = merged(made, mode, before)
    after = merge.applied(before)
    assert after is not None
    found = entries(made, merge, after)
    assert {e.identity for e in found} == wanted
    assert len(found) == len(wanted) == 2
    assert all(e.kind == ADD for e in found)


def test_a_large_manifest_that_no_deletion_can_affect_is_neither_read_nor_written() -> None:
    made = table(**{"manifest.target-file-size": "1 b"})
    made.append(rows("a", 1))
    made.append(rows("b", 2))
    made.append(rows("a", 3))
    made.overwrite(rows("a", 4), partition={"p": "a"})
    of_a, of_b, more_of_a, *overwrite = before = manifests(made)
    (replacing,) = (line for line in overwrite if not line.num_deleted_files)
    merge, read = merged(made, "full", before)
    assert merge.runs == ((before, (of_b, replacing)),), "in manifests of one entry all others have lost theirs"
    assert sorted(read) == sorted(names((of_a, more_of_a, *overwrite)))
    assert merge.files == ()


def test_a_large_manifest_of_the_same_partition_that_lost_nothing_stays_as_it_is() -> None:
    """It had to be read to be sure, but that is no reason to write it again."""
    made = table(**{"manifest.target-file-size": "1 b"})
    made.append(rows("a", 1))
    made.overwrite(rows("a", 2), partition={"p": "a"})
    made.append(rows("a", 3))
    before = manifests(made)
    merge, read = merged(made, "full", before)
    ((_, after),) = merge.runs
    assert sorted(read) == sorted(names(before))
    assert after == tuple(line for line in before[1:] if not line.num_deleted_files)
    assert len(after) == 2
    assert merge.files == ()


def test_the_rest_of_a_large_manifest_is_written_again() -> None:
    made = table(**{"manifest.target-file-size": "4 kb"})
    with made.transaction() as together:
        together.append(rows("a", 1))
        together.append(rows("b", 2))
    made.overwrite(rows("a", 3), partition={"p": "a"})
    before = manifests(made)
    merge, _ = merged(made, "full", before)
    ((_, after),) = merge.runs
    assert [file.name for file in merge.files] == names(after)
    assert sum(line.num_added_files for line in after) == 2
    assert sum(line.num_deleted_files for line in after) == 0


def test_small_manifests_are_merged_even_without_deletions() -> None:
    made = table()
    for value in range(3):
        made.append(rows("a", value))
    before = manifests(made)
    merge, _ = merged(made, "full", before)
    ((_, (one,)),) = merge.runs
    assert (one.num_added_files, one.num_deleted_files) == (3, 0)
    assert len(merge.files) == 1


def test_a_minor_merge_keeps_deletions_of_files_outside_it() -> None:
    made = table()
    made.append(rows("a", 1))
    made.append(rows("b", 2))
    made.overwrite(rows("a", 3), partition={"p": "a"})
    first, *rest = manifests(made)
    merge, _ = merged(made, "minor", tuple(rest))
    assert merge.mode == "minor"
    after = merge.applied((first, *rest))
    assert after is not None
    assert len(after) == 2
    assert sum(line.num_deleted_files for line in after) == 1
    found = live(entries(made, merge, after))
    assert sorted(e.file.row_count for e in found) == [1, 1]


def test_each_merged_group_keeps_its_position() -> None:
    made = table()
    for value in range(5):
        made.append(rows("a", value))
    one, two, three, four, five = before = manifests(made)
    merge, _ = merged(made, "minor", (one, two), (four, five))
    after = merge.applied(before)
    assert after is not None
    assert [line.num_added_files for line in after] == [2, 1, 2]
    assert after[1] == three
    assert len(merge.files) == 2
    assert merge.applied((one, three, two, four, five)) is None, "its inputs do not stand side by side"


def test_manifests_are_compressed_as_strongly_as_the_option_says() -> None:
    of = table(**{"file.compression.zstd-level": "19"})
    of.append(pa.concat_tables(rows(f"a partition of number {number}", number) for number in range(100)))
    (manifest,) = manifests(of)
    written = of.timeline.entries(manifests(of))
    assert manifest.file_size == len(encode_manifest(written, level=19)) != len(encode_manifest(written, level=3))
