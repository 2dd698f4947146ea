"""The page on permissions: each role can do what the page says with the rights that it names, and no more."""

from __future__ import annotations

import fnmatch
import itertools
import json
import re
import time
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest
from pages import CHECKOUT

import lakelatch as ll
from lakelatch.backends import probe
from lakelatch.backends.memory import MemoryStore
from lakelatch.backends.store import PutOutcome
from lakelatch.coordinator.commit import committer
from lakelatch.core.errors import StoreUnavailable
from lakelatch.table.table import Table

PAGE = (CHECKOUT / "docs" / "stores" / "permissions.md").read_text()
COUNTER = itertools.count()
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.int64())])


def rights() -> dict[str, tuple[str, str]]:
    """Role -> what it may write, and what it may delete, in the words of the page."""
    table = PAGE.partition("<!-- roles -->")[2].partition("<!-- /roles -->")[0]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line.startswith("|")
    ]
    return {role: (writes, deletes) for role, _, reads, writes, deletes in rows[2:] if reads == "everything"}


def allows(words: str, key: str) -> bool:
    if words == "nothing":
        return False
    assert words.startswith("everything"), words
    return not key.startswith(tuple(re.findall(r"`([^`]+)`", words)))


class Guarded(MemoryStore):
    """A store that knows the rights of a role, and of the table's owner while `role` is None."""

    role: str | None = None

    def _check(self, key: str, part: int) -> None:
        if self.role is not None and not allows(rights()[self.role][part], key):
            raise StoreUnavailable(f"403: {self.role} may not {('write', 'delete')[part]} {key}")

    def put(self, key: str, data: bytes) -> None:
        self._check(key, 0)
        super().put(key, data)

    def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
        self._check(key, 0)
        return super().put_if_absent(key, data)

    def open_output(self, key: str) -> Any:
        self._check(key, 0)
        return super().open_output(key)

    def delete_many(self, keys: Iterable[str]) -> None:
        wanted = list(keys)
        for key in wanted:
            self._check(key, 1)
        super().delete_many(wanted)


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "v": list(ids)}, SCHEMA)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Guarded:
    url = f"memory://roles-{next(COUNTER)}/table"
    options = {"bucket": "1", "num-sorted-run.compaction-trigger": "2", "snapshot.time-retained": "100 ms"}
    made = ll.create_table(url, SCHEMA, primary_key=["id"], options=options)
    for n in range(3):
        made.upsert(rows(n))
    monkeypatch.setattr(committer, "PROBED", probe.ProbedStores())  # as in a new process
    return Guarded(url)


def opened(store: Guarded, role: str) -> Table:
    store.role = role
    return Table(store, ll.open_table(store.url).schema)


def test_a_reader_reads(store: Guarded) -> None:
    table = opened(store, "reader")
    assert table.to_arrow().num_rows == 3 and table.changes(start=0, end=1) is not None
    with pytest.raises(StoreUnavailable, match="reader may not write"):
        table.upsert(rows(9))
    assert ll.open_table(store.url).count() == 3


def test_a_writer_writes_and_compacts(store: Guarded) -> None:
    table = opened(store, "writer")
    for n in range(4):
        table.upsert(rows(n, 10 + n))
    assert table.update(where="id = 1", set={"v": "v + 100"}).rows_updated == 1
    assert table.delete(where="id = 2").rows_deleted == 1
    table.committer.settle()
    assert ll.open_table(store.url).count() == 7
    assert any(s.commit_kind == "COMPACT" for s in table.snapshots()), "its writes compact"
    for refused in (lambda: table.alter(ll.set_option("bucket", "2")), lambda: table.create_tag("t")):
        with pytest.raises(StoreUnavailable, match="writer may not write"):
            refused()


def test_a_maintainer_maintains(store: Guarded) -> None:
    table = opened(store, "maintainer")
    table.create_tag("eod")
    table.create_branch("side", tag="eod")
    table.set_consumer("etl", next_snapshot=2)
    table.delete_consumer("etl")
    table.delete_branch("side")
    table.delete_tag("eod")
    table.compact(full=True)
    time.sleep(2.1)  # younger snapshots may be the base of a commit that is under way
    table.expire(retain_max=1, retain_min=1)
    table.clean(older_than=0)
    assert len(table.snapshots()) == 1 and table.count() == 3
    with pytest.raises(StoreUnavailable, match="maintainer may not write schema/"):
        table.alter(ll.set_option("snapshot.num-retained.max", "5"))


def test_an_owner_alters_what_it_owns(store: Guarded) -> None:
    table = opened(store, "owner")
    table.alter(ll.add_column("w", "INT"))
    assert table.to_arrow().column_names == ["id", "v", "w"]


def test_the_policy_of_s3_is_that_of_the_writer() -> None:
    policy = json.loads(re.search(r"```json\n(.*?)```", PAGE, re.DOTALL)[1])
    root = "arn:aws:s3:::lake/air/flights/"

    def may_put(key: str) -> bool:
        found = set()
        for statement in policy["Statement"]:
            actions, resources = (
                [each] if isinstance(each, str) else each for each in (statement["Action"], statement["Resource"])
            )
            if "s3:PutObject" in actions and any(fnmatch.fnmatchcase(root + key, each) for each in resources):
                found.add(statement["Effect"])
        return found == {"Allow"}

    keys = [
        "bucket-0/a",
        "p=1/bucket-0/a",
        "manifest/m",
        "index/i",
        "snapshot/LATEST",
        "lakelatch/intents/i",
        "schema/schema-1",
    ]
    keys += [
        "tag/tag-a",
        "branch/branch-b/schema/schema-0",
        "consumer/consumer-c",
        "statistics/s",
        "changelog/changelog-1",
    ]
    assert {key: may_put(key) for key in keys} == {key: allows(rights()["writer"][0], key) for key in keys}
