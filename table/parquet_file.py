"""One Parquet data file, read into the columns of a projection.

Owns: opening with as few requests as can be, which leaves and row groups are read, what a damaged file is called.
Must not know: splits, partitions, predicates beyond their row groups. Source: data-layer §1.3; format-metadata §7.

Invariants: memory holds one row group of the columns that are needed; an INT96 that nanoseconds cannot hold is refused,
never wrapped around; whatever is wrong with a file is one `TableCorrupt` that names it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ..backends.store import ObjectNotFound, Store
from ..core.data_file import DataFile
from ..core.errors import StoreUnavailable, TableCorrupt, Unsupported
from .evolution import ProjectionPlan
from .physical import timestamp_leaves

SMALL_FILE_BYTES = 4 << 20
"""Files up to this size are fetched whole, with one request."""
BATCH_ROWS = 1 << 16
_NANO_LIMIT_US = (2**63 - 1) // 1000
_WRAP_US = 2**64 // 1000

RowGroups = Callable[[Any], "list[int] | None"]


class ParquetFile:
    """A data file, opened.

    Args:
        store: where it lies.
        key: its object.
        file: as the manifest describes it; its size saves a request.
        projection: which columns are wanted, and as what.

    Raises:
        TableCorrupt: it is missing, no Parquet file, damaged, or has another number of rows than the manifest says.
    """

    def __init__(self, store: Store, key: str, file: DataFile, projection: ProjectionPlan) -> None:
        self.where = f"data file {key}"
        self._file = file
        self._projection = projection
        self._unit = "ns" if projection.needs_nanos else "us"
        self._got: int | None = None
        with self._blamed():
            self._source = self._open(store, key)
            self._reader = self._parquet(self._unit)
            self._leaves = projection.leaves(self._reader.schema_arrow)
            self._paths = [self._reader.schema.column(i).path for i in self._leaves]
        self.metadata = self._reader.metadata
        if self.metadata.num_rows != file.row_count:
            raise TableCorrupt(f"{self.where} has {self.metadata.num_rows} rows; its manifest says {file.row_count}")

    @property
    def has_columns(self) -> bool:
        """Does the file hold any of the wanted columns?"""
        return bool(self._leaves)

    def _open(self, store: Store, key: str) -> Any:
        if self._file.file_size > SMALL_FILE_BYTES:
            return store.open_input(key, self._file.file_size)
        data = store.get(key)
        self._got = len(data)
        return pa.BufferReader(data)

    def _parquet(self, unit: str, metadata: Any = None) -> Any:
        return pq.ParquetFile(
            self._source,
            metadata=metadata,
            pre_buffer=True,
            coerce_int96_timestamp_unit=unit,
            page_checksum_verification=True,
        )

    def batches(self, row_groups: RowGroups | None = None, *, threads: bool = False) -> Iterator[list[Any]]:
        """The rows, a batch at a time, as the arrays of the projection's columns.

        Args:
            row_groups: from the footer to the row groups worth reading; None reads all.
            threads: decode columns in parallel.

        Yields:
            One `pa.Array` per column; at least one column must be wanted.

        Raises:
            TableCorrupt: damaged.
            Unsupported: a timestamp that Arrow's nanoseconds cannot hold.
        """
        chosen = row_groups(self.metadata) if row_groups is not None else None
        for group in range(self.metadata.num_row_groups) if chosen is None else chosen:
            self._check_int96(group)
            # One row group at a time: pyarrow buffers all that it was asked for until the iterator is dropped.
            with self._blamed():
                batches = self._reader.iter_batches(
                    BATCH_ROWS, row_groups=[group], columns=self._paths, use_threads=threads
                )
            while True:
                with self._blamed():
                    batch = next(batches, None)
                if batch is None:
                    break
                yield self._projection.apply(batch, self.where)

    def _check_int96(self, group: int) -> None:
        """Refuse times beyond the years 1677 to 2262, for which Arrow's decoder to nanoseconds wraps around.

        They are looked for as microseconds, which have room. There Apache Paimon's negative nanoseconds of the day (before 1970,
        data-layer §1.3) come out 584 years late, so that a time of 2262 to 2554 cannot be told from one of 1677 to 1970; the
        latter is meant. What people write for "never" (year 1, year 9999) is found.
        """
        if self._unit != "ns":
            return
        with self._blamed():
            columns = [self._reader.schema.column(i) for i in self._leaves]
            paths = [column.path for column in columns if column.physical_type == "INT96"]
            if not paths:
                return
            coarse = self._parquet("us", self.metadata).read_row_group(group, columns=paths)
        for name, column in zip(coarse.schema.names, coarse.columns, strict=True):
            for chunk in column.chunks:
                for array in timestamp_leaves(chunk):
                    if array.type.unit == "us" and not _fits_nanos(array.cast(pa.int64())):
                        raise Unsupported(
                            f"{self.where}: column '{name}' holds a time outside of the years 1677 to 2262, which"
                            " Arrow's nanoseconds cannot hold",
                            next_step="leave the column out",
                        )

    @contextmanager
    def _blamed(self) -> Iterator[None]:
        """Whatever the Parquet reader says becomes one error that names the file."""
        try:
            yield
        except ObjectNotFound:
            raise TableCorrupt(f"{self.where} is missing") from None
        except pa.ArrowMemoryError:
            raise
        except (pa.ArrowException, OSError, ValueError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise StoreUnavailable(f"{self.where} cannot be read: {error}") from error
            raise TableCorrupt(f"{self.where} is cut off or damaged: {self._sizes()}{_first_line(error)}") from error

    def _sizes(self) -> str:
        expected = self._file.file_size
        return f"{self._got} bytes of {expected}; " if self._got not in (None, expected) else ""


def _fits_nanos(micros: Any) -> bool:
    ends = pc.min_max(micros)
    if not ends["min"].is_valid:
        return True
    low, high = ends["min"].as_py(), ends["max"].as_py()
    if low < -_NANO_LIMIT_US or high > _WRAP_US:
        return False
    late = pc.filter(micros, pc.greater(micros, _NANO_LIMIT_US))
    return not len(late) or pc.min(late).as_py() >= _WRAP_US - _NANO_LIMIT_US


def _first_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]
