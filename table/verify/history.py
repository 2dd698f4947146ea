"""Check a table's roots: schemas, snapshots, their ids and lineage, tags, hints.

Owns: reading all roots of a damaged table, and the checks that need only them. Must not know: manifests, rows.
Source: format/snapshot §1, §2; format/schema §1; architecture §3 (identity, lineage), H6, H7.
Invariant: A snapshot's reference to another is compared by identity, never by id alone (H18).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from ...backends.store import ObjectNotFound
from ...coordinator.history.lost import REPLACED_PROPERTY, replaced_before
from ...coordinator.history.timeline import BASE_PROPERTY, Timeline, base_of, contiguous_runs
from ...core.metadata.schema import SCHEMA_VERSION, TableSchema, parse_schema
from ...core.metadata.snapshot import OPERATIONS, Snapshot, parse_snapshot
from .finding import Finding, Findings


@dataclass(frozen=True)
class Roots:
    """Every root that could be read; `snapshot_ids` are those of all snapshot files, readable or not, ascending."""

    schemas: dict[int, TableSchema]
    snapshot_ids: list[int]
    snapshots: dict[int, Snapshot]
    tags: dict[str, Snapshot]


def read_roots(timeline: Timeline, findings: Findings) -> Roots:
    """Read schemas, snapshots and tags. A file that cannot be read becomes a finding."""
    schemas = _read_schemas(timeline, findings)
    ids = timeline.checked_snapshot_ids()
    snapshots = read_snapshots(timeline, ids, findings)
    roots = Roots(schemas, ids, snapshots, _read_tags(timeline, findings))
    _check_schema_ids(timeline, roots, findings)
    _check_changelogs(timeline, findings)
    return roots


def _read_schemas(timeline: Timeline, findings: Findings) -> dict[int, TableSchema]:
    ids = timeline.schema_ids()
    keys = {i: timeline.paths.schema(i) for i in ids}

    def read(schema_id: int) -> TableSchema | None:
        key = keys[schema_id]
        return findings.attempt(key, lambda: parse_schema(timeline.store.get(key), key))

    schemas = {i: s for i, s in zip(ids, timeline.parallel(read, ids), strict=True) if s is not None}
    for schema_id, schema in schemas.items():
        if schema.id != schema_id:
            findings.error(keys[schema_id], "id", f"says {schema.id}")
        if not 1 <= schema.version <= SCHEMA_VERSION:
            findings.error(
                keys[schema_id], "version", f"is {schema.version}; versions up to {SCHEMA_VERSION} are supported"
            )
    for gap in _gaps(ids):
        findings.error(timeline.paths.schema(gap), "", "is missing between older and newer schemas")
    return schemas


def read_snapshots(timeline: Timeline, ids: Sequence[int], findings: Findings) -> dict[int, Snapshot]:
    keys = {i: timeline.paths.snapshot(i) for i in ids}

    def read(snapshot_id: int) -> Snapshot | None:
        key = keys[snapshot_id]
        return findings.attempt(key, lambda: parse_snapshot(timeline.store.get(key), key))

    found = {i: s for i, s in zip(ids, timeline.parallel(read, ids), strict=True) if s is not None}
    for snapshot_id, snapshot in found.items():
        if snapshot.id != snapshot_id:
            findings.error(keys[snapshot_id], "id", f"says {snapshot.id}")
        _check_operation(keys[snapshot_id], snapshot, findings)
    return found


def _check_operation(key: str, snapshot: Snapshot, findings: Findings) -> None:
    """Earlier versions of lakelatch wrote a word that Apache Paimon 2.0 cannot parse (decision 87)."""
    if snapshot.operation is not None and snapshot.operation not in OPERATIONS and snapshot.own_properties:
        findings.error(key, "operation", f"is '{snapshot.operation}': Apache Paimon from 2.0 on cannot read the file")


def _read_tags(timeline: Timeline, findings: Findings) -> dict[str, Snapshot]:
    names = sorted(timeline.tag_files())

    def read(name: str) -> Snapshot | None:
        return findings.attempt(timeline.paths.tag(name), lambda: timeline.tag(name))

    tags = {n: s for n, s in zip(names, timeline.parallel(read, names), strict=True) if s is not None}
    for name, snapshot in tags.items():
        _check_operation(timeline.paths.tag(name), snapshot, findings)
    return tags


def _check_changelogs(timeline: Timeline, findings: Findings) -> None:
    """Snapshots that outlive themselves as changelogs have their words."""
    keys = [timeline.paths.changelog(number) for number in timeline.changelog_ids()]

    def read(key: str) -> Snapshot | None:
        with suppress(ObjectNotFound):  # it has expired meanwhile
            data = timeline.store.get(key)
            return findings.attempt(key, lambda: parse_snapshot(data, key))
        return None

    for key, snapshot in zip(keys, timeline.parallel(read, keys), strict=True):
        if snapshot is not None:
            _check_operation(key, snapshot, findings)


def _check_schema_ids(timeline: Timeline, roots: Roots, findings: Findings) -> None:
    known = set(timeline.schema_ids())
    named = [(timeline.paths.snapshot(i), s) for i, s in roots.snapshots.items()]
    named += [(timeline.paths.tag(name), s) for name, s in roots.tags.items()]
    for key, snapshot in named:
        if snapshot.schema_id not in known:
            schema_key = timeline.paths.schema(snapshot.schema_id)
            findings.error(schema_key, "", f"is missing; {key} needs it")


# ------------------------------------------------------------------------------------------------------------ lineage


def check_lineage(timeline: Timeline, ids: Sequence[int], snapshots: dict[int, Snapshot], findings: Findings) -> None:
    """Check that the ids have no gap, and that every snapshot follows the one that it was built on (G1, G6, H6)."""
    for gap in _gaps(ids):
        findings.error(timeline.paths.snapshot(gap), "", "is missing between older and newer snapshots")
    for snapshot_id, snapshot in snapshots.items():
        before = snapshots.get(snapshot_id - 1)
        _check_base(timeline.paths.snapshot(snapshot_id), snapshot, before, findings)
        _check_replaced(timeline.paths.snapshot(snapshot_id), snapshot, findings)
        if before is not None:
            _check_succession(timeline.paths.snapshot(snapshot_id), before, snapshot, findings)


def _check_base(key: str, snapshot: Snapshot, before: Snapshot | None, findings: Findings) -> None:
    base = base_of(snapshot)
    if base is None:
        return
    if base.id != snapshot.id - 1:
        findings.error(key, BASE_PROPERTY, f"names snapshot {base.id} as its base, not {snapshot.id - 1}")
    elif before is not None and before.identity != base.identity:
        findings.error(
            key,
            BASE_PROPERTY,
            f"was built on snapshot {base.id} of identity {base.identity}; another writer has replaced that one by"
            f" {before.identity} ({before.commit_user})",
        )


def _check_replaced(key: str, snapshot: Snapshot, findings: Findings) -> None:
    """A commit may have noticed that a snapshot that its process knew was renamed over, where no base tells it any more."""
    for one in findings.attempt(key, lambda: replaced_before(snapshot)) or ():
        findings.error(
            key,
            REPLACED_PROPERTY,
            f"snapshot {one['id']} of identity {one['identity']} ({one['user']}) was committed, and replaced by {one['by']}:"
            " its rows are missing; run its job again",
        )


def _check_succession(key: str, before: Snapshot, snapshot: Snapshot, findings: Findings) -> None:
    """Check the values that continue those of the previous snapshot (format/snapshot §2; format/commit §2)."""
    expected = before.total_record_count + snapshot.delta_record_count
    if snapshot.total_record_count != expected:
        findings.error(
            key,
            "totalRecordCount",
            f"is {snapshot.total_record_count}; snapshot {before.id} has {before.total_record_count} and the delta"
            f" {snapshot.delta_record_count:+d}, which makes {expected}",
        )
    if snapshot.schema_id < before.schema_id:
        findings.warning(key, "schemaId", f"is {snapshot.schema_id}, below {before.schema_id} of snapshot {before.id}")
    if before.next_row_id and (snapshot.next_row_id or 0) < before.next_row_id:
        findings.error(
            key, "nextRowId", f"is {snapshot.next_row_id}, below {before.next_row_id} of snapshot {before.id}"
        )


def _gaps(ids: Sequence[int]) -> list[int]:
    """The ids that are missing between ascending ids, at most the first hundred of each gap.

    >>> _gaps([1, 2, 5])
    [3, 4]
    """
    runs = contiguous_runs(ids)
    return [i for before, after in itertools.pairwise(runs) for i in range(before.stop, after.start)][:100]


def lineage_findings(timeline: Timeline, newest: int | None = None) -> tuple[list[Snapshot], list[Finding]]:
    """The snapshots that can be read, oldest first, or some of the newest, and the findings about ids, lineage and files."""
    findings = Findings()
    ids = timeline.checked_snapshot_ids()
    if newest is not None:
        ids = ids[-newest:] if newest > 0 else []
    snapshots = read_snapshots(timeline, ids, findings)
    check_lineage(timeline, ids, snapshots, findings)
    return list(snapshots.values()), list(findings)


# -------------------------------------------------------------------------------------------------------------- hints


def check_hints(timeline: Timeline, ids: Sequence[int], findings: Findings) -> None:
    """Check that readers that trust `LATEST` and `EARLIEST` find the right snapshots. A missing or low hint is harmless (H7)."""
    for name in ("LATEST", "EARLIEST"):
        key = timeline.paths.hint(name)
        try:
            data = timeline.store.get(key)
        except ObjectNotFound:
            continue
        text = data.decode("ascii", "replace").replace("\n", "").replace("\r", "")
        if not text.isdigit():
            findings.warning(key, "", f"says {text[:40]!r}, which is not a snapshot id: readers list instead")
        elif name == "LATEST" and ids and int(text) > ids[-1] and not timeline.has_snapshot(int(text)):
            findings.error(key, "", f"says {text}, but the newest snapshot is {ids[-1]}: readers that trust it fail")
        elif name == "EARLIEST" and ids and int(text) not in ids:
            findings.warning(key, "", f"says {text}, which does not exist: readers list instead")
