"""System tables read only what they need, and test every row with the whole predicate."""

from __future__ import annotations

from itertools import count
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lakelatch as ll
from lakelatch.backends.around.metered import MeteredStore
from lakelatch.core.errors import InvalidArgument
from lakelatch.core.metadata.data_file import ADD, DELETE, DataFile, ManifestEntry, SimpleStats
from lakelatch.core.metadata.file_columns import FileColumns
from lakelatch.core.metadata.folding import summarise
from lakelatch.core.metadata.manifest import decode_manifests, encode_manifest
from lakelatch.core.rows.binary.binary_row import encode_row
from lakelatch.core.rows.types import AtomicType, string
from lakelatch.table.system import live_files
from lakelatch.table.system.read import SYSTEM_TABLES
from lakelatch.table.table import Table

COUNTER = count()
SCHEMA = pa.schema([("p", pa.int32()), ("k", pa.int64()), ("s", pa.string())])


def rows_of(p: int, *keys: int) -> pa.Table:
    return pa.table({"p": [p] * len(keys), "k": list(keys), "s": [f"text {k}" for k in keys]}, schema=SCHEMA)


@pytest.fixture(scope="module")
def keyed() -> Table:
    """Four snapshots in two partitions of two buckets, and a deleted key."""
    return keyed_table()


@pytest.fixture(scope="module")
def compacted() -> Table:
    """The same after a compaction, whose one manifest deletes files of manifests that have one partition and level only."""
    table = keyed_table()
    table.compact(full=True)
    table.upsert(rows_of(1, 5))
    return table


def keyed_table() -> Table:
    url = f"memory://system-{next(COUNTER)}/t"
    table = ll.create_table(url, SCHEMA, partition_by=["p"], primary_key=["p", "k"], options={"bucket": "2"})
    for n in range(3):
        table.upsert(rows_of(n % 2, n, n + 1, n + 2))
    table.delete(keys=pa.table({"p": pa.array([0], pa.int32()), "k": pa.array([2])}))
    return table


def test_every_table_has_its_columns_whatever_is_asked(keyed: Table) -> None:
    for name in SYSTEM_TABLES:
        if name == "row_tracking":
            continue
        whole = keyed.system(name)
        assert keyed.system_reader(name).schema == whole.schema
        assert keyed.system(name, columns=[]).num_rows == whole.num_rows, name
        last = whole.column_names[-1]
        assert keyed.system(name, [last], limit=1).to_pylist() == whole.select([last]).slice(0, 1).to_pylist()
        assert keyed.system(name, limit=0).equals(whole.slice(0, 0)), name
    with pytest.raises(ll.InvalidArgument, match=r"row-tracking\.enabled"):
        keyed.system("row_tracking")


def test_mistakes_are_named(keyed: Table) -> None:
    with pytest.raises(ll.InvalidArgument, match=r"(?s)system table 'tag'.*tags"):
        keyed.system("tag")
    with pytest.raises(ll.InvalidArgument, match=r"system table 'tags' has no column 'tagname'.*tag_name"):
        keyed.system("tags", ["tagname"])
    with pytest.raises(ll.InvalidArgument, match="named twice"):
        keyed.system("tags", ["tag_name", "tag_name"])
    with pytest.raises(ll.InvalidArgument, match="list of names"):
        keyed.system("tags", "tag_name")
    with pytest.raises(ll.InvalidArgument, match="no column 'nothing'"):
        keyed.system("files", where="nothing = 1")
    with pytest.raises(ll.InvalidArgument, match="limit -1"):
        keyed.system("files", limit=-1)


FILTERS = [
    ("snapshots", "snapshot_id > 1 AND snapshot_id <= 3"),
    ("snapshots", "snapshot_id IN (1, 4) OR commit_kind = 'COMPACT'"),
    ("schemas", "schema_id = 1"),
    ("options", "key = 'bucket'"),
    ("files", "partition = '{1}'"),
    ("files", "partition IN ('{1}', '{7}', '{null}') AND bucket = 0"),
    ("files", "partition = '{01}'"),
    ("files", "level > 0"),
    ("files", "NOT partition = '{1}' AND level < 5"),
    ("files", "min_value_stats LIKE '%text 1%' AND record_count > 1"),
    ("buckets", "bucket = 1 AND partition = '{0}'"),
    ("partitions", "partition = 'p=1'"),
    ("manifests", "num_deleted_files = 0 AND min_partition_stats = '{1}'"),
    ("audit_log", "rowkind = '-D'"),
    ("audit_log", "rowkind = '+I' AND p = 0 AND s = 'text 0'"),
    ("changelog", "_snapshot_id >= 3"),
    ("ro", "k > 1"),
]


@pytest.mark.parametrize("which", ["keyed", "compacted"])
@pytest.mark.parametrize(("name", "where"), FILTERS)
def test_a_filter_gives_what_the_whole_table_has(
    request: pytest.FixtureRequest, which: str, name: str, where: str
) -> None:
    from lakelatch.core.expressions.binding import condition_of
    from lakelatch.core.expressions.evaluate import to_arrow_mask

    table = request.getfixturevalue(which)
    fields = SYSTEM_TABLES[name].fields(table.schema)
    whole = table.system(name)
    expected = whole.filter(to_arrow_mask(condition_of(where, fields), whole))
    assert sorted(map(repr, table.system(name, where=where).to_pylist())) == sorted(map(repr, expected.to_pylist()))


@pytest.mark.parametrize(
    ("name", "where", "own"),
    [
        ("files", "partition = 'p=1'", "partition = '{1}'"),
        ("files", "partition IN ('1', 'p=0') AND level < 5", "partition IN ('{1}', '{0}') AND level < 5"),
        ("buckets", "NOT partition = 'p=0'", "NOT partition = '{0}'"),
        ("partitions", "partition = '{1}' OR partition <> '0'", "partition = 'p=1' OR partition <> 'p=0'"),
    ],
)
def test_a_partition_may_be_spelled_in_every_way(keyed: Table, name: str, where: str, own: str) -> None:
    """The name that another listing prints finds the same rows, and what is no name of a partition is refused."""
    found = keyed.system(name, where=where)
    assert found.equals(keyed.system(name, where=own)) and found.num_rows
    with pytest.raises(InvalidArgument, match="'q' is not a partition column"):
        keyed.system(name, where="partition = 'q=1'")


def test_every_listing_finds_what_it_prints() -> None:
    """Also where values hold slashes and quotes, or are null."""
    table = ll.create_table("memory://spelled-partitions/t", SPELLED, partition_by=["p", "q"])
    table.append(
        pa.table({"p": ["a/b", "it's", None, "{x}"], "q": pa.array([1, 2, 3, None], pa.int32()), "v": [1, 2, 3, 4]})
    )
    for printed in (table.files(), table.system("files"), table.system("partitions")):
        for name in printed.column("partition").to_pylist():
            quoted = name.replace("'", "''")
            for other in ("files", "partitions", "buckets"):
                if "/b/q" not in name or other == "partitions":  # unescaped, it can be read there alone
                    assert table.system(other, where=f"partition = '{quoted}'").num_rows == 1, (name, other)


SPELLED = pa.schema([("p", pa.string()), ("q", pa.int32()), ("v", pa.int64())])


def test_files_of_one_partition(keyed: Table) -> None:
    """`files` takes a partition in the forms that every other method takes, as its own column spells it."""
    whole = keyed.files()
    for spec in ("p=1", {"p": 1}):
        found = keyed.files(partition=spec)
        assert found.num_rows and found.equals(whole.filter(pc.equal(whole.column("partition"), "p=1")))
    assert keyed.files(partition="p=9").num_rows == 0
    with pytest.raises(InvalidArgument, match="not a partition column"):
        keyed.files(partition="month=1")


def metered(table: Table) -> tuple[Table, MeteredStore]:
    store = MeteredStore(table.store)
    return Table(store, table.schema), store


def requests(table: Table, name: str, where: str | None) -> int:
    """Requests of a read, without those that find the newest snapshot and schema."""
    measured, store = metered(table)
    measured.system(name, limit=0)
    before = store.snapshot().requests
    measured.system(name, where=where)
    return int(store.snapshot().requests - before)


def test_filters_decide_what_is_read(keyed: Table) -> None:
    """Each look costs the same three requests for the newest snapshot and schema; the rest is what the filter leaves."""
    looks = requests(keyed, "options", None)
    assert requests(keyed, "snapshots", None) - looks == 1 + 4
    assert requests(keyed, "snapshots", "snapshot_id = 3") - looks == 1 + 1
    assert requests(keyed, "files", None) - looks == 2 + 4
    assert requests(keyed, "files", "partition = '{1}'") - looks == 2 + 1
    assert requests(keyed, "files", "partition = '{1}' OR partition = '{9}'") - looks == 2 + 1
    assert requests(keyed, "files", "partition > '{1}'") - looks == 2 + 4
    assert requests(keyed, "files", "level > 3") - looks == 2
    assert requests(keyed, "buckets", "bucket > 7") - looks == 2


def test_the_state_of_an_older_snapshot(keyed: Table) -> None:
    old = keyed.at(snapshot=1)
    assert (
        old.system("files", ["record_count"]).num_rows
        == keyed.system("changelog", where="_snapshot_id = 1").num_rows - 1
    )
    assert old.system("partitions", ["partition", "record_count"]).to_pylist() == [
        {"partition": "p=0", "record_count": 3}
    ]
    assert [row["k"] for row in old.system("audit_log").sort_by("k").to_pylist()] == [0, 1, 2]


def test_a_deleted_key_is_told_by_the_audit_log(keyed: Table) -> None:
    found = keyed.system("audit_log", ["rowkind", "k"], where="p = 0").sort_by("k").to_pylist()
    assert found == [{"rowkind": kind, "k": k} for kind, k in [("+I", 0), ("+I", 1), ("-D", 2), ("+I", 3), ("+I", 4)]]
    wrapped = keyed.system("binlog", ["rowkind", "k"], where="rowkind = '-D'").to_pylist()
    assert wrapped == [{"rowkind": "-D", "k": [2]}]


# ----------------------------------------------------------------------------------------------------- many entries


def entry(number: int, kind: int = ADD) -> ManifestEntry:
    types = [AtomicType("INT"), AtomicType("BIGINT"), string()]
    values = [None if number % 7 == 0 else number % 3, number * 10**12, f"{'é' * (number % 9)}{number}"]
    file = DataFile(
        f"data-{number}-0.parquet",
        number,
        number + 1,
        value_stats=SimpleStats(encode_row(values, types), encode_row(values, types), (1, None, number)),
        level=number % 3,
        creation_time=1_700_000_000_000 + number,
        file_source=None if number % 5 == 0 else number % 2,
        value_stats_cols=None if number % 4 else (),
        external_path=f"file:/elsewhere/data-{number}" if number % 11 == 0 else None,
        first_row_id=number if number % 2 else None,
        write_cols=("p", "k", "s") if number % 13 == 0 else None,
    )
    partition = encode_row([number % 2 or None], [AtomicType("INT")])
    return ManifestEntry(kind, partition, number % 3, 3, file)


COLUMNS = (
    "partition", "bucket", "total_buckets", "file_name", "file_size", "row_count", "schema_id", "level", "min_key", "max_key",
    "min_values", "max_values", "null_counts", "min_sequence_number", "max_sequence_number", "creation_time",
    "delete_row_count", "file_source", "external_path", "first_row_id", "write_cols", "value_stats_cols",
)  # fmt: skip


def test_columns_of_manifests_equal_those_of_their_entries() -> None:
    import numpy as np

    entries = [entry(n) for n in range(300)]
    data = encode_manifest(entries)
    (part,) = decode_manifests([("manifest-1", data)])
    assert not isinstance(part, list)
    some = np.array([0, 3, 7, 77, 299])
    for name in COLUMNS:
        assert FileColumns(part).column(name).equals(FileColumns(entries).column(name)), name
        assert FileColumns(part).chosen(some).column(name).equals(FileColumns(entries, some).column(name)), name


def test_many_entries_become_the_rows_that_few_become(monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries that stay columns, and entries that are objects, give the same table; a file that was deleted is in neither."""
    entries = [entry(n) for n in range(500)] + [entry(n, DELETE) for n in range(40, 60)]
    halves = [entries[:250], entries[250:490], entries[490:]]

    class Manifests:
        """Gives the entries of manifests that are not in any store."""

        def __init__(self, parts: list[Any]) -> None:
            self.parts = parts

        def manifests(self, snapshot: Any) -> list[Any]:
            return [
                summarise(str(i), 1, half, table.schema.partition_fields, table.schema.id)
                for i, half in enumerate(halves)
            ]

        def entry_parts(self, manifests: list[Any]) -> list[Any]:
            return [self.parts[int(m.file_name)] for m in manifests]

        def __getattr__(self, name: str) -> Any:
            return getattr(table.timeline, name)

    table = ll.create_table(f"memory://system-{next(COUNTER)}/t", SCHEMA, partition_by=["p"])
    table.append(rows_of(1, 1))
    view = table.system_view()
    encoded = [(f"manifest-{i}", encode_manifest(half)) for i, half in enumerate(halves)]
    as_columns = [part for one in encoded for part in decode_manifests([one])]
    monkeypatch.setattr(live_files, "CHUNK", 64)
    monkeypatch.setattr(live_files, "FIRST_CHUNK", 16)
    monkeypatch.setattr(live_files, "HELD", 1)
    from dataclasses import replace

    from lakelatch.table.system.read import read_system

    found = [
        read_system(replace(view, timeline=Manifests(parts)), "files").read_all()  # type: ignore[arg-type]
        for parts in (as_columns, halves)
    ]
    assert found[0].num_rows == 480
    assert found[0].sort_by("file_path").equals(found[1].sort_by("file_path"))
    names = found[0]["file_path"].to_pylist()
    assert not any(f"data-{n}-0.parquet" in name for n in range(40, 60) for name in names)
    assert set(found[0]["file_format"].to_pylist()) == {"parquet"}


@pytest.mark.parametrize(
    ("values", "kind", "wanted"),
    [
        (
            ["1970-01-01 00:00:01.500", "1970-01-01 00:02:00.000"],
            "TIMESTAMP(3)",
            ["null", "null"],
        ),  # 16 letters are kept
        (["1970-01-01", "1970-01-01 00:00:01.500"], "TIMESTAMP(3)", ["1970-01-01T00:00", "null"]),
        (["10", "9"], "INT", ["10", "9"]),
    ],
)
def test_a_bound_that_was_cut_and_fits_no_other_type_is_left_out(
    values: list[str], kind: str, wanted: list[str]
) -> None:
    """Statistics keep the beginning of a text. Other files of the table, and other columns, are told all the same."""
    table = ll.create_table(f"memory://system-{next(COUNTER)}/t", pa.schema([("n", pa.int64()), ("s", pa.string())]))
    for text in values:
        table.append(pa.table({"n": [1], "s": [text]}))
    table.alter(ll.update_type("s", kind, force=True))
    found = table.system("files", ["min_value_stats"])["min_value_stats"].to_pylist()
    assert sorted(found) == sorted(f"{{n=1, s={text}}}" for text in wanted)
