"""The entries of a snapshot's manifests as columns, for the system tables that list or count files.

Owns: `entry_chunks` and `live_chunks`; choosing manifests by what a predicate says of partition, bucket and level. Must not know:
the columns of the tables. Source: format/manifests §3, §4.

Invariants: An entry that is deleted is not live, wherever its DELETE is. Only entries that a DELETE concerns become objects. A
DELETE whose ADD is in a manifest that was left out is left out too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain, compress

import numpy as np

from ...core.errors import InvalidArgument
from ...core.expressions.binding import bind
from ...core.expressions.tree import And, Comparison, Or, Predicate, transformed
from ...core.metadata.data_file import DELETE, ManifestEntry
from ...core.metadata.file_columns import FileColumns
from ...core.metadata.folding import live
from ...core.metadata.manifest import ManifestFile
from ...core.metadata.manifest_columns import EntryColumns
from ...core.places import codec_of
from ...core.rows.partition import PartitionCodec
from ...core.rows.types import AtomicType
from ...core.statistics.pruning import split_predicate
from ..scan.plan import may_hold
from .definition import View, Wanted
from .texts import partition_text

CHUNK = 1 << 16
"""The entries that become rows at once."""
FIRST_CHUNK = 1 << 10
HELD = 200_000
"""About how many entries of manifests without deletions are held at once."""
_EXACT = ("TINYINT", "SMALLINT", "INT", "BIGINT", "VARCHAR", "DATE", "BOOLEAN")
_Part = EntryColumns | list[ManifestEntry]


def live_chunks(view: View, wanted: Wanted) -> Iterator[FileColumns]:
    """The live files of the snapshot in manifests that can hold wanted ones, some at a time."""
    manifests = _manifests(view, wanted)
    deleting = [m for m in manifests if m.num_deleted_files]
    first = view.timeline.entry_parts(deleting)
    deleted = {name for part in first for name in _deleted_names(part)}
    special: list[ManifestEntry] = []
    for part in chain(first, _parts(view, [m for m in manifests if not m.num_deleted_files])):
        if isinstance(part, list):
            special += part
            continue
        rows = np.arange(part.rows)
        if deleted:
            concerned = (part.kind == DELETE) | part.named(deleted)
            special += part.entries(np.flatnonzero(concerned))
            rows = np.flatnonzero(~concerned)
        for begin, end in _chunks(len(rows)):
            yield FileColumns(part, rows[begin:end])
    alive = live(compress(special, _wanted_entries(special, view, wanted)))
    for begin, end in _chunks(len(alive)):
        yield FileColumns(alive[begin:end])


def _chunks(rows: int) -> Iterator[tuple[int, int]]:
    """Parts of so many rows; the first ones are small, for whoever wants only a few rows."""
    begin, size = 0, FIRST_CHUNK
    while begin < rows:
        yield begin, min(begin + size, rows)
        begin, size = begin + size, min(4 * size, CHUNK)


def _wanted_entries(entries: Sequence[ManifestEntry], view: View, wanted: Wanted) -> list[bool]:
    """Which entries are wanted. A DELETE that is not wanted may have lost its ADD with a manifest that was left out."""
    codec = codec_of(view.schema)
    text = cache(lambda partition: partition_text(codec, partition))
    return wanted.kept(
        partition=[text(e.partition) for e in entries],
        bucket=[e.bucket for e in entries],
        level=[e.file.level for e in entries],
    )


def entry_chunks(view: View, wanted: Wanted) -> Iterator[tuple[FileColumns, np.ndarray]]:
    """All entries with their signs: 1 for a file that is added, -1 for one that is deleted."""
    for part in _parts(view, _manifests(view, wanted)):
        if isinstance(part, list):
            if part:
                kinds = np.array([e.kind for e in part], np.int64)
                yield FileColumns(part), np.where(kinds == DELETE, -1, 1)
        else:
            for begin in range(0, part.rows, CHUNK):
                rows = np.arange(begin, min(begin + CHUNK, part.rows))
                yield FileColumns(part, rows), np.where(part.kind[rows] == DELETE, -1, 1)


def _manifests(view: View, wanted: Wanted) -> list[ManifestFile]:
    return [] if view.snapshot is None else _chosen(view.timeline.manifests(view.snapshot), view, wanted)


def _parts(view: View, manifests: Sequence[ManifestFile]) -> Iterator[_Part]:
    group: list[ManifestFile] = []
    size = 0
    for manifest in manifests:
        group.append(manifest)
        size += manifest.num_added_files + manifest.num_deleted_files
        if size >= HELD:
            yield from view.timeline.entry_parts(group)
            group, size = [], 0
    if group:
        yield from view.timeline.entry_parts(group)


def _deleted_names(part: EntryColumns | Sequence[ManifestEntry]) -> set[bytes]:
    if isinstance(part, EntryColumns):
        return part.file_names(np.flatnonzero(part.kind == DELETE))
    return {e.file.file_name.encode() for e in part if e.kind == DELETE}


# ---------------------------------------------------------------------------------------------------------- manifests


def _chosen(manifests: Sequence[ManifestFile], view: View, wanted: Wanted) -> list[ManifestFile]:
    codec = codec_of(view.schema)
    on_partition = _on_partition(wanted.where, codec)
    return [
        m
        for m in manifests
        if (on_partition is None or may_hold(m, on_partition, codec))
        and _any(wanted, "bucket", m.min_bucket, m.max_bucket)
        and _any(wanted, "level", m.min_level, m.max_level)
    ]


def _any(wanted: Wanted, column: str, low: int | None, high: int | None) -> bool:
    """Can a wanted row have any number of a range? Long ranges are not tried."""
    if low is None or high is None or high - low > 1000:
        return True
    return any(wanted.kept(**{column: range(low, high + 1)}))


def _on_partition(where: Predicate | None, codec: PartitionCodec) -> Predicate | None:
    """What `partition = '{1, a}'` says of the partition columns; None if nothing that is sure. It is tested again as text."""
    part = None if where is None else split_predicate(where, ["partition"])[0]
    kinds = [f.type for f in codec.fields]
    if part is None or not kinds or not all(isinstance(k, AtomicType) and k.root in _EXACT for k in kinds):
        return None
    try:
        return bind(transformed(part, lambda leaf: _values(leaf, codec)), codec.fields)
    except (InvalidArgument, _NotSure):
        return None


class _NotSure(Exception):
    """A condition on the text of a partition that says nothing of its values."""


def _values(leaf: Comparison, codec: PartitionCodec) -> Predicate:
    if leaf.op not in ("=", "in"):
        raise _NotSure
    found = [_of_text(text, codec) for text in leaf.literals]
    return found[0] if len(found) == 1 else Or(tuple(found))


def _of_text(text: object, codec: PartitionCodec) -> Predicate:
    parts = text[1:-1].split(", ") if isinstance(text, str) and text[:1] == "{" and text[-1:] == "}" else []
    if len(parts) != len(codec.fields) or any(part == "null" or not part.strip() for part in parts):
        raise _NotSure
    tests: list[Predicate] = []
    for part, field in zip(parts, codec.fields, strict=True):
        value = codec.parse_spec({field.name: part})[field.name]
        if value is None:
            raise _NotSure
        tests.append(Comparison("=", field.name, (value,)))
    return tests[0] if len(tests) == 1 else And(tuple(tests))
