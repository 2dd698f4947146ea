"""To which table a journal's commit belongs: the one at its address, the same at another place, or none that is here."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from lakelatch.backends.local import LocalStore
from lakelatch.backends.memory import MemoryStore
from lakelatch.backends.store import Store
from lakelatch.coordinator.journal.lines import Entry
from lakelatch.coordinator.protocol import events as ev
from lakelatch.coordinator.recovery.home import Home, Homes
from lakelatch.core.errors import TableNotFound
from lakelatch.core.metadata.table_identity import identity_of

COUNTER = itertools.count()
OURS, THEIRS, OF_BRANCH = b'{"id": 0, "ours": 1}', b'{"id": 0, "theirs": 1}', b'{"id": 0, "branch": 1}'
REQUESTED = ev.CommitRequested("etl", 7, "APPEND", False)


class Counting(MemoryStore):
    """Counts how often an object is read."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.read: list[str] = []

    def get(self, key: str) -> bytes:
        self.read.append(key)
        return super().get(key)


def lake() -> str:
    return f"memory://homes-{next(COUNTER)}"


def table(url: str, first: bytes | None = OURS) -> Counting:
    store = Counting(url)
    if first is not None:
        store.put("schema/schema-0", first)
        store.put("branch/branch-dev/schema/schema-0", OF_BRANCH)
    return store


def entry(url: str, first: bytes | None = OURS, branch: str = "main") -> Entry:
    """A commit that was made in the table with this schema 0; None as an older version wrote it, which noted none."""
    return Entry("c", url, 1, REQUESTED, branch, identity_of(first))


def refused(homes: Homes, one: Entry) -> str:
    with pytest.raises(TableNotFound) as raised:
        homes.of(one)
    assert raised.value.message.startswith("left alone: ")
    return raised.value.message.removeprefix("left alone: ")


# ------------------------------------------------------------------------------------------------------------ one table


def test_a_table_is_known_by_its_address_and_by_its_first_schema() -> None:
    store = table(f"{lake()}/t")
    home = Home(store)
    assert home.address == store.url
    assert (home.first_schema("main"), home.first_schema("dev"), home.first_schema("x")) == (OURS, OF_BRANCH, None)
    assert (home.identity(), home.identity("dev"), home.identity("x")) == (
        identity_of(OURS),
        identity_of(OF_BRANCH),
        "",
    )
    assert len(store.read) == 3, "each of these files is read once, also one that is not there"


@pytest.mark.parametrize(
    ("url", "first", "branch", "mine"),
    [
        ("here", OURS, "main", True),
        ("here", THEIRS, "main", True),
        ("here", None, "main", True),
        ("elsewhere", OURS, "main", True),
        ("elsewhere", THEIRS, "main", False),
        ("elsewhere", None, "main", False),
        ("elsewhere", OF_BRANCH, "dev", True),
        ("elsewhere", OURS, "dev", False),
        ("elsewhere", None, "x", False),
    ],
)
def test_of_a_journal_that_many_tables_share_a_line_is_a_tables_by_address_or_by_identity(
    url: str, first: bytes | None, branch: str, mine: bool
) -> None:
    """A line without an identity is not that of a table without a schema."""
    root = lake()
    home = Home(table(f"{root}/here"))
    assert home.may_have(entry(f"{root}/{url}", first, branch)) is mine


# ------------------------------------------------------------------------------------- a journal that is asked for all


def opened(*stores: Store) -> tuple[Homes, list[str]]:
    """Homes that find these stores by their URLs, and the URLs that were asked for."""
    asked: list[str] = []

    def store_of(url: str) -> Store:
        asked.append(url)
        return next(store for store in stores if store.url == url)

    return Homes(store_of), asked


@pytest.mark.parametrize("branch", ["main", "dev"])
def test_a_commit_is_finished_in_the_table_at_its_address(branch: str) -> None:
    store = table(f"{lake()}/t")
    homes, asked = opened(store)
    first = OURS if branch == "main" else OF_BRANCH
    for _ in range(2):
        found = homes.of(entry(store.url, first, branch))
        assert (found.store, found.paths.branch, found.first_schema) == (store, branch, first)
    assert asked == [store.url], "a table is opened once"
    assert store.read == [found.paths.schema(0)]


def test_a_commit_of_an_older_version_goes_to_whichever_table_is_there() -> None:
    """It did not note in which one it was made; so it is not compared with one either."""
    store = table(f"{lake()}/t")
    found = opened(store)[0].of(entry(store.url, None))
    assert (found.store, found.first_schema, store.read) == (store, None, [])


@pytest.mark.parametrize(("there", "told"), [(THEIRS, "another table is"), (None, "there is no table")])
def test_a_table_that_has_gone_from_its_address_is_told(there: bytes | None, told: str) -> None:
    store = table(f"{lake()}/t", there)
    assert refused(opened(store)[0], entry(store.url)) == (
        f"{told} at {store.url} by now: if its own was renamed, recover the journal with the new URL as its table"
    )


# ---------------------------------------------------------------------------------------- a journal asked for one table


def asked_for(store: Store) -> Homes:
    def store_of(url: str) -> Store:
        raise AssertionError(f"nobody is sent to {url}")

    return Homes(store_of, Home(store))


def test_the_one_table_has_its_own_commits_and_those_from_before_it_was_renamed() -> None:
    root = lake()
    store = table(f"{root}/new")
    for url in (f"{root}/new", f"{root}/old"):
        found = asked_for(store).of(entry(url))
        assert (found.store, found.paths.branch, found.first_schema) == (store, "main", OURS)
    assert asked_for(store).of(entry(f"{root}/old", OF_BRANCH, "dev")).first_schema == OF_BRANCH
    table(f"{root}/old", THEIRS)
    assert asked_for(store).of(entry(f"{root}/old")).store is store, "another table has the old name by now"


@pytest.mark.parametrize(
    ("url", "first", "told"),
    [
        ("new", THEIRS, "it was made in the table that was here before"),
        ("old", THEIRS, "it was made in another table, at {url}: recover that one"),
        ("old", None, "it was made in a table at {url}, and an older version did not note which one it was"),
    ],
)
def test_the_one_table_has_no_commits_of_others(url: str, first: bytes | None, told: str) -> None:
    root = lake()
    homes = asked_for(table(f"{root}/new"))
    assert refused(homes, entry(f"{root}/{url}", first)) == told.format(url=f"{root}/{url}")


def test_the_one_table_has_what_an_older_version_did_at_its_address() -> None:
    store = table(f"{lake()}/t")
    found = asked_for(store).of(entry(store.url, None))
    assert (found.store, found.first_schema) == (store, None)


@pytest.mark.parametrize("branch", ["main", "dev"])
def test_a_copy_of_a_table_that_is_still_there_has_none_of_its_commits(branch: str) -> None:
    """Other tools copy files as they are, identity and journal included. What was under way is the original's."""
    root = lake()
    table(f"{root}/old")
    one = entry(f"{root}/old", OURS if branch == "main" else OF_BRANCH, branch)
    told = f"this table is a copy of the one at {root}/old, where it was made: recover that one"
    assert refused(asked_for(table(f"{root}/new")), one) == told


def test_a_table_in_another_bucket_is_a_copy() -> None:
    """No table is renamed out of a bucket; and what is there now need not be looked at."""
    here, there = lake(), lake()
    told = f"this table is a copy of the one at {there}/t, where it was made: recover that one"
    assert refused(asked_for(table(f"{here}/t")), entry(f"{there}/t")) == told


def test_a_table_on_a_disk_is_the_same_under_every_spelling_of_its_path(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    store = LocalStore(f"{tmp_path}/real/t")
    store.put("schema/schema-0", OURS)
    assert Home(store).address == f"{tmp_path}/real/t"
    for url in (f"{tmp_path}/real/t", f"file://{tmp_path}/real/t/", f"{tmp_path}/link/t", f"{tmp_path}/elsewhere/t"):
        found: Any = asked_for(store).of(entry(url))
        assert found.store is store, url
    LocalStore(f"{tmp_path}/elsewhere/t").put("schema/schema-0", OURS)
    assert "this table is a copy" in refused(asked_for(store), entry(f"{tmp_path}/elsewhere/t"))
