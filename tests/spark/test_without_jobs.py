"""Decisions of the pipeline that need no job: columns, options, packing, secrets. No session is started."""

from __future__ import annotations

import dataclasses
import inspect
import os
import pickle
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql import types as spark

import lakelatch as ll
import lakelatch.spark as lake
from lakelatch.backends.registry import open_store
from lakelatch.core.errors import InvalidArgument
from lakelatch.core.metadata.schema import new_schema
from lakelatch.core.rows.types import sql
from lakelatch.spark.columns import match_columns
from lakelatch.spark.jobs.packing import packed
from lakelatch.spark.jobs.running import _job_error, _remove_job
from lakelatch.spark.jobs.tasks import WriteTask
from lakelatch.spark.options.asked import Asked
from lakelatch.spark.options.source_options import SourceOptions
from lakelatch.spark.sessions.hadoop import hadoop_options
from lakelatch.spark.sessions.shipping import opener, shipped, shipped_function, worker_problem
from lakelatch.spark.sessions.worker_errors import HIDE_TRACEBACK, one_sentence
from lakelatch.spark.statements.source import TableSourceReader
from lakelatch.spark.types import from_spark_schema, to_spark
from lakelatch.table.scan.split import Split


def test_one_value_holds_all_that_is_asked_of_a_write() -> None:
    """What one way of writing takes, every other way can pass on."""
    asked = {field.name: field.default for field in dataclasses.fields(Asked) if field.name != "url"}
    arguments = {n: p.default for n, p in inspect.signature(lake.write).parameters.items() if n not in ("df", "url")}
    assert {name: value for name, value in asked.items() if name not in ("in_order", "query")} == arguments


def table(*columns: tuple[str, str]) -> Any:
    return new_schema(ll.Schema(columns).fields)


def frame(ddl: str) -> spark.StructType:
    return spark.StructType(
        [spark.StructField(*part.split(":", 1)[:1], _TYPES[part.split(":", 1)[1]]) for part in ddl.split()]
    )


_TYPES: dict[str, spark.DataType] = {
    "int": spark.IntegerType(),
    "bigint": spark.LongType(),
    "string": spark.StringType(),
    "date": spark.DateType(),
    "ts": spark.TimestampType(),
    "ntz": spark.TimestampNTZType(),
    "void": spark.NullType(),
    "double": spark.DoubleType(),
    "variant": spark.VariantType(),
    "ts_array": spark.ArrayType(spark.TimestampType()),
    "pair": spark.StructType(
        [spark.StructField("x", spark.IntegerType()), spark.StructField("y", spark.TimestampType())]
    ),
}


def test_spark_casts_only_what_it_keeps() -> None:
    """Spark casts points in time with the session's zone. The executors check all other values and never truncate."""
    schema = table(("a", "BIGINT"), ("t", "TIMESTAMP(6)"), ("n", "INT"), ("s", "STRING"))
    columns = match_columns(frame("t:ts a:int n:bigint s:void"), schema)
    assert columns.names == ("t", "a", "n", "s")
    assert columns.casts == (spark.TimestampNTZType(), None, None, spark.StringType())


@pytest.mark.parametrize(
    ("ddl", "column", "said"),
    [
        ("nope:int", ("a", "INT"), "no column 'nope'"),
        ("a:ts", ("a", "DATE"), "column 'a' is timestamp"),
        ("a:ts", ("a", "BIGINT"), "column 'a' is timestamp"),
        ("a:int", ("a", "TIMESTAMP(6)"), "column 'a' is int"),
        ("a:ts", ("a", "STRING"), "column 'a' is timestamp"),
        ("a:string", ("a", "VARIANT"), "column 'a' is string"),
        ("a:pair", ("a", "INT"), "column 'a' is struct"),
        ("b:int", ("a", "INT NOT NULL"), "no column 'b'"),
    ],
)
def test_types_that_never_fit_are_rejected_before_the_job(ddl: str, column: tuple[str, str], said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        match_columns(frame(ddl), table(column))


def test_missing_columns() -> None:
    """A missing column becomes null if it is nullable, else an error; partition= fills in columns that the frame omits."""
    schema = table(("a", "INT NOT NULL"), ("b", "INT"))
    with pytest.raises(InvalidArgument, match="column 'a' is missing"):
        match_columns(frame("b:int"), schema)
    assert match_columns(frame("b:int"), schema, ["a"]).names == ("b",)
    twice = spark.StructType([spark.StructField("b", spark.IntegerType())] * 2)
    with pytest.raises(InvalidArgument, match="twice"):
        match_columns(twice, schema, ["a"])


def test_fields_inside_columns_are_matched_by_name() -> None:
    """Spark casts structs by position, but a value must never end up in a field of another name."""
    schema = new_schema(from_spark_schema(frame("p:pair")))
    swapped = spark.StructType([spark.StructField("p", spark.StructType(_TYPES["pair"].fields[::-1]))])  # type: ignore[attr-defined]
    assert match_columns(swapped, schema).casts == (None,), "Arrow casts structs by name"
    other = spark.StructType([spark.StructField("y", spark.DateType()), spark.StructField("x", spark.IntegerType())])
    cast = match_columns(spark.StructType([spark.StructField("p", other)]), schema).casts[0]
    assert cast is not None
    assert cast.simpleString() == "struct<y:timestamp,x:int>", "in the frame's order"
    stranger = spark.StructType([spark.StructField("p", spark.StructType([spark.StructField("z", spark.DateType())]))])
    with pytest.raises(InvalidArgument, match="'z'"):
        match_columns(stranger, schema)


def test_types_survive_a_round_trip() -> None:
    """The types of a frame become those of a table, and back."""
    struct = spark.StructType(
        [spark.StructField("x", spark.DecimalType(38, 18)), spark.StructField("y", spark.DateType())]
    )
    schema = spark.StructType(
        [
            spark.StructField("a", spark.ArrayType(struct)),
            spark.StructField("m", spark.MapType(spark.StringType(), spark.ArrayType(spark.ByteType()))),
            spark.StructField("v", spark.VariantType()),
            spark.StructField("t", spark.TimestampType()),
        ]
    )
    fields = from_spark_schema(schema)
    assert [to_spark(f.type) for f in fields] == [f.dataType for f in schema.fields]
    ids = [f.id for f in fields]
    assert ids == [0, 3, 4, 5], "fields inside a ROW take ids, too"
    assert sql(fields[3].type) == "TIMESTAMP(6) WITH LOCAL TIME ZONE"
    with pytest.raises(InvalidArgument, match="'i'"):
        from_spark_schema(spark.StructType([spark.StructField("i", spark.DayTimeIntervalType())]))


def test_source_options_are_checked() -> None:
    with pytest.raises(InvalidArgument, match="commit-usr") as caught:
        SourceOptions({"path": "/t", "commit-usr": "etl"})
    assert "commit-user" in caught.value.next_step
    assert [SourceOptions({"path": "/t", **more}).group for more in ({}, {"Group": "auto"})] == [None, "auto"]
    with pytest.raises(InvalidArgument, match="'snapshot' is 'three'"):
        SourceOptions({"path": "/t", "snapshot": "three"})
    with pytest.raises(InvalidArgument, match="URL"):
        SourceOptions({})
    with pytest.raises(InvalidArgument, match=r"'lake/t' is a relative path.*'/.*/lake/t'"):
        SourceOptions({"path": "lake/t"})
    for url in ("/t", "file:/t", "s3://b/t", "~/t"):
        assert SourceOptions({"path": url}, "/home").url == url
    assert SourceOptions({"path": "lake/t"}, "/home").url == "/home/lake/t"
    told = SourceOptions(
        {"path": "/t", "storage.key": "AKIA", "storage.client_kwargs": '{"region_name": "x"}', "property.a": "b"}
    )
    assert told.storage_options["client_kwargs"] == {"region_name": "x"}
    assert told.properties == {"a": "b"}


def test_secrets_reach_the_executors_but_appear_in_no_text() -> None:
    """H19: Explicit keys reach the executors, and appear in no text on the way."""
    store = open_store("s3://bucket/table", {"key": "AKIAEXAMPLE", "secret": "hush-hush-secret"})
    task = WriteTask(store, table(("a", "INT")), "job", ("a",))
    options = SourceOptions({"path": "/t", "storage.secret": "hush-hush-secret"})
    for text in (repr(task), str(task), repr(pickle.loads(pickle.dumps(task))), repr(options.storage_options)):
        assert "hush-hush" not in text
        assert "AKIAEXAMPLE" not in text
    assert pickle.loads(pickle.dumps(options)).storage_options["secret"] == "hush-hush-secret"


def test_storage_options_are_translated_to_hadoops_names() -> None:
    """Each way to sign in that Hadoop's clients support is translated; for others the result is None."""
    told = hadoop_options(
        "s3a://b/t", {"key": "k", "secret": "s", "token": "t", "client_kwargs": {"region_name": "eu-west-1"}}
    )
    assert told is not None
    assert told["fs.s3a.session.token"] == "t"
    assert told["fs.s3a.endpoint.region"] == "eu-west-1"
    assert hadoop_options("file:/t", {"fsync": False}) == {}
    for root in ("s3a://b/t", "gs://b/t", "abfss://c@shop.dfs.core.windows.net/t", "hdfs://lake/t"):
        assert hadoop_options(root, {}) == {}
        assert hadoop_options(root, {"request_timeout": 5, "use_listings_cache": False}) == {}, "lakelatch's own"
    google = hadoop_options("gs://b/t", {"token": "/k.json", "project": "p", "requester_pays": True})
    assert google is not None
    assert google["fs.gs.auth.service.account.json.keyfile"] == "/k.json"
    assert google["fs.gs.requester.pays.project.id"] == "p"
    host = "shop.dfs.core.windows.net"
    azure = {"account_name": "shop", "tenant_id": "t", "client_id": "i", "client_secret": "s"}
    told = hadoop_options(f"abfss://c@{host}/t", azure)
    assert told is not None
    assert told[f"fs.azure.account.oauth2.client.endpoint.{host}"] == "https://login.microsoftonline.com/t/oauth2/token"
    signed = hadoop_options(f"abfs://c@{host}/t", {"sas_token": "?sv=1&sig=x"})
    assert signed is not None
    assert signed[f"fs.azure.sas.fixed.token.{host}"] == "sv=1&sig=x"
    shared = hadoop_options(f"abfs://c@{host}/t", {"account_key": "k"})
    assert shared is not None
    assert shared[f"fs.azure.account.key.{host}"] == "k"


@pytest.mark.parametrize(
    ("root", "options"),
    [
        ("s3a://b/t", {"key": "k", "secret": "s", "sse_algorithm": "aws:kms"}),
        ("s3a://b/t", {"key": "k"}),
        ("s3a://b/t", {"client_kwargs": {"verify": False}}),
        ("gs://b/t", {"token": "ya29.x"}),
        ("gs://b/t", {"token": {"type": "service_account"}}),
        ("abfss://c@shop.dfs.core.windows.net/t", {"account_name": "other"}),
        ("abfss://c@shop.dfs.core.windows.net/t", {"account_key": "k", "sas_token": "s"}),
        ("abfss://c@shop.dfs.core.windows.net/t", {"connection_string": "x"}),
        ("hdfs://lake/t", {"dfs.replication": 1, "kerberos_keytab": "/k"}),
        ("ftp://h/t", {"user": "u"}),
    ],
)
def test_storage_options_without_an_equivalent_in_hadoop(root: str, options: dict[str, Any]) -> None:
    """No option is silently dropped; Arrow reads such files."""
    assert hadoop_options(root, options) is None


def test_splits_are_packed_into_few_even_tasks() -> None:
    from lakelatch.core.metadata.data_file import DataFile

    splits = [
        Split(b"", "", 0, -1, (DataFile(f"f{i}", size << 20, 1),), (f"f{i}",))
        for i, size in enumerate([50, 40, 30, 20, 10, 1, 1, 1])
    ]
    groups = packed(splits, 2, 1 << 40)
    assert [sum(s.size for s in g) >> 20 for g in groups] == [80, 73]
    assert sorted(s.keys for g in groups for s in g) == sorted(s.keys for s in splits)
    assert len(packed(splits, 2, 64 << 20)) == 3, "no task is much larger than that"
    assert len(packed(splits[-2:], 8, 1 << 40)) == 1, "a task costs more than a small file"
    assert packed([], 2, 1) == []


def test_an_error_from_an_executor_keeps_its_class() -> None:
    """A value that does not fit raises InvalidArgument instead of Spark's error, and the message names files that are left."""
    spark_error = RuntimeError(
        "Traceback …\nlakelatch.core.errors.InvalidArgument: column 'a': 300 is too large\n\tat …"
    )
    error = _job_error(spark_error, ["bucket-0/data-x.parquet"], "data-x")
    assert isinstance(error, InvalidArgument)
    assert "column 'a': 300 is too large" in str(error)
    assert "bucket-0/data-x.parquet" in str(error)
    assert error.left_files == ["bucket-0/data-x.parquet"]  # type: ignore[attr-defined]
    assert _job_error(ValueError("theirs"), [], "data-x").args == ("theirs",)


def test_files_of_a_failed_job_go_wherever_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those in external locations too; other jobs' files stay, and what cannot be deleted is told."""
    outside = tmp_path / "out"
    options = {"data-file.external-paths": f"file://{outside}", "data-file.external-paths.strategy": "round-robin"}
    table = ll.create_table(str(tmp_path / "t"), ll.Schema([("v", "INT")]), options=options)
    for root in (tmp_path / "t", outside):
        (root / "bucket-0").mkdir(parents=True)
        for job in ("mine", "theirs"):
            (root / "bucket-0" / f"data-{job}-0.parquet").write_bytes(b"x")

    def left() -> list[str]:
        return sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("data-*"))

    with monkeypatch.context() as refusing:
        refusing.setattr("os.unlink", lambda path: (_ for _ in ()).throw(PermissionError(1, "Operation not permitted")))
        kept = _remove_job(table.store, table.schema, "mine")
        assert sorted(kept) == ["bucket-0/data-mine-0.parquet", f"file:{outside}/bucket-0/data-mine-0.parquet"]
    assert _remove_job(table.store, table.schema, "mine") == []
    assert left() == ["out/bucket-0/data-theirs-0.parquet", "t/bucket-0/data-theirs-0.parquet"]


def test_without_pyspark_the_error_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['pyspark'] = None\n"
        "import lakelatch.spark as lake\n"
        "try: lake.write\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Unsupported")
    assert "lakelatch[spark]" in done.stdout


def test_what_is_sent_opens_only_where_the_packages_fit() -> None:
    """A worker without lakelatch, which is a Python without it on the path here, says one sentence for each kind of object."""
    schema = table(("a", "INT"))
    reader = object.__new__(TableSourceReader)
    sent = [shipped(WriteTask(open_store("memory://t"), schema, "job", ("a",))), shipped_function(len), reader]
    code = (
        "import os, pickle, sys\n"
        "for sent in pickle.load(sys.stdin.buffer):\n"
        "    try: pickle.loads(sent)\n"
        "    except Exception as error: print(type(error).__module__, type(error).__name__, error)\n"
        "    print('hidden', os.environ.pop('SPARK_HIDE_TRACEBACK', None))\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=pickle.dumps([cloudpickle.dumps(each) for each in sent]),  # type: ignore[no-untyped-call]
        env=environment,
        cwd="/",
        capture_output=True,
        check=True,
    )
    host = f"host {platform.node()}, {sys.executable}"
    sentence = (
        f"Spark's Python workers cannot import lakelatch: {host} (install lakelatch {ll.__version__} there, or send it"
    )
    lines = done.stdout.decode().splitlines()
    assert lines[1::2] == ["hidden 1"] * 3
    for line in lines[::2]:
        assert line.startswith(f"lakelatch.core.errors Unsupported {sentence}"), line


def test_versions_are_compared_where_a_task_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    """lakelatch must be the same; of pyarrow the major version."""
    monkeypatch.setenv("SPARK_HIDE_TRACEBACK", "as it was")
    payload = pickle.dumps("opened")
    major, _, rest = pa.__version__.partition(".")
    assert opener(pyarrow=f"{major}.999")(payload) == "opened"
    with pytest.raises(RuntimeError, match=rf"have pyarrow {pa.__version__}, and the driver has {int(major) + 1}\."):
        opener(pyarrow=f"{int(major) + 1}.{rest}")(payload)
    with pytest.raises(RuntimeError, match=rf"have lakelatch {ll.__version__}, and the driver has 9\.9\.9"):
        opener(lakelatch="9.9.9")(payload)
    with pytest.raises(RuntimeError, match="cannot import nowhere_to_be_found, which the job needs"):
        opener()(b"cnowhere_to_be_found\nx\n.")


def test_workers_that_cannot_start_are_recognised_in_sparks_text() -> None:
    """As Spark 4.1 says it, where `spark.python.daemon.module` names a module that executors lack."""
    text = (
        "Lost task 0.3 in stage 0.0 (TID 10) (10.0.0.7 executor 0): org.apache.spark.SparkException: \n"
        "Error from python worker:\n  /usr/bin/python3: Error while finding module specification for "
        "'lakelatch.spark.daemon' (ModuleNotFoundError: No module named 'lakelatch')\nPYTHONPATH was:\n"
    )
    told = worker_problem(text)
    assert told is not None
    assert str(told).startswith(
        "Spark's Python workers cannot start lakelatch.spark.daemon: host 10.0.0.7 (install lakelatch"
    )
    assert worker_problem("ValueError: the user's own") is None
    assert "pyarrow" in str(worker_problem("ModuleNotFoundError: No module named 'pyarrow'"))


def test_only_errors_of_lakelatch_lose_their_traceback_and_only_in_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug keeps its traceback. Nothing is set in the user's own process."""
    for name in [name for name in os.environ if name.startswith("PYTHON_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv(HIDE_TRACEBACK, "")
    with pytest.raises(InvalidArgument), one_sentence():
        raise InvalidArgument("x")
    assert os.environ[HIDE_TRACEBACK] == ""
    monkeypatch.setenv("PYTHON_WORKER_FACTORY_PORT", "1")
    with pytest.raises(ZeroDivisionError), one_sentence():
        raise ZeroDivisionError
    assert os.environ[HIDE_TRACEBACK] == ""
    with pytest.raises(InvalidArgument), one_sentence():
        raise InvalidArgument("x")
    assert os.environ[HIDE_TRACEBACK] == "1"


def test_a_daemon_imports_what_workers_need_and_they_do_not_walk_it_after_each_task() -> None:
    """Each collection of garbage in a worker, one per task, would look at all that the daemon imported."""
    code = (
        "import gc, sys; from lakelatch.spark.daemon import OF_EVERY_WORKER, import_once; import_once(); "
        "print(set(OF_EVERY_WORKER) <= set(sys.modules), gc.isenabled(), gc.get_freeze_count(), len(gc.get_objects()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    imported, enabled, left_out, walked = done.stdout.split()
    assert (imported, enabled) == ("True", "True")
    assert int(left_out) > 50_000 > 1_000 > int(walked)


def test_a_process_that_plans_and_commits_pays_for_its_imports_once() -> None:
    """Spark invalidates the caches of archives before each batch, and collects garbage after it, in each of these processes."""
    code = (
        "import gc, zipimport; from lakelatch.spark.daemon import spare; import lakelatch.spark.statements.source as source; "
        "before = zipimport.zipimporter.invalidate_caches; spare(); "
        "first = gc.get_freeze_count(); kept = zipimport.zipimporter.invalidate_caches is not before; "
        "more = [[] for _ in range(5000)]; spare(); print(kept, first, gc.get_freeze_count() == first)"
    )

    def said(**variables: str) -> list[str]:
        environment = {**os.environ, **variables}
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
        return done.stdout.split()

    kept, frozen, once = said(PYTHON_WORKER_FACTORY_SECRET="x")
    assert (kept, once) == ("True", "True")
    assert int(frozen) > 50_000
    assert said() == ["False", "0", "True"], "a user's own process is left as it is"


def test_importing_the_data_source_does_not_import_pandas() -> None:
    """Each process in which Spark plans or commits imports the data source: pandas would cost a third more CPU there."""
    code = "import sys, pyspark.sql.datasource as d; had = 'pandas' in sys.modules; import lakelatch.spark.statements.source; "
    code += "print(had or 'pandas' not in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True"]
