"""Older rows are looked up for files that are rewritten and those that only move; vectors are never replaced blindly (H12)."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from unit.table.compaction.test_compact import COUNTER, Interrupted
from unit.table.compaction.test_compact_keys import created, data_keys, levels, upsert, values

import lakelatch as ll
from lakelatch.core.errors import CommitConflict
from lakelatch.core.metadata.data_file import DELETE
from lakelatch.table.compaction import key_rewrite
from lakelatch.table.compaction.key_lookup import KeyLookup
from lakelatch.table.table import Table

VECTORS, LOOKUP = {"deletion_vectors__enabled": "true"}, {"changelog_producer": "lookup"}
OLD = {k: k for k in range(3000)}


def settled(**options: str) -> Table:
    """A table with many rows in the last level, in one partition."""
    table = created(**options)
    upsert(table, "a", OLD)
    table.compact(full=True)
    assert levels(table) == [(5, 3000, 0)]
    return table


def vectors(table: Table) -> dict[str, int | None]:
    snapshot = table.snapshot()
    assert snapshot is not None
    index = table.timeline.index_entries(snapshot)
    return {v.data_file: v.cardinality for e in index for v in e.file.deletion_vectors or ()}


def changes(table: Table) -> list[tuple[Any, ...]]:
    snapshot = table.snapshot()
    assert snapshot is not None
    told = table.changes(snapshot.id - 1, snapshot.id).read_all().to_pylist()
    return [(row["_row_kind"], row["k"], row["v"]) for row in told]


@pytest.mark.parametrize("options", [VECTORS, LOOKUP, VECTORS | LOOKUP], ids=["vectors", "lookup", "both"])
def test_a_file_that_moves_has_its_rows_looked_up(options: dict[str, str]) -> None:
    table = settled(**options)
    big = table.entries()[0].file
    small = upsert(table, "a", {7: 70, 9: 90, 5000: 1})
    table.compact()
    assert levels(table) == [(4, 3, 0), (5, 3000, 0)]
    assert small.file_name in {e.file.file_name for e in table.entries()}, "it has only moved"
    assert values(table) == {("a", k): v for k, v in (OLD | {7: 70, 9: 90, 5000: 1}).items()}
    assert vectors(table) == ({big.file_name: 2} if options != LOOKUP else {})
    if options != VECTORS:
        assert changes(table) == [("-U", 7, 7), ("+U", 7, 70), ("-U", 9, 9), ("+U", 9, 90), ("+I", 5000, 1)]
    upsert(table, "a", {7: 71}, deletes=(9, 10))
    table.compact()
    assert values(table) == {("a", k): v for k, v in (OLD | {7: 71, 5000: 1}).items() if k not in (9, 10)}
    if options != VECTORS:
        assert changes(table) == [("-U", 7, 70), ("+U", 7, 71), ("-D", 9, 90), ("-D", 10, 10)]
    table.compact(full=True)
    assert vectors(table) == {} and len(levels(table)) == 1 and table.verify("all", data=True) == []


def test_the_rows_of_a_file_that_moves_are_looked_up_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as the option of the table lets into memory."""
    table, looked_up = settled(**VECTORS, read__merge_memory="64 kb"), list[int]()
    moved = KeyLookup.moved
    monkeypatch.setattr(
        KeyLookup, "moved", lambda self, column: looked_up.append(len(column("k"))) or moved(self, column)
    )
    upsert(table, "a", {k: -k for k in range(1000, 3000)})
    table.compact()
    assert levels(table) == [(4, 2000, 0), (5, 3000, 0)]
    assert sum(looked_up) == 2000 and max(looked_up) < 1000
    assert values(table) == {("a", k): k if k < 1000 else -k for k in OLD}


def test_vectors_of_rewritten_files_go_and_others_stay() -> None:
    table = settled(**VECTORS)
    big = table.entries()[0].file.file_name
    for keys in (range(300), range(3), range(200, 500)):
        upsert(table, "a", dict.fromkeys(keys, 1))
        table.compact()
    assert levels(table) == [(4, 500, 0), (5, 3000, 0)], "the file of level 4 had a vector when it was rewritten"
    assert vectors(table) == {big: 500}
    assert values(table) == {("a", k): 1 if k < 500 else k for k in OLD}


def test_the_first_row_stays_wherever_it_is() -> None:
    table = settled(merge_engine="first-row", changelog_producer="lookup")
    upsert(table, "a", {7: 70, 5000: 1})
    table.compact()
    assert levels(table) == [(4, 1, 0), (5, 3000, 0)]
    assert values(table) == {("a", k): v for k, v in (OLD | {5000: 1}).items()}
    assert changes(table) == [("+I", 5000, 1)]


def test_first_rows_of_which_none_was_there_before() -> None:
    table = settled(merge_engine="first-row", changelog_producer="lookup")
    upsert(table, "a", {5000: 1, 5001: 2})
    table.compact()
    assert values(table) == {("a", k): v for k, v in (OLD | {5000: 1, 5001: 2}).items()}
    assert changes(table) == [("+I", 5000, 1), ("+I", 5001, 2)]


def test_where_no_row_is_new_a_compaction_looks_nothing_up() -> None:
    """A row that meets no other one stays as it is, whatever its function would make of it alone."""
    schema = pa.schema([pa.field("k", pa.int32(), nullable=False), ("v", pa.list_(pa.int32()))])
    function = {"fields.v.aggregate-function": "collect", "fields.v.distinct": "true"}
    options = {"bucket": "1", "write-only": "true", "merge-engine": "aggregation", "changelog-producer": "lookup"}
    url = f"memory://key-lookups-{next(COUNTER)}/t"
    table = ll.create_table(url, schema, primary_key=["k"], options=options | function)
    table.upsert(pa.table({"k": range(3000), "v": [[1, 1]] * 3000}, schema))
    table.compact(full=True)
    table.upsert(pa.table({"k": [7], "v": [[5]]}, schema))
    table.compact()
    assert sorted({entry.file.level for entry in table.entries()}) == [4, 5]
    table.compact(full=True)
    assert [entry.file.level for entry in table.entries()] == [5]
    found = ll.open_table(url).to_arrow(where="k IN (1, 7)").sort_by("k")
    assert found["v"].to_pylist() == [[1, 1], [1, 5]]


@pytest.mark.parametrize("options", [LOOKUP, {"changelog_producer": "full-compaction"}], ids=str)
def test_a_changelog_of_a_compaction_is_of_its_level(options: dict[str, str]) -> None:
    table = settled(
        **options, changelog_file__format="avro", changelog_file__prefix="log-", file_index__bitmap__columns="v"
    )
    upsert(table, "a", {7: 70})
    table.compact(full=True)
    assert changes(table) == [("-U", 7, 7), ("+U", 7, 70)]
    snapshot = table.snapshot()
    assert snapshot is not None and snapshot.changelog_manifest_list is not None
    (manifest,) = table.timeline.manifest_list(snapshot.changelog_manifest_list)
    (entry,) = table.timeline.entries_of(manifest)
    name = entry.file.file_name
    assert entry.file.level == 5 and name.startswith("log-") and name.endswith(".avro"), name
    assert entry.file.embedded_file_index is None, "a changelog is read whole"


def test_only_a_full_compaction_tells_of_changes_where_it_is_the_one_that_does() -> None:
    """It tells of them since the last full one, also of rows that another compaction has taken on their way."""
    table = settled(changelog_producer="full-compaction", compaction__force_up_level_0="true")
    upsert(table, "a", {7: 70, 9: 90})
    upsert(table, "a", {7: 71, 5000: 1})
    table.compact()
    snapshot = table.snapshot()
    assert snapshot is not None and snapshot.changelog_manifest_list is None
    assert levels(table) == [(4, 3, 0), (5, 3000, 0)]
    table.compact(full=True)
    assert changes(table) == [("-U", 7, 7), ("+U", 7, 71), ("-U", 9, 9), ("+U", 9, 90), ("+I", 5000, 1)]
    assert values(table) == {("a", k): v for k, v in (OLD | {7: 71, 9: 90, 5000: 1}).items()}


def test_a_compaction_does_not_replace_vectors_that_it_has_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another one of the same bucket lands while this one runs: its marks stay, and the rows of both are there."""
    table = settled(**VECTORS)
    upsert(table, "a", {1: 10})
    table.compact()
    upsert(table, "a", {2: 20})
    other = Table(table.store, table.schema)
    write = key_rewrite.KeyRewriter.rewrite

    def after_the_other(self: Any, group: Any, name: str) -> Any:
        monkeypatch.setattr(key_rewrite.KeyRewriter, "rewrite", write)
        made = write(self, group, name)
        other.compact()
        return made

    monkeypatch.setattr(key_rewrite.KeyRewriter, "rewrite", after_the_other)
    done = table.compact()
    assert not done.receipts and len(done.given_up) == 1
    assert values(table) == {("a", k): v for k, v in (OLD | {1: 10, 2: 20}).items()}
    assert sum(count or 0 for count in vectors(table).values()) == 2
    assert table.verify("all", data=True) == []


def test_what_a_failed_compaction_wrote_is_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    table = settled(**VECTORS | LOOKUP)
    upsert(table, "a", {7: 70}, deletes=(9,))
    before = {info.key for info in table.store.list("")}

    def conflict(*args: Any) -> Any:
        error = CommitConflict("another commit came first")
        error.sent = False
        raise error

    monkeypatch.setattr(table.committer, "commit", conflict)
    compaction = table.compact()
    assert len(compaction.given_up) == 1 and not compaction.receipts
    assert {info.key for info in table.store.list("")} == before


def test_a_bucket_that_others_compacted_first_is_given_up_and_the_marks_of_the_others_land() -> None:
    """All buckets were one commit; those that are left are committed with their own new index files, and nothing more stays."""
    table = created(**VECTORS | LOOKUP)
    for part in "abc":
        upsert(table, part, OLD)
    table.compact(full=True)
    for part in "abc":
        upsert(table, part, {7: 70})
    assert isinstance(table.store, Interrupted)
    other = Table(table.store, table.schema)
    table.store.before_create = [lambda: other.compact("part = 'b'")]
    done = table.compact()
    assert len(done.receipts) == 1 and [group.partition for group in done.given_up] == ["part=b"]
    assert values(table) == {(part, k): v for part in "abc" for k, v in (OLD | {7: 70}).items()}
    assert (
        vectors(table) == {e.file.file_name: 1 for e in table.entries() if e.file.level == 5}
        and len(vectors(table)) == 3
    )
    snapshot = table.snapshot()
    assert snapshot is not None
    indexes = {entry.file.file_name for entry in table.timeline.index_entries(snapshot)}
    assert {info.key.rpartition("/")[2] for info in table.store.list("index/")} == indexes
    logs = [key for key in data_keys(table) if "changelog-" in key]
    assert [sum(key.startswith(f"part={part}/") for key in logs) for part in "abc"] == [2, 2, 2]
    assert table.verify("all", data=True) == []


def test_the_index_file_that_was_read_is_named_when_it_is_replaced() -> None:
    table = settled(**VECTORS)
    requests: list[Any] = []
    commit = table.committer.commit
    table.committer.commit = lambda request: requests.append(request) or commit(request)  # type: ignore[method-assign]
    for number in (1, 2):
        upsert(table, "a", {number: 10})
        table.compact()
    compactions = [r.index_entries for r in requests if r.kind == "COMPACT"]
    assert [[e.kind for e in entries] for entries in compactions] == [[0], [DELETE, 0]]
    assert compactions[1][0].file.file_name == compactions[0][0].file.file_name


def test_older_rows_of_older_schemas_are_compared_as_the_newest_schema_reads_them(tmp_path: Path) -> None:
    """Columns were renamed, added and widened, and the file format is another one; lists are compared by their values."""
    keys = [pa.field("d", pa.date32(), nullable=False), pa.field("n", pa.decimal128(12, 2), nullable=False)]
    old = pa.schema([*keys, pa.field("v", pa.int32()), pa.field("l", pa.list_(pa.int32()))])
    once = {"changelog-producer": "lookup", "changelog-producer.row-deduplicate": "true", "file.format": "orc"}
    options = {"bucket": "1", "deletion-vectors.enabled": "true", **once}
    url = str(tmp_path / "t")
    table = ll.create_table(url, old, primary_key=["d", "n"], partition_by=["d"], options=options)
    day = date(2020, 1, 1)
    rows = [{"d": day, "n": Decimal(i) / 4, "v": i, "l": [i]} for i in range(400)]
    table.upsert(pa.Table.from_pylist(rows, schema=old))
    table.alter(ll.rename_column("v", "w"), ll.add_column("x", "STRING"), ll.set_option("file.format", "parquet"))
    table.alter(ll.update_type("w", "BIGINT"))
    new = pa.schema([*keys, pa.field("w", pa.int64()), old.field("l"), pa.field("x", pa.string())])
    same = [{"d": day, "n": row["n"], "w": row["v"], "l": row["l"], "x": None} for row in rows[:5]]
    large, longer = ({**same[i], "n": Decimal(7 + i) / 4, "w": 7 + i, "l": [7 + i]} for i in range(2))
    table = ll.open_table(url)
    table.upsert(pa.Table.from_pylist([*same, {**large, "w": 1 << 40}, {**longer, "l": [8, 9]}], schema=new))
    told = table.changes(3, 4).read_all().to_pylist()
    assert [(row["_row_kind"], row["w"], row["l"], row["x"]) for row in told] == [
        ("-U", 7, [7], None),
        ("+U", 1 << 40, [7], None),
        ("-U", 8, [8], None),
        ("+U", 8, [8, 9], None),
    ]
    assert table.count() == 400 and table.verify("all", data=True) == []
