"""Tags beside Apache Paimon (Java 1.4.2): each reads, renames and deletes the other's; the same files go, the same tags are made.

Guards G7 and G8 for tags.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import time
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from figures import NIGHTLY
from interop.test_java_maintenance import files

import lakelatch as ll
from lakelatch.table.table import Table

pytestmark = pytest.mark.java

SCHEMA = pa.schema([("p", pa.string()), ("v", pa.int64())])
KEYED = pa.schema([pa.field("k", pa.int32(), nullable=False), ("v", pa.string())])
HOUR_MS = 3_600_000
NOON_MS = int(datetime(2026, 1, 2, 12, tzinfo=timezone.utc).timestamp() * 1000)
KINDS: dict[str, dict[str, Any]] = {
    "append": {},
    "keys": {"primary_key": ["k"], "options": {"bucket": "1"}},
    "changelog": {"primary_key": ["k"], "options": {"bucket": "1", "changelog-producer": "lookup"}},
    "vectors": {"primary_key": ["k"], "options": {"bucket": "1", "deletion-vectors.enabled": "true"}},
}


def rows(part: str, *values: int) -> pa.Table:
    return pa.table({"p": [part] * len(values), "v": list(values)})


def keyed(v: str, *keys: int) -> pa.Table:
    return pa.table({"k": list(keys), "v": [v] * len(keys)}).cast(KEYED)


def lived(path: Path, kind: str) -> Table:
    """A history in which each snapshot but the last needs files that no later one needs."""
    if kind == "append":
        table = ll.create_table(str(path), SCHEMA, partition_by=["p"])
        table.append(rows("a", 1))
        table.append(rows("a", 2))
        table.overwrite(rows("a", 3), partition={"p": "a"})
        table.append(rows("b", 4))
        table.compact("p = 'a'", full=True)
        table.overwrite(rows("b", 5), partition={"p": "b"})
        table.truncate()
    else:
        table = ll.create_table(str(path), KEYED, **KINDS[kind])
        table.append(keyed("a", 1, 2, 3))
        table.upsert(keyed("b", 2, 4))
        table.compact(full=True)
        table.upsert(keyed("c", 3))
        table.overwrite(keyed("o", 9), partition={})
        table.upsert(keyed("d", 9, 1))
        table.compact(full=True)
    table.append(rows("z", 9) if kind == "append" else keyed("z", 7))
    table.committer.settle()
    return table


def left(path: Path) -> set[str]:
    """All files but the hints and what only lakelatch has."""
    return {name for name in files(path) if not name.startswith("lakelatch/") and "snapshot/" not in name}


@pytest.mark.parametrize("kind", KINDS if NIGHTLY else ("append", "changelog"))
def test_the_same_files_go_with_each_tag(kind: str, tmp_path: Path, paimon_java: Any) -> None:
    """On two copies of a table whose snapshots Java has expired; Java's tags and ours."""
    table = lived(tmp_path / "made", kind)
    ids = table.timeline.snapshot_ids()[:-1]
    for number in ids:
        if number % 2:
            table.create_tag(f"t{number}", snapshot=number)
        else:
            paimon_java.create_tag(tmp_path / "made", f"t{number}", number)
    assert paimon_java.tags(tmp_path / "made") == {f"t{number}": number for number in ids}
    wanted = {number: paimon_java.rows(tmp_path / "made", snapshot=number) for number in ids}
    paimon_java.expire(tmp_path / "made", 1)
    ours, theirs = (shutil.copytree(tmp_path / "made", tmp_path / who) for who in ("ours", "theirs"))
    assert {n: paimon_java.rows(ours, tag=f"t{n}") for n in ids} == wanted
    for number in ids[::2] + ids[1::2][::-1]:
        ll.open_table(str(ours)).delete_tag(f"t{number}")
        paimon_java.open(theirs).deleteTag(f"t{number}")
        assert left(ours) == left(theirs), number
    assert ll.open_table(str(ours)).verify("all", data=True) == []


def test_each_renames_replaces_and_expires_the_tags_of_the_other(tmp_path: Path, paimon_java: Any) -> None:
    path = tmp_path / "t"
    table = lived(path, "append")
    table.create_tag("ours", snapshot=2, keep="1 ms")
    table.create_tag("stays", snapshot=1, keep="1 d")
    java = paimon_java.open(path)
    java.renameTag("ours", "renamed")
    java.createTag("theirs", 4)
    assert table.rename_tag("theirs", "taken").snapshot.id == 4
    table.create_tag("taken", snapshot=5, replace=True)
    assert paimon_java.tags(path) == {"renamed": 2, "stays": 1, "taken": 5}
    said = {str(pair.getRight()): pair.getLeft() for pair in java.tagManager().tagObjects()}
    assert str(said["stays"].getTagTimeRetained()) == "PT24H"
    assert said["taken"].getTagTimeRetained() is None
    assert str(said["stays"].getTagCreateTime())[:16] == table.tags()[0].created.isoformat()[:16]  # type: ignore[union-attr]
    time.sleep(0.01)
    assert [str(name) for name in java.store().newTagAutoManager(java).getTagTimeExpire().expire()] == ["renamed"]
    duration = _java("java.time.Duration")
    java.createTag("brief", 2, duration.ofMillis(1))
    java.createTag("longer", 3, duration.ofHours(1))
    time.sleep(0.01)
    assert table.expire_tags().to_dict()["tags"] == ["brief"]
    (longer,) = [tag for tag in table.tags() if tag.name == "longer"]
    assert longer.retained_ms == HOUR_MS
    assert longer.created is not None
    for version in ("stays", "longer"):
        data = json.loads(table.store.get(f"tag/tag-{version}"))
        assert {"tagCreateTime", "tagTimeRetained"} <= data.keys()


# ------------------------------------------------------------------------------------------------------ automatic tags

OPTIONS: list[Mapping[str, str]] = [
    {},
    {"tag.creation-period": "hourly"},
    {"tag.creation-period": "hourly", "tag.period-formatter": "without_dashes"},
    {"tag.creation-period": "hourly", "tag.period-formatter": "without_dashes_and_spaces", "tag.num-retained-max": "3"},
    {"tag.creation-period": "two-hours", "tag.creation-delay": "50 min"},
    {"tag.creation-period": "hourly", "tag.automatic-completion": "true"},
    {"tag.creation-period": "hourly", "tag.automatic-completion": "true", "tag.num-retained-max": "2"},
    {"tag.creation-period-duration": "45 min", "tag.create-success-file": "true"},
    {"tag.period-formatter": "without_dashes", "sink.process-time-zone": "Asia/Tokyo", "tag.creation-delay": "3 h"},
    {"tag.automatic-creation": "watermark", "sink.watermark-time-zone": "America/New_York"},
    {"tag.automatic-creation": "watermark", "tag.creation-period": "hourly", "tag.num-retained-max": "1"},
    {"tag.automatic-creation": "batch"},
    {"tag.automatic-creation": "batch", "tag.batch.customized-name": "done", "tag.num-retained-max": "2"},
]
HOURS = (0, 0.3, 0.9, 1, 1.1, 3.4, 3.5, 12, 12.1, 14, 30, 31.9, 55)


def test_the_same_automatic_tags(tmp_path: Path, paimon_java: Any) -> None:
    """For the same history and options, in one run over all of it and in two over its halves."""
    table = ll.create_table(str(tmp_path / "made"), SCHEMA)
    for value, hour in enumerate(HOURS):
        at_ms = NOON_MS + int(hour * HOUR_MS)
        table.append(rows("a", value), watermark_ms=at_ms + 7 * HOUR_MS if value > 1 else None)
        key = table.paths.snapshot(value + 1)
        table.store.put(key, json.dumps({**json.loads(table.store.get(key)), "timeMillis": at_ms}).encode())
    table.committer.settle()
    table.create_tag("by-hand", snapshot=1)
    half = len(HOURS) // 2
    for number, ((options), halves) in enumerate(itertools.product(OPTIONS, (False, True))):
        named = {"tag.automatic-creation": "process-time", "sink.process-time-zone": "UTC", **options}
        both = [shutil.copytree(tmp_path / "made", tmp_path / f"{number}-{who}") for who in ("ours", "theirs")]
        for path in both:
            schema = json.loads((path / "schema/schema-0").read_bytes())
            (path / "schema/schema-0").write_text(json.dumps({**schema, "options": {**schema["options"], **named}}))
        for until in (half, len(HOURS)) if halves else (len(HOURS),):
            for path in both:
                _hide(tmp_path / "made", path, until)
            ll.open_table(str(both[0])).auto_tag()
            _java_tags(paimon_java, both[1])
            found = [_tags(path) for path in both]
            assert found[0] == found[1], (named, until)
            assert set(found[0]) > {"by-hand"} or "batch" in named.values()
            assert {f for f in files(both[0]) if "tag/" in f} == {f for f in files(both[1]) if "tag/" in f}


def _hide(made: Path, path: Path, until: int) -> None:
    """Leave the first snapshots only, or bring all back."""
    for number in range(1, len(HOURS) + 1):
        target = path / f"snapshot/snapshot-{number}"
        if number > until:
            target.unlink(missing_ok=True)
        elif not target.exists():
            shutil.copy(made / f"snapshot/snapshot-{number}", target)
    (path / "snapshot/LATEST").write_text(str(until))


def _java_tags(paimon_java: Any, path: Path) -> None:
    java = paimon_java.open(path)
    manager = java.store().newTagAutoManager(java).getTagAutoCreation()
    if manager is not None:
        manager.run()
    else:
        _java("org.apache.paimon.tag.TagBatchCreation")(java).createTag()


def _tags(path: Path) -> dict[str, int]:
    folder = path / "tag"
    return {
        name.removeprefix("tag-"): json.loads((folder / name).read_bytes())["id"]
        for name in os.listdir(folder)
        if (folder / name).is_file() and not name.startswith(".")
    }


def _java(name: str) -> Any:
    from jpype import JClass

    return JClass(name)
