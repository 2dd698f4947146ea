"""Orphans and partitions beside Apache Paimon (Java 1.4.2): the same garbage goes, the same partitions expire (G7, G8)."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import golden_tables
import jpype
import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.backends.local import LocalStore
from lakelatch.coordinator.history.timeline import Timeline
from lakelatch.coordinator.maintenance.orphans import apply_clean, plan_orphans
from lakelatch.coordinator.maintenance.quarantine import move_orphans, restore
from lakelatch.core import options as opt
from lakelatch.core.paths import TablePaths
from lakelatch.core.rows.partition_times import PartitionTimes
from lakelatch.core.rows.types import Field, string

pytestmark = pytest.mark.java

NOW_MS = 2**62
ANYWHERE = (
    "manifest/manifest-left-0", "manifest/manifest-list-left-0", "index/index-left-0", "statistics/stat-left-0",
    "snapshot/.snapshot-99.left.tmp", "changelog/.changelog-99.left.tmp", "{bucket}/data-left-0.parquet",
    "{bucket}/.data-left-1.parquet.left.tmp", "{bucket}/changelog-left-0.parquet", "{other}/data-left-2.parquet",
)  # fmt: skip
"""Garbage that both sides delete."""
ONLY_OURS = (
    "tag/.tag-x.left.tmp",
    "schema/.schema-9.left.tmp",
    "consumer/.consumer-x.left.tmp",
    "lakelatch/identities/left",
)
"""Garbage that only lakelatch deletes."""
ONLY_JAVA = ("snapshot/notes", "changelog/notes", "{other_like}/data-left-3.parquet")
"""What Apache Paimon deletes too: any file beside snapshots, and files in folders that only look like partitions."""
KEPT = ("notes.txt", "manifest/deep/manifest-left-0", "lakelatch/other/x", "strange/bucket-0/data-left-0.parquet",
        "lakelatch/quarantine/files/y/p=a/bucket-0/data-left-0.parquet", "lakelatch/quarantine/files/y/bucket-0/data-left-0",
        "lakelatch/quarantine/files/y/manifest/manifest-left-0")  # fmt: skip
"""What neither deletes; also what was moved to quarantine."""


def timeline_of(path: Path) -> Timeline:
    return Timeline(LocalStore(str(path)), TablePaths())


def files(path: Path) -> dict[str, bytes]:
    return {
        os.path.relpath(os.path.join(folder, name), path): Path(folder, name).read_bytes()
        for folder, _, names in os.walk(path)
        for name in names
        if not name.endswith(".crc")
    }


TABLES = ("life_branches", "life_changelog_decoupled", "life_tags", "append_part_string_special", "append_path_directory",
          "append_manifest_orc_none", "pk_partitioned", "pk_postpone")  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
def test_the_same_garbage_goes(name: str, tmp_path: Path, paimon_java: Any) -> None:
    """On two copies of a table the same files are left, but for what decision 57 says; a quarantine gives all of them back."""
    path = golden_tables.unpack(f"paimon-java-1.4.2/{name}", tmp_path).path
    timeline = timeline_of(path)
    schema = timeline.latest_schema()
    bucket = next(
        p.parent.relative_to(path) for p in sorted(path.rglob("data-*")) if p.parent.name.startswith("bucket-")
    )
    folder = [part for part in [schema.options.get(opt.DATA_FILE_DIRECTORY)] if part]
    other = "/".join([*folder, *(f"{key}=never" for key in schema.partition_keys), "bucket-77"])
    like = "/".join(
        [*folder, *("x=never" for _ in schema.partition_keys), "bucket-x" if not schema.partition_keys else "bucket-0"]
    )
    for key in (*ANYWHERE, *ONLY_OURS, *ONLY_JAVA, *KEPT):
        file = path / key.format(bucket=bucket, other=other, other_like=like)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"left over")
    theirs, before = shutil.copytree(path, tmp_path / "theirs"), files(path)
    plan = plan_orphans(timeline, schema, NOW_MS)
    move_orphans(plan, 1, 1, "x")
    assert restore(timeline, schema).lost == ()
    assert files(path) == before
    done = apply_clean(plan_orphans(timeline, schema, NOW_MS))
    paimon_java.remove_orphans(theirs)
    ours_left, theirs_left = files(path), files(theirs)
    assert before.keys() - ours_left.keys() == {info.key for info in done.files}
    assert theirs_left.keys() - ours_left.keys() == set(ONLY_OURS)
    assert ours_left.keys() - theirs_left.keys() == {key.format(other_like=like) for key in ONLY_JAVA}
    assert all((path / key).exists() and (theirs / key).exists() for key in KEPT)


# ----------------------------------------------------------------------------------------------------------- partitions


def test_the_same_partitions_expire(tmp_path: Path, paimon_java: Any) -> None:
    """By values and by update time, with patterns, limits and batches: the same partitions are left."""
    now = dt.datetime.now(dt.timezone.utc)
    days = [(now - dt.timedelta(days=n)).strftime("%Y-%m-%d") for n in (0, 1, 2, 400)]
    named = [*days, "soon", None, "2024-13-45"]
    rows = [[i, day, hour] for i, (day, hour) in enumerate(itertools.product(named, ["5", "23"]))]
    by_update = {"partition.expiration-strategy": "update-time"}
    cases: list[dict[str, str]] = [
        {"partition.expiration-time": "30 h", "partition.timestamp-pattern": "$p $h:00:00"},
        {"partition.expiration-time": "2 d", "partition.timestamp-formatter": "yyyy-MM-dd"},
        {"partition.expiration-time": "1 d", "partition.expiration-max-num": "3", "partition.expiration-batch-size": "2"},
        {"partition.expiration-time": "1 d", **by_update},
        {"partition.expiration-time": "1 ms", "partition.expiration-max-num": "2", **by_update},
    ]  # fmt: skip
    columns = [("id", "INT"), ("p", "STRING"), ("h", "STRING")]
    for number, options in enumerate(cases):
        ours, theirs = tmp_path / f"ours{number}", tmp_path / f"theirs{number}"
        paimon_java.create_table(ours, columns, partition_keys=["p", "h"], options=options)
        paimon_java.commit_rows(ours, rows)
        shutil.copytree(ours, theirs)
        done = ll.open_table(str(ours)).expire_partitions(time_zone="UTC")
        expire_in_java(paimon_java, theirs)
        assert left(ours) == left(theirs), options
        assert len(done.receipts) == len(ll.open_table(str(theirs)).snapshots()) - 1, options


def expire_in_java(java: Any, path: Path) -> None:
    """Java's own expiry, at once."""
    table = java.open(path, partition__expiration_check_interval="0 s")
    commit = table.store().newCommit("expirer", table)
    expire = table.store().newPartitionExpire("expirer", table)
    if expire is not None:
        expire.expire(jpype.JLong(2**63 - 1))
    commit.close()


def left(path: Path) -> list[str]:
    return sorted(ll.open_table(str(path)).partitions()["partition"].to_pylist())


FORMATTERS = (
    None, "yyyyMMdd", "yyyyMMddHH", "yyyy-M-d", "yy/MM/dd", "yyyy-MM-dd'T'HH:mm", "yyyyDDD", "uuuu-MM-dd[ HH[:mm]]",
    "yyyyMMddHHmmssSSS",
)  # fmt: skip
TEXTS = (
    "2024-01-02", "20240102", "2024010203", "2024-1-2", "24/01/02", "2024-01-02T03:04", "2024060", "2023366", "2024-02-30",
    "20230229", "2024-02-30 03", "2024-01-02 03:04", "2024-01-02 3:4:5", "20240102030405678", "2024-13-01", "20241301",
    "0000-01-01", "2024-01-02 24:00:00", "2024010224", "2024010225", "2024-00-00", "-1-01-01", "2024-01-02 03:04:05.123456789",
    "", "x",
)  # fmt: skip


def test_times_are_those_of_java(paimon_java: Any) -> None:
    """Every text with every pattern: the same time, or none."""
    extractor = jpype.JClass("org.apache.paimon.partition.PartitionTimeExtractor")
    keys, zone = jpype.java.util.Arrays.asList("p"), jpype.JClass("java.time.ZoneOffset").UTC
    for formatter, text in itertools.product(FORMATTERS, TEXTS):
        try:
            found = extractor(None, formatter).extract(keys, jpype.java.util.Arrays.asList(text))
        except jpype.JException:
            found = None
        wanted = None if found is None else int(found.toInstant(zone).toEpochMilli())
        assert PartitionTimes((Field(0, "p", string()),), None, formatter).of([text]) == wanted, (formatter, text)


def test_marks_are_those_of_java(tmp_path: Path, paimon_java: Any) -> None:
    """Java marks what we marked, and the other way round: the first time stays, and the bytes have the same form."""
    path = tmp_path / "t"
    paimon_java.create_table(path, [("id", "INT"), ("p", "STRING")], partition_keys=["p"], options={})
    table = ll.open_table(str(path))
    table.append(pa.table({"id": [1], "p": ["a b"]}).cast(table.arrow_schema))
    action = jpype.JClass("org.apache.paimon.partition.actions.SuccessFileMarkDoneAction")
    marker = action(paimon_java.open(path).fileIO(), paimon_java.open(path).location())
    ours: Callable[[str], Any] = lambda name: table.mark_done([name])  # noqa: E731
    for name, first, second in (("p=a b", marker.markDone, ours), ("p=c", ours, marker.markDone)):
        first(name)
        before = (path / name / "_SUCCESS").read_text()
        second(name)
        after = (path / name / "_SUCCESS").read_text()
        assert json.loads(before)["creationTime"] == json.loads(after)["creationTime"]
        assert json.loads(before)["modificationTime"] <= json.loads(after)["modificationTime"]
        shapes = ["".join(" " if c.isdigit() else c for c in text) for text in (before, after)]
        assert shapes[0] == shapes[1]
    assert [row["id"] for row in table.to_arrow().to_pylist()] == [1]
