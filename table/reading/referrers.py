"""Find which file of the metadata names a data file or index file that is missing.

Owns: `with_referrer`. Must not know: how files are read, plans. Source: format/manifests §2, §7.
Invariant: requests are sent only after a read has failed, and none of their errors hides the first one.
"""

from __future__ import annotations

from contextlib import suppress

from ...backends.store import ObjectNotFound, Store
from ...coordinator.history.timeline import Timeline
from ...core.errors import LakelatchError, TableCorrupt, missing
from ...core.metadata.data_file import ADD
from ...core.metadata.snapshot import parse_snapshot
from ...core.paths import TablePaths
from ..scan.split import Split


def with_referrer(error: TableCorrupt, store: Store, split: Split) -> TableCorrupt:
    """The error about a missing file, with the manifest that names it. Other errors are returned as they are."""
    if not error.missing or error.needed_by or not split.named_by:
        return error
    told = error
    with suppress(LakelatchError, ObjectNotFound):
        name = error.missing.rpartition("/")[2]
        told = missing(error.missing, _referrer(store, split, name), what=error.message.partition(error.missing)[0])
    return told


def _referrer(store: Store, split: Split, name: str) -> str:
    timeline = Timeline(store, TablePaths(split.branch))
    try:
        snapshot = parse_snapshot(store.get(split.named_by), split.named_by)
    except ObjectNotFound:
        return f"{split.named_by}, which has expired since the read was planned,"
    for manifest in reversed(timeline.manifests(snapshot)):
        if any(e.kind == ADD and e.file.file_name == name for e in timeline.entries_of(manifest)):
            return f"{timeline.paths.manifest(manifest.file_name)} of {split.named_by}"
    if any(e.file.file_name == name for e in timeline.index_entries(snapshot)) and snapshot.index_manifest:
        return f"{timeline.paths.manifest(snapshot.index_manifest)} of {split.named_by}"
    return split.named_by
