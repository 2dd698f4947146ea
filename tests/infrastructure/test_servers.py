"""The servers that other tests stand on are honest, and the proxy's lies are the ones that were ordered."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from botocore.exceptions import ClientError, ConnectionClosedError
from report import not_here
from servers import FaultProxy, Request, S3Server, go_binaries, s3_server, sequential_depth, toxiproxy

WRITERS, ROUNDS = 8, 40


@pytest.fixture(scope="module", params=["the run's", "moto"])
def server(request, s3_host: S3Server):
    if request.param == "the run's":
        yield s3_host
    else:
        with s3_server("moto") as moto:
            yield moto


def put_if_absent(client, bucket: str, key: str, body: bytes) -> str:
    try:
        client.put_object(Bucket=bucket, Key=key, Body=body, IfNoneMatch="*")
    except ClientError as error:
        return error.response["Error"]["Code"]
    return "created"


def test_one_of_many_simultaneous_conditional_puts_wins(server: S3Server) -> None:
    """H1: what every commit test relies on: the store under test has an atomic create, and the winner's bytes stay."""
    bucket = server.create_bucket()
    clients = [server.client() for _ in range(WRITERS)]
    barrier = threading.Barrier(WRITERS)

    def one_round(writer: int, key: str) -> str:
        barrier.wait()
        return put_if_absent(clients[writer], bucket, key, str(writer).encode())

    with ThreadPoolExecutor(WRITERS) as pool:
        for number in range(ROUNDS):
            answers = list(pool.map(one_round, range(WRITERS), [f"snapshot-{number}"] * WRITERS))
            assert answers.count("created") == 1
            assert set(answers) == {"created", "PreconditionFailed"}
            stored = clients[0].get_object(Bucket=bucket, Key=f"snapshot-{number}")["Body"].read()
            assert stored == str(answers.index("created")).encode()


def test_a_dropped_answer_leaves_the_object_and_no_answer(server: S3Server) -> None:
    """H2: the fault that the whole commit machine is built around is really this one."""
    bucket = server.create_bucket()
    with FaultProxy(server.endpoint_url) as proxy:
        client = server.client(proxy.url)
        proxy.plan("drop_answer", path="/snapshot-1$")
        with pytest.raises(ConnectionClosedError):
            client.put_object(Bucket=bucket, Key="snapshot-1", Body=b"mine", IfNoneMatch="*")
        assert put_if_absent(client, bucket, "snapshot-1", b"mine") == "PreconditionFailed"
        assert client.get_object(Bucket=bucket, Key="snapshot-1")["Body"].read() == b"mine"
        first, second, _ = proxy.requests
    assert (first.fault, first.status, first.upstream_status, first.conditional) == ("drop_answer", 0, 200, True)
    assert (second.fault, second.status, second.upstream_status) == ("", 412, 412)


@pytest.mark.parametrize(
    ("fault", "told", "stored"),
    [
        ("drop_request", "", False),
        ("throttle", "SlowDown", False),
        ("throttle_after", "SlowDown", True),
        ("conflict", "ConditionalRequestConflict", False),
    ],
)
def test_planned_faults(s3_host: S3Server, fault: str, told: str, stored: bool) -> None:
    """H4: each answer that can be mistaken can be ordered, and the store is in the state that it says."""
    bucket = s3_host.create_bucket()
    with FaultProxy(s3_host.endpoint_url) as proxy:
        proxy.plan(fault, path="/key$")
        client = s3_host.client(proxy.url)
        with pytest.raises((ClientError, ConnectionClosedError)) as caught:
            client.put_object(Bucket=bucket, Key="key", Body=b"1")
    if told:
        assert caught.value.response["Error"]["Code"] == told
    listed = s3_host.client().list_objects_v2(Bucket=bucket)
    assert listed["KeyCount"] == int(stored)


def test_a_late_request_lands_after_its_writer_gave_up(s3_host: S3Server) -> None:
    """H9: cut at once, applied later."""
    bucket = s3_host.create_bucket()
    with FaultProxy(s3_host.endpoint_url) as proxy:
        proxy.plan("land_late", path="/key$", delay_ms=1500)
        with pytest.raises(ConnectionClosedError):
            s3_host.client(proxy.url).put_object(Bucket=bucket, Key="key", Body=b"late")
        direct = s3_host.client()
        assert direct.list_objects_v2(Bucket=bucket)["KeyCount"] == 0
        direct.get_waiter("object_exists").wait(Bucket=bucket, Key="key", WaiterConfig={"Delay": 1, "MaxAttempts": 30})
        assert direct.get_object(Bucket=bucket, Key="key")["Body"].read() == b"late"


def test_random_faults_replay_from_their_seed(s3_host: S3Server) -> None:
    """A seed gives the same faults again, whatever order the requests come in."""

    def faults(seed: int, order: list[int]) -> dict[str, str]:
        with FaultProxy(s3_host.endpoint_url, drop_put_answers=0.3, throttle_puts=0.2, seed=seed) as proxy:
            client = s3_host.client(proxy.url)
            for number in order:
                try:
                    client.put_object(Bucket=bucket, Key=f"k{number}", Body=b"1")
                except (ClientError, ConnectionClosedError):
                    pass
            return {request.path: request.fault for request in proxy.requests}

    bucket = s3_host.create_bucket()
    first = faults(7, list(range(40)))
    assert first == faults(7, list(reversed(range(40))))
    assert first != faults(8, list(range(40)))
    assert set(first.values()) == {"", "drop_answer", "throttle"}


def test_s3fs_through_the_proxy(s3_host: S3Server) -> None:
    """The client that lakelatch uses works through it: signatures, odd keys, large bodies, ranges, listings."""
    import s3fs

    bucket = s3_host.create_bucket()
    with FaultProxy(s3_host.endpoint_url, latency_ms=5) as proxy:
        fs = s3fs.S3FileSystem(**s3_host.storage_options(proxy.url), skip_instance_cache=True)
        body = bytes(range(256)) * 20_000
        fs.pipe_file(f"{bucket}/dt=2024 01/ä%2F+1", body, mode="create")
        assert fs.cat_file(f"{bucket}/dt=2024 01/ä%2F+1", start=0) == body
        assert fs.cat_file(f"{bucket}/dt=2024 01/ä%2F+1", start=100, end=200) == body[100:200]
        assert fs.find(bucket) == [f"{bucket}/dt=2024 01/ä%2F+1"]
        fs.rm_file(f"{bucket}/dt=2024 01/ä%2F+1")
        assert fs.find(bucket) == []
        put = proxy.requests[0]
    assert (put.method, put.path, put.sent_bytes) == ("PUT", f"/{bucket}/dt=2024 01/ä%2F+1", len(body))


def test_a_store_that_ignores_conditions_can_be_had() -> None:
    """G9: the negative control for the capability probe: both creates of one key succeed."""
    with s3_server("moto") as server, FaultProxy(server.endpoint_url, strip_conditions=True) as proxy:
        bucket, client = server.create_bucket(), server.client(proxy.url)
        assert put_if_absent(client, bucket, "key", b"1") == "created"
        assert put_if_absent(client, bucket, "key", b"2") == "created"


def test_sequential_depth_counts_what_was_waited_for() -> None:
    """Overlapping requests are one round trip, whatever their number."""

    def at(start_s: float, end_s: float | None) -> Request:
        return Request("PUT", "/b/k", "", start_s, end_s, 200, 200, False, "", 0, 0)

    assert sequential_depth([]) == 0
    assert sequential_depth([at(0, 2), at(1, 3), at(1.5, 2.5)]) == 1
    assert sequential_depth([at(0, 1), at(0, 5), at(1, 2), at(2.5, 3), at(3, None)]) == 3


def test_toxiproxy_cuts_the_answer_below_http(s3_host: S3Server) -> None:
    """H2, one floor deeper: the connection dies inside the answer."""
    if go_binaries.find("toxiproxy") is None:
        not_here("toxiproxy", "it is built by Go, which is not here")
    bucket = s3_host.create_bucket()
    with toxiproxy() as network:
        proxy = network.proxy(s3_host.endpoint_url)
        client = s3_host.client(proxy.url)
        client.put_object(Bucket=bucket, Key="warm", Body=b"1")
        with proxy.toxic("limit_data", bytes=26), pytest.raises(ConnectionClosedError):
            client.put_object(Bucket=bucket, Key="cut", Body=b"stored")
        assert client.get_object(Bucket=bucket, Key="cut")["Body"].read() == b"stored"
