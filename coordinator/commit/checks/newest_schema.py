"""Whether the table has a newer schema than the one that the rows of a commit were written with.

Owns: `NewestSchema`. Must not know: when it is looked for, what is done with the rows. Source: decision 29.
Invariants: the look begins after the commit, so a schema that was reported before the commit is seen. It is made once.
"""

from __future__ import annotations

from ...history.timeline import Timeline
from .conflicts import Conflict


class NewestSchema:
    """What one commit knows of newer schemas. `matters`: the rows can be written again, so a newer schema is a conflict."""

    def __init__(self, matters: bool, written_with: int, timeline: Timeline) -> None:
        self._matters = matters
        self._written_with = written_with
        self._timeline = timeline
        self._seen: int | None = None

    @property
    def is_due(self) -> bool:
        """Whether it has to be looked for before the commit is published."""
        return self._matters and self._seen is None

    def look(self) -> None:
        """Ask for the name of the next schema. Raises LakelatchError if the store did not answer."""
        self.saw(self._timeline.newest_schema_id(self._written_with))

    def saw(self, newest_id: int) -> None:
        self._seen = newest_id

    @property
    def conflict(self) -> Conflict | None:
        if not self._matters or self._seen is None or self._seen <= self._written_with:
            return None
        reason = f"its rows were written with schema {self._written_with}, and the table has schema {self._seen} by now"
        return Conflict("newer_schema", f"{reason}: open the table again and write the rows again")
