"""Times in ORC files: fractions before 1970, writers in other zones, and what no file can hold (G8; format/data-files §3)."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from golden_filters import golden_predicate
from interop.agreement import our_rows
from interop.filters import kept
from interop.test_java_formats import java_zone
from pyarrow import orc
from values import Row, assert_same_rows, decode_rows, decode_timestamp, encode_rows, encode_timestamp

import lakelatch as ll

pytestmark = pytest.mark.java

ORC = {"file.format": "orc", "orc.timestamp-ltz.legacy.type": "false"}
EARLY = [
    "1965-06-01T00:00:00.123456000",
    "1969-12-31T23:59:58.999999000",
    "1969-12-31T23:59:58.000001000",
    "1969-12-31T23:59:59.877000000",
    "1960-01-01T00:00:00.000999000",
    "1960-01-01T00:00:00.001000000",
    "1680-01-01T00:00:00.000001000",
    "1969-12-31T23:59:59.000000000",
    "1970-01-01T00:00:00.000001000",
    "2024-01-01T00:00:00.000001000",
]
COLUMNS: list[tuple[str, Any]] = [
    ("t", "TIMESTAMP(6)"),
    ("z", "TIMESTAMP(6) WITH LOCAL TIME ZONE"),
    ("a", {"type": "ARRAY", "element": "TIMESTAMP(6)"}),
    ("r", {"type": "ROW", "fields": [{"id": 9, "name": "x", "type": "TIMESTAMP(9)"}]}),
    ("m", {"type": "MAP", "key": "TIMESTAMP(3) NOT NULL", "value": "TIMESTAMP(9)"}),
]


def random_rows(rng: random.Random, count: int) -> list[Row]:
    def value() -> Any:
        return rng.choice([*EARLY, None])

    rows: list[Row] = []
    for _ in range(count):
        moment = rng.choice(EARLY)
        keys = sorted({f"{rng.choice(EARLY)[:23]}000000" for _ in range(2)})
        pairs = [[key, value()] for key in keys]
        list_ = [value() for _ in range(rng.randint(0, 4))]
        rows.append(
            [value(), f"{moment}Z", rng.choice([None, list_]), rng.choice([None, [value()]]), rng.choice([None, pairs])]
        )
    return [*rows, [None] * 5]


@pytest.mark.parametrize("codec", ["zstd", "none", "zlib", "snappy", "lz4"])
def test_java_reads_our_fractions_before_1970(tmp_path: Path, paimon_java: Any, codec: str) -> None:
    """Also inside of arrays, rows and maps, and with filters that Java pushes down into the file."""
    path, rows = tmp_path / "t", random_rows(random.Random(codec), 300)
    table = ll.create_table(str(path), ll.Schema(COLUMNS), options={**ORC, "file.compression": codec})
    table.append(decode_rows(rows, table.schema.fields))
    assert_same_rows(our_rows(table), rows, "lakelatch")
    assert_same_rows(paimon_java.rows(path), rows, "Java")
    for wanted in ([op, "t", value] for op in ("=", "<", ">=") for value in EARLY[:4]):
        expected = kept(rows, wanted, table.schema.fields)
        assert_same_rows(paimon_java.rows(path, predicate=wanted), expected, f"Java, {wanted}")
        where = golden_predicate(wanted, {"t": table.schema.by_name["t"].type})
        assert_same_rows(
            encode_rows(table.to_arrow(where=where), table.schema.fields), expected, f"lakelatch, {wanted}"
        )
    assert table.verify("all", data=True) == []


def test_a_compaction_leaves_java_s_tables_readable(tmp_path: Path, paimon_java: Any) -> None:
    """Java reads its own files, then ours with the same rows. Java's own error is left out: the last second before 1970."""
    path = tmp_path / "t"
    paimon_java.create_table(path, COLUMNS[:1], options=ORC)
    rows = [[None if value[:19] == "1969-12-31T23:59:59" else value] for value in EARLY]
    for number in range(3):
        paimon_java.commit_rows(path, rows, identifier=number + 1)
    assert_same_rows(paimon_java.rows(path), rows * 3, "before")
    assert ll.open_table(str(path)).compact(min_files=2)
    assert_same_rows(paimon_java.rows(path), rows * 3, "after")
    assert_same_rows(our_rows(ll.open_table(str(path))), rows * 3, "lakelatch")


@pytest.mark.parametrize("block_size", ["64 kb", "64 mb"])
def test_many_stripes_or_row_groups_of_which_the_last_ones_are_early(
    tmp_path: Path, paimon_java: Any, block_size: str
) -> None:
    """Stripes before the first early time are not touched; positions in the file are right after it."""
    path = tmp_path / "t"
    options = {**ORC, "file.block-size": block_size, "file.compression": "none"}
    table = ll.create_table(str(path), ll.Schema([("i", "INT"), *COLUMNS[:1]]), options=options)
    rows: list[Row] = [
        [i, encode_timestamp((i - 30_000) * 1_234_567_891_000 + decode_timestamp(EARLY[-2]))]
        for i in range(40_000, 0, -1)
    ]
    data = decode_rows(rows, table.schema.fields)
    with table.transaction() as transaction:
        for start in range(0, len(rows), 4000):
            transaction.append(data.slice(start, 4000))
    (file,) = path.rglob("data-*.orc")
    stripes = orc.ORCFile(file).nstripes
    assert stripes > 3 if block_size == "64 kb" else stripes == 1
    assert_same_rows(our_rows(table), rows, "lakelatch")
    assert_same_rows(paimon_java.rows(path), rows, "Java")
    for row in (rows[-7], rows[22_222]):
        assert_same_rows(paimon_java.rows(path, predicate=["=", "i", row[0]]), [row], "Java, one row")
        assert_same_rows(paimon_java.rows(path, predicate=["=", "t", row[1]]), [row], "Java, one row")


ZONES = ["Asia/Shanghai", "America/New_York", "Europe/London", "Africa/Monrovia", "UTC"]


@pytest.mark.parametrize("zone", ZONES)
def test_times_around_1970_of_writers_in_other_zones(tmp_path: Path, paimon_java: Any, zone: str) -> None:
    """lakelatch reads what Java reads in the writer's zone, to the nanosecond, on every side of both 1970s."""
    path, rng = tmp_path / "t", random.Random(zone)
    fractions = [0, 1_000, 999_000, 1_000_000, 500_000_000, 999_999_000]
    offsets = (-18_000, -2_670, 0, 3_600, 28_800)
    seconds = [base + step for base in offsets for step in range(-2, 3)] + [
        rng.randint(-40_000, 40_000) for _ in range(99)
    ]
    times = [encode_timestamp(second * 1_000_000_000 + f) for second in seconds for f in fractions]
    kind = {"type": "ARRAY", "element": "TIMESTAMP(6)"}
    paimon_java.create_table(
        path, [("s", "STRING"), ("t", "TIMESTAMP(6)"), ("l", kind)], options={"file.format": "orc"}
    )
    with java_zone(zone):
        paimon_java.commit_rows(path, [[t, t, [None, t]] for t in times])
        theirs = paimon_java.rows(path)
    assert sum(row[0] != row[1] for row in theirs) <= len(fractions)  # Java's own error, in the second before its 1970
    assert_same_rows(our_rows(ll.open_table(str(path))), theirs, zone)


def test_a_time_that_no_orc_file_tells_from_another_is_refused(tmp_path: Path) -> None:
    """Before any row is taken, and by the column's name; the same time is taken in other formats."""
    for file_format, refused in (("orc", True), ("parquet", False), ("avro", False)):
        path = tmp_path / file_format
        options = {"file.format": file_format}
        table = ll.create_table(str(path), ll.Schema([("c", "TIMESTAMP(6)")]), options=options)
        rows = decode_rows([["1969-12-31T23:59:59.999999000"]], table.schema.fields)
        if refused:
            with pytest.raises(ll.InvalidArgument, match="column 'c': a time in the last second before 1970"):
                table.append(rows)
            assert not list(path.rglob("data-*"))
        else:
            table.append(rows)
            assert our_rows(table) == [["1969-12-31T23:59:59.999999000"]]


LOCAL = "TIMESTAMP(6) WITH LOCAL TIME ZONE"
NESTED = {"type": "ROW", "fields": [{"id": 9, "name": "x", "type": {"type": "ARRAY", "element": LOCAL}}]}


def test_an_orc_table_with_local_times_is_written_without_options(tmp_path: Path, paimon_java: Any) -> None:
    """A new table gets the option that it needs, also when its first such column is added. Java reads the same rows."""
    path, moment = tmp_path / "t", "2024-02-29T12:34:56.123456000Z"
    table = ll.create_table(str(path), ll.Schema([("i", "INT"), ("n", NESTED)]), options={"file.format": "orc"})
    rows = [[1, [[moment, None]]]]
    table.append(decode_rows(rows, table.schema.fields))
    with java_zone("Asia/Shanghai"):
        assert_same_rows(paimon_java.rows(path), rows)
    plain = ll.create_table(str(tmp_path / "p"), ll.Schema([("i", "INT")]), options={"file.format": "orc"})
    assert "orc.timestamp-ltz.legacy.type" not in plain.schema.option_texts
    plain.append(decode_rows([[1]], plain.schema.fields))
    plain.alter(ll.add_column("z", LOCAL))
    plain = ll.open_table(plain.url)
    plain.append(decode_rows([[2, moment]], plain.schema.fields))
    with java_zone("America/New_York"):
        assert_same_rows(paimon_java.rows(tmp_path / "p"), [[1, None], [2, moment]])
    changed = ll.create_table(str(tmp_path / "c"), ll.Schema([("z", LOCAL)]))
    changed.append(decode_rows([[moment]], changed.schema.fields))
    with pytest.raises(ll.InvalidArgument, match=r"'file\.format' = orc: .* column 'z'"):
        changed.alter(ll.set_option("file.format", "orc"))
    changed.alter(ll.set_option("file.format", "orc"), ll.set_option("orc.timestamp-ltz.legacy.type", False))


def test_an_orc_table_of_java_with_local_times_is_refused_before_any_row(tmp_path: Path, paimon_java: Any) -> None:
    """Its files depend on the zone of their writer. Rows go into files of another format, and Java reads both."""
    path, moment = tmp_path / "t", "2024-02-29T12:34:56.123456000Z"
    paimon_java.create_table(path, [("z", LOCAL)], options={"file.format": "orc"})
    with java_zone("Asia/Shanghai"):
        paimon_java.commit_rows(path, [[moment]])
    table = ll.open_table(str(path))
    rows = decode_rows([[moment]], table.schema.fields)
    for change in (table.append, table.overwrite):
        with pytest.raises(ll.Unsupported, match="column 'z'") as refused:
            change(rows)
        assert "set_option('file.format', 'parquet')" in str(refused.value)
    assert len(list(path.rglob("data-*"))) == 1
    table.alter(ll.set_option("file.format", "parquet"))
    ll.open_table(str(path)).append(rows)
    with java_zone("Asia/Shanghai"):
        assert_same_rows(paimon_java.rows(path), [[moment]] * 2)


@pytest.mark.parametrize("zone", ["Asia/Shanghai", "America/New_York"])
def test_the_zone_of_writers_whose_files_do_not_name_it_is_an_option(
    tmp_path: Path, paimon_java: Any, zone: str
) -> None:
    """Java reads these files in the zone of its own machine; lakelatch reads them in the zone that the table names."""
    path = tmp_path / "t"
    paimon_java.create_table(path, [("z", LOCAL), ("n", NESTED)], options={"file.format": "orc"})
    rows = [[m, [[m, None]]] for m in ("2024-02-29T12:34:56.123456000Z", "2024-07-01T00:00:00.000000000Z")]
    with java_zone(zone):
        paimon_java.commit_rows(path, rows)
        assert_same_rows(paimon_java.rows(path), rows)
    table = ll.open_table(str(path))
    table.alter(ll.set_option("orc.timestamp-ltz.writer-zone", zone))
    assert_same_rows(our_rows(ll.open_table(str(path))), rows)
    with pytest.raises(ll.InvalidArgument, match=r"orc\.timestamp-ltz\.writer-zone.*'Asia/Shangai' is not a time zone"):
        table.alter(ll.set_option("orc.timestamp-ltz.writer-zone", "Asia/Shangai"))
