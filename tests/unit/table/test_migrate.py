"""A folder of plain files becomes a table: every row, every type, one commit, whatever cuts it off."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from fragile import Died

import lakelatch as ll
from lakelatch.backends.memory import MemoryStore
from lakelatch.core.errors import InvalidArgument, TableExists, Unsupported

COUNTER = itertools.count()
ROWS = pa.table(
    {
        "i": [5, None, -3],
        "u": pa.array([1, 2, 65535], pa.uint16()),
        "f": [float("nan"), -0.0, 2.5],
        "s": ["a" * 40, None, "ü"],
        "d": [date(2024, 2, 29), date(1, 1, 1), None],
        "t": [datetime(2024, 1, 1, 12), None, datetime(1969, 12, 31)],
        "dec": [Decimal("1.25"), None, Decimal("-7.50")],
        "b": [True, None, False],
        "l": [[1, 2], None, []],
        "r": [{"x": 1, "y": "z"}, None, {"x": None, "y": None}],
        "never": pa.array([None, None, None], pa.int32()),
    }
)
PARTS = {
    "month=1/day=2024-01-02/a.parquet": 1,
    "month=2/day=2024-01-03/b.parquet": 2,
    "month=2/day=2024-01-03/c.parquet": 2,
}


def plain(folder: Path, *, sizes: int = 2) -> Path:
    """A folder as Spark writes it, with files that no reader takes."""
    for name in PARTS:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(ROWS, folder / name, row_group_size=sizes)
    for name in ("_SUCCESS", "month=1/.hidden.parquet", "_temporary/x.parquet"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(b"not for readers")
    return folder


@pytest.mark.parametrize("files", ["copy", "move", "reference"])
def test_a_folder_of_hive_partitions_becomes_a_table(tmp_path: Path, files: Any) -> None:
    source, url = plain(tmp_path / "plain"), f"{tmp_path}/table"
    before = {path: path.read_bytes() for path in source.rglob("*.parquet")}
    plan = ll.migrate(str(source), url, files=files, dry_run=True)
    assert not ll.is_table(url)
    assert str(plan).startswith(f"{url}: 3 files in 2 partitions, 9 rows, ")
    assert plan.to_dict()["columns"]["day"] == "DATE" and plan.to_dict()["partition_keys"] == ["month", "day"]
    told: list[tuple[int, int]] = []
    done = ll.migrate(str(source), url, files=files, progress=lambda *count: told.append(count))
    assert done.receipt is not None and done.receipt.snapshot_id == 1
    assert told == ([] if files == "reference" else [(1, 3), (2, 3), (3, 3)])
    table = ll.open_table(url)
    found = table.to_arrow(where="month = 1").drop_columns(["month", "day"])
    assert str(found.to_pylist()) == str(ROWS.cast(found.schema).to_pylist())
    assert table.count() == 9 and sorted(table.to_arrow(columns=["month"])["month"].to_pylist()) == [1] * 3 + [2] * 6
    assert table.verify("all", data="deep") == []
    assert {path.name for path in source.rglob("*.parquet")} - {".hidden.parquet", "x.parquet"} == (
        set() if files == "move" else {"a.parquet", "b.parquet", "c.parquet"}
    )
    if files != "move":
        assert {path: path.read_bytes() for path in source.rglob("*.parquet")} == before
    assert [path.is_relative_to(source) for path in map(Path, _data_files(table))] == [files == "reference"] * 3
    receipt = table.append(table.to_arrow(limit=1))
    assert receipt.snapshot_id == 2
    assert len(list(Path(url).rglob("data-*.parquet"))) == (1 if files == "reference" else 4)


def _data_files(table: ll.Table) -> list[str]:
    return [(e.file.external_path or f"{table.url}/x").removeprefix("file:") for e in table.entries()]


def test_the_statistics_are_those_of_the_footers(tmp_path: Path) -> None:
    """Files are left out by them; what a footer may have wrong is unknown, which is always right."""
    source = plain(tmp_path / "plain")
    ll.migrate(str(source), f"{tmp_path}/table")
    table = ll.open_table(f"{tmp_path}/table")
    for where, files in (
        ("i > 5", 0), ("i = -3", 3), ("i IS NULL", 3), ("u > 65535", 0), ("s = 'b'", 3), ("s > 'ý'", 0), ("dec > 2", 0),
        ("d > '2024-02-29'", 0), ("never = 1", 0), ("never IS NULL", 3), ("f > 1000", 3), ("month = 1", 1), ("month > 2", 0),
        ("b = true", 3), ("i > 4 AND day = '2024-01-03'", 2),
    ):  # fmt: skip
        plan = table.plan(where=where)
        assert sum(len(split.files) for split in plan.splits) == files, where
    for option, bounded in (("none", False), ("counts", False), ("full", True)):
        made = ll.migrate(str(source), f"{tmp_path}/{option}", options={"metadata.stats-mode": option}).files[0]
        assert (b"aaaa" in made.value_stats.min_values + made.value_stats.max_values) == bounded
        assert (made.value_stats.null_counts or (None,))[0] == (None if option == "none" else 1)


def test_columns_of_all_files_make_the_table(tmp_path: Path) -> None:
    source = tmp_path / "plain"
    source.mkdir()
    pq.write_table(pa.table({"a": [1]}), source / "1.parquet")
    pq.write_table(pa.table({"b": ["x"], "a": [2]}), source / "2.parquet")
    ll.migrate(str(source), f"{tmp_path}/table")
    table = ll.open_table(f"{tmp_path}/table")
    assert sorted(map(str, table.to_arrow().to_pylist())) == ["{'a': 1, 'b': None}", "{'a': 2, 'b': 'x'}"]
    assert table.to_arrow(where="b IS NULL").to_pylist() == [{"a": 1, "b": None}]
    pq.write_table(pa.table({"a": ["one"]}), source / "3.parquet")
    with pytest.raises(InvalidArgument, match=r"column 'a' is BIGINT in 1\.parquet, but STRING in 3\.parquet"):
        ll.migrate(str(source), f"{tmp_path}/other")
    assert not ll.is_table(f"{tmp_path}/other")


def test_orc_and_avro_files(tmp_path: Path) -> None:
    (tmp_path / "o").mkdir()
    orc.write_table(pa.table({"v": [1, None], "s": ["a", "b"]}), tmp_path / "o/p.orc")
    done = ll.migrate(f"{tmp_path}/o", f"{tmp_path}/orc", format="orc")
    assert (done.row_count, ll.open_table(done.url).to_arrow().to_pylist()) == (
        2,
        [{"v": 1, "s": "a"}, {"v": None, "s": "b"}],
    )
    written = ll.create_table(f"{tmp_path}/w", pa.schema([("v", pa.int64())]), options={"file.format": "avro"})
    written.append(pa.table({"v": [1, None]}))
    folder = next((tmp_path / "w").glob("bucket-0"))
    with pytest.raises(Unsupported, match="columns of avro files must be given"):
        ll.migrate(str(folder), f"{tmp_path}/avro", format="avro")
    with pytest.raises(InvalidArgument, match="is no parquet file, or damaged"):
        ll.migrate(str(folder), f"{tmp_path}/avro")
    ll.migrate(str(folder), f"{tmp_path}/avro", format="avro", schema=written.arrow_schema)
    assert ll.open_table(f"{tmp_path}/avro").to_arrow()["v"].to_pylist() == [1, None]


def test_what_cannot_be_one_table_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    source = plain(tmp_path / "plain")
    for refused, told in (
        (lambda: ll.migrate(f"{tmp_path}/none", f"{tmp_path}/t"), "holds no files"),
        (lambda: ll.migrate(str(source), f"{source}/t"), "within each other"),
        (lambda: ll.migrate(f"{source}/month=1", str(source)), "within each other"),
        (lambda: ll.migrate(str(source), f"{tmp_path}/t", format="csv"), "use one of parquet, orc, avro"),
        (lambda: ll.migrate(str(source), f"{tmp_path}/t", files="link"), "use copy, move or reference"),  # type: ignore[arg-type]
        (lambda: ll.migrate(str(source), f"{tmp_path}/t", options={"bucket": "2"}), "in no buckets"),
        (lambda: ll.migrate(str(source), f"{tmp_path}/t", options={"bukket": "2"}), "bucket"),
        (
            lambda: ll.migrate(str(source), f"{tmp_path}/t", schema=pa.schema([("i", pa.int64())])),
            "partition column 'month'",
        ),
        (
            lambda: ll.migrate(str(source), f"{tmp_path}/t", schema=_typed("i", pa.date32())),
            "is BIGINT in the files",
        ),
    ):
        with pytest.raises((InvalidArgument, Unsupported), match=told):
            print(told, refused())
    (source / "month=3").mkdir()
    pq.write_table(ROWS, source / "month=3/x.parquet")
    with pytest.raises(
        InvalidArgument, match=r"partition columns \['month', 'day'\], but month=3/x\.parquet has \['month'\]"
    ):
        ll.migrate(str(source), f"{tmp_path}/t")
    (source / "month=3/x.parquet").rename(source / "month=1/day=2024-01-02/000000_0")
    with pytest.raises(InvalidArgument, match=r"does not end in \.parquet"):
        ll.migrate(str(source), f"{tmp_path}/t", files="reference")
    assert not ll.is_table(f"{tmp_path}/t")
    ll.create_table(f"{tmp_path}/t", pa.schema([("v", pa.int64())]))
    with pytest.raises(TableExists, match="another table"):
        ll.migrate(str(source), f"{tmp_path}/t")


def _typed(name: str, kind: pa.DataType) -> pa.Schema:
    return pa.schema([(name, kind), ("month", pa.int32()), ("day", pa.date32())])


def test_files_that_came_after_the_migration_are_never_deleted(tmp_path: Path) -> None:
    source, url = plain(tmp_path / "plain"), f"{tmp_path}/table"
    ll.migrate(str(source), url)
    pq.write_table(ROWS, source / "month=1/day=2024-01-02/new.parquet")
    again = ll.migrate(str(source), url, files="move")
    assert again.receipt is not None and again.receipt.replayed
    assert [path.name for path in source.rglob("month*/*/*.parquet")] == ["new.parquet"]
    assert ll.open_table(url).count() == 9


REQUESTS = ("get", "get_range", "head", "put", "put_if_absent", "list", "delete_many")


@pytest.mark.parametrize("files", ["move", "reference"])
def test_a_migration_that_dies_at_any_request_is_finished_by_the_next(
    monkeypatch: pytest.MonkeyPatch, files: Any
) -> None:
    """Each row is there once, and no original is gone before the commit."""
    source, places = f"memory://migrate-{next(COUNTER)}/plain", f"memory://migrate-{next(COUNTER)}"
    asked = [0]

    def made() -> None:
        for name in ("p=1/a.parquet", "p=2/b.parquet"):
            sink = pa.BufferOutputStream()
            pq.write_table(pa.table({"v": [1, 2]}), sink)
            MemoryStore(source).put(name, sink.getvalue().to_pybytes())

    def dies_at(number: int, run: Callable[[], Any]) -> bool:
        asked[0] = 0

        def counted(name: str) -> Any:
            call = getattr(MemoryStore, name)

            def asking(self: MemoryStore, *args: Any, **named: Any) -> Any:
                asked[0] += 1
                if asked[0] == number:
                    raise Died
                return call(self, *args, **named)

            return asking

        with monkeypatch.context() as patched:
            for name in REQUESTS:
                patched.setattr(MemoryStore, name, counted(name))
            try:
                run()
            except Died:
                return True
        return False

    for at in itertools.count(1):
        made()
        url = f"{places}/t{at}"
        died = dies_at(at, lambda url=url: ll.migrate(source, url, files=files))
        landed = ll.is_table(url) and ll.open_table(url).snapshot() is not None
        assert landed or len(list(MemoryStore(source).list(""))) == 2
        ll.migrate(source, url, files=files)
        table = ll.open_table(url)
        if files == "move":
            assert table.to_arrow().num_rows == 4
            assert list(MemoryStore(source).list("")) == []
        assert (len(table.snapshots()), len(table.entries())) == (1, 2)
        if not died:
            break
    assert at > 12


@pytest.mark.parametrize(
    ("column", "told"),
    [
        (pa.array([2**63 + 5, 1], pa.uint64()), "column 'x' has whole numbers without a sign of 64 bits"),
        (pa.array([[1], []], pa.list_(pa.uint64())), "column 'x' has whole numbers without a sign of 64 bits"),
        (pa.array([0, 3_723_456_789], pa.time64("us")), "column 'x' has times with digits below the millisecond"),
        (pa.array([0, 1], pa.time64("ns")), "column 'x' has times with digits below the millisecond"),
    ],
)
def test_columns_that_no_reader_could_read_are_refused_before_anything_is_made(
    column: pa.Array, told: str, tmp_path: Path
) -> None:
    (tmp_path / "src").mkdir()
    pq.write_table(pa.table({"x": column}), tmp_path / "src" / "f.parquet")
    with pytest.raises(InvalidArgument, match=rf"f\.parquet: {told}"):
        ll.migrate(str(tmp_path / "src"), str(tmp_path / "t"))
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["f.parquet", "src"]


def test_times_of_whole_milliseconds_are_migrated(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    pq.write_table(pa.table({"x": pa.array([None, 3_723_456_000], pa.time64("us"))}), tmp_path / "src" / "f.parquet")
    ll.migrate(str(tmp_path / "src"), str(tmp_path / "t"))
    found = ll.open_table(str(tmp_path / "t")).to_arrow()["x"].to_pylist()
    assert found == [None, time(1, 2, 3, 456000)]
