"""A bucket that keeps versions: what is deleted is marked as deleted, and its name is free again."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from servers import S3Server, s3_server

import lakelatch as ll
from lakelatch.backends.registry import open_store
from lakelatch.backends.store import AlreadyThere, Created, ObjectNotFound

from .conftest import TRANSPORTS

ROWS = pa.table({"v": [1]})


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with s3_server("moto") as made:
        yield made


@pytest.mark.parametrize("transport", sorted({TRANSPORTS["s3"], "fsspec"}))
def test_a_table_lives_and_goes_in_a_bucket_with_versions(server: S3Server, transport: str) -> None:
    bucket = server.create_bucket()
    client = server.client()
    client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    url, options = f"s3://{bucket}/t", {**server.storage_options(), "transport": transport}
    store = open_store(url, options)
    store.put("a", b"1")
    store.delete_many(["a"])
    with pytest.raises(ObjectNotFound):
        store.get("a")
    with pytest.raises(ObjectNotFound):
        store.head("a")
    store.delete_many(["a", "never"])
    assert list(store.list("")) == []
    assert (store.put_if_absent("a", b"2"), store.put_if_absent("a", b"3")) == (Created(), AlreadyThere())
    store.delete_many(["a"])
    for _ in range(2):  # the names of the first table are free for the second one
        table = ll.create_table(url, ROWS.schema, storage_options=options)
        for _ in range(3):
            table.append(ROWS)
        table.create_tag("eod")
        table.delete_tag("eod")
        table.settle()
        assert table.verify(snapshots="all", data=True) == []
        assert ll.open_table(url, storage_options=options).to_arrow().num_rows == 3
        ll.drop_table(url, storage_options=options)
        assert list(store.list("")) == []
    kept = client.list_object_versions(Bucket=bucket)
    assert kept["Versions"] and kept["DeleteMarkers"], "the store kept what it was told to delete"
