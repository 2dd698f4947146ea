"""A table option that nobody reads is refused when it is set, with the names that may be meant."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.cli.frame.exit_codes import USAGE
from lakelatch.cli.main import main
from lakelatch.core.errors import InvalidArgument
from lakelatch.core.option_names import check_option_name
from lakelatch.core.options import ALL_OPTIONS

SCHEMA = pa.schema([("v", pa.int64())])

MISSPELT = [
    ("snapshot.time-retaned", "'snapshot.time-retained'"),
    ("snapshot.num_retained.max", "'snapshot.num-retained.max'"),
    ("File.Format", "'file.format'"),
    ("target-file-sise", "'target-file-size'"),
    ("buckets", "'bucket'"),
    ("fields.v.stats-mod", "'fields.v.stats-mode'"),
    ("fields.v.agregate-function", "'fields.v.aggregate-function'"),
    ("fields.v.stats-modes", "'fields.v.stats-mode'"),
    ("metadata.iceberg.storag", "'metadata.iceberg.storage'"),
    ("file-index.bloom.columns", ""),
    ("nothing.like.it.at.all", ""),
    ("bucket ", "'bucket'"),
    ("", ""),
]


@pytest.mark.parametrize(("key", "meant"), MISSPELT, ids=[key or "empty" for key, _ in MISSPELT])
def test_a_misspelt_option_is_refused_with_the_names_that_may_be_meant(tmp_path: Path, key: str, meant: str) -> None:
    with pytest.raises(InvalidArgument) as created:
        ll.create_table(str(tmp_path / "t"), SCHEMA, options={key: "1"})
    assert repr(key) in created.value.message
    assert meant in created.value.next_step
    assert "allow_unknown=True" in created.value.next_step
    assert not (tmp_path / "t").exists()


SPELT = [
    *(option.key for option in ALL_OPTIONS),
    "fields.a.stats-mode",
    "fields.a,b.sequence-group",
    "fields.a.b.aggregate-function",
    "file-index.bloom-filter.columns",
    "file-index.bitmap.m[key].version",
    "file-index.read.enabled",
    "metadata.iceberg.rest.uri",
    "commit.callback.com.example.Tell.param",
    "tag.callback.com.example.Tell.param",
    "consumer.expiration-time",
    "parquet.block.size",
    "orc.compress.size",
    "sink.parallelism",
    "write.merge-schema",
    "first-row.ignore-delete",
]


@pytest.mark.parametrize("key", SPELT)
def test_a_known_option_is_accepted(key: str) -> None:
    check_option_name(key)


def test_an_option_of_ones_own_programs_is_set_by_saying_so(tmp_path: Path) -> None:
    url = str(tmp_path / "t")
    table = ll.create_table(url, SCHEMA, options={"team.owner": "air"}, allow_unknown=True)
    with pytest.raises(InvalidArgument, match=r"team\.pager"):
        table.alter(ll.set_option("team.pager", "1"))
    table.alter(ll.set_option("team.pager", "1", allow_unknown=True))
    # It is in the table now, so it is no slip any more; nor does it hinder other changes.
    table.alter(
        ll.set_option("team.pager", "2"), ll.add_column("w", "INT"), ll.set_option("snapshot.num-retained.max", 9)
    )
    assert (table.options["team.owner"], table.options["team.pager"]) == ("air", "2")
    table.alter(ll.remove_option("team.owner"))
    assert "team.owner" not in ll.open_table(url).options


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    create = ["create", str(tmp_path / "t"), "--column", "v:BIGINT", "--option", "snapshot.time-retaned=1 h"]
    assert main(create) == USAGE
    assert "did you mean 'snapshot.time-retained'?" in capsys.readouterr().err
    assert main([*create, "--allow-unknown"]) == 0
