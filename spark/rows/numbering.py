"""The sequence numbers of the rows of one job in a table with a primary key, which its tasks give without asking each other.

Owns: `Numbering`. Must not know: how rows are numbered in a task, commits. Source: format/primary-keys §3; H14; decision 51.

Invariants: The rows of a job are above all rows of the snapshot that the job began on. All attempts of a task give the same
numbers. If several tasks write to one bucket, their ranges do not meet, and a later partition of the frame has larger numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ...coordinator.commit.message import CommitMessage
from ...core.errors import InvalidArgument
from ...core.metadata.data_file import PartitionBucket
from ...core.metadata.sorted_runs.sequence_numbers import CLOCK_BITS
from ...table.writing.beginning import Beginning

ROWS_OF_A_TASK = 1 << CLOCK_BITS
"""The most rows that a task may write to a bucket to which other tasks write, too."""


@dataclass(frozen=True)
class Numbering:
    """What is sent to the tasks of a job: when it began, and the largest number in the table then, or -1.

    If `shared`, tasks may write to the same buckets.
    """

    beginning: Beginning
    largest: int = -1
    shared: bool = False

    def of_task(self, partition_id: int) -> Numbering:
        if not self.shared:
            return self
        # Each task has a millisecond of its own, the first one above everything in the table.
        began_ms = max(self.beginning.began_ms, (self.largest >> CLOCK_BITS) + 1) + partition_id
        return replace(self, beginning=replace(self.beginning, began_ms=began_ms))

    def largest_numbers(self, partitions: set[bytes]) -> Mapping[PartitionBucket, int]:
        """The same number for all buckets, as `TableWriter` asks for them."""
        return _Same(self.largest)

    def check(self, messages: Sequence[CommitMessage]) -> None:
        """Refuse the rows of a task that has given numbers of the next one: too many for one bucket (`InvalidArgument`)."""
        if not self.shared:
            return
        for message in messages:
            files = (*message.new_files, *message.changelog_files)
            numbers = [f.min_sequence_number for f in files] + [f.max_sequence_number for f in files]
            if max(numbers) - min(numbers) >= ROWS_OF_A_TASK:
                raise InvalidArgument(
                    f"a task has {max(numbers) - min(numbers) + 1} rows of bucket {message.bucket}, and the data source takes at"
                    f" most {ROWS_OF_A_TASK}",
                    next_step="write the frame with lakelatch.spark.write, or repartition it",
                )


class _Same(dict[PartitionBucket, int]):
    def __init__(self, value: int) -> None:
        super().__init__()
        self._value = value

    def __missing__(self, key: PartitionBucket) -> int:
        return self._value

    def get(self, key: PartitionBucket, default: object = None) -> int:
        return self._value
