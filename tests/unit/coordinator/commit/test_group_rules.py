"""Who may ride with others, what a rider asks of the store at each step, and what its part in the group says afterwards."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.backends.around.metered import MeteredStore
from lakelatch.backends.memory import MemoryStore
from lakelatch.backends.store import PutOutcome, Unknown
from lakelatch.coordinator.commit.attempt import Delta, MetadataFile
from lakelatch.coordinator.commit.request import CommitRequest, KeyedRows, Remarks, RepeatableRequest, RowChange
from lakelatch.coordinator.commit.riding.group import LONGEST_PAUSE_S, MERGING_SHARE, Group, may_ride, untold
from lakelatch.coordinator.history.base import Base
from lakelatch.coordinator.history.lineage import Untold
from lakelatch.coordinator.history.timeline import BASE_PROPERTY, Timeline
from lakelatch.coordinator.intents.carried import CARRIES_PROPERTY, Carried, to_property
from lakelatch.coordinator.intents.intent import Intent
from lakelatch.coordinator.intents.window import Aboard, Closed, StillOpen
from lakelatch.coordinator.protocol import effects as do
from lakelatch.coordinator.protocol import events as ev
from lakelatch.coordinator.protocol.snapshot_ref import SnapshotRef
from lakelatch.coordinator.surroundings import MACHINE
from lakelatch.core.errors import StoreUnavailable
from lakelatch.core.metadata.data_file import ADD, DELETE, EMPTY_ROW, DataFile, IndexEntry, IndexFile, ManifestEntry
from lakelatch.core.metadata.manifest import ManifestFile
from lakelatch.core.metadata.schema import new_schema
from lakelatch.core.metadata.snapshot import Snapshot
from lakelatch.core.paths import TablePaths
from lakelatch.core.rows.arrow import from_arrow_schema

COUNT = count()
FIELDS = pa.schema([pa.field("k", pa.int64(), nullable=False)])
AUTO = {"commit.group": "auto"}
SCHEMA = new_schema(from_arrow_schema(FIELDS), options=AUTO)
FILE = ManifestEntry(ADD, EMPTY_ROW, 0, -1, DataFile("f", 1, 5))


def request(kind: Any = "APPEND", of: type[CommitRequest] = CommitRequest, **more: Any) -> CommitRequest:
    return of(**{"kind": kind, "entries": (FILE,), "commit_user": "etl", **more})


@pytest.mark.parametrize("kind", [CommitRequest, RepeatableRequest])
def test_plain_appends_ride(kind: type[CommitRequest]) -> None:
    assert may_ride(request(of=kind), SCHEMA)
    assert may_ride(request(of=kind, entries=(FILE, FILE), identifier=0), SCHEMA)


@pytest.mark.parametrize(
    ("alone", "why"),
    [
        (request(of=RowChange), "its rows were computed from others"),
        (request("OVERWRITE"), "it may replace files"),
        (request("COMPACT"), "it replaces files"),
        (request(target=lambda partition: True), "it replaces partitions"),
        (request(index_entries=(IndexEntry(ADD, EMPTY_ROW, 0, IndexFile("HASH", "i", 1, 1)),)), "index files"),
        (request(keyed=KeyedRows(reads_keys=True)), "keys"),
        (request(remarks=Remarks(statistics="stat-1")), "statistics are of one snapshot"),
        (request(entries=()), "it has nothing to carry"),
        (request(entries=(FILE, FILE._replace(kind=DELETE))), "one file goes"),
        (request(entries=(FILE, FILE._replace(total_buckets=2))), "one file is numbered in its bucket"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_depends_on_its_base_or_speaks_of_itself_goes_alone(alone: CommitRequest, why: str) -> None:
    assert not may_ride(alone, SCHEMA), why


@pytest.mark.parametrize(
    ("options", "keys"),
    [
        ({}, []),
        ({"commit.group": "off"}, []),
        ({**AUTO, "row-tracking.enabled": "true"}, []),
        ({"bucket": "1"}, ["k"]),
        (AUTO, ["k"]),
        ({**AUTO, "bucket": "1", "sequence.snapshot-ordering": "true", "write-only": "true"}, ["k"]),
    ],
    ids=["by default", "off", "row ids", "keys, by default", "dynamic buckets", "by snapshot"],
)
def test_tables_that_number_rows_or_do_not_ask_for_it_have_no_riders(options: dict[str, str], keys: list[str]) -> None:
    """Row ids follow each other; which buckets keys are in, and which snapshot rows come from, the base says."""
    schema = new_schema(from_arrow_schema(FIELDS), primary_keys=keys, options=options)
    assert not may_ride(WRITTEN, schema)


WRITTEN = request(remarks=Remarks(operation="WRITE"))


@pytest.mark.parametrize(
    "more",
    [{"properties": {"a": "b"}}, {"watermark_ms": 0}, {"operation": "WRITE", "watermark_ms": 5}],
    ids=["properties", "a watermark", "both kinds"],
)
def test_what_a_commit_says_of_itself_rides_with_it(more: dict[str, Any]) -> None:
    assert may_ride(request(remarks=Remarks(**more)), SCHEMA)
    assert may_ride(request(remarks=Remarks(**{"operation": "WRITE", **more})), NUMBERED)


NUMBERED = new_schema(from_arrow_schema(FIELDS), primary_keys=["k"], options={**AUTO, "bucket": "2"})


@pytest.mark.parametrize(
    ("options", "keys"),
    [
        ({"bucket": "2"}, ["k"]),
        ({"bucket": "-2"}, ["k"]),
        ({"bucket": "2", "sequence.field": "k"}, ["k"]),
        ({"bucket": "2", "bucket-key": "k"}, []),
    ],
    ids=["fixed buckets", "postponed", "ordered by a field", "no key"],
)
def test_rows_that_only_their_numbers_order_ride(options: dict[str, str], keys: list[str]) -> None:
    schema = new_schema(from_arrow_schema(FIELDS), primary_keys=keys, options={**AUTO, **options})
    assert may_ride(WRITTEN, schema)
    assert may_ride(replace(WRITTEN, keyed=KeyedRows(changelog=(FILE,), compared=True)), schema), "with its changelog"
    assert may_ride(replace(WRITTEN, in_order=True, query="q"), schema), "a batch of a stream"


@pytest.mark.parametrize(
    ("alone", "why"),
    [
        (request(), "nobody says that it only writes"),
        (request(remarks=Remarks(operation="MERGE")), "its rows were computed from others"),
        (request(of=RowChange, remarks=Remarks(operation="WRITE")), "and these too"),
        (request("OVERWRITE", remarks=Remarks(operation="WRITE")), "it may replace files"),
        (replace(WRITTEN, target=lambda partition: True), "it replaces partitions"),
        (replace(WRITTEN, index_entries=(IndexEntry(ADD, EMPTY_ROW, 0, IndexFile("HASH", "i", 1, 1)),)), "index files"),
        (replace(WRITTEN, keyed=KeyedRows(reads_keys=True)), "it was placed by the keys of others"),
        (replace(WRITTEN, keyed=KeyedRows(hashes=(((EMPTY_ROW, 0), ()),))), "an index is made of its keys"),  # type: ignore[arg-type]
        (replace(WRITTEN, entries=(FILE, FILE._replace(kind=DELETE))), "one file goes"),
        (replace(WRITTEN, entries=()), "it has nothing to carry"),
        (replace(WRITTEN, group="off"), "it is not to"),
        (request(remarks=Remarks(operation="WRITE", statistics="stat-1")), "statistics are of one snapshot"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_of_numbered_rows_only_new_ones_ride(alone: CommitRequest, why: str) -> None:
    assert not may_ride(alone, NUMBERED), why


@pytest.mark.parametrize("option", ["auto", "off"])
@pytest.mark.parametrize("group", ["auto", "off", None])
def test_a_call_decides_before_the_option_of_the_table(option: str, group: Any) -> None:
    schema = new_schema(from_arrow_schema(FIELDS), options={"commit.group": option})
    assert may_ride(request(group=group), schema) == ((group or option) == "auto")
    tracked = new_schema(from_arrow_schema(FIELDS), options={"commit.group": option, "row-tracking.enabled": "true"})
    assert not may_ride(request(group=group), tracked)


def test_the_operation_of_a_commit_does_not_keep_it_from_riding() -> None:
    assert may_ride(request(remarks=Remarks(operation="WRITE")), SCHEMA)


# ------------------------------------------------------------------------------------------------- one part in the group


class Answers(MemoryStore):
    """A store in memory that may refuse or not answer creates, and whose reads may fail."""

    instead: PutOutcome | Exception | None = None
    away = False

    def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
        if isinstance(self.instead, Exception):
            raise self.instead
        return self.instead or super().put_if_absent(key, data)

    def get(self, key: str) -> bytes:
        if self.away:
            raise StoreUnavailable("away")
        return super().get(key)


class Part:
    """A commit's part, with a clock, dice and sleeps of the test."""

    def __init__(self, commit: str = "c5", **more: Any) -> None:
        self.inner = Answers(f"memory://part-{next(COUNT)}/t")
        self.store = MeteredStore(self.inner)
        self.timeline = Timeline(self.store, TablePaths())
        self.now_s, self.step_s, self.dice = 1000.0, 0.25, 0.5
        self.slept: list[float] = []
        around = replace(MACHINE, monotonic_s=self.tick, sleep=self.slept.append, uniform=lambda low, high: self.dice)
        self.group = Group(request(identifier=7), commit, SCHEMA, around, allowed=True, **more)

    def tick(self) -> float:
        self.now_s += self.step_s
        return self.now_s

    def publish(self, *snapshots: Snapshot) -> None:
        for one in snapshots:
            self.inner.put(f"snapshot/snapshot-{one.id}", one.to_json())
        self.inner.put("snapshot/EARLIEST", str(snapshots[0].id).encode())

    def prepared(self, base: int = 3) -> Any:
        return self.group.prepare(SnapshotRef(base, f"u{base}"), DELTA)

    def intents(self) -> list[str]:
        return sorted(info.key.rpartition("/")[2] for info in self.inner.list("lakelatch/intents/"))


def snapshot(number: int, carries: tuple[Carried, ...] = (), **more: Any) -> Snapshot:
    ours = {BASE_PROPERTY: f"{number - 1}:u{number - 1}"}
    ours |= {CARRIES_PROPERTY: to_property(carries)} if carries else {}
    made = Snapshot(
        id=number, uuid=f"u{number}", schema_id=0, base_manifest_list="b", delta_manifest_list="d", commit_user="boss",
        commit_identifier=2**63 - 1, commit_kind="APPEND", time_ms=0, total_record_count=1, delta_record_count=1,
        properties=ours, writer_version="lakelatch-0",
    )  # fmt: skip
    return replace(made, **more)


def real_line() -> ManifestFile:
    table = ll.create_table(f"memory://part-{next(COUNT)}/t", FIELDS)
    table.append(pa.table({"k": [1]}, schema=FIELDS))
    latest = table.timeline.latest()
    assert latest is not None
    return table.timeline.delta_manifests(latest)[0]


LINE = replace(real_line(), file_name="manifest-c5-0")
RIDERS_LINE = replace(LINE, file_name="manifest-c1-0")
MANIFEST = MetadataFile("manifest-c5-0", "manifest/manifest-c5-0", b"m")
DELTA = Delta((FILE, FILE), (LINE, RIDERS_LINE), (MANIFEST,), MetadataFile("manifest-list-c5-0", "k", b"l"))
ABOARD = (Carried("boss", None, "c0", 1), Carried("etl", 7, "c5", 10))


def other(commit: str, user: str = "job", base: int = 3, **more: Any) -> Intent:
    line = replace(LINE, file_name=f"manifest-{commit}-0")
    return replace(Intent(commit, user, 1, SnapshotRef(base, f"u{base}"), 0, -1, 2, (line,)), **more)


def test_an_intent_names_the_commits_own_manifests_and_counts_its_rows() -> None:
    part = Part()
    assert (part.group.window, part.group.asked) == (None, False)
    event = part.prepared()
    made = part.group.intent
    assert made is not None and part.group.asked
    assert (made.user, made.identifier, made.commit, made.rows) == ("etl", 7, "c5", 10)
    assert (made.schema_id, made.buckets, made.manifests) == (0, -1, (LINE,)), "not those of its riders"
    assert event == ev.IntentPrepared(
        SnapshotRef(3, "u3"), "intent-4-c5.json", ("manifest-c5-0",), made.to_json().decode()
    )


@pytest.mark.parametrize(("took_s", "measured_s"), [(0.25, 0.25), (60.0, LONGEST_PAUSE_S)])
def test_registering_measures_a_round_trip(took_s: float, measured_s: float) -> None:
    part = Part()
    part.step_s = took_s
    part.prepared()
    assert part.group.register(part.timeline) == ev.IntentRegistered("")
    assert part.intents() == ["intent-4-c5.json"]
    assert part.group.asked_s == measured_s
    assert part.group.wait_for_carrier(SnapshotRef(3, "u3"), part.timeline) == ev.NobodyCame()
    assert part.slept == [measured_s / 2], "one and a half round trips with the look itself"


def test_what_a_round_trip_took_is_known_when_it_asks_again() -> None:
    part = Part()
    assert (part.prepared(3), part.group.asked_s)[1] == 0.0
    part.group.register(part.timeline)
    part.prepared(4)
    assert part.group.asked_s == 0.25


def test_the_company_of_a_commit_are_the_others_in_its_snapshot() -> None:
    part = Part()
    assert part.group.company == 0
    part.group.riders = (other("c1"), other("c7"))
    assert part.group.company == 2, "whom it carries"
    part.group.aboard = snapshot(4, ABOARD)
    assert part.group.company == 1, "who carries it"


def test_a_commit_has_a_leader_only_in_the_snapshot_of_another() -> None:
    """A process that has taken it over publishes it as its own, and may carry others."""
    part = Part()
    part.group.aboard = snapshot(4, ABOARD)
    assert part.group.leader == "boss"
    part.group.aboard = snapshot(4, ABOARD[::-1])
    assert part.group.leader is None


def test_an_intent_without_an_answer_stays_and_a_refused_one_does_not() -> None:
    part = Part()
    part.prepared()
    part.inner.instead = Unknown("no answer")
    assert part.group.register(part.timeline) == ev.IntentRegistered("no answer")
    assert part.group.intent is not None
    part.inner.instead = StoreUnavailable("403")
    assert part.group.register(part.timeline) == ev.IntentRefused("403")
    assert part.group.intent is not None, "the journal may hold it: only the machine says that it is none"
    assert part.group.asked, "its snapshot names itself all the same"


@pytest.mark.parametrize(
    ("history", "fate", "still_open"),
    [
        ((snapshot(3),), StillOpen, True),
        ((snapshot(3), snapshot(4, ABOARD)), Aboard, True),
        ((snapshot(3), snapshot(4), snapshot(5)), Closed, False),
        ((snapshot(3, uuid="another"),), Untold, True),
    ],
)
def test_an_intent_is_given_up_only_once_nobody_can_carry_it(
    history: tuple[Snapshot, ...], fate: type[Any], still_open: bool
) -> None:
    part = Part()
    assert part.group.fate(history[-1], part.timeline) is None, "it has no intent yet"
    part.publish(*history)
    part.prepared()
    found = part.group.fate(history[-1], part.timeline)
    assert isinstance(found, fate)
    assert (part.group.intent is not None) == still_open
    assert (part.group.leader, part.group.aboard) == (("boss", history[-1]) if fate is Aboard else (None, None))
    assert (untold(found) != "") == (fate is Untold)
    assert untold(None) == ""


def test_the_snapshot_that_was_just_read_may_carry_it() -> None:
    part = Part()
    assert part.group.already_aboard(snapshot(4, ABOARD)) is None, "it has no intent"
    part.prepared()
    assert part.group.already_aboard(None) is None
    assert part.group.already_aboard(snapshot(4)) is None
    assert part.group.aboard is None
    assert part.group.already_aboard(snapshot(4, ABOARD)) == Aboard(snapshot(4, ABOARD))
    assert part.group.leader == "boss"
    assert part.store.snapshot().requests == 0


def test_the_first_of_those_who_wait_leads() -> None:
    """A commit that waits counts those before it; one that does not wait leads at once."""
    part, base = Part("c5"), snapshot(3)
    for one in (other("c1"), other("c9", "late"), other("c7", "too")):
        part.inner.put(f"lakelatch/intents/{one.file_name}", one.to_json())
    waits = part.group.choose(do.ChooseRiders(SnapshotRef(3, "u3"), True), base, part.timeline)
    assert waits == ev.RidersChosen(1, ())
    assert part.store.snapshot().by_operation == {"list": 1}, "their files are not read"
    leads = part.group.choose(do.ChooseRiders(SnapshotRef(3, "u3"), False), base, part.timeline)
    assert leads == ev.RidersChosen(0, ("c1", "c7", "c9"))
    assert part.group.carried == tuple(Carried(user, 1, commit, 2) for user, commit in
                                       (("job", "c1"), ("too", "c7"), ("late", "c9")))  # fmt: skip
    first = Part("c0")
    first.inner.put(f"lakelatch/intents/{other('c1').file_name}", other("c1").to_json())
    leads = first.group.choose(do.ChooseRiders(SnapshotRef(3, "u3"), True), base, first.timeline)
    assert leads == ev.RidersChosen(0, ("c1",))


def test_a_leader_carries_neither_itself_nor_its_own_identity() -> None:
    """A restarted job waits under the identity of the one that leads: its rows would land twice (G3)."""
    part = Part("c5")
    for one in (other("c5", "job"), other("c6", "etl", identifier=7), other("c7", "etl", identifier=8)):
        part.inner.put(f"lakelatch/intents/{one.file_name}", one.to_json())
    found = part.group.choose(do.ChooseRiders(SnapshotRef(3, "u3"), False), snapshot(3), part.timeline)
    assert found == ev.RidersChosen(0, ("c7",))


def test_a_rider_meets_the_next_snapshot() -> None:
    part = Part()
    part.publish(snapshot(3), snapshot(4))
    assert not part.group.met_carrier
    assert part.group.wait_for_carrier(SnapshotRef(3, "u3"), part.timeline) == ev.SnapshotSeen(SnapshotRef(4, "u4"))
    assert part.group.met is not None
    assert (part.group.met.snapshot, part.slept) == (snapshot(4), [0.0]), "no round trip was measured"
    part.inner.away = True
    assert part.group.wait_for_carrier(SnapshotRef(4, "u4"), part.timeline) == ev.NobodyCame()


@pytest.mark.parametrize("carried", [True, False])
def test_a_rider_knows_its_carrier_when_it_meets_it(carried: bool) -> None:
    part = Part()
    part.publish(snapshot(3), snapshot(4, ABOARD) if carried else snapshot(4))
    part.prepared()
    assert not part.group.met_carrier, "it has met nobody"
    part.group.wait_for_carrier(SnapshotRef(3, "u3"), part.timeline)
    assert part.group.met_carrier == carried
    part.group.intent = None
    assert not part.group.met_carrier, "it has no intent that could be carried"


def test_the_carrier_is_checked_again_after_a_pause() -> None:
    part = Part()
    part.step_s = 1.0
    part.publish(snapshot(3), snapshot(4, ABOARD))
    part.group.aboard = snapshot(4, ABOARD)
    base = Base(snapshot(3), (), 0, part.now_s * 1000)
    effect = do.VerifyRide(SnapshotRef(4, "u4"), 1)
    assert part.group.verify_ride(effect, part.timeline, base) == ev.LineageVerified()
    assert (part.slept, part.store.snapshot().requests) == ([], 1), "its base was seen a second ago"
    part.group.verify_ride(do.VerifyRide(SnapshotRef(4, "u4"), 2), part.timeline, base)
    assert part.slept == [0.2]


@pytest.mark.parametrize(
    ("base", "age_s"), [(snapshot(3), 1.1), (snapshot(2), 0.0), (None, 0.0)], ids=["seen long ago", "another", "none"]
)
def test_the_base_of_the_carrier_is_doubted_unless_it_was_seen_just_now(base: Snapshot | None, age_s: float) -> None:
    """H6: an expiry may have freed its name since; EARLIEST tells."""
    part = Part()
    part.step_s = 0.0
    part.publish(snapshot(3), snapshot(4, ABOARD))
    part.group.aboard = snapshot(4, ABOARD)
    known = Base(base, (), 0, (part.now_s - age_s) * 1000)
    assert part.group.verify_ride(do.VerifyRide(SnapshotRef(4, "u4"), 1), part.timeline, known) == ev.LineageVerified()
    assert part.store.snapshot().requests == 2, "the base and EARLIEST"


def test_a_carrier_whose_base_was_renamed_over_is_read_all_the_same() -> None:
    part = Part()
    part.publish(snapshot(3, uuid="another"), snapshot(4, ABOARD))
    part.group.aboard = snapshot(4, ABOARD)
    base = Base(snapshot(3), (), 0, part.now_s * 1000)
    found = part.group.verify_ride(do.VerifyRide(SnapshotRef(4, "u4"), 1), part.timeline, base)
    assert found == ev.LineageVerified()


def test_a_carrier_under_a_name_that_expiry_had_freed_proves_nothing() -> None:
    """Its leader slept while the history went on and expired: no reader sees what it carries (H6)."""
    part = Part()
    part.publish(snapshot(4, ABOARD), snapshot(6), snapshot(7))
    part.inner.put("snapshot/EARLIEST", b"6")
    part.group.aboard = snapshot(4, ABOARD)
    base = Base(snapshot(3), (), 0, part.now_s * 1000)
    found = part.group.verify_ride(do.VerifyRide(SnapshotRef(4, "u4"), 1), part.timeline, base)
    assert isinstance(found, ev.LineageUnread) and "a name that expiry or a rollback had freed" in found.reason


def test_a_carrier_whose_base_cannot_be_read_is_looked_at_again() -> None:
    part = Part()
    part.publish(snapshot(3), snapshot(4, ABOARD))
    part.group.aboard, part.inner.away = snapshot(4, ABOARD), True
    base = Base(snapshot(3), (), 0, part.now_s * 1000)
    found = part.group.verify_ride(do.VerifyRide(SnapshotRef(4, "u4"), 1), part.timeline, base)
    assert isinstance(found, ev.LineageUnread) and "away" in found.reason


def test_a_leader_prepares_more_only_while_it_reads_the_intents_of_others() -> None:
    part, prepared = Part("c0"), list[str]()
    effect, base = do.ChooseRiders(SnapshotRef(3, "u3"), True), snapshot(3)
    for intents, times in (([], 0), ([other("c1")], 1)):
        for one in intents:
            part.inner.put(f"lakelatch/intents/{one.file_name}", one.to_json())
        part.group.choose(effect, base, part.timeline, lambda: prepared.append("manifests"))
        assert (len(prepared), len(part.group.riders)) == (times, times)
    part.inner.delete_many(info.key for info in list(part.inner.list("lakelatch/intents/")))
    part.group.choose(effect, base, part.timeline)
    assert part.group.riders == (), "the intent is gone"
    follows = Part("c5")
    follows.inner.put(f"lakelatch/intents/{other('c1').file_name}", other("c1").to_json())
    follows.group.choose(effect, base, follows.timeline, lambda: prepared.append("manifests"))
    assert len(prepared) == 1, "who waits for another to lead prepares nothing"


def test_of_many_commits_at_once_few_begin_to_merge_manifests() -> None:
    """H15."""
    for allowed, crowded, dice, merges in (
        (True, True, MERGING_SHARE, False),
        (True, True, MERGING_SHARE - 0.01, True),
        (False, True, 1.0, True),
        (True, False, 1.0, True),
    ):
        part = Part(crowded=crowded)
        part.group.allowed, part.dice = allowed, dice
        assert part.group.may_merge() is merges


def test_the_dice_for_merging_are_between_none_and_all() -> None:
    part, asked = Part(crowded=True), list[tuple[float, float]]()
    part.group.around = replace(MACHINE, uniform=lambda low, high: asked.append((low, high)) or 0.0)  # type: ignore[func-returns-value]
    assert part.group.may_merge()
    assert asked == [(0.0, 1.0)]


def test_only_the_snapshot_that_was_told_is_the_carrier() -> None:
    """Another may have taken its name since."""
    for told, is_aboard in (("u4", True), ("another", False)):
        part = Part()
        part.publish(snapshot(4, ABOARD))
        part.group.asked_s = 1.0
        part.group.found_in(SnapshotRef(9, "u9"), part.timeline)
        assert part.group.aboard is None, "there is no such snapshot"
        part.group.found_in(SnapshotRef(4, told), part.timeline)
        assert (part.group.aboard is not None) is is_aboard


def test_a_commit_that_asked_nobody_or_knows_its_carrier_looks_for_none() -> None:
    for asked_s, aboard in ((None, None), (1.0, snapshot(3))):
        part = Part()
        part.publish(snapshot(4, ABOARD))
        part.group.asked_s, part.group.aboard = asked_s, aboard
        part.store.reset()
        part.group.found_in(SnapshotRef(4, "u4"), part.timeline)
        assert part.group.aboard is aboard
        assert part.store.snapshot().requests == 0


def test_a_snapshot_that_carries_nobody_has_no_leader() -> None:
    """Another process with the same identity has landed it alone."""
    part = Part()
    part.publish(snapshot(4))
    part.group.asked_s = 1.0
    part.group.found_in(SnapshotRef(4, "u4"), part.timeline)
    assert (part.group.aboard, part.group.leader) == (None, None)


def test_a_carrier_that_cannot_be_read_just_now_leaves_the_receipt_without_its_name() -> None:
    """The commit has landed all the same."""
    part = Part()
    part.publish(snapshot(4, ABOARD))
    part.group.asked_s, part.inner.away = 1.0, True
    part.group.found_in(SnapshotRef(4, "u4"), part.timeline)
    assert part.group.aboard is None
