"""Orphan cleaning as a Spark job: executors read manifests and delete, the driver decides."""

from __future__ import annotations

import os
import pickle
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
import lakelatch.spark as lake
from lakelatch.backends.local import LocalStore
from lakelatch.backends.requests.refusals import DeletionRefused
from lakelatch.spark import cleaning


def test_executors_read_and_delete_and_the_driver_decides(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same files go as without Spark; a commit that lands before the deletion keeps its old files; damage stops the run."""
    monkeypatch.setattr(cleaning, "MANIFESTS_AT_ONCE", 8)
    table = ll.create_table(str(tmp_path / "t"), pa.schema([("p", pa.int32()), ("v", pa.int64())]), partition_by=["p"])
    for value in range(4):
        table.append(pa.table({"p": [1, 2], "v": [value] * 2}).cast(table.arrow_schema))
    table.overwrite(pa.table({"p": [1], "v": [9]}).cast(table.arrow_schema), partition={"p": 1})
    table.committer.settle()
    left = {
        "manifest/manifest-left-0",
        "snapshot/.snapshot-9.left.tmp",
        *(f"p=3/bucket-0/data-left-{i}" for i in range(5)),
    }
    for key in left:
        path = Path(table.url, key)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"left over")
    newest = Path(table.url, "snapshot/snapshot-5")
    newest.rename(tmp_path / "aside")
    for path in Path(table.url).rglob("*"):
        if path.is_file():
            os.utime(path, (0, 1_000_000))
    planned = lake.clean(spark, table.url, dry_run=True)
    assert {info.key for info in planned.files} == {info.key for info in table.orphans().files} > left
    delete = cleaning.apply_clean

    def landed_meanwhile(*args: Any, **more: Any) -> Any:
        shutil.copy(tmp_path / "aside", newest)
        return delete(*args, **more)

    monkeypatch.setattr(cleaning, "apply_clean", landed_meanwhile)
    done = lake.clean(spark, table.url)
    assert {info.key for info in done.files} == left
    assert not any(Path(table.url, key).exists() for key in left)
    assert table.verify("all", data=True) == []
    assert lake.clean(spark, table.url).files == ()
    manifest = Path(table.url, "manifest", table.timeline.manifests(table.snapshot())[0].file_name)
    manifest.write_bytes(b"damaged")
    with pytest.raises(ll.TableCorrupt, match=manifest.name):
        lake.clean(spark, table.url)


def test_what_the_store_refuses_to_delete_stops_no_other(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The executors tell what stays, and the driver raises it once all else is gone."""

    def here(spark: Any, task: Any, work: Any) -> dict[int, Any]:
        sent = pa.record_batch({"task": [0], "work": [pickle.dumps(list(work))]})
        return {row["number"]: row["found"] for batch in task([sent]) for row in batch.to_pylist()}

    forget = LocalStore.forget_many

    def held(store: LocalStore, keys: Any) -> None:
        forget(store, [key for key in keys if "held" not in key])
        if kept := {key: "under a hold" for key in keys if "held" in key}:
            raise DeletionRefused(kept, store.url)

    monkeypatch.setattr(cleaning, "_run", here)
    monkeypatch.setattr(LocalStore, "forget_many", held)
    table = ll.create_table(str(tmp_path / "t"), pa.schema([("v", pa.int64())]))
    table.append(pa.table({"v": [1]}))
    table.settle()
    for name in ("data-a-held-0.parquet", "data-b-0.parquet", "data-c-held-0.parquet"):
        path = Path(table.url, "bucket-0", name)
        path.write_bytes(b"left over")
        os.utime(path, (0, 1_000_000))
    with pytest.raises(DeletionRefused, match="2 objects were not deleted") as caught:
        lake.clean(spark, table.url)
    assert sorted(caught.value.kept) == ["bucket-0/data-a-held-0.parquet", "bucket-0/data-c-held-0.parquet"]
    assert not Path(table.url, "bucket-0", "data-b-0.parquet").exists()
    assert table.to_arrow().num_rows == 1
