"""Write the files of one BLOB column, beside the data file that has the other columns of its rows.

Owns: `BlobFileWriter`. Must not know: other columns, when the rows of a data file end. Source: format/data-files §7.
Invariants: The files of a column have a value, or a null, for each row of the data file, in its order. Memory holds one value
more than the batch, and what a file spills.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ....core.blob_file import encode_end, framed
from ....core.metadata.data_file import DataFile
from ....core.rows.types import Field
from ....core.statistics.collect import NONE, StatsCollector


class BlobFileWriter:
    """Writes the values of one column into files, each of which is closed when it has grown to `target_bytes`.

    `begin` opens a file. `finish` makes it durable and describes it, given its rows, its statistics and the columns of these.
    """

    def __init__(
        self,
        field: Field,
        begin: Callable[[], Any],
        finish: Callable[..., DataFile],
        target_bytes: int,
        dense: bool,
    ) -> None:
        self._field, self._begin, self._finish = field, begin, finish
        self._target_bytes, self._dense = target_bytes, dense
        self._sink: Any = None
        self._lengths: list[int] = []
        self._files: list[DataFile] = []

    def write(self, values: Any) -> None:
        """Add values, given as an array of bytes."""
        for value in _bytes_of(values):
            if self._sink is None:
                self._sink = self._begin()
            frame = framed(value)
            self._lengths.append(-1 if frame is None else len(frame))
            if frame is not None:
                self._sink.write(frame)
            if self._sink.size >= self._target_bytes:
                self._close()

    def close(self) -> list[DataFile]:
        """Close the last file. The files since the last call, in the order of their rows."""
        if self._sink is not None:
            self._close()
        files, self._files = self._files, []
        return files

    def abort(self) -> None:
        if self._sink is not None:
            self._sink.abort()

    def _close(self) -> None:
        self._sink.write(encode_end(self._lengths))
        stats, columns = StatsCollector((self._field,), {self._field.name: NONE}, self._dense).finish()
        self._files.append(self._finish(self._sink, len(self._lengths), stats, columns, (self._field.name,)))
        self._sink, self._lengths = None, []


def _bytes_of(values: Any) -> Iterator[bytes | None]:
    for value in values:
        yield value.as_py()
