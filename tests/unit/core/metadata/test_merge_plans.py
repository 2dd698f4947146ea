"""When manifests are merged, over the life of a table: little is rewritten, and few manifests are left to read."""

from __future__ import annotations

import math
import random

import pytest

from lakelatch.core.metadata.data_file import SimpleStats
from lakelatch.core.metadata.folding import plan_merge, replace_runs
from lakelatch.core.metadata.manifest import ManifestFile
from lakelatch.core.options import TableOptions

LEAST = 30
HEADER_BYTES, ENTRY_BYTES = 2000, 60
EMPTY = SimpleStats(b"", b"", ())


def manifest(name: str, added: int, deleted: int = 0) -> ManifestFile:
    return ManifestFile(name, HEADER_BYTES + ENTRY_BYTES * (added + deleted), added, deleted, EMPTY, 0)


def entries(manifests: tuple[ManifestFile, ...]) -> int:
    return sum(m.num_added_files + m.num_deleted_files for m in manifests)


@pytest.mark.parametrize("files", [1, 40], ids=["one file each", "up to forty files each"])
def test_ten_thousand_appends_rewrite_each_entry_a_few_times(files: int) -> None:
    """The largest hundredth of the merges of all commits stays far below the table's size, at which every merge once was."""
    rng, options = random.Random(files), TableOptions({})
    manifests: tuple[ManifestFile, ...] = ()
    work, most, added = [], 0, 0
    for commit in range(10_000):
        plan, done = plan_merge(manifests, options), 0
        if plan is not None:
            merged = [
                (group, (manifest(f"merged-{commit}-{i}", entries(group)),)) for i, group in enumerate(plan.groups)
            ]
            done = sum(entries(group) for group in plan.groups)
            assert all(group == manifests[len(manifests) - len(group) :] for group in plan.groups), "the newest ones"
            manifests = replace_runs(manifests, merged) or ()
        new = rng.randint(1, files)
        added += new
        manifests = (*manifests, manifest(f"m{commit}", new))
        work.append(done)
        most = max(most, len(manifests))
        assert entries(manifests) == added
    assert sum(work) <= 12 * added, "170 times as many, if each merge took all manifests that are not full"
    assert most <= LEAST + 1 + math.log2(added)
    assert sorted(work)[-len(work) // 100] <= max(1500, added / 40)


def test_a_larger_manifest_waits_until_as_many_entries_have_come() -> None:
    large, small = manifest("large", 1000), [manifest(f"m{i}", 30) for i in range(40)]
    plan = plan_merge((large, *small[:29]), TableOptions({}))
    assert plan is not None
    assert plan.groups == (tuple(small[:29]),)
    plan = plan_merge((large, *small), TableOptions({}))
    assert plan is not None
    assert plan.groups == ((large, *small),)


def test_deletes_count_as_entries() -> None:
    large, small = manifest("large", 0, 1000), [manifest(f"m{i}", 1) for i in range(29)]
    plan = plan_merge((large, *small), TableOptions({}))
    assert plan is not None
    assert plan.groups == (tuple(small),)


def test_manifests_that_each_outweigh_the_rest_are_left() -> None:
    """Merging a manifest with one that is much smaller is work without a gain."""
    lines = tuple(manifest(f"m{n}", 256 << n) for n in reversed(range(8)))
    assert plan_merge(lines, TableOptions({"manifest.merge-min-count": "5"})) is None


def test_small_manifests_are_merged_at_the_count_whatever_their_sizes() -> None:
    lines = (manifest("a", 200), manifest("b", 1), manifest("c", 1))
    plan = plan_merge(lines, TableOptions({"manifest.merge-min-count": "3"}))
    assert plan is not None
    assert plan.groups == (lines,)
