"""Whatever ends a commit after its first send: the exception carries the identity and a way to find out the outcome (H23)."""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa
import pytest

from lakelatch.backends.memory import MemoryStore
from lakelatch.backends.store import PutOutcome
from lakelatch.core.errors import OutcomeUnknown
from lakelatch.core.metadata.schema import new_schema
from lakelatch.core.rows.arrow import from_arrow_schema
from lakelatch.table.table import Table

COUNTER = itertools.count()
ROWS = pa.table({"v": pa.array([1], pa.int64())})
ENDS: list[type[BaseException]] = [
    KeyboardInterrupt,
    SystemExit,
    GeneratorExit,
    MemoryError,
    RuntimeError,
    RecursionError,
]


class Interrupting(MemoryStore):
    """A store in memory that interrupts the process at one of its requests, before or after carrying it out."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.at: tuple[str, str] | None = None
        self.error: BaseException | None = None
        self.sent = False

    def _met(self, operation: str, key: str, when: str) -> None:
        if self.error is not None and self.at == (f"{operation} {key}", when):
            error, self.error = self.error, None
            raise error

    def get(self, key: str) -> bytes:
        self._met("verify" if self.sent else "get", key, "before")
        return super().get(key)

    def put(self, key: str, data: bytes) -> None:
        self._met("put", key.partition("-")[0], "before")  # manifest names are not known beforehand
        super().put(key, data)

    def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
        self._met("create", key, "before")
        outcome = super().put_if_absent(key, data)
        self.sent = key == "snapshot/snapshot-2"
        self._met("create", key, "after")
        return outcome


def opened() -> tuple[Interrupting, Table]:
    store = Interrupting(f"memory://interrupted-{next(COUNTER)}/t")
    made = new_schema(from_arrow_schema(ROWS.schema))
    store.put_if_absent("schema/schema-0", made.to_json())
    table = Table(store, made)
    table.append(ROWS)
    table.committer.settle()
    return store, table


def unknown_of(error: BaseException) -> OutcomeUnknown:
    """The unknown outcome that an exception carries: itself, or its cause."""
    found: Any = error if isinstance(error, OutcomeUnknown) else error.__cause__
    assert isinstance(found, OutcomeUnknown), f"{error!r} says nothing of the commit that it ended"
    return found


@pytest.mark.parametrize("kind", ENDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize(
    ("at", "lands"),
    [
        (("create snapshot/snapshot-2", "before"), False),
        (("create snapshot/snapshot-2", "after"), True),
        (("verify snapshot/snapshot-1", "before"), True),
    ],
)
def test_an_interrupt_after_the_send_leaves_with_the_identity(
    kind: type[BaseException], at: tuple[str, str], lands: bool
) -> None:
    """G1, G2: an interrupt may hit the publish, or VERIFY after it; `resolve()` then answers."""
    store, table = opened()
    store.at, store.error = at, kind("stop")
    with pytest.raises(BaseException) as caught:  # noqa: PT011
        table.append(ROWS, commit_user="etl", identifier=4)
    expected = kind if not issubclass(kind, Exception) else OutcomeUnknown
    assert type(caught.value) is expected, "an interrupt stays an interrupt"
    unknown = unknown_of(caught.value)
    assert unknown.identity["snapshot_id"] == 2
    assert (unknown.identity["commit_user"], unknown.identity["identifier"]) == ("etl", 4)
    assert f"interrupted by {kind.__name__}: stop" in str(unknown)
    assert (2 in table.timeline.snapshot_ids()) == lands
    receipt = unknown.resolve(timeout=5.0)
    assert receipt.snapshot_id == 2
    assert table.append(ROWS, commit_user="etl", identifier=4).replayed
    assert table.to_arrow().num_rows == 2
    assert table.verify(snapshots="all") == []


def test_an_interrupt_after_a_lost_race_leaves_with_the_identity_of_the_last_send() -> None:
    """H23: the first one has lost, so its snapshot is no outcome any more."""
    store, table = opened()
    Table(MemoryStore(store.url), table.schema).append(ROWS)
    store.at, store.error = ("create snapshot/snapshot-3", "after"), KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt) as caught:
        table.append(ROWS)
    unknown = unknown_of(caught.value)
    uuid = table.timeline.snapshot(3).uuid
    assert (unknown.identity["snapshot_id"], unknown.identity["snapshot_uuid"]) == (3, uuid)
    assert unknown.resolve(timeout=5.0).snapshot_id == 3


def test_an_interrupt_without_a_text_is_named_by_its_kind() -> None:
    store, table = opened()
    store.at, store.error = ("create snapshot/snapshot-2", "after"), KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt) as caught:
        table.append(ROWS)
    assert "KeyboardInterrupt" in str(unknown_of(caught.value))
    assert "KeyboardInterrupt:" not in str(unknown_of(caught.value))


@pytest.mark.parametrize("kind", ENDS, ids=lambda kind: kind.__name__)
def test_an_interrupt_before_the_send_is_only_an_interrupt(kind: type[BaseException]) -> None:
    """Nothing was sent: there is no outcome to resolve, and the table's next commit works."""
    store, table = opened()
    store.at, store.error = ("put manifest/manifest", "before"), kind("stop")
    with pytest.raises(kind) as caught:
        table.append(ROWS)
    assert not isinstance(caught.value, OutcomeUnknown)
    assert not isinstance(caught.value.__cause__, OutcomeUnknown)
    assert table.append(ROWS).snapshot_id == 2
    assert table.to_arrow().num_rows == 2


def test_failures_after_the_conclusion_keep_the_receipt() -> None:
    """H17: if no thread can be started any more, the hint and the clean-up are skipped, and the commit stands."""
    _, table = opened()
    table.committer._aside.shutdown()
    assert table.append(ROWS).snapshot_id == 2


def test_knowledge_from_before_an_interrupt_is_read_again() -> None:
    """With a base kept from before the failure, the next commit would race against its own snapshot."""
    store, table = opened()
    store.at, store.error = ("create snapshot/snapshot-2", "after"), KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        table.append(ROWS)
    receipt = table.append(ROWS)
    assert (receipt.snapshot_id, receipt.attempts) == (3, 1)
