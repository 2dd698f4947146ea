"""Intents: files that are read back or refused by name, and a leader that chooses by its base alone."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.backends.memory import MemoryStore
from lakelatch.coordinator.history.lineage import Untold
from lakelatch.coordinator.history.row_numbers import NO_ROWS, NUMBERS_PROPERTY, RowNumbers, Span
from lakelatch.coordinator.history.timeline import BASE_PROPERTY, Timeline, ref_of
from lakelatch.coordinator.intents import shelf
from lakelatch.coordinator.intents.carried import CARRIES_PROPERTY, Carried, carried_by, to_property
from lakelatch.coordinator.intents.intent import Intent, Leader, Numbered, Said, parse_intent
from lakelatch.coordinator.intents.window import Aboard, Closed, StillOpen, Window, look_for
from lakelatch.coordinator.maintenance.orphans import apply_clean, plan_orphans
from lakelatch.coordinator.protocol.snapshot_ref import SnapshotRef
from lakelatch.core.errors import TableCorrupt
from lakelatch.core.metadata.manifest import ManifestFile, encode_manifest_list
from lakelatch.core.metadata.snapshot import Snapshot
from lakelatch.core.paths import TablePaths
from lakelatch.table.table import Table

NEVER_MS = 2**62
COUNT = count()
ROWS = pa.table({"v": [1, 2]})


def opened() -> Table:
    """A table with three snapshots, in memory."""
    table = ll.create_table(f"memory://intents-{next(COUNT)}/t", ROWS.schema)
    for number in range(3):
        table.append(ROWS, commit_user="etl", identifier=number)
    table.committer.settle()
    return table


def fresh() -> MemoryStore:
    return MemoryStore(f"memory://intents-{next(COUNT)}/t")


def lines_of(table: Table) -> tuple[ManifestFile, ...]:
    latest = table.timeline.latest()
    assert latest is not None
    return table.timeline.delta_manifests(latest)


def intent(commit: str = "c1", user: str = "job", identifier: int | None = 1, base: int = 3, **more: Any) -> Intent:
    line = replace(EXAMPLE, file_name=f"manifest-{commit}-0")
    made = Intent(commit, user, identifier, SnapshotRef(base, f"u{base}"), 0, -1, 2, (line,))
    return replace(made, **more)


EXAMPLE = lines_of(opened())[0]


def snapshot(number: int, carries: tuple[Carried, ...] = (), foreign: bool = False, **more: Any) -> Snapshot:
    """A snapshot of lakelatch, or of another engine, on the one below it."""
    ours = {BASE_PROPERTY: f"{number - 1}:u{number - 1}"} | (
        {CARRIES_PROPERTY: to_property(carries)} if carries else {}
    )
    made = Snapshot(
        id=number, uuid=f"u{number}", schema_id=0, base_manifest_list="b", delta_manifest_list="d", commit_user="other",
        commit_identifier=2**63 - 1, commit_kind="APPEND", time_ms=0, total_record_count=1, delta_record_count=1,
        properties=None if foreign else ours, writer_version=None if foreign else "lakelatch-0",
    )  # fmt: skip
    return replace(made, **more)


def leader(base: Snapshot, **more: Any) -> Leader:
    return replace(Leader(base, "own", "own-user", 0, -1), **more)


# ------------------------------------------------------------------------------------------------------------ the file


def test_an_intent_is_read_back_as_it_was_written() -> None:
    made = intent(user="é" * 40, identifier=None)
    assert parse_intent(made.to_json(), f"lakelatch/intents/{made.file_name}") == made


def test_the_manifests_of_an_intent_are_read_like_those_of_a_list() -> None:
    """A leader keeps them as part of the state that it knows, and its next undo or compaction reads them."""
    table = opened()
    (line,) = lines_of(table)
    made = intent(line.file_name.removeprefix("manifest-").rpartition("-")[0], manifests=(line,))
    read = parse_intent(made.to_json(), f"lakelatch/intents/{made.file_name}")
    assert read.manifests == (line,)
    assert len(table.timeline.entries(read.manifests)) == 1


def numbered(**more: Any) -> Intent:
    """An upsert with a changelog, of a stream, with properties and a watermark."""
    line = replace(EXAMPLE, file_name="manifest-c1-1")
    said = Said("q", in_order=True, watermark_ms=0, properties={"é": "1"})
    return intent(numbered=Numbered(Span(3, 9), 2, (line,), 4), said=said, **more)


FULL = {name: value for name, value in json.loads(numbered().to_json()).items() if name not in ("manifests", "commit")}


def without(raw: Any, name: str) -> Any:
    return {key: value for key, value in raw.items() if key != name}


@pytest.mark.parametrize(
    "made",
    [
        numbered(),
        replace(numbered(), said=Said()),
        replace(numbered(), numbered=None),
        replace(numbered(), numbered=Numbered(NO_ROWS)),
        replace(numbered(), numbered=None, said=Said(watermark_ms=0)),
    ],
    ids=["all", "numbers", "what it says", "rows that get numbers later", "a watermark of 1970"],
)
def test_what_an_intent_says_of_numbers_and_of_itself_is_read_back(made: Intent) -> None:
    assert json.loads(made.to_json())["version"] == 2, "a version that does not understand it passes it over"
    assert parse_intent(made.to_json(), f"lakelatch/intents/{made.file_name}") == made
    assert json.loads(intent().to_json())["version"] == 1, "and others are carried by every version"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda raw: raw | {"version": 3}, "version 1 or 2"),
        (lambda raw: raw | {"rows": -1}, "rows"),
        (lambda raw: raw | {"identifier": "7"}, "identifier"),
        (lambda raw: raw | {"base": {"id": 0, "identity": "u"}}, "base"),
        (lambda raw: raw | {"base": {"id": 4, "identity": "u"}}, "its name"),
        (lambda raw: raw | {"commit": "c2"}, "its name"),
        (lambda raw: raw | {"manifests": "%%"}, "not an intent"),
        (lambda raw: raw | {"manifests": ""}, "not a manifest file"),
        (lambda raw: raw | {"manifests": listed("../x-c1-0")}, "leave the table's directory"),
        (lambda raw: raw | {"manifests": listed("manifest-c2-0")}, "another commit"),
        (lambda raw: raw | {"manifests": listed("manifest-c1-0", num_deleted_files=1)}, "append"),
        (lambda raw: [raw], "not an intent"),
        *(
            (lambda raw, more=more: raw | FULL | more, "not an intent")
            for more in (
                {"numbers": [5, 4]},
                {"numbers": [-1, 4]},
                {"numbers": [3]},
                {"numbers": [3, 4.0]},
                {"numbers": "3-4"},
                {"numbers": [3, (1 << 63) - 1]},
                {"counts": -1},
                {"counts": None},
                {"changes": "4"},
                {"changes": -4},
                {"changelog": "%%"},
                {"changelog": None},
                {"properties": []},
                {"properties": {"a": 1}},
                {"properties": {"a": None}},
                {"watermark_ms": "5"},
                {"watermark_ms": True},
                {"query": None},
                {"in_order": 1},
            )
        ),
        (lambda raw: raw | FULL | {"changelog": listed("manifest-c2-0")}, "another commit"),
        (lambda raw: raw | FULL | {"changelog": listed("../x-c1-0")}, "leave the table's directory"),
        (lambda raw: without(raw | FULL, "counts"), "counts"),
        (lambda raw: without(raw | FULL, "changelog"), "changelog"),
        (lambda raw: without(raw | FULL, "changes"), "changes"),
        (lambda raw: without(raw | FULL, "watermark_ms"), "watermark_ms"),
        (lambda raw: without(raw | FULL, "query"), "query"),
        (lambda raw: without(raw | FULL, "in_order"), "in_order"),
    ],
)
def test_a_garbled_or_hostile_intent_is_refused_by_name(change: Callable[[Any], Any], told: str) -> None:
    """The error names the file; a leader passes such an intent over."""
    made = intent()
    data, key = json.dumps(change(json.loads(made.to_json()))).encode(), f"lakelatch/intents/{made.file_name}"
    with pytest.raises(TableCorrupt, match=told) as found:
        parse_intent(data, key)
    assert made.file_name in found.value.message
    store = fresh()
    store.put(key, data)
    timeline = Timeline(store, TablePaths())
    leads = leader(snapshot(3))
    assert shelf.riders_for(timeline, leads, shelf.waiting(timeline, leads, 0)) == ()


def listed(name: str, **more: Any) -> str:
    line = replace(EXAMPLE, file_name=name, **more)
    return base64.b64encode(encode_manifest_list([line], compression="none")).decode()


# -------------------------------------------------------------------------------------------------------- who may ride


@pytest.mark.parametrize(
    ("base", "waiting", "rides"),
    [
        (snapshot(3), intent(), True),
        (snapshot(4), intent(), True),
        (snapshot(5), intent(), False),  # its last id is taken
        (snapshot(2), intent(), False),  # its first id has yet to come
        (snapshot(3, uuid="another"), intent(), False),  # another snapshot 3 than the one that it was registered on
        (snapshot(4, properties={BASE_PROPERTY: "3:another"}), intent(), False),
        (snapshot(3, foreign=True), intent(), True),
        (snapshot(4, foreign=True), intent(), False),  # another engine's snapshot does not say whom it carries
        (snapshot(4, (Carried("x", None, "c1", 1),)), intent(identifier=None), False),  # it is in the base
        (snapshot(4, (Carried("job", 1, "c0", 1),)), intent(), False),  # a twin is
        (snapshot(4, (Carried("job", 2, "c0", 1),)), intent(), True),  # a later commit of the same user is
        (snapshot(4, (Carried("job", 0, "c0", 1),)), intent(), True),
        (snapshot(4, commit_user="job", commit_identifier=1), intent(), False),  # a twin made the base
        (snapshot(4, commit_user="job", commit_identifier=0), intent(), True),
        (snapshot(3), intent(schema_id=1), False),
        (snapshot(3), intent(buckets=2), False),
        (snapshot(3), intent(commit="own"), False),
        (snapshot(3), intent(user="own-user"), True),
    ],
)
def test_a_leader_carries_what_its_base_alone_proves_to_be_waiting(
    base: Snapshot, waiting: Intent, rides: bool
) -> None:
    assert leader(base).choose([waiting]) == ((waiting,) if rides else ())


def test_of_two_intents_of_one_identity_one_waits() -> None:
    """A twin's rows do not land twice; those of the user's other identifiers land with them."""
    twins = [intent("c1"), intent("c2"), intent("c3", identifier=2), intent("c4", identifier=None)]
    assert [i.commit for i in leader(snapshot(3)).choose(twins)] == ["c1", "c3", "c4"]
    leads = leader(snapshot(3), user=twins[0].user, identifier=2)
    assert [i.commit for i in leads.choose(twins)] == ["c1", "c4"], "nor do those of the leader's own identity"


def says(number: int, found: RowNumbers) -> Snapshot:
    made = snapshot(number)
    return replace(made, properties={**made.own_properties, NUMBERS_PROPERTY: found.to_property()})


SAYS = RowNumbers(90, 2, (Span(80, 90),))


@pytest.mark.parametrize(
    ("base", "own", "waiting", "rides"),
    [
        (says(3, SAYS), Span(200, 209), Numbered(Span(100, 109), 2), True),
        (says(3, SAYS), Span(109, 110), Numbered(Span(100, 109), 2), False),  # the leader's rows have its numbers
        (says(3, SAYS), Span(110, 111), Numbered(Span(100, 109), 2), True),
        (says(3, SAYS), None, Numbered(Span(100, 109), 2), False),  # the leader's are not known
        (says(3, SAYS), Span(200, 209), None, False),  # nor are its own
        (snapshot(3), Span(200, 209), Numbered(Span(100, 109), 2), False),  # the base says nothing
        (snapshot(3), None, None, True),
        (says(3, SAYS), NO_ROWS, Numbered(NO_ROWS), True),  # they get them later
        (says(3, SAYS), Span(200, 209), Numbered(Span(100, 109), 4), False),  # of another bucket count
        (says(3, replace(SAYS, buckets=None)), Span(200, 209), Numbered(Span(100, 109), 2), False),
        (says(3, replace(SAYS, writes=None)), Span(200, 209), Numbered(Span(100, 109), 2), True),  # it knew of that
        (says(4, replace(SAYS, writes=None)), Span(200, 209), Numbered(Span(100, 109), 2), False),
        (says(4, SAYS), Span(200, 209), Numbered(Span(70, 79), 2), True),  # older, and yet its own
        (says(4, SAYS), Span(200, 209), Numbered(Span(70, 80), 2), False),
        (says(4, replace(SAYS, merged=70)), Span(200, 209), Numbered(Span(70, 79), 2), False),
        (says(4, replace(SAYS, merged=69)), Span(200, 209), Numbered(Span(70, 79), 2), True),
        (says(4, replace(SAYS, merged=90)), Span(200, 209), Numbered(NO_ROWS), True),
    ],
)
def test_a_leader_carries_rows_whose_numbers_are_their_own(
    base: Snapshot, own: Span | None, waiting: Numbered | None, rides: bool
) -> None:
    asks = intent(numbered=waiting)
    assert leader(base, numbers=own).choose([asks]) == ((asks,) if rides else ())


def test_a_leader_carries_rows_of_its_own_bucket_count_only() -> None:
    asks = intent(numbered=Numbered(Span(100, 109), 2))
    leads = leader(says(3, SAYS), numbers=Span(200, 209))
    for counts, rides in ((2, True), (0, True), (4, False), (None, False)):
        assert bool(replace(leads, counts=counts).choose([asks])) is rides, counts
    unbucketed = intent(numbered=Numbered(NO_ROWS))
    assert replace(leads, counts=4).choose([unbucketed]) == (unbucketed,)


def test_of_two_intents_whose_numbers_meet_one_waits() -> None:
    first, second, third = (
        intent(f"c{n}", identifier=n, numbered=Numbered(span, 2))
        for n, span in enumerate((Span(100, 109), Span(105, 106), Span(110, 119)))
    )
    leads = leader(says(3, SAYS), numbers=Span(200, 209))
    assert leads.choose([third, second, first]) == (first, third)


def test_an_old_intent_is_not_carried() -> None:
    """Its writer has died, and another engine's orphan cleaner may have deleted its files by now."""
    store = fresh()
    timeline, made = Timeline(store, TablePaths()), intent()
    shelf.register(timeline, made)
    (info,) = timeline.store.list("lakelatch/intents/")
    for age_ms, riders in ((0, 1), (shelf.STALE_AFTER_MS + 60_000, 0)):
        assert len(shelf.waiting(timeline, leader(snapshot(3)), info.modified_ms + age_ms)) == riders


def test_the_order_of_leaders_is_that_of_their_commits() -> None:
    store = fresh()
    timeline = Timeline(store, TablePaths())
    for made in (intent("c9"), intent("c1"), intent("c5", base=2), intent("c0", base=1), intent("c3", base=4)):
        shelf.register(timeline, made)
    leads = leader(snapshot(3))
    assert shelf.order_of(shelf.waiting(timeline, leads, 0), leads) == ("c1", "c5", "c9")


def test_a_garbled_list_of_riders_is_told_by_name() -> None:
    for text in ("[[1]]", "{", '[["a", null, "c", "1"]]', '[["a", true, "c", 1]]'):
        with pytest.raises(TableCorrupt, match=r"snapshot-4: property 'lakelatch\.carries' is garbled"):
            carried_by(snapshot(4, properties={CARRIES_PROPERTY: text}))


# --------------------------------------------------------------------------------------------------- what became of it


def published(*made: Snapshot) -> Timeline:
    store = fresh()
    for one in made:
        store.put(f"snapshot/snapshot-{one.id}", one.to_json())
    store.put("snapshot/EARLIEST", str(made[0].id).encode())
    return Timeline(store, TablePaths())


WINDOW = Window("c1", SnapshotRef(3, "u3"))
ABOARD = (Carried("other", None, "c0", 1), Carried("job", 1, "c1", 2))


@pytest.mark.parametrize(
    ("history", "fate"),
    [
        ((snapshot(3),), StillOpen),
        ((snapshot(3), snapshot(4)), StillOpen),
        ((snapshot(3), snapshot(4), snapshot(5)), Closed),
        ((snapshot(3), snapshot(4), snapshot(5), snapshot(6), snapshot(7)), Closed),
        ((snapshot(3), snapshot(4, foreign=True), snapshot(5, foreign=True)), Closed),
        ((snapshot(3), snapshot(4, ABOARD)), Aboard),
        ((snapshot(3), snapshot(4), snapshot(5, ABOARD)), Aboard),
        ((snapshot(3), snapshot(4, ABOARD), snapshot(5), snapshot(6)), Aboard),
        ((snapshot(3, uuid="another"),), Untold),
        ((snapshot(2),), Untold),
        ((snapshot(4, properties={BASE_PROPERTY: "3:another"}),), Untold),
        ((snapshot(5), snapshot(6)), Untold),  # the first id has expired
        ((snapshot(6), snapshot(7)), Untold),
        ((snapshot(4), snapshot(5, properties={BASE_PROPERTY: "4:another"})), Untold),
    ],
)
def test_an_intent_is_closed_only_where_both_ids_are_read_and_name_others(
    history: tuple[Snapshot, ...], fate: type[Any]
) -> None:
    assert isinstance(look_for(WINDOW, history[-1], published(*history)), fate)


def test_ids_below_earliest_prove_nothing() -> None:
    """An expiry is under way: another may have created such a name again."""
    timeline = published(snapshot(3), snapshot(4), snapshot(5), snapshot(6), snapshot(7))
    timeline.store.put("snapshot/EARLIEST", b"6")
    assert isinstance(look_for(WINDOW, timeline.latest(), timeline), Untold)


# ------------------------------------------------------------------------------------------------------------ cleaning


def test_orphan_cleaning_keeps_what_an_open_intent_names_and_the_intent_itself() -> None:
    """Once its last id is published, the intent and whatever no snapshot names are orphans."""
    table = opened()
    base = table.timeline.latest()
    table.append(ROWS)
    table.committer.settle()
    made = table.timeline.latest()
    assert base is not None
    assert made is not None
    (line,) = table.timeline.delta_manifests(made)
    commit = line.file_name[len("manifest-") : -len("-0")]
    data = table.timeline.entries_of(line)[0].file.file_name
    table.store.delete_many(["snapshot/snapshot-4"])  # as if it had lost its race
    table.store.put("snapshot/LATEST", b"3")
    table = ll.open_table(table.store.url)
    found = ref_of(base)
    assert found is not None
    waiting = Intent(commit, "job", None, found, 0, -1, 2, (line,))
    shelf.register(table.timeline, waiting)
    held = {f"lakelatch/intents/{waiting.file_name}", f"manifest/{line.file_name}", f"bucket-0/{data}"}

    def orphans() -> set[str]:
        plan = plan_orphans(table.timeline, table.schema, NEVER_MS)
        return {info.key for info in plan.files}

    assert not held & orphans()
    late = plan_orphans(table.timeline, table.schema, NEVER_MS)
    for _ in range(2):
        table.append(ROWS)
    table.committer.settle()
    assert held <= orphans()
    apply_clean(plan_orphans(table.timeline, table.schema, NEVER_MS))
    assert not held & {info.key for info in table.store.list("")}
    assert not held & {info.key for info in late.files}
    assert table.verify("all", data=True) == []


def test_an_intent_that_comes_while_orphans_are_deleted_keeps_its_files() -> None:
    """The cleaner looks again before it deletes."""
    table = opened()
    base = table.timeline.latest()
    assert base is not None
    found = ref_of(base)
    assert found is not None
    table.store.put("manifest/manifest-c1-0", table.store.get(f"manifest/{lines_of(table)[0].file_name}"))
    plan = plan_orphans(table.timeline, table.schema, NEVER_MS)
    assert "manifest/manifest-c1-0" in {info.key for info in plan.files}
    shelf.register(table.timeline, replace(intent(), base=found))
    apply_clean(plan)
    assert table.store.get("manifest/manifest-c1-0")


def test_an_open_intent_that_is_garbled_stops_the_cleaner() -> None:
    """The files that it needs are not known (H11)."""
    table = opened()
    table.store.put("lakelatch/intents/intent-4-c1.json", b"{")
    with pytest.raises(TableCorrupt, match=r"intent-4-c1\.json is not an intent"):
        plan_orphans(table.timeline, table.schema, NEVER_MS)


def test_the_intents_of_a_branch_go_with_it() -> None:
    """A branch that is made again begins at the same snapshot, and must not carry them."""
    table = opened()
    table.create_tag("here")
    table.create_branch("dev", tag="here")
    branch = table.branch("dev")
    base = branch.timeline.latest()
    found = ref_of(base)
    assert found is not None
    shelf.register(branch.timeline, replace(intent(), base=found))
    assert shelf.everywhere(table.timeline) == ("branch/branch-dev/lakelatch/intents/intent-4-c1.json",)
    (kept,) = shelf.all_open(table.store, shelf.everywhere(table.timeline), {"main": 9, "dev": 3})
    assert kept[1].base == found
    assert list(shelf.all_open(table.store, shelf.everywhere(table.timeline), {"main": 3, "dev": 5})) == []
    table.delete_branch("dev")
    assert shelf.everywhere(table.timeline) == ()
