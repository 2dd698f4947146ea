"""Plans what a repair does about data files that are gone, and about manifests that contradict themselves.

Owns: `plan_files`. Must not know: the history.
Source: format/manifests §3; decision 63. Invariants: rows that are gone are named with their partition and their number. Files
that come back are files that no commit deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...core.errors import TableCorrupt, Unsupported
from ...core.metadata.data_file import ADD, EntryIdentity, ManifestEntry
from ...core.metadata.folding import fold
from ...core.metadata.snapshot import Snapshot
from ...core.paths import version_of
from ...core.places import FileKeys, codec_of
from .draft import Draft
from .steps import Lost, Step

_ABOUT_FILES = frozenset(
    """_FILE_NAME _NUM_ADDED_FILES _NUM_DELETED_FILES _MIN_BUCKET _MAX_BUCKET _MIN_LEVEL _MAX_LEVEL _MIN_ROW_ID _MAX_ROW_ID
    _PARTITION_STATS""".split()
)
"""Fields of lists and manifests that are made of the entries for files, and so can be made again."""


def plan_files(draft: Draft) -> None:
    """Data files that the newest state lists and that are gone, and files that it lost without a deletion."""
    survey = draft.survey
    newest = survey.snapshots.get(draft.end)
    schema = survey.schema
    entries = None if newest is None else survey.state(newest)
    if newest is None or schema is None or entries is None:
        return
    keys = FileKeys(schema)
    state = {identity: e for identity, e in fold(entries).items() if e.kind == ADD}
    if not all(_inside(keys, e) for e in entries):
        for finding in draft.findings:
            if finding.file.startswith("manifest/") and finding not in draft.mended:
                draft.why_none[finding] = (
                    "a manifest names a file outside of the table's folder, and somebody may have put the name there: compare the"
                    " table with a backup"
                )
        return
    unreadable = {f.file for f in draft.findings if f.severity == "error" and f.field in ("", "_FILE_SIZE")}
    places = {key: e for e in state.values() for key in keys.data(e)[:1]}
    gone = {key: e for key, e in places.items() if key in unreadable}
    if gone:
        lost = _by_partition(draft, gone.values())
        rows = sum(part.rows for part in lost)
        older = "; older rows of the same keys, which they replaced, may come back" if schema.primary_keys else ""
        told = f"take {len(gone)} files that cannot be read out of the newest state, with a commit: " + "; ".join(
            map(str, lost)
        )
        step = Step("drop", told, f"{rows} rows{older}", lost=lost, entries=tuple(gone.values()))
        draft.add(step, [f for f in draft.findings if f.file in gone])
    for finding in draft.findings:
        if finding.file in unreadable and finding not in draft.mended and _is_data(finding.file):
            draft.why_none[finding] = (
                "the newest snapshot does not need this file; the older snapshots and tags that do cannot be read whole, and "
                "go with `expire` or when the tags are deleted"
            )
    if not schema.primary_keys:
        _bring_back(draft, state, keys)
    _rewrite(draft, newest, entries, state)


def _bring_back(draft: Draft, state: dict[EntryIdentity, ManifestEntry], keys: FileKeys) -> None:
    """Files that a snapshot lacks without a deletion, as the one before was replaced by one that was built beside it."""
    survey, paths = draft.survey, draft.survey.timeline.paths
    missing: dict[EntryIdentity, ManifestEntry] = {}
    mends = []
    for finding in draft.findings:
        number = version_of(finding.file[len(paths.snapshot_dir) :], "snapshot")
        if finding.field != "baseManifestList" or not finding.message.startswith("lacks ") or number is None:
            continue
        before, after = survey.snapshots.get(number - 1), survey.snapshots.get(number)
        had = None if before is None else survey.state(before)
        base = None if after is None else survey.entries_of_list(after.base_manifest_list)
        if had is None or base is None or not draft.begin < number <= draft.end:
            continue
        have = fold(base)
        files = {i: e for i, e in fold(had).items() if e.kind == ADD and i not in have and i not in state}
        later = {e.identity for n in range(number, draft.end + 1) for e in _deleted(draft, n)}
        missing.update({i: e for i, e in files.items() if i not in later})
        mends.append(finding)
    there = {i: e for i, e in missing.items() if survey.exists(keys.data(e)[0])}
    if not there:
        return
    lost = _by_partition(draft, there.values())
    told = "bring back, with a commit, files that a replaced snapshot dropped: " + "; ".join(map(str, lost))
    draft.add(Step("bring_back", told, lost=lost, entries=tuple(there.values())), mends)


def _rewrite(
    draft: Draft, newest: Snapshot, entries: Sequence[ManifestEntry], state: dict[EntryIdentity, ManifestEntry]
) -> None:
    """Lists and manifests that can be read and say something wrong are written anew, from the files of the newest state."""
    named = {f"manifest/{name}" for name in draft.survey.names_of(newest)}
    wrong = [f for f in draft.findings if f.file in named and f.field in _ABOUT_FILES and f not in draft.mended]
    wrong = [f for f in wrong if not f.message.endswith("already live")]  # readers count such a file once
    if not wrong:
        return
    if committed := [
        n for n, step in enumerate(draft.steps) if step.entries
    ]:  # that commit writes the manifests anew, too
        for finding in wrong:
            draft.mended[finding] = committed[-1:]
    else:
        told = f"write the manifests of the newest state anew, with a commit: the {len(state)} files that readers see"
        draft.add(Step("rewrite", told, entries=tuple(state.values())), wrong)


def _deleted(draft: Draft, number: int) -> list[ManifestEntry]:
    snapshot = draft.survey.snapshots.get(number)
    delta = None if snapshot is None else draft.survey.entries_of_list(snapshot.delta_manifest_list)
    return [e for e in delta or () if e.kind != ADD]


def _by_partition(draft: Draft, entries: Iterable[ManifestEntry]) -> tuple[Lost, ...]:
    assert draft.survey.schema is not None
    codec = codec_of(draft.survey.schema)
    parts: dict[bytes, list[ManifestEntry]] = {}
    for entry in entries:
        parts.setdefault(entry.partition, []).append(entry)
    return tuple(
        Lost(codec.path(part).rstrip("/"), sum(e.file.row_count for e in held), tuple(e.file.file_name for e in held))
        for part, held in parts.items()
    )


def _inside(keys: FileKeys, entry: ManifestEntry) -> bool:
    """Whether a file lies where a table may have files (H16)."""
    try:
        keys.data(entry)
    except (TableCorrupt, Unsupported):
        return False
    return True


def _is_data(key: str) -> bool:
    return "/bucket-" in f"/{key}"
