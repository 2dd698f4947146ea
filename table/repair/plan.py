"""Plans the repair of a damaged table from the findings of a check.

Owns: `plan_repair`, which step mends which damage, and the order of the steps. Must not know: how a step is carried out.
Source: format/snapshot §1, §3; H6, H7, H11, H25; decision 63.
Invariants: planning changes nothing, and works for a table that cannot be opened. Rows that are gone are named with their
partition and their number; nothing is made up in their place. The rule of the history decides between runs of snapshots, and
where it does not decide, nothing is done.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from ...backends.store import Store
from ...coordinator.history.timeline import Timeline
from ...core.json_text import parse_json
from ...core.paths import BRANCH_DIR, DEFAULT_BRANCH, SCHEMA_DIR, TablePaths, version_of
from ..verify.finding import Finding
from ..verify.whole import Depth, verify_store
from .draft import Draft
from .files import plan_files
from .history import plan_history
from .steps import Remedy, RepairPlan, Step
from .survey import Survey, digest, is_newer, schema_in, snapshot_in


def plan_repair(store: Store, branch: str = DEFAULT_BRANCH, data: Depth = False) -> RepairPlan:
    """Check a table, and plan its repair. With `data`, also open the data files, as `verify` does.

    `TableNotFound`: there is neither a schema nor a snapshot. `Unsupported`: it cannot be told what is damaged.
    """
    findings = verify_store(store, branch=branch, snapshots="all", data=data)
    draft = Draft(Survey(Timeline(store, TablePaths(branch))), findings)
    _schemas(draft)
    plan_history(draft)
    _tags(draft)
    _words(draft)
    _hints(draft)
    plan_files(draft)
    remedies = [
        Remedy(f, tuple(draft.mended.get(f, ())), "" if f in draft.mended else _why(draft, f)) for f in findings
    ]
    return RepairPlan(tuple(draft.steps), tuple(remedies), max(draft.survey.ids, default=0))


def _schemas(draft: Draft) -> None:
    """A schema that is gone or damaged is copied from a branch that has it."""
    timeline = draft.survey.timeline
    folder = timeline.paths.schema_dir
    broken = sorted({f.file for f in draft.findings if f.file.startswith(folder) and f.severity == "error"})
    for key in broken:
        number = version_of(key[len(folder) :], "schema")
        copies = set() if number is None else set(_schema_copies(draft, key, number))
        if len(copies) != 1:
            continue
        data = copies.pop()
        there = draft.survey.bytes_of(key)
        if there is not None and is_newer(there):
            continue
        step = Step(
            "restore",
            f"write {key} again, from a branch that has the same schema",
            creates=((key, data),),
            deletes=() if there is None else ((key, digest(there)),),
        )
        draft.add(step, draft.about(key))


def _schema_copies(draft: Draft, key: str, number: int) -> Iterable[bytes]:
    store, ending = draft.survey.timeline.store, f"{SCHEMA_DIR}/schema-{number}"
    listed = [info.key for info in store.list(f"{BRANCH_DIR}/")] + [TablePaths().schema(number)]
    for other in listed:
        if other == key or not f"/{other}".endswith(f"/{ending}"):
            continue
        data = draft.survey.bytes_of(other)
        found = None if data is None else schema_in(data, other)
        if data is not None and found is not None and found.id == number:
            yield data


def _tags(draft: Draft) -> None:
    """Tags that cannot be read stop expiry and cleaning, which must know what they keep (H11)."""
    survey, paths = draft.survey, draft.survey.timeline.paths
    for name, data in survey.tags.items():
        key = f"{paths.tag_dir}tag-{name}"
        held = snapshot_in(data, key)
        if is_newer(data) or (held is not None and survey.is_whole(held)):
            continue
        names = [] if held is None else [f"manifest/{n}" for n in survey.names_of(held)]
        mends = [f for f in draft.findings if f.file == key or (f.file in names and f not in draft.mended)]
        told = f"delete tag '{name}', whose state cannot be read"
        draft.add(Step("untag", told, f"tag '{name}'", deletes=((key, digest(data)),)), mends)


def _words(draft: Draft) -> None:
    """Snapshots, tags and changelogs whose operation Apache Paimon cannot parse are written without it, which no reader needs."""
    for finding in draft.findings:
        data = draft.survey.bytes_of(finding.file) if finding.field == "operation" else None
        if data is None:
            continue
        raw = parse_json(data)
        word = raw.pop("operation")
        told = f"write {finding.file} without its field 'operation', which says '{word}'"
        again = json.dumps(raw, indent=2, ensure_ascii=False).encode()
        step = Step("reword", told, puts=((finding.file, again),), deletes=((finding.file, digest(data)),))
        draft.add(step, [finding])


def _hints(draft: Draft) -> None:
    """Hints that are missing, garbage or wrong are written anew (H7)."""
    survey, paths = draft.survey, draft.survey.timeline.paths
    for name, right in (("EARLIEST", draft.begin), ("LATEST", draft.end)):
        key = paths.hint(name)
        if not right or any(key in (put for put, _ in step.puts) for step in draft.steps):
            _mend_hint(draft, key)
            continue
        held = survey.bytes_of(key)
        if held is not None and held.strip() == str(right).encode():
            continue
        is_lower = name == "EARLIEST" and held is not None and held.strip().isdigit() and int(held) > right
        if is_lower and int(held or b"0") in survey.ids:
            continue  # an expiry that was cut off has raised it already
        was = "is missing" if held is None else f"says {held[:20].decode('ascii', 'replace')!r}"
        step = Step("hint", f"write {right} into {key}, which {was}", puts=((key, str(right).encode()),))
        draft.add(step, draft.about(key))


def _mend_hint(draft: Draft, key: str) -> None:
    for position, step in enumerate(draft.steps):
        if key in (put for put, _ in step.puts):
            for finding in draft.about(key):
                draft.mended.setdefault(finding, []).append(position)


def _why(draft: Draft, finding: Finding) -> str:
    if finding in draft.why_none:
        return draft.why_none[finding]
    if finding.severity == "warning":
        return "it costs at most time or space"
    if finding.message.endswith("already live"):
        return "readers count the file once; the next full compaction of manifests leaves one entry"
    if finding.field in ("totalRecordCount", "deltaRecordCount", "changelogRecordCount"):
        return "only this number is wrong; reads count the files, and the next commits carry the difference on"
    if finding.file.startswith("statistics/"):
        return "only the statistics are gone; they are made anew by the next `analyze`"
    if finding.field.startswith("lakelatch."):
        return "the snapshot is what readers see; what its rows lack, if anything, is reported on their own"
    if finding.file.startswith(draft.survey.timeline.paths.schema_dir):
        return "no branch has a copy of it; restore the file from a backup"
    if finding.message.startswith("has ") and " says " in finding.message:
        return (
            "if that is all, only a size is wrong, and the file can be read; otherwise restore the file from a backup"
        )
    whole = [number for number in draft.survey.whole if number <= (draft.end or number)]
    newest = max(whole, default=None)
    if newest is None:
        return "no snapshot of the table can be read whole; restore the file from a backup"
    return (
        "no copy of it is known; restore the file from a backup, or go back to a sound state:"
        f" snapshot {newest} is the newest one whose metadata can be read"
    )
