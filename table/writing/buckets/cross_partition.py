"""Rows of a table whose primary key lacks a partition column: a key is looked for in all partitions before it is written.

Owns: `CrossPartition`. Must not know: how the keys of the table are read, commits. Source: format/binary-row §5.
Invariants: A key is in one partition and bucket: the row that moves a key to another partition deletes it in the old one, or goes
to the old one, as the merge engine demands. Rows of a key keep their order.
Cost: rows are held back until there are `HELD_BYTES` of them. Then the key columns of the whole table are read once, in batches
of which only keys are kept that rows have. The keys that a write has placed stay in memory until its end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ....core import options as opt
from ....core.errors import Unsupported
from ....core.metadata.data_file import PartitionBucket
from ....core.metadata.hash_index import BucketHashes
from ....core.metadata.schema import TableSchema
from ....core.metadata.schemas.merge_rules import VALUE_KIND, MergeRules
from ....core.places import codec_of
from ....core.rows.arrow import to_arrow
from ....core.rows.binary.hash_buckets import MOST_BUCKETS, with_room
from ....core.rows.bucket import key_hashes
from ....core.rows.values import to_arrow_array
from ....core.rows.whole import joined
from ....core.typed import Array
from .placement import NO_TOTAL_BUCKETS, Placed, cut, partition_codes, partition_numbers

HELD_BYTES = 128 << 20
_DELETE = 3
_NOWHERE = -1

StoredKeys = Callable[[], Iterable[tuple[PartitionBucket, pa.RecordBatch]]]
"""Reads the primary key columns of all rows of the table, by place."""


@dataclass(frozen=True)
class _Rows:
    """Rows that are held back, sorted by key and then in the order of their arrival.

    Attributes:
        order: the index of each row in the order of arrival.
        keys, partitions: the number of each row's key, and of its own partition.
        first, retracts: whether the row is the first of its key, and whether it deletes.
        before: the place of each row's key in the table before these rows, as a number; -1 for none.
    """

    order: Array
    keys: Array
    first: Array
    partitions: Array
    retracts: Array
    before: Array


class CrossPartition:
    """Sends each row to where its key is, or moves the key.

    With engine `deduplicate`, a row for another partition deletes the key in the old one. With `partial-update` and
    `aggregation` it goes to the old partition, and with `first-row` it is dropped.
    """

    def __init__(self, schema: TableSchema, rules: MergeRules, stored: StoredKeys) -> None:
        if rules.sequence_fields:
            raise Unsupported(
                f"option 'sequence.field' = {','.join(rules.sequence_fields)} on a table whose primary key lacks partition"
                " columns is not supported: a key that moves to another partition has no order there"
            )
        self._codec, self._engine, self._stored = codec_of(schema), rules.engine, stored
        self._keys = [schema.by_name[name] for name in schema.primary_keys]
        self._target = schema.options.get(opt.DYNAMIC_TARGET_ROWS)
        self._held: list[pa.RecordBatch] = []
        self._partitions: dict[bytes, int] = {}
        self._places: dict[tuple[int, int], int] = {}
        self._place_list: list[tuple[int, int]] = []
        self._counts: dict[int, dict[int, int]] = {}
        self._counted = False
        self._written: list[tuple[pa.Table, Array]] = []

    def place(self, batch: pa.RecordBatch) -> Placed:
        if batch.num_rows:
            self._held.append(batch)
        if sum(b.nbytes for b in self._held) > HELD_BYTES:
            yield from self.rest()

    def rest(self) -> Placed:
        if not self._held:
            return
        (batch,), self._held = joined(self._held), []  # little more than `HELD_BYTES`
        rows = self._numbered(batch)
        if self._engine == "deduplicate":
            sources, partitions, kinds = self._moved(rows)
        else:
            sources, partitions, kinds = self._stayed(rows)
        yield from self._out(batch, rows, sources, partitions, kinds)

    def total_buckets(self, partition: bytes) -> int:
        return NO_TOTAL_BUCKETS

    def hashes(self, place: PartitionBucket) -> BucketHashes | None:
        return None

    # ------------------------------------------------------------------------------------------- where keys are

    def _numbered(self, batch: pa.RecordBatch) -> _Rows:
        keys = batch.select([f.name for f in self._keys])
        found, places = self._found(keys)
        columns = [pa.concat_arrays([*found.column(i).chunks, keys.column(i)]) for i in range(keys.num_columns)]
        codes = np.asarray(partition_codes(columns)[0])
        at = np.full(int(codes.max()) + 1, _NOWHERE, np.int64)
        at[codes[: len(places)]] = places  # the later ones are those of this write
        own = codes[len(places) :]
        numbers, partitions = partition_numbers(self._codec, batch)
        own_partitions = np.array([self._partition(p) for p in partitions], np.int64)[numbers]
        order = np.argsort(own, kind="stable")
        sorted_keys = own[order]
        first = np.ones(len(order), bool)
        first[1:] = sorted_keys[1:] != sorted_keys[:-1]
        kinds = np.asarray(batch.column(VALUE_KIND.name))
        retracts = (kinds & 1).astype(bool)[order]
        return _Rows(order, sorted_keys, first, own_partitions[order], retracts, at[sorted_keys])

    def _found(self, keys: pa.RecordBatch) -> tuple[pa.Table, Array]:
        """Those keys of the table and of this write that have the hash of a given key, and their places as numbers."""
        wanted = np.unique(self._hashes(keys))
        tables, places = [keys.schema.empty_table()], [np.empty(0, np.int64)]
        for (partition, bucket), batch in self._stored():
            number = self._partition(partition)
            place = self._place(number, bucket)
            if not self._counted:
                counts = self._counts.setdefault(number, {})
                counts[bucket] = counts.get(bucket, 0) + batch.num_rows
            stored = pa.Table.from_batches([batch]).select(keys.schema.names).cast(keys.schema)
            self._keep(tables, places, stored, np.full(batch.num_rows, place), wanted)
        self._counted = True
        for written, written_places in self._written:
            self._keep(tables, places, written, written_places, wanted)
        return pa.concat_tables(tables), np.concatenate(places)

    def _keep(self, tables: list[pa.Table], places: list[Array], keys: pa.Table, at: Array, wanted: Array) -> None:
        hashes = self._hashes(keys)
        spots = np.minimum(np.searchsorted(wanted, hashes), len(wanted) - 1)
        kept = np.flatnonzero(wanted[spots] == hashes)
        if len(kept):
            tables.append(keys.take(pa.array(kept)))
            places.append(at[kept])

    def _hashes(self, keys: pa.RecordBatch | pa.Table) -> Array:
        return np.asarray(key_hashes([keys.column(f.name) for f in self._keys], [f.type for f in self._keys]))

    def _partition(self, partition: bytes) -> int:
        return self._partitions.setdefault(partition, len(self._partitions))

    def _place(self, partition: int, bucket: int) -> int:
        if (partition, bucket) not in self._places:
            self._places[partition, bucket] = len(self._place_list)
            self._place_list.append((partition, bucket))
        return self._places[partition, bucket]

    # -------------------------------------------------------------------------------------------------- the engines

    def _moved(self, rows: _Rows) -> tuple[Array, Array, Array]:
        """Deduplicate: each row that inserts moves its key to its own partition; a row that deletes goes to where the key is.

        The result has, for each row to write, the row that it is made of, its partition, and whether it deletes in addition.
        """
        count = np.arange(len(rows.order))
        starts = count[rows.first][np.cumsum(rows.first) - 1]
        last = np.maximum.accumulate(np.where(rows.retracts, starts, count))
        set_here = ~rows.retracts[last]
        partition_before = self._partition_of(rows.before)
        at = np.where(set_here, rows.partitions[last], partition_before)
        earlier = np.where(rows.first, partition_before, np.concatenate([[_NOWHERE], at[:-1]]))
        at = np.where(at == _NOWHERE, rows.partitions, at)
        leaves = ~rows.retracts & (earlier != _NOWHERE) & (earlier != rows.partitions)
        sources = np.concatenate([count[leaves], count])
        extra = np.concatenate([np.ones(leaves.sum(), bool), np.zeros(len(count), bool)])
        return sources, np.concatenate([earlier[leaves], at]), extra

    def _stayed(self, rows: _Rows) -> tuple[Array, Array, Array]:
        """All rows of a key go to the partition where it is, or to that of its first row; first-row drops those of others."""
        count = np.arange(len(rows.order))
        starts = count[rows.first][np.cumsum(rows.first) - 1]
        before = self._partition_of(rows.before)
        at = np.where(before == _NOWHERE, rows.partitions[starts], before)
        if self._engine == "first-row":
            count = count[at == rows.partitions]
        return count, at[count], np.zeros(len(count), bool)

    def _partition_of(self, places: Array) -> Array:
        known = np.array([*(p for p, _ in self._place_list), _NOWHERE], np.int64)
        return known[places]

    # ------------------------------------------------------------------------------------------------------- the rows

    def _out(self, batch: pa.RecordBatch, rows: _Rows, sources: Array, partitions: Array, extra: Array) -> Placed:
        """Rows by place, in the order of arrival; a row that deletes in an old partition precedes the one that it is made of."""
        places = self._places_of(rows, sources, partitions)
        in_order = np.lexsort((~extra, rows.order[sources]))
        sources, partitions, places, extra = sources[in_order], partitions[in_order], places[in_order], extra[in_order]
        self._remember(batch, rows, sources, places, extra)
        out = batch.take(pa.array(rows.order[sources]))
        kinds = np.asarray(out.column(VALUE_KIND.name)).copy()
        kinds[extra] = _DELETE
        out = _with_column(out, VALUE_KIND.name, pa.array(kinds, pa.int8()))
        values = [self._codec.decode(p) for p in self._partitions]
        for i, field in enumerate(self._codec.fields):
            column = to_arrow_array([v[i] for v in values], field.type, to_arrow(field.type))
            out = _with_column(out, field.name, column.take(pa.array(partitions)))
        distinct, codes = np.unique(places, return_inverse=True)
        names = list(self._partitions)
        targets = [(names[p], b) for p, b in (self._place_list[place] for place in distinct.tolist())]
        yield from cut(out, codes.reshape(-1), targets)

    def _places_of(self, rows: _Rows, sources: Array, partitions: Array) -> Array:
        """The place of each row in its partition: where its key already is, else a bucket with room."""
        keys = rows.keys[sources]
        pairs = keys * (len(self._partitions) + 1) + partitions
        _, firsts, codes = np.unique(pairs, return_index=True, return_inverse=True)
        heads = sources[firsts]
        found = np.where(self._partition_of(rows.before)[heads] == partitions[firsts], rows.before[heads], _NOWHERE)
        missing = np.flatnonzero(found == _NOWHERE)
        missing = missing[np.argsort(rows.order[heads[missing]], kind="stable")]
        for partition in np.unique(partitions[firsts][missing]).tolist():
            here = missing[partitions[firsts][missing] == partition]
            counts = self._counts.setdefault(partition, {})
            chosen = with_room(counts, len(here), self._target, range(MOST_BUCKETS))
            used, at = np.unique(chosen, return_inverse=True)
            found[here] = np.array([self._place(partition, b) for b in used.tolist()], np.int64)[at.reshape(-1)]
        return found[codes.reshape(-1)]

    def _remember(self, batch: pa.RecordBatch, rows: _Rows, sources: Array, places: Array, extra: Array) -> None:
        """Keep where each key is now, for the rows that follow: the place of its last row."""
        keys = rows.keys[sources]
        inserted = np.logical_or.reduceat(~rows.retracts, np.flatnonzero(rows.first))[np.cumsum(rows.first) - 1]
        exists = inserted | (rows.before != _NOWHERE)
        backwards = np.flatnonzero(~extra & exists[sources])[::-1]
        _, lasts = np.unique(keys[backwards], return_index=True)
        chosen = backwards[lasts]
        kept = batch.select([f.name for f in self._keys]).take(pa.array(rows.order[sources[chosen]]))
        self._written.append((pa.Table.from_batches([kept]), places[chosen]))


def _with_column(batch: pa.RecordBatch, name: str, column: pa.Array) -> pa.RecordBatch:
    index = batch.schema.get_field_index(name)
    return batch.set_column(index, batch.schema.field(index), column)
