"""How users move from the property into a page, and from a page into leaves: what each file holds afterwards."""

from __future__ import annotations

import gzip
import itertools
import json
from collections.abc import Callable

import pytest
from by_hand.histories import of

from lakelatch.coordinator.identities import memory as identity
from lakelatch.coordinator.identities import pages
from lakelatch.coordinator.identities.memory import Memory
from lakelatch.coordinator.identities.pages import (
    IdentityFile,
    Leaf,
    Page,
    bits_of,
    parse_leaf,
    parse_page,
    spill,
    split,
)
from lakelatch.coordinator.identities.trace import Trace
from lakelatch.core.errors import TableCorrupt

BITS = 64


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """The property holds four users, a page five, a leaf three."""
    monkeypatch.setattr(identity, "REMEMBERED_USERS", 4)
    monkeypatch.setattr(pages, "PAGE_USERS", 5)
    monkeypatch.setattr(pages, "LEAF_USERS", 3)


def users(*names: str, identifier: int = 1) -> dict[str, Trace]:
    return {name: Trace.of(identifier, of(1)) for name in names}


def named(prefix: str, number: int, kind: str = "user") -> list[str]:
    """So many names whose hash begins with these bits."""
    found = (name for n in itertools.count() if bits_of(name := f"{kind}-{n}").startswith(prefix))
    return list(itertools.islice(found, number))


def numbered() -> Callable[[str], str]:
    count = itertools.count(1)
    return lambda kind: f"{kind}-{next(count)}"


def held(files: tuple[IdentityFile, ...]) -> tuple[Page, dict[str, Leaf]]:
    """The page, which is the last of the files, and the leaves among them by their names."""
    page = parse_page(files[-1].data, files[-1].name)
    prefixes = {name: prefix for prefix, name in page.leaves.items()}
    return page, {file.name: parse_leaf(file.data, prefixes[file.name], file.name) for file in files[:-1]}


def test_users_that_leave_the_property_come_into_the_page(few: None) -> None:
    memory = Memory(users=users("a", "b", "c", "d", "e", identifier=2))
    old = Page(users("b", "x"))
    after, files = spill(memory, old, None, numbered())
    assert after == Memory(1, users("d", "e", identifier=2), "identities-page-1")
    page, leaves = held(files)
    both = Trace(2, of(1), ((1, 2),), ((1, 1),))
    assert page == Page({**users("x"), **users("a", "c", identifier=2), "b": both}), "what is older counts, too"
    assert leaves == {}


def test_a_page_that_is_just_full_keeps_its_users(few: None) -> None:
    memory = Memory(users=users("a", "b", "c", "d", "e"))
    after, files = spill(memory, Page(users("x", "y")), Leaf(""), numbered())
    page, leaves = held(files)
    assert (len(page.users), leaves, page.leaves) == (5, {}, {})
    assert after.page == files[-1].name == "identities-page-1"


def test_a_page_that_is_too_long_moves_the_users_of_one_leaf(few: None) -> None:
    low, high = named("0", 4), named("1", 4)
    memory = Memory(users=users(*low[:3], "zz", "zzz", identifier=2))
    page = Page(users(*high[:3], low[3]), {"0": "identities-leaf-old", "1": "identities-leaf-other"})
    after, files = spill(memory, page, Leaf("0", users(low[0])), numbered())
    made, leaves = held(files)
    assert made.users == users(*high[:3])
    assert made.leaves["1"] == "identities-leaf-other"
    assert "identities-leaf-old" not in made.leaves.values()
    found = {name: one for leaf in leaves.values() for name, one in leaf.users.items()}
    both = Trace(2, of(1), ((1, 2),), ((1, 1),))
    assert found == {**users(*low[1:3], identifier=2), low[0]: both, **users(low[3])}, "the leaf's own entry stays"
    assert len(leaves) == len(made.leaves) - 1 > 1, "four users are too many for one leaf"
    assert [file.name.rpartition("-")[0] for file in files] == ["identities-leaf"] * len(leaves) + ["identities-page"]
    assert list(after.users) == ["zz", "zzz"]


def test_a_first_leaf_takes_all_users(few: None) -> None:
    memory = Memory(users=users("a", "b", "c", "d", "e"))
    _, files = spill(memory, Page(users("x", "y", "z")), Leaf(""), numbered())
    page, leaves = held(files)
    assert page.users == {}
    assert sorted(name for leaf in leaves.values() for name in leaf.users) == ["a", "b", "c", "x", "y", "z"]


def test_a_leaf_is_split_only_where_it_is_too_long(few: None) -> None:
    assert split(Leaf("", users("a", "b", "c"))) == [Leaf("", users("a", "b", "c"))]
    low, high = named("0", 3), named("1", 1)
    assert split(Leaf("", users(*low, *high))) == [Leaf("0", users(*low)), Leaf("1", users(*high))]
    deep = named("110", 4)
    parts = split(Leaf("1", users(*deep)))
    assert parts[0] == Leaf("10")
    assert {name for part in parts for name in part.users} == set(deep)
    assert all(len(part.users) <= 3 and all(bits_of(n).startswith(part.prefix) for n in part.users) for part in parts)


def test_users_of_one_hash_share_a_leaf_however_many_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """A prefix ends with the hash: there is no further bit to tell them apart."""
    bits = bits_of("etl")
    assert len(bits) == BITS
    monkeypatch.setattr(pages, "LEAF_USERS", 0)
    monkeypatch.setattr(pages, "bits_of", lambda name: bits)
    whole = Leaf(bits, users("etl", "twin"))
    assert split(whole) == [whole]
    last = sorted((whole, Leaf(bits[:-1] + "10"[int(bits[-1])])), key=lambda leaf: leaf.prefix)
    assert split(Leaf(bits[:-1], whole.users)) == last


def test_one_user_stays_in_one_leaf_however_many_gaps_it_has(few: None) -> None:
    """One read then tells of all its identifiers."""
    alone = Leaf("", {"etl": Trace(99, of(1), tuple((n, n) for n in range(1, 100, 2)))})
    assert split(alone) == [alone]
    (low,), (high,) = named("0", 1), named("1", 1)
    many = Leaf("", {low: alone.users["etl"], high: Trace.of(1, of(1))})
    assert split(many) == [Leaf("0", {low: many.users[low]}), Leaf("1", {high: many.users[high]})]


def test_the_leaf_of_a_user_is_the_one_whose_prefix_its_hash_has() -> None:
    (low,), (high,) = named("0", 1), named("11", 1)
    page = Page({}, {"0": "a", "10": "b", "11": "c"})
    assert (page.prefix_of(low), page.prefix_of(high)) == ("0", "11")
    assert Page({}, {"": "a"}).prefix_of(low) == ""
    assert Page().prefix_of(low) == ""


def test_of_two_leaves_the_fuller_one_is_relieved() -> None:
    low, high = named("0", 5), named("1", 4)
    leaves = {"0": "a", "1": "b"}
    assert Page(users(*low[:2], *high[:3]), leaves).fullest_prefix({}) == "1"
    assert Page(users(*low[:2], *high[:3]), leaves).fullest_prefix(users(*low[2:])) == "0"
    assert Page(users(*low)).fullest_prefix(users(*high)) == "", "there is no leaf yet"


def test_files_are_read_as_they_were_written() -> None:
    page = Page({"é": Trace.of(7, of(3, "x"))}, {"0": "identities-leaf-1", "1": "identities-leaf-2"})
    assert parse_page(page.to_bytes(), "here") == page
    assert json.loads(gzip.decompress(page.to_bytes())) == {
        "users": {"é": [7, 3, "x"]},
        "landed": {},
        "leaves": {"0": "identities-leaf-1", "1": "identities-leaf-2"},
    }
    assert gzip.decompress(Leaf("", {"é": Trace.of(7, of(3, "x"))}).to_bytes()).decode() == (
        '{"users":{"é":[7,3,"x"]},"landed":{}}'
    )
    leaf = Leaf(bits_of("é")[:5], page.users)
    assert parse_leaf(leaf.to_bytes(), leaf.prefix, "here") == leaf
    assert parse_page(Page().to_bytes(), "here") == Page()


@pytest.mark.parametrize(
    ("prefixes", "cover"),
    [
        ([""], True),
        (["0", "1"], True),
        (["0", "10", "11"], True),
        (["00", "01", "1"], True),
        (["0"], False),
        (["0", "10"], False),
        (["0", "1", "11"], False),
        (["00", "01", "10", "11", "0"], False),
        (["0", "00", "11"], False),  # as many hashes as there are, some of them twice
        (["", "0"], False),
        (["0", "x"], False),
        (["0", "1 "], False),
        (["0" * 64] + ["0" * n + "1" for n in range(64)], True),
        (["0" * 65] + ["0" * n + "1" for n in range(65)], False),
    ],
)
def test_the_leaves_of_a_page_cover_every_hash_once(prefixes: list[str], cover: bool) -> None:
    data = gzip.compress(json.dumps({"users": {}, "leaves": dict.fromkeys(prefixes, "identities-leaf-1")}).encode())
    if cover:
        assert sorted(parse_page(data, "here").leaves) == sorted(prefixes)
        return
    with pytest.raises(TableCorrupt, match="here: field 'leaves' does not cover every hash once"):
        parse_page(data, "here")


@pytest.mark.parametrize("users", [{"a": [1, 2]}, {"a": 1}, {"a": ["1", 2, "x"]}, [], None, 7])
def test_garbled_users_are_reported_with_their_file_and_field(users: object) -> None:
    for raw in ({"users": users, "leaves": {}}, {"leaves": {}}):
        data = gzip.compress(json.dumps(raw).encode())
        with pytest.raises(TableCorrupt, match="here: field 'users' is garbled"):
            parse_page(data, "here")
        with pytest.raises(TableCorrupt, match="here: field 'users' is garbled"):
            parse_leaf(data, "", "here")


@pytest.mark.parametrize("content", [b"", b"plain", b"[]", b"7", b"{"])
def test_what_is_no_file_of_identities_is_reported(content: bytes) -> None:
    data = content if content in (b"", b"plain") else gzip.compress(content)
    for read in (lambda: parse_page(data, "here"), lambda: parse_leaf(data, "", "here")):
        with pytest.raises(TableCorrupt, match="here is not a file of identities"):
            read()
