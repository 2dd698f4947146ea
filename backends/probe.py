"""Does this store refuse a create on a key that exists? Asked once per process and store, without doing harm.

Owns: the question, what its answers mean, and the memory of stores that passed. Must not know: tables, why the key exists.
Invariants: the probe writes an object's own bytes only, so a store that lets it pass lost nothing; a store is remembered
only after it refused. One probe in sequence finds stores that ignore the condition, not those that check and then put.
Source: format/stores §1, §2.
"""

from __future__ import annotations

from ..core.errors import StoreUnavailable, UnsafeBackend
from .store import AlreadyThere, Created, Store

_ATTEMPTS = 3


class ProbedStores:
    """The URLs of stores that refused, in this process."""

    def __init__(self) -> None:
        self._urls: set[str] = set()

    def remember(self, url: str) -> None:
        self._urls.add(url)

    def forget(self, url: str) -> None:
        self._urls.discard(url)

    def __contains__(self, url: str) -> bool:
        return url in self._urls


PROBED = ProbedStores()
"""This process's memory: a store's answer does not change between two tables of one job."""


def probe(
    store: Store, key: str, data: bytes, *, allow_unsafe: bool | None = None, probed: ProbedStores = PROBED
) -> bool:
    """Create an object that exists again, with its own bytes: the store must refuse.

    Args:
        key: of an object that exists.
        data: its bytes.
        allow_unsafe: use a store that does not refuse all the same; by default what the storage option `allow_unsafe`
            said (`Capabilities.unsafe_allowed`).
        probed: where the answer is remembered.

    Returns:
        True where the store refused, now or before; False where it did not and that is allowed.

    Raises:
        UnsafeBackend: the store cannot create atomically, or let the create pass twice (G9, H1).
        StoreUnavailable: it did not answer, or refused for another reason.

    >>> from .memory import MemoryStore
    >>> store = MemoryStore("memory://doctest-probe")
    >>> store.put("schema/schema-0", b"{}")
    >>> probe(store, "schema/schema-0", b"{}", probed=ProbedStores())
    True
    """
    allowed = store.capabilities.unsafe_allowed if allow_unsafe is None else allow_unsafe
    if store.url in probed:
        return True
    if store.capabilities.atomic_create is None:
        return _unsafe(f"{store.url}: {store.capabilities.detail}", allowed)
    passed = 0
    reason = ""
    for _ in range(_ATTEMPTS):
        outcome = store.put_if_absent(key, data)
        if isinstance(outcome, AlreadyThere):
            probed.remember(store.url)
            return True
        if isinstance(outcome, Created):
            passed += 1
            # Once may be an object that was deleted a moment ago; twice in a row is a store that overwrites.
            if passed == 2:
                return _unsafe(f"{store.url} created {key} although it exists: it ignores the condition", allowed)
            continue
        reason = outcome.reason
    raise StoreUnavailable(f"{store.url}: whether creates are atomic could not be found out: {reason}")


def _unsafe(message: str, allowed: bool) -> bool:
    if not allowed:
        raise UnsafeBackend(message)
    return False
