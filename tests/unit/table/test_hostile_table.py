"""H16: no operation on a hostile table, whose metadata names files outside its folder, reads or deletes anything there."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from planted import Planted

import lakelatch as ll
from lakelatch.backends.memory import MemoryStore
from lakelatch.core.metadata.data_file import DELETE, DeletionVectorRange, IndexEntry, IndexFile, ManifestEntry
from lakelatch.core.metadata.manifest import encode_index_manifest

ROWS = pa.table({"part": ["a", "b"], "v": [1, 2]})
STOLEN = 666
OTHER_BUCKET = "memory://somebody-else/private"
DAY_S = 86_400.0


class Hostile(Planted):
    """A table of four appends beside a folder `private` with files that are none of its business."""

    def __init__(self, folder: Path) -> None:
        table = ll.create_table(str(folder / "lake" / "table"), ROWS.schema, partition_by=["part"])
        for _ in range(4):
            table.append(ROWS)
        table.committer.settle()
        super().__init__(table)
        self.private = folder / "private"
        self.private.mkdir()
        like = next(self.root.glob("part=a/bucket-0/*.parquet"))
        stolen = ll.create_table(str(folder / "theirs"), ROWS.schema)
        stolen.append(pa.table({"part": ["a"], "v": [STOLEN]}))
        (self.private / like.name).write_bytes(next((folder / "theirs/bucket-0").glob("*.parquet")).read_bytes())
        self.name = like.name
        for kind in ("manifest-list", "manifest", "index-manifest"):
            self._copy(next((self.root / "manifest").glob(f"{kind}-*"), like), kind)
        (self.private / "statistics").write_text("{}")
        self.elsewhere = MemoryStore(OTHER_BUCKET)
        self.elsewhere.put(self.name, (self.private / self.name).read_bytes())

    def _copy(self, file: Path, name: str) -> None:
        shutil.copyfile(file, self.private / name)

    def both(self, change: Callable[[ManifestEntry], ManifestEntry]) -> None:
        """Snapshot 2 adds what the change makes of one of its files, and snapshot 3 deletes it again: expiry would take it."""
        bad = change(self.entries(2)[0])
        self.put_entries(2, [bad, *self.entries(2)[1:]])
        self.put_entries(3, [*self.entries(3), bad._replace(kind=DELETE)])

    def grow_old(self) -> None:
        """Everything is two days old: maintenance spares what is young."""
        for number in range(1, 5):
            self.put_snapshot(replace(self.snapshot(number), time_ms=int((time.time() - 2 * DAY_S) * 1000)))
        then = time.time() - 2 * DAY_S
        for path in [*self.root.rglob("*"), *self.private.iterdir()]:
            os.utime(path, (then, then))

    def outside(self) -> dict[str, bytes]:
        found = {path.name: path.read_bytes() for path in self.private.iterdir()}
        return found | {f"elsewhere/{info.key}": self.elsewhere.get(info.key) for info in self.elsewhere.list("")}


def named(table: Hostile, **changes: Any) -> None:
    table.both(lambda entry: entry._replace(file=entry.file._replace(**changes)))


def climbing_data_file(table: Hostile) -> None:
    named(table, file_name=f"../../../../private/{table.name}")


def absolute_data_file(table: Hostile) -> None:
    named(table, file_name=str(table.private / table.name))


def data_file_by_an_external_path(table: Hostile) -> None:
    named(table, external_path=f"file:{table.private}/{table.name}")


def data_file_by_a_climbing_external_path(table: Hostile) -> None:
    named(table, external_path=f"file:{table.root}/../../private/{table.name}")


def data_file_in_another_bucket(table: Hostile) -> None:
    named(table, external_path=f"{OTHER_BUCKET}/{table.name}")


def climbing_extra_file(table: Hostile) -> None:
    named(table, extra_files=(f"../../../../private/{table.name}",))


def climbing_manifest(table: Hostile) -> None:
    table.put_delta(2, [replace(table.delta(2)[0], file_name="../../../private/manifest")])


def climbing_manifest_list(table: Hostile) -> None:
    for number in (2, 4):
        table.put_snapshot(replace(table.snapshot(number), base_manifest_list="../../../private/manifest-list"))


def absolute_manifest_list(table: Hostile) -> None:
    table.put_snapshot(replace(table.snapshot(3), delta_manifest_list=str(table.private / "manifest-list")))


def climbing_changelog_list(table: Hostile) -> None:
    table.put_snapshot(replace(table.snapshot(2), changelog_manifest_list="../../../private/manifest-list"))


def climbing_index_manifest(table: Hostile) -> None:
    for number in (2, 4):
        table.put_snapshot(replace(table.snapshot(number), index_manifest="../../../private/index-manifest"))


def _index(table: Hostile, **changes: Any) -> None:
    entry = table.entries(4)[0]
    ranges = (DeletionVectorRange(entry.file.file_name, 1, 22, 1),)
    file = replace(IndexFile("DELETION_VECTORS", "index-1", 31, 1, ranges), **changes)
    table.path("manifest/index-manifest-x-0").write_bytes(
        encode_index_manifest([IndexEntry(0, entry.partition, 0, file)])
    )
    for number in (2, 4):  # expiry would take it with 2, reading needs it for 4
        table.put_snapshot(replace(table.snapshot(number), index_manifest="index-manifest-x-0"))


def climbing_index_file(table: Hostile) -> None:
    _index(table, file_name="../../../private/statistics")


def index_file_by_an_external_path(table: Hostile) -> None:
    _index(table, external_path=f"file:{table.private}/statistics")


def climbing_statistics(table: Hostile) -> None:
    table.put_snapshot(replace(table.snapshot(2), statistics="../../../private/statistics"))


def climbing_data_directory(table: Hostile) -> None:
    schema = table.path("schema/schema-0")
    told = json.loads(schema.read_text())
    schema.write_text(json.dumps({**told, "options": {"data-file.path-directory": "../../private"}}))


def linked_folder(table: Hostile) -> None:
    (table.root / "part=c").symlink_to(table.private)
    (table.root / "bucket-9").symlink_to(table.private)


def nothing(table: Hostile) -> None:
    """A table as any other: everything can be done with it."""


HARMLESS = (nothing, linked_folder)
"""Tables that need not be refused: links are not followed, and no metadata names the files to which they lead."""
PLANTS = [
    nothing,
    climbing_data_file,
    absolute_data_file,
    data_file_by_an_external_path,
    data_file_by_a_climbing_external_path,
    data_file_in_another_bucket,
    climbing_extra_file,
    climbing_manifest,
    climbing_manifest_list,
    absolute_manifest_list,
    climbing_changelog_list,
    climbing_index_manifest,
    climbing_index_file,
    index_file_by_an_external_path,
    climbing_statistics,
    climbing_data_directory,
    linked_folder,
]


def everything(table: ll.Table) -> dict[str, Callable[[], Any]]:
    """What can be done with a table; reading at every snapshot."""
    reads: dict[str, Callable[[], Any]] = {
        f"read {n}": lambda n=n: table.at(snapshot=n).to_arrow()
        for n in range(1, 5)  # type: ignore[misc]
    }
    return reads | {
        "plan": lambda: table.plan(),
        "count": lambda: table.count(where="v > 0"),
        "files": lambda: table.files(),
        "partitions": lambda: table.partitions(),
        "explain": lambda: table.explain(),
        "verify": lambda: table.verify("all", data=True),
        "orphans": lambda: table.orphans(),
        "append": lambda: table.append(ROWS),
        "compact": lambda: table.compact(min_files=2),
        "rollback": lambda: table.rollback(snapshot=2),
        "drop": lambda: table.drop_partitions([{"part": "b"}]),
        "truncate": lambda: table.truncate(),
        "expire": lambda: table.expire(retain_max=1, retain_min=1),
        "clean": lambda: table.clean(),
    }


WATCHED: list[Path] = []
REACHED: list[tuple[str, str]] = []
ACTIONS = (
    "open",
    "os.remove",
    "os.rename",
    "os.link",
    "os.truncate",
    "os.rmdir",
    "os.chmod",
    "os.utime",
    "shutil.rmtree",
)


def _watch(action: str, told: tuple[Any, ...]) -> None:
    if WATCHED and action in ACTIONS:
        paths = [os.fsdecode(path) for path in told[:2] if isinstance(path, (str, bytes, os.PathLike))]
        REACHED.extend((action, p) for p in paths if any(os.path.realpath(p).startswith(f"{w}/") for w in WATCHED))


@contextmanager
def nothing_reached(folder: Path) -> Iterator[None]:
    """No file of the folder is opened, changed or deleted by this process."""
    WATCHED.append(folder.resolve())
    REACHED.clear()
    try:
        yield
    finally:
        WATCHED.clear()
    assert REACHED == []


@pytest.fixture(scope="module", autouse=True)
def hooked() -> None:
    sys.addaudithook(_watch)  # for the process's life: it does nothing while nothing is watched


def test_the_watch_sees() -> None:
    with pytest.raises(AssertionError), nothing_reached(Path(__file__).parent):
        Path(__file__).read_bytes()


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_nothing_outside_is_read_or_deleted(plant: Callable[[Hostile], None], tmp_path: Path) -> None:
    """Each operation either raises a lakelatch error, or works without the files outside."""
    hostile = Hostile(tmp_path)
    plant(hostile)
    hostile.grow_old()
    before = hostile.outside()
    refused: dict[str, str] = {}
    with nothing_reached(hostile.private):
        for name, act in everything(ll.open_table(str(hostile.root))).items():
            try:
                answer = act()
            except ll.LakelatchError as error:
                refused[name] = error.code
                continue
            if isinstance(answer, pa.Table) and "v" in answer.column_names:
                assert STOLEN not in answer["v"].to_pylist(), name
    assert hostile.outside() == before
    assert (refused == {}) is (plant in HARMLESS), refused
    assert set(refused.values()) <= {"table-corrupt", "unsupported", "invalid-argument"}, refused
