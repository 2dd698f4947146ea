"""Fixtures that many tests share: object stores, Spark, Apache Paimon, golden tables.

Nothing heavy starts before a test asks for it, and each server starts once in a process of the run.
"""

from __future__ import annotations

import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

import golden_tables
import hypothesis
import java_home
import pytest
import ready_workers
from dealing import Dealer, shared
from given import Fence, of_this_machine
from report import SKIPPED, TOLD, USED, none_may_be_skipped, not_here
from servers import (
    AzureServer,
    FaultProxy,
    GcsServer,
    HdfsServer,
    S3Server,
    azure_server,
    gcs_server,
    hdfs_server,
    s3_server,
)
from servers.process import NotInstalled

TESTS = Path(__file__).parent
CHECKOUT = TESTS.parent
LONGEST = "test_lives_of_tables.py"


def pytest_configure() -> None:
    # A slow or busy machine is no fault of what is tested.
    hypothesis.settings.register_profile(
        "lakelatch", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
    )
    hypothesis.settings.load_profile("lakelatch")
    sys.addaudithook(Fence(CHECKOUT.resolve(), of_this_machine()))
    # Children (Spark's workers, command lines, other writers) see the package as this process does.
    os.environ["PYTHONPATH"] = os.pathsep.join([str(CHECKOUT / ".tools"), str(TESTS)])
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # A developer's own cloud settings must not reach a test, nor a test the cloud.
    theirs = ("AWS_", "AZURE_", "GOOGLE_", "GCSFS_", "STORAGE_EMULATOR_HOST", "LAKELATCH_JOURNAL", "LAKELATCH_ALLOW")
    given = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY") if "LAKELATCH_S3_URL" in os.environ else ()
    for name in [n for n in os.environ if n.startswith(theirs) and n not in given]:
        del os.environ[name]
    os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
    # What a test allows, no developer has allowed.
    os.environ["LAKELATCH_SETTINGS"] = os.path.join(tempfile.mkdtemp(prefix="lakelatch-settings-"), "settings.json")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Python looks for garbage neither while tests are collected nor, later, among them: they live until the end, and there
    are enough of them to make each look expensive."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_unconfigure() -> None:
    shutil.rmtree(Path(os.environ.pop("LAKELATCH_SETTINGS")).parent, ignore_errors=True)
    gc.unfreeze()  # else libraries take what is left at the end of Python for leaks of theirs, and say so


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest file begins first, and then what takes long to start: a process that began one of them among the last ones
    would keep all others waiting."""
    items.sort(key=lambda item: (item.path.name != LONGEST, shared(item.nodeid) is None))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    return Dealer(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.skipped:
        SKIPPED.append(report.nodeid)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.skipped:
        SKIPPED.append(report.nodeid)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):  # one of several processes: the one that reports is another
        session.config.workeroutput["report"] = (TOLD, USED)
    elif SKIPPED and none_may_be_skipped():
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    told, used = getattr(node, "workeroutput", {}).get("report", ([], {}))
    TOLD.extend(told)
    USED.update(used)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    sections = {
        "figures of this run": TOLD,
        "servers and runtimes of this run": [f"{what}: {which}" for what, which in sorted(USED.items())],
        "skipped, where nothing may be: the run has failed": SKIPPED if none_may_be_skipped() else [],
    }
    for title, lines in sections.items():
        if lines:
            terminalreporter.section(title)
            for line in lines:
                terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def s3_host() -> Iterator[S3Server]:
    """The S3 server of this run."""
    with s3_server() as server:
        USED["S3"] = server.name
        yield server


@pytest.fixture
def s3(s3_host: S3Server) -> tuple[str, dict[str, Any]]:
    """A fresh bucket: (url without a slash at its end, storage options)."""
    return f"s3://{s3_host.create_bucket()}", s3_host.storage_options()


@pytest.fixture
def faulty_s3(s3_host: S3Server) -> Iterator[tuple[str, dict[str, Any], FaultProxy]]:
    """A fresh bucket behind a proxy that does what it is told: (url, storage options through it, the proxy)."""
    with FaultProxy(s3_host.endpoint_url) as proxy:
        yield f"s3://{s3_host.create_bucket()}", s3_host.storage_options(proxy.url), proxy


@contextmanager
def reported(what: str, running: AbstractContextManager[Any]) -> Iterator[Any]:
    """A server of this run, named in the report; where the machine lacks what it is built with, the tests are skipped, and
    the report says so. A server that is there and does not start is an error."""
    with ExitStack() as stack:
        try:
            server = stack.enter_context(running)
        except NotInstalled as error:
            not_here(what, error)
        USED[what] = server.name
        yield server


@pytest.fixture(scope="session")
def gcs_host() -> Iterator[GcsServer]:
    """The GCS server of this run."""
    with reported("GCS", gcs_server()) as server:
        yield server


@pytest.fixture
def gcs(gcs_host: GcsServer) -> tuple[str, dict[str, Any]]:
    """A fresh bucket: (url, storage options)."""
    return gcs_host.new_root(), gcs_host.storage_options()


@pytest.fixture(scope="session")
def azure_host() -> Iterator[AzureServer]:
    """The Azure server of this run."""
    with reported("ADLS", azure_server()) as server:
        yield server


@pytest.fixture
def adls(azure_host: AzureServer) -> tuple[str, dict[str, Any]]:
    """A fresh container: (url, storage options)."""
    return azure_host.new_root(), azure_host.storage_options()


@pytest.fixture(scope="session")
def minio_host() -> Iterator[S3Server]:
    """The other S3 server of this run: its refusals have another shape."""
    with reported("S3, the other one", s3_server("minio")) as server:
        yield server


@pytest.fixture(scope="session")
def hdfs_host() -> Iterator[HdfsServer]:
    """The HDFS of this run."""
    with reported("HDFS", hdfs_server()) as server:
        yield server


@pytest.fixture
def golden(tmp_path: Path) -> Callable[[str], golden_tables.GoldenTable]:
    """Unpacks a golden table by `set/name` into this test's folder: it may be changed."""
    return lambda table_id: golden_tables.unpack(table_id, tmp_path / "golden")


@pytest.fixture(scope="session")
def paimon_java() -> Any:
    """Apache Paimon (Java) in this process."""
    from interop.java import PaimonJava

    java = PaimonJava()
    USED["Apache Paimon"] = f"{java.version} on Java at {java_home.wire()}"
    return java


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The Spark session of this run: two cores, a task may fail once (Spark's own workers do, now and then), UTC, no UI."""
    home = java_home.wire()
    from pyspark.sql import SparkSession

    folder = tmp_path_factory.mktemp("spark")
    settings = {
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Duser.timezone=UTC",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.local.dir": str(folder / "local"),
        # Workers are forked with everything imported. Sessions in processes of their own have Spark's own daemon.
        "spark.python.daemon.module": "lakelatch.spark.daemon",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master("local[2, 2]").appName("lakelatch-tests")
    for key, value in settings.items():
        builder = builder.config(key, value)
    with ready_workers.on_the_path():
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    USED["Spark"] = f"{session.version} on Java at {home}"
    yield session
    session.stop()
