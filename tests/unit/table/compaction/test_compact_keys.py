"""Compaction of tables with a primary key: runs become fewer, whatever other writers do meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from unit.table.compaction.test_compact import COUNTER, Interrupted, again, data_keys, named

from lakelatch.backends.around.metered import MeteredStore
from lakelatch.cli.inspect.doctor import examine
from lakelatch.coordinator.commit.message import CommitMessage, entries_of
from lakelatch.coordinator.commit.request import CommitRequest
from lakelatch.core import options as opt
from lakelatch.core.errors import InvalidArgument, TableCorrupt, Unsupported
from lakelatch.core.metadata.data_file import SOURCE_COMPACT, DataFile
from lakelatch.core.metadata.schema import new_schema
from lakelatch.core.metadata.schemas.merge_rules import POSTPONED
from lakelatch.core.metadata.sorted_runs.levels import run_count
from lakelatch.core.places import codec_of
from lakelatch.core.rows.arrow import from_arrow_schema
from lakelatch.table.compaction.plan import plan_compaction
from lakelatch.table.compaction.run import rewriter_of, rewritten_here, run_compaction
from lakelatch.table.table import Table
from lakelatch.table.verify.runs import crowded_buckets
from lakelatch.table.writing.files.key_files import KeyFileWriter, arrow_rows

FIELDS = from_arrow_schema(
    pa.schema(
        [
            pa.field("part", pa.string(), nullable=False),
            pa.field("k", pa.int32(), nullable=False),
            pa.field("v", pa.int64()),
        ]
    )
)
ADD, DELETE = 0, 3
Rows = dict[int, int | None]


def created(**options: str) -> Table:
    store = Interrupted(f"memory://compact-keys-{__name__}-{next(COUNTER)}/t")
    texts = {"bucket": "1", "write-only": "true"} | {
        k.replace("__", ".").replace("_", "-"): v for k, v in options.items()
    }
    schema = new_schema(FIELDS, partition_keys=["part"], primary_keys=["part", "k"], options=texts)
    store.put("schema/schema-0", schema.to_json())
    return Table(store, schema)


def upsert(
    table: Table, part: str, values: Rows, deletes: tuple[int, ...] = (), number: int | None = None, row_count: int = 0
) -> DataFile:
    """One file of level 0, or of postponed rows. Its rows have sequence numbers above all others."""
    schema, partition = table.schema, codec_of(table.schema).encode((part,))
    keys = sorted({*values, *deletes})
    first = next(COUNTER) * 100_000 if number is None else number
    batch = pa.record_batch(
        [
            pa.array(range(first, first + len(keys)), pa.int64()),
            pa.array([DELETE if k in deletes else ADD for k in keys], pa.int8()),
            pa.array([part] * len(keys)),
            pa.array(keys, pa.int32()),
            pa.array([values.get(k) for k in keys], pa.int64()),
        ],
        schema=arrow_rows(schema),
    )
    bucket = POSTPONED if schema.bucket == POSTPONED else 0
    folder = table.paths.bucket_dir(f"part={part}", bucket)
    writer = KeyFileWriter(table.store, schema, folder, f"data-{next(COUNTER)}")
    writer.write(batch)
    writer.finish()
    files = tuple(file._replace(row_count=row_count or file.row_count) for file in writer.files)
    message = CommitMessage(partition, bucket, POSTPONED if bucket else 1, new_files=files)
    table.committer.commit(CommitRequest(kind="APPEND", entries=entries_of([message]), commit_user="job"))
    return writer.files[0]


def values(table: Table) -> dict[tuple[str, int], Any]:
    return {(row["part"], row["k"]): row["v"] for row in table.to_arrow().to_pylist()}


def levels(table: Table, part: str | None = None) -> list[tuple[int, int, int | None]]:
    """Level, rows and deletes of each file."""
    wanted = None if part is None else codec_of(table.schema).encode((part,))
    files = [e.file for e in table.entries() if wanted in (None, e.partition)]
    return sorted((f.level, f.row_count, f.delete_row_count) for f in files)


@pytest.fixture
def table() -> Iterator[Table]:
    made = created()
    yield made
    assert made.verify("all", data=True) == []


def test_a_full_compaction_leaves_one_run_without_deletes(table: Table) -> None:
    upsert(table, "a", {1: 10, 2: 20, 3: 30})
    upsert(table, "a", {2: 21}, deletes=(3, 9))
    upsert(table, "b", {5: 50})
    before = values(table)
    planned = table.compact(full=True, dry_run=True)
    assert str(planned).startswith("3 of 3 files in 2 buckets, 7 rows in ") and table.snapshot().id == 3
    done = table.compact(full=True)
    assert (done.files_before, done.files_after, len(done.receipts)) == (3, 2, 1)
    assert values(table) == before == {("a", 1): 10, ("a", 2): 21, ("b", 5): 50}
    assert levels(table, "a") == [(5, 2, 0)]
    made = next(e.file for e in table.entries() if e.file.row_count == 2)
    assert made.file_source == SOURCE_COMPACT
    assert table.snapshot().commit_kind == "COMPACT"
    assert str(table.compact(full=True)) == "nothing to compact: 2 files"


def test_a_compacted_file_has_the_form_of_its_level() -> None:
    """What options say of a level holds for files that a compaction puts there too."""
    made = created(file__format__per__level="5:orc", metadata__stats_mode__per__level="5:none")
    upsert(made, "a", {1: 10})
    upsert(made, "a", {1: 11, 2: 20})
    made.compact(full=True)
    (file,) = [entry.file for entry in made.entries()]
    assert (file.level, file.file_name.rpartition(".")[2]) == (5, "orc")
    assert values(made) == {("a", 1): 11, ("a", 2): 20}


def test_nulls_in_a_column_that_has_become_not_null_are_refused() -> None:
    """Another engine has changed the schema: the rows stay as they are, and can be read again once it is nullable."""
    made = created()
    upsert(made, "a", {1: 10, 2: None})
    upsert(made, "a", {3: 30})
    part, key, value = made.schema.fields
    strict = replace(made.schema, fields=(part, key, replace(value, type=replace(value.type, nullable=False))))
    made.store.put("schema/schema-0", strict.to_json())
    with pytest.raises(Unsupported, match=r"column 'v' has become NOT NULL, but files .* have nulls in it"):
        Table(made.store, strict).compact(full=True)
    assert values(made) == {("a", 1): 10, ("a", 2): None, ("a", 3): 30}
    assert len(made.entries()) == 2


def test_nothing_is_due_below_the_trigger(table: Table) -> None:
    for value in range(4):
        upsert(table, "a", {1: value})
    assert table.compact().receipts == ()
    upsert(table, "a", {1: 4})
    planned = table.compact(dry_run=True).to_dict()["groups"]
    assert [(group["output_level"], group["reason"]) for group in planned] == [(5, "size amplification")]
    assert table.compact().files_after == 1
    assert levels(table) == [(5, 1, 0)]


def test_deletes_stay_while_an_older_run_is_left_outside() -> None:
    """Without them the older rows would come back."""
    table = created(num_sorted_run__compaction_trigger="3", compaction__max_size_amplification_percent="100000")
    upsert(table, "a", {k: k for k in range(50_000)})
    table.compact(full=True)
    upsert(table, "a", {1: 1})
    upsert(table, "a", {2: 3}, deletes=(1, 7))
    table.compact()
    assert levels(table) == [(2, 3, 2), (3, 50_000, 0)]
    found = values(table)
    assert ("a", 1) not in found and ("a", 7) not in found and len(found) == 49_998
    table.compact(full=True)
    assert levels(table) == [(3, 49_998, 0)] and values(table) == found
    assert table.verify("all", data=True) == []


def test_a_large_file_whose_keys_no_other_has_only_moves() -> None:
    table = created(compaction__small_file_ratio="0.0")
    alone = upsert(table, "a", {1: 1, 2: 2})
    upsert(table, "a", {5: 5, 7: 7})
    upsert(table, "a", {6: 6})
    before, keys = values(table), data_keys(table)
    done = table.compact(full=True)
    assert (done.files_before, done.files_after) == (3, 2)
    moved = next(e.file for e in table.entries() if e.file.file_name == alone.file_name)
    assert moved == alone._replace(level=5)
    assert levels(table) == [(5, 2, 0), (5, 3, 0)] and values(table) == before
    assert len(data_keys(table) - keys) == 1
    table.expire(retain_max=1, retain_min=1, older_than=None)
    assert values(table) == before
    assert table.verify("all", data=True) == []


def test_a_file_with_deletes_is_rewritten_at_the_last_level() -> None:
    table = created(compaction__small_file_ratio="0.0")
    upsert(table, "a", {1: 1}, deletes=(2,))
    table.compact(full=True)
    assert levels(table) == [(5, 1, 0)] and values(table) == {("a", 1): 1}
    upsert(table, "b", {}, deletes=(4,))
    table.compact(full=True)
    assert levels(table, "b") == []
    assert table.verify("all", data=True) == []


def test_an_upsert_meanwhile_is_kept(table: Table) -> None:
    upsert(table, "a", {1: 1, 2: 2})
    upsert(table, "a", {}, deletes=(2,))
    other = again(table)
    table.store.before_create.append(lambda: upsert(other, "a", {1: 100}))
    assert table.compact(full=True).files_before == 2
    assert values(table) == {("a", 1): 100}
    assert levels(table) == [(0, 1, 0), (5, 1, 0)]


def test_of_two_compactions_of_a_bucket_the_second_gives_up(table: Table) -> None:
    for value in range(3):
        upsert(table, "a", {1: value, value: 5})
    upsert(table, "b", {1: 1})
    before, other = values(table), again(table)
    table.store.before_create.append(lambda: other.compact("part = 'a'", full=True))
    done = table.compact(full=True)
    assert [(g.partition, g.files) for g in done.given_up] == [("part=a", 3)]
    assert done.files_before == 1
    assert values(table) == before and levels(table, "a") == [(5, 3, 0)]


def test_the_partitions_are_chosen_by_a_predicate(table: Table) -> None:
    for part in ("a", "b"):
        upsert(table, part, {1: 1})
        upsert(table, part, {1: 2})
    upsert(table, "c", {1: 1})
    table.compact("part = 'b'", full=True)
    assert (len(levels(table, "a")), len(levels(table, "b"))) == (2, 1)
    assert {g.partition_path for g in table.compact(partitions=["part=a", {"part": "b"}], full=True).plan.groups} == {
        "part=a"
    }
    assert [n for n, _, _ in levels(table, "c")] == [0]
    for wrong in ({"partitions": []}, {"partitions": [{"k": 1}]}, {"partitions": ["part=a"], "where": "part = 'a'"}):
        with pytest.raises(InvalidArgument):
            table.compact(**wrong)
    with pytest.raises(InvalidArgument, match="chooses rows"):
        table.compact("k = 1", full=True)
    with pytest.raises(InvalidArgument, match="min_files"):
        table.compact(min_files=2)


def test_large_results_are_several_files_without_common_keys() -> None:
    """With so little memory that the rows are merged in ranges of keys."""
    table = created(target_file_size="16 kb", read__merge_memory="1 kb")
    upsert(table, "a", {k: k * 7919 % 10007 for k in range(0, 20_000, 2)})
    upsert(table, "a", {k: k * 7919 % 10007 for k in range(1, 20_000, 2)})
    table.compact(full=True)
    assert len(levels(table)) > 2 and sum(count for _, count, _ in levels(table)) == 20_000
    assert {level for level, _, _ in levels(table)} == {5}
    assert table.verify("all", data=True) == []


def test_a_file_with_fewer_rows_than_its_manifest_says_is_not_compacted() -> None:
    """G1: what cannot be read whole is not replaced."""
    table = created()
    upsert(table, "a", {1: 1})
    short = upsert(table, "a", {1: 2}, row_count=2)
    with pytest.raises(TableCorrupt, match=f"{short.file_name} has 1 rows; its manifest says 2"):
        table.compact(full=True)
    assert data_keys(table) == named(table)


def test_what_cannot_be_compacted_is_refused_by_name() -> None:
    with pytest.raises(Unsupported, match="pk-clustering-override"):
        created(pk_clustering_override="true").compact()
    with pytest.raises(Unsupported, match="CSV"):
        created(file__format__per__level="1:csv").compact()
    with pytest.raises(Unsupported, match="median"):
        created(merge_engine="aggregation", fields__v__aggregate_function="median").compact()


def test_every_option_of_compaction_is_known() -> None:
    assert opt.WRITE_ONLY.fallback_keys == ("write.compaction-skip",)


# ---------------------------------------------------------------------------------------------------------- postponed rows


def test_postponed_rows_that_come_meanwhile_wait_for_the_next_compaction() -> None:
    table = created(bucket="-2", postpone__default_bucket_num="3")
    upsert(table, "a", dict.fromkeys(range(20), 1), number=-1)
    upsert(table, "a", {1: 2}, deletes=(2,), number=-1)
    other = again(table)
    table.store.before_create.append(lambda: upsert(other, "a", {1: 3}, number=-1))
    done = table.compact()
    assert (done.files_before, done.given_up) == (2, ())
    assert values(table) == {("a", k): 2 if k == 1 else 1 for k in range(20) if k != 2}
    assert {e.bucket for e in table.entries()} == {0, 1, 2, POSTPONED}
    table.compact(full=True)
    assert values(table)["a", 1] == 3 and levels(table) == [(5, n, 0) for _, n, _ in levels(table)]
    assert table.verify("all", data=True) == []


def test_of_two_jobs_one_settles_postponed_rows() -> None:
    table = created(bucket="-2")
    upsert(table, "a", {1: 1}, number=-1)
    other = again(table)
    table.store.before_create.append(lambda: other.compact())
    assert table.compact().receipts == ()
    assert values(table) == {("a", 1): 1} and kinds(table) == ["APPEND", "COMPACT"]


# ------------------------------------------------------------------------------------------------- after a write, by itself


def writing(**options: str) -> Table:
    return created(write_only="false", **options)


def batch(part: str, values: Rows) -> pa.Table:
    columns = {"part": [part] * len(values), "k": pa.array([*values], pa.int32()), "v": pa.array([*values.values()])}
    return pa.table(columns)


def kinds(table: Table) -> list[str]:
    return [snapshot.commit_kind for snapshot in table.snapshots()]


def test_a_write_compacts_what_it_touched_in_a_snapshot_of_its_own() -> None:
    table, runs = writing(), []
    for number in range(30):
        receipt = table.upsert(batch("a", dict.fromkeys(range(number % 7 + 1), number)))
        assert receipt.kind == "APPEND"
        runs.append(run_count(e.file for e in table.entries()))
    assert max(runs) <= 5 and kinds(table).count("COMPACT") >= 6
    assert values(table) == {("a", k): 29 if k < 2 else max(n for n in range(30) if n % 7 >= k) for k in range(7)}
    assert table.verify("all", data=True) == []


def test_a_write_leaves_other_buckets_alone() -> None:
    table = writing(num_sorted_run__compaction_trigger="2")
    upsert(table, "b", {1: 1})
    upsert(table, "b", {1: 2})
    upsert(table, "a", {1: 1})
    table.upsert(batch("a", {1: 2}))
    assert (len(levels(table, "a")), len(levels(table, "b"))) == (1, 2)


def test_no_write_compacts_with_write_only() -> None:
    table = created()
    for number in range(8):
        table.upsert(batch("a", {1: number}))
    assert kinds(table) == ["APPEND"] * 8


def test_a_compaction_that_fails_does_not_fail_the_write(caplog: pytest.LogCaptureFixture) -> None:
    table = writing(num_sorted_run__compaction_trigger="2", target_file_size="1 b")
    table.upsert(batch("a", {1: 1}))

    def refuse_after_the_write() -> None:
        table.store.refuse = lambda key: "bucket-" in key

    table.store.before_create.append(refuse_after_the_write)
    receipt = table.upsert(batch("a", {1: 2}))
    table.store.refuse = lambda key: False
    assert receipt.snapshot_id == 2 and kinds(table) == ["APPEND"] * 2
    assert "the rows are committed" in caplog.text
    assert values(table) == {("a", 1): 2}
    table.upsert(batch("a", {1: 3}))
    assert kinds(table) == ["APPEND"] * 3 + ["COMPACT"]


def test_a_write_gives_up_if_others_have_compacted_first() -> None:
    table = writing(num_sorted_run__compaction_trigger="3")
    other = again(table)
    for number in range(2):
        table.upsert(batch("a", {1: number}))
    table.store.before_create += [lambda: None, lambda: other.compact(full=True)]
    table.upsert(batch("a", {1: 2}))
    assert kinds(table) == ["APPEND"] * 3 + ["COMPACT"]
    assert values(table) == {("a", 1): 2} and levels(table) == [(3, 1, 0)]


@pytest.mark.parametrize("waits", [True, False])
def test_rows_become_visible_although_another_compaction_came_first(waits: bool) -> None:
    """Level 0 is hidden there. The other compaction began before these rows were written, and takes its files away."""
    table = writing(deletion_vectors__enabled="true", lookup_wait=str(waits).lower())
    upsert(table, "a", {1: 1})
    other = again(table)
    plan = plan_compaction(other.timeline, other.schema)
    rewriter = rewriter_of(other.store, other.timeline, other.schema, plan.groups, plan.target_bytes)

    def compact_as_planned() -> None:
        run_compaction(other.committer, other.timeline, other.schema, plan, rewritten_here(rewriter))

    table.store.before_create += [lambda: None, compact_as_planned]
    table.upsert(batch("a", {2: 2}))
    assert kinds(table) == ["APPEND", "APPEND", "COMPACT"] + ["COMPACT"] * waits
    assert values(table) == {("a", 1): 1} | ({("a", 2): 2} if waits else {})


def test_nothing_is_asked_of_the_store_if_nothing_is_due() -> None:
    asked = []
    for table in (created(), writing()):
        metered = MeteredStore(table.store)
        measured = Table(metered, table.schema)
        for number in range(4):
            measured.upsert(batch("a", {1: number}))
        measured.committer.settle()
        asked.append(metered.snapshot().requests)
    assert asked[0] == asked[1]


def test_with_delta_commits_every_write_merges_everything() -> None:
    table = writing(full_compaction__delta_commits="3")
    for number in range(3):
        table.upsert(batch("a", {1: number, 2: number}))
        assert levels(table) == [(5, 2, 0)]


# -------------------------------------------------------------------------------------------------- what checks say of runs


def test_verify_names_files_of_one_level_with_common_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    table = created()
    upsert(table, "a", {1: 0, 7: 0})
    table.compact(full=True)
    (kept,) = table.entries()
    copy = upsert(table, "a", {3: 1, 9: 1})
    entry = next(e for e in table.entries() if e.file.file_name == copy.file_name)
    assert table.verify() == []
    monkeypatch.setattr("lakelatch.coordinator.commit.checks.key_rules.runs_overlap", lambda *_: None)
    moved = (entry.deletion(), entry._replace(file=copy._replace(level=5)))
    table.committer.commit(CommitRequest("COMPACT", moved, "careless", read_snapshot=table.snapshot()))
    (found,) = table.verify()
    assert (found.severity, found.field) == ("error", "_MIN_KEY") and found.file.startswith("manifest/manifest-")
    assert kept.file.file_name in found.message and copy.file_name in found.message


def test_a_doctor_names_the_bucket_with_too_many_runs_and_what_to_do() -> None:
    table = created()
    for number in range(9):
        upsert(table, "a", {1: number})
        if number < 8:
            upsert(table, "b", {1: number})
    assert [(c.folder, c.runs, c.most) for c in crowded_buckets(table.timeline)] == [("part=a/bucket-0/", 9, 8)]
    (check,) = [c for c in examine(table.store, {}) if c.check == "sorted runs"]
    assert check.status == "warn" and "part=a/bucket-0/ has 9 sorted runs" in check.detail
    assert "write-only" in check.next_step and "lakelatch compact" in check.next_step
    table.compact()
    assert [c.status for c in examine(table.store, {}) if c.check == "sorted runs"] == ["ok"]
