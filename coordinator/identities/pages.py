"""Files of identities, which hold the users that no longer fit into the snapshots' own property. Pure.

Owns: `Page`, `Leaf`, their bytes, and `spill`, which moves users from the property into a page and from a page into leaves. Must
not know: stores, snapshots. Source: decisions 13 and 88; H16, H24.
Invariants: files never change. The page and one leaf hold everything that is known about a user. A spill reads at most the page
and one leaf, and writes at most the page and the leaves that replace that leaf.

A page holds the users that were moved out most recently, and names the leaves. Each leaf holds the users whose hash begins with
its prefix, in bits; the prefixes together cover every hash exactly once. A page that has grown too long moves the users of one
leaf into that leaf. A leaf that has grown too long is split into several with longer prefixes.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import zlib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ...core.errors import TableCorrupt
from ...core.json_text import parse_json
from ...core.paths import IDENTITY_PREFIX
from .memory import Memory, identity_file, users_from_json, users_to_json, weight
from .trace import Trace

PAGE_USERS = 2_000
"""A page with more users moves some of them into a leaf at each spill. A user counts once for each of its ranges."""
LEAF_USERS = 4_000
"""A leaf with more users is split. Leaves are read as a whole, so they must stay small; pages grow with the number of leaves."""
LONGEST_FILE = 1 << 28
"""Bytes of JSON that a file may unpack to: a damaged or hostile file must not exhaust the memory."""
_GZIP = 31
_DEEPEST = 64
"""The length of the longest prefix, in bits."""

Users = Mapping[str, Trace]


@dataclass(frozen=True)
class Leaf:
    prefix: str
    users: Users = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        return _packed(users_to_json(self.users))


@dataclass(frozen=True)
class Page:
    """The recent users that no longer fit into the property. `leaves`: prefix of a hash, in bits -> the file with such users."""

    users: Users = field(default_factory=dict)
    leaves: Mapping[str, str] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        return _packed({**users_to_json(self.users), "leaves": dict(self.leaves)})

    def prefix_of(self, name: str) -> str:
        """The prefix of the leaf that holds a user; empty where there is no leaf."""
        bits = bits_of(name) if self.leaves else ""
        return next((bits[:n] for n in range(_DEEPEST + 1) if bits[:n] in self.leaves), "")

    def fullest_prefix(self, more: Users) -> str:
        """The prefix of the leaf that would receive the most of this page and the given users."""
        waiting: Counter[str] = Counter()
        for name, trace in (*self.users.items(), *more.items()):
            waiting[self.prefix_of(name)] += len(trace.ranges)
        return max(sorted(waiting), key=waiting.__getitem__)


@dataclass(frozen=True)
class IdentityFile:
    name: str
    data: bytes


def spill(
    memory: Memory, page: Page, leaf: Leaf | None, next_name: Callable[[str], str]
) -> tuple[Memory, tuple[IdentityFile, ...]]:
    """A memory that fits into its property again, and the files that hold the rest. `page` is an empty one where it has none;
    `leaf` receives users if the page is too long, and may be None only if it is not.
    """
    if memory.page is None:  # it is complete, and this is its first page
        memory = replace(memory, users={name: replace(trace, unread=0) for name, trace in memory.users.items()})
    falling, staying = memory.divided()
    waiting, leaves = _over(falling, page.users), dict(page.leaves)
    files: list[IdentityFile] = []
    if leaf is not None and weight(waiting) > PAGE_USERS:
        moving = {name: found for name, found in waiting.items() if bits_of(name).startswith(leaf.prefix)}
        waiting = {name: found for name, found in waiting.items() if name not in moving}
        leaves.pop(leaf.prefix, None)
        for part in split(Leaf(leaf.prefix, _over(moving, leaf.users))):
            files.append(IdentityFile(next_name(f"{IDENTITY_PREFIX}leaf"), part.to_bytes()))
            leaves[part.prefix] = files[-1].name
    files.append(IdentityFile(next_name(f"{IDENTITY_PREFIX}page"), Page(waiting, leaves).to_bytes()))
    return Memory(memory.since, staying, files[-1].name), tuple(files)


def _over(newer: Users, older: Users) -> dict[str, Trace]:
    """All users; of one that both have, both traces."""
    return {**older, **{n: trace.over(older[n]) if n in older else trace for n, trace in newer.items()}}


def split(leaf: Leaf) -> list[Leaf]:
    """Split a leaf into leaves that are short enough. One user stays in one leaf, however many ranges it has."""
    if len(leaf.users) <= 1 or weight(leaf.users) <= LEAF_USERS or len(leaf.prefix) >= _DEEPEST:
        return [leaf]
    halves: tuple[dict[str, Trace], dict[str, Trace]] = ({}, {})
    for name, found in leaf.users.items():
        halves[int(bits_of(name)[len(leaf.prefix)])][name] = found
    return [part for bit, half in enumerate(halves) for part in split(Leaf(f"{leaf.prefix}{bit}", half))]


def bits_of(name: str) -> str:
    """A user's hash, in bits, evenly distributed for any names.

    >>> bits_of("etl")[:8], len(bits_of("etl"))
    ('01100011', 64)
    """
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()
    return f"{int.from_bytes(digest[:8], 'big'):064b}"


def parse_page(data: bytes, where: str) -> Page:
    """Raises TableCorrupt, naming file and field, if it is garbled, or names a leaf outside the folder (H16)."""
    raw = _unpacked(data, where)
    leaves = _field(raw, "leaves", where, lambda value: {str(p): str(name) for p, name in value.items()})
    for name in leaves.values():
        identity_file(name, f"{where}: field 'leaves'")
    if leaves and not _covers(leaves):
        raise TableCorrupt(f"{where}: field 'leaves' does not cover every hash once")
    return Page(_users(raw, where), leaves)


def parse_leaf(data: bytes, prefix: str, where: str) -> Leaf:
    """Raises TableCorrupt, naming file and field, if it is garbled, or holds users of another leaf."""
    users = _users(_unpacked(data, where), where)
    if not all(bits_of(name).startswith(prefix) for name in users):
        raise TableCorrupt(f"{where}: field 'users' has users whose hash does not begin with {prefix}")
    return Leaf(prefix, users)


def _covers(leaves: Mapping[str, str]) -> bool:
    """Whether every hash begins with exactly one of these prefixes."""
    ordered = sorted(leaves)
    if any(len(prefix) > _DEEPEST or prefix.strip("01") for prefix in ordered):
        return False
    nested = any(longer.startswith(prefix) for prefix, longer in itertools.pairwise(ordered))
    return not nested and sum(1 << (_DEEPEST - len(prefix)) for prefix in ordered) == 1 << _DEEPEST


def _users(raw: dict[str, Any], where: str) -> dict[str, Trace]:
    users: dict[str, Trace] = _field({"users": raw}, "users", where, users_from_json)
    return users


def _field(raw: dict[str, Any], name: str, where: str, read: Callable[[Any], Any]) -> Any:
    try:
        return read(raw[name])
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise TableCorrupt(f"{where}: field '{name}' is garbled: {error!r}") from error


def _packed(content: dict[str, Any]) -> bytes:
    packer = zlib.compressobj(wbits=_GZIP)
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=False)
    return packer.compress(text.encode()) + packer.flush()


def _unpacked(data: bytes, where: str) -> dict[str, Any]:
    try:
        unpacker = zlib.decompressobj(wbits=_GZIP)
        text = unpacker.decompress(data, LONGEST_FILE)
        if not unpacker.eof:
            raise ValueError("it is truncated, or too long")
        raw = parse_json(text)
        if not isinstance(raw, dict):
            raise TypeError("not a JSON object")
        return raw
    except (ValueError, TypeError, zlib.error) as error:
        raise TableCorrupt(f"{where} is not a file of identities: {error!r}") from error
