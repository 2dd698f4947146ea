"""Clones and exports: every snapshot and every row, beside writers and expiries, cut off at any request."""

from __future__ import annotations

import itertools
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset as ds
import pytest
from at_each_request import Struck
from figures import NIGHTLY
from fragile import Died, die
from histories import copied, expire, filled, make, opened, rows, values

import lakelatch as ll
from lakelatch.backends.memory import MemoryStore
from lakelatch.coordinator.history.timeline import Timeline
from lakelatch.coordinator.maintenance.clone import ClonePlan, apply_clone
from lakelatch.core.errors import InvalidArgument, TableExists, Unsupported
from lakelatch.core.paths import TablePaths

COUNTER = itertools.count()
FIELDS = pa.schema([("k", pa.int64()), ("v", pa.string()), ("p", pa.string()), ("d", pa.date32())])


def some(*keys: int, p: str | None = "a") -> pa.Table:
    columns = {"k": list(keys), "v": [str(k) for k in keys], "p": [p] * len(keys), "d": [date(2024, 1, 1)] * len(keys)}
    return pa.table(columns, schema=FIELDS)


def cloned(source: MemoryStore, target: MemoryStore) -> ClonePlan:
    timeline = Timeline(source, TablePaths())
    return apply_clone(timeline, timeline.latest_schema(), target)


@pytest.mark.parametrize("keyed", [False, True])
def test_a_clone_has_the_whole_history(tmp_path: Path, keyed: bool) -> None:
    options = {"bucket": "2", "changelog-producer": "input"} if keyed else {}
    fields = pa.schema([FIELDS.field("k").with_nullable(False), *list(FIELDS)[1:]]) if keyed else FIELDS
    table = ll.create_table(f"{tmp_path}/t", fields, primary_key=["k"] * keyed, options=options)
    for n in range(4):
        table.append(some(n, n + 1).cast(table.arrow_schema))
    table.compact(full=True)
    table.alter(ll.add_column("w", "INT"))
    table.committer.settle()
    table.store.put("tag/tag-eod", table.store.get("snapshot/snapshot-2"))
    told: list[tuple[int, int]] = []
    done = table.clone(f"{tmp_path}/c", progress=lambda *count: told.append(count))
    assert told[-1] == (len(done.files), len(done.files))
    copy = ll.open_table(f"{tmp_path}/c")
    assert [s.id for s in copy.snapshots()] == [s.id for s in table.snapshots()]
    for snapshot in table.snapshots():
        assert copy.at(snapshot=snapshot.id).to_arrow().equals(table.at(snapshot=snapshot.id).to_arrow())
    assert copy.at(tag="eod").to_arrow().equals(table.at(tag="eod").to_arrow())
    assert copy.verify("all", data=True) == []
    assert {i.key: i.size for i in copy.store.list("")} == {i.key: i.size for i in table.store.list("")}
    receipt = copy.append(some(9).append_column("w", pa.array([1], pa.int32())).cast(copy.arrow_schema))
    assert receipt.snapshot_id == table.snapshots()[-1].id + 1
    with pytest.raises(TableExists, match="cloned already"):
        table.clone(f"{tmp_path}/c")


def test_a_clone_that_dies_at_any_request_is_continued_by_the_next() -> None:
    """Until it is finished there is no table; what an earlier run copied and the table has lost since is not in it."""
    source, asked = Struck(), Struck()
    make(source)
    filled(source, 1, 2)
    cloned(source, asked)
    for at in range(1, len(asked.asked) + 1):
        source, target = Struck(), Struck(at=at, strike=die)
        make(source)
        filled(source, 1, 2)
        with pytest.raises(Died):
            cloned(source, target)
        assert not ll.is_table(target.url)
        filled(source, 3)
        expire(source)
        cloned(source, target.plain())
        copy = opened(target.plain())
        assert values(target.plain()) == values(source)
        assert copy.verify("all", data=True) == []
        assert {info.key for info in target.plain().list("")} <= {info.key for info in source.list("")}


def test_a_clone_beside_a_writer_and_an_expiry_is_whole() -> None:
    """H10: at each request of the clone, another process commits and expires."""
    source = Struck()
    make(source)
    filled(source, 1, 2, 3)
    cloned(source, Struck())
    for at in range(1, len(source.asked) + 1, 1 if NIGHTLY else 2):
        source = Struck()
        make(source)
        filled(source, 1, 2, 3)
        plain = source.plain()

        def meanwhile(plain: MemoryStore = plain) -> None:
            table = opened(plain)
            table.overwrite(rows(7), partition={})
            table.append(rows(8))
            table.committer.settle()
            expire(plain)

        source.asked.clear()
        source.at, source.strike = at, meanwhile
        target = MemoryStore(f"memory://cloned-{next(COUNTER)}/t")
        cloned(source, target)
        assert opened(target).verify("all", data=True) == [], source.asked[at - 1] if at <= len(source.asked) else at
        assert values(target) in ([1, 2, 3], [7, 8], [7])


def test_a_clone_beside_an_expiry_that_is_under_way_leaves_out_what_goes() -> None:
    """H10: the expiry has deleted files, and not yet the snapshots that name them; at each request of the clone."""
    source = Struck()
    make(source)
    filled(source, 1, 2, 3)
    cloned(source, Struck())
    for at in range(1, len(source.asked) + 1, 1 if NIGHTLY else 2):
        source = Struck()
        make(source)
        table = filled(source, 1, 2, 3)
        table.overwrite(rows(7), partition={})
        table.append(rows(8))
        table.committer.settle()
        whole = copied(source)
        expiring = Struck(whole.url)
        expire(expiring)
        first_root = next(n for n, asked in enumerate(expiring.asked, 1) if asked.startswith("delete snapshot/"))
        slow = Struck(source.url, at=first_root, strike=die)

        def half(slow: Struck = slow) -> None:
            with pytest.raises(Died):
                expire(slow)

        source.asked.clear()
        source.at, source.strike = at, half
        target = MemoryStore(f"memory://cloned-{next(COUNTER)}/t")
        cloned(source, target)
        assert opened(target).verify("all", data=True) == [], source.asked[at - 1]
        assert values(target) == [7, 8]
        assert opened(target).append(rows(9)).snapshot_id == 6


def test_where_no_clone_is_made(tmp_path: Path) -> None:
    table = ll.create_table(f"{tmp_path}/t", FIELDS)
    table.append(some(1))
    for url in (f"{tmp_path}/t", f"{tmp_path}/t/in", f"{tmp_path}"):
        with pytest.raises(InvalidArgument, match="within each other"):
            table.clone(url)
    (tmp_path / "other").mkdir()
    (tmp_path / "other/file").write_text("mine")
    with pytest.raises(InvalidArgument, match="holds other files, such as file"):
        table.clone(f"{tmp_path}/other")
    ll.create_table(f"{tmp_path}/u", FIELDS)
    with pytest.raises(TableExists, match="another table"):
        table.clone(f"{tmp_path}/u")
    outside = {"data-file.external-paths": f"file://{tmp_path}/x", "data-file.external-paths.strategy": "round-robin"}
    with pytest.raises(Unsupported, match="files outside of its folder"):
        ll.create_table(f"{tmp_path}/e", FIELDS, options=outside).clone(f"{tmp_path}/f")
    with pytest.raises(InvalidArgument, match="read only"):
        table.at(snapshot=1).clone(f"{tmp_path}/g")


@pytest.mark.parametrize("file_format", ["parquet", "orc", "csv"])
def test_an_export_holds_the_rows_of_a_snapshot(tmp_path: Path, file_format: str) -> None:
    table = ll.create_table(f"{tmp_path}/t", FIELDS, partition_by=["p", "d"])
    table.append(some(1, 2))
    table.append(some(3, p="x/y"))
    table.append(some(4, p=None))
    done = table.export(f"{tmp_path}/plain", format=file_format, rows_per_file=1)
    assert (done.row_count, done.snapshot_id, done.to_dict()["files"]) == (4, 3, 3)
    assert "p=x%2Fy/d=2024-01-01/part-" in " ".join(done.files)
    found = ds.dataset(f"{tmp_path}/plain", format=file_format, partitioning="hive").to_table(columns=["k", "p"])
    assert sorted(found.to_pylist(), key=str) == sorted(table.to_arrow(columns=["k", "p"]).to_pylist(), key=str)
    assert (tmp_path / "plain/_SUCCESS").exists()
    with pytest.raises(InvalidArgument, match="holds a finished export"):
        table.export(f"{tmp_path}/plain")
    assert table.export(f"{tmp_path}/one", snapshot=1, format=file_format).row_count == 2
    assert table.at(snapshot=2).export(f"{tmp_path}/two", where="k > 1", format=file_format).row_count == 2
    with pytest.raises(InvalidArgument, match="use one of parquet, orc, csv"):
        table.export(f"{tmp_path}/none", format="avro")
    with pytest.raises(InvalidArgument, match="at least 1"):
        table.export(f"{tmp_path}/none", rows_per_file=0)


def test_an_export_of_a_table_with_a_primary_key_is_merged_and_comes_back(tmp_path: Path) -> None:
    fields = pa.schema([FIELDS.field("k").with_nullable(False), *list(FIELDS)[1:]])
    table = ll.create_table(f"{tmp_path}/t", fields, primary_key=["k"], options={"bucket": "2"})
    table.append(some(1, 2).cast(fields))
    table.delete(keys=pa.table({"k": [1]}))
    table.append(some(2, 5, p=None).cast(fields))
    table.export(f"{tmp_path}/plain")
    ll.migrate(f"{tmp_path}/plain", f"{tmp_path}/again")
    back = ll.open_table(f"{tmp_path}/again").to_arrow().to_pylist()
    assert sorted(back, key=str) == sorted(table.to_arrow().to_pylist(), key=str)


def test_an_export_that_was_cut_off_is_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under the same names, without what is left of the first run; never over files of others."""
    import lakelatch.table.export.plain_files as exporting

    table = ll.create_table(f"{tmp_path}/t", FIELDS, partition_by=["p"])
    table.append(some(1, 2))
    table.append(some(3, p="b"))
    write, wrote = exporting._write, list[str]()

    def cut_off(store: Any, key: str, *rest: Any) -> None:
        if len(wrote) == 1:
            raise Died
        wrote.append(key)
        write(store, key, *rest)

    with monkeypatch.context() as patched, pytest.raises(Died):
        patched.setattr(exporting, "_write", cut_off)
        table.export(f"{tmp_path}/plain", rows_per_file=1)
    assert not (tmp_path / "plain/_SUCCESS").exists()
    done = table.export(f"{tmp_path}/plain")
    kept = {str(path.relative_to(tmp_path / "plain")) for path in (tmp_path / "plain").rglob("*") if path.is_file()}
    assert kept == {*done.files, "_SUCCESS"}
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/file").write_text("mine")
    with pytest.raises(InvalidArgument, match="other files, such as file"):
        table.export(f"{tmp_path}/mine")
