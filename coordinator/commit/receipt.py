"""The result of a commit that landed.

Owns: `Receipt`. Must not know: how a commit works. Its names are part of the public API.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from ...core.html_text import facts


@dataclass(frozen=True, slots=True)
class Receipt:
    """The receipt of a commit that landed.

    Attributes:
        snapshot_id, snapshot_uuid: the snapshot that it made; the uuid is None for one of an older writer. Of a replay whose
            snapshot has expired, the uuid may be None, and the id 0, because only its landing is remembered.
        commit_user, identifier: its identity; identifier None where none was given.
        kind: APPEND, OVERWRITE or COMPACT.
        attempts: the number of attempts to publish; `retries` = attempts - 1.
        requests: store requests of this commit, including those for the data that travelled with it.
        sequential_requests: the longest chain of requests that had to wait for each other before the receipt.
        elapsed_ms: wall time.
        replayed: the identity landed before; this is the receipt of that first commit.
        partitions_replaced: for an overwrite of a partitioned table, the number of partitions whose earlier rows it took away;
            None otherwise, and for a replay.
        leader: the commit user in whose snapshot it rides, after it lost a race; None if the snapshot is its own.
        riders: the number of other commits that its snapshot carries.
        rows: for a replay, the number of rows that the first commit appended, where its snapshot tells; None otherwise.
        partitions: for a replay, the paths of the partitions that the first commit named to be replaced ("" is the whole table),
            where its snapshot tells; None otherwise.

    >>> print(Receipt(7, "u-1", "etl", 42, "APPEND", 1, 0, 7, 3, 12.5, False))
    snapshot 7 (APPEND by etl/42): 1 attempt, 7 requests (3 sequential), 12 ms
    >>> print(Receipt(8, "u-2", "etl", 43, "OVERWRITE", 1, 0, 8, 4, 15.5, False, partitions_replaced=1))
    snapshot 8 (OVERWRITE by etl/43): 1 partition replaced, 1 attempt, 8 requests (4 sequential), 16 ms
    >>> print(Receipt(9, "u-3", "etl", 44, "APPEND", 2, 1, 18, 9, 95.5, False, leader="job-2"))
    snapshot 9 (APPEND by etl/44): carried by job-2, 2 attempts, 18 requests (9 sequential), 96 ms
    """

    snapshot_id: int
    snapshot_uuid: str | None
    commit_user: str
    identifier: int | None
    kind: str
    attempts: int
    retries: int
    requests: int
    sequential_requests: int
    elapsed_ms: float
    replayed: bool
    partitions_replaced: int | None = None
    leader: str | None = None
    riders: int = 0
    rows: int | None = None
    partitions: tuple[str, ...] | None = None

    def to_dict(self) -> dict[str, Any]:
        """The receipt as a JSON-ready dict."""
        return asdict(self)

    def _repr_html_(self) -> str:
        return facts(str(self), self.to_dict())

    def __str__(self) -> str:
        identity = self.commit_user if self.identifier is None else f"{self.commit_user}/{self.identifier}"
        if self.replayed:
            return f"snapshot {self.snapshot_id} ({self.kind} by {identity}): had landed before, nothing was written"
        tries = "1 attempt" if self.attempts == 1 else f"{self.attempts} attempts"
        cost = f"{self.requests} requests ({self.sequential_requests} sequential), {self.elapsed_ms:.0f} ms"
        replaced = ""
        if self.partitions_replaced is not None:
            replaced = f"{self.partitions_replaced} partition{'' if self.partitions_replaced == 1 else 's'} replaced, "
        ride = "" if self.leader is None else f"carried by {self.leader}, "
        if self.riders:
            ride = f"with {self.riders} other commit{'' if self.riders == 1 else 's'}, "
        return f"snapshot {self.snapshot_id} ({self.kind} by {identity}): {replaced}{ride}{tries}, {cost}"
