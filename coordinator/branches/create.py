"""Makes a branch: from a snapshot, from a tag, or empty with the table's schemas.

Owns: `create_branch`, the order in which its files are written. Must not know: rows, how the branch is written to later.
Source: format/snapshot §5; H10. Invariants: of several calls for one name one makes the branch. Its schemas are written last,
and schema 0 after all others, so that whoever opens a branch finds it whole. The snapshot that it begins with is a root as soon
as it is there; after that its source is looked at again, so that no expiry takes its files unseen (decision 10). The claim is
looked at last: a deletion of what an earlier call had left marks it first, so that it cannot take files away unseen. A tag keeps
what the branch begins with from Apache Paimon's expiry, which looks at the tags of main alone (decision 106).
"""

from __future__ import annotations

from dataclasses import dataclass

from ...backends.probe import PROBED, probe
from ...backends.requests.refusals import raise_undone
from ...backends.store import ObjectNotFound, Store
from ...core.errors import InvalidArgument, TableExists, missing
from ...core.metadata.snapshot import Snapshot, parse_snapshot
from ...core.paths import TablePaths
from ..history.announced import expires_below
from ..history.timeline import Timeline
from ..surroundings import MACHINE, Surroundings
from .claim import Answer, Claim, claim_key, claim_of, create
from .hold import branch_tag, inherited
from .names import branch_root, check_branch_name


@dataclass(frozen=True)
class Source:
    """What a branch begins with: the branch that it is made from, a snapshot if there is one, and the tag that was given."""

    timeline: Timeline
    snapshot: Snapshot | None
    tag: str | None
    schema_ids: tuple[int, ...]


def source_of(timeline: Timeline, snapshot: Snapshot | None, tag: str | None) -> Source:
    """Choose what a branch begins with: `snapshot`, also where a tag is given; None for all schemas and no snapshot."""
    ids = timeline.schema_ids()
    kept = ids if snapshot is None else [number for number in ids if number <= snapshot.schema_id]
    if not kept:
        raise missing(timeline.paths.schema(0), "" if snapshot is None else timeline.file_of(snapshot))
    return Source(timeline, snapshot, tag, tuple(kept))


def create_branch(source: Source, name: str, around: Surroundings = MACHINE) -> None:
    """Make a branch, or finish a call that was cut off, by its arguments. Raises as `Table.create_branch`, and OutcomeUnknown."""
    check_branch_name(name)
    timeline, store = source.timeline, source.timeline.store
    _check_free(store, name)
    ensure_safe(timeline, source.schema_ids)
    snapshot = source.snapshot
    claim = Claim(
        maker=around.new_uuid().hex,
        source=timeline.paths.branch,
        snapshot=None if snapshot is None else snapshot.id,
        identity=None if snapshot is None else snapshot.identity,
        tag=source.tag,
        schema=max(source.schema_ids),
        time_ms=around.wall_ms,
    )
    taken = take_name(store, name, claim, around)
    made, kept = TablePaths(name), ""
    if snapshot is not None:
        kept = branch_tag(snapshot.id, taken.maker)
        if source.tag is not None:
            _copied(store, made.tag(source.tag), store.get(timeline.paths.tag(source.tag)), name, around)
        held = {paths.tag(kept): snapshot.to_json() for paths in (timeline.paths, made)}
        for key, data in (held | inherited(store, timeline.paths.branch, taken.maker)).items():
            _copied(store, key, data, name, around)
        _copied(store, made.snapshot(snapshot.id), _bytes_of(timeline, snapshot), name, around)
        _check_source(source, name, kept)
    schemas = timeline.parallel(lambda i: store.get(timeline.paths.schema(i)), source.schema_ids)
    *others, last = sorted(zip(source.schema_ids, schemas, strict=True), reverse=True)
    for schema_id, data in others:
        _copied(store, made.schema(schema_id), data, name, around)
    if create(store, made.schema(last[0]), last[1], around) is not Answer.CREATED:
        raise _exists(store, name)
    found = claim_of(store, name)
    if found is None or not found.same_work(claim):  # what there was of the branch is being deleted, or was
        begun = [made.schema(last[0]), *([timeline.paths.tag(kept)] if kept else [])]
        error = _exists(store, name, found) if found is not None else _being_deleted(store, name)
        raise_undone(error, lambda: store.delete_many(begun))


def ensure_safe(timeline: Timeline, schema_ids: tuple[int, ...]) -> None:
    if timeline.store.url not in PROBED:
        key = timeline.paths.schema(schema_ids[-1])
        probe(timeline.store, key, timeline.store.get(key))


def _check_free(store: Store, name: str) -> None:
    """The name is free, or a creation under it was cut off."""
    keys = [info.key for info in store.list(branch_root(name))]
    if not keys:
        return
    if any(key.startswith(TablePaths(name).schema(0)) for key in keys):
        raise _exists(store, name)
    if claim_key(name) not in keys:
        raise TableExists(
            f"{store.url}: {branch_root(name)} holds files, but no schema and no word of their origin",
            next_step=f"delete what is left of branch '{name}' with delete_branch, or choose another name",
        )


def take_name(store: Store, name: str, claim: Claim, around: Surroundings) -> Claim:
    """Create the claim, or find that of a call for the same branch that was cut off. Raises TableExists for another call's."""
    if create(store, claim_key(name), claim.to_json(), around) is Answer.CREATED:
        return claim
    held = claim_of(store, name)
    if held is not None and held.same_work(claim):
        return held
    raise _exists(store, name, held)


def _exists(store: Store, name: str, held: Claim | None = None) -> TableExists:
    if held is None:
        return TableExists(f"{store.url} has a branch '{name}'", next_step="open it, or choose another name")
    if held.deleted:
        return _being_deleted(store, name)
    begin = (
        "without a snapshot" if held.snapshot is None else f"from snapshot {held.snapshot} of branch '{held.source}'"
    )
    begin = f"from branch '{held.renamed}', which is being renamed" if held.renamed else begin
    return TableExists(
        f"{store.url} has a branch '{name}', or another call is making it: {begin}",
        next_step="choose another name; if that call was cut off, repeat it to finish it, or delete the branch",
    )


def _being_deleted(store: Store, name: str) -> TableExists:
    return TableExists(
        f"branch '{name}' of {store.url} is being deleted", next_step="delete it again to finish that, then create it"
    )


def _copied(store: Store, key: str, data: bytes, name: str, around: Surroundings) -> None:
    if create(store, key, data, around) is Answer.OTHER:
        raise TableExists(
            f"{key} of {store.url} holds something else: another call made branch '{name}' meanwhile",
            next_step="delete the branch, or choose another name",
        )


def _bytes_of(timeline: Timeline, snapshot: Snapshot) -> bytes:
    """The snapshot's own file; of a snapshot that is left as a tag only, the same without the tag's fields."""
    key = timeline.paths.snapshot(snapshot.id)
    try:
        data = timeline.store.get(key)
        if parse_snapshot(data, key).identity == snapshot.identity:
            return data
    except ObjectNotFound:
        pass
    return snapshot.to_json()


def _check_source(source: Source, name: str, kept: str) -> None:
    """An expiry that has missed the new root has announced itself by now (decision 10): then the branch is taken away again."""
    timeline, snapshot = source.timeline, source.snapshot
    assert snapshot is not None
    key = timeline.paths.snapshot(snapshot.id) if source.tag is None else timeline.paths.tag(source.tag)
    try:
        there = parse_snapshot(timeline.store.get(key), key).identity == snapshot.identity
    except ObjectNotFound:
        there = False
    if there and (source.tag is not None or expires_below(timeline) <= snapshot.id):
        return
    store, made = timeline.store, TablePaths(name)
    tags = [] if source.tag is None else [made.tag(source.tag)]
    error = InvalidArgument(f"{key} has expired, or is about to", next_step="choose a later snapshot, or a tag")
    begun = [made.snapshot(snapshot.id), *tags, made.tag(kept), timeline.paths.tag(kept)]

    def undo() -> None:
        store.delete_many(begun)
        store.delete_many([claim_key(name)])

    raise_undone(error, undo)
