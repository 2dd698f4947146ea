"""Which table a journal's commit belongs to: the one at the address that its writer knew, or the same table at another place.

Owns: `Home`, `Homes`. Must not know: what the entries of a commit mean, how it is finished. Source: decision 94; H21.
Invariants: a commit is looked for, and finished, only in a table with the identity that its writer saw. A journal that is asked
for one table never sends anyone to another one. A table whose source still has the same identity is a copy that other tools made,
and what was under way in the source is none of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ...backends.elsewhere import fixed_url, place_of
from ...backends.registry import open_beside
from ...backends.store import ObjectNotFound, Store
from ...core.errors import LakelatchError, TableNotFound
from ...core.metadata.table_identity import identity_of
from ...core.paths import DEFAULT_BRANCH, TablePaths
from ..history.timeline import Timeline
from ..journal.lines import Entry, address_of, is_address_of
from ..surroundings import MACHINE, Surroundings


@dataclass(frozen=True)
class Home:
    """One table, as journals may name it. Reads schema 0 of a branch when it is first asked for."""

    store: Store
    _first: dict[str, bytes | None] = field(default_factory=dict, repr=False)

    @property
    def address(self) -> str:
        return address_of(fixed_url(self.store))

    def first_schema(self, branch: str) -> bytes | None:
        if branch not in self._first:
            try:
                self._first[branch] = self.store.get(TablePaths(branch).schema(0))
            except ObjectNotFound:
                self._first[branch] = None
        return self._first[branch]

    def identity(self, branch: str = DEFAULT_BRANCH) -> str:
        return identity_of(self.first_schema(branch))

    def may_have(self, entry: Entry) -> bool:
        """Whether an entry of a journal that many tables share names this table, by its address or its identity."""
        return is_address_of(entry.table, self.address) or (
            entry.table_id != "" and entry.table_id == self.identity(entry.branch)
        )


@dataclass(frozen=True)
class Homes:
    """Finds the table of each commit: at the address that each entry names, or the `only` one that is asked for."""

    store_of: Callable[[str], Store]
    only: Home | None = None
    around: Surroundings = MACHINE
    _opened: dict[str, Home] = field(default_factory=dict, repr=False)

    def of(self, entry: Entry) -> Timeline:
        """The history that a commit belongs to. Raises TableNotFound if its table is not here (says where it was, and what can
        be done), StoreUnavailable if a store does not answer.
        """
        home = self._named(entry) if self.only is None else self._asked_for(self.only, entry)
        first = home.first_schema(entry.branch) if entry.table_id else None
        return Timeline(home.store, TablePaths(entry.branch), self.around.executor, first)

    def _named(self, entry: Entry) -> Home:
        home = self._opened.get(entry.table) or self._opened.setdefault(entry.table, Home(self.store_of(entry.table)))
        if entry.table_id and home.identity(entry.branch) != entry.table_id:
            there = "another table is" if home.first_schema(entry.branch) is not None else "there is no table"
            raise _elsewhere(
                f"{there} at {entry.table} by now: if its own was renamed, recover the journal with the new URL as its table"
            )
        return home

    def _asked_for(self, home: Home, entry: Entry) -> Home:
        at_home = is_address_of(entry.table, home.address)
        if entry.table_id and home.identity(entry.branch) != entry.table_id:
            other = (
                "the table that was here before" if at_home else f"another table, at {entry.table}: recover that one"
            )
            raise _elsewhere(f"it was made in {other}")
        if at_home:
            return home
        if not entry.table_id:
            raise _elsewhere(
                f"it was made in a table at {entry.table}, and an older version did not note which one it was"
            )
        if self._is_copy(home, entry):
            raise _elsewhere(f"this table is a copy of the one at {entry.table}, where it was made: recover that one")
        return home

    def _is_copy(self, home: Home, entry: Entry) -> bool:
        """Whether the table at the address that a commit names still is the one that the commit was made in. One in another
        bucket is not looked at: no table is renamed out of a bucket.
        """
        there = open_beside(home.store, entry.table)
        here, other = place_of(home.store), place_of(there)
        if here == other:
            return False
        if _authority(here) != _authority(other):
            return True
        return Home(there).identity(entry.branch) == entry.table_id


def _authority(place: str) -> str:
    """The part of a place that a rename keeps: its scheme and bucket, container or server.

    >>> _authority("s3://lake/air/t"), _authority("file:/lake/t")
    ('s3://lake', 'file:')
    """
    scheme, _, rest = place.partition(":")
    return f"{scheme}://{rest[2:].partition('/')[0]}" if rest.startswith("//") else f"{scheme}:"


def _elsewhere(reason: str) -> LakelatchError:
    return TableNotFound(f"left alone: {reason}", next_step="")
