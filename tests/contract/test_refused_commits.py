"""What a commit says whose store refuses a file of it: the right, the clock or the region, and not the network."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.backends.store import ObjectInfo
from lakelatch.core.errors import StoreUnavailable

from .conftest import DIALECTS, Faulty

ROWS = pa.table({"a": [1]})
REFUSALS = {
    "s3": (403, "AccessDenied", "rights on the path"),
    "gcs": (403, "forbidden", "rights on the path"),
    "azure": (403, "AuthorizationPermissionMismatch", "rights on the path"),
}


@pytest.mark.parametrize("where", ["/snapshot-2$", "/manifest/", "/bucket-0/"])
def test_a_refusal_inside_a_commit_says_what_to_do(faulty: Faulty, where: str) -> None:
    """Nothing is committed, and nothing stays of what the commit can take away with proof (H5)."""
    url = f"{faulty.url}/table"
    table = ll.create_table(url, ROWS.schema, storage_options=faulty.options, options={"commit.max-retries": "3"})
    table.append(ROWS)
    table.settle()
    before = listed(faulty)
    status, code, words = REFUSALS[DIALECTS[faulty.kind]]
    faulty.proxy.plan("refuse", method="WRITE", path=where, times=1000, status=status, code=code)
    with pytest.raises(StoreUnavailable) as caught:
        table.append(ROWS)
    assert re.search(f"not committed to .*: {status} {code}.*{words}", str(caught.value))
    assert "network" not in str(caught.value)
    table.settle()
    left = {info.key for info in listed(faulty)} - {info.key for info in before}
    assert not left or where != "/snapshot-2$", "else an upload may still be under way"
    assert not any(key.startswith(("bucket-", "snapshot/")) for key in left)
    assert ll.open_table(url, storage_options=faulty.past_options).to_arrow().num_rows == 1


def listed(faulty: Faulty) -> set[ObjectInfo]:
    return set(faulty.past().list(""))
