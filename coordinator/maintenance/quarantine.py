"""Moves orphans aside instead of deleting them, brings them back, and deletes them once their time is over.

Owns: the folder `lakelatch/quarantine/`, its lists, `move_orphans`, `restore`, `expire_quarantines`. Must not know: which files
are orphans, the command line. Source: format/commit §12; decision 57.
Invariants: the head of a quarantine is created first and deleted last. A list names files before any of them is moved. A file is
deleted only after its copy is durable. A quarantine whose time is over gives back what a root reaches by then.

Other engines do not look into `lakelatch/`. The keys: `heads/<name>.json`, `lists/<name>/<page>.jsonl`, `files/<name>/<where it
was>`, and `elsewhere/<name>/<number>/<file name>` for files from outside the table's folder.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from itertools import count
from typing import Any

from ...backends.elsewhere import delete_located, located
from ...backends.files.folders import copy
from ...backends.requests.refusals import past_refusals
from ...backends.store import ObjectInfo, ObjectNotFound, Store
from ...core.errors import InvalidArgument, TableCorrupt
from ...core.html_text import ShownAsText
from ...core.json_text import parse_json
from ...core.metadata.schema import TableSchema
from ...core.places import is_external, plain_url
from ..history.timeline import Timeline
from .deletion import Progress
from .orphans import OrphanPlan, data_pattern, external_locations, in_a_folder_of_the_format, look_again, still_unused
from .reach.names import FileSpool

FOLDER = "lakelatch/quarantine/"
_HEADS, _LISTS, _FILES, _ELSEWHERE = (f"{FOLDER}{part}/" for part in ("heads", "lists", "files", "elsewhere"))


@dataclass(frozen=True)
class Quarantine(ShownAsText):
    """Files that one run of `clean` moved aside.

    Attributes:
        name: the time of the run, and a few letters.
        made_ms, expires_ms: when it was made, and when `clean` may delete it: the store's clock, in milliseconds since 1970.
        files, size: how many files were to be moved, and their bytes.
    """

    name: str
    made_ms: int
    expires_ms: int
    files: int
    size: int

    def __str__(self) -> str:
        return f"{self.name}: {self.files} files, {self.size} bytes, until {_time(self.expires_ms)}"

    def to_dict(self) -> dict[str, Any]:
        """With stable keys, ready for JSON."""
        return asdict(self)


def _time(ms: int) -> str:
    """A time for people; for one that Python cannot hold, the number of milliseconds since 1970."""
    try:
        return datetime.fromtimestamp(ms / 1000, timezone.utc).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return f"{ms} ms"


@dataclass(frozen=True)
class Restored(ShownAsText):
    """What `restore_quarantine` brought back.

    Attributes:
        files, size: how many files are where they were before, and their bytes.
        lost: files that are neither in the quarantine nor where they were before.
    """

    quarantines: tuple[str, ...]
    files: int
    size: int
    lost: tuple[str, ...]

    def __str__(self) -> str:
        lost = f"; {len(self.lost)} are neither there nor where they were" if self.lost else ""
        return f"{self.files} files of {len(self.quarantines)} quarantines: {self.size} bytes{lost}"

    def to_dict(self) -> dict[str, Any]:
        """With stable keys, ready for JSON."""
        return {**asdict(self), "quarantines": list(self.quarantines), "lost": list(self.lost)}


@dataclass(frozen=True)
class _Line:
    """A line of a list: where a file was, where it is, and what a listing said about it."""

    file: str
    moved_to: str
    size: int
    modified_ms: int


def quarantines(store: Store) -> list[Quarantine]:
    """Oldest first. Raises TableCorrupt if the head of one is damaged."""
    found = []
    for info in store.list(_HEADS):
        try:
            found.append(Quarantine(**parse_json(store.get(info.key))))
        except ObjectNotFound:
            continue
        except (ValueError, TypeError) as error:
            raise TableCorrupt(f"{info.key} is not the head of a quarantine: {error}") from error
    return sorted(found, key=lambda one: (one.made_ms, one.name))


# ----------------------------------------------------------------------------------------------------------------- there


@past_refusals()
def move_orphans(
    plan: OrphanPlan, now_ms: int, keep_ms: int, unique: str, progress: Progress | None = None
) -> OrphanPlan:
    """Move the orphans into a new quarantine, after the same looks as before a deletion. Returns the plan as it was carried out.

    Args:
        now_ms: by the store's clock.
        keep_ms: how long they stay there.
        unique: a few letters that no other run has.

    Raises StoreUnavailable if the store failed midway: run it again. What was moved by then can be restored.
    """
    if not len(plan.files):
        return plan
    timeline, done = plan.used.timeline, FileSpool()
    store = timeline.store
    made = datetime.fromtimestamp(now_ms / 1000, timezone.utc)
    size = sum(info.size for info in plan.files)
    head = Quarantine(f"{made:%Y%m%dT%H%M%SZ}-{unique}", now_ms, now_ms + keep_ms, len(plan.files), size)
    store.put(_head(head.name), json.dumps(head.to_dict()).encode())
    pages, numbers = count(), count()
    for batches in still_unused(plan):
        for batch in batches:
            lines = [_line(head.name, info, next(numbers)) for info in batch]
            data = b"\n".join(json.dumps(asdict(line)).encode() for line in lines)
            store.put(_page(head.name, next(pages)), data)
            moved = timeline.parallel(lambda line: _copied(store, line.file, line.moved_to, line.size), lines)
            gone = [info.key for info, there in zip(batch, moved, strict=True) if there]
            delete_located(store, gone, named=False)
            done.extend(info for info, there in zip(batch, moved, strict=True) if there)
        if progress is not None:
            progress(len(done), len(plan.files))
    store.put(_head(head.name), json.dumps(replace(head, files=len(done), size=done.size).to_dict()).encode())
    return replace(plan, files=done, quarantine=head.name)


def _line(name: str, info: ObjectInfo, number: int) -> _Line:
    folder, slash, last = info.key.rpartition("/")
    shown = f"hidden{last}" if last.startswith(".") else last  # listings leave out temporary files
    if is_external(info.key):
        return _Line(info.key, f"{_ELSEWHERE}{name}/{number}/{shown}", info.size, info.modified_ms)
    return _Line(info.key, f"{_FILES}{name}/{folder}{slash}{shown}", info.size, info.modified_ms)


def _copied(store: Store, key: str, to: str, size: int) -> bool:
    """Copy a file of the table to another key of the table, either of which may be outside. False if it is gone."""
    (source, inside), (target, there) = located(store, key), located(store, to)
    second_name = getattr(source, "second_name", None) if source is target else None
    try:
        if second_name is None or not second_name(inside, there):
            copy(source, inside, target, there, size)
    except ObjectNotFound:
        return False
    return True


# ------------------------------------------------------------------------------------------------------------------ back


@past_refusals()
def restore(
    timeline: Timeline, schema: TableSchema, name: str | None = None, progress: Progress | None = None
) -> Restored:
    """Bring the files of one quarantine back to where they were, or those of all. Raises as `Table.restore_quarantine`, and
    TableCorrupt if a list is damaged, or names a place outside of the table.
    """
    chosen = chosen_quarantines(timeline.store, name)
    total, files, size, lost = sum(one.files for one in chosen), 0, 0, list[str]()
    allowed = _allowed(timeline, schema)
    for quarantine in chosen:
        for page, lines in _pages(timeline.store, quarantine.name, allowed):
            found = timeline.parallel(lambda line: _back(timeline.store, line), lines)
            if not delete_located(timeline.store, [line.moved_to for line in lines]):
                delete_located(timeline.store, [page])
            files += sum(found)
            size += sum(line.size for line, there in zip(lines, found, strict=True) if there)
            lost += [line.file for line, there in zip(lines, found, strict=True) if not there]
            if progress is not None:
                progress(files, max(total, files))
        if not any(timeline.store.list(f"{_LISTS}{quarantine.name}/")):
            delete_located(timeline.store, [_head(quarantine.name)])
    return Restored(tuple(one.name for one in chosen), files, size, tuple(lost))


def chosen_quarantines(store: Store, name: str | None) -> list[Quarantine]:
    """The quarantine of this name, or all of them. Raises InvalidArgument if there is none of this name."""
    found = quarantines(store)
    if name is None:
        return found
    chosen = [one for one in found if one.name == name]
    if not chosen:
        names = ", ".join(one.name for one in found) or "there is none"
        raise InvalidArgument(f"there is no quarantine {name!r}", next_step=f"choose one of these: {names}")
    return chosen


def _allowed(timeline: Timeline, schema: TableSchema) -> Callable[[str], bool]:
    """Whether a file may be brought back to a place: only to where orphans are looked for (H16)."""
    is_data, locations = data_pattern(schema), list[str]()

    def allowed(key: str) -> bool:
        if not is_external(key):
            return in_a_folder_of_the_format(key, is_data)
        if not locations:
            locations.extend(external_locations(timeline, schema))
        return ".." not in key.split("/") and plain_url(key).startswith(tuple(f"{root}/" for root in locations))

    return allowed


def _back(store: Store, line: _Line) -> bool:
    """Bring a file back, unless it is where it was. Returns whether it is there now."""
    source, key = located(store, line.file)
    try:
        source.head(key)
    except ObjectNotFound:
        return _copied(store, line.moved_to, line.file, line.size)
    return True


# --------------------------------------------------------------------------------------------------------------- the end


@past_refusals()
def expire_quarantines(plan: OrphanPlan, now_ms: int) -> OrphanPlan:
    """Delete the quarantines whose time is over, and give back what a root reaches by now. Returns the plan with their names."""
    used, store, over = plan.used, plan.used.timeline.store, list[str]()
    allowed, seen = _allowed(used.timeline, used.schema), set(plan.seen)
    for quarantine in quarantines(store):
        if quarantine.expires_ms > now_ms:
            continue
        if not over:
            look_again(used, seen)
        for page, lines in _pages(store, quarantine.name, allowed):
            needed = used.names.holds([line.file for line in lines]).tolist()
            for line, wanted in zip(lines, needed, strict=True):
                if wanted:
                    _back(store, line)
            if not delete_located(store, [line.moved_to for line in lines]):
                delete_located(store, [page])
        if not any(store.list(f"{_LISTS}{quarantine.name}/")):  # what was refused is asked for again by the next run
            delete_located(store, [_head(quarantine.name)])
            over.append(quarantine.name)
    return replace(plan, expired=tuple(over))


def _pages(store: Store, name: str, allowed: Callable[[str], bool]) -> Iterator[tuple[str, list[_Line]]]:
    for key in [info.key for info in store.list(f"{_LISTS}{name}/")]:
        try:
            yield key, [_parsed(key, name, line, allowed) for line in store.get(key).split(b"\n") if line]
        except ObjectNotFound:
            continue


def _parsed(key: str, name: str, text: bytes, allowed: Callable[[str], bool]) -> _Line:
    try:
        line = _Line(**parse_json(text))
        fits = line.moved_to.startswith((f"{_FILES}{name}/", f"{_ELSEWHERE}{name}/")) and allowed(line.file)
    except (ValueError, TypeError, AttributeError) as error:
        raise TableCorrupt(f"{key} is not a list of a quarantine: {error}") from error
    if not fits:
        raise TableCorrupt(
            f"{key} says that {line.file} lies in {line.moved_to}: no run of `clean` moves a file from there to there",
            next_step="look at the list before anything is restored or deleted by it",
        )
    return line


def _head(name: str) -> str:
    return f"{_HEADS}{name}.json"


def _page(name: str, number: int) -> str:
    return f"{_LISTS}{name}/{number:06d}.jsonl"
