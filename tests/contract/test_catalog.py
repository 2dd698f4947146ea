"""A catalog on every store: databases and tables are listed, renamed where that is one step, copied and dropped."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.backends.files.folders import copy, folders
from lakelatch.backends.registry import open_store
from lakelatch.core.errors import TableExists, Unsupported

from .conftest import HOSTS, KINDS

FIELDS = pa.schema([("v", pa.int64())])


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind in (*HOSTS, "local", "memory")])
def test_a_catalog_on_every_store(kind: str, request: pytest.FixtureRequest) -> None:
    url, options = f"memory://catalog-contract/{kind}", dict[str, Any]()
    if kind == "local":
        url = str(request.getfixturevalue("tmp_path"))
    elif kind in HOSTS:
        host = request.getfixturevalue(HOSTS[kind])
        url, options = f"{host.new_root()}/lake", host.storage_options()
    lake = ll.open_catalog(url, storage_options=options)
    assert lake.databases() == []
    lake.create_database("air")
    assert lake.tables("air") == []
    lake.create_table("air.a b", FIELDS).append(pa.table({"v": [1, 2]}))
    lake.create_table("air.empty", FIELDS)
    assert list(lake) == ["air.a b", "air.empty"]
    try:
        lake.rename_table("air.a b", "air.flights")
    except Unsupported:
        assert kind in ("s3", "minio", "gcs", "adls")
        lake.create_table("air.flights", FIELDS).append(pa.table({"v": [1, 2]}))
        lake.drop_table("air.a b")
    else:
        with pytest.raises(TableExists):
            lake.rename_table("air.flights", "air.empty")
    assert list(lake) == ["air.empty", "air.flights"]
    root = open_store(url, options)
    large = b"0123456789" * 1000
    root.put("from/a b/x", large)
    copy(root, "from/a b/x", open_store(f"{url}/to", options), "y/z")
    assert (root.get("to/y/z"), folders(root, "from/"), folders(root, "none/")) == (large, ["a b"], [])
    lake.drop_table("air.empty")
    assert lake["air.flights"].to_arrow().num_rows == 2
    lake.drop_database("air", cascade=True)
    assert lake.databases() == []
    assert [info.key for info in root.list("air.db/")] == []
