"""A copy of a table is another table: what was under way in the one is none of the other's business (decision 94)."""

from __future__ import annotations

import itertools
import json
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from fragile import Died, die
from hooked_store import HookedStore

import lakelatch as ll
from lakelatch.backends.elsewhere import place_of
from lakelatch.backends.local import LocalStore
from lakelatch.backends.memory import MemoryStore
from lakelatch.core.errors import InvalidArgument
from lakelatch.core.metadata.table_identity import ID_FIELD, identity_of
from lakelatch.table.table import Table

COUNTER = itertools.count()
FIRST = "schema/schema-0"
GROUPED = {"commit.group": "auto", "commit.min-retry-wait": "1 ms"}


def rows(*values: int) -> pa.Table:
    return pa.table({"v": pa.array(values, pa.int64())})


def values(url: object) -> list[int]:
    return sorted(ll.open_table(str(url)).to_arrow()["v"].to_pylist())


def made(url: object, **options: str) -> Table:
    """A table with the rows 0."""
    table = ll.create_table(str(url), rows().schema, options=GROUPED | options)
    table.append(rows(0))
    return table


def hooked(url: object, journal: Any = None) -> tuple[Table, HookedStore]:
    """The table as one process has it open, and its store."""
    table = ll.open_table(str(url))
    store = HookedStore(table.store)
    again = Table(store, table._schema, journal=journal, first_schema=table._first_schema)
    return again, store


def dead_rider(url: object, journal: Any = None) -> None:
    """A job loses a race, asks others to carry its row 666, and dies."""
    job, store = hooked(url, journal)
    store.before["snapshot/snapshot-"] = lambda: ll.open_table(str(url)).append(rows(1), group="off") and None
    store.after["lakelatch/intents/"] = die
    with pytest.raises(Died):
        job.append(rows(666), commit_user="dead", identifier=1)


def two_that_meet(url: object) -> None:
    """The first loses to the second, and leads the next snapshot."""
    job, store = hooked(url)
    store.before["snapshot/snapshot-"] = lambda: ll.open_table(str(url)).append(rows(11))
    job.append(rows(10))


def copied(source: Path, target: Path) -> None:
    shutil.copytree(source, target)


def cloned(source: Path, target: Path) -> None:
    ll.open_table(str(source)).clone(str(target))


def referenced(source: Path, target: Path) -> None:
    ll.open_table(str(source)).clone(str(target), reference=True)


def moved(source: Path, target: Path) -> None:
    ll.rename_table(str(source), str(target))


EVERY_COPY = pytest.mark.parametrize("copy", [copied, cloned, referenced])


# ------------------------------------------------------------------------------------------------------- the identity


def test_tables_with_the_same_columns_differ_and_renamed_ones_stay_themselves(tmp_path: Path) -> None:
    one, other, third = (tmp_path / name for name in "abc")
    first = [made(url).store.get(FIRST) for url in (one, other)]
    assert identity_of(first[0]) != identity_of(first[1]) and ID_FIELD in json.loads(first[0])
    assert ID_FIELD not in ll.open_table(str(one)).schema.option_texts, "it is no option, so that nobody copies it"
    moved(one, third)
    assert (third / FIRST).read_bytes() == first[0]


def test_every_clone_and_its_branches_have_an_identity_of_their_own(tmp_path: Path) -> None:
    made(tmp_path / "t").create_branch("dev")
    seen = {(tmp_path / "t" / FIRST).read_bytes()}
    for number in range(2):
        cloned(tmp_path / "t", tmp_path / f"c{number}")
        referenced(tmp_path / "t", tmp_path / f"r{number}")
        seen |= {(tmp_path / f"{kind}{number}" / FIRST).read_bytes() for kind in "cr"}
        seen.add((tmp_path / f"c{number}/branch/branch-dev" / FIRST).read_bytes())
    assert len(seen) == 7


def test_a_place_has_one_name(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert place_of(LocalStore(f"{tmp_path}/link/t")) == place_of(LocalStore(f"file://{tmp_path}/real/./t/"))


# ----------------------------------------------------------------------------------------------------------- intents


@EVERY_COPY
def test_the_first_leaders_of_a_copy_carry_nothing_of_its_source(
    copy: Callable[[Path, Path], None], tmp_path: Path
) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    made(source)
    dead_rider(source)
    copy(source, target)
    assert copy is copied or not list(target.glob("**/lakelatch/intents/*"))
    two_that_meet(target)
    assert values(target) == [0, 1, 10, 11]
    two_that_meet(source)
    assert values(source) == [0, 1, 10, 11, 666], "there it waited to be carried"


def test_a_rider_that_reaches_its_table_by_a_link_is_carried(tmp_path: Path) -> None:
    made(tmp_path / "real")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    dead_rider(tmp_path / "link")
    two_that_meet(tmp_path / "real")
    assert values(tmp_path / "real") == [0, 1, 10, 11, 666]


def test_an_intent_that_comes_late_to_a_clone_made_again_at_its_place_is_not_carried(tmp_path: Path) -> None:
    """Both clones have the same base. The rider asked the first one, which was dropped."""
    source, target = tmp_path / "source", tmp_path / "target"
    made(source)
    cloned(source, target)
    job, store = hooked(target)
    job.committer.meet(3, 0.05)  # it has met others, and asks at once
    store.after["lakelatch/intents/"] = die
    with pytest.raises(Died):
        job.append(rows(666), commit_user="dead", identifier=1)
    late = {path: path.read_bytes() for path in target.glob("**/lakelatch/intents/*")}
    ll.drop_table(str(target))
    cloned(source, target)
    for path, data in late.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    two_that_meet(target)
    assert late and 666 not in values(target)


def test_a_clone_beside_six_that_ride_succeeds_each_time() -> None:
    """Writers delete what they wrote for an attempt that lost, and their intents, while the clone copies."""
    url = f"memory://riding-clones-{next(COUNTER)}"
    made(f"{url}/t")
    stop = threading.Event()

    def ride(number: int) -> None:
        table = ll.open_table(f"{url}/t")
        while not stop.is_set():
            table.append(rows(number))

    writers = [threading.Thread(target=ride, args=(n,), daemon=True) for n in range(6)]
    for writer in writers:
        writer.start()
    try:
        for number in range(4):
            plan = ll.open_table(f"{url}/t").clone(f"{url}/c{number}")
            assert plan.snapshots and not any("lakelatch/intents" in info.key for info in plan.files)
    finally:
        stop.set()
        for writer in writers:
            writer.join()
    for number in range(4):
        assert ll.open_table(f"{url}/c{number}").verify("all", data=True) == []


# ---------------------------------------------------------------------------------------------------------- journals


@pytest.fixture(params=["file", "object"])
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "object" if request.param == "object" else str(tmp_path / "journal.jsonl")


def dies_before_its_answer(url: object, journal: str) -> None:
    """A job is about to send snapshot 2, and dies."""
    job, store = hooked(url, journal)
    store.before["snapshot/snapshot-"] = die
    with pytest.raises(Died):
        job.append(rows(5), commit_user="etl", identifier=1)


@EVERY_COPY
@pytest.mark.parametrize("at_the_end", [False, True])
def test_the_recovery_of_a_copy_does_nothing_to_its_source(
    copy: Callable[[Path, Path], None], at_the_end: bool, tmp_path: Path
) -> None:
    """The writer of the source is slow: between two attempts, or about to send."""
    source, target = tmp_path / "source", tmp_path / "target"
    made(source)
    job, store = hooked(source, "object")
    told: list[str] = []

    def beside() -> None:
        copy(source, target)
        told.extend(commit.outcome for commit in ll.recover(str(target), writers_are_gone=True).commits)

    def lose() -> None:
        ll.open_table(str(source)).append(rows(1), group="off")
        store.before["snapshot/snapshot-" if at_the_end else "manifest/"] = beside

    store.before["snapshot/snapshot-"] = lose
    put = store._store.put

    def watched(key: str, data: bytes) -> None:
        if key.startswith("manifest/") and "manifest/" in store.before:
            store.before.pop("manifest/")()
        put(key, data)

    store.put = watched  # type: ignore[attr-defined]
    receipt = job.append(rows(5), group="off")
    assert receipt.snapshot_id == 3 and told == (["unknown"] if copy is copied else [])
    assert values(source) == [0, 1, 5] and ll.open_table(str(source)).verify("all") == []
    assert values(target) == [0, 1]


def test_after_a_rename_the_commits_of_a_journal_are_finished(journal: str, tmp_path: Path) -> None:
    made(tmp_path / "old")
    dies_before_its_answer(tmp_path / "old", journal)
    moved(tmp_path / "old", tmp_path / "new")
    where, table = (tmp_path / "new", None) if journal == "object" else (journal, tmp_path / "new")
    (commit,) = ll.recover(where, table=table, writers_are_gone=True).commits
    assert (commit.outcome, commit.table) == ("finished", str(tmp_path / "new"))
    assert values(tmp_path / "new") == [0, 5] and not (tmp_path / "old").exists()


def test_after_a_rename_a_journal_that_the_table_names_is_found_by_identity(tmp_path: Path) -> None:
    ll.allow(tmp_path, tmp_path / "journal.jsonl")
    made(tmp_path / "old", **{"commit.journal": str(tmp_path / "journal.jsonl")})
    dies_before_its_answer(tmp_path / "old", str(tmp_path / "journal.jsonl"))
    moved(tmp_path / "old", tmp_path / "new")
    assert [c.outcome for c in ll.recover(tmp_path / "new", writers_are_gone=True).commits] == ["landed", "finished"]


def test_a_journal_alone_says_that_its_table_was_renamed_or_made_again(tmp_path: Path) -> None:
    journal = tmp_path / "journal.jsonl"
    made(tmp_path / "old")
    dies_before_its_answer(tmp_path / "old", str(journal))
    moved(tmp_path / "old", tmp_path / "new")
    (commit,) = ll.recover(journal, writers_are_gone=True).commits
    assert commit.outcome == "unknown" and f"there is no table at {tmp_path}/old" in commit.reason
    made(tmp_path / "old")
    (commit,) = ll.recover(journal, writers_are_gone=True).commits
    assert commit.outcome == "unknown" and f"another table is at {tmp_path}/old" in commit.reason
    assert values(tmp_path / "old") == [0]
    (commit,) = ll.recover(journal, table=tmp_path / "new").commits
    assert commit.outcome == "in flight", "nobody has taken it over so far"
    (commit,) = ll.recover(journal, table=tmp_path / "new", writers_are_gone=True).commits
    assert commit.outcome == "finished"


def test_a_copy_whose_source_is_gone_is_the_table_from_now_on(tmp_path: Path) -> None:
    """As after a `mv`, or a copy to which all jobs have moved."""
    made(tmp_path / "old")
    dies_before_its_answer(tmp_path / "old", "object")
    copied(tmp_path / "old", tmp_path / "new")
    (commit,) = ll.recover(tmp_path / "new", writers_are_gone=True).commits
    assert commit.outcome == "unknown" and f"this table is a copy of the one at {tmp_path}/old" in commit.reason
    ll.drop_table(str(tmp_path / "old"))
    assert [c.outcome for c in ll.recover(tmp_path / "new", writers_are_gone=True).commits] == ["finished"]


def test_a_copy_in_another_bucket_is_never_taken_for_a_renamed_table() -> None:
    one, other = (f"memory://bucket-{next(COUNTER)}/t" for _ in range(2))
    made(one)
    dies_before_its_answer(one, "object")
    source, target = MemoryStore(one), MemoryStore(other)
    for info in list(source.list("")):
        target.put(info.key, source.get(info.key))
    ll.drop_table(one)
    (commit,) = ll.recover(other, writers_are_gone=True).commits
    assert commit.outcome == "unknown" and "is a copy" in commit.reason and values(other) == [0]


def forget_identities(folder: Path) -> None:
    """The journal as an older version has written it."""
    for path in folder.glob("lakelatch/journal/*"):
        lines = [json.loads(line) for line in path.read_bytes().splitlines()]
        path.write_bytes(
            b"\n".join(json.dumps({k: v for k, v in x.items() if k != "table_id"}).encode() for x in lines)
        )


def test_a_journal_of_an_older_version_is_believed_at_its_own_address_alone(tmp_path: Path) -> None:
    made(tmp_path / "t")
    dies_before_its_answer(tmp_path / "t", "object")
    forget_identities(tmp_path / "t")
    copied(tmp_path / "t", tmp_path / "copy")
    (commit,) = ll.recover(tmp_path / "copy", writers_are_gone=True).commits
    assert commit.outcome == "unknown" and "older version" in commit.reason
    assert [c.outcome for c in ll.recover(tmp_path / "t", writers_are_gone=True).commits] == ["finished"]
    assert values(tmp_path / "t") == [0, 5] and values(tmp_path / "copy") == [0]


def test_a_table_made_again_at_its_place_is_not_asked_for_the_commits_of_the_first(
    journal: str, tmp_path: Path
) -> None:
    made(tmp_path / "t")
    dies_before_its_answer(tmp_path / "t", journal)
    kept = {path: path.read_bytes() for path in (tmp_path / "t").glob("lakelatch/journal/*")}
    ll.drop_table(str(tmp_path / "t"))
    made(tmp_path / "t")
    for path, data in kept.items():  # a late send
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    (commit,) = ll.recover(tmp_path / "t" if kept else journal, writers_are_gone=True).commits
    assert commit.outcome == "unknown" and ("before" in commit.reason or "another table is" in commit.reason)
    assert values(tmp_path / "t") == [0]


def test_an_argument_that_is_no_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="empty"):
        ll.recover(tmp_path, table="")
