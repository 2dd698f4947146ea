"""What writes the rows of one (partition, bucket), with or without a primary key.

Owns: the protocol `BucketWriter`. Must not know: its implementations, commits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import pyarrow as pa

from ....coordinator.commit.message import PendingUpload
from ....core.metadata.data_file import DataFile


class BucketWriter(Protocol):
    """Writes rows into files.

    Attributes:
        held_bytes: the size of the rows in memory.
        files, changelog_files: what was written, complete after `finish`.
        uploads: files whose bytes travel with the commit.
        written_keys: the keys of files that are in the store.
    """

    held_bytes: int

    @property
    def files(self) -> Sequence[DataFile]: ...
    @property
    def changelog_files(self) -> Sequence[DataFile]: ...
    @property
    def uploads(self) -> Sequence[PendingUpload]: ...
    @property
    def written_keys(self) -> Sequence[str]: ...

    def write(self, batch: pa.RecordBatch) -> None:
        """Take rows."""

    def flush(self) -> None:
        """Write the rows in memory."""

    def finish(self) -> None:
        """Write what is left, and end the last file."""

    def abort(self) -> None:
        """Stop. Files that are complete remain."""
