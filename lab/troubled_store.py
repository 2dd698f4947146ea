"""A store with planned faults, which any process of a job can open by its URL.

Owns: the scheme `faulty://<folder of faults>/<table>`, and the moment of each strike. Must not know: pytest, Spark.
Invariants: an answer of success is true. Nothing strikes unless the folder plans it or its dice say so. A killed process sends
nothing more. The scheme is offered in the entry point group `lakelatch.backends`, as another package's would be.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ..backends.around.faulty import Faults, FaultyStore
from ..backends.registry import open_store
from ..backends.store import Capabilities, Created, ObjectInfo, PutOutcome, Store, Unknown
from ..coordinator.protocol.machine import LOOKS
from ..core.errors import InvalidArgument, StoreUnavailable
from .trouble import KILL_AFTER, KILL_BEFORE, LOSE_ANSWER, RIVAL_AFTER_READ, RIVAL_BEFORE_COMMIT, Trouble

SCHEME = "faulty"


_AGAIN = ". Expect it with pytest.raises(Killed), then run the job again as its scheduler would, and call assert_once"


class Killed(BaseException):
    """The process was killed here, on purpose. Not an `Exception`, so that a job that retries cannot survive it.

    In a test: `with pytest.raises(Killed): job(url)`, then run the job again, and look at the table.
    """


def troubled_url(folder: Path, name: str) -> str:
    """The URL of a table in a folder of faults."""
    return f"{SCHEME}://{folder}/{name}"


class TroubledStore:
    """A table's store with planned faults.

    Args:
        url: `faulty://<folder>/<table>`; the settings in the folder name the store of the table.
        options: override the storage options in the settings.

    Raises:
        InvalidArgument: the folder does not exist any more; it lives as long as its test.
    """

    def __init__(self, url: str, options: Mapping[str, Any] | None = None) -> None:
        self._url, self._options = url, dict(options or {})
        folder, _, self._name = url.partition("://")[2].rpartition("/")
        self._trouble = Trouble(Path(folder))
        try:
            settings = self._trouble.settings
        except FileNotFoundError:
            raise InvalidArgument(
                f"{url}: the folder with its faults does not exist", next_step="use the URL in the test that made it"
            ) from None
        self._real_url = f"{settings.url.rstrip('/')}/{self._name}"
        self._real_options = {**settings.storage_options, **self._options}
        self._store: Store = open_store(self._real_url, self._real_options)
        if settings.faults:
            plan = {operation: Faults(**shares) for operation, shares in settings.faults.items()}
            noted = self._trouble.note
            self._store = FaultyStore(
                self._store, settings.seed, plan, on_strike=lambda struck: noted(struck.fault, struck.key)
            )
        self._dead = ""
        self._blind_looks = 0

    def __reduce__(self) -> tuple[Any, ...]:
        return TroubledStore, (self._url, self._options)

    def __repr__(self) -> str:
        return f"TroubledStore({self._url!r})"

    @property
    def url(self) -> str:
        return self._url

    @property
    def capabilities(self) -> Capabilities:
        real = self._store.capabilities
        return Capabilities(real.atomic_create, None, f"with faults: {real.detail}", real.unsafe_allowed, near=True)

    # ------------------------------------------------------------------------------------------------------- reading

    def get(self, key: str) -> bytes:
        self._look(key)
        data = self._store.get(key)
        if _folder(key) == "manifest":
            self._trouble.was_read()
        return data

    def get_range(self, key: str, start: int, end: int) -> bytes:
        self._look(key)
        return self._store.get_range(key, start, end)

    def head(self, key: str) -> ObjectInfo:
        self._look(key)
        return self._store.head(key)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        self._look(prefix)
        if _folder(prefix) == "snapshot" and self._trouble.read_since():
            self._rival(RIVAL_AFTER_READ, prefix)
        return self._store.list(prefix)

    def open_input(self, key: str, size: int | None = None) -> Any:
        self._look(key)
        return self._store.open_input(key, size)

    # ------------------------------------------------------------------------------------------------------- writing

    def put(self, key: str, data: bytes) -> None:
        self._live()
        self._store.put(key, data)

    def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
        self._live()
        if _folder(key) != "snapshot" or not key.rpartition("/")[2].startswith("snapshot-"):  # a hint is not a commit
            return self._store.put_if_absent(key, data)
        self._may_die(KILL_BEFORE, key)
        self._rival(RIVAL_BEFORE_COMMIT, key)
        outcome = self._store.put_if_absent(key, data)
        if isinstance(outcome, Created):
            self._may_die(KILL_AFTER, key)
            if self._trouble.take(LOSE_ANSWER, key):
                self._blind_looks = LOOKS  # as many as the commit machine makes before it gives up
                return Unknown("injected: the answer was lost")
        return outcome

    def delete_many(self, keys: Iterable[str]) -> None:
        self._live()
        self._store.delete_many(keys)

    def open_output(self, key: str) -> Any:
        self._live()
        return self._store.open_output(key)

    # ------------------------------------------------------------------------------------------------------- strikes

    def _live(self) -> None:
        if self._dead:
            raise Killed(f"{self._url}: {self._dead}, earlier; what it opened sends nothing more{_AGAIN}")

    def _look(self, key: str) -> None:
        self._live()
        if self._blind_looks and _folder(key) == "snapshot":
            self._blind_looks -= 1
            raise StoreUnavailable(f"{self._url}: {key}: injected: no answer")

    def _may_die(self, strike: str, key: str) -> None:
        if self._trouble.take(strike, key):
            when = (
                "just before the commit, which did not land"
                if strike == KILL_BEFORE
                else "just after the commit landed"
            )
            self._dead = f"this process was killed on purpose {when}"
            raise Killed(f"{self._url}: {self._dead} ({key}){_AGAIN}")

    def _rival(self, strike: str, key: str) -> None:
        """Let another writer append its rows, through the store without faults."""
        if not self._trouble.take(strike, key):
            return
        import pyarrow.feather

        from ..table.create import open_table

        rows = pyarrow.feather.read_table(self._trouble.rival_rows)
        open_table(self._real_url, storage_options=self._real_options).append(rows)


def _folder(key: str) -> str:
    """The name of the folder of a key or a prefix."""
    return key.rpartition("/")[0].rpartition("/")[2]
