"""The quarantine in detail: its lists, its order of requests, what it gives back and what it refuses."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from by_hand.tables import Handmade, added

import lakelatch as ll
from lakelatch.backends.local import LocalStore
from lakelatch.backends.memory import MemoryStore
from lakelatch.backends.store import ObjectNotFound
from lakelatch.coordinator.history.timeline import Timeline
from lakelatch.coordinator.maintenance.orphans import OrphanPlan, plan_orphans
from lakelatch.coordinator.maintenance.quarantine import (
    FOLDER,
    Quarantine,
    Restored,
    chosen_quarantines,
    expire_quarantines,
    move_orphans,
    quarantines,
    restore,
)
from lakelatch.coordinator.maintenance.reach import names as names_module
from lakelatch.core.errors import InvalidArgument, TableCorrupt
from lakelatch.core.paths import TablePaths

FOREVER_MS = 2**62
LEFT = (
    "bucket-0/data-x",
    "manifest/manifest-x",
    "branch/branch-dev/tag/.tag-x.0.tmp",
    "index/index-x",
    "statistics/stat-x",
)
SIZES = {key: position + 1 for position, key in enumerate(LEFT)}


def left(table: Handmade, *keys: str) -> Handmade:
    for key in keys or LEFT:
        table.store.put(key, b"x" * SIZES.get(key, 1))
    return table


def plan(table: Handmade, **more: Any) -> OrphanPlan:
    return plan_orphans(table.timeline, table.schema, FOREVER_MS, **more)


def moved(table: Handmade, unique: str = "a", now_ms: int = 1_000, keep_ms: int = 500) -> str:
    name = move_orphans(plan(table), now_ms, keep_ms, unique).quarantine
    assert name is not None
    return name


def lines(table: Handmade, name: str) -> list[list[dict[str, Any]]]:
    pages = sorted(table.files(f"{FOLDER}lists/{name}/"))
    return [[json.loads(line) for line in table.store.get(page).split(b"\n")] for page in pages]


# ----------------------------------------------------------------------------------------------------------------- heads


def head(table: Handmade, name: str, made_ms: int, expires_ms: int = 0) -> None:
    said = Quarantine(name, made_ms, expires_ms, 1, 1).to_dict()
    table.store.put(f"{FOLDER}heads/{name}.json", json.dumps(said).encode())


def test_quarantines_are_listed_oldest_first_and_by_name_within_one_moment() -> None:
    table = Handmade()
    assert quarantines(table.store) == []
    for name, made_ms in (("d", 3), ("c", 2), ("b", 2), ("a", 4)):
        head(table, name, made_ms)
    assert [one.name for one in quarantines(table.store)] == ["b", "c", "d", "a"]


def test_a_quarantine_that_is_kept_forever_is_listed() -> None:
    """Its end may be no date that Python knows."""
    ends = {
        1_000: "1970-01-01T00:00:01+00:00",
        864_000_000_000_000_000: "864000000000000000 ms",
        10**30: f"{10**30} ms",
    }
    for end, text in ends.items():
        assert str(Quarantine("a", 0, end, 1, 5)) == f"a: 1 files, 5 bytes, until {text}"


class Vanishing(MemoryStore):
    """Lists one object that is gone by the time it is read."""

    gone = ""

    def get(self, key: str) -> bytes:
        if key == self.gone:
            raise ObjectNotFound(key)
        return super().get(key)


def test_a_quarantine_that_ends_while_they_are_listed_is_left_out() -> None:
    table = Handmade()
    for name in ("a", "b", "c"):
        head(table, name, 1)
    store = Vanishing(table.store.url)
    store.gone = f"{FOLDER}heads/a.json"
    assert [one.name for one in quarantines(store)] == ["b", "c"]


@pytest.mark.parametrize("garbage", [b"", b"{", b"[]", b"7", b"{}", b'{"name": "a", "more": 1}'])
def test_a_damaged_head_is_named(garbage: bytes) -> None:
    table = Handmade()
    table.store.put(f"{FOLDER}heads/a.json", garbage)
    with pytest.raises(TableCorrupt, match=f"{FOLDER}heads/a.json is not the head of a quarantine"):
        quarantines(table.store)


def test_one_quarantine_is_chosen_by_its_name_or_all() -> None:
    table = Handmade()
    with pytest.raises(InvalidArgument, match="no quarantine 'a'") as refused:
        chosen_quarantines(table.store, "a")
    assert refused.value.next_step == "choose one of these: there is none"
    head(table, "a", 1)
    head(table, "b", 2)
    assert [one.name for one in chosen_quarantines(table.store, None)] == ["a", "b"]
    assert [one.name for one in chosen_quarantines(table.store, "b")] == ["b"]
    with pytest.raises(InvalidArgument) as refused:
        chosen_quarantines(table.store, "c")
    assert refused.value.next_step == "choose one of these: a, b"
    with pytest.raises(InvalidArgument):
        chosen_quarantines(table.store, "../a")


def test_what_is_told_is_ready_for_json() -> None:
    assert Quarantine("a", 1, 2, 3, 4).to_dict() == {
        "name": "a", "made_ms": 1, "expires_ms": 2, "files": 3, "size": 4,
    }  # fmt: skip
    done = Restored(("a", "b"), 3, 4, ("x",))
    assert done.to_dict() == {"quarantines": ["a", "b"], "files": 3, "size": 4, "lost": ["x"]}
    assert str(done) == "3 files of 2 quarantines: 4 bytes; 1 are neither there nor where they were"


# ----------------------------------------------------------------------------------------------------------------- there


def test_without_orphans_nothing_is_written() -> None:
    table = Handmade()
    found = plan(table)
    table.asked()
    assert move_orphans(found, 1_000, 500, "a") is found
    assert table.asked() == []


def test_a_list_says_where_each_file_was_and_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names_module, "CHUNK", 2)
    table = left(Handmade())
    infos = {key: table.info(key) for key in LEFT}
    told: list[tuple[int, int]] = []
    done = move_orphans(plan(table), 1_000, 500, "a", lambda *counts: told.append(counts))
    name = done.quarantine
    assert name == "19700101T000001Z-a"
    assert [len(page) for page in lines(table, name)] == [2, 2, 1]
    shown = {key: key.replace("/.", "/hidden.") for key in LEFT}
    assert [line for page in lines(table, name) for line in page] == [
        {
            "file": key,
            "moved_to": f"{FOLDER}files/{name}/{shown[key]}",
            "size": SIZES[key],
            "modified_ms": infos[key].modified_ms,
        }
        for key in LEFT
    ]
    assert told == [(5, 5)]
    assert quarantines(table.store) == [Quarantine(name, 1_000, 1_500, 5, sum(SIZES.values()))]
    assert {info.key for info in done.files} == set(LEFT)
    assert not table.files() & set(LEFT)


def test_the_head_comes_first_and_a_list_before_its_files() -> None:
    """Whatever a run that is cut off has moved, somebody can find it."""
    table = left(Handmade())
    found = plan(table)
    table.asked()
    name = move_orphans(found, 1_000, 500, "a").quarantine
    asked = [line for line in table.asked() if not line.startswith(("get", "list"))]
    assert asked[:2] == [f"put {FOLDER}heads/{name}.json", f"put {FOLDER}lists/{name}/000000.jsonl"]
    copies, deletions = asked[2 : 2 + len(LEFT)], asked[2 + len(LEFT) : -1]
    assert all(line.startswith(f"put {FOLDER}files/{name}/") for line in copies)
    assert sorted(deletions) == sorted(f"delete {key}" for key in LEFT)
    assert asked[-1] == f"put {FOLDER}heads/{name}.json"


def test_a_file_that_has_gone_since_the_plan_is_not_counted() -> None:
    table = left(Handmade())
    found = plan(table)
    table.gone(LEFT[0])
    table.asked()
    done = move_orphans(found, 1_000, 500, "a")
    assert {info.key for info in done.files} == set(LEFT[1:])
    assert sorted(table.asked("delete ")) == sorted(f"delete {key}" for key in LEFT[1:]), "it may come back any time"
    (told,) = quarantines(table.store)
    assert (told.files, told.size) == (4, sum(SIZES.values()) - 1)
    back = restore(table.timeline, table.schema)
    assert (back.files, back.size, back.lost) == (4, sum(SIZES.values()) - 1, (LEFT[0],))
    assert table.files() >= set(LEFT[1:])


def test_a_move_on_a_local_disk_does_not_wait_for_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Should a file be there again after a power cut, the next run finds it."""
    table = local(tmp_path)
    left(table)
    found, deleted = plan(table), list[str]()
    monkeypatch.setattr(table.store, "delete_many", lambda keys: deleted.extend(keys))
    assert len(move_orphans(found, 1_000, 500, "a").files) == len(LEFT)
    assert deleted == []
    assert not (tmp_path / "t/bucket-0/data-x").exists()


def local(tmp_path: Path, **options: str) -> Handmade:
    table = Handmade(**options)
    store = LocalStore(str(tmp_path / "t"))
    store.put("schema/schema-0", table.schema.to_json())
    table.store, table.timeline = store, Timeline(store, TablePaths())  # type: ignore[assignment]
    return table


def test_a_disk_that_knows_no_second_names_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = local(tmp_path)
    left(table)
    monkeypatch.setattr(table.store, "second_name", lambda key, to: False)
    name = moved(table)
    assert (tmp_path / "t" / FOLDER / "files" / name / "manifest/manifest-x").read_bytes() == b"xx"
    assert restore(table.timeline, table.schema).files == len(LEFT)
    assert (tmp_path / "t/manifest/manifest-x").read_bytes() == b"xx"


def test_files_of_one_name_from_outside_of_the_table_stay_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where one of those before them has gone since the plan was made."""
    monkeypatch.setattr(names_module, "CHUNK", 2)
    outside = tmp_path / "lake"
    paths = [outside / f"bucket-{bucket}/data-x" for bucket in range(4)]
    for bucket, path in enumerate(paths):
        path.parent.mkdir(parents=True)
        path.write_bytes(b"%d" % bucket)
    table = local(tmp_path, data_file__external_paths=f"file://{outside}")
    ll.allow(table.store.url, outside)
    found = plan(table, external=True)
    assert sorted(info.key for info in found.files) == [f"file:{path}" for path in paths]
    gone = Path(found.files[0].key.removeprefix("file:"))
    gone.unlink()
    done = move_orphans(found, 1_000, 500, "a")
    assert len(done.files) == 3 and not any(path.exists() for path in paths)
    assert len(table.files(f"{FOLDER}elsewhere/")) == 3
    back = restore(table.timeline, table.schema)
    assert (back.files, back.size, back.lost) == (3, 3, (f"file:{gone}",))
    assert [path.read_bytes() for path in paths if path != gone] == [
        b"%d" % bucket for bucket, path in enumerate(paths) if path != gone
    ]


# ------------------------------------------------------------------------------------------------------------------ back


def test_a_file_that_is_where_it_was_is_left_as_it_is_and_counts_as_restored() -> None:
    """A move that was cut off before it deleted it, or a restore after it had copied it."""
    table = left(Handmade())
    moved(table)
    table.store.put(LEFT[0], b"here already")
    back = restore(table.timeline, table.schema)
    assert (back.files, back.size, back.lost) == (5, sum(SIZES.values()), ())
    assert table.store.get(LEFT[0]) == b"here already"
    assert table.files(FOLDER) == set()


def test_only_the_quarantine_that_was_named_comes_back() -> None:
    table = left(Handmade(), LEFT[0])
    one = moved(table, "one")
    left(table, LEFT[1])
    other = moved(table, "other")
    told: list[tuple[int, int]] = []
    back = restore(table.timeline, table.schema, other, lambda *counts: told.append(counts))
    assert (back.quarantines, back.files, told) == ((other,), 1, [(1, 1)])
    assert table.files() & set(LEFT) == {LEFT[1]}
    left(table, LEFT[2])
    moved(table, "third")
    again = restore(table.timeline, table.schema, None, lambda *counts: told.append(counts))
    assert (again.files, again.size, again.lost, told[1:]) == (3, 1 + 2 + 3, (), [(1, 3), (3, 3)])
    assert again.quarantines[0] == one


def test_a_list_that_holds_more_than_its_head_says_is_restored_whole() -> None:
    """A run that was cut off says what it was about to move; another run's count may be low."""
    table = left(Handmade())
    name = moved(table)
    table.store.put(f"{FOLDER}heads/{name}.json", json.dumps(Quarantine(name, 1, 2, 1, 1).to_dict()).encode())
    told: list[tuple[int, int]] = []
    assert restore(table.timeline, table.schema, progress=lambda *counts: told.append(counts)).files == 5
    assert told == [(5, 5)]


def bent(table: Handmade, name: str, change: Any) -> None:
    """Change the first line of a quarantine's list."""
    key = f"{FOLDER}lists/{name}/000000.jsonl"
    first, *rest = table.store.get(key).split(b"\n")
    new = change(json.loads(first))
    table.store.put(key, b"\n".join([new if isinstance(new, bytes) else json.dumps(new).encode(), *rest]))


@pytest.mark.parametrize(
    "change",
    [
        lambda line: b"{",
        lambda line: b"[]",
        lambda line: b"7",
        lambda line: {key: value for key, value in line.items() if key != "size"},
        lambda line: {**line, "more": 1},
        lambda line: {**line, "moved_to": 7},
        lambda line: {**line, "moved_to": "manifest/manifest-x"},
        lambda line: {**line, "moved_to": line["moved_to"].replace("-a/", "-b/")},
        lambda line: {**line, "file": "README.md"},
        lambda line: {**line, "file": "file:/lake/../bucket-0/data-x"},
        lambda line: {**line, "file": "file:/elsewhere/bucket-0/data-x"},
        lambda line: {**line, "file": "file:/lakes/bucket-0/data-x"},
    ],
)
def test_a_line_that_no_run_writes_is_refused_and_nothing_is_moved_by_it(change: Any) -> None:
    """H16."""
    table = left(Handmade(data_file__external_paths="file:///lake"))
    name = moved(table)
    bent(table, name, change)
    before = table.files()
    with pytest.raises(TableCorrupt, match=f"^{FOLDER}lists/{name}/000000.jsonl "):
        restore(table.timeline, table.schema)
    with pytest.raises(TableCorrupt):
        expire_quarantines(plan(table), 10_000)
    assert table.files() == before


@pytest.mark.parametrize("folder", ["one", "two"])
def test_a_file_may_come_back_to_every_location_that_a_schema_names(folder: str, tmp_path: Path) -> None:
    table = left(Handmade(data_file__external_paths=f"file://{tmp_path}/one, file://{tmp_path}/two"))
    ll.allow(table.store.url, tmp_path / folder)
    bent(table, moved(table), lambda line: {**line, "file": f"file:{tmp_path}/{folder}/bucket-0/data-x"})
    assert restore(table.timeline, table.schema).files == len(LEFT)
    assert (tmp_path / folder / "bucket-0/data-x").read_bytes() == b"x"


def test_empty_lines_say_nothing() -> None:
    table = left(Handmade())
    key = f"{FOLDER}lists/{moved(table)}/000000.jsonl"
    table.store.put(key, table.store.get(key).replace(b"\n", b"\n\n") + b"\n")
    assert restore(table.timeline, table.schema).files == len(LEFT)


def test_a_list_that_another_run_takes_away_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names_module, "CHUNK", 2)
    table = left(Handmade())
    name = moved(table)
    store = Vanishing(table.store.url)
    store.gone = f"{FOLDER}lists/{name}/000000.jsonl"
    back = restore(Timeline(store, TablePaths()), table.schema)
    assert (back.files, back.lost) == (3, ())


# --------------------------------------------------------------------------------------------------------------- the end


def test_a_quarantine_ends_once_its_time_is_over_whatever_its_age() -> None:
    table = left(Handmade(), LEFT[0])
    longer = moved(table, "longer", 1_000, 1_000)
    left(table, LEFT[1])
    shorter = moved(table, "shorter", 1_100, 100)
    found = plan(table)
    table.asked()
    assert expire_quarantines(found, 1_199).expired == ()
    assert table.asked("list tag/") == [], "roots are looked at only where something ends"
    assert expire_quarantines(found, 1_200).expired == (shorter,)
    assert [one.name for one in quarantines(table.store)] == [longer]
    assert table.files(FOLDER) == {f"{FOLDER}heads/{longer}.json", f"{FOLDER}lists/{longer}/000000.jsonl"} | {
        f"{FOLDER}files/{longer}/{LEFT[0]}"
    }
    assert not table.files() & set(LEFT)


def test_a_file_that_a_snapshot_needs_by_then_comes_back() -> None:
    """H10: the commit landed after the roots were looked at for this run. They are looked at once more, for all that ends."""
    table = left(Handmade(), "bucket-0/data-a", "bucket-0/data-b")
    first = moved(table, "first")
    left(table, LEFT[1])
    second = moved(table, "second", 1_001)
    found = plan(table)
    table.snapshot(1, added("a"))
    table.asked()
    assert expire_quarantines(found, 5_000).expired == (first, second)
    assert table.asked("list tag/") == ["list tag/"]
    assert table.files("bucket-0/") == {"bucket-0/data-a"}
    assert table.files(FOLDER) == set()


def test_what_ended_is_part_of_the_plan() -> None:
    table = left(Handmade())
    name = moved(table)
    done = expire_quarantines(replace(plan(table), quarantine="x"), 5_000)
    assert (done.expired, done.quarantine) == ((name,), "x")
    assert done.to_dict()["expired_quarantines"] == [name]
