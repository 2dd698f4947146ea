"""Which files a range of snapshots has deleted, and which roots are asked before they go, in tables made file by file."""

from __future__ import annotations

from typing import Any

import pytest
from by_hand.tables import TIME_MS, Handmade, added, data, metadata, removed

from lakelatch.coordinator.maintenance.expiry.expired_files import (
    DAY_MS,
    Gone,
    Keeper,
    add_changelog,
    gone_after,
    metadata_of,
)
from lakelatch.coordinator.maintenance.reach import overwrites
from lakelatch.coordinator.maintenance.reach.reachable import Reach
from lakelatch.core.errors import TableCorrupt
from lakelatch.core.metadata.data_file import (
    ADD,
    EMPTY_ROW,
    SOURCE_APPEND,
    SOURCE_COMPACT,
    IndexEntry,
    IndexFile,
)
from lakelatch.core.metadata.manifest import encode_index_manifest


def gone(table: Handmade, *numbers: int, **more: bool) -> Gone:
    reach = Reach(table.timeline, table.schema)
    return gone_after(reach, reach.named_by(table.roots(*numbers)), **more)


# ------------------------------------------------------------------------------------------------------------ what goes


def test_what_snapshots_delete_is_gone_with_all_that_belongs_to_it() -> None:
    table = Handmade()
    table.snapshot(1, added("a", extra_files=("a.index",)), added("b"))
    table.snapshot(2, removed("a", extra_files=("a.index",)), added("c"))
    table.snapshot(3, removed("b"))
    found = gone(table, 2, 3)
    assert set(found.entries) == {*data("a", "b"), "bucket-0/a.index"}
    assert found.entries["bucket-0/data-b"].file.file_name == "data-b"
    assert found.candidates.keys == set(found.entries)
    assert found.candidates.partitions == {bytes(12)}
    assert found.complete
    assert set(gone(table, 1, 2).entries) == {*data("a"), "bucket-0/a.index"}


def test_a_file_that_came_back_or_moved_to_another_level_is_not_gone() -> None:
    table = Handmade()
    table.snapshot(1, added("a"), added("b"))
    table.snapshot(2, removed("a"), removed("b"), added("b", level=5))
    table.snapshot(3, added("a"))
    assert set(gone(table, 2).entries) == data("a")
    assert gone(table, 2, 3).entries == {}
    table.snapshot(4, removed("a"))
    assert set(gone(table, 2, 3, 4).entries) == data("a")


def test_where_new_rows_tell_what_changed_only_compacted_files_are_gone() -> None:
    table = Handmade()
    sources = {"new": SOURCE_APPEND, "compacted": SOURCE_COMPACT, "unknown": None}
    table.snapshot(1, *(added(name, file_source=source) for name, source in sources.items()))
    table.snapshot(2, *(removed(name, file_source=source) for name, source in sources.items()))
    assert set(gone(table, 2).entries) == data(*sources)
    assert set(gone(table, 2, only_compacted=True).entries) == data("compacted")


@pytest.mark.parametrize("lacking", ["delta-2", "manifest-2", "base-2", "delta-3", "manifest-3"])
def test_a_range_that_lacks_a_file_is_not_complete(lacking: str) -> None:
    """Whether what it lacks comes first or last."""
    table = Handmade()
    for number in (1, 2, 3):
        table.snapshot(number, added(str(number)))
    table.gone(f"manifest/{lacking}")
    assert not gone(table, 2, 3).complete


def test_a_range_is_complete_only_if_each_snapshot_was_built_on_the_one_before() -> None:
    table = Handmade()
    table.snapshot(1)
    table.snapshot(2, on="1:another")
    table.snapshot(3, on="2:uuid-2")
    assert gone(table, 2, 3).complete, "nothing is known of the snapshot before the range"
    assert not gone(table, 1, 2, 3).complete
    assert not gone(table, 1, 2).complete
    table.gone("manifest/manifest-2")
    assert not gone(table, 2, 3).complete


@pytest.mark.parametrize(
    ("times", "oldest", "newest"),
    [((5, 7, 6), 5, 7), ((5,), 5, 5), ((5, None), -(2**62), 2**62), ((), 2**62, None)],
)
def test_the_oldest_and_the_newest_of_them(times: tuple[int | None, ...], oldest: int, newest: int | None) -> None:
    """A file that does not say when it was made may be of any age."""
    found = Gone({f"key-{i}": removed(str(i), time_ms) for i, time_ms in enumerate(times)})
    assert (found.oldest_ms, found.newest_ms) == (oldest, newest)


def test_changelog_files_are_those_that_a_changelog_adds() -> None:
    table = Handmade()
    table.snapshot(1, added("a"), changelog=[added("x", extra_files=("x.index",)), removed("y")])
    reach, found = Reach(table.timeline, table.schema), Gone()
    add_changelog(reach, reach.named_by(table.roots(1)), found)
    assert set(found.entries) == {*data("x"), "bucket-0/x.index"}


STATE, TOLD = ("base-2", "delta-2"), ("told-2",)


@pytest.mark.parametrize(
    ("keeps", "changelog", "lists", "leaves"),
    [
        ("nothing", True, [*STATE, "index-manifest-2", *TOLD], ["changes-2", "manifest-1", "manifest-2"]),
        ("changelog", True, [*STATE, "index-manifest-2"], ["manifest-1", "manifest-2"]),
        ("delta", True, ["index-manifest-2"], []),
        ("nothing", False, [*STATE, "index-manifest-2"], ["manifest-1", "manifest-2"]),
        ("changelog", False, [*STATE, "index-manifest-2"], ["manifest-1", "manifest-2"]),
        ("delta", False, ["index-manifest-2"], []),
    ],
)
def test_the_metadata_that_goes_with_a_snapshot(
    keeps: Any, changelog: bool, lists: list[str], leaves: list[str]
) -> None:
    """Sorted, so that a plan prints the same each time; the index files go in any case."""
    table = Handmade()
    table.snapshot(1)
    table.index("index-manifest-2", "index-b", "index-a")
    table.snapshot(2, changelog=[added("x")] if changelog else None, index_manifest="index-manifest-2")
    reach = Reach(table.timeline, table.schema)
    found = metadata_of(reach, reach.named_by(table.roots(2))[0], keeps)
    index = ["index/index-a", "index/index-b"]
    assert found == ([f"manifest/{name}" for name in lists], [*index, *(f"manifest/{name}" for name in leaves)])


# -------------------------------------------------------------------------------------------------------- what is asked


def five() -> Handmade:
    """Snapshots 1 and 2 are to go; what they held was deleted by 2 and 3. Listed in any order."""
    table = Handmade()
    table.snapshot(1, added("a"), added("b"))
    table.snapshot(2, removed("a"), added("c"))
    table.snapshot(3, removed("b"))
    for number in (4, 5):
        table.snapshot(number, added(str(number)))
    for number in (4, 3):
        held = table.store.get(f"snapshot/snapshot-{number}")
        table.gone(f"snapshot/snapshot-{number}")
        table.store.put(f"snapshot/snapshot-{number}", held)
    return table


def keeper_of(table: Handmade, **more: Any) -> Keeper:
    reach = Reach(table.timeline, table.schema)
    return Keeper(reach, gone_after(reach, reach.named_by(table.roots(2, 3))), **more)


METADATA = (*metadata("base-1", "delta-1"), "s3://elsewhere/deep/index-a")


def kept(table: Handmade, keeper: Keeper, latest: int = 5, doomed: tuple[int, ...] = (1, 2)) -> set[str]:
    infos = frozenset(root.info for root in table.roots(*doomed))
    ends = table.roots(3)
    table.asked()
    return keeper.kept(infos, ends, METADATA, latest)


def test_of_a_row_of_snapshots_only_the_oldest_that_stays_is_asked() -> None:
    table = five()
    keeper = keeper_of(table)
    assert keeper.gone.complete and set(keeper.gone.entries) == data("a", "b")
    used = kept(table, keeper)
    assert used == metadata("base-3", "delta-3", "manifest-1", "manifest-2", "manifest-3")
    assert keeper.overwrites is not None and keeper.overwrites.last == (5, "uuid-5")
    assert {info.key for info in keeper.seen} == {f"snapshot/snapshot-{number}" for number in range(1, 6)}
    assert [line for line in table.asked("get manifest/") if "-4" in line or "-5" in line] == []


@pytest.mark.parametrize(
    "why", ["a gap", "a listing that lags behind", "a missing delta", "another base", "end is gone"]
)
def test_where_that_cannot_be_relied_on_every_root_is_asked(why: str) -> None:
    table = five()
    table.snapshot(6, added("a"), on="5:another" if why == "another base" else None)
    keeper = keeper_of(table)
    ends, doomed = table.roots(3), frozenset(root.info for root in table.roots(1, 2))
    if why == "a missing delta":
        keeper.gone.complete = False
    elif why in ("a gap", "end is gone"):
        table.gone("snapshot/snapshot-4" if why == "a gap" else "snapshot/snapshot-3")
    used = keeper.kept(doomed, ends, METADATA, 7 if why == "a listing that lags behind" else 6)
    assert used >= data("a") | metadata("base-5", "delta-6", "manifest-6")
    seen = {info.key for info in keeper.seen}
    assert {"snapshot/snapshot-1", "snapshot/snapshot-5", "snapshot/snapshot-6"} <= seen
    assert (keeper.overwrites is not None) is (why == "another base")


def test_a_table_whose_only_other_root_has_gone_meanwhile_is_no_problem() -> None:
    table = Handmade()
    table.snapshot(1, added("a"))
    table.snapshot(2, removed("a"))
    table.snapshot(3)
    keeper, ends, doomed = keeper_of(table), table.roots(3), frozenset(root.info for root in table.roots(1, 2))
    table.gone("snapshot/snapshot-3", "manifest/base-3")
    assert not data("a") & keeper.kept(doomed, ends, METADATA, 3)
    assert {info.key for info in keeper.seen} == {"snapshot/snapshot-1", "snapshot/snapshot-2"}


def test_snapshots_that_came_since_belong_to_the_row() -> None:
    table = five()
    keeper = keeper_of(table)
    kept(table, keeper, latest=4)
    assert keeper.overwrites is not None and keeper.overwrites.last[0] == 5


def test_files_that_an_overwrite_brought_back_are_kept_and_others_it_does_not_name_are_not() -> None:
    table = Handmade()
    table.snapshot(1, added("a", 100), added("b", 200))
    file = IndexFile("HASH", "index-a", 1, 1, external_path="s3://elsewhere/deep/index-a")
    table.store.put("manifest/index-manifest-5", encode_index_manifest([IndexEntry(ADD, EMPTY_ROW, 0, file)]))
    table.snapshot(2, removed("a", 100))
    table.snapshot(3, removed("b", 200))
    table.snapshot(4, added("new", 300), removed("b", 200), kind="OVERWRITE")
    table.snapshot(5, index_manifest="index-manifest-5", kind="OVERWRITE")
    table.snapshot(6, added("a", 100), removed("b", 200), kind="OVERWRITE")
    used = kept(table, keeper_of(table), latest=6)
    assert data("a") <= used and not data("b", "new") & used
    assert metadata("delta-6", "manifest-6") <= used
    assert "s3://elsewhere/deep/index-a" in used
    assert not metadata("delta-4") & used, "it is too young to hold any of them"


def test_a_snapshot_that_only_a_note_knows_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overwrites, "REMEMBERED_FROM", 2)
    table = five()
    note = overwrites.Overwrites(0, (5, "uuid-5"), (overwrites.Overwrite(99, 0, frozenset()),))
    table.store.put(overwrites.KEY, note.to_json())
    keeper = keeper_of(table)
    assert kept(table, keeper) == metadata("base-3", "delta-3", "manifest-1", "manifest-2", "manifest-3")
    assert keeper.overwrites is not None and [one.id for one in keeper.overwrites.found] == [99]


# ----------------------------------------------------------------------------------------------------- tags, changelogs


def tagged(table: Handmade, number: int, time_ms: int) -> None:
    """A tag of a snapshot, which says that it was committed then."""
    made = table.store.get(f"snapshot/snapshot-{number}")
    table.store.put("tag/tag-x", made.replace(str(TIME_MS + number).encode(), str(time_ms).encode()))


@pytest.mark.parametrize(("older_ms", "asked"), [(0, True), (DAY_MS, True), (DAY_MS + 1, False)])
def test_a_tag_is_asked_for_data_unless_it_is_a_day_older_than_all_of_it(older_ms: int, asked: bool) -> None:
    """Its metadata is kept in any case. A day: clocks differ, and creation times are local times."""
    table = five()
    tagged(table, 1, TIME_MS - older_ms)
    keeper = keeper_of(table)
    used = kept(table, keeper)
    assert used >= metadata("base-1", "delta-1", "manifest-1")
    assert (data("a", "b") <= used) is asked
    assert bool(data("a", "b") & used) is asked
    assert "tag/tag-x" in {info.key for info in keeper.seen}


def test_a_day_has_so_many_milliseconds() -> None:
    assert DAY_MS == 86_400_000


def test_snapshots_of_other_branches_are_asked_however_old_they_are() -> None:
    table = five()
    made = table.store.get("snapshot/snapshot-1").replace(str(TIME_MS + 1).encode(), b"1")
    table.store.put("branch/branch-dev/snapshot/snapshot-1", made)
    assert data("a", "b") <= kept(table, keeper_of(table))


@pytest.mark.parametrize(("asks", "asked"), [(True, True), (False, False), (None, False)])
def test_long_lived_changelogs_are_asked_where_they_may_hold_what_goes(asks: bool | None, asked: bool) -> None:
    table = five()
    table.copy("snapshot/snapshot-1", "changelog/changelog-1")
    table.gone("snapshot/snapshot-1")
    keeper = keeper_of(table, asks_changelogs=None if asks is None else (lambda: asks))
    used = kept(table, keeper, doomed=(2,))
    assert (data("a", "b") <= used) is asked
    assert "changelog/changelog-1" in {info.key for info in keeper.seen}
    assert keeper.overwrites is not None, "those below the oldest that stays make no gap"


def test_changelogs_are_asked_where_the_ids_have_a_gap_and_nobody_says_otherwise() -> None:
    table = five()
    table.copy("snapshot/snapshot-1", "changelog/changelog-1")
    table.gone("snapshot/snapshot-1", "snapshot/snapshot-4")
    assert data("a", "b") <= kept(table, keeper_of(table), doomed=(2,))
    assert not data("a", "b") & kept(table, keeper_of(table, asks_changelogs=lambda: False), doomed=(2,))


def test_nobody_is_asked_about_changelogs_that_a_table_does_not_have() -> None:
    """It costs a look at every schema."""
    asked: list[bool] = []

    def asks() -> bool:
        asked.append(True)
        return True

    table = five()
    kept(table, keeper_of(table, asks_changelogs=asks))
    assert asked == []
    table.copy("snapshot/snapshot-1", "changelog/changelog-1")
    kept(table, keeper_of(table, asks_changelogs=asks))
    assert asked == [True]


def test_changelogs_and_snapshots_make_one_row() -> None:
    """For an expiry of changelogs the oldest that stays is a changelog."""
    table = five()
    for number in (3, 4):
        table.copy(f"snapshot/snapshot-{number}", f"changelog/changelog-{number}")
        table.gone(f"snapshot/snapshot-{number}")
    keeper = keeper_of_changelogs(table)
    ends = table.roots("changelog/changelog-3")
    keeper.kept(frozenset(root.info for root in table.roots(1, 2)), ends, METADATA, 5)
    assert keeper.overwrites is not None and keeper.overwrites.last == (5, "uuid-5")


def keeper_of_changelogs(table: Handmade) -> Keeper:
    reach = Reach(table.timeline, table.schema)
    return Keeper(reach, gone_after(reach, reach.named_by([*table.roots(2), *table.roots("changelog/changelog-3")])))


def test_a_root_that_stays_and_lacks_metadata_ends_the_run() -> None:
    """H11."""
    table = five()
    table.gone("manifest/base-3")
    with pytest.raises(TableCorrupt, match="manifest/base-3 is missing"):
        kept(table, keeper_of(table))
