"""Clones by reference: the rows of the newest snapshot, no data file of their own, and no deletion in the other table (H16)."""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from at_each_request import Struck
from dying_store import contents
from figures import NIGHTLY
from fragile import Died, Fragile, die
from histories import expire, filled, make, opened, rows, values

import lakelatch as ll
from lakelatch.backends.memory import MemoryStore
from lakelatch.backends.store import Unknown
from lakelatch.coordinator.maintenance.expiry.expire import apply_expiry, plan_expiry
from lakelatch.coordinator.maintenance.expiry.retention import Retention
from lakelatch.core.errors import (
    CommitConflict,
    InvalidArgument,
    StoreUnavailable,
    TableCorrupt,
    TableExists,
    Unsupported,
)
from lakelatch.core.places import FileKeys

COUNTER = itertools.count()
FIELDS = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.string()), ("p", pa.string())])
STRANGE = "a b/é%2F:"
KINDS: dict[str, dict[str, Any]] = {
    "append": {"options": {"deletion-vectors.enabled": "true"}},
    "keyed": {"primary_key": ["k", "p"], "options": {"bucket": "2", "changelog-producer": "input"}},
    "vectors": {
        "primary_key": ["k", "p"],
        "options": {"bucket": "1", "deletion-vectors.enabled": "true", "changelog-producer": "lookup"},
    },
}

BY_DAY = list(KINDS) if NIGHTLY else ["append", "vectors"]


def some(*keys: int, v: str = "x") -> pa.Table:
    columns = {"k": list(keys), "v": [v] * len(keys), "p": [STRANGE if k % 2 else "even" for k in keys]}
    return pa.table(columns, schema=FIELDS)


def made(kind: str) -> ll.Table:
    """Deleted rows, a changed schema, an index in files beside, tags; and for keys levels, vectors, changelog files."""
    given = KINDS[kind]
    table = ll.create_table(f"memory://references-{next(COUNTER)}/t", FIELDS, partition_by=["p"], **given)
    table.alter(
        ll.set_option("file-index.bloom-filter.columns", "v"), ll.set_option("file-index.in-manifest-threshold", "1 b")
    )
    table.append(some(*range(8)), commit_user="etl", identifier=1)
    table.create_tag("early")
    table.append(some(2, 3, 8, v="y"))
    table.alter(ll.add_column("w", "INT"))
    table.compact(full=True)
    table.append(some(2, 9, v="z").append_column("w", pa.array([1, 2], pa.int32())))
    table.delete(where="k = 1")
    table.committer.settle()
    return table


def shown(table: ll.Table) -> list[Any]:
    return sorted(map(str, table.to_arrow().to_pylist()))


def shown_rows(rows: pa.Table) -> list[Any]:
    return sorted(map(str, rows.to_pylist()))


def data_files(table: ll.Table) -> set[str]:
    return {info.key for info in table.store.list("") if "bucket-" in info.key}


def expired(table: ll.Table) -> None:
    """Expire all but the newest snapshot, days later."""
    later = int(time.time() * 1000) + 10 * 86_400_000
    retention = Retention.of(table.schema.options, later, retain_max=1, retain_min=1)
    apply_expiry(table.timeline, plan_expiry(table.timeline, table.schema, retention))


@pytest.mark.parametrize("kind", BY_DAY)
def test_a_clone_by_reference_reads_the_rows_where_they_are(kind: str) -> None:
    """And each goes on by itself: what is changed in one is not seen in the other."""
    table = made(kind)
    url, before = f"{table.url}-clone", contents(table.store)  # type: ignore[arg-type]
    plan = table.clone(url, reference=True, dry_run=True)
    assert not ll.is_table(url) and contents(table.store) == before  # type: ignore[arg-type]
    newest = table.snapshots()[-1]
    told: list[tuple[int, int]] = []
    assert table.clone(url, reference=True, progress=lambda *count: told.append(count)) == plan
    assert told[-1] == (len(told), len(plan.copied) + len(plan.manifests))
    assert (plan.referenced, plan.snapshots, plan.to_dict()["snapshot"]) == (len(table.entries()), 1, newest.id)
    assert f"Tag '{plan.tag}' of {table.url} keeps the data files" in str(plan)
    assert set(contents(table.store)) - set(before) == {f"tag/tag-{plan.tag}"}  # type: ignore[arg-type]

    copy = ll.open_table(url)
    assert [s.id for s in copy.snapshots()] == [newest.id]
    assert shown(copy) == shown(table)
    assert shown(copy.at(tag="cloned")) == shown(table)
    assert copy.verify("all", data=True) == []
    names = [e.file.external_path or "" for e in copy.entries()]
    assert names and all(name.startswith(f"{table.url}/p=") for name in names)
    changelogs = {
        k for e in table.timeline.entries(table.timeline.changelog_manifests(newest)) for k in _keys(table, e)
    }
    assert data_files(copy) == changelogs
    if changelogs:
        assert copy.system("changelog").num_rows == newest.changelog_record_count
    assert copy.append(some(8), commit_user="etl", identifier=1).replayed, "G3: identities come too"

    rows = shown(table)
    copy.append(some(100))
    copy.delete(where="k = 8")
    assert shown(table) == rows
    table.append(some(200))
    assert {100, 200} & {row["k"] for row in copy.to_arrow().to_pylist()} == {100}
    copy.compact(full=True)
    assert copy.verify("all", data=True) == []


def _keys(table: ll.Table, entry: Any) -> tuple[str, ...]:
    return FileKeys(table.schema).data(entry)


@pytest.mark.parametrize("kind", BY_DAY)
def test_nothing_that_is_done_with_the_clone_touches_the_other_table(kind: str) -> None:
    """H16: expiry, the deletion of tags, cleaning, new indexes, dropping: not a byte is changed or deleted there."""
    table = made(kind)
    copy_url = f"{table.url}-clone"
    plan = table.clone(copy_url, reference=True)
    before, copy = contents(table.store), ll.open_table(copy_url)  # type: ignore[arg-type]

    def untouched(after: str) -> None:
        assert contents(table.store) == before, after  # type: ignore[arg-type]

    copy.alter(ll.set_option("file-index.bitmap.columns", "v"))
    assert copy.rewrite_file_index(full=True).files > 0
    untouched("new indexes")
    assert copy.verify("all", data=True) == []
    copy.create_tag("mine")
    copy.create_branch("b", tag="cloned")
    copy.overwrite(some(50).append_column("w", pa.array([1], pa.int32())), partition={})
    copy.compact(full=True)
    copy.committer.settle()
    expired(copy)
    untouched("an expiry")
    assert shown(copy.at(tag="cloned")) == shown(table)
    copy.delete_branch("b")
    assert copy.delete_tag("cloned", dry_run=True).to_dict()["data_files"] == []
    copy.delete_tag("cloned")
    copy.delete_tag("mine")
    untouched("deleted tags")
    copy.clean(older_than=int(time.time() * 1000) - 3_600_000, external=True)
    copy.truncate()
    copy.committer.settle()
    expired(copy)
    assert copy.count() == 0
    ll.drop_table(copy_url)
    untouched("a drop")
    assert not list(copy.store.list(""))
    assert f"refer to it lose their rows: tags {plan.tag}" in str(ll.drop_table(table.url, dry_run=True))


@pytest.mark.parametrize("kind", BY_DAY[-1 if not NIGHTLY else 0 :])
def test_the_tag_keeps_the_clones_rows_from_the_expiry_of_the_other_table(kind: str) -> None:
    """Until the tag is deleted: then the clone says which file it lacks."""
    table = made(kind)
    plan = table.clone(f"{table.url}-clone", reference=True)
    copy = ll.open_table(f"{table.url}-clone")
    rows = shown(copy)
    table.overwrite(some(50).append_column("w", pa.array([1], pa.int32())), partition={})
    table.compact(full=True)
    table.committer.settle()
    table.delete_tag("early")
    assert table.expire_tags(older_than=int(time.time() * 1000) + 1_000_000).tags == ()
    expired(table)
    table.clean()
    assert len(table.snapshots()) == 1 and shown(copy) == rows
    assert copy.verify("all", data=True) == []
    assert table.delete_tag(plan.tag).to_dict()["data_files"]
    with pytest.raises(TableCorrupt, match="is missing"):
        shown(ll.open_table(copy.url))


def test_automatic_tags_do_not_crowd_out_those_that_keep_a_clones_files() -> None:
    """A table with one tag for each batch counts all its tags; but not these, on neither side, whatever their age."""
    daily = {"tag.automatic-creation": "batch", "tag.num-retained-max": "1", "tag.batch.customized-name": "done"}
    url = f"memory://references-{next(COUNTER)}/t"
    table = ll.create_table(url, FIELDS, options={**daily, "snapshot.expire.automatic": "false"})
    table.append(some(1))
    table.committer.settle()
    table.create_tag("older")
    plan = table.clone(f"{url}-clone", reference=True)
    copy = ll.open_table(f"{url}-clone")
    for side, kept in ((table, plan.tag), (copy, "cloned")):
        side.overwrite(some(2), partition={})
        side.committer.settle()
        assert {tag.name for tag in side.tags()} == {kept, "done"}
        assert side.auto_tag(dry_run=True).deleted == ()
        side.create_tag("by-hand")
        assert side.auto_tag().deleted == ("by-hand",)
        assert [tag.name for tag in side.expire_tags(older_than=int(time.time() * 1000) + 1_000_000).tags] == ["done"]
        expired(side)
        assert [tag.name for tag in side.tags()] == [kept]
    assert shown(copy.at(tag="cloned")) == shown(table.at(tag=plan.tag)) == shown_rows(some(1))


def test_a_tag_called_cloned_of_another_table_is_like_any_other() -> None:
    table = ll.create_table(f"memory://references-{next(COUNTER)}/t", FIELDS)
    table.append(some(1))
    table.create_tag("cloned")
    gone = table.expire_tags(older_than=int(time.time() * 1000) + 1_000_000)
    assert [tag.name for tag in gone.tags] == ["cloned"]


def test_a_clone_by_reference_that_dies_at_any_request_is_made_by_the_next() -> None:
    """On either side; until it is finished there is no table, and the end is the same as without the crash."""
    source, asked = Struck(), Struck()
    make(source)
    filled(source, 1, 2)
    source.asked.clear()
    _cloned(source, asked)
    wanted, counts = contents(asked.plain()), {"source": len(source.asked), "target": len(asked.asked)}
    assert min(counts.values()) > 8
    for side, count in counts.items():
        for at in range(1, count + 1, 1 if NIGHTLY else 3):
            source = Struck()
            make(source)
            filled(source, 1, 2)
            target = Struck(at=at if side == "target" else 0, strike=die)
            if side == "source":
                source.asked.clear()
                source.at, source.strike = at, die
            with pytest.raises(Died):
                _cloned(source, target)
            assert not ll.is_table(target.url), f"died at request {at} to the {side}"
            _cloned(source.plain(), target.plain())
            assert values(target.plain()) == [1, 2]
            assert opened(target.plain()).verify("all", data=True) == []
            assert len(contents(target.plain())) == len(wanted)
            assert [tag.name for tag in opened(source.plain()).tags() if tag.name.startswith("referenced-by-")]


def _cloned(source: MemoryStore, target: MemoryStore) -> None:
    """As `Table.clone` does, on a given store of the clone."""
    table = opened(source)
    table._beside = lambda url, options: target  # type: ignore[method-assign]
    table.clone(target.url, reference=True)


def test_a_clone_beside_writers_expiries_and_a_deleted_tag_is_whole_or_not_made() -> None:
    """H10: at each request to the clone's store another process commits and expires; or it deletes the tag as well."""
    source, asked = Struck(), Struck()
    make(source)
    filled(source, 1, 2)
    _cloned(source, asked)
    for at, untags in itertools.product(range(1, len(asked.asked) + 1, 1 if NIGHTLY else 3), (False, True)):
        source = Struck()
        make(source)
        filled(source, 1, 2)
        plain = source.plain()

        def meanwhile(plain: MemoryStore = plain, untags: bool = untags) -> None:
            table = opened(plain)
            table.overwrite(rows(7), partition={})
            table.committer.settle()
            for tag in table.tags() if untags else ():
                table.delete_tag(tag.name)
            expire(plain)

        target = Struck(at=at, strike=meanwhile)
        try:
            _cloned(source, target)
        except CommitConflict as error:
            assert untags and "run it again" in error.next_step
            assert not ll.is_table(target.url)
            _cloned(source, target.plain())
        found = opened(target.plain())
        if untags and "create schema/schema-0" in target.asked[at - 1]:
            continue  # too late for anyone to see
        assert found.verify("all", data=True) == [], target.asked[at - 1]
        assert values(target.plain()) in ([1, 2], [7])


def test_a_clone_whose_snapshot_expires_before_its_tag_is_there_says_that_it_may_be_run_again() -> None:
    """At each request to the table another process commits and expires; the table is in order all the time."""
    source, asked = Struck(), Struck()
    make(source)
    filled(source, 1, 2)
    source.asked.clear()
    _cloned(source, asked)
    refused = 0
    for at in range(1, len(source.asked) + 1, 1 if NIGHTLY else 2):
        source, target = Struck(), Struck()
        make(source)
        filled(source, 1, 2)

        plain = source.plain()

        def meanwhile(plain: MemoryStore = plain) -> None:
            table = opened(plain)
            table.overwrite(rows(7), partition={})
            table.committer.settle()
            expire(plain)

        source.asked.clear()
        source.at, source.strike = at, meanwhile
        try:
            _cloned(source, target)
        except CommitConflict as error:
            assert "run it again" in error.next_step
            refused += 1
            _cloned(plain, target.plain())
        assert values(target.plain()) in ([1, 2], [7])
    assert refused > 0


def test_where_no_clone_by_reference_is_made(tmp_path: Path) -> None:
    table = ll.create_table(f"{tmp_path}/t", FIELDS)
    with pytest.raises(InvalidArgument, match="no snapshot that a clone could refer to"):
        table.clone(f"{tmp_path}/c", reference=True)
    table.append(some(1))
    table.create_branch("b", snapshot=1)
    with pytest.raises(InvalidArgument, match="not of branch 'b'"):
        table.branch("b").clone(f"{tmp_path}/c", reference=True)
    assert not [tag for tag in table.tags() if not tag.name.startswith("branch-")]
    table.clone(f"{tmp_path}/c", reference=True)
    with pytest.raises(TableExists, match="cloned already"):
        table.clone(f"{tmp_path}/c", reference=True)
    copy = ll.open_table(f"{tmp_path}/c")
    for reference in (False, True):
        with pytest.raises(Unsupported, match=r"option 'lakelatch\.referenced-paths'"):
            copy.clone(f"{tmp_path}/d", reference=reference)  # type: ignore[call-overload]
    outside = {"data-file.external-paths": f"file://{tmp_path}/x", "data-file.external-paths.strategy": "round-robin"}
    elsewhere = ll.create_table(f"{tmp_path}/e", FIELDS, options=outside)
    elsewhere.append(some(1))
    with pytest.raises(Unsupported, match="which no tag of it would keep"):
        elsewhere.clone(f"{tmp_path}/f", reference=True)
    copy.alter(ll.remove_option("lakelatch.referenced-paths"))
    with pytest.raises(
        Unsupported, match=r"outside the table.* or 'lakelatch\.referenced-paths' if it is another table's"
    ):
        copy.to_arrow()
    with pytest.raises(Unsupported, match="it holds a comma"):
        table = ll.create_table(f"{tmp_path}/a,b/t", FIELDS)
        table.append(some(1))
        table.clone(f"{tmp_path}/g", reference=True)
    assert not [tag for tag in table.tags() if not tag.name.startswith("branch-")]


@pytest.mark.parametrize("option", ["scan.fallback-branch", "scan.primary-branch"])
def test_no_clone_by_reference_is_made_of_a_table_with_rows_of_another_branch(option: str) -> None:
    """It would have the option, and not the branch, so that each read of it would fail."""
    url = f"memory://references-{next(COUNTER)}/t"
    table = ll.create_table(url, FIELDS, partition_by=["p"])
    table.append(some(1, 2))
    table.create_branch("other", snapshot=1)
    table.branch("other").append(some(4))
    table.alter(ll.set_option(option, "other"))
    rows = shown(table.refresh())
    with pytest.raises(Unsupported, match=rf"are read from branch 'other' too \(option '{option}'\)"):
        table.clone(f"{url}-clone", reference=True)
    assert not ll.is_table(f"{url}-clone")
    assert not [tag for tag in table.tags() if not tag.name.startswith("branch-")]
    table.clone(f"{url}-clone")
    assert shown(ll.open_table(f"{url}-clone")) == rows


def test_a_last_create_of_a_clone_by_reference_without_an_answer_is_looked_at() -> None:
    source, target = Fragile(), Fragile()
    make(source)
    filled(source, 1, 2)
    target.before = {"create schema/schema-0": lambda: Unknown("timeout")}
    with pytest.raises(StoreUnavailable, match=f"not known whether the table at {target.url} was made"):
        _cloned(source, target)
    _cloned(source, target)
    assert values(target) == [1, 2]


def test_a_clone_by_reference_leaves_a_table_that_another_run_has_made_meanwhile() -> None:
    source, target = Fragile(), Fragile()
    make(source)
    filled(source, 1, 2)

    def another() -> None:
        _cloned(source, target)
        filled(target, 9)

    target.before = {"put manifest/manifest-list-": another}
    with pytest.raises(TableExists, match="another run has made a table at"):
        _cloned(source, target)
    assert sorted(values(target)) == [1, 2, 9]
    assert opened(target).verify("all", data=True) == []


def test_a_clone_by_reference_deletes_no_files_of_others() -> None:
    source, target = Fragile(), Fragile()
    make(source)
    filled(source, 1, 2)
    target.put("dt=1/part-0.parquet", b"rows of Hive")
    with pytest.raises(InvalidArgument, match=r"holds other files, such as dt=1/part-0\.parquet"):
        _cloned(source, target)
    assert target.get("dt=1/part-0.parquet") == b"rows of Hive"


def test_a_clone_refers_to_the_folder_that_a_relative_path_meant_when_the_table_was_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process may have another working directory by now, and even another table at that path."""
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
    monkeypatch.chdir(tmp_path / "a")
    table = ll.create_table("t", FIELDS, options={"bucket": "-1"})
    table.append(some(1))
    monkeypatch.chdir(tmp_path / "b")
    table.clone(f"{tmp_path}/c", reference=True)
    assert shown(ll.open_table(f"{tmp_path}/c")) == shown(table)
    for url in (f"{tmp_path}/a/t", f"{tmp_path}/a/t/in", f"{tmp_path}/a"):
        with pytest.raises(InvalidArgument, match="within each other"):
            table.clone(url, reference=True)
