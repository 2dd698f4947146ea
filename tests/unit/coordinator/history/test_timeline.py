"""Reading a table's files: listings, manifests, the end of the history, and which requests each look needs."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import replace
from typing import Any

import pytest
from at_each_request import Struck
from by_hand.histories import (
    chain,
    foreign,
    get_once,
    hints,
    manifest,
    new_store,
    of,
    put,
    put_lists,
    put_manifest,
    remove,
    snapshot,
    timeline,
)

from lakelatch.backends.requests.threads import Threads
from lakelatch.backends.store import ObjectInfo
from lakelatch.coordinator.history import manifests as reading
from lakelatch.coordinator.history.announced import expires_below
from lakelatch.coordinator.history.kept_files import KeptFiles
from lakelatch.coordinator.history.rule import Evidence, Gap, the_history
from lakelatch.coordinator.history.timeline import BASE_PROPERTY, Timeline, base_of, contiguous_runs
from lakelatch.core.errors import TableCorrupt, TableNotFound
from lakelatch.core.metadata.data_file import ADD, DELETE, EMPTY_ROW, DataFile, ManifestEntry
from lakelatch.core.metadata.manifest_columns import EntryColumns
from lakelatch.core.paths import TablePaths


def entry(name: str, kind: int = ADD) -> ManifestEntry:
    return ManifestEntry(kind, EMPTY_ROW, 0, -1, DataFile(file_name=name, file_size=1, row_count=1))


@pytest.fixture
def store() -> Any:
    return new_store(Struck)


# ------------------------------------------------------------------------------------------------- files by name


def test_snapshots_and_changelogs_are_listed_in_order(store: Any) -> None:
    chain(store, 10, 9, 2)
    hints(store, 2, 10)
    for name in ("changelog/changelog-7", "changelog/changelog-3", "changelog/EARLIEST", "snapshot/snapshot-x"):
        store.put(name, snapshot(7).to_json())
    for name in (
        "snapshot/snapshot-011",
        "snapshot/snapshot-٩",
        f"snapshot/snapshot-{'9' * 5000}",
        "changelog/changelog-04",
    ):
        store.put(name, snapshot(7).to_json())
    store.put("changelog/EARLIEST", b" 3\n")
    read = timeline(store)
    assert (read.snapshot_ids(), read.changelog_ids()) == ([2, 9, 10], [3, 7])
    assert read.changelog(7) == snapshot(7)
    assert (read.changelog_hint("EARLIEST"), read.changelog_hint("LATEST")) == (3, None)


def test_the_id_of_a_snapshot_file_is_read_from_its_key() -> None:
    main, dev = timeline(None), Timeline(None, TablePaths("dev"))  # type: ignore[arg-type]
    assert main.snapshot_id_of("snapshot/snapshot-12") == 12
    assert main.snapshot_id_of("changelog/snapshot-12") is None
    assert main.snapshot_id_of("snapshot/EARLIEST") is None
    assert main.snapshot_id_of("branch/branch-dev/snapshot/snapshot-3") is None
    assert dev.snapshot_id_of("branch/branch-dev/snapshot/snapshot-3") == 3
    assert dev.snapshot_id_of("snapshot/snapshot-3") is None


def test_a_snapshot_under_another_name_is_damage(store: Any) -> None:
    store.put("snapshot/snapshot-5", snapshot(4).to_json())
    for read in (timeline(store).snapshot, timeline(store).find):
        with pytest.raises(TableCorrupt, match="snapshot/snapshot-5: field 'id' is 4"):
            read(5)
    assert timeline(store).find(6) is None


@pytest.mark.parametrize(("text", "number"), [(b"7", 7), (b" 7\n", 7), (b"", None), (b"x", None), (b"7.5", None)])
def test_a_hint_is_a_number_or_nothing(store: Any, text: bytes, number: int | None) -> None:
    store.put("snapshot/EARLIEST", text)
    assert timeline(store).hint("EARLIEST") == number
    assert timeline(store).hint("LATEST") is None


@pytest.mark.parametrize(
    ("answers", "below"), [((None, None), 0), ((3, 3), 3), ((None, 3), 3), ((3, None), 3), ((3, 5), 5), ((5, 3), 5)]
)
def test_an_announcement_is_read_twice_and_the_larger_one_counts(
    store: Any, answers: tuple[int | None, ...], below: int
) -> None:
    """H7: one answer may be cut off, or old."""
    read, left = timeline(store), list(answers)
    read.hint = lambda name: left.pop(0) if name == "EARLIEST" else 99  # type: ignore[method-assign]
    assert expires_below(read) == below
    assert left == []


def test_a_tag_is_a_snapshot_that_knows_its_own_file(store: Any) -> None:
    store.put("tag/tag-eod", snapshot(4).to_json())
    read = timeline(store)
    assert read.tag("eod") == snapshot(4)
    assert (read.file_of(read.tag("eod")), read.file_of(snapshot(4))) == ("tag/tag-eod", "snapshot/snapshot-4")


def test_manifests_are_those_of_the_base_list_and_then_those_of_the_delta_list(store: Any) -> None:
    made = snapshot(4, changelog_manifest_list="delta-u4")
    put_lists(store, made, ["b", "a"], ["d", "c"])
    read = timeline(store)
    assert [m.file_name for m in read.manifests(made)] == ["b", "a", "d", "c"]
    assert [m.file_name for m in read.delta_manifests(made)] == ["d", "c"]
    assert [m.file_name for m in read.changelog_manifests(made)] == ["d", "c"]
    assert read.changelog_manifests(snapshot(4)) == ()
    assert read.index_entries(made) == []
    with pytest.raises(TableCorrupt, match="manifest/a is missing; manifest/base-u4 needs it"):
        read.entries(read.manifests(made)[1:2])
    for broken, reads in (
        (replace(made, changelog_manifest_list="lost"), read.changelog_manifests),
        (replace(made, index_manifest="lost"), read.index_entries),
        (replace(made, base_manifest_list="lost"), read.manifests),
    ):
        with pytest.raises(TableCorrupt, match="manifest/lost is missing; snapshot/snapshot-4 needs it"):
            reads(broken)  # type: ignore[operator]


def test_many_entries_are_read_by_columns_and_are_the_same(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the order of the manifests, additions and deletions."""
    entries = {
        "b": [entry("one"), entry("two", DELETE)],
        "a": [entry("three")],
    }
    for name, held in entries.items():
        put_manifest(store, name, *held)
    manifests = [manifest(name, held) for name, held in entries.items()]
    wanted = [*entries["b"], *entries["a"]]
    read = timeline(store)
    assert read.entries(manifests) == wanted
    assert all(isinstance(part, list) for part in read.entry_parts(manifests))
    monkeypatch.setattr(reading, "COLUMNS_FROM", 3)
    assert read.entries(manifests) == wanted
    assert all(isinstance(part, EntryColumns) for part in read.entry_parts(manifests))
    with pytest.raises(TableCorrupt, match="manifest/lost is missing; manifest/a-list needs it"):
        read.entries([*manifests, replace(manifest("lost"), listed_in="a-list")])


def test_many_manifests_become_columns_in_groups(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups are decoded side by side, and come in the order of the manifests; a damaged one is named."""
    monkeypatch.setattr(reading, "COLUMNS_FROM", 0)
    monkeypatch.setattr(reading, "DECODED_TOGETHER", 4)
    entries = {f"m-{n:02}": [entry(f"{n}-{i}", DELETE if i else ADD) for i in range(1 + n % 3)] for n in range(30)}
    for name, held in entries.items():
        put_manifest(store, name, *held)
    manifests = [manifest(name, held) for name, held in entries.items()]
    parts = timeline(store).entry_parts(manifests)
    wanted = [e for held in entries.values() for e in held]
    assert [e for part in parts for e in part.entries()] == wanted  # type: ignore[union-attr]
    sizes = [part.rows for part in parts]  # type: ignore[union-attr]
    assert all(4 <= size <= 6 for size in sizes[:-1]), sizes
    assert timeline(store).entry_parts([]) == []
    store.put("manifest/m-17", store.get("manifest/m-17")[:-20])
    with pytest.raises(TableCorrupt, match="m-17"):
        timeline(store).entry_parts(manifests)


@pytest.mark.parametrize("columns_from", [0, 2048])
def test_a_damaged_manifest_is_not_kept(columns_from: int, store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has put it right must not see the damage again."""
    monkeypatch.setattr(reading, "COLUMNS_FROM", columns_from)
    put_manifest(store, "m", entry("a"))
    whole = store.get("manifest/m")
    store.put("manifest/m", whole[:-20])
    read = reading.Manifests(store, TablePaths(), held=KeptFiles(1 << 20))
    with pytest.raises(TableCorrupt):
        read.entry_parts([manifest("m", [entry("a")])])
    store.put("manifest/m", whole)
    assert read.entries([manifest("m", [entry("a")])]) == [entry("a")]


def test_the_base_of_a_snapshot_is_what_it_records() -> None:
    for text, base in (("3:u3", of(3)), ("3:a:b", of(3, "a:b")), ("0:", None), ("x:u3", None), ("", None)):
        assert base_of(snapshot(4, properties={BASE_PROPERTY: text})) == base
    for text in ("²:u3", "03:u3", f"{'9' * 5000}:u3"):
        assert base_of(snapshot(4, properties={BASE_PROPERTY: text})) is None, "no writer wrote that"
    assert base_of(snapshot(4, properties={})) is None
    assert base_of(replace(foreign(4), properties={BASE_PROPERTY: "3:u3"})) is None, "another engine copied it"


# ------------------------------------------------------------------------------------------------- threads


def pools(store: Any) -> tuple[Timeline, list[int]]:
    asked: list[int] = []

    def executor(threads: int, name: str) -> Executor:
        asked.append(threads)
        return Threads(threads, name)

    return Timeline(store, TablePaths(), executor), asked


def test_work_is_done_by_eight_threads_at_most_and_keeps_its_order(store: Any) -> None:
    read, asked = pools(store)
    for items in (0, 1, 2, 7, 8, 9, 50):
        assert read.parallel(lambda n: -n, range(items)) == [-n for n in range(items)]
    assert asked == [2, 7, 8, 8, 8]
    assert read.both(lambda: "one", lambda: 2) == ("one", 2)
    assert asked[5:] == [2]


# ------------------------------------------------------------------------------------------------- the end of the history


def requests(store: Any) -> list[str]:
    asked = sorted(store.asked)
    store.asked.clear()
    return [one.replace("snapshot/snapshot-", "") for one in asked]


def test_a_cold_look_lists_and_reads_the_newest_snapshot(store: Any) -> None:
    assert timeline(store).look().snapshot is None
    assert timeline(store).look().unhinted == 1, "a first commit writes EARLIEST"
    assert set(store.asked) == {"list snapshot/"}
    chain(store, 4, 5, 6)
    store.asked.clear()
    found = timeline(store).look()
    assert (found.snapshot, found.unhinted) == (snapshot(6), 4)
    assert requests(store) == ["get 6", "list snapshot/"]
    hints(store, earliest=4)
    assert timeline(store).look().unhinted is None
    assert timeline(store).latest() == snapshot(6)


@pytest.mark.parametrize(
    ("above", "just_read", "asked"),
    [
        (0, False, ["get 4", "get 5", "get 6", "list snapshot/"]),
        (0, True, ["get 5", "get 6", "list snapshot/"]),
        (1, True, ["get 5", "get 6", "list snapshot/"]),
        (2, False, ["get 4", "get 5", "get 6", "list snapshot/"]),
        (3, True, ["get 5", "get 6", "get 7", "list snapshot/"]),
    ],
)
def test_a_warm_look_reads_what_may_follow_beside_the_listing(
    store: Any, above: int, just_read: bool, asked: list[str]
) -> None:
    """A writer that is a little behind needs one round trip."""
    chain(store, *range(3, 5 + above))
    store.asked.clear()
    found = timeline(store).look(snapshot(4), just_read=just_read)
    assert (found.snapshot, found.unhinted) == (snapshot(4 + above), 3)
    assert requests(store) == asked


def test_a_look_checks_that_the_table_is_the_one_that_was_opened(store: Any) -> None:
    """Unless what it knows was read a moment ago."""
    chain(store, 4)
    other = timeline(store, first_schema=b"another")
    for seen in (None, snapshot(4)):
        with pytest.raises(TableNotFound, match="made again"):
            other.look(seen)
    assert other.look(snapshot(4), just_read=True).snapshot == snapshot(4)


def listing_only(store: Any, *names: str) -> list[str]:
    """Lets a listing show these files of the folder of snapshots, whatever there is."""
    shown = list(names)
    store.list = lambda prefix: iter([ObjectInfo(f"snapshot/{name}", 1, 0) for name in shown])
    return shown


@pytest.mark.parametrize("just_read", [False, True])
def test_a_listing_without_the_seen_snapshot_is_continued_from_it(store: Any, just_read: bool) -> None:
    """H7: it is out of date. The ids that it shows still count for EARLIEST."""
    chain(store, *range(2, 10))
    shown = listing_only(store, "snapshot-2", "snapshot-3")
    read = timeline(store)
    found = read.look(snapshot(4), just_read=just_read)
    assert (found.snapshot, found.unhinted) == (snapshot(9), 2)
    shown.append("EARLIEST")
    assert read.look(snapshot(4), just_read=just_read).unhinted is None
    shown.clear()
    found = read.look(snapshot(4), just_read=just_read)
    assert (found.snapshot, found.unhinted) == (snapshot(9), 4)


def test_a_seen_snapshot_that_is_the_newest_by_itself_is_believed_where_it_was_just_read(store: Any) -> None:
    """Otherwise it is read again, and may have been rolled back."""
    chain(store, 2, 3)
    assert timeline(store).look(snapshot(4), just_read=True).snapshot == snapshot(4)
    assert timeline(store).look(snapshot(4)).snapshot == snapshot(3)
    other = snapshot(3, uuid="other", on="2:u2")
    put(store, other)
    assert timeline(store).look(snapshot(3)).snapshot == other


def test_a_newest_snapshot_that_goes_while_it_is_read_is_looked_for_again(store: Any) -> None:
    chain(store, 2, 3, 4)
    get_once(store, "snapshot/snapshot-4", lambda: remove(store, "snapshot/snapshot-4", "snapshot/snapshot-3"))
    assert timeline(store).latest() == snapshot(2)
    get_once(store, "snapshot/snapshot-2", lambda: remove(store, "snapshot/snapshot-2"))
    assert timeline(store).latest() is None, "all were rolled back"


def test_a_snapshot_that_is_listed_and_never_there_is_damage(store: Any) -> None:
    listing_only(store, "snapshot-7")
    with pytest.raises(TableCorrupt, match="snapshot/snapshot-7 is listed but cannot be read"):
        timeline(store).latest()
    assert store.asked == ["get snapshot/snapshot-7"] * 3


def test_a_gap_that_nothing_explains_names_the_hints_to_write(store: Any) -> None:
    chain(store, 1, 2, 5)
    put_lists(store, snapshot(2))
    with pytest.raises(TableCorrupt) as undecided:
        timeline(store).latest()
    assert "the snapshots 1 to 2, 5 exist, with a gap between them" in undecided.value.message
    assert "into snapshot/EARLIEST and its last id into snapshot/LATEST" in undecided.value.message
    hints(store, 1, 2)
    assert timeline(store).latest() == snapshot(2)
    hints(store, 5, 5)
    assert timeline(store).look().snapshot == snapshot(5)
    store.put("snapshot/EARLIEST", b"x")
    assert timeline(store).look().unhinted is None


def test_an_expiry_deletes_the_lists_of_a_snapshot_before_the_snapshot(store: Any) -> None:
    """So the last snapshot below a gap shows whether an expiry made the gap."""
    chain(store, 1, 2, 5)
    for name in ("snapshot/snapshot-2", "manifest/delta-u2"):
        put(store, snapshot(2))
        put_lists(store, snapshot(2))
        remove(store, name)
        read = timeline(store)
        assert read.history([1, 2, 5]) == range(5, 6), name
    put(store, snapshot(2))
    put_lists(store, snapshot(2))
    remove(store, "manifest/base-u2")
    assert isinstance(timeline(store).history([1, 2, 5]), Gap), "the delta list decides"


@pytest.mark.parametrize(
    ("inherited", "added", "kin"), [(("x",), (), True), ((), ("x",), True), (("y",), ("z",), False), ((), (), False)]
)
def test_a_run_above_descends_from_the_one_below_where_it_still_names_its_manifests(
    store: Any, inherited: tuple[str, ...], added: tuple[str, ...], kin: bool
) -> None:
    """EARLIEST is below a gap and LATEST is gone: a rollback freed the names above, or EARLIEST is outdated."""
    chain(store, 1, 2, 5)
    hints(store, earliest=1)
    put_lists(store, snapshot(2), ["y"], ["x"])
    put_lists(store, snapshot(5), inherited, added)
    found = timeline(store).history([1, 2, 5])
    assert found == range(1, 3) if kin else isinstance(found, Gap)
    remove(store, "manifest/base-u5")
    assert isinstance(timeline(store).history([1, 2, 5]), Gap), "what cannot be read proves nothing"


@pytest.mark.parametrize("ours", [True, False])
def test_a_run_of_another_engine_that_latest_names_is_not_called_a_fork(store: Any, ours: bool) -> None:
    """Its readers see that run."""
    chain(store, 1, 2)
    above = snapshot(5) if ours else foreign(5)
    put(store, above)
    hints(store, 1, 5)
    put_lists(store, snapshot(2), [], ["x"])
    put_lists(store, above, ["x"])
    found = timeline(store).history([1, 2, 5])
    assert found == range(1, 3) if ours else isinstance(found, Gap)


def test_a_run_whose_first_snapshot_cannot_be_read_is_not_another_engines(store: Any) -> None:
    chain(store, 1, 2, 6)
    hints(store, 1, 6)
    put_lists(store, snapshot(2), [], ["x"])
    put_lists(store, snapshot(6), ["x"])
    assert timeline(store).history([1, 2, 5, 6]) == range(1, 3)


# ------------------------------------------------------------------------------------------------- the rule


def judged(
    earliest: int | None, latest: int | None, *, gone: tuple[int, ...] = (), foreign: tuple[int, ...] = ()
) -> range | Gap:
    """Three runs, 1 to 3, 5 to 7 and 10 to 12, of which the last descends from the first and from the second."""

    def evidence() -> Evidence:
        return Evidence(
            earliest,
            latest,
            lambda number: number in gone,
            lambda number: number in foreign,
            lambda upper, lower: (upper, lower) in {(12, 3), (12, 7)},
        )

    return the_history([range(1, 4), range(5, 8), range(10, 13)], evidence)


@pytest.mark.parametrize(
    ("earliest", "latest", "gone", "foreign", "start"),
    [
        (1, None, (), (), 1),
        (5, None, (), (), 5),
        (10, None, (), (), 10),
        (5, None, (3,), (), 5),
        (5, 10, (), (10,), None),
        (5, 10, (), (12,), 5),  # the first of a run tells who wrote it
        (5, 10, (), (5,), 5),
        (5, 3, (), (1,), 5),  # LATEST names no run above
        (1, 5, (3,), (), 5),
        (1, 5, (3, 7), (), 10),
        (1, 1, (3, 7), (), 10),  # what LATEST names is going, too
        (1, 1, (3,), (), None),
        (1, 10, (3,), (), 10),
        (None, 1, (), (), 1),
        (None, 1, (3,), (), None),
        (None, 1, (3, 7), (), 10),
        (None, 10, (), (), 10),
        (None, 10, (12,), (), 10),
        (None, None, (3, 7), (), 10),
        (None, None, (3,), (), None),
        (None, None, (7,), (), None),
        (None, None, (3, 7, 12), (), 10),
    ],
)
def test_of_three_runs_the_evidence_picks_one_or_none(
    earliest: int | None, latest: int | None, gone: tuple[int, ...], foreign: tuple[int, ...], start: int | None
) -> None:
    found = judged(earliest, latest, gone=gone, foreign=foreign)
    assert isinstance(found, Gap) if start is None else not isinstance(found, Gap) and found.start == start


def test_ids_are_split_where_one_is_missing() -> None:
    assert contiguous_runs([]) == []
    assert contiguous_runs([3]) == [range(3, 4)]
    assert contiguous_runs([1, 2, 3, 5, 7, 8]) == [range(1, 4), range(5, 6), range(7, 9)]
