"""A tag file: a snapshot under a name, and for how long the name is to be kept.

Owns: `Tag`, reading and writing its file, the checks of names. Must not know: stores, when a tag is made or deleted.
Source: format/snapshot §5; H16.
Invariant: without a retention the file is the snapshot's own, because readers before 0.8 do not know the two fields of a tag.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from typing import Any

from ..errors import InvalidArgument, TableCorrupt
from ..json_text import parse_json
from ..paths import new_name
from .snapshot import Snapshot, parse_snapshot

SUCCESS_FOLDER = "success-file"
"""`tag-success-file` in the folder of the tags is a folder, so no tag may have this name."""
SUCCESS_SUFFIX = "_SUCCESS"
_CREATED, _RETAINED = "tagCreateTime", "tagTimeRetained"


@dataclass(frozen=True)
class Tag:
    """A name for a snapshot, which keeps the snapshot's files after the snapshot has expired.

    Attributes:
        created: when the tag was made, by the clock on the wall of whoever made it; None where no retention was given.
        retained_ms: for how long the tag is kept after that, in milliseconds; None = until it is deleted.
    """

    name: str
    snapshot: Snapshot
    created: datetime | None = None
    retained_ms: int | None = None

    def __str__(self) -> str:
        kept = "" if self.retained_ms is None else f", kept for {_span(self.retained_ms)}"
        return f"tag {self.name}: snapshot {self.snapshot.id} with {self.snapshot.total_record_count} rows{kept}"

    def to_dict(self) -> dict[str, Any]:
        """The tag with stable keys, ready for JSON."""
        return {
            "tag": self.name,
            "snapshot": self.snapshot.id,
            "schema": self.snapshot.schema_id,
            "time_ms": self.snapshot.time_ms,
            "record_count": self.snapshot.total_record_count,
            "created": None if self.created is None else self.created.isoformat(),
            "retained_ms": self.retained_ms,
        }

    def to_json(self) -> bytes:
        """The tag file's bytes.

        >>> snapshot = Snapshot(1, 0, "b", "d", "me", 7, "APPEND", 0, 1, 1)
        >>> made = Tag("eod", snapshot, datetime(2026, 1, 2, 3, 4), 5_000).to_json().decode()
        >>> made.splitlines()[-3:]
        ['  "tagCreateTime": [2026, 1, 2, 3, 4],', '  "tagTimeRetained": 5.000000000', '}']
        """
        data = self.snapshot.to_json()
        if self.created is None or self.retained_ms is None:
            return data
        at, seconds = self.created, Decimal(self.retained_ms).scaleb(-3)
        parts = [at.year, at.month, at.day, at.hour, at.minute]
        if at.second or at.microsecond:
            parts.append(at.second)
        if at.microsecond:
            parts.append(at.microsecond * 1_000)
        more = f',\n  "{_CREATED}": {parts},\n  "{_RETAINED}": {seconds:.9f}\n}}'
        return data.removesuffix(b"\n}") + more.encode()


def parse_tag(data: bytes, name: str, where: str) -> Tag:
    """A tag, whose name only the file's own name tells. Raises TableCorrupt, which names the file and the field."""
    snapshot, raw = parse_snapshot(data, where), parse_json(data)
    created, retained = raw.get(_CREATED), raw.get(_RETAINED)
    return Tag(
        name,
        snapshot,
        None if created is None else _time(created, where),
        None if retained is None else _millis(retained, where),
    )


def _span(millis: int) -> str:
    """A duration for people; a tag may be kept for longer than Python's own durations reach.

    >>> _span(7_200_000), _span(10**30)
    ('2:00:00', '11574074074074074074074 days')
    """
    try:
        return str(timedelta(milliseconds=millis))
    except OverflowError:
        return f"{millis // 86_400_000} days"


def _time(value: Any, where: str) -> datetime:
    try:
        if isinstance(value, str):
            return datetime.fromisoformat(value)
        year, month, day, hour, minute, second, nanos = [*value, 0, 0][:7]
        found = datetime(year, month, day, hour, minute, second, nanos // 1_000, timezone.utc)
        return found.replace(tzinfo=None)
    except (TypeError, ValueError) as error:
        raise TableCorrupt(f"{where}: field '{_CREATED}' is {value!r}, not a time: {error}") from error


def _millis(value: Any, where: str) -> int:
    """Seconds as milliseconds, rounded up."""
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)) or value < 0:
        raise TableCorrupt(f"{where}: field '{_RETAINED}' is {value!r}, not a number of seconds")
    return math.ceil(Fraction(str(value)) * 1_000)


def check_tag_name(name: str) -> str:
    """Check the name of a new tag, and return it. Raises InvalidArgument where it is empty, is too long, would leave
    the folder of the tags, or has invisible characters.

    >>> check_tag_name("2026-01-01 05")
    '2026-01-01 05'
    """
    if not isinstance(name, str):
        raise InvalidArgument(f"{name!r} is not the name of a tag", next_step="give a text")
    new_name(name, "tag")
    if name == SUCCESS_FOLDER:
        raise InvalidArgument(f"tag {name!r} would be where success files are", next_step="use another name")
    return name


def check_chosen_tag_name(name: str) -> str:
    """Check a name that somebody chose for a new tag, and return it. `VERSION AS OF 3` is a snapshot, so no tag is called `3`.

    Automatic tags of a day without dashes have such names, as Apache Paimon gives them; `tag=` reads them.

    >>> check_chosen_tag_name("v3")
    'v3'
    """
    if check_tag_name(name).isdigit():
        raise InvalidArgument(
            f"tag {name!r} has the name of a snapshot: VERSION AS OF {name} means the snapshot",
            next_step=f"choose another name, such as 'v{name}'",
        )
    return name
