"""The files that hold users who left the property: what damage of them is called, and who deletes them (G3, G7)."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace

import pytest
from identities import (
    FOLDER,
    commit,
    expire,
    identity_files,
    new_store,
    opened,
    published,
    ref,
    remembering,
    top,
)

from lakelatch.backends.around.metered import MeteredStore
from lakelatch.coordinator.identities import pages
from lakelatch.coordinator.identities.memory import IDENTIFIERS_PROPERTY, Memory, memory_of
from lakelatch.coordinator.identities.pages import Leaf, Page, bits_of, parse_leaf, parse_page
from lakelatch.coordinator.identities.recall import Known, named_files
from lakelatch.coordinator.identities.trace import Trace
from lakelatch.coordinator.maintenance.expiry.expire import apply_expiry, plan_expiry
from lakelatch.coordinator.maintenance.expiry.retention import Retention
from lakelatch.coordinator.maintenance.orphans import apply_clean, plan_orphans
from lakelatch.core.errors import TableCorrupt
from lakelatch.table.table import Table


def many() -> tuple[MeteredStore, Table, Memory]:
    """A table that remembers 5 900 users, some in the property, some in the page, most in two leaves."""
    store = new_store()
    table = opened(store)
    memory = remembering(table, [f"query-{n}" for n in range(5_900)], first=5_000)
    return store, table, memory


def test_a_leaf_may_lie_as_deep_as_a_hash_is_long() -> None:
    """A user whose hash differs from another's only in the last bit is still found."""
    bits = pages.bits_of("query-0")
    deepest = [bits[:n] + ("1" if bits[n] == "0" else "0") for n in range(64)] + [bits]
    page = pages.Page({}, {prefix: f"leaf-{len(prefix)}" for prefix in deepest})
    assert page.prefix_of("query-0") == bits
    assert len(bits) == 64
    assert pages._covers(page.leaves)
    deeper = {**page.leaves, bits + "0": "leaf-65", bits + "1": "leaf-66"}
    del deeper[bits]
    assert not pages._covers(deeper), "no hash is as long"


def test_a_missing_page_or_leaf_is_an_error_and_never_an_unknown_user() -> None:
    store, table, memory = many()
    assert memory.page is not None
    page = parse_page(store.get(FOLDER + memory.page), "page")
    leaf = page.leaves[page.prefix_of("query-0")]
    for name in (memory.page, leaf):
        data = store.get(FOLDER + name)
        store.delete_many([FOLDER + name])
        with pytest.raises(TableCorrupt, match=name):
            commit(opened(store), "query-0", 7)
        assert [f.file for f in table.verify()] == [FOLDER + name]
        store.put(FOLDER + name, data[:-9])
        with pytest.raises(TableCorrupt, match=name):
            commit(opened(store), "query-0", 7)
        assert [f.file for f in table.verify()] == [FOLDER + name]
        store.put(FOLDER + name, data)
    assert table.verify() == []
    assert commit(opened(store), "query-0", 7) == (1, True)


@pytest.mark.parametrize("page", ["../../x", "/etc/passwd", "..", "", "manifest-1", 7, ["identities-page-1"]])
def test_a_property_that_names_a_page_elsewhere_is_refused(page: object) -> None:
    """H16."""
    store = new_store()
    table = opened(store)
    published(table, Memory(page="identities-page-1"))
    snapshot = top(table)
    text = json.dumps({"since": 1, "page": page, "users": {}})
    hostile = replace(snapshot, properties={**snapshot.properties, IDENTIFIERS_PROPERTY: text})
    store.put(f"snapshot/snapshot-{snapshot.id}", hostile.to_json())
    store.reset()
    with pytest.raises(TableCorrupt, match=f"snapshot-{snapshot.id}: property '{IDENTIFIERS_PROPERTY}'"):
        commit(opened(store), "etl", 1)
    assert [f.file for f in opened(store).verify()] == [f"snapshot/snapshot-{snapshot.id}"]


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{}",
        '{"since": "x", "users": {}}',
        '{"since": 1, "users": []}',
        '{"since": 0, "users": {}}',
        '{"since": 8, "users": {}}',
        '{"since": 1, "users": {"a": [1, 2]}}',
        '{"since": 1, "users": {"a": ["1", 2, "x"]}}',
        '{"since": 5, "page": "identities-page-1", "users": {}}',
    ],
)
def test_a_garbled_property_is_reported(text: str) -> None:
    table = opened(new_store())
    snapshot = replace(top(table), id=7, properties={IDENTIFIERS_PROPERTY: text})
    with pytest.raises(TableCorrupt, match="garbled"):
        memory_of(snapshot)


@pytest.mark.parametrize(
    ("content", "field"),
    [
        ({"leaves": {}}, "users"),
        ({"users": {"a": 1}, "leaves": {}}, "users"),
        ({"users": {}}, "leaves"),
        ({"users": {}, "leaves": {"0": "identities-leaf-1"}}, "leaves"),
        (
            {"users": {}, "leaves": {"0": "identities-leaf-1", "00": "identities-leaf-2", "01": "identities-leaf-3"}},
            "leaves",
        ),
        ({"users": {}, "leaves": {"0": "identities-leaf-1", "2": "identities-leaf-2"}}, "leaves"),
        ({"users": {}, "leaves": {"": "../identities-leaf-1"}}, "leaves"),
        ({"users": {}, "leaves": {"": "manifest-1"}}, "leaves"),
        ({"users": {}, "leaves": []}, "leaves"),
    ],
)
def test_a_garbled_page_is_reported_with_its_field(content: object, field: str) -> None:
    with pytest.raises(TableCorrupt, match=f"here: field '{field}'"):
        parse_page(gzip.compress(json.dumps(content).encode()), "here")


def test_a_file_that_is_not_a_page_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    for data in (b"", b"{}", gzip.compress(b"[]"), gzip.compress(b"{}")[:-1], gzip.compress(b"\xff")):
        with pytest.raises(TableCorrupt, match="here is not a file of identities"):
            parse_page(data, "here")
    monkeypatch.setattr(pages, "LONGEST_FILE", 1_000)
    with pytest.raises(TableCorrupt, match="too long"):
        parse_page(gzip.compress(json.dumps({"users": {}, "leaves": {}, "x": "x" * 1_000}).encode()), "here")


def test_a_leaf_of_other_users_is_reported() -> None:
    users = {f"query-{n}": Trace.of(1, ref(n)) for n in range(20)}
    with pytest.raises(TableCorrupt, match="does not begin with 1"):
        parse_leaf(Leaf("", users).to_bytes(), "1", "here")
    assert parse_leaf(Leaf("", users).to_bytes(), "", "here") == Leaf("", users)


def test_a_page_relieves_itself_of_most_users() -> None:
    """Otherwise pages would grow: with many leaves, each leaf has few users waiting in the page."""
    page = Page({f"query-{n}": Trace.of(1, ref(n)) for n in range(101)}, {"0": "a", "10": "b", "11": "c"})
    waiting = [sum(bits_of(name).startswith(prefix) for name in page.users) for prefix in ("0", "10", "11")]
    assert page.fullest_prefix({}) == "0"
    assert waiting[0] == max(waiting)
    more = [name for name in (f"more-{n}" for n in range(400)) if bits_of(name).startswith("11")]
    assert page.fullest_prefix({name: Trace.of(1, ref(0)) for name in more}) == "11"


def test_orphan_cleaning_deletes_unused_pages_and_leaves() -> None:
    """G7: files that any snapshot, tag or branch needs stay; the folder is searched like the format's own."""
    store, table, old = many()
    store.put("tag/tag-kept", top(table).to_json())
    tagged = set(named_files(top(table), table.timeline, Known()))
    commit(table, "new", 0)
    expire(table, keep=1)
    for name in ("identities-page-left-0", "identities-leaf-left-1"):
        store.put(FOLDER + name, b"left over")
    left = {info.key for info in plan_orphans(table.timeline, table.schema, 2**62).files}
    needed = set(named_files(top(table), table.timeline, Known()))
    assert old.page is not None
    assert {FOLDER + name for name in identity_files(table)} - left == tagged | needed
    assert left >= {FOLDER + "identities-page-left-0", FOLDER + "identities-leaf-left-1"}
    assert tagged - needed
    store.delete_many(["tag/tag-kept"])
    apply_clean(plan_orphans(table.timeline, table.schema, 2**62))
    assert {FOLDER + name for name in identity_files(table)} == needed
    assert FOLDER + old.page not in needed
    assert commit(opened(store), "query-0", 7) == (1, True)
    assert [f for f in table.verify("all") if f.severity == "error"] == []


def test_orphan_cleaning_stops_where_a_page_is_missing() -> None:
    """H11: leaves that only the missing page names would look unused."""
    store, table, memory = many()
    store.delete_many([f"{FOLDER}{memory.page}"])
    with pytest.raises(TableCorrupt, match=f"{memory.page} is missing"):
        plan_orphans(table.timeline, table.schema, 2**62)


def test_a_missing_page_is_named_with_the_snapshot_that_needs_it() -> None:
    store, table, memory = many()
    store.delete_many([f"{FOLDER}{memory.page}"])
    named = rf"{memory.page} is missing: .* landed earlier; snapshot/snapshot-{top(table).id} needs it"
    with pytest.raises(TableCorrupt, match=named):
        commit(opened(store), "query-0", 7)


def test_a_page_that_came_after_the_plan_keeps_its_leaves() -> None:
    """H10: the second look sees the snapshots that came since."""
    store, table, memory = many()
    needed = {key[len(FOLDER) :] for key in named_files(top(table), table.timeline, Known())}
    kept = published(table, None)
    gone = f"snapshot/snapshot-{kept.id - 1}"
    data = store.get(gone)
    store.delete_many([gone])
    plan = plan_orphans(table.timeline, table.schema, 2**62)
    assert {FOLDER + name for name in needed} <= {info.key for info in plan.files}
    store.put(gone, data)
    apply_clean(plan)
    assert identity_files(table) == needed
    assert memory.page in needed


def test_expiry_leaves_pages_to_orphan_cleaning() -> None:
    """A commit under way may carry on a leaf that only the snapshot it builds on still needs."""
    _, table, _ = many()
    before = identity_files(table)
    commit(table, "new", 0)
    retention = Retention.of(table.schema.options, 2**50, retain_min=1, retain_max=1)
    apply_expiry(table.timeline, plan_expiry(table.timeline, table.schema, retention))
    assert table.timeline.snapshot_ids() == [top(table).id]
    assert identity_files(table) >= before
