"""Changes of tables with a primary key that Apache Paimon wrote: what each mode gives, filters, expired snapshots."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from golden_tables import unpack

import lakelatch as ll
from lakelatch.core.errors import InvalidArgument, TableCorrupt
from lakelatch.core.metadata.data_file import DataFile, ManifestEntry
from lakelatch.core.metadata.schemas.merge_rules import merge_rules
from lakelatch.core.rows.binary.binary_row import encode_row
from lakelatch.core.rows.types import AtomicType
from lakelatch.table.changelog.key_changes import differing_sections
from lakelatch.table.changelog.reading import plan_changes
from lakelatch.table.changelog.window import window_of


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("golden")
    opened: dict[str, ll.Table] = {}

    def table(name: str) -> ll.Table:
        if name not in opened:
            opened[name] = ll.open_table(str(unpack(f"paimon-java-1.4.2/{name}", folder).path))
        return opened[name]

    return table


def rows_of(found: pa.Table, keys: list[str]) -> dict[Any, str]:
    """Rows by key, as text."""
    names = [name for name in found.column_names if not name.startswith("_")]
    return {tuple(row[k] for k in keys): repr([row[n] for n in names]) for row in found.to_pylist()}


def applied(rows: dict[Any, str], changes: pa.Table, keys: list[str]) -> dict[Any, str]:
    """The rows after their changes, each of which must find the row that it replaces."""
    after = dict(rows)
    for row, kind in zip(changes.to_pylist(), changes["_row_kind"].to_pylist(), strict=True):
        key = tuple(row[k] for k in keys)
        text = repr([value for name, value in row.items() if not name.startswith("_")])
        if kind in ("-U", "-D"):
            assert after.pop(key) == text, f"{kind} of another row than {text}"
        else:
            assert key not in after, f"{kind} of a key that is there"
            after[key] = text
    return after


STATES = ["life_incremental_pk", "pk_changelog_none", "pk_changelog_full_compaction", "pk_dv", "pk_partitioned"]


@pytest.mark.parametrize("name", STATES)
def test_a_state_and_its_difference_give_the_other_state(tables: Any, name: str) -> None:
    """Any two snapshots, merged by key, with files that both share and with deletion vectors; nothing is reported twice."""
    table = tables(name)
    keys = list(table.schema.primary_keys)
    ids = [s.id for s in table.snapshots()]
    states = {0: {}} | {i: rows_of(table.at(snapshot=i).to_arrow(), keys) for i in ids}
    pairs = [(a, b) for a in [0, *ids[::3]] for b in (ids[1], ids[-1]) if a < b]
    assert len(pairs) > 2
    for start, end in pairs:
        changes = table.changes(start, end, mode="diff").read_all()
        assert applied(states[start], changes, keys) == states[end], f"{name} {start} to {end}"
        both = Counter(states[start].items()) - Counter(states[end].items())
        assert sum(kind in ("-U", "-D") for kind in changes["_row_kind"].to_pylist()) == both.total()
        later = table.changes(start, end, mode="diff", overwrites=False).read_all()
        assert set(later["_row_kind"].to_pylist()) <= {"+I"}
        assert set(rows_of(later, keys).items()) == states[end].items() - states[start].items()


def test_the_changelog_and_the_rows_as_written(tables: Any) -> None:
    """A table with a changelog also has the rows as they were written; one without a producer refuses to make an empty one."""
    table = tables("pk_changelog_full_compaction")
    auto, changelog = table.changes(0).read_all(), table.changes(0, mode="changelog").read_all()
    assert auto.equals(changelog) and set(auto["_row_kind"].to_pylist()) == {"+I", "-U", "+U", "-D"}
    delta = table.changes(0, mode="delta").read_all()
    assert set(delta["_row_kind"].to_pylist()) == {"+I", "-D"}
    kinds = {s.id: s.commit_kind for s in table.snapshots()}
    assert {kinds[i] for i in delta["_snapshot_id"].to_pylist()} == {"APPEND"}
    assert {kinds[i] for i in changelog["_snapshot_id"].to_pylist()} == {"COMPACT"}
    with pytest.raises(
        InvalidArgument, match=r"writes no changelog \(option 'changelog-producer' is none\).*mode 'delta'"
    ):
        tables("pk_changelog_none").changes(0, mode="changelog")
    with pytest.raises(InvalidArgument, match=r"mode 'log' does not exist.*auto, delta, changelog, diff"):
        table.changes(0, mode="log")


def test_filters_and_columns_choose_from_the_changes(tables: Any) -> None:
    """A filter is tested for each change; files are left out by what their rows hold, never a version that is compared."""
    table = tables("pk_changelog_full_compaction")
    last = max(s.id for s in table.snapshots())
    for mode in ("changelog", "delta", "diff"):
        whole = table.changes(1, last, mode=mode).read_all()
        for where in ("k = 2", "k > 5 AND n > 2002000000000", "v = 'v2003014'", "v IS NULL", "n < 0"):
            wanted = whole.filter(table_mask(whole, where))
            found = table.changes(1, last, mode=mode, where=where).read_all()
            assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, wanted.to_pylist())), (mode, where)
        some = table.changes(1, last, mode=mode, columns=["n", "k"]).read_all()
        assert some.equals(whole.select(["n", "k", "_row_kind", "_snapshot_id", "_commit_time"])), mode
        assert table.changes(1, last, mode=mode, columns=[]).read_all().num_rows == whole.num_rows


def table_mask(rows: pa.Table, where: str) -> Any:
    import duckdb

    found = duckdb.sql(f"SELECT coalesce({where}, false) AS m FROM rows").arrow().read_all()
    return found["m"].combine_chunks()


def test_changes_of_expired_snapshots_are_read_from_their_changelogs(tables: Any) -> None:
    """Snapshots 5 to 9 have expired; 10 to 12 are there. What is not there is refused with the first id that is."""
    table = tables("life_changelog_decoupled")
    assert [s.id for s in table.snapshots()] == [10, 11, 12]
    found = table.changes(6).read_all()
    assert sorted(set(found["_snapshot_id"].to_pylist())) == [7, 8, 9, 10, 12]
    assert table.changes(9).read_all()["_snapshot_id"].to_pylist() == [
        i for i in found["_snapshot_id"].to_pylist() if i > 9
    ]
    with pytest.raises(InvalidArgument, match=r"the oldest snapshot is 5, as a changelog.*start at 4 or later"):
        table.changes(3)
    with pytest.raises(InvalidArgument, match="there is no snapshot 7"):
        table.changes(7, 12, mode="diff")


def test_between_tags_a_mode_gives_the_snapshots_between(tables: Any) -> None:
    table = tables("life_incremental_pk")
    first, last = table.at(tag="ta").snapshot().id, table.at(tag="tb").snapshot().id
    assert table.changes("ta", "tb", mode="delta").read_all().equals(table.changes(first, last).read_all())
    assert set(table.changes("ta", "tb").read_all()["_row_kind"].to_pylist()) == {"+I", "-U", "+U"}


def test_a_kind_that_does_not_exist_is_damage(tables: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from lakelatch.table.changelog import reading

    monkeypatch.setattr(reading, "KINDS", reading.KINDS[:1])
    with pytest.raises(TableCorrupt, match="_VALUE_KIND"):
        tables("pk_changelog_none").changes(0).read_all()


def test_a_mode_for_a_table_without_a_key(tmp_path: Path) -> None:
    table = ll.create_table(str(tmp_path / "t"), pa.schema([("a", pa.int32())]))
    table.append(pa.table({"a": pa.array([1, 2], pa.int32())}))
    table.overwrite(pa.table({"a": pa.array([2, 3], pa.int32())}))
    with pytest.raises(InvalidArgument, match="mode 'changelog' needs a table with a primary key"):
        table.changes(0, mode="changelog")
    difference = table.changes(1, 2, mode="diff").read_all()
    assert sorted(zip(difference["a"].to_pylist(), difference["_row_kind"].to_pylist(), strict=True)) == [
        (1, "-D"),
        (3, "+I"),
    ]
    assert table.changes(0, 2, mode="diff").read_all()["a"].to_pylist() == [2, 3]


# ------------------------------------------------------------------------------------------------------------- sections


def entry(name: str, low: int, high: int, bucket: int = 0, total: int = 2) -> ManifestEntry:
    key = [AtomicType("INT")]
    file = DataFile(name, 10, 1, min_key=encode_row([low], key), max_key=encode_row([high], key), level=1)
    return ManifestEntry(0, b"", bucket, total, file)


def sections(
    tables: Any, old: list[ManifestEntry], new: list[ManifestEntry], *vectors: Any
) -> list[tuple[list[str], list[str]]]:
    rules = merge_rules(tables("pk_changelog_none").schema)
    assert rules is not None
    found = differing_sections(old, new, vectors or ({}, {}), rules)
    return [([e.file.file_name for e in gone], [e.file.file_name for e in came]) for gone, came in found]


def test_only_sections_with_a_file_that_differs_are_compared(tables: Any) -> None:
    """A file that both states have is merged with those that overlap it, on both sides; its neighbours are left out."""
    same, other, new = entry("same", 1, 9), entry("other", 20, 29), entry("new", 5, 12)
    assert sections(tables, [same, other], [same, other, new]) == [(["same"], ["same", "new"])]
    assert sections(tables, [same], [same]) == []
    assert sections(tables, [same, other], [other]) == [(["same"], [])]
    owner = (b"", 0, "same")
    assert sections(tables, [same, other], [same, other], {}, {owner: "vector"}) == [(["same"], ["same"])]


def test_buckets_are_compared_together_after_their_number_has_changed(tables: Any) -> None:
    """A key that was in one bucket may be in another then; with a fixed number it stays, so that buckets are compared alone."""
    old = [entry("a", 1, 9, 0), entry("b", 1, 9, 1)]
    assert sections(tables, old, [entry("c", 1, 9, 0), old[1]]) == [(["a"], ["c"])]
    rescaled = [entry("c", 1, 9, 3, 4)]
    assert sections(tables, old, rescaled) == [(["a", "b"], ["c"])]
    assert sections(tables, [entry("a", 1, 9, 0, -1)], [entry("b", 1, 9, 1, -1)]) == [(["a"], ["b"])]


# --------------------------------------------------------------------------------------------- tables that lakelatch writes

KEYED = pa.schema(
    [pa.field("p", pa.string(), nullable=False), pa.field("id", pa.int32(), nullable=False), ("v", pa.int64())]
)
SUMMED = {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}


def history(table: ll.Table, rng: random.Random, deletes: bool) -> None:
    """Upserts, deletes, overwrites and compactions of few keys."""

    def rows(count: int, parts: str = "ab") -> pa.Table:
        keys = sorted({(rng.choice(parts), rng.randint(0, 6)) for _ in range(count)})
        values = [rng.choice([1, 2, 3]) for _ in keys]
        return pa.table([[p for p, _ in keys], [i for _, i in keys], values], schema=KEYED)

    for _ in range(9):
        step = rng.choice(["upsert"] * 5 + ["delete", "overwrite", "compact", "full"])
        if step == "delete" and deletes:
            table.delete(rows(2).select(["p", "id"]))
        elif step == "overwrite":
            table.overwrite(rows(3, "a"), partition={"p": "a"})
        elif step in ("compact", "full"):
            table.compact(full=step == "full")
        else:
            table.upsert(rows(4))
    table.compact(full=True)


@pytest.mark.parametrize("engine", [{}, SUMMED], ids=["deduplicate", "aggregation"])
@pytest.mark.parametrize("producer", ["none", "input", "lookup", "full-compaction"])
def test_the_changes_of_any_history_give_its_states(producer: str, engine: dict[str, str]) -> None:
    """From the beginning: what the producer tells; between two snapshots: their difference, strictly one change per key."""
    options = {"bucket": "2", "changelog-producer": producer, "num-sorted-run.compaction-trigger": "3", **engine}
    rng = random.Random(f"{producer} {engine}")
    for number in range(2):
        url = f"memory://key-changes-{producer}-{len(engine)}-{number}/t"
        table = ll.create_table(url, KEYED, primary_key=["p", "id"], partition_by=["p"], options=options)
        history(table, rng, deletes=not engine)
        ids = [s.id for s in table.snapshots()]
        keys = list(table.schema.primary_keys)
        states = {i: rows_of(table.at(snapshot=i).to_arrow(), keys) for i in (ids[len(ids) // 2], ids[-1])}
        middle, last = states
        difference = table.changes(middle, last, mode="diff").read_all()
        assert applied(states[middle], difference, keys) == states[last]
        told = table.changes(0).read_all()
        if producer in ("lookup", "full-compaction"):
            assert applied({}, told, keys) == states[last]
        elif not engine:
            assert upserted(told, keys) == states[last]


def upserted(changes: pa.Table, keys: list[str]) -> dict[Any, str]:
    """The rows after changes that only say what was written."""
    rows: dict[Any, str] = {}
    for row, kind in zip(changes.to_pylist(), changes["_row_kind"].to_pylist(), strict=True):
        key = tuple(row[k] for k in keys)
        rows.pop(key, None)
        if kind in ("+I", "+U"):
            rows[key] = repr([value for name, value in row.items() if not name.startswith("_")])
    return rows


def test_large_states_are_compared_in_ranges_of_keys() -> None:
    """In memory for a few row groups the changes are the same, and each key is told of once."""
    options = {"bucket": "1", "file.block-size": "16 kb", "write-only": "true"}
    table = ll.create_table(
        "memory://key-changes-large/t", KEYED, primary_key=["p", "id"], partition_by=["p"], options=options
    )

    def upsert(keys: range, value: int) -> None:
        table.upsert(pa.table([["a"] * len(keys), keys, [value] * len(keys)], schema=KEYED))

    upsert(range(150_000), 1)
    upsert(range(500, 150_000, 500), 2)
    table.delete(pa.table({"p": ["a"] * 3, "id": pa.array([0, 75_000, 149_999], pa.int32())}))
    upsert(range(150_000, 150_010), 3)
    window = window_of(table.timeline, 1, 4, table.snapshot(), "diff")
    found = []
    for memory in (1 << 30, 1 << 18):
        steps, reader = plan_changes(table.timeline, window, table.schema, mode="diff", memory=memory)
        assert len(steps) == 1
        found.append(list(reader.batches(table.store, steps[0])))
    whole, parts = (pa.Table.from_batches(batches, schema=batches[0].schema) for batches in found)
    assert len(found[0]) == 2 and len(found[1]) > 4, "a batch of each side for each range"
    order = [("id", "ascending"), ("_row_kind", "ascending")]
    assert parts.sort_by(order).equals(whole.sort_by(order))
    assert Counter(whole["_row_kind"].to_pylist()) == {"-U": 298, "+U": 298, "-D": 3, "+I": 10}
