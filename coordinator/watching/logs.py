"""Commits as log records.

Owns: `Logged`. Must not know: the steps of a commit.

Logger `lakelatch.commit` uses INFO for the end of a commit and for the reason of each repeated step, and DEBUG for every other
event. Logger `lakelatch.request` writes one DEBUG record per request to the store. Each record has an attribute `lakelatch`, a
dict that can be written as JSON. Records never contain option values, file contents or rows, and so no credentials (H19).
"""

from __future__ import annotations

import logging
from dataclasses import asdict

from ...backends.around.metered import StoreRequest
from ...core.errors import OutcomeUnknown
from ..protocol.events import Event, event_json
from ..protocol.machine import CommitState
from .watcher import TROUBLE, About, Ended

COMMIT_LOG = logging.getLogger("lakelatch.commit")
REQUEST_LOG = logging.getLogger("lakelatch.request")
for _log in (COMMIT_LOG, REQUEST_LOG):
    _log.addHandler(logging.NullHandler())  # otherwise Python prints warnings by default


def somebody_reads() -> bool:
    return COMMIT_LOG.isEnabledFor(logging.INFO) or REQUEST_LOG.isEnabledFor(logging.DEBUG)


class Logged:
    """The dict of each record begins with the fields of `About`. Its key `at` names the subject of the record: the event's
    class, `StoreRequest` or `Ended`, whose fields follow. The snapshot's bytes in `SnapshotPrepared` are left out.
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
