"""Which client carries the requests, and what obstore must not get wrong. The contract itself runs on both transports of S3."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import TimeoutError as NoResult
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

import pytest
from servers import S3Server

from lakelatch.backends import adls
from lakelatch.backends.adls import AdlsStore
from lakelatch.backends.around.metered import MeteredStore
from lakelatch.backends.files.object_store import FsspecStore
from lakelatch.backends.gcs import GcsStore
from lakelatch.backends.registry import open_store
from lakelatch.backends.requests.threads import Threads
from lakelatch.backends.s3 import S3Store, _named
from lakelatch.backends.store import Created, Unknown
from lakelatch.backends.transport import choice as transport
from lakelatch.backends.transport import s3_obstore
from lakelatch.backends.transport.adls_obstore import azure_config
from lakelatch.backends.transport.choice import NoAnswer, ObstoreRequests, Refused, meaning
from lakelatch.cli.inspect.doctor import Check, examine
from lakelatch.core.errors import InvalidArgument, StoreUnavailable, Unsupported

from .conftest import QUICK, Faulty

S3 = tuple[str, dict[str, Any]]
KEYS = {"key": "AKIAEXAMPLE", "secret": "do-not-show-this"}
THERE = {"endpoint_url": "http://127.0.0.1:9"}

CHOICES: list[tuple[str, dict[str, Any], dict[str, str], str]] = [
    ("keys and an endpoint", {**KEYS, **THERE}, {}, "obstore"),
    ("keys and a region", {**KEYS, "client_kwargs": {"region_name": "eu-central-1"}}, {}, "obstore"),
    ("a region of the environment", KEYS, {"AWS_DEFAULT_REGION": "eu-central-1"}, "obstore"),
    ("nobody", {"anon": True, **THERE}, {}, "obstore"),
    ("keys of the environment", THERE, {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s"}, "obstore"),
    ("a profile", {"profile": "plain", **THERE}, {}, "obstore"),
    (
        "options of files and caches",
        {**KEYS, **THERE, "default_block_size": 1, "use_listings_cache": True},
        {},
        "obstore",
    ),
    ("a bundle of certificates", {**KEYS, **THERE}, {"AWS_CA_BUNDLE": __file__}, "obstore"),
    ("no such bundle", {**KEYS, **THERE}, {"AWS_CA_BUNDLE": "/no/such"}, "certificates"),
    ("switched off", {**KEYS, **THERE, "transport": "fsspec"}, {}, "option transport is fsspec"),
    ("no region", KEYS, {}, "region"),
    ("China", {**KEYS, "client_kwargs": {"region_name": "cn-north-1"}}, {}, "region"),
    ("half a key", {"key": "AKIAEXAMPLE", **THERE}, {}, "half of a key"),
    (
        "encryption",
        {**KEYS, **THERE, "s3_additional_kwargs": {"ServerSideEncryption": "aws:kms"}},
        {},
        "s3_additional_kwargs",
    ),
    ("a proxy", {**KEYS, **THERE, "config_kwargs": {"proxies": {"http": "x"}}}, {}, "proxies"),
    (
        "an accelerated endpoint",
        {**KEYS, **THERE, "config_kwargs": {"s3": {"use_accelerate_endpoint": True}}},
        {},
        "use_accel",
    ),
    ("FIPS", {**KEYS, **THERE}, {"AWS_USE_FIPS_ENDPOINT": "true"}, "AWS_USE_FIPS_ENDPOINT"),
    ("a profile with an endpoint", {"profile": "odd", **THERE}, {}, "endpoint_url"),
    ("no such profile", {"profile": "none", **THERE}, {}, "profile"),
]


@pytest.fixture
def aws_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """AWS's files of settings, with three profiles."""
    config, held = tmp_path / "config", tmp_path / "credentials"
    keys = "aws_access_key_id = AKIAEXAMPLE\naws_secret_access_key = do-not-show-this\n"
    config.write_text("[profile plain]\nregion = us-east-1\n[profile odd]\nendpoint_url = http://127.0.0.1:9\n")
    held.write_text(f"[plain]\n{keys}[odd]\n{keys}")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(held))
    return held


@pytest.mark.parametrize(("options", "variables", "says"), [c[1:] for c in CHOICES], ids=[c[0] for c in CHOICES])
def test_the_choice(
    options: dict[str, Any], variables: dict[str, str], says: str, monkeypatch: pytest.MonkeyPatch, aws_files: Path
) -> None:
    """obstore is used if everything that s3fs would read means the same to it. Who insists is told what does not."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    used = S3Store("s3://bucket/t", options).transport
    assert used.name == ("obstore" if says == "obstore" else "fsspec")
    assert says in f"{used.name}: {used.reason}"
    assert "do-not-show-this" not in repr(used)
    if says != "obstore" and "transport" not in options:
        with pytest.raises(InvalidArgument, match="leave transport out") as caught:
            S3Store("s3://bucket/t", {**options, "transport": "obstore"})
        assert says in str(caught.value)


AZURE_KEY = {"account_key": "ZG8tbm90LXNob3ctdGhpcw=="}
AZURE_CHOICES: list[tuple[str, str, dict[str, Any], str]] = [
    ("a key", "lake@shop.dfs.core.windows.net", AZURE_KEY, "obstore"),
    ("a token", "lake", {"account_name": "shop", "sas_token": "?sv=1&sig=do-not-show-this"}, "obstore"),
    (
        "a connection",
        "lake",
        {"connection_string": f"AccountName=shop;AccountKey={AZURE_KEY['account_key']}"},
        "obstore",
    ),
    ("an identity", "lake@shop.dfs.core.windows.net", {"anon": False}, "key or a shared access token"),
    ("a service principal", "lake", {"account_name": "shop", "tenant_id": "t", "client_id": "c"}, "tenant_id"),
    ("no account", "lake", AZURE_KEY, "no account"),
    (
        "a queue's setting",
        "lake",
        {"connection_string": "AccountName=shop;Other=do-not-show-this"},
        "connection string",
    ),
]


@pytest.mark.parametrize(
    ("place", "options", "says"), [c[1:] for c in AZURE_CHOICES], ids=[c[0] for c in AZURE_CHOICES]
)
def test_the_choice_on_azure(place: str, options: dict[str, Any], says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    used = AdlsStore(f"abfs://{place}/t", options).transport
    assert used.name == ("obstore" if says == "obstore" else "fsspec")
    assert says in f"{used.name}: {used.reason}"
    assert "do-not-show-this" not in repr(used)
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "do-not-show-this")
    if says == "obstore":
        assert "AZURE_STORAGE_ACCOUNT_KEY" in AdlsStore(f"abfs://{place}/t", options).transport.reason


@pytest.mark.parametrize("given", [{}, {"account_name": "other", "sas_token": "sv=1&sig=do-not-show-this"}], ids=str)
def test_a_connection_string_of_the_environment_goes_before_keys_as_in_adlfs(
    given: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f"AccountName=shop;AccountKey={AZURE_KEY['account_key']};BlobEndpoint=http://127.0.0.1:1/shop"
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", text)
    assert AdlsStore("abfs://lake/t", given).transport.name == "obstore"
    made = azure_config(given, "")
    wanted = {"account_name": "shop", "account_key": AZURE_KEY["account_key"], "endpoint": "http://127.0.0.1:1/shop"}
    assert made == wanted
    option = {"connection_string": text.replace("shop", "named")}
    assert azure_config(option, "")["account_name"] == "named"


@pytest.mark.parametrize("bucket", ["lake--use1-az4--x-s3", "arn:aws:s3:us-east-1:123456789012:accesspoint"])
def test_buckets_with_an_address_of_their_own_are_for_s3fs(bucket: str) -> None:
    used = S3Store(f"s3://{bucket}/t", {**KEYS, "client_kwargs": {"region_name": "us-east-1"}}).transport
    assert (used.name, "bucket" in used.reason) == ("fsspec", True)


@pytest.mark.parametrize(
    ("arn", "host"),
    [
        (
            "arn:aws:s3:eu-west-1:123456789012:accesspoint/lake",
            "lake-123456789012.s3-accesspoint.eu-west-1.amazonaws.com",
        ),
        (
            "arn:aws:s3-outposts:eu-west-1:123456789012:outpost/op-01ac5d28a6a232904/accesspoint/lake",
            "lake-123456789012.op-01ac5d28a6a232904.s3-outposts.eu-west-1.amazonaws.com",
        ),
    ],
)
def test_the_name_of_an_access_point_is_whole(arn: str, host: str) -> None:
    """It has slashes of its own, and what follows them is no folder."""
    store = S3Store(f"s3://{arn}/t", {**KEYS, "client_kwargs": {"region_name": "eu-west-1"}})
    assert (store.url, store.transport.name) == (f"s3://{arn}/t", "fsspec")
    sent = store._filesystem()._s3.generate_presigned_url("get_object", _named(store._path("snapshot/snapshot-1")))
    address = urlsplit(asyncio.run(_awaited(sent)))
    assert (address.netloc, address.path) == (host, "/t/snapshot/snapshot-1")


async def _awaited(sent: Any) -> str:
    return str(await sent)


def test_obstore_needs_neither_s3fs_nor_botocore() -> None:
    """Loading them takes half a second of CPU in each new process."""
    program = (
        "import os, sys; os.environ |= {'AWS_CONFIG_FILE': '/no', 'AWS_SHARED_CREDENTIALS_FILE': '/no'}\n"
        "from lakelatch.backends.s3 import S3Store\n"
        f"print(S3Store('s3://b/t', { ({**KEYS, **THERE})!r}).transport.name, {{'s3fs', 'botocore'}} & set(sys.modules))"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert said == "obstore set()\n"


def test_obstore_needs_no_client_of_azures() -> None:
    program = (
        "import sys; from lakelatch.backends.adls import AdlsStore\n"
        "options = {'account_name': 'a', 'account_key': 'a2V5', 'request_timeout': 5}\n"
        "print(AdlsStore('abfs://c/t', options).transport.name, {'adlfs', 'azure', 'aiohttp'} & set(sys.modules))"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert said == "obstore set()\n"


def test_an_option_that_azures_client_does_not_have_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="acount_name"):
        AdlsStore("abfs://c/t", {"acount_name": "a", "account_key": "a2V5"})


def test_where_obstore_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    used = S3Store("s3://bucket/t", {**KEYS, **THERE}).transport
    assert (used.name, used.reason, used.next_step) == (
        "fsspec",
        "obstore is not installed",
        "pip install 'lakelatch[fast]'",
    )
    with pytest.raises(Unsupported, match="obstore, which is not installed"):
        S3Store("s3://bucket/t", {**KEYS, **THERE, "transport": "obstore"})


def test_other_values_and_other_stores() -> None:
    with pytest.raises(InvalidArgument, match="use one of auto, obstore, fsspec"):
        S3Store("s3://bucket/t", {"transport": "rust"})
    assert GcsStore("gs://bucket/t", {"token": "anon"}).transport.name == "fsspec"
    with pytest.raises(InvalidArgument, match="transport"):
        GcsStore("gs://bucket/t", {"token": "anon", "transport": "obstore"})


def test_a_profile_signs_the_requests(s3: S3, aws_files: Path) -> None:
    """Credentials that are not given come from botocore's chain."""
    url, options = s3
    text = aws_files.read_text().replace(KEYS["key"], options["key"]).replace(KEYS["secret"], options["secret"])
    aws_files.write_text(text)
    without = {name: value for name, value in options.items() if name not in ("key", "secret")}
    store = open_store(f"{url}/t", {**without, "profile": "plain", "transport": "obstore"})
    assert store.put_if_absent("a", b"1") == Created()
    assert store.get("a") == b"1"


def test_credentials_that_cannot_be_renewed(s3: S3, aws_files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """G2: without credentials nothing is sent, so that the create is an error and not an unknown outcome."""

    def expired(self: object) -> None:
        raise RuntimeError("the login has ended")

    url, options = s3
    monkeypatch.setattr(s3_obstore._Credentials, "__call__", expired)
    store = S3Store(
        f"{url}/t", {"endpoint_url": options["endpoint_url"], "profile": "plain", "transport": "obstore"}, QUICK
    )
    with pytest.raises(StoreUnavailable, match="the login has ended") as caught:
        store.put_if_absent("a", b"1")
    assert "credentials" in caught.value.next_step


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_the_child_of_a_fork_uses_fsspec(s3: S3) -> None:
    """obstore's threads do not run in the child, where a request would wait for ever."""
    url, options = s3
    store = S3Store(f"{url}/t", {**options, "transport": "obstore"})
    store.put("a", b"1")
    assert store.transport.name == "obstore"
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        others = S3Store(f"{url}/u", {**options, "transport": "obstore"})
        right = store.get("a") == b"1" and others.put_if_absent("b", b"2") == Created()
        os._exit(0 if right and "fork" in store.transport.reason and others.transport.name == "fsspec" else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert open_store(f"{url}/u", options).get("b") == b"2"


def test_a_pickled_store_chooses_again(s3: S3) -> None:
    url, options = s3
    for wanted in ("obstore", "fsspec"):
        store = pickle.loads(pickle.dumps(S3Store(f"{url}/t", {**options, "transport": wanted})))
        store.put("a", wanted.encode())
        assert (store.get("a"), store.transport.name) == (wanted.encode(), wanted)


@pytest.mark.parametrize("kind", ["s3", "s3 fsspec"])
def test_marks_of_folders_and_empty_objects(kind: str, s3_host: S3Server) -> None:
    """S3A leaves an empty object `folder/`, which is no object of the table. An empty object without the slash is one."""
    bucket = s3_host.create_bucket()
    for key in ("t/marked/", "t/marked/full", "t/marked/none"):
        s3_host.client().put_object(Bucket=bucket, Key=key, Body=b"1" if key.endswith("full") else b"")
    chosen = {**s3_host.storage_options(), "transport": "fsspec" if "fsspec" in kind else "obstore"}
    store = S3Store(f"s3://{bucket}/t", chosen)
    for _ in range(2):
        assert sorted(info.key for info in store.list("")) == ["marked/full", "marked/none"]
    assert store.folders("") == ["marked"]
    store.delete_many(["marked/full", "marked/none"])
    store.remove_folders("marked/")
    assert "Contents" not in s3_host.client().list_objects_v2(Bucket=bucket)


@pytest.mark.parametrize("kind", ["adls"])
def test_marks_of_folders_go_without_a_hierarchical_namespace(faulty: Faulty) -> None:
    """What other clients of Azure left is no object of the table, and goes with its folders."""
    store = AdlsStore(f"{faulty.url}/table", {**faulty.past_options, "transport": "fsspec"})
    for key in ("manifest/", "bucket-0/x/", ""):
        store._request("write", key, 5, store._write, f"{store._root}/{key}", b"")
    store.put("bucket-0/data", b"1")
    assert [info.key for info in faulty.past().list("")] == ["bucket-0/data"]
    store.delete_many(["bucket-0/data"])
    store.remove_folders("")
    assert AdlsStore(faulty.url, faulty.past_options).folders("") == []


@pytest.mark.parametrize("kind", ["s3", "adls"])
def test_an_empty_object_on_a_later_page(faulty: Faulty, monkeypatch: pytest.MonkeyPatch) -> None:
    """fsspec goes on behind the last page of obstore, and no object is left out or listed twice."""
    monkeypatch.setattr(transport, "PAGE", 3)
    monkeypatch.setattr(adls, "_PAGE", 2)
    for number in range(8):
        faulty.past().put(str(number), b"" if number == 7 else b"1")
    assert [info.key for info in faulty.store().list("")] == list("01234567")


@pytest.mark.parametrize("kind", ["s3", "adls"])
def test_a_listing_goes_on_after_a_failure(faulty: Faulty, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream of obstore that failed seems to be at its end. It is begun again behind the last object that came."""
    monkeypatch.setattr(transport, "PAGE", 3)
    store = faulty.store()
    for number in range(8):
        store.put(str(number), b"1")
    real, failed = ObstoreRequests.page, []

    def page(self: ObstoreRequests, prefix: str, after: Any) -> Any:
        found = real(self, prefix, after)
        if after == f"{prefix}2" and not failed:
            failed.append(after)
            raise NoAnswer("the answer was lost")
        return found

    fast = store._carried()[0]
    assert fast is not None
    monkeypatch.setitem(fast.named, "_page", lambda *args: page(fast, *args))
    assert [info.key for info in store.list("")] == list("01234567")
    assert failed


@pytest.mark.parametrize("kind", ["s3", "adls"])
def test_an_empty_folder_beside_other_objects_is_proven_by_them(faulty: Faulty) -> None:
    """Loading fsspec's client takes longer than a commit. That a new table has no snapshots is shown by its schema."""
    faulty.past().put("schema/schema-0", b"{}")
    store = faulty.store()
    asked = len(faulty.proxy.requests)
    assert list(store.list("snapshot/")) == []
    assert len(faulty.proxy.requests) - asked == 2
    assert store._connection is None, "fsspec was not loaded"
    faulty.past().put("snapshot/snapshot-1", b"{}")
    assert [info.key for info in store.list("snapshot/")] == ["snapshot/snapshot-1"]


@pytest.mark.parametrize("kind", ["s3", "adls"])
@pytest.mark.parametrize("others", [0, 3])
def test_fsspec_says_whether_a_folder_is_empty_beside_nothing_and_beside_many(
    faulty: Faulty, others: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing proves an empty answer (H11), and more than a page of others would take several requests each time."""
    monkeypatch.setattr(transport, "PAGE", 3)
    for number in range(others):
        faulty.past().put(f"data/{number}", b"1")
    store = faulty.store()
    for more in (3, 2) if others else (3, 3):
        asked = len(faulty.proxy.requests)
        assert list(store.list("snapshot/")) == []
        assert store._connection is not None
        assert len(faulty.proxy.requests) - asked == more, "the folder around is not listed again if it is large"


@pytest.mark.parametrize("kind", ["s3", "adls"])
@pytest.mark.parametrize("status", [403, 503])
def test_the_folder_around_an_empty_one_need_not_be_listed(faulty: Faulty, status: int) -> None:
    """Rights may hold for the one folder alone. Then fsspec says whether it is empty."""
    faulty.past().put("schema/schema-0", b"{}")
    store = faulty.store()
    faulty.proxy.plan(
        "refuse", method="GET", skip=1, status=status, code="AccessDenied" if status == 403 else "SlowDown"
    )
    assert list(store.list("snapshot/")) == []
    assert store._connection is not None
    assert [info.key for info in store.list("schema/")] == ["schema/schema-0"]


@pytest.mark.parametrize("kind", ["s3", "adls"])
@pytest.mark.parametrize("pages", [1, 2])
def test_a_page_in_xml_is_no_empty_listing(faulty: Faulty, pages: int) -> None:
    """A proxy says something else with status 200, once or twice, where the store has objects (H11)."""
    for key in ("schema/schema-0", "snapshot/snapshot-1"):
        faulty.past().put(key, b"{}")
    store = faulty.store()
    faulty.proxy.plan("refuse", method="GET", times=pages, status=200, code="Welcome")
    assert [info.key for info in store.list("snapshot/")] == ["snapshot/snapshot-1"]


@pytest.mark.parametrize("kind", ["s3", "adls"])
def test_a_glance_believes_an_empty_answer(faulty: Faulty) -> None:
    """Whoever asks may miss objects, so that nothing is asked again."""
    store = faulty.store()
    asked = len(faulty.proxy.requests)
    assert list(store.glance("lakelatch/intents/")) == []
    assert (len(faulty.proxy.requests) - asked, store._connection) == (1, None)
    store.put("lakelatch/intents/one", b"{}")
    assert [info.key for info in MeteredStore(store).glance("lakelatch/intents/")] == ["lakelatch/intents/one"]
    fsspec = faulty.store(transport="fsspec")
    assert [info.key for info in fsspec.glance("lakelatch/intents/")] == ["lakelatch/intents/one"]


@pytest.mark.parametrize("kind", ["s3"])
def test_a_bucket_in_another_region(faulty: Faulty) -> None:
    """s3fs finds the region of a bucket, so that it takes over, and says why."""
    store = S3Store(f"{faulty.url}/t", {**faulty.options, "transport": "auto"}, QUICK)
    faulty.proxy.plan("refuse", method="WRITE", status=301, code="PermanentRedirect")
    assert store.put_if_absent("a", b"1") == Created()
    assert (store.transport.name, store.get("a")) == ("fsspec", b"1")
    assert "another region" in store.transport.reason


PAGE = b"<html><body>Log in</body></html>"


class Elsewhere(BaseHTTPRequestHandler):
    """A server in between that sends everything to a page of its own."""

    heard: ClassVar[list[str]] = []
    """The headers of the requests."""

    def do_PUT(self) -> None:
        self.heard.append(str(self.headers))
        self.rfile.read(int(self.headers["Content-Length"]))
        there = self.path == "/page"
        self.send_response(200 if there else 303)
        self.send_header("Location", "/page")
        self.send_header("ETag", '"of-the-page"')
        self.send_header("Content-Length", str(len(PAGE)))
        self.end_headers()
        self.wfile.write(PAGE)

    def do_GET(self) -> None:
        self.headers["Content-Length"] = "0"
        self.do_PUT()

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def elsewhere() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("wanted", ["obstore", "fsspec"])
@pytest.mark.parametrize("scheme", ["s3", "abfs"])
def test_a_redirected_write_is_not_believed(elsewhere: str, scheme: str, wanted: str) -> None:
    """H2: a client that follows a redirection takes the answer of the other page for that of the store."""
    connection = f"AccountName=shop;AccountKey={AZURE_KEY['account_key']};BlobEndpoint={elsewhere}/shop"
    options = {**KEYS, "endpoint_url": elsewhere} if scheme == "s3" else {"connection_string": connection}
    kind: type[FsspecStore] = S3Store if scheme == "s3" else AdlsStore
    store = kind(f"{scheme}://bucket/t", {**options, "transport": wanted}, QUICK)
    with suppress(StoreUnavailable):  # it may prove that nothing was done
        assert isinstance(store.put_if_absent("snapshot-1", b"mine"), Unknown)
    with pytest.raises(StoreUnavailable):
        store.put("a", b"1")
    with pytest.raises(StoreUnavailable):
        list(store.list(""))


@pytest.mark.parametrize("wanted", ["obstore", "fsspec"])
def test_given_keys_are_not_mixed_with_those_of_the_environment(
    elsewhere: str, wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("AWS_SESSION_TOKEN", "of-others"), ("AWS_ACCESS_KEY_ID", "o"), ("AWS_SECRET_ACCESS_KEY", "o")):
        monkeypatch.setenv(name, value)
    Elsewhere.heard.clear()
    given = S3Store("s3://bucket/t", {**KEYS, "endpoint_url": elsewhere, "transport": wanted}, QUICK)
    given.put_if_absent("a", b"1")
    assert f"Credential={KEYS['key']}/" in Elsewhere.heard[0]
    assert "of-others" not in "".join(Elsewhere.heard)
    S3Store("s3://bucket/t", {"endpoint_url": elsewhere, "transport": wanted}, QUICK).put_if_absent("a", b"1")
    assert "of-others" in Elsewhere.heard[-1 if wanted == "fsspec" else -2]


def requests_of(**named: Callable[..., Any]) -> ObstoreRequests:
    made = ObstoreRequests(lambda bucket: None, lambda tag, data: True)
    made.named |= named
    return made


def test_a_request_that_has_not_begun_is_never_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """H9: all threads wait for answers. A create that comes to its deadline meanwhile must not be sent after it."""
    monkeypatch.setattr(transport, "_THREADS", Threads(1))
    release, sent = threading.Event(), []
    requests = requests_of(_read=lambda path: release.wait(10), _create=lambda path, data: sent.append(path))
    for name, args in (("_read", ("a",)), ("_create", ("b", b""))):
        with pytest.raises(NoResult):
            requests.run(0.01, name, *args)
    release.set()
    assert requests.run(10, "_read", "c")
    assert not sent


def test_an_interrupt_ends_the_wait() -> None:
    """H23: Ctrl-C is not kept waiting for an answer of the store."""

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    release, before = threading.Event(), signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        began = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            requests_of(_read=lambda path: release.wait(20)).run(20, "_read", "a")
        assert time.monotonic() - began < 10
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        release.set()


def test_a_client_that_dies_proves_nothing() -> None:
    class PanicException(BaseException):
        """A panic of native code."""

    def panic(path: str, data: bytes) -> None:
        raise PanicException("index out of bounds")

    store = S3Store("s3://bucket/t", {**KEYS, **THERE, "transport": "obstore"}, QUICK)
    store._carrier = (transport.this_process(), requests_of(_create=panic), store.transport, store._leased())
    assert isinstance(store.put_if_absent("a", b"1"), Unknown)


def test_what_obstore_says() -> None:
    """The texts of obstore's errors become the store's own answers, without their URLs. What cannot be read proves nothing."""
    head = "Generic S3 error: Error performing PUT http://h/b/k?X-Amz-Signature=hidden in 1ms - "
    refused = meaning(
        ValueError(f"{head}Server returned non-2xx status code: 403 Forbidden: \n\nDebug source:\n500"), "write"
    )
    assert isinstance(refused, Refused)
    assert refused.response["ResponseMetadata"]["HTTPStatusCode"] == 403
    lost = meaning(ValueError(f"{head}HTTP error: error sending request"), "create")
    assert isinstance(lost, NoAnswer)
    assert "hidden" not in f"{refused} {lost}"
    assert isinstance(meaning(type("AlreadyExistsError", (Exception,), {})("k is there"), "create"), FileExistsError)


def test_doctor_says_which_is_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    def told(**options: Any) -> Check:
        store = S3Store("s3://bucket/t", {**KEYS, **THERE, **options}, QUICK)
        return next(check for check in examine(store, {}) if check.check == "transport")

    assert told().detail.startswith("obstore: ")
    assert told(version_aware=True).detail == "fsspec: obstore cannot express storage option 'version_aware'"
    monkeypatch.setitem(sys.modules, "obstore", None)
    assert told().next_step == "pip install 'lakelatch[fast]'"
