"""The options of the data source that only streams have.

Owns: `StreamOptions`. Must not know: reading, writing. Invariant: an option that does not go with what is done is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...core.errors import InvalidArgument
from ...core.options import parse_duration_ms, parse_size
from ...table.following.ranges import Limits, positive

CHECKPOINT = "checkpointlocation"
READING = {
    "from": "from",
    "full": "full",
    "consumer": "consumer",
    "row-kinds": "row-kinds",
    "deletes": "deletes",
    "changes-mode": "changes-mode",
    "poll": "poll",
    "maxsnapshotspertrigger": "maxSnapshotsPerTrigger",
    "maxfilespertrigger": "maxFilesPerTrigger",
    "maxbytespertrigger": "maxBytesPerTrigger",
    "maxrowspertrigger": "maxRowsPerTrigger",
}
"""The options of streams that read, as Spark passes them and as users write them."""


@dataclass(frozen=True)
class StreamOptions:
    """What a stream reads.

    Attributes:
        given: the options that were given, as users write them.
        start, full, consumer, mode: as for `Table.follow`.
        row_kinds: the columns that describe a change follow those of the rows.
        ignores_deletes: rows that go are left out, instead of being an error, where the rows have no kinds.
        poll_s: seconds between two looks for a new snapshot.
    """

    given: tuple[str, ...]
    start: int | str
    full: bool
    consumer: str | None
    mode: Any
    row_kinds: bool
    ignores_deletes: bool
    limits: Limits
    poll_s: float = 1.0

    @classmethod
    def of(cls, given: Mapping[str, str]) -> StreamOptions:
        """From options in lower case. `InvalidArgument`: a value has no meaning."""
        start = given.get("from", "latest").strip()
        consumer = given.get("consumer")
        full = _flag(given, "full", default="from" not in given and consumer is None)
        deletes = given.get("deletes", "fail").lower()
        if deletes not in ("fail", "ignore"):
            raise InvalidArgument(f"option 'deletes' is {deletes!r}", next_step="use fail or ignore")
        mode = given.get("changes-mode", "auto").lower()
        if mode not in ("auto", "delta", "changelog"):
            raise InvalidArgument(f"option 'changes-mode' is {mode!r}", next_step="use auto, delta or changelog")
        return cls(
            tuple(name for key, name in READING.items() if key in given),
            int(start) if start.isdecimal() else start,
            full,
            consumer,
            mode,
            _flag(given, "row-kinds", default=False),
            deletes == "ignore",
            Limits(
                snapshots=_number(given, "maxsnapshotspertrigger"),
                files=_number(given, "maxfilespertrigger"),
                size=_number(given, "maxbytespertrigger", parse_size),
                rows=_number(given, "maxrowspertrigger"),
            ),
            _poll_s(given.get("poll", "1 s")),
        )

    def check_none(self, what: str) -> None:
        if self.given:
            raise InvalidArgument(f"option '{self.given[0]}' goes with readStream only, not with {what}")


def _flag(given: Mapping[str, str], name: str, default: bool) -> bool:
    text = given.get(name, str(default)).lower()
    if text not in ("true", "false"):
        raise InvalidArgument(f"option '{name}' is {text!r}", next_step="use true or false")
    return text == "true"


def _poll_s(text: str) -> float:
    try:
        return positive("poll", parse_duration_ms(text)) / 1000
    except ValueError:
        raise InvalidArgument(f"option 'poll' is {text!r}", next_step="use a time such as 500 ms or 1 s") from None


def _number(given: Mapping[str, str], key: str, parse: Any = int) -> int | None:
    text = given.get(key)
    if text is None:
        return None
    try:
        return positive(READING[key], parse(text))
    except ValueError:
        raise InvalidArgument(f"option '{READING[key]}' is {text!r}, which is not a number") from None
