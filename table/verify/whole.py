"""Check a whole table: is its metadata consistent, and does every file exist that it names?

Owns: `verify_store`, which chooses the snapshots and the order of the checks. Must not know: how findings are shown, how a
damaged table is repaired. Source: format/commit §2; architecture §7. Invariants: The check only reads. It works for a table
that cannot be opened, and does not stop at the first finding. A store that does not answer is an error, not a finding.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from ...backends.store import ObjectNotFound, Store
from ...coordinator.branches.claim import claim_key, claim_of
from ...coordinator.commit.checks.key_files import two_index_files
from ...coordinator.history.timeline import Timeline
from ...coordinator.journal.lines import Damage, Entry
from ...core.arguments import listed, whole_number
from ...core.errors import InvalidArgument, TableCorrupt, TableNotFound
from ...core.metadata.snapshot import Snapshot
from ...core.paths import DEFAULT_BRANCH, TablePaths
from .data import DataCheck
from .files import FileCheck
from .finding import Finding, Findings
from .history import Roots, check_hints, check_lineage, read_roots
from .identities import check_identities
from .journals import check_commits
from .runs import check_counts, check_numbers, check_runs
from .state import StateCheck

Which = Iterable[int] | Literal["all"] | None
Depth = bool | Literal["deep"]
"""How data files are checked: not at all, by their footers, or row by row."""
_ROUNDS = 8
"""How often a check that an expiry has overtaken is made again."""


def verify_store(
    store: Store,
    *,
    branch: str = DEFAULT_BRANCH,
    snapshots: Which = None,
    data: Depth = False,
    journal: Iterable[Entry | Damage] = (),
) -> list[Finding]:
    """Check a table, which may be too damaged to be opened; as `Table.verify`. The commits in `journal` must be there.

    `TableNotFound`: there is neither a schema nor a snapshot.
    """
    if data not in (False, True, "deep"):
        raise InvalidArgument(f"data={data!r} is no depth of a check", next_step='use False, True or "deep"')
    timeline, lines = Timeline(store, TablePaths(branch)), list(journal)
    before: tuple[object, ...] = ()
    for _ in range(_ROUNDS):
        roots, findings = _verified(timeline, snapshots, data, lines)
        now = (timeline.hint("EARLIEST"), *timeline.snapshot_ids()) if list(findings) else before
        if now == before or not _overtaken(roots, now[0], now[1:]):
            break
        before = now
    return list(findings)


def _overtaken(roots: Roots, earliest: object, ids: Sequence[object]) -> bool:
    """Has an expiry begun to delete snapshots that were looked at? What they lack is no damage: what is left is looked at anew.

    Their files go before they do, and EARLIEST is raised before anything goes.
    """
    looked_at = roots.snapshot_ids
    return bool(set(looked_at) - set(ids)) or (
        isinstance(earliest, int) and looked_at != [] and earliest > looked_at[0]
    )


def _verified(
    timeline: Timeline, snapshots: Which, data: Depth, journal: list[Entry | Damage]
) -> tuple[Roots, Findings]:
    store, findings = timeline.store, Findings()
    roots = read_roots(timeline, findings)
    if not timeline.schema_ids():
        if not roots.snapshot_ids:
            raise TableNotFound(f"there is no table at {store.url}")
        findings.error(timeline.paths.schema(0), "", "is missing: there are snapshots, but no schema")
    check_lineage(timeline, roots.snapshot_ids, roots.snapshots, findings)
    check_commits(timeline, roots.snapshot_ids, roots.snapshots, journal, findings)
    check_hints(timeline, roots.snapshot_ids, findings)
    _check_states(timeline, roots, _chosen(timeline, roots, snapshots, findings), data, findings)
    return roots, findings


def _chosen(timeline: Timeline, roots: Roots, snapshots: Which, findings: Findings) -> list[tuple[str, Snapshot]]:
    readable = sorted(roots.snapshots)
    if snapshots is None:
        ids = [i for i in readable[-2:] if i >= readable[-1] - 1]
    elif snapshots == "all":
        ids = readable
    else:
        ids = sorted({whole_number(i, "snapshots", 1) for i in listed(snapshots, "snapshots", "ids, or 'all'")})
        for missing in [i for i in ids if i not in roots.snapshot_ids]:
            findings.error(timeline.paths.snapshot(missing), "", "is missing")
    chosen = [(timeline.paths.snapshot(i), roots.snapshots[i]) for i in ids if i in roots.snapshots]
    if snapshots == "all":
        taken = {s.identity for _, s in chosen}
        tags = sorted(roots.tags.items(), key=lambda item: item[1].id)
        chosen += [(f"{timeline.paths.tag_dir}tag-{name}", s) for name, s in tags if s.identity not in taken]
    return chosen


def _check_states(
    timeline: Timeline, roots: Roots, chosen: list[tuple[str, Snapshot]], data: Depth, findings: Findings
) -> None:
    states = StateCheck(timeline, roots.schemas, findings)
    files = FileCheck(timeline, roots.schemas[max(roots.schemas)], findings) if roots.schemas else None
    check_identities(timeline, chosen, findings)
    for key, snapshot in chosen:
        state = states.state_of(key, snapshot)
        keeps_changelog = _keeps_changelog(timeline, roots, key, snapshot, findings)
        changelog = states.changelog_of(key, snapshot) if keeps_changelog else []
        index = states.index_entries_of(key, snapshot)
        if files is None:  # without a schema, the folders of partitions are not known
            continue
        for entry, manifest in (*state.live.values(), *changelog):
            files.expect_data(entry, manifest)
        check_runs(roots.schemas[max(roots.schemas)], state.live.values(), findings)
        check_counts(roots.schemas[max(roots.schemas)], state.live.values(), findings)
        check_numbers(key, snapshot, state.live.values(), findings)
        live = [entry for entry, _ in state.live.values()]
        doubled = two_index_files(index) if roots.schemas[max(roots.schemas)].primary_keys else None
        if doubled is not None:
            findings.error(timeline.paths.manifest(snapshot.index_manifest or ""), "_INDEX_TYPE", doubled.reason)
        for index_entry in index:
            files.expect_index(index_entry, snapshot.index_manifest or "", live)
        if snapshot.statistics is not None:
            try:
                files.expect_file(timeline.paths.statistics(snapshot.statistics, key), key)
            except TableCorrupt as error:
                findings.error(key, "statistics", error.message)
    if files is not None:
        present = files.check()
        if data:
            DataCheck(timeline, roots.schemas, findings, deep=data == "deep").check(present)


def _keeps_changelog(timeline: Timeline, roots: Roots, key: str, snapshot: Snapshot, findings: Findings) -> bool:
    """Must a root's changelog be there? That of a tag goes with the snapshot (decision 54). The snapshot that a branch began with
    may come from a tag, or from a snapshot that Apache Paimon has expired since: its changelog may be gone as a whole.
    """
    if key.startswith(timeline.paths.tag_dir):
        return False
    branch, name = timeline.paths.branch, snapshot.changelog_manifest_list
    if branch == DEFAULT_BRANCH or name is None:
        return True
    begin = findings.attempt(claim_key(branch), lambda: claim_of(timeline.store, branch))
    begins = {tag.identity for tag in roots.tags.values()} | ({begin.identity} if begin is not None else set())
    if snapshot.identity not in begins:
        return True
    try:
        timeline.store.head(timeline.paths.manifest(name, key))
    except ObjectNotFound:
        return False
    except TableCorrupt:  # a name that cannot be: said when the list is read
        pass
    return True
