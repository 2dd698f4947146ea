"""Tests, once per process and store, whether the store refuses to create a key that exists. The test does no harm.

Owns: the probe, what its answers mean, and the memory of stores that passed. Must not know: tables, why the key exists.
Source: format/stores §1, §2. Invariants: the probe writes only bytes that the object already has, so a store that
accepts them loses nothing. A store is remembered only after it refused. Limit: sequential probes find stores that
ignore the condition, but not stores that check first and then put.
"""

from __future__ import annotations

from collections.abc import Callable

from tenacity import Retrying, retry_if_result, stop_after_attempt, stop_any, stop_before_delay, wait_random_exponential

from ..core.errors import StoreUnavailable, UnsafeBackend
from .requests.deadline import left_s
from .store import AlreadyThere, Created, PutOutcome, Store, Unknown

_SENDS = 8
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.05, 2.0


class ProbedStores:
    def __init__(self) -> None:
        self._urls: set[str] = set()

    def remember(self, url: str) -> None:
        self._urls.add(url)

    def forget(self, url: str) -> None:
        self._urls.discard(url)

    def __contains__(self, url: str) -> bool:
        return url in self._urls


PROBED = ProbedStores()


def probe(
    store: Store,
    key: str,
    data: bytes,
    *,
    allow_unsafe: bool | None = None,
    probed: ProbedStores = PROBED,
    made_again: Callable[[], None] = lambda: None,
) -> bool:
    """Try to create an object that exists, with the bytes that it already has. A safe store refuses.

    Args:
        allow_unsafe: use the store even if it does not refuse; by default the storage option (`Capabilities.unsafe_allowed`).
        probed: where the answer is remembered.
        made_again: called where the object had just been deleted, so that the probe created it once. It may raise.

    Returns:
        True if the store refused, now or earlier; False if it did not and the caller allows that.

    Raises:
        UnsafeBackend: the store has no atomic create, or accepted the create twice (G9, H1).
        StoreUnavailable: the store did not answer, or refused for another reason.

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
    outcome = _answered(store, key, data)
    if isinstance(outcome, Created):
        # One success may mean that the object was just deleted. Two in a row mean that the store overwrites.
        outcome = _answered(store, key, data)
        if isinstance(outcome, Created):
            return _unsafe(f"{store.url} created {key} although it exists: it ignores the condition", allowed)
        if isinstance(outcome, AlreadyThere):
            made_again()
    if isinstance(outcome, Unknown):
        raise StoreUnavailable(f"{store.url}: could not find out whether creates are atomic: {outcome.reason}")
    probed.remember(store.url)
    return True


def _answered(store: Store, key: str, data: bytes) -> PutOutcome:
    """Send the create until it is answered, as often as any request: every send of it carries the bytes that are there."""
    sends = Retrying(
        stop=stop_any(stop_after_attempt(_SENDS), stop_before_delay(left_s())),
        wait=wait_random_exponential(_FIRST_WAIT_S, _LONGEST_WAIT_S),
        retry=retry_if_result(lambda outcome: isinstance(outcome, Unknown)),
        retry_error_callback=lambda last: last.outcome.result() if last.outcome else None,
    )
    return sends(store.put_if_absent, key, data)


def _unsafe(message: str, allowed: bool) -> bool:
    if not allowed:
        raise UnsafeBackend(message)
    return False
