"""What each command prints."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from golden_tables import unpack

import lakelatch as ll
from lakelatch.coordinator.commit.committer import Committer
from lakelatch.core.other_names import COMMANDS

LOG_KEYS = [
    "snapshot_id", "time_ms", "kind", "operation", "commit_user", "identifier", "schema_id", "delta_rows",
    "total_rows", "attempts", "riders", "writer", "uuid", "notices",
]  # fmt: skip
RECEIPT_KEYS = [
    "snapshot_id", "snapshot_uuid", "commit_user", "identifier", "kind", "attempts", "retries", "requests",
    "sequential_requests", "elapsed_ms", "replayed", "partitions_replaced", "leader", "riders", "rows",
    "partitions", "journal",
]  # fmt: skip


def test_create_write_read(run: Any, tmp_path: Path) -> None:
    """Create a table, write to it and read it with commands alone."""
    url = tmp_path / "t"
    made = run("create", url, "--column", "id:BIGINT NOT NULL", "--column", "name:STRING", "--column", "day:DATE",
               "--partition-by", "day", "--option", "target-file-size=1 mb", "--comment", "people")  # fmt: skip
    assert made.code == 0, made.err
    (tmp_path / "a.csv").write_text('id,name,day\n1,"",2024-01-01\n2,,2024-01-02\n')
    written = run("write", url, tmp_path / "a.csv", "--property", "job=1", "--json")
    assert written.code == 0, written.err
    assert list(written.json) == RECEIPT_KEYS
    assert (written.json["snapshot_id"], written.json["rows"]) == (1, 2)
    rows = run("read", url, "--json")
    assert rows.lines == [{"id": 1, "name": "", "day": "2024-01-01"}, {"id": 2, "name": None, "day": "2024-01-02"}]
    table = ll.open_table(str(url))
    assert (table.schema.comment, table.options["target-file-size"]) == ("people", "1 mb")
    assert table.snapshot().properties["job"] == "1"
    assert run("create", url, "--column", "id:BIGINT").code == 2
    assert run("create", url, "--column", "id:BIGINT", "--exist-ok", "--json").json["comment"] == "people"


def test_a_command_has_the_name_that_python_has_and_others_are_told_the_nearest(
    run: Any, flights: ll.Table, tmp_path: Path
) -> None:
    pq.write_table(flights.to_arrow().slice(0, 1), tmp_path / "x.parquet")
    before = flights.count()
    assert run("append", flights.url, tmp_path / "x.parquet").code == 0
    assert flights.count() == before + 1
    refused = run("wirte", flights.url, tmp_path / "x.parquet")
    assert refused.code == 2 and "did you mean 'write'?" in refused.err
    assert "did you mean 'create'?" in run("tag", "craete", flights.url, "x").err


@pytest.mark.parametrize("word", COMMANDS)
def test_commands_of_other_tools_are_told_their_name_here(run: Any, word: str) -> None:
    refused = run(word, "lake/flights")
    assert refused.code == 2 and f"next: here it is {COMMANDS[word]}; see `lakelatch --help`" in refused.err


def test_a_condition_in_a_zone(run: Any, tmp_path: Path) -> None:
    table = ll.create_table(str(tmp_path / "t"), {"n": "INT", "t": "TIMESTAMP(6) WITH LOCAL TIME ZONE"})
    rows = [{"n": 1, "t": "2024-01-01T02:00:00Z"}, {"n": 2, "t": "2024-01-01T12:00:00Z"}]
    table.append(pa.Table.from_pylist(rows))
    where = ("--where", "t >= DATE '2024-01-01'", "--time-zone", "America/New_York")
    assert [row["n"] for row in run("read", table.url, *where, "--json").lines] == [2]
    assert run("update", table.url, *where, "--set", "t=TIMESTAMP '2024-02-01 00:00:00'", "--apply").code == 0
    assert table.to_arrow(where="n = 2").to_pylist()[0]["t"].isoformat() == "2024-02-01T05:00:00+00:00"
    assert "has no zone" in run("delete", table.url, "--where", "t >= DATE '2024-01-01'").err


def test_changes(run: Any, flights: ll.Table) -> None:
    """The rows that came and went, between snapshots and with the newest; the rest is as for `read`."""
    flights.overwrite(flights.at(snapshot=1).to_arrow().slice(0, 1), partition={})
    newest = flights.snapshot().id
    said = run("changes", flights.url, "--start", newest - 1, "--columns", "month", "--json")
    expected = flights.changes(newest - 1, columns=["month"]).read_all()
    assert [(r["month"], r["_row_kind"], r["_snapshot_id"]) for r in said.lines] == [
        (r["month"], r["_row_kind"], r["_snapshot_id"]) for r in expected.to_pylist()
    ]
    assert {"+I", "-D"} >= {r["_row_kind"] for r in said.lines} >= {"-D"}
    appended = run("changes", flights.url, "--start", 0, "--end", newest, "--no-overwrites", "--limit", 2, "--json")
    assert [r["_row_kind"] for r in appended.lines] == ["+I", "+I"]
    assert run("changes", flights.url, "--start", "none", "--end", "eod").code == 2
    refused = run("read", flights.url, "--watermark", 5)
    assert (refused.code, "no snapshot has a watermark" in refused.err) == (2, True)


def test_changes_of_a_table_with_a_primary_key(run: Any, tmp_path: Path) -> None:
    """The kinds of its changelog, the rows as they were written, and the difference of two states."""
    url = unpack("paimon-java-1.4.2/pk_changelog_full_compaction", tmp_path).path
    kinds = {
        mode: [row["_row_kind"] for row in run("changes", url, "--start", 4, "--mode", mode, "--json").lines]
        for mode in ("auto", "delta", "diff")
    }
    assert set(kinds["auto"]) == {"+I", "-U", "+U", "-D"}
    assert set(kinds["delta"]) == {"+I", "-D"}
    expected = ll.open_table(str(url)).changes(4, mode="diff").read_all()["_row_kind"].to_pylist()
    assert kinds["diff"] == expected
    assert run("changes", url, "--start", 0, "--mode", "all").code == 2


def test_create_with_types_that_have_parts(run: Any, tmp_path: Path) -> None:
    made = run("create", tmp_path / "t", "--column", "c:ARRAY<INT>", "--column", "st: STRUCT<a: INT, b: MAP<STRING, DATE>>",
               "--column", 'j:{"type": "ARRAY", "element": "INT"}', "--json")  # fmt: skip
    assert made.code == 0, made.err
    types = [column["type"] for column in made.json["columns"]]
    assert types == ["ARRAY<INT>", "ROW<a INT, b MAP<STRING, DATE>>", "ARRAY<INT>"]
    wrong = run("create", tmp_path / "u", "--column", "c:ARRAY<INTS>")
    assert wrong.code == 2 and "column 'c': unknown type 'INTS'" in wrong.err and "ARRAY<INT>" in wrong.err


def test_create_from_files(run: Any, tmp_path: Path, flights: ll.Table) -> None:
    """`--like` takes the columns of a Parquet file; `--schema-json` takes the columns and keys of a schema file."""
    pq.write_table(
        pa.table({"a": pa.array([1], pa.int16()), "t": pa.array([0], pa.timestamp("us", "UTC"))}),
        tmp_path / "x.parquet",
    )
    liked = run("create", tmp_path / "liked", "--like", tmp_path / "x.parquet", "--json").json
    assert [(c["name"], c["type"]) for c in liked["columns"]] == [
        ("a", "SMALLINT"),
        ("t", "TIMESTAMP(6) WITH LOCAL TIME ZONE"),
    ]
    copied = run(
        "create", tmp_path / "copied", "--schema-json", Path(flights.url) / "schema" / "schema-0", "--json"
    ).json
    assert copied["partition_keys"] == ["month"]
    assert copied["columns"] == run("schema", flights.url, "--json").json["columns"]
    nested = 'tags:{"type": "ARRAY", "element": "STRING NOT NULL"}'
    assert (
        run("create", tmp_path / "n", "--column", nested, "--json").json["columns"][0]["type"]
        == "ARRAY<STRING NOT NULL>"
    )
    wrong = run("create", tmp_path / "w", "--column", "a:FANCY(3)", "--json")
    assert (wrong.code, wrong.error["code"]) == (2, "invalid-argument")
    assert "column 'a'" in wrong.error["message"]


def test_write_exactly_once(run: Any, tmp_path: Path, flights: ll.Table) -> None:
    """G3: the same identity twice makes one commit, and the second receipt says that it was replayed."""
    pq.write_table(pa.table({"carrier": ["AA"], "month": [9]}), tmp_path / "x.parquet")
    words = ("write", flights.url, tmp_path / "x.parquet", "--commit-user", "etl", "--identifier", 7, "--json")
    first, second = run(*words), run(*words)
    assert (first.code, second.code) == (0, 0)
    assert first.json["snapshot_id"] == second.json["snapshot_id"] == 4
    assert (first.json["replayed"], second.json["replayed"], second.json["rows"]) == (False, True, 0)
    alone = run("write", flights.url, tmp_path / "x.parquet", "--commit-user", "etl")
    assert (alone.code, "both or neither" in alone.err) == (2, True)


def test_write_modes(run: Any, tmp_path: Path, flights: ll.Table) -> None:
    """Overwrite replaces the given partition, the partitions that the rows belong to, or the whole table."""
    pq.write_table(pa.table({"carrier": ["XX"]}), tmp_path / "x.parquet")
    assert run("write", flights.url, tmp_path / "x.parquet", "--mode", "overwrite", "--partition", "month=1").code == 0
    assert flights.to_arrow(where="month = 1")["carrier"].to_pylist() == ["XX"]
    assert flights.count("month = 2") == 2
    pq.write_table(pa.table({"carrier": ["YY", "ZZ"], "month": [2, 3]}), tmp_path / "y.parquet")
    assert run("write", flights.url, tmp_path / "y.parquet", "--mode", "overwrite-partitions").code == 0
    assert sorted(flights.to_arrow()["carrier"].to_pylist()) == ["XX", "YY", "ZZ"]
    assert run("write", flights.url, tmp_path / "y.parquet", "--mode", "overwrite").code == 0
    assert sorted(flights.to_arrow()["carrier"].to_pylist()) == ["YY", "ZZ"]
    assert run("write", flights.url, tmp_path / "y.parquet", "--partition", "month=1").code == 2


def test_several_files_are_one_commit(run: Any, tmp_path: Path, flights: ll.Table) -> None:
    pq.write_table(pa.table({"carrier": ["A1"], "month": [5]}), tmp_path / "x.parquet")
    (tmp_path / "y.jsonl").write_text('{"carrier": "A2", "delay": "1.5", "month": 5}\n\n{"month": 5, "delay": 2.25}\n')
    done = run("write", flights.url, tmp_path / "x.parquet", tmp_path / "y.jsonl", "--json")
    assert (done.code, done.json["snapshot_id"], done.json["rows"]) == (0, 4, 3)
    found = run("read", flights.url, "--where", "month = 5", "--columns", "carrier,delay", "--json")
    assert sorted(found.lines, key=str) == [
        {"carrier": "A1", "delay": None},
        {"carrier": "A2", "delay": "1.50"},
        {"carrier": None, "delay": "2.25"},
    ]


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("x.csv", "carrier,nope\nAA,1\n", "no column 'nope'"),
        ("x.csv", "carrier,month\nAA,one\n", "'one'"),
        ("x.jsonl", '{"month": 1}\nnot json\n', "line 2"),
        ("x.jsonl", '{"month": "one"}\n', "column 'month'"),
        ("x.jsonl", '{"delay": "1.999"}\n', "column 'delay'"),
        ("x.parquet", "PAR1 it is not", "x.parquet"),
        ("x.txt", "", "format"),
    ],
)
def test_files_that_do_not_fit(run: Any, tmp_path: Path, flights: ll.Table, name: str, text: str, says: str) -> None:
    """Values are not truncated or guessed: the message names the file or column, nothing is committed, no file remains."""
    (tmp_path / name).write_text(text)
    before = sorted(Path(flights.url).rglob("*"))
    refused = run("write", flights.url, tmp_path / name)
    assert refused.code == 2
    assert says in refused.err
    assert len(refused.err.splitlines()) <= 2
    assert sorted(p for p in Path(flights.url).rglob("*") if p.is_file()) == [p for p in before if p.is_file()]


def test_travel_and_plan(run: Any, flights: ll.Table) -> None:
    """`read` returns the rows as of a snapshot or a time, and accepts only one of the options for that."""
    assert len(run("read", flights.url, "--snapshot", 1, "--json").lines) == 3
    second = flights.snapshots()[1].time_ms
    assert len(run("read", flights.url, "--timestamp", second, "--json").lines) == 5
    assert run("read", flights.url, "--snapshot", 1, "--tag", "x").code == 2
    assert run("read", flights.url, "--snapshot", 99).code == 2
    plan = run("plan", flights.url, "--where", "month = 2", "--json").json
    assert (plan["files"], plan["row_count"], plan["files_pruned_by_partition"] > 0) == (2, 2, True)
    assert "files " in run("plan", flights.url).out


def test_log_show_files_schema(run: Any, flights: ll.Table) -> None:
    """The keys of the JSON are stable; plain output has a header and one line per row."""
    log = run("log", flights.url, "--json").lines
    assert [list(row) for row in log] == [LOG_KEYS] * 3
    assert [row["snapshot_id"] for row in log] == [3, 2, 1]
    assert [row["snapshot_id"] for row in run("log", flights.url, "--limit", 1, "--json").lines] == [3]
    plain = run("log", flights.url).out.splitlines()
    assert len(plain) == 4
    assert plain[0].split() == [
        "snapshot",
        "time",
        "kind",
        "operation",
        "user",
        "identifier",
        "rows",
        "total",
        "attempts",
        "riders",
    ]
    shown = run("show", flights.url, 2, "--json").json
    assert (shown["snapshot_id"], shown["kind"], shown["identifier"], shown["total_rows"]) == (2, "APPEND", None, 5)
    assert [m["list"] for m in shown["manifests"]] == ["base", "delta"]
    assert "lakelatch.base" in run("show", flights.url).out
    files = run("files", flights.url, "--snapshot", 1, "--json").lines
    assert sorted(row["partition"] for row in files) == ["month=1", "month=2"]
    assert all((Path(flights.url) / row["file_path"]).stat().st_size == row["file_size_in_bytes"] for row in files)
    schema = run("schema", flights.url, "--json").json
    assert list(schema) == ["schema_id", "columns", "partition_keys", "primary_keys", "options", "comment", "time_ms"]
    assert [row["schema_id"] for row in run("schema", flights.url, "--all", "--json").lines] == [0]


def test_log_notices_a_replaced_snapshot(run: Any, flights: ll.Table) -> None:
    """G1: `log`, `doctor` and `verify` detect a writer that renamed its file over a snapshot."""
    path = Path(flights.url) / "snapshot" / "snapshot-2"
    path.write_bytes(path.read_bytes().replace(b'"uuid": "', b'"uuid": "f'))
    log = run("log", flights.url)
    assert log.code == 0
    assert "notice: snapshot/snapshot-3 was built on snapshot 2" in log.err
    assert [bool(row["notices"]) for row in run("log", flights.url, "--json").lines] == [True, False, False]
    doctor = run("doctor", flights.url, "--json")
    assert (doctor.code, {c["check"]: c["status"] for c in doctor.json["checks"]}["history"]) == (1, "fail")
    assert run("verify", flights.url).code == 1


def test_log_notices_a_gap(run: Any, flights: ll.Table) -> None:
    """G6: ids are contiguous, so a missing snapshot is reported by name."""
    (Path(flights.url) / "snapshot" / "snapshot-2").unlink()
    log = run("log", flights.url, "--json")
    assert [row["snapshot_id"] for row in log.lines] == [3, 1]
    assert log.error == {"notice": "is missing between older and newer snapshots", "file": "snapshot/snapshot-2"}


def test_explain_with_the_journal(run: Any, tmp_path: Path, flights: ll.Table) -> None:
    """`write` keeps a journal by default, and `explain` finds the commit in it."""
    pq.write_table(pa.table({"carrier": ["AA"], "month": [9]}), tmp_path / "x.parquet")
    kept = run("write", flights.url, tmp_path / "x.parquet", "--json").json["journal"]
    assert kept == str(tmp_path / "state" / "lakelatch" / "journal.jsonl")
    told = run("explain", flights.url, 4).out
    assert "base      snapshot 3" in told
    assert "SnapshotPublished" in told
    assert "SnapshotPublished" not in run("explain", flights.url, 3).out
    raw = run("explain", flights.url, 4, "--json").json
    assert (raw["base"]["snapshot_id"], raw["base_state"], raw["added_files"], raw["lost"]) == (3, "there", 1, [])
    assert raw["journal"][0]["table"] == flights.url
    elsewhere = run("write", flights.url, tmp_path / "x.parquet", "--journal", tmp_path / "j", "--json").json["journal"]
    assert elsewhere == str(tmp_path / "j")
    assert "SnapshotPublished" in run("explain", flights.url, "--journal", tmp_path / "j").out
    assert run("explain", flights.url, "--journal", tmp_path / "none").code == 2


# ---------------------------------------------------------------------------------------------------- as a program


def program(
    *words: object, stdin: bytes = b"", env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "lakelatch", *map(str, words)]
    return subprocess.run(command, input=stdin, capture_output=True, env={**os.environ, **(env or {})}, check=False)


def test_version_is_light() -> None:
    """`--version` imports neither Arrow nor a store's client."""
    done = program("--version")
    assert (done.returncode, done.stdout) == (0, f"lakelatch {ll.__version__}\n".encode())
    script = "import sys, lakelatch.cli.main; print([m for m in ('pyarrow', 'fsspec', 'rich', 'fastavro') if m in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert loaded.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "words", [["log"], ["log", "--json"], ["schema"], ["branch", "list"], ["consumer", "list"]], ids=" ".join
)
def test_commands_that_read_only_roots_import_neither_arrow_nor_a_client_nor_commits(
    flights: ll.Table, words: list[str]
) -> None:
    """Half a second of imports is what would be felt. The modules named here bring all others that are expensive."""
    heavy = {"pyarrow", "numpy", "pandas", "polars", "fastavro", "tenacity", "fsspec", "obstore", "asyncio", "rich"}
    heavy |= {
        f"lakelatch.{name}"
        for name in ("coordinator.protocol.events", "coordinator.commit.attempt", "core.avro.columns")
    }
    heavy |= {
        f"lakelatch.table.{name}" for name in ("writing.transaction", "reading.arrow", "scan.plan", "rowlevel.run")
    }
    script = (
        "import sys\nfrom lakelatch.cli.main import main\ncode = main(sys.argv[1:])\n"
        f"print(code, sorted({heavy!r} & set(sys.modules)), file=sys.stderr)"
    )
    command = [sys.executable, "-c", script, *words, flights.url]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "0 []"


def test_pipes_round_trip(tmp_path: Path, flights: ll.Table) -> None:
    """Rows go from one table to another through a pipe, as Arrow or CSV, without loss: null stays distinct from empty text."""
    flights.append(pa.table({"carrier": [""], "month": [4]}))
    for kind in ("arrow", "csv"):
        url = tmp_path / kind
        env = {"LAKELATCH_JOURNAL": str(tmp_path / "journal")}
        assert program("create", url, "--schema-json", Path(flights.url) / "schema" / "schema-0").returncode == 0
        sent = program("read", flights.url, "--format", kind)
        written = program("write", url, "-", "--format", kind, stdin=sent.stdout, env=env)
        assert written.returncode == 0, written.stderr
        order = [("carrier", "ascending"), ("month", "ascending")]
        assert ll.open_table(str(url)).to_arrow().sort_by(order) == flights.to_arrow().sort_by(order)


def test_a_closed_pipe_is_not_an_error(tmp_path: Path) -> None:
    """`lakelatch read | head` ends quietly."""
    table = ll.create_table(str(tmp_path / "t"), pa.schema([("a", pa.int64())]))
    table.append(pa.table({"a": range(300_000)}))
    command = f"{sys.executable} -m lakelatch read {tmp_path / 't'} --json | head -n 1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ['{"a": 0}', "0"]
    assert done.stderr == ""


def test_no_traceback_unless_asked_for(tmp_path: Path) -> None:
    """An error is one line and a next step; LAKELATCH_DEBUG=1 adds the traceback."""
    quiet = program("read", tmp_path / "none")
    assert quiet.returncode == 2
    assert quiet.stderr.decode().splitlines()[0].startswith("error: there is no table at")
    assert quiet.stderr.decode().splitlines()[1].startswith("next: ")
    loud = program("read", tmp_path / "none", env={"LAKELATCH_DEBUG": "1"})
    assert (loud.returncode, b"Traceback" in loud.stderr, b"Traceback" in quiet.stderr) == (2, True, False)


def test_read_into_files(run: Any, tmp_path: Path, flights: ll.Table) -> None:
    """The extension decides the format; if a read fails, an existing file keeps its content."""
    for name in ("x.parquet", "x.arrow", "x.csv", "x.jsonl", "x.txt"):
        assert run("read", flights.url, "--output", tmp_path / name).code == 0
    assert pq.read_table(tmp_path / "x.parquet").num_rows == 5
    with pa.OSFile(str(tmp_path / "x.arrow")) as file:
        assert pa.ipc.open_stream(file).read_all() == flights.to_arrow()
    assert len((tmp_path / "x.jsonl").read_text().splitlines()) == 5
    assert (tmp_path / "x.txt").read_text().splitlines()[0].split() == ["carrier", "delay", "month"]
    assert json.loads((tmp_path / "x.jsonl").read_text().splitlines()[0])["delay"] in ("1.50", "-3.00", None, "0.25")
    assert run("read", flights.url, "--where", "nope = 1", "--output", tmp_path / "x.csv").code == 2
    assert len((tmp_path / "x.csv").read_text().splitlines()) == 6
    assert not list(tmp_path.glob("*.partial"))


def test_a_terminal_gets_a_table_and_the_first_rows(tmp_path: Path) -> None:
    """On a terminal, `read` draws a table of the first 100 rows and says how to see more."""
    import pty

    table = ll.create_table(str(tmp_path / "t"), pa.schema([("a", pa.int64())]))
    table.append(pa.table({"a": range(500)}))
    seen, terminal = pty.openpty()
    command = [sys.executable, "-m", "lakelatch", "read", str(tmp_path / "t")]
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "80", "NO_COLOR": "1"}
    with subprocess.Popen(command, stdout=terminal, stderr=subprocess.PIPE, env=env) as child:
        os.close(terminal)
        shown = b""
        try:
            while block := os.read(seen, 1 << 16):
                shown += block
        except OSError:  # the other end is closed: that is how a terminal ends
            pass
        assert child.stderr is not None
        said = child.stderr.read().decode()
    os.close(seen)
    numbers = [line.strip() for line in shown.decode().splitlines() if line.strip().isdigit()]
    assert numbers == [str(i) for i in range(100)]
    assert "─" in shown.decode()
    assert "--limit shows more" in said


def test_a_write_may_ride_or_go_alone_whatever_the_table_says(run: Any, tmp_path: Path) -> None:
    url, file = str(tmp_path / "t"), tmp_path / "rows.csv"
    ll.create_table(url, pa.schema([("v", pa.int64())]))
    file.write_text("v\n1\n")
    asked: list[Any] = []
    kept = Committer.commit

    def commit(self: Committer, request: Any) -> Any:
        asked.append(request.group)
        return kept(self, request)

    with patch.object(Committer, "commit", commit):
        for more in ((), ("--group", "auto"), ("--group", "off")):
            assert run("write", url, file, *more).code == 0
    assert asked == [None, "auto", "off"]
    assert run("write", url, file, "--group", "on").code == 2
