"""H14: which of two rows of a key is the newer one is never left open, however their writers come together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from keyed import Keyed, merged, run_of

from lakelatch.coordinator.commit.committer import Committer
from lakelatch.coordinator.commit.request import KeyedRows, Remarks
from lakelatch.coordinator.maintenance.rollback import plan_rollback
from lakelatch.core.errors import CommitConflict
from lakelatch.core.metadata.data_file import SOURCE_COMPACT
from lakelatch.core.paths import TablePaths

STRICT = pytest.mark.parametrize(
    "options",
    [
        {"merge-engine": "partial-update"},
        {"merge-engine": "aggregation"},
        {"merge-engine": "first-row"},
        {"deletion-vectors.enabled": "true"},
        {"changelog-producer": "lookup"},
    ],
    ids=lambda options: "-".join(next(iter(options.items()))),
)


def numbers(world: Keyed) -> dict[str, tuple[int, int]]:
    return {name: (f.min_sequence_number, f.max_sequence_number) for name, f in world.files().items()}


def test_jobs_with_numbers_of_their_own_land_in_any_order_and_nothing_is_written_again() -> None:
    """The one that began first is the older one, even if it lands last."""
    world = Keyed()
    world.upsert(run_of("base", (1, 10)))
    world.meanwhile(lambda: world.upsert(run_of("later", (200, 210))))
    world.upsert(run_of("earlier", (100, 110)))
    assert numbers(world) == {"base": (1, 10), "later": (200, 210), "earlier": (100, 110)}
    assert world.asked == []


@pytest.mark.parametrize("theirs", [(105, 120), (90, 100), (110, 110), (100, 110), (50, 500)])
def test_numbers_that_meet_are_given_again_above_all_others(theirs: tuple[int, int]) -> None:
    world = Keyed()
    world.upsert(run_of("base", (1, 10)))
    world.meanwhile(lambda: world.upsert(run_of("theirs", theirs)))
    world.upsert(run_of("ours", (100, 110)))
    assert world.asked == [max(theirs)]
    ours, other = numbers(world)["ours'"], numbers(world)["theirs"]
    assert ours[0] > other[1] and other == theirs


def test_without_a_way_to_number_rows_again_it_is_a_conflict_with_a_name() -> None:
    world = Keyed()
    world.upsert(run_of("base", (1, 10)))
    world.meanwhile(lambda: world.upsert(run_of("theirs", (105, 120)), user="other-job"))
    with pytest.raises(CommitConflict, match=r"sequence_numbers_meet.*snapshot 2 .*other-job.*105 to 120.*100 to 110"):
        world.upsert(run_of("ours", (100, 110)), renumber=None)
    assert set(world.files()) == {"base", "theirs"}


def test_numbers_that_meet_in_other_buckets_only_do_not_matter() -> None:
    world = Keyed()
    world.upsert(run_of("base", (1, 10)))
    world.meanwhile(lambda: world.upsert(run_of("theirs", (100, 110), bucket=1)))
    world.upsert(run_of("ours", (100, 110)))
    assert world.asked == []


def test_all_buckets_of_a_commit_are_numbered_again_so_that_the_order_is_the_same_everywhere() -> None:
    """In one bucket the numbers meet; in the other one ours are the smaller ones, and would be the older ones there."""
    world = Keyed()
    world.upsert(run_of("base", (1, 10)))
    theirs = run_of("theirs-0", (100, 150)), run_of("theirs-1", (300, 300), bucket=1)
    world.meanwhile(lambda: world.upsert(*theirs))
    world.upsert(run_of("ours-0", (120, 160)), run_of("ours-1", (120, 130), bucket=1))
    found = numbers(world)
    assert found["ours-0'"][0] > 300 and found["ours-1'"][0] > 300


def test_rows_of_a_writer_that_read_nothing_are_newer_than_all_that_landed_before() -> None:
    world = Keyed()
    world.upsert(run_of("base", (1, 1000)))
    world.upsert(run_of("ours", (100, 110)), read=None)
    assert world.asked == [1000] and numbers(world)["ours'"][0] > 1000
    world.upsert(run_of("more", (2000, 2100)), read=None)
    assert numbers(world)["more"] == (2000, 2100)


def test_jobs_that_began_on_an_empty_table_are_ordered_by_their_numbers() -> None:
    """What landed since then is read from the first snapshot on: it is not taken for rows that were there before."""
    world = Keyed()
    world.meanwhile(lambda: world.upsert(run_of("later", (200, 210)), read=None))
    world.upsert(run_of("earlier", (100, 110)), read=None)
    assert world.asked == [] and numbers(world) == {"later": (200, 210), "earlier": (100, 110)}


def test_numbers_that_meet_on_a_table_that_was_empty_are_a_conflict_with_a_name() -> None:
    world = Keyed()
    world.meanwhile(lambda: world.upsert(run_of("theirs", (105, 120)), read=None, user="other-job"))
    with pytest.raises(CommitConflict, match=r"sequence_numbers_meet.*snapshot 1 .*other-job.*105 to 120.*100 to 110"):
        world.upsert(run_of("ours", (100, 110)), read=None, renumber=None)


def test_a_clock_that_is_behind_is_noticed() -> None:
    """The writer states that it read the base, whose numbers are larger than its own."""
    world = Keyed()
    world.upsert(run_of("base", (1, 1000)))
    with pytest.raises(CommitConflict, match=r"sequence_numbers_too_small.*up to 1000 before.*100 to 110"):
        world.upsert(run_of("ours", (100, 110)), renumber=None)
    world.upsert(run_of("ours", (100, 110)))
    assert numbers(world)["ours'"][0] > 1000


def test_rows_that_were_numbered_again_are_numbered_again_only_if_they_must_be() -> None:
    """Three lost races: the second winner has smaller numbers than ours by then, the third meets them."""
    world = Keyed()
    world.upsert(run_of("base", (1, 10)))
    read = world.read()

    def third() -> None:
        world.meanwhile(lambda: world.upsert(run_of("c", (100, 290)), read=read))

    def second() -> None:
        world.upsert(run_of("b", (60, 70)), read=read)
        third()

    def first() -> None:
        world.upsert(run_of("a", (100, 150)), read=read)
        world.meanwhile(second)

    world.meanwhile(first)
    receipt = world.upsert(run_of("ours", (100, 110)))
    assert receipt.attempts == 4
    found = numbers(world)
    assert set(found) == {"base", "a", "b", "c'", "ours''"}
    assert found["ours''"][0] > found["c'"][1]
    assert sorted(world.asked) == [150, 150, 390], "c met a, and ours met a and c"


def test_what_was_written_again_is_in_the_store_and_what_it_replaces_is_not() -> None:
    world = Keyed()
    world.upsert(run_of("base", (1, 10)))
    world.meanwhile(lambda: world.upsert(run_of("theirs", (105, 120))))
    world.upsert(run_of("ours", (100, 110)))
    keys = {info.key for info in world.store.list("bucket-0/")}
    assert keys == {f"bucket-0/data-{name}.parquet" for name in ("base", "theirs", "ours'")}
    assert world.store.get("bucket-0/data-ours'.parquet") == b"rows again"


def test_rows_that_are_numbered_again_before_the_first_attempt_are_stored_once() -> None:
    world = Keyed()
    world.upsert(run_of("base", (1, 1000)))
    world.upsert(run_of("ours", (100, 110)), read=None)
    assert {info.key for info in world.store.list("bucket-0/")} == {
        "bucket-0/data-base.parquet",
        "bucket-0/data-ours'.parquet",
    }


def test_a_commit_that_fails_after_all_leaves_no_file_of_either_numbering() -> None:
    world = Keyed()
    world.upsert(run_of("base", (1, 1000)))
    other = run_of("ours-1", (100, 110), bucket=1, buckets=3)
    with pytest.raises(CommitConflict, match="another_bucket_count"):
        world.upsert(run_of("ours", (100, 110)), other, read=None)
    assert {info.key for info in world.store.list("") if info.key.startswith("bucket-")} == {
        "bucket-0/data-base.parquet"
    }


@pytest.mark.parametrize("options", [{"sequence.field": "v"}, {"sequence.snapshot-ordering": "true"}])
def test_tables_that_order_rows_by_other_means_need_no_order_of_numbers(options: dict[str, str]) -> None:
    world = Keyed({"write-only": "true", **options})
    world.upsert(run_of("base", (1, 10)))
    world.meanwhile(lambda: world.upsert(run_of("theirs", (100, 110))))
    world.upsert(run_of("ours", (100, 110)), renumber=None)
    assert set(world.files()) == {"base", "theirs", "ours"}


def test_the_id_of_the_snapshot_is_the_number_of_new_rows_where_an_option_says_so() -> None:
    """Option `sequence.snapshot-ordering`: each attempt stamps its own id; a compaction keeps the numbers of its inputs."""
    world = Keyed({"sequence.snapshot-ordering": "true", "write-only": "true"})
    world.upsert(run_of("one", (0, 9)))
    world.meanwhile(lambda: world.upsert(run_of("two", (0, 9))))
    world.upsert(run_of("three", (0, 9)))
    assert numbers(world) == {"one": (1, 1), "two": (2, 2), "three": (3, 3)}
    inputs = [run_of(name, (0, 9)) for name in ("one", "two")]
    read = world.read()
    world.compact(inputs, [run_of("big", (1, 2), level=5, source=SOURCE_COMPACT)], read)
    assert numbers(world) == {"three": (3, 3), "big": (1, 2)}


# ------------------------------------------------------------------------------- compactions between two writers


def compacted_meanwhile(world: Keyed, *, deletes: int, kept: int, read: Any = None) -> None:
    """Another job upserts, and its rows are merged with those of the base."""
    base, theirs = run_of("base", (1, 10)), run_of("theirs", (200, 210), deletes=deletes)
    world.upsert(theirs, read=read)
    world.compact([base, theirs], [merged("big", base, theirs, deletes=kept)], world.read())


def test_rows_under_a_dropped_delete_are_numbered_again() -> None:
    """A newer job deleted a key, and a compaction dropped that delete. The older job's row would come back to life."""
    world = Keyed()
    world.upsert(run_of("base", (1, 10)))
    read = world.read()
    world.meanwhile(lambda: compacted_meanwhile(world, deletes=1, kept=0, read=read))
    world.upsert(run_of("ours", (100, 110)))
    assert world.asked == [210]


def test_rows_of_deduplicate_keep_their_numbers_beside_a_compaction_that_drops_no_delete() -> None:
    world = Keyed()
    world.upsert(run_of("base", (1, 10)))
    read = world.read()
    world.meanwhile(lambda: compacted_meanwhile(world, deletes=1, kept=1, read=read))
    world.upsert(run_of("ours", (100, 110)))
    assert world.asked == []


@STRICT
def test_rows_under_newer_merged_rows_are_numbered_again(options: dict[str, str]) -> None:
    """The merged row holds values of older rows, and would win over ours as a whole."""
    world = Keyed(options)
    world.upsert(run_of("base", (1, 10)))
    read = world.read()
    world.meanwhile(lambda: compacted_meanwhile(world, deletes=0, kept=0, read=read))
    world.upsert(run_of("ours", (100, 110)))
    assert world.asked == [210]


def test_a_compaction_of_older_rows_changes_nothing() -> None:
    world = Keyed({"merge-engine": "aggregation"})
    world.upsert(run_of("base", (1, 10), deletes=3))
    base = run_of("base", (1, 10), deletes=3)
    read = world.read()
    world.meanwhile(lambda: world.compact([base], [merged("big", base, rows=7)], read))
    world.upsert(run_of("ours", (100, 110)))
    assert world.asked == [] and set(world.files()) == {"big", "ours"}


def test_a_compaction_that_drops_a_delete_gives_way_to_older_rows() -> None:
    """It lands after the older job, whose row it has not seen: the row would come back to life."""
    world = Keyed()
    base, theirs = run_of("base", (1, 10)), run_of("theirs", (200, 210), deletes=1)
    world.upsert(base)
    read = world.read()
    world.upsert(theirs)
    world.meanwhile(lambda: world.upsert(run_of("older", (100, 110)), read=read))
    with pytest.raises(CommitConflict, match=r"older_rows_appended.*snapshot 3.*from 100.*up to 210"):
        world.compact([base, theirs], [merged("big", base, theirs)], world.read())
    assert set(world.files()) == {"base", "theirs", "older"}


@pytest.mark.parametrize("engine", ["deduplicate", "aggregation"])
def test_a_compaction_gives_way_to_older_rows_if_the_engine_cannot_merge_them_later(engine: str) -> None:
    world = Keyed({"merge-engine": engine})
    base, theirs = run_of("base", (1, 10)), run_of("theirs", (200, 210))
    world.upsert(base)
    read = world.read()
    world.upsert(theirs)
    world.meanwhile(lambda: world.upsert(run_of("older", (100, 110)), read=read))
    try:
        world.compact([base, theirs], [merged("big", base, theirs)], world.read())
    except CommitConflict:
        assert engine == "aggregation" and set(world.files()) == {"base", "theirs", "older"}
    else:
        assert engine == "deduplicate" and set(world.files()) == {"big", "older"}


def test_newer_rows_stay_beside_a_compaction() -> None:
    world = Keyed({"merge-engine": "aggregation"})
    base = run_of("base", (1, 10), deletes=1)
    world.upsert(base)
    world.meanwhile(lambda: world.upsert(run_of("newer", (100, 110))))
    world.compact([base], [merged("big", base)], world.read())
    assert set(world.files()) == {"big", "newer"}


def test_an_overwrite_gives_way_to_rows_older_than_those_that_it_replaces() -> None:
    """A key that an older job wrote was hidden by a newer row. The overwrite would take that away, and show the older one."""
    world = Keyed()
    base, theirs = run_of("base", (1, 10)), run_of("theirs", (200, 210))
    world.upsert(base)
    read = world.read()
    world.upsert(theirs)
    world.meanwhile(lambda: world.upsert(run_of("older", (100, 110)), read=read))
    with pytest.raises(CommitConflict, match="older_rows_appended"):
        world.commit("OVERWRITE", run_of("new", (300, 310)), target=lambda partition: True, read_snapshot=world.read())


def test_rows_under_an_overwrite_of_newer_rows_are_numbered_again() -> None:
    world = Keyed()
    world.upsert(run_of("base", (1, 10)))
    read = world.read()

    def overwritten() -> None:
        world.upsert(run_of("theirs", (200, 210)), read=read)
        world.commit("OVERWRITE", run_of("new", (300, 310)), target=lambda partition: True, read_snapshot=world.read())

    world.meanwhile(overwritten)
    world.upsert(run_of("ours", (100, 110)))
    assert world.asked == [310] and set(world.files()) == {"new", "ours'"}


# ------------------------------------------------------------------------------- commits that have read, or taken away


def saying(word: str | None) -> dict[str, Any]:
    return {"remarks": Remarks(word)}


@pytest.mark.parametrize("word", ["UPDATE", "DELETE", "MERGE", None])
@pytest.mark.parametrize("options", [{}, {"sequence.field": "v"}])
def test_rows_that_a_change_of_rows_has_not_seen_are_newer_than_its_own(
    options: dict[str, str], word: str | None
) -> None:
    """The change landed first and began later: with its numbers it would hide what it was not computed from. Of another engine's
    commit, which says nothing, nobody knows what it has read."""
    world = Keyed(options)
    world.upsert(run_of("base", (1, 10)))
    world.meanwhile(lambda: world.upsert(run_of("change", (200, 210)), **saying(word)))
    world.upsert(run_of("ours", (100, 110)))
    assert world.asked == [210] and numbers(world)["ours'"][0] > 210


def test_a_job_that_cannot_number_its_rows_again_is_told_which_change_has_not_seen_them() -> None:
    world = Keyed()
    world.upsert(run_of("base", (1, 10)))
    world.meanwhile(lambda: world.upsert(run_of("change", (200, 210)), user="updater", **saying("UPDATE")))
    with pytest.raises(CommitConflict, match=r"older_than_a_read.*snapshot 2 .*updater.*100 to 110"):
        world.upsert(run_of("ours", (100, 110)), renumber=None)


def test_what_a_change_of_rows_has_seen_is_older_than_rows_that_it_has_not_seen() -> None:
    """The change wrote to another bucket only. It came after the newer job, which it may have read, and before ours."""
    world = Keyed()
    world.upsert(run_of("base", (1, 10)))
    read = world.read()

    def others() -> None:
        world.upsert(run_of("newer", (200, 210)), read=read)
        world.upsert(run_of("change", (300, 310), bucket=1), **saying("UPDATE"))

    world.meanwhile(others)
    world.upsert(run_of("ours", (100, 110)))
    assert world.asked == [310] and numbers(world)["ours'"][0] > 210


def test_a_job_that_landed_after_the_change_of_rows_may_still_be_the_newer_one() -> None:
    world = Keyed()
    world.upsert(run_of("base", (1, 10)))
    read = world.read()

    def others() -> None:
        world.upsert(run_of("change", (50, 60)), **saying("UPDATE"))
        world.upsert(run_of("newer", (200, 210)), read=read)

    world.meanwhile(others)
    world.upsert(run_of("ours", (100, 110)))
    assert world.asked == [] and set(world.files()) == {"base", "change", "newer", "ours"}


def test_a_compaction_has_read_nothing_that_matters() -> None:
    world = Keyed()
    base = run_of("base", (1, 10))
    world.upsert(base)
    read = world.read()

    def others() -> None:
        world.upsert(run_of("newer", (200, 210)), read=read)
        world.compact([base], [merged("big", base)], world.read())

    world.meanwhile(others)
    world.upsert(run_of("ours", (100, 110)))
    assert world.asked == []


def test_rows_of_a_job_that_began_before_an_overwrite_and_lands_after_it_are_the_newer_ones() -> None:
    """Otherwise some would be hidden by its rows, and others would stay."""
    world = Keyed()
    world.upsert(run_of("base", (1, 10)))
    world.meanwhile(lambda: overwrite(world, run_of("new", (200, 210))))
    world.upsert(run_of("ours", (100, 110)))
    assert world.asked == [210] and set(world.files()) == {"new", "ours'"}


BY_SNAPSHOT = {"sequence.snapshot-ordering": "true", "write-only": "true"}


def overwrite(world: Keyed, *entries: Any, read: Any = None, renumber: Any = "as a job does") -> Any:
    """Replace the whole table."""
    keyed = KeyedRows(renumber=world.renumber if renumber == "as a job does" else renumber)
    return world.commit(
        "OVERWRITE",
        *entries,
        target=lambda partition: True,
        read_snapshot=read or world.read(),
        keyed=keyed,
        remarks=Remarks("OVERWRITE"),
    )


@pytest.mark.parametrize("options", [{}, {"sequence.field": "v"}])
def test_an_overwrite_is_older_than_what_stays_beside_it(options: dict[str, str]) -> None:
    """Its rows get the numbers right above those that it removes."""
    world = Keyed(options)
    world.upsert(run_of("base", (1, 10)))
    world.meanwhile(lambda: world.upsert(run_of("theirs", (100, 110))))
    overwrite(world, run_of("new-0", (200, 210)), run_of("new-1", (200, 203), bucket=1))
    assert numbers(world) == {"theirs": (100, 110), "new-0'": (11, 21), "new-1'": (11, 14)}


def test_an_overwrite_keeps_numbers_that_are_smaller_than_all_that_stay() -> None:
    world = Keyed()
    world.upsert(run_of("base", (1, 10)))
    world.meanwhile(lambda: world.upsert(run_of("theirs", (300, 310))))
    overwrite(world, run_of("new", (200, 210)), renumber=None)
    assert numbers(world) == {"theirs": (300, 310), "new": (200, 210)}


def test_an_overwrite_does_not_mind_what_stays_in_other_buckets() -> None:
    world = Keyed()
    world.upsert(run_of("base", (1, 10)))
    world.meanwhile(lambda: world.upsert(run_of("theirs", (100, 110), bucket=1)))
    overwrite(world, run_of("new", (200, 210)), renumber=None)
    assert numbers(world) == {"theirs": (100, 110), "new": (200, 210)}


@pytest.mark.parametrize(
    ("options", "theirs", "renumber"),
    [({}, (20, 30), "as a job does"), ({}, (100, 110), None), (BY_SNAPSHOT, (100, 110), "as a job does")],
    ids=["no room for its numbers", "its rows cannot be written again", "ordered by snapshots"],
)  # fmt: skip
def test_an_overwrite_that_cannot_be_older_than_what_stays_gives_way(
    options: dict[str, str], theirs: tuple[int, int], renumber: Any
) -> None:
    world = Keyed(options)
    world.upsert(run_of("base", (1, 10)))
    world.meanwhile(lambda: world.upsert(run_of("theirs", theirs)))
    with pytest.raises(CommitConflict, match=r"newer_rows_stay.*read the table again"):
        overwrite(world, run_of("new", (200, 220)), renumber=renumber)
    assert set(world.files()) == {"base", "theirs"}


def test_the_last_number_below_what_stays_is_free() -> None:
    world = Keyed()
    world.upsert(run_of("base", (1, 10)))
    world.meanwhile(lambda: world.upsert(run_of("theirs", (22, 30))))
    overwrite(world, run_of("new", (200, 210)))
    assert numbers(world)["new'"] == (11, 21)


def test_an_overwrite_gives_way_where_a_delete_of_what_stays_was_dropped() -> None:
    """Its own row of that key would come back to life."""
    world = Keyed()
    world.upsert(run_of("base", (1, 10)))
    theirs = run_of("theirs", (100, 110), deletes=1)

    def others() -> None:
        world.upsert(theirs)
        world.compact([theirs], [merged("big", theirs)], world.read())

    world.meanwhile(others)
    with pytest.raises(CommitConflict, match="newer_rows_merged"):
        overwrite(world, run_of("new", (50, 60)))


@pytest.mark.parametrize("word", ["UPDATE", "DELETE", "MERGE"])
def test_an_overwrite_gives_way_to_rows_that_were_computed_from_those_that_it_replaces(word: str) -> None:
    """They would come back."""
    world = Keyed()
    world.upsert(run_of("base", (1, 10)))
    world.meanwhile(lambda: world.upsert(run_of("change", (300, 310)), **saying(word)))
    with pytest.raises(CommitConflict, match=r"rows_changed_meanwhile.*snapshot 2"):
        overwrite(world, run_of("new", (200, 210)))


@pytest.mark.parametrize(("theirs", "asked"), [((90, 99), []), ((90, 100), [100]), ((105, 106), [106])])
def test_with_a_column_that_orders_rows_numbers_decide_beside_a_change_of_rows(
    theirs: tuple[int, int], asked: list[int]
) -> None:
    world = Keyed({"sequence.field": "v"})
    world.upsert(run_of("base", (1, 10)))
    world.meanwhile(lambda: world.upsert(run_of("change", theirs), **saying("UPDATE")))
    world.upsert(run_of("ours", (100, 110)))
    assert world.asked == asked


def test_an_overwrite_shares_no_number_with_what_stays() -> None:
    world = Keyed()
    world.upsert(run_of("base", (1, 10)))
    world.meanwhile(lambda: world.upsert(run_of("theirs", (210, 220))))
    overwrite(world, run_of("new", (200, 210)))
    assert numbers(world)["new'"] == (11, 21)


# ------------------------------------------------------------------------------------------- rows that were brought back


def rollback(world: Keyed, snapshot: Any) -> Callable[[], Any]:
    """A rollback that is planned now and committed later."""
    plan = plan_rollback(world.timeline, snapshot, snapshot.read_from)
    committer = Committer(world.store, TablePaths(), world.schema)
    return lambda: committer.commit(plan.request("restorer", None, "snapshot", "t"))


def compacted_and_emptied(world: Keyed) -> Any:
    """Gives the snapshot that holds the rows of a compaction, which are gone."""
    base = run_of("base", (300, 310))
    world.upsert(base)
    world.compact([base], [merged("big", base, keys=(1, 3))], world.read())
    back = world.read()
    world.commit("OVERWRITE", target=lambda partition: True, read_snapshot=back, remarks=Remarks("OVERWRITE"))
    return back


@pytest.mark.parametrize("options", [{}, {"sequence.field": "v"}])
def test_rows_of_a_compaction_that_a_rollback_brings_back_are_older_than_ours(options: dict[str, str]) -> None:
    """The clock of their writer was ahead, and a job that began on the empty table could not see them."""
    world = Keyed(options)
    back = compacted_and_emptied(world)
    world.meanwhile(rollback(world, back))
    world.upsert(run_of("ours", (100, 110)))
    assert world.asked == [310] and numbers(world)["ours'"][0] > 310


def test_a_compaction_that_drops_a_delete_gives_way_to_older_rows_that_came_back() -> None:
    """They came back below it, and the delete may be of one of them."""
    world = Keyed()
    restore = rollback(world, compacted_and_emptied(world))
    newer = run_of("newer", (400, 410), deletes=1, keys=(7, 9))
    world.upsert(newer)
    world.meanwhile(restore)
    with pytest.raises(CommitConflict, match=r"older_rows_appended.*from 300.*up to 410"):
        world.compact([newer], [merged("small", newer, keys=(7, 9))], world.read())
    assert set(world.files()) == {"big", "newer"}


def test_a_rollback_gives_way_where_runs_would_overlap() -> None:
    """Newer rows were merged into the level to which files come back."""
    world = Keyed()
    restore = rollback(world, compacted_and_emptied(world))

    def others() -> None:
        newer = run_of("newer", (400, 410), keys=(2, 9))
        world.upsert(newer)
        world.compact([newer], [merged("small", newer, keys=(2, 9))], world.read())

    world.meanwhile(others)
    with pytest.raises(CommitConflict, match=r"runs_overlap.*big.*small"):
        restore()
