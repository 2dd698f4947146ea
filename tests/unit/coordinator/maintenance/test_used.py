"""The names of all files that a table uses: of its roots, of journals, and of intents."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from by_hand.tables import IDENTITIES, Handmade, added, data, full, metadata, with_page

from lakelatch.backends.store import ObjectInfo
from lakelatch.backends.trust import allow
from lakelatch.coordinator.intents.intent import Intent
from lakelatch.coordinator.journal.lines import Entry, line_of
from lakelatch.coordinator.journal.object_journal import FOLDER
from lakelatch.coordinator.maintenance.reach.names import fingerprints
from lakelatch.coordinator.maintenance.reach.used import UsedFiles, named_files, newest_ids, read_journals
from lakelatch.coordinator.protocol import events as ev
from lakelatch.coordinator.protocol.snapshot_ref import SnapshotRef
from lakelatch.core.errors import TableCorrupt
from lakelatch.core.places import FileKeys


def used_files(table: Handmade, **more: Any) -> UsedFiles:
    return UsedFiles(table.timeline, table.schema, **more)


def held(used: UsedFiles, names: set[str]) -> set[str]:
    asked = sorted(names)
    return {name for name, there in zip(asked, used.names.holds(asked).tolist(), strict=True) if there}


def infos(table: Handmade, *keys: str | int) -> list[ObjectInfo]:
    return [root.info for root in table.roots(*keys)]


# ---------------------------------------------------------------------------------------------------------------- roots


def test_a_root_uses_every_file_that_its_manifests_mention() -> None:
    """Those that a manifest deletes, too, and those of its changelog."""
    table = full()
    used = used_files(table)
    assert used.add_roots(infos(table, 2)) == set(infos(table, 2))
    mentioned = {*data("a", "b", "told"), *metadata("base-2", "delta-2", "told-2", "index-manifest-2")}
    mentioned |= {*metadata("manifest-1", "manifest-2", "changes-2"), "index/index-a", "statistics/stat-2"}
    assert held(used, mentioned | data("x") | metadata("base-1", "delta-1")) == mentioned


def test_files_of_identities_are_used() -> None:
    table = with_page()
    used = used_files(table)
    used.add_roots(infos(table, 1))
    assert held(used, IDENTITIES) == IDENTITIES


def test_a_root_that_has_gone_since_it_was_listed_does_not_count_as_seen() -> None:
    table = full()
    listed = infos(table, 1, 2)
    table.gone("snapshot/snapshot-1")
    assert used_files(table).add_roots(listed) == set(listed[1:])


class Reading:
    """Reads manifests, in place of the threads of this process."""

    def __init__(self, table: Handmade, *gone: str) -> None:
        self.table, self.gone, self.groups = table, gone, list[list[str]]()
        self.before: list[Any] = []

    def __call__(self, names: Sequence[str]) -> list[Any]:
        self.groups.append(list(names))
        for act in self.before:
            act()
        keys = FileKeys(self.table.schema)
        return [None if name in self.gone else named_files(self.table.timeline, keys, name) for name in names]


@pytest.mark.parametrize("lacking", ["manifest-1", "manifest-2", "changes-2"])
def test_a_manifest_that_goes_while_roots_are_read_ends_the_run_unless_its_root_goes_too(lacking: str) -> None:
    """H11: an expiry beside it took both."""
    table = full()
    listed = infos(table, 2)
    with pytest.raises(TableCorrupt, match=f"manifest/{lacking} is missing, but snapshot/snapshot-2 needs it"):
        used_files(table, read_manifests=Reading(table, lacking)).add_roots(listed)
    reading = Reading(table, lacking)
    reading.before.append(lambda: table.gone("snapshot/snapshot-2"))
    assert used_files(table, read_manifests=reading).add_roots(listed) == set()


def test_a_long_lived_changelog_may_lack_manifests() -> None:
    table = full()
    table.copy("snapshot/snapshot-2", "changelog/changelog-2")
    table.gone("manifest/manifest-1", "manifest/manifest-2")
    listed = infos(table, "changelog/changelog-2")
    used = used_files(table)
    assert used.add_roots(listed) == set(listed)
    assert held(used, data("a", "b", "told")) == data("told")


def test_each_manifest_is_read_once_and_as_many_together_as_was_said() -> None:
    table = full()
    reading = Reading(table)
    used = used_files(table, read_manifests=reading, at_once=2)
    used.add_roots(infos(table, 2))
    table.snapshot(3)
    used.add_roots(infos(table, 1, 3))
    assert reading.groups == [["changes-2", "manifest-1"], ["manifest-2"], ["manifest-3"]]
    again = used_files(table)
    table.asked()
    again.add_roots(infos(table, 1, 2, 3))
    again.add_roots(infos(table, 1, 2, 3))
    assert len([line for line in table.asked("get ") if "/manifest-" in line]) == 3


def test_the_files_that_a_manifest_names_have_fingerprints() -> None:
    table = full()
    keys = FileKeys(table.schema)
    found = named_files(table.timeline, keys, "manifest-2")
    assert found is not None
    assert found.tolist() == fingerprints(["bucket-0/data-a", "bucket-0/data-b"]).tolist()
    assert named_files(table.timeline, keys, "manifest-9") is None


def test_the_newest_snapshot_of_each_branch_is_told_by_a_listing_in_any_order() -> None:
    keys = ["snapshot/snapshot-10", "snapshot/snapshot-9", "snapshot/LATEST", "tag/tag-x", "tag/snapshot-77"]
    keys += ["branch/branch-dev/snapshot/snapshot-3", "branch/branch-dev/snapshot/snapshot-2"]
    keys += ["branch/branch-dev/tag/tag-snapshot-88", "changelog/changelog-12"]
    keys += ["branch/branch-snapshot/snapshot/snapshot-4", "branch/branch-new/snapshot/EARLIEST"]
    assert newest_ids(ObjectInfo(key, 0, 0) for key in keys) == {"main": 10, "dev": 3, "snapshot": 4}
    assert newest_ids([]) == {}


# -------------------------------------------------------------------------------------------------------------- intents


def with_intent(base: int) -> tuple[Handmade, str]:
    """A table with snapshots 1 and 2, and an append that waits on one of them to be carried."""
    table = full()
    table.manifest("manifest-c1-0", added("waiting"))
    manifests = (table.manifests["manifest-c1-0"],)
    intent = Intent("c1", "etl", 7, SnapshotRef(base, f"uuid-{base}"), 0, 1, 10, manifests)
    key = f"lakelatch/intents/{intent.file_name}"
    table.store.put(key, intent.to_json())
    return table, key


@pytest.mark.parametrize(("base", "is_open"), [(2, True), (1, True), (0, False)])
def test_an_intent_that_may_still_be_carried_uses_its_files(base: int, is_open: bool) -> None:
    """It holds for the two ids above its base."""
    table, key = with_intent(base)
    names = {key, *data("waiting"), *metadata("manifest-c1-0")}
    for reading in (None, Reading(table)):
        used = used_files(table, read_manifests=reading)
        used.add_intents([key], infos(table, 1, 2))
        assert held(used, names) == (names if is_open else set())
        assert reading is None or reading.groups == ([["manifest-c1-0"]] if is_open else [])


def test_an_intent_whose_manifest_is_not_there_keeps_its_own_file() -> None:
    table, key = with_intent(2)
    table.gone("manifest/manifest-c1-0")
    used = used_files(table)
    used.add_intents([key], infos(table, 1, 2))
    assert held(used, {key, *data("waiting")}) == {key}


# ------------------------------------------------------------------------------------------------------------- journals


REQUESTED = ev.CommitRequested("me", None, "APPEND", False)
RESOLVED = ev.CommitResolved(None, "conflict", "lost")
GARBAGE = b'{"event": "?", "commit": "0000"}\n'


def journal(table: Handmade, *commits: str, ended: bool = False) -> bytes:
    """The lines of commits to a table that have begun, and perhaps ended."""
    events = (REQUESTED, RESOLVED) if ended else (REQUESTED,)
    entries = [Entry(commit, table.store.url, 1, event) for commit in commits for event in events]
    return b"".join(line_of(entry) + b"\n" for entry in entries)


def open_commits(table: Handmade) -> set[str]:
    return {past.entries[0].commit for past in read_journals(table.timeline, table.schema)}


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """The journals that the option and the environment name."""
    monkeypatch.setenv("LAKELATCH_JOURNAL", str(tmp_path / "environment"))
    return tmp_path / "option", tmp_path / "environment"


def with_journal(place: object) -> Handmade:
    made = Handmade(commit__journal=str(place))
    if isinstance(place, Path):
        allow(made.store.url, place)
    return made


def test_every_journal_that_is_named_is_read(files: tuple[Path, Path]) -> None:
    table = with_journal(files[0])
    assert open_commits(table) == set(), "they may be on another machine"
    table.store.put(f"{FOLDER}beside-1.jsonl", journal(table, "beside"))
    files[0].write_bytes(journal(table, "a") + journal(table, "ended", ended=True))
    files[1].write_bytes(journal(table, "b") + journal(Handmade(), "of another table"))
    assert open_commits(table) == {"beside", "a", "b"}


def test_commits_that_have_ended_are_not_under_way(files: tuple[Path, Path]) -> None:
    table = with_journal(files[0])
    table.store.put(f"{FOLDER}beside-1.jsonl", journal(table, "beside", ended=True))
    files[1].write_bytes(journal(table, "b", ended=True) + GARBAGE)
    assert open_commits(table) == set()


@pytest.mark.parametrize("damaged", [0, 1])
def test_a_damaged_journal_ends_the_run_wherever_it_is(damaged: int, files: tuple[Path, Path]) -> None:
    """H11: whatever the journals before it hold."""
    table = with_journal(files[0])
    table.store.put(f"{FOLDER}beside-1.jsonl", journal(table, "beside"))
    files[damaged].write_bytes(journal(table, "a") + GARBAGE)
    with pytest.raises(TableCorrupt, match=rf"{files[damaged].name}: line 2 .*nothing was deleted"):
        open_commits(table)


def test_damage_beside_the_table_is_told_although_no_commit_is_known() -> None:
    table = Handmade()
    table.store.put(f"{FOLDER}0000-1.jsonl", GARBAGE)
    table.store.put(f"{FOLDER}a-1.jsonl", journal(table, "a"))
    with pytest.raises(TableCorrupt, match=r"0000-1\.jsonl"):
        open_commits(table)


def test_a_file_that_is_called_as_the_setting_for_a_journal_beside_the_table_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    table = with_journal("object")
    (tmp_path / "object").write_bytes(journal(table, "a"))
    assert open_commits(table) == set()
