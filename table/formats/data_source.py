"""The bytes of one data file, for a reader of its format.

Owns: opening a file with few requests, and the errors for a missing, damaged or unreachable file.
Must not know: formats, columns. Invariant: Any damage to a file becomes a `TableCorrupt` that names it. A store that does not
answer is not damage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import pyarrow as pa

from ...backends.store import ObjectNotFound, Store
from ...core.errors import LakelatchError, StoreUnavailable, TableCorrupt, missing
from ...core.metadata.data_file import DataFile
from ...core.options import TableOptions
from .file_rows import FileRows

Part: TypeAlias = Callable[[], Iterator[tuple[int, FileRows]]]
"""Reads consecutive rows of a file, each batch with the position of its first row in the file."""
BATCH_ROWS = 1 << 16
_LEAST_BATCH_BYTES = 1 << 13
"""Smaller batches would cost more than the rows in them."""
SMALL_FILE_BYTES = 4 << 20
"""Files up to this size are fetched with one request."""
_RANGES_AT_ONCE = 8


class DataSource:
    """A data file to be read. Its size in `file` saves a request; `options` settle what formats leave open.

    About `part_bytes` of the file may be held at a time, at the price of more requests; None for whole row groups.
    """

    def __init__(
        self, store: Store, key: str, file: DataFile, options: TableOptions, *, part_bytes: int | None = None
    ) -> None:
        self.part_bytes = part_bytes
        self.name = key
        self.where = f"data file {key}"
        self.file = file
        self.options = options
        self._store, self._key = store, key
        self._got: int | None = None
        self._whole: bytes | None = None

    @property
    def is_small(self) -> bool:
        """Is the whole file fetched with one request?"""
        return self.file.file_size <= SMALL_FILE_BYTES

    def batch_rows(self, row_bytes: int) -> int:
        """The number of rows that are read at a time, if each takes about `row_bytes`."""
        if self.part_bytes is None:
            return BATCH_ROWS
        return max(1, min(BATCH_ROWS, max(self.part_bytes // 2, _LEAST_BATCH_BYTES) // max(row_bytes, 1)))

    def open(self) -> Any:
        """A seekable file for pyarrow. Call it inside `blamed`."""
        if not self.is_small:
            return self._store.open_input(self._key, self.file.file_size)
        data = self._store.get(self._key)
        self._got = len(data)
        return pa.BufferReader(data)

    def range(self, start: int, end: int) -> bytes:
        """A range of the file's bytes. Call it inside `blamed`. A small file is fetched whole, once."""
        if not self.is_small:
            return self._store.get_range(self._key, start, end)
        if self._whole is None:
            self._whole = self._store.get(self._key)
            self._got = len(self._whole)
        return self._whole[start:end]

    @property
    def ranges_at_once(self) -> int:
        """How many ranges to ask for at the same time."""
        return 1 if self._store.capabilities.near else _RANGES_AT_ONCE

    def check_rows(self, rows: int) -> None:
        """Refuse a file whose number of rows is not its manifest's, since it must be another file under the same name."""
        if rows != self.file.row_count:
            raise TableCorrupt(f"{self.where} has {rows} rows; its manifest says {self.file.row_count}")

    @contextmanager
    def blamed(self) -> Iterator[None]:
        """Turn every error that a library raises for the bytes into one error that names the file."""
        try:
            yield
        except ObjectNotFound:
            raise missing(self.name, what="data file ") from None
        except LakelatchError:
            raise
        except MemoryError as error:  # a damaged length can also ask for too much memory
            raise TableCorrupt(
                f"{self.where} needs more memory than is available",
                next_step="it is damaged, or needs a larger machine",
            ) from error
        except OSError as error:
            if error.errno is not None:
                raise StoreUnavailable(f"{self.where} cannot be read: {error}") from error
            raise self._damage(error) from error
        except Exception as error:  # decoders raise any kind of exception for damaged bytes
            raise self._damage(error) from error

    def _damage(self, error: Exception) -> TableCorrupt:
        expected = self.file.file_size
        sizes = f"{self._got} bytes of {expected}; " if self._got not in (None, expected) else ""
        said = " ".join(str(error).split())[:300] or type(error).__name__
        return TableCorrupt(f"{self.where} is cut off or damaged: {sizes}{said}")
