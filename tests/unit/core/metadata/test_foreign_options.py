"""Options that would make Apache Paimon read other rows, or keep it from writing, are refused (format/schema §1)."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.core.errors import InvalidArgument, Unsupported

SCHEMA = pa.schema([("v", pa.int64())])
READING = {
    "scan.snapshot-id": "1",
    "scan.tag-name": "t",
    "scan.bucket": "0",
    "scan.timestamp-millis": "1",
    "incremental-between": "1,2",
    "branch": "b",
}


@pytest.mark.parametrize("option", READING)
def test_an_option_of_one_read_does_not_go_into_a_schema(option: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=f"option '{option}' is one of a single read"):
        ll.create_table(str(tmp_path / "t"), SCHEMA, options={option: READING[option]})
    assert not (tmp_path / "t").exists()
    table = ll.create_table(str(tmp_path / "t"), SCHEMA)
    with pytest.raises(InvalidArgument, match=f"option '{option}' is one of a single read"):
        table.alter(ll.set_option(option, READING[option]))


def test_a_foreign_table_with_an_option_of_one_read_is_not_read_as_if_it_had_none(tmp_path: Path) -> None:
    table = ll.create_table(str(tmp_path / "t"), SCHEMA, options={"bucket": "-1"})
    for value in (1, 2):
        table.append(pa.table({"v": [value]}))
    file = tmp_path / "t" / "schema" / "schema-0"
    file.write_text(file.read_text().replace('"bucket"', '"scan.snapshot-id": "1", "bucket"'))
    foreign = ll.open_table(str(tmp_path / "t"))
    with pytest.raises(
        Unsupported, match=r"'scan\.snapshot-id' = 1, which Apache Paimon takes for every read.*remove_option"
    ):
        foreign.to_arrow()
    foreign.alter(ll.set_comment("other changes are not refused"))
    foreign.alter(ll.remove_option("scan.snapshot-id"))
    assert sorted(ll.open_table(str(tmp_path / "t")).to_arrow()["v"].to_pylist()) == [1, 2]


@pytest.mark.parametrize(
    "options",
    [
        {"manifest.compression": "none"},
        {"manifest.compression": "gzip"},
        {"manifest.compression": "lz4"},
        {"file.format": "avro", "file.compression": "none"},
        {"changelog-file.format": "avro", "changelog-file.compression": "gzip"},
    ],
)
def test_a_codec_that_apache_paimon_has_not_for_avro_is_refused(options: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="Apache Paimon cannot write Avro with it"):
        ll.create_table(str(tmp_path / "t"), SCHEMA, options=options)
    table = ll.create_table(str(tmp_path / "t"), SCHEMA)
    with pytest.raises(InvalidArgument, match="Apache Paimon cannot write Avro with it"):
        table.alter(*(ll.set_option(option, text) for option, text in options.items()))


def test_codecs_that_it_has_are_taken(tmp_path: Path) -> None:
    for number, codec in enumerate(("zstd", "deflate", "null", "snappy")):
        options = {"manifest.compression": codec, "file.format": "avro", "file.compression": codec}
        table = ll.create_table(str(tmp_path / f"t{number}"), SCHEMA, options=options)
        table.append(pa.table({"v": [1]}))
        assert table.count() == 1
    plain = ll.create_table(
        str(tmp_path / "plain"), SCHEMA, options={"file.format": "parquet", "file.compression": "none"}
    )
    plain.append(pa.table({"v": [1]}))


@pytest.mark.parametrize("option", ["data-file.prefix", "changelog-file.prefix"])
def test_a_prefix_that_hadoop_takes_for_a_scheme_or_a_folder_is_refused(option: str, tmp_path: Path) -> None:
    for prefix in ("a:b", "a/b", "../x", "a\\b"):
        with pytest.raises(InvalidArgument, match=f"option '{option}' = .*use letters"):
            ll.create_table(str(tmp_path / "t"), SCHEMA, options={option: prefix})
    table = ll.create_table(str(tmp_path / "t"), SCHEMA, options={option: "part-"})
    with pytest.raises(InvalidArgument, match=f"option '{option}' = 'a:b'"):
        table.alter(ll.set_option(option, "a:b"))
    assert table.append(pa.table({"v": [1]})) and table.count() == 1
