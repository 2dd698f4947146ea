"""Commits as log records.

Owns: `Logged`. Must not know: what a commit does next.

Logger `lakelatch.commit`: INFO for how a commit ended and for what made it try again, DEBUG for every other event;
`lakelatch.request`: DEBUG, one record per request to the store. Each record has an attribute `lakelatch`: a dict that can be
written as JSON. No option's value, no bytes of a file and no row is ever told, so no credentials are (H19).
"""

from __future__ import annotations

import logging
from dataclasses import asdict

from ...backends.metered import StoreRequest
from ...core.errors import OutcomeUnknown
from ..protocol.events import Event, event_json
from ..protocol.machine import CommitState
from .watcher import TROUBLE, About, Ended

COMMIT_LOG = logging.getLogger("lakelatch.commit")
REQUEST_LOG = logging.getLogger("lakelatch.request")
for _log in (COMMIT_LOG, REQUEST_LOG):
    _log.addHandler(logging.NullHandler())  # else Python prints what nobody asked for


def somebody_reads() -> bool:
    """Is there a level at which anything would be written?"""
    return COMMIT_LOG.isEnabledFor(logging.INFO) or REQUEST_LOG.isEnabledFor(logging.DEBUG)


class Logged:
    """Writes log records.

    The dict of each begins with the fields of `About` and `at`, what the record is about: the event's class, `StoreRequest`
    or `Ended`; the fields of that follow. A snapshot's bytes, which `SnapshotPrepared` has, are left out.
    """

    def __init__(self, about: About) -> None:
        self._head = asdict(about)
        self._who = f"{about.doing} {about.commit[:8]} of {about.table}"

    def happened(self, event: Event, state: CommitState) -> None:
        level = logging.INFO if isinstance(event, TROUBLE) else logging.DEBUG
        if COMMIT_LOG.isEnabledFor(level):
            fields = event_json(event)
            name = fields.pop("event")
            fields.pop("text", None)
            told = {**self._head, "at": name, "phase": state.phase.value, "attempt": state.attempt, **fields}
            said = " ".join(f"{key}={value}" for key, value in fields.items())
            COMMIT_LOG.log(level, "%s: %s %s", self._who, name, said, extra={"lakelatch": told})

    def requested(self, request: StoreRequest) -> None:
        if REQUEST_LOG.isEnabledFor(logging.DEBUG):
            told = {**self._head, "at": "StoreRequest", **asdict(request)}
            what = f"{request.operation} {request.key}: {request.outcome}"
            REQUEST_LOG.debug("%s: %s in %.1f ms", self._who, what, request.seconds * 1000, extra={"lakelatch": told})

    def ended(self, how: Ended) -> None:
        level = logging.WARNING if how.outcome == OutcomeUnknown.code else logging.INFO
        told = {**self._head, "at": "Ended", **asdict(how)}
        where = "" if how.snapshot_id is None else f", snapshot {how.snapshot_id}"
        why = f": {how.reason}" if how.reason else ""
        tries = "1 attempt" if how.attempts == 1 else f"{how.attempts} attempts"
        said = f"{how.outcome}{where} after {tries} in {how.seconds * 1000:.0f} ms{why}"
        COMMIT_LOG.log(level, "%s: %s", self._who, said, extra={"lakelatch": told})
