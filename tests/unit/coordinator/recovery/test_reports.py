"""What recovery reports and leaves behind, from journals that are written line by line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from by_hand.histories import chain, hints, holds, of, prepared, put_lists, schema, snapshot
from fragile import ROWS, Fragile, die, names, only

import lakelatch as ll
from lakelatch.backends.local import LocalStore
from lakelatch.coordinator.history.timeline import Timeline
from lakelatch.coordinator.journal.file_journal import FileJournal
from lakelatch.coordinator.journal.lines import Damage, Entry
from lakelatch.coordinator.journal.object_journal import FOLDER, ObjectJournal
from lakelatch.coordinator.maintenance.reach.used import read_journals
from lakelatch.coordinator.protocol import events as ev
from lakelatch.coordinator.recovery.recover import RecoveredCommit, recover_journal
from lakelatch.coordinator.surroundings import MACHINE, Surroundings
from lakelatch.core.errors import InvalidArgument, StoreUnavailable
from lakelatch.core.metadata.snapshot import Snapshot
from lakelatch.core.paths import TablePaths

OURS = snapshot(1, uuid="ours")
DAY_MS = 86_400_000
"""Written out: a writer that wakes up finds the mark of its recovery for so long."""


def sent(made: Snapshot = OURS, table: str = "/t") -> list[ev.Event]:
    """The events of a commit up to its first send."""
    asked = prepared(made, names=("base-ours", "delta-ours"))
    return [
        ev.CommitRequested("etl", 7, "APPEND", False),
        ev.LatestResolved(asked.base, made.identity, asked.base.id if asked.base else 0),
        ev.ChangesCollected(1, 0),
        ev.ManifestsCompacted("none"),
        ev.BaseListWritten("base-ours"),
        ev.DeltaListWritten("delta-ours", ()),
        asked,
    ]


LANDED = [ev.SnapshotPublished(), ev.LineageVerified()]


@pytest.fixture
def store() -> Fragile:
    """An empty table."""
    made = Fragile()
    made.put("schema/schema-0", schema().to_json())
    return made


@pytest.fixture
def journal(tmp_path: Path) -> FileJournal:
    return FileJournal(tmp_path / "journal")


def told(
    journal: FileJournal, events: Sequence[ev.Event], at_ms: Sequence[int] = (), commit: str = "c", table: str = "/t"
) -> None:
    """Write the events of one commit, all at time 0 but for the last ones."""
    times = [*[0] * (len(events) - len(at_ms)), *at_ms]
    for event, moment in zip(events, times, strict=True):
        journal.record(Entry(commit, table, moment, event))


def at(now_ms: int) -> Surroundings:
    return replace(MACHINE, wall_s=lambda: (now_ms + 0.5) / 1000)


def events_of(journal: Any) -> list[str]:
    return [type(entry.event).__name__ for entry in journal.entries()]


# ------------------------------------------------------------------------------------------- when a commit is taken over


@pytest.mark.parametrize(("now_ms", "outcome"), [(29_999, "in flight"), (30_000, "finished"), (90_000, "finished")])
def test_a_commit_is_taken_over_once_it_was_silent_for_thirty_seconds(
    store: Fragile, journal: FileJournal, now_ms: int, outcome: str
) -> None:
    """Since its last entry, not since its first."""
    told(journal, sent(), at_ms=[0])
    put_lists(store, OURS)
    commit = only(recover_journal(journal, store, at(now_ms), writers_are_gone=False))
    assert commit.outcome == outcome
    assert ("TakenOver" in events_of(journal)) == (outcome != "in flight")


def test_the_last_entry_tells_how_long_a_writer_was_silent(store: Fragile, journal: FileJournal) -> None:
    told(journal, sent(), at_ms=[50_000])
    commit = only(recover_journal(journal, store, at(60_000), writers_are_gone=False))
    assert commit.outcome == "in flight"
    assert commit.reason == "its writer may still be running: recover again in 30 s"
    assert (commit.snapshot_id, commit.snapshot_uuid, commit.known) == (1, "ours", False)


def test_a_commit_whose_writer_reported_unknown_is_taken_over_at_once(store: Fragile, journal: FileJournal) -> None:
    told(journal, [*sent(), ev.JournalUnsure("no answer")], at_ms=[1_000])
    put_lists(store, OURS)
    assert only(recover_journal(journal, store, at(1_000), writers_are_gone=False)).outcome == "finished"


def test_a_commit_that_stays_unknown_is_marked_once(store: Fragile, journal: FileJournal) -> None:
    """A journal that is recovered every minute does not grow; a commit that was marked is looked up whoever asks when."""
    told(journal, sent())
    for now_ms in (30_000, 30_001, 90_000):
        commit = only(recover_journal(journal, store, at(now_ms), writers_are_gone=False))
        assert commit.outcome == "unknown", "the lists of its snapshot are not there"
        assert "is missing" in commit.reason
    assert events_of(journal).count("TakenOver") == 1
    put_lists(store, OURS)
    assert only(recover_journal(journal, store, at(0), writers_are_gone=False)).outcome == "finished"


def test_a_dry_run_says_how_a_silent_commit_would_end_and_leaves_a_live_one(
    store: Fragile, journal: FileJournal
) -> None:
    told(journal, sent())
    before = journal.path.read_bytes()
    for now_ms, gone, outcome in ((0, False, "in flight"), (30_000, False, "unknown"), (0, True, "unknown")):
        commit = only(recover_journal(journal, store, at(now_ms), writers_are_gone=gone, dry_run=True))
        assert commit.outcome == outcome
        assert ("it can be finished" in commit.reason) == (outcome == "unknown")
    assert journal.path.read_bytes() == before
    assert names(store, "snapshot/") == []


def test_a_commit_that_its_writer_concludes_meanwhile_is_in_flight(store: Fragile, journal: FileJournal) -> None:
    """Its entries are gone when the journal is read again, so that nothing shows who came first."""
    told(journal, sent())

    class Concluded(FileJournal):
        looks = 0

        def lines(self) -> list[Entry | Damage]:
            self.looks += 1
            return super().lines() if self.looks == 1 else []

    commit = only(recover_journal(Concluded(journal.path), store, at(90_000), writers_are_gone=False))
    assert commit.outcome == "in flight"
    assert names(store, "snapshot/") == []


def test_a_commit_whose_mark_cannot_be_written_is_left_alone(store: Fragile, journal: FileJournal) -> None:
    """The others are looked up all the same; without a mark its writer may still go on."""
    told(journal, sent(), commit="first")
    told(journal, sent()[:-1], commit="second")

    class Full(FileJournal):
        def _add(self, so_far: Sequence[Entry], said: Entry) -> None:
            if said.commit == "first":
                raise StoreUnavailable("the disk is full")
            super()._add(so_far, said)

    first, second = recover_journal(Full(journal.path), store, at(90_000), writers_are_gone=True).commits
    assert (first.outcome, first.reason) == ("unknown", "the disk is full")
    assert second.outcome == "not landed"
    assert names(store, "snapshot/") == []


def test_a_commit_with_a_damaged_line_is_left_alone(store: Fragile, journal: FileJournal) -> None:
    told(journal, sent())
    with journal.path.open("ab") as file:
        file.write(b'\n{"commit": garbage, "event": "TakenOver"}\n')
    before = journal.path.read_bytes()
    for dry_run in (False, True):
        found = recover_journal(journal, store, at(90_000), writers_are_gone=True, dry_run=dry_run)
        assert only(found).outcome == "unknown"
        assert only(found).reason == f"left alone: {found.damaged[0]}"
    assert journal.path.read_bytes() == before
    assert names(store, "snapshot/") == []


def test_a_replay_is_known_without_a_snapshot_of_its_own(store: Fragile, journal: FileJournal) -> None:
    """Its identity had landed before, so that it never made one."""
    told(journal, [sent()[0], ev.LatestResolved(of(3), "u4", 3, last_identifier=7, replay_of=of(2))])
    commit = only(recover_journal(journal, store, at(90_000), writers_are_gone=False))
    assert (commit.outcome, commit.snapshot_id, commit.snapshot_uuid, commit.known) == ("landed", 2, "u2", True)


def test_a_known_outcome_needs_neither_the_table_nor_a_mark(store: Fragile, journal: FileJournal) -> None:
    told(journal, [*sent(), *LANDED])
    before = journal.path.read_bytes()
    store.before = {f"{what} ": die for what in ("get", "create", "put", "delete")}
    commit = only(recover_journal(journal, store, at(90_000), writers_are_gone=True))
    assert commit == RecoveredCommit("c", "/t", "main", "etl", 7, "APPEND", "landed", "", 1, "ours", (), True)
    assert journal.path.read_bytes() == before


# ------------------------------------------------------------------------------------------- what is left in the journal


@pytest.mark.parametrize(
    ("later_ms", "gone", "stays"), [(DAY_MS, False, True), (DAY_MS + 1, False, False), (0, True, False)]
)
def test_a_mark_beside_the_table_goes_after_a_day_or_once_nobody_can_wake_up(
    store: Fragile, later_ms: int, gone: bool, stays: bool
) -> None:
    """A day after the last entry, which here says how the commit ended, ten seconds after it was marked."""
    writer = ObjectJournal(store)
    for event in sent():
        writer.record(Entry("c", store.url, 1_000, event), isinstance(event, ev.SnapshotPrepared))
    assert only(recover_journal(ObjectJournal(store), store, at(31_000), writers_are_gone=False)).outcome == "unknown"
    put_lists(store, OURS)
    assert only(recover_journal(ObjectJournal(store), store, at(41_000), writers_are_gone=False)).outcome == "finished"
    assert names(store, FOLDER)
    now = at(41_000 + later_ms)
    assert only(recover_journal(ObjectJournal(store), store, now, writers_are_gone=gone, dry_run=True)).known
    assert names(store, FOLDER), "a dry run removes nothing"
    assert only(recover_journal(ObjectJournal(store), store, now, writers_are_gone=gone)).known
    assert bool(names(store, FOLDER)) == stays


def test_an_outcome_that_cannot_be_recorded_is_reported_all_the_same(store: Fragile, journal: FileJournal) -> None:
    """H17: it can be looked up again."""
    put_lists(store, OURS)
    told(journal, sent())

    class Full(FileJournal):
        def _add(self, so_far: Sequence[Entry], said: Entry) -> None:
            if isinstance(said.event, ev.CommitResolved):
                raise StoreUnavailable("the disk is full")
            super()._add(so_far, said)

    commit = only(recover_journal(Full(journal.path), store, at(90_000), writers_are_gone=False))
    assert (commit.outcome, commit.known) == ("finished", False)
    assert events_of(journal)[-1] == "TakenOver"
    commit = only(recover_journal(journal, store, at(90_000), writers_are_gone=False))
    assert (commit.outcome, commit.known) == ("landed", False)
    assert events_of(journal)[-1] == "CommitResolved"


def test_entries_that_cannot_be_removed_now_are_removed_later(store: Fragile) -> None:
    put_lists(store, OURS)
    writer = ObjectJournal(store)
    for event in sent():
        writer.record(Entry("c", store.url, 1_000, event), isinstance(event, ev.SnapshotPrepared))

    def refused() -> None:
        raise StoreUnavailable("access denied")

    store.before[f"delete {FOLDER}"] = refused
    assert only(recover_journal(ObjectJournal(store), store, at(2_000), writers_are_gone=True)).outcome == "finished"
    assert names(store, FOLDER)
    assert only(recover_journal(ObjectJournal(store), store, at(2_000), writers_are_gone=True)).outcome == "landed"
    assert names(store, FOLDER) == []


# ------------------------------------------------------------------------------------------- which files are deleted


def lost_before_it_was_sent(store: Fragile, journal: FileJournal) -> None:
    told(journal, sent()[:-1])
    put_lists(store, OURS)


def test_files_of_a_commit_that_was_never_sent_are_deleted(store: Fragile, journal: FileJournal) -> None:
    lost_before_it_was_sent(store, journal)
    kept = only(recover_journal(journal, store, at(90_000), writers_are_gone=False, dry_run=True))
    wanted = ("manifest/base-ours", "manifest/delta-ours")
    assert (kept.outcome, kept.cleaned) == ("not landed", wanted), "a dry run says what would go"
    assert names(store, "manifest/") == list(wanted)
    commit = only(recover_journal(journal, store, at(90_000), writers_are_gone=False))
    assert (commit.outcome, commit.cleaned) == ("not landed", wanted)
    assert names(store, "manifest/") == []


def test_files_that_the_store_refuses_to_delete_are_not_told_as_deleted(store: Fragile, journal: FileJournal) -> None:
    lost_before_it_was_sent(store, journal)

    def refused() -> None:
        raise StoreUnavailable("access denied")

    store.before["delete manifest/"] = refused
    commit = only(recover_journal(journal, store, at(90_000), writers_are_gone=False))
    assert (commit.outcome, commit.cleaned) == ("not landed", ())
    assert len(names(store, "manifest/")) == 2
    assert events_of(journal)[-1] == "CommitResolved", "how it ended is known all the same"


# ------------------------------------------------------------------------------------------- the table's first files


def first_files(store: Fragile) -> Snapshot:
    """Snapshot 2 holds the table's first rows; another layout came as schema 1 while they were written."""
    (empty,) = chain(store, 1)
    put_lists(store, empty)
    hints(store, earliest=1)
    store.put("schema/schema-1", replace(schema(**{"data-file.path-directory": "data"}), id=1).to_json())
    made = snapshot(2, uuid="ours", on="1:u1", total_record_count=3, delta_record_count=3)
    put_lists(store, made)
    return made


@pytest.mark.parametrize("there", [False, True], ids=["finished", "landed"])
def test_the_newest_schema_follows_first_files_before_they_are_reported(
    store: Fragile, journal: FileJournal, there: bool
) -> None:
    """Otherwise readers of the newest schema would not find the rows; where that is not known, neither is the outcome."""
    made = first_files(store)
    told(journal, sent(made))
    if there:
        store.put("snapshot/snapshot-2", made.to_json())

    def refused() -> None:
        raise StoreUnavailable("access denied")

    store.before["create schema/schema-2"] = refused
    commit = only(recover_journal(journal, store, at(90_000), writers_are_gone=False))
    assert (commit.outcome, commit.reason) == ("unknown", "schema/schema-2 was not created: access denied")
    assert (commit.snapshot_id, commit.snapshot_uuid) == (2, "ours")
    assert events_of(journal)[-1] == "TakenOver", "the outcome is not recorded"
    assert only(recover_journal(journal, store, at(90_000), writers_are_gone=False)).outcome == "landed"
    made_again = json.loads(store.get("schema/schema-2"))
    assert "data-file.path-directory" not in made_again["options"]


def test_a_known_commit_stays_landed_while_the_schema_cannot_follow(store: Fragile, journal: FileJournal) -> None:
    """Its journal says that it landed; the schema is mended by the next run."""
    made = first_files(store)
    told(journal, [*sent(made), *LANDED])
    store.put("snapshot/snapshot-2", made.to_json())

    def refused() -> None:
        raise StoreUnavailable("access denied")

    store.before["create schema/schema-2"] = refused
    for mended in (False, True):
        commit = only(recover_journal(journal, store, at(90_000), writers_are_gone=False))
        assert (commit.outcome, commit.reason, commit.known) == ("landed", "", True)
        assert holds(store, "schema/schema-2") == mended


def test_a_dry_run_makes_no_schema(store: Fragile, journal: FileJournal) -> None:
    made = first_files(store)
    told(journal, [*sent(made), *LANDED])
    store.put("snapshot/snapshot-2", made.to_json())
    recover_journal(journal, store, at(90_000), writers_are_gone=False, dry_run=True)
    assert names(store, "schema/") == ["schema/schema-0", "schema/schema-1"]


def test_files_of_a_commit_that_did_not_land_change_no_schema(store: Fragile, journal: FileJournal) -> None:
    made = first_files(store)
    told(journal, [*sent(made), ev.PublishRefused(), ev.FoundAnother(of(2), "they"), ev.BudgetSpent("enough")])
    commit = only(recover_journal(journal, store, at(90_000), writers_are_gone=False))
    assert (commit.outcome, commit.reason, commit.known) == ("not landed", "enough", True)
    assert (commit.snapshot_id, commit.snapshot_uuid) == (2, "ours"), "the one that was looked for"
    assert names(store, "schema/") == ["schema/schema-0", "schema/schema-1"]


# ------------------------------------------------------------------------------------------- where journals are found


def test_by_default_recovery_acts_and_spares_live_writers(tmp_path: Path) -> None:
    url, path = str(tmp_path / "t"), tmp_path / "journal"
    ll.create_table(url, ROWS.schema)
    journal = FileJournal(path)
    told(journal, sent()[:-1], commit="old", table=url)
    told(journal, sent()[:-1], at_ms=[2**50], commit="young", table=url)
    lists = tmp_path / "t" / "manifest"
    lists.mkdir(exist_ok=True)
    (lists / "base-ours").write_bytes(b"x")
    old, young = ll.recover(path).commits
    assert (old.outcome, young.outcome) == ("not landed", "in flight")
    assert old.cleaned and not (lists / "base-ours").exists()
    assert events_of(journal)[-1] == "CommitResolved"


def test_a_table_is_asked_for_its_own_journal_objects_and_for_the_file_that_it_names(tmp_path: Path) -> None:
    """In that order; the file's lines about other tables are left out, and damage of both is reported."""
    url, path = str(tmp_path / "t"), tmp_path / "journal"
    ll.create_table(url, ROWS.schema, options={"commit.journal": str(path)})
    ll.allow(url, path)
    told(FileJournal(path), sent()[:-1], commit="in-file", table=url)
    told(FileJournal(path), sent()[:-1], commit="elsewhere", table=str(tmp_path / "u"))
    with path.open("ab") as file:
        file.write(b'\n{"damage": ?, "in": "the file", "of": 1}\n')
    objects = tmp_path / "t" / FOLDER
    objects.mkdir(parents=True)
    line = Entry("beside", url, 0, sent()[0]).to_json()
    (objects / "beside-1.jsonl").write_text(f'{json.dumps(line)}\n{{"damage": ?, "in": "an object", "of": 1}}\n')
    found = ll.recover(url, dry_run=True)
    assert [commit.commit for commit in found.commits] == ["beside", "in-file"]
    assert ["beside-1.jsonl: line 2" in found.damaged[0], str(path) in found.damaged[1]] == [True, True]
    assert len(found.damaged) == 2
    assert [c.commit for c in ll.recover(FileJournal(path), dry_run=True).commits] == ["in-file", "elsewhere"]


@pytest.mark.parametrize("writers_url", ["file://{}/t", "file:{}/t", "t"])
def test_a_table_finds_its_commits_whatever_spelling_of_its_path_their_writer_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writers_url: str
) -> None:
    """Also if the writer changes its working directory after it has opened the table."""
    path = tmp_path / "journal"
    monkeypatch.chdir(tmp_path)
    ll.create_table(f"{tmp_path}/t", ROWS.schema, options={"commit.journal": str(path)})
    ll.allow(f"{tmp_path}/t", path)
    table = ll.open_table(writers_url.format(tmp_path))
    monkeypatch.chdir("/")
    landed = table.append(ROWS)
    table.committer.settle()
    (found,) = ll.recover(f"{tmp_path}/t", dry_run=True).commits
    told(FileJournal(path), sent()[:-1], commit="open", table=f"file://{tmp_path}/t")
    using = read_journals(Timeline(table.store, TablePaths()), table.schema)
    assert [past.entries[0].commit for past in using] == ["open"], "its files are not deleted, as orphans or by expiry"
    assert (found.outcome, found.snapshot_id, found.table) == ("landed", landed.snapshot_id, f"{tmp_path}/t")


def test_a_journal_beside_a_table_tells_of_that_table_alone(tmp_path: Path) -> None:
    """H16: whoever writes to a table writes that journal, and may name any table in it that the caller can write to."""
    victim, hostile = tmp_path / "victim", tmp_path / "hostile"
    for url in (victim, hostile):
        ll.create_table(str(url), ROWS.schema)
    objects = hostile / FOLDER
    objects.mkdir(parents=True)
    for number, name in enumerate((str(victim), f"file://{victim}", f"{hostile}/../victim", str(hostile))):
        lines = [Entry(f"c{number}", name, 0, event).to_json() for event in sent()[:-1]]
        (objects / f"c{number}-1.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
    before = {path: path.read_bytes() for path in victim.rglob("*") if path.is_file()}
    asked = [str(hostile), ObjectJournal(LocalStore(str(hostile)))]
    for where in asked:
        found = ll.recover(where, writers_are_gone=True)
        assert {c.outcome for c in found.commits if c.table != str(hostile)} <= {"unknown"}
        assert {path: path.read_bytes() for path in victim.rglob("*") if path.is_file()} == before


def test_a_file_that_is_named_like_the_setting_is_no_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The setting `object` means the journal beside the table, whatever lies in the folder of the caller."""
    monkeypatch.chdir(tmp_path)
    url = str(tmp_path / "t")
    ll.create_table(url, ROWS.schema, options={"commit.journal": "object"})
    told(FileJournal(tmp_path / "object"), sent()[:-1], table=url)
    assert ll.recover(url, dry_run=True).commits == ()


def test_a_commit_to_a_table_that_cannot_be_opened_is_unknown(tmp_path: Path) -> None:
    """The other commits of the journal are reported all the same."""
    url, path = str(tmp_path / "t"), tmp_path / "journal"
    ll.create_table(url, ROWS.schema)
    told(FileJournal(path), sent()[:-1], commit="a", table="nowhere://bucket/t")
    told(FileJournal(path), sent()[:-1], commit="b", table=url)
    lost, found = ll.recover(path, writers_are_gone=True).commits
    assert (lost.outcome, found.outcome) == ("unknown", "not landed")
    assert "nowhere" in lost.reason


def test_options_reach_the_stores_of_the_tables(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    told(FileJournal(path), sent()[:-1], table="memory://recover-options/t")
    (commit,) = ll.recover(path, storage_options={"unheard_of": "1"}, writers_are_gone=True).commits
    assert commit.outcome == "unknown" and "unheard_of" in commit.reason
    with pytest.raises(InvalidArgument, match="unheard_of"):
        ll.recover("memory://recover-options/t", storage_options={"unheard_of": "1"})
