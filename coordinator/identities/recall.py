"""Reads a table's memory of identities through a base, and looks up one user in it.

Owns: `recall`, the one walk past snapshots of other writers; `Known`, the cache of one committer. Must not know: the machine,
how snapshots are written. Source: architecture §3 (identity), decisions 13 and 88; H8, H18, H24.
Invariants: the look-up goes through the very base that a publish will be built on, and the publish carries on the same memory.
A missing page is an error, because a user must never be assumed to be unknown.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from ...backends.requests.threads import forked_lock
from ...backends.store import ObjectNotFound
from ...core.errors import TableCorrupt
from ...core.metadata.snapshot import Snapshot
from ..history.kept_files import KeptFiles
from ..history.timeline import Timeline
from ..protocol.snapshot_ref import SnapshotRef
from . import pages
from .memory import Memory, is_ours, memory_of, name_of, weight
from .pages import IdentityFile, Leaf, Page, parse_leaf, parse_page, spill
from .trace import Trace

WALK = 20
"""The largest number of other writers' snapshots that are read when no user is looked up."""
_BATCH = 16
_KEPT_MEMORIES = 16
_KEPT_BYTES = 16 << 20
_NOWHERE = SnapshotRef(0, "")


class Known:
    """Thread-safe and bounded. Snapshots are cached by identity, never by id alone (H18); files never change."""

    def __init__(self) -> None:
        self._lock = forked_lock()
        self._memories: OrderedDict[SnapshotRef, Memory] = OrderedDict()
        self._files = KeptFiles(_KEPT_BYTES)

    def memory(self, snapshot: Snapshot) -> Memory | None:
        with self._lock:
            return self._memories.get(SnapshotRef(snapshot.id, snapshot.identity))

    def keep(self, ours: SnapshotRef, memory: Memory, made: Iterable[IdentityFile]) -> None:
        """Keep the memory that a new snapshot will carry if it lands, so that the next commit need not read it."""
        self.keep_memory(ours, memory)
        for file in made:
            self.keep_file(file)

    def keep_memory(self, ref: SnapshotRef, memory: Memory) -> None:
        with self._lock:
            self._memories[ref] = memory
            self._memories.move_to_end(ref)
            while len(self._memories) > _KEPT_MEMORIES:
                self._memories.popitem(last=False)

    def file(self, name: str, timeline: Timeline, needed_by: str = "") -> bytes:
        """The bytes of a page or leaf. Raises TableCorrupt if it is missing; `needed_by` is the file that names it."""
        data = self._files.get(name)
        if data is not None:
            return data
        key = timeline.paths.identities(name)
        try:
            data = timeline.store.get(key)
        except ObjectNotFound:
            told = f"; {needed_by} needs it" if needed_by else ""
            raise TableCorrupt(
                f"{key} is missing: it is not known which commits landed earlier{told}",
                next_step="restore it; commits without commit_user and identifier do not need it",
            ) from None
        self.keep_file(IdentityFile(name, data))
        return data

    def keep_file(self, made: IdentityFile) -> None:
        self._files.keep(made.name, made.data)


@dataclass(frozen=True)
class Recalled:
    """A table's memory through one base.

    Attributes:
        inspected_through: the id of the base; 0 where the table has no snapshot, or no user was looked up.
        trace: what is known of the user that was looked up; None where there was none, or the user is unknown.
        page, leaf: if they were read; both are set where the next memory needs them.
        name: the user that was looked up (see `name_of`).
    """

    inspected_through: int
    memory: Memory
    trace: Trace | None = None
    page: Page | None = None
    leaf: Leaf | None = None
    name: str | None = field(default=None, compare=False)

    @property
    def last(self) -> tuple[int, SnapshotRef] | None:
        """The largest identifier of the user, and the snapshot that carries it; None where the user is unknown."""
        return None if self.trace is None else (self.trace.last, self.trace.carrier)

    def says(self, identifier: int | None) -> bool:
        """Whether this identifier of the user has landed, provided that the base is part of the history."""
        return self.trace is not None and identifier is not None and identifier in self.trace

    def stranger(self, query: str) -> str:
        """Why a commit of this query of a stream may not use the name of this user; empty where it may."""
        owner = self.trace.query if self.trace is not None else ""
        if not (query and owner) or query == owner:
            return ""
        return (
            f"the name '{self.name}' belongs to query {owner}, and this is query {query}, whose batches have the same numbers:"
            " give each query a name of its own, or checkpoint= instead of query="
        )

    def doubt_of(self, identifier: int | None) -> str:
        """Why this identifier of the user may have landed although nobody remembers it; empty where that cannot be."""
        if self.trace is None or identifier is None or not self.trace.doubts(identifier):
            return ""
        return (
            f"identifier {identifier} of '{self.name}' may have landed before: of this user, nothing below"
            f" {self.trace.floor} is remembered but what this version wrote, and others have written, too"
        )

    def carried_on(
        self,
        user: str,
        identifier: int | None,
        ours: SnapshotRef,
        next_name: Callable[[str], str],
        riders: Iterable[tuple[str, int, str]] = (),
        query: str = "",
    ) -> tuple[Memory, tuple[IdentityFile, ...]]:
        """The memory of the next snapshot, and the files that must be written before it is published. `riders`: name, identifier
        and query of the other commits in it; if they are too many for the property, `with_room` comes first.
        """
        own = [] if identifier is None else [(name_of(user), identifier, query)]
        memory = self.after([*own, *riders], ours)
        if not memory.overflows_with():
            return memory, ()
        return spill(memory, self.page or Page(), self.leaf, next_name)

    def after(self, commits: Iterable[tuple[str, int, str]], ours: SnapshotRef) -> Memory:
        """The memory after more commits, by name (see `name_of`), identifier and query; it may be too large for the property."""
        memory = self.memory
        for name, identifier, query in commits:
            is_new = name not in memory.users and name != self.name
            memory = memory.with_name(name, identifier, ours, self.trace if name == self.name else None, query)
            if is_new:
                memory = memory.with_unread(name)
        return memory


def recall(
    user: str | None,
    base: Snapshot | None,
    timeline: Timeline,
    known: Known | None = None,
    *,
    identifier: int | None = None,
) -> Recalled:
    """The memory through a base, and what is known of a user.

    Needs no request if lakelatch made the base and the user is a recent one that commits in order; otherwise a page, and perhaps
    a leaf. Snapshots of other writers above lakelatch's newest one are read once, and cached.

    Args:
        user: None looks up nobody and reads at most `WALK` snapshots.
        identifier: the identifier that is asked for; the user's last one if None.

    Raises TableCorrupt if a snapshot, a page or a leaf is damaged or missing.
    """
    known = known or Known()
    memory = _memory_through(base, timeline, known, to_the_end=user is not None)
    name = name_of(user) if user is not None else None
    found = memory.users.get(name) if name is not None else None
    page: Page | None = None
    leaf: Leaf | None = None
    if name is not None and memory.page is not None and not _settles(found, identifier):
        page = _page(memory.page, timeline, known, _naming(base, memory.page, timeline))
        found = _with_older(found, page.users.get(name))
        if page.leaves and not _settles(found, identifier):
            leaf = _leaf(page, page.prefix_of(name), timeline, known, timeline.paths.identities(memory.page))
            found = _with_older(found, leaf.users.get(name))
        if found is not None and (leaf is not None or not page.leaves):
            found = replace(found, unread=0)
    inspected = base.id if base is not None and user is not None else 0
    recalled = Recalled(inspected, memory, found, page, leaf, name)
    return with_room(recalled, [] if name is None else [(name, identifier)], base, timeline, known)


def _settles(found: Trace | None, identifier: int | None) -> bool:
    return found is not None and (found.unread < 2 if identifier is None else found.settles(identifier))


def _with_older(found: Trace | None, older: Trace | None) -> Trace | None:
    return found.over(older) if found is not None and older is not None else found or older


def with_room(
    recalled: Recalled,
    commits: Sequence[tuple[str, int | None]],
    base: Snapshot | None,
    timeline: Timeline,
    known: Known,
) -> Recalled:
    """What `carried_on` needs to remember some more commits (name, and identifier if it is known): page and leaf, if the next
    memory will overflow. Raises TableCorrupt as `recall`.
    """
    memory, page, leaf = recalled.memory, recalled.page, recalled.leaf
    after = recalled.after([(name, number, "") for name, number in commits if number is not None], _NOWHERE)
    if not after.overflows_with(*(name for name, _ in commits)):
        return recalled
    if memory.page is not None and page is None:
        page = _page(memory.page, timeline, known, _naming(base, memory.page, timeline))
    page = page or Page()
    if leaf is None and weight(page.users) + weight(recalled.memory.users) >= pages.PAGE_USERS:
        named_in = "" if memory.page is None else timeline.paths.identities(memory.page)
        leaf = _leaf(page, page.fullest_prefix(recalled.memory.users), timeline, known, named_in)
    return replace(recalled, page=page, leaf=leaf)


def _naming(base: Snapshot | None, page: str, timeline: Timeline) -> str:
    return timeline.file_of(base) if base is not None and memory_of(base).page == page else ""


def _page(name: str, timeline: Timeline, known: Known, needed_by: str) -> Page:
    return parse_page(known.file(name, timeline, needed_by), timeline.paths.identities(name))


def _leaf(page: Page, prefix: str, timeline: Timeline, known: Known, needed_by: str) -> Leaf:
    name = page.leaves.get(prefix)
    if name is None:
        return Leaf(prefix)
    return parse_leaf(known.file(name, timeline, needed_by), prefix, timeline.paths.identities(name))


def _memory_through(base: Snapshot | None, timeline: Timeline, known: Known, *, to_the_end: bool) -> Memory:
    """Cached after each batch: if the walk takes longer than its base may age, the next one continues."""
    if base is None:
        return Memory()
    ref = SnapshotRef(base.id, base.identity)
    kept = known.memory(base)
    memory, ours, read = kept or memory_of(base), kept is not None or is_ours(base), 0
    while batch := _more(memory, to_the_end, ours, read):
        ids = range(memory.since - 1, max(0, memory.since - 1 - batch), -1)
        for snapshot_id, found in zip(ids, timeline.parallel(timeline.find, ids), strict=True):
            if snapshot_id >= memory.since:
                continue  # a memory further up knows all of it
            if found is None:  # expired: the history begins above it, and no later walk needs to look there again
                memory = memory.begun()
                break
            memory, ours = memory.over(known.memory(found) or memory_of(found)), ours or is_ours(found)
        read += len(ids)
        known.keep_memory(ref, memory)
    return memory


def _more(memory: Memory, to_the_end: bool, ours: bool, read: int) -> int:
    """How many older snapshots to read in the next batch. A memory that overflows is completed first: only a complete one may
    have a page, or the order of two pages would be ambiguous.
    """
    if memory.complete:
        return 0
    if to_the_end or memory.overflows_with(None):
        return min(_BATCH, read + 1)
    return 0 if ours else min(_BATCH, read + 1, WALK - read)


def named_files(snapshot: Snapshot, timeline: Timeline, known: Known) -> list[str]:
    """A snapshot's page, and the leaves that it names. Raises TableCorrupt if the page is damaged or missing."""
    name = memory_of(snapshot).page
    names = () if name is None else (name, *_page(name, timeline, known, timeline.file_of(snapshot)).leaves.values())
    return [timeline.paths.identities(name) for name in names]
