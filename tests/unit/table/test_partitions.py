"""Partitions: listed, dropped when they are too old, marked when they are done."""

from __future__ import annotations

import itertools
import json
import logging
import socket
from dataclasses import replace
from datetime import timezone
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from killed_store import KilledStore, contents, each_kill

import lakelatch as ll
from lakelatch.coordinator.surroundings import MACHINE
from lakelatch.core.errors import InvalidArgument, StoreUnavailable, TableCorrupt, Unsupported
from lakelatch.core.options import TableOptions
from lakelatch.table.partition_turns import PartitionTurn
from lakelatch.table.partition_upkeep import Mark, plan_partition_expiry, read_mark, wall_ms
from lakelatch.table.system.listings import partition_totals
from lakelatch.table.table import Table

COUNTER = itertools.count()
SCHEMA = pa.schema([("dt", pa.string()), ("h", pa.int32()), ("v", pa.int64())])
DAY_MS = 24 * 3_600_000
NOW_MS = 1_704_240_000_000  # 2024-01-03T00:00 UTC
DAYS = ("2024-01-01", "2024-01-02", "2023-12-01", "soon", None)


def filled(days: Any = DAYS, **options: str) -> Table:
    url = f"memory://partitions-{next(COUNTER)}/t"
    made = ll.create_table(
        url, SCHEMA, partition_by=["dt", "h"], options={k.replace("__", "."): v for k, v in options.items()}
    )
    made.append(pa.table({"dt": days, "h": [1] * len(days), "v": range(len(days))}, schema=SCHEMA))
    return made


def planned(table: Table, now_ms: int = NOW_MS, **arguments: Any) -> Any:
    arguments = {"older_than_ms": DAY_MS, "zone": timezone.utc, **arguments}
    return plan_partition_expiry(table.schema, partition_totals(table.schema, table.entries()), now_ms, **arguments)


def names(plan: Any) -> list[str]:
    return [one.partition.removesuffix("/h=1") for one in plan.partitions]


def test_an_option_names_the_folder_of_values_without_a_name() -> None:
    table = ll.create_table(
        f"memory://partitions-{next(COUNTER)}/t",
        SCHEMA,
        partition_by=["dt"],
        options={"partition.default-name": "none"},
    )
    table.append(pa.table({"dt": [None, "a"], "h": [1, 1], "v": [1, 2]}, schema=SCHEMA))
    assert sorted(path.partition("/")[0] for path in table.files()["file_path"].to_pylist()) == ["dt=a", "dt=none"]
    assert table.to_arrow(["dt"], where="v = 1")["dt"].to_pylist() == [None]
    assert table.files("dt=none").num_rows == 1
    table.drop_partitions(["dt=none"])
    assert table.to_arrow()["v"].to_pylist() == [2]


def test_partitions_are_listed_with_what_they_hold() -> None:
    table = filled()
    table.append(pa.table({"dt": ["soon"], "h": [2], "v": [9]}, schema=SCHEMA))
    listed = table.partitions("dt = 'soon' AND h > 0").to_pylist()
    assert [row["partition"] for row in listed] == ["dt=soon/h=1", "dt=soon/h=2"]
    assert all(row["record_count"] == row["file_count"] == 1 and row["file_size_in_bytes"] > 100 for row in listed)
    (newest,) = {
        e.file.creation_time for e in table.entries() if e.file.file_name in str(table.files()["file_path"][-1])
    } or {0}
    assert (
        max(row["last_creation_time_ms"] for row in listed)
        == max(e.file.creation_time for e in table.entries())
        >= newest
    )
    assert table.partitions().num_rows == 6
    with pytest.raises(InvalidArgument, match="whole partitions"):
        table.partitions("v = 1")


def test_partitions_before_a_time_expire() -> None:
    """The time itself does not; values that stand for no time never do."""
    table = filled()
    plan = planned(table)
    assert names(plan) == ["dt=2023-12-01", "dt=2024-01-01"]
    assert (plan.before, plan.strategy, plan.left, plan.timeless) == ("2024-01-02T00:00:00", "values-time", 0, 2)
    assert str(plan).startswith("2 partitions expire: 2 rows in ")
    assert str(plan).endswith(" bytes, before 2024-01-02T00:00:00; 2 stand for no time")
    assert names(planned(table, NOW_MS + 1)) == ["dt=2023-12-01", "dt=2024-01-01", "dt=2024-01-02"]
    assert names(planned(table, zone=ZoneInfo("Asia/Tokyo")))[-1] == "dt=2024-01-02", "the clock there is ahead"
    assert names(planned(table, max_partitions=1)) == ["dt=2023-12-01"]
    assert planned(table, max_partitions=1).left == 1
    assert names(planned(table, max_partitions=0)) == []
    assert str(planned(filled(["soon"]))) == "no partition expires before 2024-01-02T00:00:00; 1 stand for no time"


def test_options_say_how_old_partitions_become() -> None:
    table = filled(
        ["20240101", "20240102", "20240103"],
        **{"partition.expiration-time": "1 d", "partition.timestamp-formatter": "yyyyMMdd H",
           "partition.timestamp-pattern": "$dt $h", "partition.expiration-max-num": "2"},
    )  # fmt: skip
    assert names(planned(table, NOW_MS + 3_600_001, older_than_ms=None)) == ["dt=20240101", "dt=20240102"]
    assert names(planned(table, NOW_MS + DAY_MS * 9, older_than_ms=None)) == ["dt=20240101", "dt=20240102"]
    for options, told in (
        ({"partition.expiration-strategy": "custom"}, "partition.expiration-strategy"),
        ({"partition.timestamp-formatter": "MMM"}, "partition.timestamp-formatter"),
    ):
        with pytest.raises(Unsupported, match=told):
            planned(filled(**options))
    with pytest.raises(InvalidArgument, match="how old partitions may become") as refused:
        filled().expire_partitions()
    assert "partition.expiration-time" in str(refused.value.next_step)
    with pytest.raises(InvalidArgument, match="no partitions"):
        ll.create_table(f"memory://partitions-{next(COUNTER)}/t", SCHEMA).expire_partitions(older_than="1 d")
    with pytest.raises(InvalidArgument, match="older_than"):
        filled().expire_partitions(older_than="soon")
    with pytest.raises(InvalidArgument, match="time_zone 'Mars'"):
        filled().expire_partitions(older_than="1 d", time_zone="Mars")


def test_by_update_time_the_newest_file_counts() -> None:
    table = filled(["a", "b"])
    newest = max(e.file.creation_time for e in table.entries())
    old = {"strategy": "update-time", "older_than_ms": 1_000}
    assert names(planned(table, newest + 1_001, **old)) == ["dt=a", "dt=b"]
    assert names(planned(table, newest - 1_000_000, **old)) == []


def test_expired_partitions_are_dropped_in_batches() -> None:
    table = filled(**{"partition.expiration-batch-size": "2"})
    table.append(pa.table({"dt": ["2020-01-01"], "h": [None], "v": [9]}, schema=SCHEMA))
    told: list[tuple[int, int]] = []
    dry = table.expire_partitions(older_than="90 d", dry_run=True)
    assert table.to_arrow().num_rows == 6
    done = table.expire_partitions(older_than="90 d", progress=lambda n, all_: told.append((n, all_)))
    assert done.partitions == dry.partitions
    assert len(done.partitions) == 4
    assert [r.kind for r in done.receipts] == ["OVERWRITE", "OVERWRITE"]
    assert told == [(2, 4), (4, 4)]
    assert sorted(map(str, table.to_arrow()["dt"].to_pylist())) == ["None", "soon"]
    assert table.expire_partitions(older_than="90 d").receipts == ()
    assert done.to_dict()["snapshots"] == [3, 4]


# ------------------------------------------------------------------------------------------------------ after commits


def committed(table: Table, *days: str) -> list[str]:
    """The partitions after one commit to each of these days, with what follows the commits."""
    for day in days:
        receipt = table.append(pa.table({"dt": [day], "h": [None], "v": [1]}, schema=SCHEMA))
        assert receipt.kind == "APPEND"
        table.committer.settle()
    return sorted(set(map(str, table.to_arrow()["dt"].to_pylist())))


def by_itself(**options: str) -> Table:
    named = {"partition.expiration-time": "90 d", "partition.expiration-check-interval": "0 s", **options}
    return ll.create_table(f"memory://partitions-{next(COUNTER)}/t", SCHEMA, partition_by=["dt", "h"], options=named)


def test_commits_drop_old_partitions_where_options_say_so() -> None:
    table = by_itself()
    assert committed(table, "2999-01-01", "2020-01-01") == ["2999-01-01"]
    assert [s.commit_kind for s in table.snapshots()] == ["APPEND", "APPEND", "OVERWRITE"]
    assert committed(by_itself(**{"write-only": "true"}), "2020-01-01") == ["2020-01-01"]
    assert committed(by_itself(**{"partition.expiration-check-interval": "1 h"}), "2020-01-01") == ["2020-01-01"]
    at_end = {"partition.expiration-check-interval": "1 h", "end-input.check-partition-expire": "true"}
    assert committed(by_itself(**at_end), "2020-01-01") == []
    table.alter(ll.remove_option("partition.expiration-time"))
    assert committed(table, "2020-01-01") == ["2020-01-01", "2999-01-01"]


def test_one_commit_is_followed_by_one_look() -> None:
    """Dropping is a commit too, which is not followed by another look."""
    table = by_itself(**{"partition.expiration-max-num": "1", "write-only": "true"})
    committed(table, "2020-01-01", "2020-01-02", "2020-01-03", "2020-01-04")
    table.alter(ll.remove_option("write-only"))
    assert committed(table, "2999-01-01") == ["2020-01-02", "2020-01-03", "2020-01-04", "2999-01-01"]


def test_partitions_are_looked_at_once_in_an_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    """For all objects of a process together; the first interval begins with the first commit."""
    now = [1000.0]
    around = replace(MACHINE, monotonic_s=lambda: now[0])
    options, url = TableOptions({"partition.expiration-check-interval": "10 s"}), f"memory://turn-{next(COUNTER)}"
    other = PartitionTurn(url, "dev", around)
    turns = [PartitionTurn(url, "main", around), PartitionTurn(url, "main", around)]
    taken = []
    for second in (0, 10, 11, 12, 21, 22):
        now[0] = 1000.0 + second
        for number, turn in enumerate(turns):
            if turn.take(options):
                taken.append((second, number))
                assert not turns[1].take(options), "one at a time"
                turn.end()
    assert taken == [(11, 0), (22, 0)]
    assert other.take(options), "branches count for themselves"


def test_a_drop_that_fails_fails_no_commit(caplog: pytest.LogCaptureFixture) -> None:
    table = by_itself(**{"partition.expiration-strategy": "custom"})
    with caplog.at_level(logging.WARNING, "lakelatch.upkeep"):
        assert committed(table, "2020-01-01") == ["2020-01-01"]
    assert "option 'partition.expiration-strategy' is 'custom'" in caplog.text


def test_an_expiry_killed_at_any_request_is_finished_by_the_next() -> None:
    table = filled(**{"partition.expiration-batch-size": "1"})
    table.committer.settle()

    def act(store: KilledStore) -> None:
        opened = Table(store, table.schema)
        opened.expire_partitions(older_than="90 d")
        opened.committer.settle()

    killed = 0
    for killed, store in each_kill(contents(table.store), act):  # type: ignore[arg-type]
        left = Table(store, table.schema)
        assert {"soon", None} <= set(left.to_arrow()["dt"].to_pylist())
        left.expire_partitions(older_than="90 d")
        assert sorted(map(str, left.to_arrow()["dt"].to_pylist())) == ["None", "soon"], f"killed at request {killed}"
    assert killed > 20


# --------------------------------------------------------------------------------------------------------------- marks


def test_partitions_are_marked_as_done() -> None:
    table = filled(["a", "b"])
    done = table.mark_done([{"dt": "a"}, "dt=c d/h=1"])
    assert done.partitions == ("dt=a/h=1", "dt=c d/h=1"), "an empty partition can be done, too"
    first = read_mark(table.store, "dt=a/h=1")
    assert first is not None
    assert first.creation_ms == first.modification_ms
    table.store.put("dt=a/h=1/_SUCCESS", Mark(5, 6).to_json())
    table.mark_done(["dt=a/h=1"])
    again = read_mark(table.store, "dt=a/h=1")
    assert again is not None
    assert again.creation_ms == 5 < first.modification_ms <= again.modification_ms
    assert table.to_arrow().num_rows == 2
    assert table.verify("all", data=True) == []
    assert json.loads(table.store.get("dt=a/h=1/_SUCCESS"))["creationTime"] == 5
    with pytest.raises(InvalidArgument, match="no partition fits"):
        table.mark_done([{"dt": "x"}])
    with pytest.raises(InvalidArgument, match="which partitions are done"):
        table.mark_done()
    with pytest.raises(InvalidArgument, match="not both"):
        table.mark_done(["dt=a"], idle="1 s")
    table.store.put("dt=a/h=1/_SUCCESS", b"done")
    with pytest.raises(TableCorrupt, match="dt=a/h=1/_SUCCESS"):
        table.mark_done(["dt=a/h=1"])


def test_a_service_is_told_of_partitions_that_are_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The JSON of Apache Paimon's action, for each partition; a partition is reported only once the answer says so."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    told: list[Any] = []
    answers = iter(['{"result": "failed"}', "<html>", '{"result": "success"}', '{"result": "SUCCESS", "more": 1}'])

    class Service(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            told.append(
                (self.headers["Content-Type"], json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            )
            self.send_response(200)
            self.end_headers()
            self.wfile.write(next(answers).encode())

        def log_message(self, *words: Any) -> None:
            pass

    action, url = "partition.mark-done-action", "partition.mark-done-action.http.url"
    table = ll.create_table(
        str(tmp_path / "air.db/t"), SCHEMA, partition_by=["dt", "h"], options={action: "http-report"}
    )
    table.append(pa.table({"dt": ["a", "b"], "h": [1, 1], "v": [1, 2]}, schema=SCHEMA))
    for wrong in ("", "file:///etc/hosts"):
        if wrong:
            table.alter(ll.set_option(url, wrong))
        with pytest.raises(InvalidArgument, match=rf"option '{url}' is '{wrong}'"):
            table.mark_done(["dt=a/h=1"])
    with HTTPServer(("127.0.0.1", 0), Service) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        port = server.server_address[1]
        table.alter(ll.set_option(url, f"http://127.0.0.1:{port}/done"), ll.set_option(f"{action}.http.params", "p"))
        with pytest.raises(
            InvalidArgument, match=rf"'{url}' of table .* names http://127.0.0.1:{port}/done, which was not allowed"
        ):
            table.mark_done(["dt=a/h=1"])
        ll.allow(tmp_path, f"http://127.0.0.1:{port}/")
        for why in ("its answer has result 'failed'", "did not confirm that partition dt=a/h=1 is done"):
            with pytest.raises(StoreUnavailable, match=why):
                table.mark_done(["dt=a/h=1"])
        with pytest.raises(InvalidArgument, match="only action 'success-file' remembers"):
            table.mark_done(idle="0 s")
        table.alter(ll.set_option(action, "http-report, success-file"))
        assert not (tmp_path / "air.db/t/dt=a/h=1/_SUCCESS").exists()
        assert table.mark_done(["dt=a/h=1"]).actions == ("http-report", "success-file")
        assert (tmp_path / "air.db/t/dt=a/h=1/_SUCCESS").exists()
        assert table.mark_done(idle="0 s").partitions == ("dt=b/h=1",)
        server.shutdown()
    with pytest.raises(StoreUnavailable, match="did not confirm"):
        table.mark_done(["dt=b/h=1"])
    where = {"params": "p", "table": "air.t", "path": f"file:{tmp_path}/air.db/t"}
    assert told[2:] == [("application/json", {**where, "partition": f"dt={dt}/h=1"}) for dt in "ab"]
    assert len(told) == 4


@pytest.mark.parametrize(
    "answer",
    [b"garbage\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{", b"HTTP/1.1 500 Oh\r\n\r\n",
     b'HTTP/1.1 200 OK\r\n\r\n["result"]', b""],
)  # fmt: skip
def test_an_answer_that_is_none_confirms_nothing(answer: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    options = {"partition.mark-done-action": "http-report"}
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(20)

        def serve() -> None:
            caller, _ = server.accept()
            with caller:
                caller.settimeout(20)
                asked = b""
                while not asked.endswith(b"}"):
                    asked += caller.recv(4096)
                caller.sendall(answer)

        serving = Thread(target=serve, daemon=True)
        serving.start()
        options["partition.mark-done-action.http.url"] = f"http://127.0.0.1:{server.getsockname()[1]}/done"
        monkeypatch.setenv("LAKELATCH_ALLOW", "s3://lake, http://127.0.0.1")
        with pytest.raises(InvalidArgument, match="was not allowed"):
            filled(["a"], **options).mark_done(["dt=a/h=1"])
        monkeypatch.setenv("LAKELATCH_ALLOW", f"s3://lake, http://127.0.0.1:{server.getsockname()[1]}")
        with pytest.raises(StoreUnavailable, match="did not confirm that partition dt=a/h=1 is done"):
            filled(["a"], **options).mark_done(["dt=a/h=1"])
        serving.join()


def test_a_service_that_cannot_be_asked_is_named_without_its_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKELATCH_ALLOW", "http://here:port")
    options = {"partition.mark-done-action": "http-report"}
    for url, kind, told in (
        ("http://here:port/", StoreUnavailable, "http://here:port/ did not confirm that partition dt=a/h=1 is done"),
        ("http://here:port/x?token=secret", StoreUnavailable, "http://here:port/x?… did not confirm"),
        ("http://there:port/x?token=secret", InvalidArgument, "names http://there:port/x, which was not allowed"),
        ("http://here/x?token=a secret", InvalidArgument, "is 'http://here/x?…', and action 'http-report' needs a URL"),
        ("http://me:secret@here/x", InvalidArgument, "names a user before its host, http://here/x, and"),
    ):
        options["partition.mark-done-action.http.url"] = url
        with pytest.raises(kind) as raised:
            filled(["a"], **options).mark_done(["dt=a/h=1"])
        assert told in str(raised.value)
        assert "secret" not in str(raised.value)


@pytest.mark.parametrize("action", ["done-partition", "mark-event", "custom", "nonsense"])
def test_actions_that_need_more_are_refused_by_name(action: str) -> None:
    table = filled(["a"], **{"partition.mark-done-action": f"success-file,{action}"})
    with pytest.raises(Unsupported, match=f"partition.mark-done-action.*{action}"):
        table.mark_done(["dt=a"])
    assert not any(info.key.endswith("_SUCCESS") for info in table.store.list(""))


def test_idle_partitions_are_marked_once() -> None:
    """With an interval only once what they stand for is over; again if they got files after the mark."""
    table = filled(["a", "b"], **{"partition.idle-time-to-done": "1 h"})
    assert table.mark_done().partitions == ()
    assert table.mark_done(idle="0 s").partitions == ("dt=a/h=1", "dt=b/h=1")
    assert table.mark_done(idle="0 s").partitions == ()
    table.store.put("dt=a/h=1/_SUCCESS", Mark(5, 6).to_json())
    assert table.mark_done(idle="0 s", dry_run=True).partitions == ("dt=a/h=1",)
    later = filled(["2999-01-01", "2020-01-01"], **{"partition.time-interval": "1 d"})
    assert later.mark_done(idle="0 s").partitions == ("dt=2020-01-01/h=1",)


def test_the_clock_on_the_wall() -> None:
    """Summer time counts."""
    zone = ZoneInfo("Europe/Berlin")
    assert wall_ms(NOW_MS, zone) == NOW_MS + 3_600_000
    assert wall_ms(NOW_MS + 180 * DAY_MS, zone) == NOW_MS + 180 * DAY_MS + 7_200_000
