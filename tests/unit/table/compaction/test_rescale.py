"""Partitions are rewritten into another number of buckets; no row is lost or doubled, whatever other writers do meanwhile."""

from __future__ import annotations

import itertools

import pytest
from unit.table.compaction.test_compact_keys import again, batch, created, levels, upsert, values

import lakelatch as ll
from lakelatch.core.errors import CommitConflict, InvalidArgument, StoreUnavailable, Unsupported
from lakelatch.core.metadata.data_file import SOURCE_COMPACT
from lakelatch.core.metadata.schema import new_schema
from lakelatch.core.metadata.snapshot import OPERATIONS
from lakelatch.core.places import codec_of
from lakelatch.table.compaction import rescale as rescaling
from lakelatch.table.compaction.plan import chosen_partitions
from lakelatch.table.table import Table

LATE = (1 << 63) - 1000
"""A sequence number above those that the clock gives."""


def buckets(table: Table) -> dict[int, set[int]]:
    """The buckets with files, by bucket count."""
    found: dict[int, set[int]] = {}
    for entry in table.entries():
        found.setdefault(entry.total_buckets, set()).add(entry.bucket)
    return found


def filled(**options: str) -> Table:
    table = created(**options)
    for part in ("a", "b"):
        table.upsert(batch(part, {k: k for k in range(50)}))
        table.upsert(batch(part, {k: -k for k in range(0, 50, 3)}))
    table.delete(keys=batch("a", {1: None, 3: None}).select(["part", "k"]))
    return table


def test_every_partition_has_the_new_number_of_buckets() -> None:
    table = filled()
    before = values(table)
    table.alter(ll.set_option("bucket", "4"))
    with pytest.raises(CommitConflict, match="another_bucket_count"):
        table.upsert(batch("a", {1: 1}))
    receipts = table.rescale()
    assert [receipt.kind for receipt in receipts] == ["OVERWRITE"] * 2
    assert buckets(table) == {4: {0, 1, 2, 3}} and values(table) == before
    assert {level for level, _, _ in levels(table)} == {5}
    table.upsert(batch("a", {1: 1}))
    assert values(table) == before | {("a", 1): 1}
    assert table.to_arrow(where="part = 'a' and k = 2").num_rows == 1
    table.alter(ll.set_option("bucket", "3"))
    assert len(table.rescale("part = 'a'")) == 1
    assert buckets(table) == {3: {0, 1, 2}, 4: {0, 1, 2, 3}}
    assert len(table.rescale()) == 1 and table.rescale() == []
    assert {s.operation for s in table.snapshots()} <= set(OPERATIONS), "decision 87"
    assert buckets(table) == {3: {0, 1, 2}} and values(table) == before | {("a", 1): 1}
    assert table.verify("all", data=True) == []


def planned(table: Table, where: str | None = None) -> rescaling.RescalePlan:
    return rescaling.plan_rescale(table.committer, table.timeline, table.schema, chosen_partitions(where, table.schema))


def test_a_plan_names_the_partitions_and_what_is_in_them() -> None:
    table = filled(bucket="2")
    assert str(planned(table)) == "nothing to rescale: no partition has another number of buckets than 2"
    table.alter(ll.set_option("bucket", "4"))
    before = table.snapshot().id
    plan = planned(table)
    places = {part: codec_of(table.schema).encode((part,)) for part in ("a", "b")}
    sizes = {part: [e.file for e in table.entries() if e.partition == place] for part, place in places.items()}
    assert plan.to_dict() == {
        "buckets": 4,
        "partitions": [
            {
                "partition": f"part={part}",
                "buckets_before": 2,
                "files": len(files),
                "row_count": sum(file.row_count for file in files),
                "size": sum(file.file_size for file in files),
            }
            for part, files in sizes.items()
        ],
    }
    total = sum(entry.file.file_size for entry in table.entries())
    assert str(plan) == f"{len(table.entries())} files of 2 partitions, {total} bytes, go to 4 buckets each"
    assert [split.partition_path for split in planned(table, "part = 'b'").partitions] == ["part=b"]
    assert table.snapshot().id == before
    assert planned(created()).partitions == (), "a table without any snapshot"


def test_it_tells_how_far_it_has_come_and_commits_as_one_job() -> None:
    table, told = filled(), list[tuple[int, int]]()
    table.alter(ll.set_option("bucket", "4"))
    receipts = table.rescale(progress=lambda done, total: told.append((done, total)))
    assert told == [(1, 2), (2, 2)]
    assert len({receipt.commit_user for receipt in receipts}) == 1
    files = [entry.file for entry in table.entries()]
    assert {(file.level, file.delete_row_count, file.file_source) for file in files} == {(5, 0, SOURCE_COMPACT)}


@pytest.mark.parametrize("part", ["a", "b"])
def test_only_the_partitions_that_are_chosen_are_rewritten(part: str) -> None:
    table = filled()
    before = values(table)
    table.alter(ll.set_option("bucket", "4"))
    assert len(table.rescale(f"part = '{part}'")) == 1
    totals = {entry.partition: entry.total_buckets for entry in table.entries()}
    assert totals == {codec_of(table.schema).encode((each,)): 4 if each == part else 1 for each in ("a", "b")}
    assert values(table) == before


def test_another_job_may_do_it_first() -> None:
    table = filled()
    before, other = values(table), again(table)
    table.alter(ll.set_option("bucket", "4"))
    other = again(table)
    table.store.before_create.append(lambda: other.rescale())
    assert table.rescale() == []
    assert values(table) == before and buckets(table) == {4: {0, 1, 2, 3}}
    assert table.verify("all", data=True) == []


@pytest.mark.parametrize("first", ["2", "1"])
def test_rows_that_are_marked_as_deleted_stay_deleted(first: str) -> None:
    """Also if only one of the buckets has such rows."""
    table = created(bucket=first, deletion_vectors__enabled="true")
    table.upsert(batch("a", {k: k for k in range(2000)}))
    table.compact(full=True)
    table.upsert(batch("a", {7: 70}))
    table.compact()
    snapshot = table.snapshot()
    assert snapshot is not None and len(table.timeline.index_entries(snapshot)) == 1
    table.alter(ll.set_option("bucket", "3"))
    table.rescale()
    assert values(table) == {("a", k): 70 if k == 7 else k for k in range(2000)}
    assert table.verify("all", data=True) == []


def test_files_of_an_older_schema_are_rescaled_with_the_others() -> None:
    table = filled(bucket="2")
    table.alter(ll.rename_column("v", "w"), ll.set_option("bucket", "4"))
    before = {(r["part"], r["k"]): r["w"] for r in table.refresh().to_arrow().to_pylist()}
    assert len(table.rescale()) == 2
    assert {(r["part"], r["k"]): r["w"] for r in table.to_arrow().to_pylist()} == before
    assert table.verify("all", data=True) == []


def test_what_a_failed_rescale_wrote_is_deleted() -> None:
    table = filled()
    table.alter(ll.set_option("bucket", "4"))
    before = {info.key for info in table.store.list("") if "bucket-" in info.key}

    def refuse() -> None:
        raise StoreUnavailable("503")

    table.store.before_create.append(refuse)
    with pytest.raises(StoreUnavailable):
        table.rescale()
    assert {info.key for info in table.store.list("") if "bucket-" in info.key} == before
    assert len(table.rescale()) == 2


def test_new_files_lie_where_the_table_has_its_data() -> None:
    table = created(data_file__path_directory="data", data_file__prefix="mine-")
    table.upsert(batch("a", {k: k for k in range(50)}))
    table.alter(ll.set_option("bucket", "2"))
    table.rescale()
    keys = {info.key for info in table.store.list("") if info.key.endswith(".parquet")}
    assert all(key.startswith("data/part=a/bucket-") and "/mine-" in key for key in keys)
    assert len({e.file.file_name for e in table.entries()}) == 2
    assert table.count() == 50


def test_rows_keep_their_sequence_numbers() -> None:
    """An older row that comes late, or a newer one, counts as it would have before."""
    table = created()
    upsert(table, "a", {1: 1, 2: 2}, number=1 << 60)
    table.alter(ll.set_option("bucket", "2"))
    table.rescale()
    assert {e.file.max_sequence_number for e in table.entries()} <= {1 << 60, (1 << 60) + 1}


def test_rows_that_readers_do_not_see_yet_are_kept() -> None:
    table = created(merge_engine="first-row", bucket="1")
    upsert(table, "a", {1: 1, 2: 2})
    assert values(table) == {}
    table.alter(ll.set_option("bucket", "2"))
    table.rescale()
    assert values(table) == {("a", 1): 1, ("a", 2): 2}


def test_an_upsert_meanwhile_is_a_conflict_after_which_the_partition_is_read_again() -> None:
    table = filled()
    other = again(table)  # a job that began before the option was changed
    table.alter(ll.set_option("bucket", "4"))
    table.store.before_create.append(lambda: upsert(other, "a", {1: 77}, number=LATE))
    assert len(table.rescale()) == 2
    assert values(table)["a", 1] == 77 and buckets(table) == {4: {0, 1, 2, 3}}
    assert table.verify("all", data=True) == []


def test_a_compaction_meanwhile_does_not_stop_it_and_gives_up_if_it_comes_later() -> None:
    table = filled()
    before, other = values(table), again(table)
    table.alter(ll.set_option("bucket", "4"))
    table.store.before_create.append(lambda: other.compact("part = 'a'", full=True))
    assert len(table.rescale("part = 'a'")) == 1
    table.store.before_create.append(lambda: table.rescale())
    assert [given.partition for given in other.compact(full=True).given_up] == ["part=b"]
    assert values(table) == before and buckets(table) == {4: {0, 1, 2, 3}}


def test_it_ends_with_the_conflict_if_others_never_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rescaling, "MOST_ATTEMPTS", 2)
    table, later = filled(), itertools.count(LATE)
    other = again(table)  # a job that began before the option was changed
    table.alter(ll.set_option("bucket", "4"))
    table.store.before_create += [lambda: upsert(other, "a", {1: 77}, number=next(later)), lambda: None] * 2
    with pytest.raises(CommitConflict, match="read 2 times"):
        table.rescale("part = 'a'")


def test_what_has_no_fixed_buckets_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="'bucket' = -1"):
        created(bucket="-1").rescale()
    table = created()
    plain = Table(table.store, new_schema(table.schema.fields, options={"bucket": "2", "bucket-key": "k"}))
    plain.timeline.store.put("schema/schema-0", plain.schema.to_json())
    with pytest.raises(Unsupported, match="without a primary key"):
        plain.rescale()
    with pytest.raises(InvalidArgument, match="chooses rows"):
        created().rescale("k = 1")
