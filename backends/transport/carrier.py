"""Which client carries the requests of a store: obstore, or the one of fsspec.

Owns: `ChoosesTransport`, the part of `FsspecStore` that decides. Must not know: any particular store, tables.
Invariants: a choice holds for one process, and is made when the first request is sent. `transport="obstore"` is refused where
obstore is missing or cannot express an option, and `transport="fsspec"` never loads it. Source: decision 70.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

from ...core.errors import InvalidArgument, Unsupported
from ..requests.answers import facts_of
from ..requests.renewal import Lease, lease_of, renewed
from ..requests.threads import this_process
from ..storage_options import StorageOptions
from .choice import NotExpressed, ObstoreRequests, Refused, Transport, require_obstore, shared

ELSEWHERE = frozenset({"PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException"})
"""Codes of S3 for a request that was signed for another region than the bucket's. It did nothing."""


class ChoosesTransport:
    _wanted: str
    _given: StorageOptions
    _carrier: tuple[object, ObstoreRequests | None, Transport, Lease | None] | None
    _connection: tuple[object, Any, Lease] | None
    carriers: Mapping[str, tuple[str, str]] = {}

    def _obstore(self) -> Callable[[], ObstoreRequests]:
        raise NotExpressed("lakelatch uses no other client for this kind of store")

    @property
    def transport(self) -> Transport:
        return self._carried()[1]

    def _carried(self) -> tuple[ObstoreRequests | None, Transport, Lease | None]:
        """obstore's requests for this process, and what they were made with; or None if fsspec carries them."""
        held, process = self._carrier, this_process()
        if held is None or held[0] != process:
            held = self._carrier = (process, *self._chosen())
        return held[1:]

    def _chosen(self) -> tuple[ObstoreRequests | None, Transport, Lease | None]:
        if self._wanted == "fsspec":
            return None, Transport("fsspec", "storage option transport is fsspec"), None
        lease = self._leased()  # before the options are read, which may hold what was renewed meanwhile
        try:
            make = self._obstore()
            require_obstore()
        except NotExpressed as error:
            return None, Transport("fsspec", str(error)), None
        except Unsupported as error:
            return None, Transport("fsspec", "obstore is not installed", error.next_step), None
        kind, patience = type(self), getattr(self, "_patience", None)
        identity = f"{kind.__module__}.{kind.__qualname__} {patience} {sorted(dict(self._given).items(), key=repr)!r}"
        told = Transport("obstore", "it is installed and can express the storage options")
        return shared(f"{lease.number} {identity}", make), told, lease

    def _leased(self) -> Lease:
        return lease_of(self._kept_for, self._given)

    @property
    def _kept_for(self) -> str:
        return f"{type(self).__module__}.{type(self).__qualname__} {sorted(dict(self._given).items(), key=repr)!r}"

    def _is_renewed(self, used: Lease, error: Exception) -> bool:
        """After an error: was it a refusal of credentials that may be others by now? Then the clients are made anew."""
        if not renewed(self._kept_for, used, self._given, facts_of(error, self.carriers)):
            return False
        self._connection = self._carrier = None
        return True

    def _insist(self) -> None:
        """Raise if obstore is missing or cannot express the options. The child of a fork uses fsspec all the same."""
        try:
            self._obstore()
        except NotExpressed as error:
            raise InvalidArgument(
                f"storage option 'transport' is 'obstore', but {error}",
                next_step="leave transport out, or set it to fsspec",
            ) from None
        with contextlib.suppress(NotExpressed):
            require_obstore()

    def _through(self, fast: ObstoreRequests, seconds: float, name: str, *args: Any) -> Any:
        """One request through obstore. Raises `NotExpressed` if fsspec is to do it."""
        try:
            return fast.run(seconds, name, *args)
        except Refused as refused:
            if name == "_stat" and refused.status == 400:
                raise NotExpressed("the reason of a refusal without a body, which fsspec's client finds") from None
            if refused.code not in ELSEWHERE:
                raise
            # fsspec's client finds the region of a bucket, and is used from now on.
            told = Transport("fsspec", f"the bucket is in another region than the options say ({refused})")
            self._carrier = (this_process(), None, told, None)
            raise NotExpressed(told.reason) from None
