"""`expire`, `compact`, `rollback`, `clean`: they show the plan first and carry it out with --apply, also in JSON."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.coordinator.commit.committer import Committer

DAY_MS = 24 * 3_600_000


@pytest.fixture
def old_flights(flights: ll.Table) -> ll.Table:
    """The table `flights`, its three snapshots dated two days back."""
    for path in Path(flights.url).glob("snapshot/snapshot-*"):
        raw = json.loads(path.read_bytes())
        path.write_text(json.dumps({**raw, "timeMillis": raw["timeMillis"] - 2 * DAY_MS}))
    return ll.open_table(flights.url)


def files(table: ll.Table) -> set[str]:
    return {info.key for info in table.store.list("")}


def test_expire_shows_first_and_deletes_with_apply(run: Any, old_flights: ll.Table) -> None:
    before = files(old_flights)
    shown = run("expire", old_flights.url, "--retain-max", 1)
    assert shown.code == 0
    assert shown.out.splitlines()[0] == "2 snapshots, 1 to 2: 1 data files, 4 files of metadata"
    assert "month=3/bucket-0/" in shown.out
    assert "--apply" in shown.err
    assert files(old_flights) == before
    planned = run("expire", old_flights.url, "--retain-max", 1, "--json").json
    assert (planned["applied"], planned["snapshots"], planned["earliest"]) == (False, [1, 2], 3)
    done = run("expire", old_flights.url, "--retain-max", 1, "--apply", "--json").json
    assert done == {**planned, "applied": True}
    gone = before - files(old_flights)
    assert gone == {*done["data_files"], *done["metadata_files"], "snapshot/snapshot-1", "snapshot/snapshot-2"}
    assert ll.open_table(old_flights.url).to_arrow().num_rows == 5
    assert run("verify", old_flights.url).code == 0
    assert run("expire", old_flights.url, "--apply").out == "no snapshot expires\n"


def test_expire_by_time(run: Any, old_flights: ll.Table) -> None:
    newest = old_flights.snapshot()
    assert newest is not None
    kept = run("expire", old_flights.url, "--retain-min", 1, "--older-than", newest.time_ms, "--json").json
    assert kept["snapshots"] == [1]
    assert run("expire", old_flights.url, "--retain-min", 1, "--max-deletes", 1, "--json").json["snapshots"] == [1]


def test_a_limit_in_the_past_is_a_duration_or_a_time(run: Any, old_flights: ll.Table) -> None:
    """Every command that takes `--older-than` takes both."""
    url = old_flights.url
    for limit, expired in (("1 d", [1, 2]), ("3 d", []), ("2020-01-01T00:00Z", [])):
        told = run("expire", url, "--retain-min", 1, "--older-than", limit, "--json").json
        assert told["snapshots"] == expired, limit
    for limit in ("2 h", "2020-01-01T00:00Z", 1):
        for command in (("clean",), ("tag", "expire"), ("consumer", "expire")):
            words = (command[0], url, *command[1:])
            assert run(*words, "--older-than", limit).code == 0, (words, limit)
    for limit, count in (("1 ms", 3), ("2020-01-01T00:00Z", 0), (1, 0)):
        words = ("partitions", "expire", url, "--strategy", "update-time", "--older-than", limit)
        assert len(run(*words, "--json").json["partitions"]) == count, limit
    assert "how long ago: '7 d'" in run("expire", url, "--older-than", "2024-01-01").err


def test_invalid_arguments_of_expire(run: Any, old_flights: ll.Table) -> None:
    assert run("expire", old_flights.url, "--older-than", "2024-01-01").code == 2
    wrong = run("expire", old_flights.url, "--retain-max", 1, "--retain-min", 2)
    assert wrong.code == 2
    assert "retain_max" in wrong.err
    for option in ("--retain-max", "--retain-min", "--max-deletes"):
        refused = run("expire", old_flights.url, option, 0)
        assert (refused.code, refused.err) == (2, f"error: {option} 0: must be at least 1\n")


def test_a_broken_tag_stops_expire(run: Any, old_flights: ll.Table) -> None:
    """H11: the error names the file, and nothing is deleted."""
    old_flights.store.put("tag/tag-broken", b"{")
    before = files(old_flights)
    answer = run("expire", old_flights.url, "--retain-max", 1, "--apply")
    assert answer.code == 1
    assert "tag/tag-broken" in answer.err
    assert files(old_flights) == before


def test_rollback_shows_first_and_commits_with_apply(run: Any, flights: ll.Table) -> None:
    wanted = flights.at(snapshot=1).to_arrow()
    shown = run("rollback", flights.url, "--snapshot", 1)
    assert shown.code == 0
    assert shown.out.startswith("back to snapshot 1, as snapshot 4: 0 files with 0 rows come back, 2 with 2 go")
    assert "--apply" in shown.err
    assert len(flights.snapshots()) == 3
    done = run("rollback", flights.url, "--snapshot", 1, "--apply", "--json").json
    assert (done["applied"], done["receipt"]["snapshot_id"], done["goes"]["rows"]) == (True, 4, 2)
    assert ll.open_table(flights.url).to_arrow().sort_by("month").equals(wanted.sort_by("month"))
    assert run("verify", flights.url).code == 0
    assert run("rollback", flights.url).code == 2
    assert run("rollback", flights.url, "--tag", "nope").code == 2


def test_clean_shows_first_and_deletes_with_apply(run: Any, flights: ll.Table) -> None:
    """Only files older than a day are orphans; the JSON lists their sizes."""
    old, young = (Path(flights.url, f"manifest/manifest-{name}") for name in ("old", "young"))
    for path in (old, young):
        path.write_bytes(b"left")
    os.utime(old, (0, time.time() - 2 * DAY_MS / 1000))
    shown = run("clean", flights.url)
    assert shown.out.splitlines() == ["1 of 1 files are orphans: 4 bytes", "  manifest/manifest-old"]
    assert "--apply" in shown.err
    assert old.exists()
    planned = run("clean", flights.url, "--json").json
    assert [(o["file"], o["size"]) for o in planned["orphans"]] == [("manifest/manifest-old", 4)]
    assert run("clean", flights.url, "--apply").out == "1 of 1 files are orphans: 4 bytes, deleted\n"
    assert (old.exists(), young.exists()) == (False, True)
    assert run("clean", flights.url, "--older-than", int(time.time() * 1000)).code == 2


def test_clean_moves_aside_and_restores(run: Any, flights: ll.Table) -> None:
    """`--restore` lists the quarantines first; with --apply the files are where they were."""
    old = Path(flights.url, "manifest/manifest-old")
    old.write_bytes(b"left")
    os.utime(old, (0, time.time() - 2 * DAY_MS / 1000))
    assert "nothing was moved" in run("clean", flights.url, "--quarantine").err
    moved = run("clean", flights.url, "--quarantine", "--keep", "30 d", "--apply").out
    (quarantine,) = flights.quarantines()
    assert moved == f"1 of 1 files are orphans: 4 bytes, moved to quarantine {quarantine.name}\n"
    assert quarantine.expires_ms - quarantine.made_ms == 30 * DAY_MS
    assert not old.exists()
    listed = run("clean", flights.url, "--restore")
    assert listed.out == f"{quarantine}\n"
    assert "--apply" in listed.err
    shown = run("clean", flights.url, "--restore", quarantine.name, "--json").json
    assert shown == {"applied": False, "quarantines": [quarantine.to_dict()]}
    assert run("clean", flights.url, "--restore", "x", "--apply").code == 2
    assert run("clean", flights.url, "--restore", "--apply").out == "1 files of 1 quarantines: 4 bytes, restored\n"
    assert old.read_bytes() == b"left"
    assert run("clean", flights.url, "--restore", "--json", "--apply").json["quarantines"] == []
    for wrong in (("--restore", "--quarantine"), ("--keep", "1 d"), ("--quarantine", "--keep", "soon", "--apply")):
        assert run("clean", flights.url, *wrong).code == 2


def test_partitions_are_listed_dropped_expired_and_marked(run: Any, flights: ll.Table) -> None:
    """`drop` and `expire` show first, and commit with --apply."""
    names = [row["partition"] for row in flights.partitions().to_pylist()]
    shown = run("partitions", "list", flights.url)
    assert shown.out.splitlines()[0].split() == ["partition", "rows", "bytes", "files", "last", "file"]
    assert [line.split()[0] for line in shown.out.splitlines()[1:]] == names
    one = run("partitions", "list", flights.url, "--where", "month = 3", "--json").json
    assert (one["partition"], one["file_count"]) == ("month=3", 1)
    assert run("partitions", "list", flights.url, "--where", "carrier = 'AA'").code == 2
    shown = run("partitions", "drop", flights.url, "month=3")
    assert shown.out.splitlines()[1].split()[0] == "month=3"
    assert "--apply" in shown.err
    assert flights.partitions().num_rows == len(names)
    done = run("partitions", "drop", flights.url, "month=3", "--apply", "--json").json
    assert (done["applied"], done["receipt"]["kind"]) == (True, "OVERWRITE")
    assert "month=3" not in flights.partitions()["partition"].to_pylist()
    arguments = ("partitions", "expire", flights.url, "--older-than", "0 s", "--strategy", "update-time", "--max", 1)
    shown = run(*arguments)
    assert shown.out.startswith("1 partitions expire: ")
    assert shown.out.splitlines()[1].startswith("  month=")
    assert run(*arguments, "--apply", "--json").json["partitions"][0]["partition"] == "month=1"
    assert flights.partitions().num_rows == len(names) - 2
    assert run("partitions", "expire", flights.url).code == 2
    assert run("partitions", "mark-done", flights.url, "month=9").out == "1 partitions marked as done: month=9\n"
    assert Path(flights.url, "month=9/_SUCCESS").exists()
    assert run("partitions", "mark-done", flights.url, "--idle", "0 s", "--json").json["actions"] == ["success-file"]
    assert run("partitions", "mark-done", flights.url).code == 2
    assert run("verify", flights.url).code == 0


def test_compact_shows_first_and_rewrites_with_apply(run: Any, flights: ll.Table) -> None:
    for _ in range(5):
        flights.append(flights.to_arrow(limit=1))
    rows, snapshot = flights.count(), flights.snapshot().id
    shown = run("compact", flights.url)
    assert shown.code == 0
    assert shown.out.splitlines()[0].split() == ["partition", "bucket", "files", "rows", "bytes"]
    assert "become about" in shown.out.splitlines()[-1]
    assert "--apply" in shown.err
    planned = run("compact", flights.url, "--json").json
    assert (planned["applied"], planned["snapshot_id"], planned["receipts"]) == (False, snapshot, [])
    assert flights.snapshot().id == snapshot
    done = run("compact", flights.url, "--apply", "--json").json
    assert [group["files"] for group in done["groups"]] == [group["files"] for group in planned["groups"]]
    assert (done["applied"], done["files_before"], done["files_after"]) == (
        True,
        planned["files"],
        len(planned["groups"]),
    )
    assert [receipt["kind"] for receipt in done["receipts"]] == ["COMPACT"]
    assert flights.count() == rows
    assert run("verify", flights.url).code == 0
    assert run("compact", flights.url, "--apply").out.startswith("nothing to compact")


def test_compact_merges_the_buckets_of_a_table_with_a_primary_key(run: Any, tmp_path: Path) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("name", pa.string())])
    options = {"bucket": "1", "write-only": "true"}
    table = ll.create_table(str(tmp_path / "people"), schema, primary_key=["id"], options=options)
    for name in ("Ann", "Bo", "Cy"):
        table.upsert(pa.table({"id": [1], "name": [name]}))
    assert run("compact", table.url).out.startswith("nothing to compact")
    (planned,) = run("compact", table.url, "--full", "--json").json["groups"]
    assert (planned["output_level"], planned["reason"]) == (5, "full compaction")
    assert "3 files became 1" in run("compact", table.url, "--full", "--apply").out
    assert table.to_arrow().to_pylist() == [{"id": 1, "name": "Cy"}]


def test_invalid_arguments_of_compact(run: Any, flights: ll.Table) -> None:
    assert "whole partitions" in run("compact", flights.url, "--where", "carrier = 'AA'").err
    assert run("compact", flights.url, "--target-size", "large").code == 2


def test_tables_of_a_catalog_are_listed_dropped_and_renamed(run: Any, tmp_path: Path) -> None:
    lake = ll.open_catalog(str(tmp_path / "lake"))
    lake.create_database("air")
    lake.create_database("sea")
    lake.create_table("air.flights", pa.schema([("v", pa.int64())])).append(pa.table({"v": [1]}))
    assert run("ls", lake.url).out.split() == ["database", "table", "air", "flights", "sea"]
    assert run("ls", lake.url, "--json").lines == [
        {"database": "air", "table": "flights", "url": lake.url_of("air.flights")},
        {"database": "sea", "table": None, "url": None},
    ]
    assert run("ls", lake.url, "none").code == 2
    url, new_url = lake.url_of("air.flights"), lake.url_of("sea.trips")
    assert run("rename", url, new_url).out == f"{url} is now {new_url}\n"
    assert run("rename", url, new_url, "--json").error["code"] == "table-not-found"
    shown = run("drop", new_url)
    assert shown.out.startswith(f"{new_url}: 1 snapshots, ")
    assert "--apply" in shown.err
    assert list(lake) == ["sea.trips"]
    assert run("drop", new_url, "--apply", "--json").json["applied"] is True
    assert list(lake) == []
    assert run("drop", new_url, "--apply").code == 2


def test_a_folder_is_migrated(run: Any, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    (tmp_path / "raw/month=1").mkdir(parents=True)
    pq.write_table(pa.table({"v": [1, 2]}), tmp_path / "raw/month=1/x.parquet")
    shown = run("migrate", tmp_path / "raw", tmp_path / "table")
    assert shown.out.splitlines()[1:] == ["v      BIGINT", "month  INT"]
    assert "--apply" in shown.err
    done = run("migrate", tmp_path / "raw", tmp_path / "table", "--files", "move", "--apply", "--json").json
    assert (done["applied"], done["rows"], done["snapshot_id"], done["partition_keys"]) == (True, 2, 1, ["month"])
    assert not (tmp_path / "raw").exists()
    assert ll.open_table(str(tmp_path / "table")).count() == 2
    assert run("migrate", tmp_path / "none", tmp_path / "other").code == 2


def test_a_table_is_cloned_and_exported(run: Any, flights: ll.Table, tmp_path: Path) -> None:
    shown = run("clone", flights.url, tmp_path / "copy")
    assert ("3 snapshots" in shown.out, "--apply" in shown.err) == (True, True)
    assert not ll.is_table(str(tmp_path / "copy"))
    assert run("clone", flights.url, tmp_path / "copy", "--apply", "--json").json["snapshots"] == 3
    assert ll.open_table(str(tmp_path / "copy")).to_arrow().equals(flights.to_arrow())
    assert run("clone", flights.url, tmp_path / "copy", "--apply").code == 2
    cheap = ("clone", flights.url, tmp_path / "cheap", "--reference")
    shown = run(*cheap)
    assert ("stay where they are" in shown.out, "--apply" in shown.err, flights.tags()) == (True, True, [])
    assert run(*cheap, "--apply", "--json").json["tag"] == flights.tags()[0].name
    assert ll.open_table(str(tmp_path / "cheap")).to_arrow().equals(flights.to_arrow())
    done = run("export", flights.url, tmp_path / "plain", "--snapshot", 1, "--format", "csv", "--json").json
    assert done["rows"] == flights.at(snapshot=1).count()
    assert run("export", flights.url, tmp_path / "plain").code == 2
    shown = run("export", flights.url, tmp_path / "others", "--snapshot", 1, "--format", "iceberg")
    assert (f"{flights.at(snapshot=1).count()} rows" in shown.out, shown.code) == (True, 0)
    assert (tmp_path / "others" / "metadata" / "v1.metadata.json").exists()


def test_json_says_whether_it_was_done(run: Any, flights: ll.Table) -> None:
    """For what commits and for what deletes: first the plan, which changes nothing, then with --apply the same again."""
    flights.create_branch("dev")
    newest = str(flights.snapshots()[-1].id)
    for words in (
        ("undo", flights.url, newest),
        ("rollback", flights.url, "--snapshot", "1"),
        ("branch", "delete", flights.url, "dev"),
    ):
        assert run(*words, "--json").json["applied"] is False
        shown = run(*words)
        assert "nothing was" in shown.err and ", deleted" not in shown.out
        assert run(*words, "--apply", "--json").json["applied"] is True


def test_rescale_shows_first_and_rewrites_with_apply(run: Any, tmp_path: Path) -> None:
    schema = pa.schema([("part", pa.int32()), ("id", pa.int64()), ("name", pa.string())])
    url, keys = str(tmp_path / "people"), ["part", "id"]
    table = ll.create_table(url, schema, primary_key=keys, partition_by=["part"], options={"bucket": "1"})
    rows = pa.table({"part": [1, 1, 2], "id": [1, 2, 3], "name": ["Ann", "Bo", "Cy"]})
    table.upsert(rows)
    assert run("rescale", url).out.startswith("nothing to rescale")
    run("alter", url, "--set", "bucket=3", "--apply")
    snapshot = table.refresh().snapshot().id

    shown = run("rescale", url)
    assert shown.out.splitlines()[0].split() == ["partition", "buckets", "files", "rows", "bytes"]
    assert "2 files of 2 partitions" in shown.out.splitlines()[-1] and "3 buckets each" in shown.out.splitlines()[-1]
    assert "--apply" in shown.err
    planned = run("rescale", url, "--where", "part = 1", "--json").json
    assert (planned["applied"], planned["buckets"], planned["receipts"]) == (False, 3, [])
    (partition,) = planned["partitions"]
    assert (partition["partition"], partition["buckets_before"], partition["row_count"]) == ("part=1", 1, 2)
    assert table.refresh().snapshot().id == snapshot

    done = run("rescale", url, "--where", "part = 1", "--apply", "--json").json
    assert [receipt["kind"] for receipt in done["receipts"]] == ["OVERWRITE"] and done["partitions"] == [partition]
    assert "OVERWRITE" in run("rescale", url, "--apply").out
    assert run("rescale", url, "--apply").out.startswith("nothing to rescale")
    assert table.refresh().to_arrow().sort_by("id").to_pylist() == rows.to_pylist()
    assert {e.total_buckets for e in table.entries()} == {3}
    assert "whole partitions" in run("rescale", url, "--where", "name = 'Bo'").err
    assert "primary key" in run("rescale", ll.create_table(f"{url}2", schema).url).err


@pytest.mark.parametrize(
    "words",
    [["compact", "--full"], ["compact", "--manifests"], ["rollback", "--snapshot", "1"]],
    ids=" ".join,
)
def test_a_command_ends_when_what_follows_its_commit_has(
    run: Any, flights: ll.Table, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hints, clean-up and expiry run beside the answer; who starts the next command finds them done."""
    waited: list[str] = []
    settle = Committer.settle
    monkeypatch.setattr(Committer, "settle", lambda self: (waited.append("settled"), settle(self)))
    command, *more = words
    assert run(command, flights.url, *more, "--apply", "--json").code == 0
    assert waited
    waited.clear()
    assert run("log", flights.url).code == 0
    assert not waited, "a command that commits nothing makes no committer"
