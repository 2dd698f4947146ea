"""`Table.to_iceberg` of a table on S3: the metadata lies on this machine, the data files where they are."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from servers.s3 import S3Server

import lakelatch as ll


def test_a_table_on_s3(s3: tuple[str, dict[str, Any]], s3_host: S3Server) -> None:
    root, options = s3
    schema = pa.schema([("k", pa.int64()), ("p", pa.string())])
    table = ll.create_table(
        f"{root}/t", schema, partition_by=["p"], options={"deletion-vectors.enabled": "true"}, storage_options=options
    )
    table.append(pa.table({"k": range(10), "p": ["a b"] * 5 + ["c/d"] * 5}))
    table.delete(where="k = 3")
    properties = {
        "s3.endpoint": s3_host.endpoint_url,
        "s3.access-key-id": s3_host.key,
        "s3.secret-access-key": s3_host.secret,
        "s3.region": "us-east-1",
    }
    seen = table.to_iceberg(properties=properties)
    assert sorted(seen.scan().to_arrow()["k"].to_pylist()) == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    assert sorted(seen.scan(row_filter="p = 'c/d'").to_arrow()["k"].to_pylist()) == [5, 6, 7, 8, 9]
