"""The bytes of one data file on their way to a reader of its format.

Owns: opening with as few requests as can be, and what a missing, damaged or unreachable file is called.
Must not know: formats, columns. Invariant: whatever is wrong with a file is one `TableCorrupt` that names it; a store that does
not answer is no damage.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from ...backends.store import ObjectNotFound, Store
from ...core.errors import LakelatchError, StoreUnavailable, TableCorrupt
from ...core.metadata.data_file import DataFile
from ...core.options import TableOptions

BATCH_ROWS = 1 << 16
SMALL_FILE_BYTES = 4 << 20
"""Files up to this size are fetched whole, with one request."""


class DataSource:
    """A data file that is about to be read.

    Args:
        store: where it lies.
        key: its object.
        file: as the manifest describes it; its size saves a request.
        options: of the table, for what formats leave open.
    """

    def __init__(self, store: Store, key: str, file: DataFile, options: TableOptions) -> None:
        self.where = f"data file {key}"
        self.file = file
        self.options = options
        self._store, self._key = store, key
        self._got: int | None = None
        self._whole: bytes | None = None

    @property
    def is_small(self) -> bool:
        """Is it fetched whole?"""
        return self.file.file_size <= SMALL_FILE_BYTES

    def open(self) -> Any:
        """A seekable file, for pyarrow; called inside of `blamed`."""
        if not self.is_small:
            return self._store.open_input(self._key, self.file.file_size)
        data = self._store.get(self._key)
        self._got = len(data)
        return pa.BufferReader(data)

    def range(self, start: int, end: int) -> bytes:
        """Some bytes of it; called inside of `blamed`. A small file is fetched whole, once."""
        if not self.is_small:
            return self._store.get_range(self._key, start, end)
        if self._whole is None:
            self._whole = self._store.get(self._key)
            self._got = len(self._whole)
        return self._whole[start:end]

    def check_rows(self, rows: int) -> None:
        """Refuse a file that has another number of rows than its manifest says: another's file under its name."""
        if rows != self.file.row_count:
            raise TableCorrupt(f"{self.where} has {rows} rows; its manifest says {self.file.row_count}")

    @contextmanager
    def blamed(self) -> Iterator[None]:
        """Whatever a library says of the bytes becomes one error that names the file."""
        try:
            yield
        except ObjectNotFound:
            raise TableCorrupt(f"{self.where} is missing") from None
        except LakelatchError:
            raise
        except MemoryError as error:  # a length that damage made huge looks like that too
            raise TableCorrupt(
                f"{self.where} asks for more memory than there is", next_step="it is damaged, or needs a larger machine"
            ) from error
        except OSError as error:
            if error.errno is not None:
                raise StoreUnavailable(f"{self.where} cannot be read: {error}") from error
            raise self._damage(error) from error
        except Exception as error:  # decoders of damaged bytes raise what they please
            raise self._damage(error) from error

    def _damage(self, error: Exception) -> TableCorrupt:
        expected = self.file.file_size
        sizes = f"{self._got} bytes of {expected}; " if self._got not in (None, expected) else ""
        said = " ".join(str(error).split())[:300] or type(error).__name__
        return TableCorrupt(f"{self.where} is cut off or damaged: {sizes}{said}")
