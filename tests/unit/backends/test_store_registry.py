"""From URLs to stores, errors for URLs without a store, options that hide their secrets, and keys that stay inside the root."""

from __future__ import annotations

import importlib.metadata
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.backends.adls import AdlsStore
from lakelatch.backends.files.keys import key_defect
from lakelatch.backends.gcs import GcsStore
from lakelatch.backends.hdfs import HdfsStore
from lakelatch.backends.local import LocalStore
from lakelatch.backends.memory import MemoryStore
from lakelatch.backends.other import OtherStore
from lakelatch.backends.registry import ENTRY_POINTS, open_beside, open_store
from lakelatch.backends.requests.patience import Patience
from lakelatch.backends.s3 import S3Store
from lakelatch.backends.storage_options import StorageOptions
from lakelatch.core.errors import InvalidArgument, StoreUnavailable

ROWS = pa.table({"v": [1]})


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("{}", LocalStore),
        ("file:{}", LocalStore),
        ("file://{}", LocalStore),
        ("relative/a:b", LocalStore),
        ("memory://name/path", MemoryStore),
        ("s3://bucket/path", S3Store),
        ("s3a://bucket", S3Store),
        ("gs://bucket/path", GcsStore),
        ("gcs://bucket", GcsStore),
        ("abfs://container/path", AdlsStore),
        ("abfss://container@account.dfs.core.windows.net/path", AdlsStore),
        ("az://container", AdlsStore),
        ("hdfs://name-node:9000/lake", HdfsStore),
        ("zip://x/y", OtherStore),
    ],
)
def test_schemes(url: str, kind: type, tmp_path: Path) -> None:
    url = url.format(tmp_path)
    store = open_store(url)
    assert type(store) is kind
    assert store.url == url
    assert type(pickle.loads(pickle.dumps(store))) is kind


@pytest.mark.parametrize(
    ("url", "beside", "options", "same"),
    [
        ("s3://lake/t", "s3a://other/u", {"endpoint_url": "http://127.0.0.1:9"}, True),
        ("gs://lake/t", "gcs://other/u", {"token": "anon"}, True),
        ("abfss://c@account.dfs.core.windows.net/t", "abfs://d@account.dfs.core.windows.net/u", {"anon": "true"}, True),
        ("s3://lake/t", "gs://other/u", {"endpoint_url": "http://127.0.0.1:9"}, False),
    ],
)
def test_a_store_of_the_same_kind_has_the_same_options(
    url: str, beside: str, options: dict[str, str], same: bool
) -> None:
    """A file that Spark named with s3a:// is read by whoever opened the table with s3://."""
    found: Any = open_beside(open_store(url, options), beside)
    assert (found.url, dict(found._given)) == (beside, options if same else {})


def test_paths_are_urls(tmp_path: Path) -> None:
    open_store(tmp_path).put("a", b"1")  # type: ignore[arg-type]
    assert (tmp_path / "a").read_bytes() == b"1"


@pytest.mark.parametrize(
    ("url", "says"),
    [("s4://b/x", "s3"), ("S3://b/x", "s3://"), ("nofs://h/x", "known schemes"), ("", "empty"), (" ", "empty")],
)
def test_unknown_schemes(url: str, says: str) -> None:
    with pytest.raises(InvalidArgument, match=says):
        open_store(url)


@pytest.mark.parametrize(
    "url",
    [
        *("memory://", "memory:///x", "memory://n/../x", "s3://", "s3:///x", "s3://b/a//b", "s3://b/.."),
        *("gs://", "gs:///x", "gcs://b/../c", "abfs://", "az:///x", "abfss://c@a.dfs.core.windows.net/x//y"),
        *(
            "hdfs://",
            "hdfs://host:9000/",
            "hdfs://someone@host/x",
            "hdfs://host/a/../b",
            "webhdfs://h/a/../b",
        ),
        *("file:///x/../y", "file:/x/..", "file://localhost/../y", "file:../y"),
    ],
)
def test_invalid_urls(url: str) -> None:
    """H16: a root must not climb out of its folder either."""
    with pytest.raises(InvalidArgument):
        open_store(url)


@pytest.mark.parametrize(
    ("url", "meant"),
    [
        *((f"{scheme}:/lake/t", f"{scheme}://lake/t") for scheme in ("s3", "s3a", "gs", "gcs", "az", "memory")),
        ("abfss:/c@a.dfs.core.windows.net/t", "abfss://c@a.dfs.core.windows.net/t"),
        (str(PurePosixPath("s3://lake") / "t"), "s3://lake/t"),
        (PurePosixPath("gs://lake/t"), "gs://lake/t"),
        ("S3:/lake/t", "s3://lake/t"),
        ("s3:lake/t", "s3://lake/t"),
        ("s3:///lake/t", "s3://lake/t"),
        ("https:/host/t", "https://host/t"),
        ("C:\\data\\t", "Windows"),
        ("c:/data/t", "Windows"),
    ],
)
def test_a_url_that_has_lost_slashes_is_no_folder(
    url: Any, meant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every way in tells what was meant, and makes nothing on this machine."""
    monkeypatch.chdir(tmp_path)
    table = ll.create_table(tmp_path / "t", ROWS.schema)
    table.append(ROWS)
    doors: list[Callable[[], Any]] = [
        lambda: open_store(url),
        lambda: ll.create_table(url, ROWS.schema),
        lambda: ll.open_table(url),
        lambda: ll.is_table(url),
        lambda: ll.drop_table(url),
        lambda: ll.rename_table(str(table.url), url),
        lambda: ll.open_catalog(url),
        lambda: ll.recover(url),
        lambda: ll.recover("journal", table=url),
        lambda: ll.migrate(url, str(tmp_path / "m")),
        lambda: ll.migrate(str(tmp_path / "t"), url),
        lambda: table.clone(url),
        lambda: table.clone(url, reference=True),
        lambda: table.export(url),
    ]
    for door in doors:
        with pytest.raises(InvalidArgument, match=re.escape(meant)):
            door()
    assert [path.name for path in tmp_path.iterdir()] == ["t"]


@pytest.mark.parametrize("url", ["./s3:/lake/t", "a:b/c", "note: today", "file:{0}/t", "FILE:{0}/t", "FILE://{0}/t"])
def test_folders_with_a_colon_are_folders(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = open_store(url.format(tmp_path))
    store.put("k", b"")
    assert type(store) is LocalStore and len(list(tmp_path.glob("**/k"))) == 1


@pytest.mark.parametrize("url", ["hdfs:/lake/t", "hdfs:///lake/t"])
def test_hdfs_without_a_host_is_that_of_the_configuration(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    monkeypatch.delenv("HADOOP_HOME", raising=False)
    with pytest.raises(InvalidArgument, match="no default"):
        open_store(url).get("k")
    there = open_store(url, {"fs.defaultFS": "hdfs://127.0.0.1:1", "request_timeout": 2})
    there._patience = Patience(2.0, sends=1)  # type: ignore[attr-defined]
    with pytest.raises(StoreUnavailable):
        there.get("k")


def test_an_account_is_named_once() -> None:
    """The account is named in the URL or in the options. If both name one and they differ, it is an error."""
    url = "abfs://lake@shop.dfs.core.windows.net/x"
    assert open_store(url, {"account_name": "shop"}).capabilities.native_scheme == "abfs"
    assert open_store("abfs://lake/x", {"account_name": "shop"}).capabilities.native_scheme is None
    with pytest.raises(InvalidArgument, match=r"'shop'.*'other'"):
        open_store(url, {"account_name": "other"})


def test_other_packages_can_offer_stores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Entry point group `lakelatch.backends`: the name is a scheme, and the value is called with URL and options."""
    point = importlib.metadata.EntryPoint("myfs", f"{__name__}:offered", ENTRY_POINTS)

    class Point:
        name = point.name

        @staticmethod
        def load() -> Any:
            return offered

    monkeypatch.setattr(
        "lakelatch.backends.registry.entry_points", lambda group: [Point] if group == ENTRY_POINTS else []
    )
    store = open_store("myfs://anywhere/x", {"color": "blue"})
    assert store.url == "memory://offered/anywhere/x/blue"


def offered(url: str, options: dict[str, Any]) -> MemoryStore:
    return MemoryStore(f"memory://offered/{url.partition('://')[2]}/{options['color']}")


@pytest.mark.parametrize(
    ("package", "url", "extra"),
    [("s3fs", "s3://b/x", "s3"), ("gcsfs", "gs://b/x", "gcs"), ("adlfs", "az://c/x", "adls")],
)
def test_a_missing_package_says_what_to_install(package: str, url: str, extra: str) -> None:
    program = (
        f"import sys; sys.modules[{package!r}] = None\n"
        "from lakelatch.backends.registry import open_store\n"
        f"try: open_store({url!r})\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert said.startswith("Unsupported")
    assert f"pip install 'lakelatch[{extra}]'" in said


def test_import_is_light() -> None:
    """Opening a local store loads no client of any cloud, nor pyarrow."""
    program = (
        "import sys; from lakelatch.backends.registry import open_store; open_store('/tmp')\n"
        "print(sorted({'fsspec', 's3fs', 'botocore', 'aiohttp', 'pyarrow', 'tenacity'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "[]\n"


SECRETS = {
    "key": "AKIAEXAMPLE", "secret": "s3cr3t/abc", "token": "tok-123456", "username": "someone-else",
    "client_kwargs": {"aws_secret_access_key": "inner-secret", "region_name": "us-east-1"},
    "endpoint_url": "http://127.0.0.1:9000", "anon": False,
}  # fmt: skip


def test_options_hide_their_secrets() -> None:
    """H19: secrets are hidden in every form in which options may be printed by accident."""
    options = StorageOptions(SECRETS)
    copy = pickle.loads(pickle.dumps(options))
    assert dict(copy) == SECRETS
    hidden = ["AKIAEXAMPLE", "s3cr3t", "tok-123456", "someone-else", "inner-secret"]
    for shown in (repr(options), f"{options}", f"{[options]}", repr(copy), repr(options.without("anon"))):
        assert not [secret for secret in hidden if secret in shown]
        assert "http://127.0.0.1:9000" in shown
        assert "us-east-1" in shown
    connection = "AccountName=a;AccountKey=aGlkZGVu;BlobEndpoint=http://x;"
    azure = StorageOptions({"connection_string": connection, "sas_token": "?sv=1&sig=aa%2Fb"})
    assert azure.redact("key aGlkZGVu, signature aa/b or aa%2Fb, of a") == "key ***, signature *** or ***, of a"
    text = "cannot sign with s3cr3t/abc and inner-secret for AKIAEXAMPLE"
    assert options.redact(text) == "cannot sign with *** and *** for ***"


def test_unknown_options_are_named_without_their_values() -> None:
    """H19: a misspelled option must neither reach another server nor show its value."""
    with pytest.raises(InvalidArgument) as caught:
        S3Store("s3://bucket/x", {"secrt": "s3cr3t", "key": "k"})
    assert "'secrt'" in str(caught.value)
    assert "s3cr3t" not in str(caught.value)
    with pytest.raises(InvalidArgument, match="request_timeout"):
        S3Store("s3://bucket/x", {"request_timeout": "soon"})


@pytest.mark.parametrize("key", ["a", "a/b", "..a/b..", "a b", "é", "a\\b", "snapshot/.x.tmp", "-", "k=v"])
def test_good_keys(key: str) -> None:
    assert key_defect(key) is None


@pytest.mark.parametrize(
    "key", ["", "/a", "a/", "a//b", ".", "..", "a/..", "../a", "a/../b", "a/./b", "\x00", "\udcff", 7]
)
def test_bad_keys(key: Any) -> None:
    """H16"""
    assert key_defect(key)
