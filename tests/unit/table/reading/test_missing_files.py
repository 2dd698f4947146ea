"""An error about a missing file names the file that refers to it, from the snapshot down to the index of a data file."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from damage import flights_table

import lakelatch as ll
from lakelatch.core.errors import TableCorrupt


@pytest.fixture
def flights(tmp_path: Path) -> ll.Table:
    return flights_table(str(tmp_path / "flights"))


def remove(table: ll.Table, key: str) -> str:
    (Path(table.url) / key).unlink()
    return key


def error_of(read: Callable[[], Any]) -> str:
    with pytest.raises(TableCorrupt) as caught:
        read()
    again = pickle.loads(pickle.dumps(caught.value))  # a Spark task sends it to the driver
    assert (str(again), again.missing, again.needed_by) == (
        str(caught.value),
        caught.value.missing,
        caught.value.needed_by,
    )
    return caught.value.message


@pytest.mark.parametrize("which", ["base", "delta"])
def test_a_manifest_list_is_named_with_its_snapshot(flights: ll.Table, which: str) -> None:
    snapshot = flights.snapshot()
    assert snapshot is not None
    gone = remove(flights, f"manifest/{getattr(snapshot, f'{which}_manifest_list')}")
    assert error_of(ll.open_table(flights.url).to_arrow) == f"{gone} is missing; snapshot/snapshot-3 needs it"


def test_a_manifest_is_named_with_its_list(flights: ll.Table) -> None:
    snapshot = flights.snapshot()
    assert snapshot is not None
    manifest = flights.timeline.delta_manifests(snapshot)[0].file_name
    gone = remove(flights, f"manifest/{manifest}")
    expected = f"{gone} is missing; manifest/{snapshot.delta_manifest_list} needs it"
    assert error_of(ll.open_table(flights.url).to_arrow) == expected
    assert error_of(ll.open_table(flights.url).files) == expected


def test_a_data_file_is_named_with_its_manifest_and_snapshot(flights: ll.Table) -> None:
    entry = next(e for e in flights.entries() if e.file.row_count == 2)
    named_in = next(
        m.file_name
        for m in flights.timeline.manifests(flights.snapshot())  # type: ignore[arg-type]
        if any(e.file.file_name == entry.file.file_name for e in flights.timeline.entries_of(m))
    )
    path = next(Path(flights.url).rglob(entry.file.file_name))
    gone = remove(flights, str(path.relative_to(flights.url)))
    expected = f"data file {gone} is missing; manifest/{named_in} of snapshot/snapshot-3 needs it"
    assert error_of(flights.to_arrow) == expected
    assert error_of(lambda: list(flights.to_batches(where="delay > 0"))) == expected
    earlier = flights.at(snapshot=1).to_reader()
    with pytest.raises(TableCorrupt, match=r"of snapshot/snapshot-1 needs it"):
        earlier.read_all()


def test_changes_name_the_snapshot_of_the_rows_that_came_or_went(flights: ll.Table) -> None:
    """Snapshot 3 replaced the file of month 3 that snapshot 2 had added."""
    root = Path(flights.url)
    gone = {e.file.file_name for e in flights.at(snapshot=2).entries()} - {e.file.file_name for e in flights.entries()}
    (path,) = (path for path in root.rglob("data-*") if path.name in gone)
    data = path.read_bytes()
    path.unlink()
    for start in (1, 2):  # the file came with snapshot 2, and went with snapshot 3
        assert error_of(flights.changes(start, start + 1).read_all).endswith(" of snapshot/snapshot-2 needs it")
    path.write_bytes(data)


def test_a_tag_is_named_where_its_snapshot_is_gone(flights: ll.Table) -> None:
    root = Path(flights.url)
    (root / "tag").mkdir()
    (root / "tag" / "tag-eod").write_bytes((root / "snapshot" / "snapshot-1").read_bytes())
    (root / "snapshot" / "snapshot-1").unlink()
    entry = flights.at(tag="eod").entries()[0]
    path = next(root.rglob(entry.file.file_name))
    remove(flights, str(path.relative_to(root)))
    assert error_of(flights.at(tag="eod").to_arrow).endswith(" of tag/tag-eod needs it")
    tagged = flights.at(tag="eod").snapshot()
    assert tagged is not None
    gone = remove(flights, f"manifest/{tagged.delta_manifest_list}")
    assert error_of(flights.at(tag="eod").to_arrow) == f"{gone} is missing; tag/tag-eod needs it"


def test_a_snapshot_that_expired_during_a_read_is_said_to_be_so(flights: ll.Table) -> None:
    reader = flights.at(snapshot=1).to_reader()
    for path in [*Path(flights.url).glob("month=*/bucket-0/*"), Path(flights.url) / "snapshot" / "snapshot-1"]:
        path.unlink()
    with pytest.raises(
        TableCorrupt, match=r"snapshot/snapshot-1, which has expired since the read was planned, needs it"
    ):
        reader.read_all()


def test_a_schema_is_named_with_the_snapshot_whose_files_have_it(flights: ll.Table) -> None:
    flights.alter(ll.add_column("more", "INT"))
    remove(flights, "schema/schema-0")
    table = ll.open_table(flights.url)
    expected = "schema/schema-0 is missing; a data file of snapshot/snapshot-3 needs it"
    assert error_of(table.to_arrow) == expected
    assert error_of(lambda: table.at(snapshot=2)) == "schema/schema-0 is missing; snapshot/snapshot-2 needs it"
    remove(flights, "schema/schema-1")
    said = error_of(lambda: ll.open_table(flights.url))
    assert said.endswith("there are snapshots, but no schema; snapshot/snapshot-3 needs one")


def test_a_snapshot_is_named_with_its_neighbours(flights: ll.Table) -> None:
    remove(flights, "snapshot/snapshot-2")
    said = error_of(lambda: flights.at(snapshot=2))
    assert said.endswith("later and earlier snapshots exist: snapshot/snapshot-1 and snapshot/snapshot-3")


def test_index_files_are_named_with_what_needs_them(tmp_path: Path) -> None:
    """The index beside a data file, and that data file."""
    options = {"file-index.bloom-filter.columns": "x", "file-index.in-manifest-threshold": "1 b"}
    table = ll.create_table(str(tmp_path / "t"), pa.schema([("x", pa.int64())]), options=options)
    table.append(pa.table({"x": [1, 5, 9]}))
    path = next(Path(table.url).rglob("*.index"))
    gone = remove(table, str(path.relative_to(table.url)))
    data_file = table.entries()[0].file.file_name
    assert (
        error_of(lambda: table.to_arrow(where="x = 4"))
        == f"file index {gone} is missing; data file {data_file} needs it"
    )
