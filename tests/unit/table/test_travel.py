"""Time travel by id, by tag and by time, and the errors if there is no such snapshot."""

from __future__ import annotations

import datetime as dt
import itertools
from dataclasses import replace
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakelatch.backends.around.metered import MeteredStore
from lakelatch.backends.memory import MemoryStore
from lakelatch.coordinator.history.timeline import Timeline
from lakelatch.core.errors import InvalidArgument, TableCorrupt
from lakelatch.core.metadata.schema import new_schema
from lakelatch.core.metadata.snapshot import Snapshot
from lakelatch.core.paths import TablePaths
from lakelatch.core.rows.types import AtomicType, Field
from lakelatch.table.travel import SKEW_MS, epoch_millis, schema_at, snapshot_at, tag_names

COUNTER = itertools.count()


def timeline(times_ms: dict[int, int], tags: dict[str, int] | None = None) -> Timeline:
    """A table whose snapshots (id: time) and tags (name: id) are there, and nothing else."""
    store = MeteredStore(MemoryStore(f"memory://travel-{next(COUNTER)}"))
    for snapshot_id, time_ms in times_ms.items():
        store.put(f"snapshot/snapshot-{snapshot_id}", snapshot(snapshot_id, time_ms).to_json())
    for name, snapshot_id in (tags or {}).items():
        store.put(f"tag/tag-{name}", snapshot(snapshot_id, 0).to_json())
    return Timeline(store, TablePaths())


def snapshot(snapshot_id: int, time_ms: int) -> Snapshot:
    return Snapshot(snapshot_id, 0, f"base-{snapshot_id}", "delta", "me", snapshot_id, "APPEND", time_ms, 0, 0)


# ----------------------------------------------------------------------------------------------------------------- ids


def test_a_look_up_by_id_reads_one_file() -> None:
    """An existing snapshot takes one request."""
    there = timeline({1: 10, 2: 20})
    assert snapshot_at(there, snapshot=2).id == 2
    assert there.store.snapshot().by_operation["get"] == 1


@pytest.mark.parametrize("snapshot_id", [0, -1, 2, 9])
def test_an_id_outside_the_range_is_refused_with_the_range(snapshot_id: int) -> None:
    """The error for an unknown snapshot lists those that exist."""
    with pytest.raises(InvalidArgument, match="there are snapshots 3 to 5"):
        snapshot_at(timeline({3: 1, 4: 2, 5: 3}), snapshot=snapshot_id)
    with pytest.raises(InvalidArgument, match="no snapshot yet"):
        snapshot_at(timeline({}), snapshot=snapshot_id)


def test_a_gap_is_damage() -> None:
    """G6: ids are contiguous; one that is missing between others was lost."""
    with pytest.raises(TableCorrupt, match=r"snapshot/snapshot-2 is missing"):
        snapshot_at(timeline({1: 1, 3: 3}), snapshot=2)


@pytest.mark.parametrize("given", [{}, {"snapshot": 1, "tag": "a"}, {"snapshot": True}, {"snapshot": "1"}])
def test_only_one_of_the_arguments_may_be_given(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        snapshot_at(timeline({1: 1}), **given)


# ---------------------------------------------------------------------------------------------------------------- tags


def test_tags_outlive_their_snapshots() -> None:
    """A tag is the snapshot itself: it is found when the snapshot has expired."""
    there = timeline({7: 1}, {"eod": 3, "2024-01-01 02": 4})
    assert snapshot_at(there, tag="eod").id == 3
    assert tag_names(there) == ["2024-01-01 02", "eod"]
    with pytest.raises(InvalidArgument, match="tags are: 2024-01-01 02, eod"):
        snapshot_at(there, tag="nope")


@pytest.mark.parametrize("tag", ["../snapshot/snapshot-7", "a/b", "..", "", " ", "a\\b", "a\0"])
def test_hostile_tag_names_are_refused_without_a_request(tag: str) -> None:
    """H16: no request is sent for a name that is not a file name."""
    there = timeline({7: 1})
    with pytest.raises(InvalidArgument):
        snapshot_at(there, tag=tag)
    assert there.store.snapshot().by_operation.get("get", 0) == 0


# ---------------------------------------------------------------------------------------------------------------- time


@settings(max_examples=200, deadline=None)
@given(
    steps=st.lists(st.integers(0, 4 * SKEW_MS), min_size=1, max_size=40),
    data=st.data(),
)
def test_the_newest_snapshot_not_after_a_time(steps: list[int], data: st.DataObject) -> None:
    """The result is that of reading every snapshot, although clocks differ by up to `SKEW_MS`."""
    clean = list(itertools.accumulate(steps))
    times = {i: t - data.draw(st.integers(0, SKEW_MS)) for i, t in enumerate(clean, start=5)}
    moment = data.draw(st.sampled_from([*times.values(), *(t - 1 for t in times.values()), max(times.values()) + 1]))
    wanted = [i for i, t in times.items() if t <= moment]
    there = timeline(times)
    if wanted:
        assert snapshot_at(there, timestamp=moment).id == max(wanted)
    else:
        with pytest.raises(InvalidArgument, match="the earliest is snapshot 5"):
            snapshot_at(there, timestamp=moment)


def test_time_travel_reads_few_snapshots() -> None:
    """A binary search does not read a thousand snapshots to find one."""
    there = timeline({i: i * 1_000_000 for i in range(1, 1001)})
    assert snapshot_at(there, timestamp=700_500_000).id == 700
    assert there.store.snapshot().by_operation["get"] <= 10 + 8


def test_snapshots_that_expire_meanwhile_are_not_an_error() -> None:
    """Snapshots that expire after they were listed were the oldest, so the result is one of the others."""
    there = timeline({i: i * 1_000_000 for i in range(1, 9)})
    listed = there.snapshot_ids()
    there.store.delete_many([f"snapshot/snapshot-{i}" for i in range(1, 5)])
    there.snapshot_ids = lambda: listed
    assert snapshot_at(there, timestamp=6_500_000).id == 6
    with pytest.raises(InvalidArgument, match="earliest is snapshot 5"):
        snapshot_at(there, timestamp=2_500_000)


@pytest.mark.parametrize(
    ("moment", "millis"),
    [
        (1_700_000_000_123, 1_700_000_000_123),
        ("1970-01-01T00:00Z", 0),
        ("1970-01-01 00:00:01.5+00:00", 1500),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1969-12-31T23:59:59.9999Z", -1),
        (dt.datetime(1970, 1, 2, tzinfo=dt.timezone.utc), 86_400_000),
        (dt.datetime(1970, 1, 1, 2, tzinfo=dt.timezone(dt.timedelta(hours=2))), 0),
    ],
)
def test_forms_of_a_time(moment: Any, millis: int) -> None:
    assert epoch_millis(moment) == millis


@pytest.mark.parametrize(
    "moment", ["2024-01-01", "2024-01-01T00:00", dt.datetime(2024, 1, 1), "yesterday Z", True, 1.5]
)
def test_a_time_without_a_zone_is_refused(moment: Any) -> None:
    """A guess at the zone could be off by hours, silently."""
    with pytest.raises(InvalidArgument):
        epoch_millis(moment)
    with pytest.raises(InvalidArgument, match=r"timestamp: '2024-01-01' has no zone.*'2024-01-01 00:00:00Z' for UTC"):
        epoch_millis("2024-01-01")


def test_a_time_of_a_zone_that_the_caller_names() -> None:
    assert epoch_millis("1970-01-01", zone=ZoneInfo("America/New_York")) == 5 * 3_600_000


# -------------------------------------------------------------------------------------------------------------- schema


def test_old_columns_are_read_with_today_s_options() -> None:
    """Options say how a table is read now, also where its columns are those of an old snapshot."""
    there = timeline({1: 1})
    old = new_schema([Field(0, "a", AtomicType("INT"))], options={"source.split.target-size": "1 mb"})
    there.store.put("schema/schema-0", old.to_json())
    latest = new_schema([Field(1, "b", AtomicType("INT"))], options={"source.split.target-size": "2 mb"})
    found = schema_at(there, snapshot_at(there, snapshot=1), latest)
    assert (found.names, found.option_texts) == (("a",), {"source.split.target-size": "2 mb"})


# ---------------------------------------------------------------------------------------------------------- watermarks


def marked(watermarks: dict[int, int | None]) -> Timeline:
    """A table whose snapshots (id: watermark) are there, and nothing else."""
    there = timeline({})
    for snapshot_id, watermark in watermarks.items():
        marked = replace(snapshot(snapshot_id, 0), watermark=watermark)
        there.store.put(f"snapshot/snapshot-{snapshot_id}", marked.to_json())
    return there


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 9), max_size=6), st.integers(0, 3), st.integers(-1, 10))
def test_a_watermark_chooses_the_oldest_snapshot_that_has_reached_it(
    reached: list[int], without: int, asked: int
) -> None:
    """Apache Paimon's rule: the first snapshots may have none, and it never goes back."""
    values = [None] * without + sorted(reached)
    there = marked({i + 3: value for i, value in enumerate(values)})
    wanted = next((i + 3 for i, value in enumerate(values) if value is not None and value >= asked), None)
    if wanted is not None:
        assert snapshot_at(there, watermark=asked).id == wanted
        return
    told = r"the newest watermark is 1970-01-01T00:00:00\.00\dZ" if reached else "no snapshot has a watermark"
    with pytest.raises(InvalidArgument, match=f"no snapshot has reached the watermark 1.*{told}"):
        snapshot_at(there, watermark=asked)


def test_a_watermark_is_a_time_and_found_with_few_requests() -> None:
    there = marked({i: i * 1000 for i in range(1, 200)})
    assert snapshot_at(there, watermark="1970-01-01T00:01:40.500Z").id == 101
    assert there.store.snapshot().by_operation["get"] <= 9
    with pytest.raises(InvalidArgument, match=r"watermark.*'1970-01-01' has no zone"):
        snapshot_at(there, watermark="1970-01-01")
    with pytest.raises(InvalidArgument, match="exactly one of snapshot, tag, timestamp and watermark"):
        snapshot_at(there, watermark=5, tag="eod")
    with pytest.raises(InvalidArgument, match="no snapshot has a watermark"):
        snapshot_at(marked({1: -(1 << 63)}), watermark=5)


def test_a_watermark_finds_a_tag_where_its_snapshot_has_expired() -> None:
    """As Apache Paimon's `create_tag_from_watermark` does: otherwise the answer would be a much later state."""
    there = marked({9: 90, 10: 100})
    for tagged, watermark in ((2, None), (3, 30), (5, 50), (7, 50), (9, 90)):
        data = replace(snapshot(tagged, 0), watermark=watermark).to_json()
        there.store.put(f"tag/tag-of-{tagged}", data)
    found = {asked: snapshot_at(there, watermark=asked).id for asked in (1, 30, 31, 50, 51, 90, 91)}
    assert found == {1: 3, 30: 3, 31: 5, 50: 5, 51: 9, 90: 9, 91: 10}
    with pytest.raises(InvalidArgument, match="the newest watermark is"):
        snapshot_at(there, watermark=101)
    before = there.store.snapshot().by_operation["get"]
    assert snapshot_at(there, watermark=95).id == 10
    assert there.store.snapshot().by_operation["get"] - before <= 2, "tags are not asked where snapshots say it"
