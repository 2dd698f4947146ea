"""Which requests of one actor commute with everything that any other actor may still do.

Owns: `Independence`. Must not know: schedules, guarantees, what actors do. Invariant: the reply to an independent request is
the same now and at any later time, and no other actor's reply depends on it. So it is played at once, and no story is lost: one
in which it comes later has the same replies, and ends in the same state. Faults still strike it, and what it leaves is judged.
"""

from __future__ import annotations

from ...coordinator.journal.object_journal import FOLDER
from ...core import options as opt
from ..scenarios.scenario import Scenario
from ..world.simulated_store import Objects, Request

_TAGGED = ("tag/", "changelog/", "branch/", "consumer/")
"""Roots that no actor makes, except the tag of a rollback."""
CHECKPOINTS = "checkpoint/"
COPIES = "copy/"
EARLIEST = "snapshot/EARLIEST"
_OWN = ("manifest/", "bucket-", "index/")
"""Files with names that only one actor gives."""
_LISTS = "manifest/manifest-list-"
_COMMITS_ONLY = frozenset(
    {"writer", "overwriter", "deleter", "merger", "compactor", "recoverer", "restorer", "stream", "cloner"}
)


class Independence:
    """The independent requests of one scenario.

    Attributes:
        snapshots_stay: nobody removes a snapshot, or writes over one, or over EARLIEST. Then what exists can be read
            with the same reply at any time, and its name is refused at any time. A writer's deletion of its own files
            is independent too: another actor misses them only if a snapshot needs them, and then they are missing in
            all later states. By default the kinds of the actors decide.
        mistaken: all snapshots were to stay, but an actor removed one, or wrote other bytes over one or over another file.
    """

    def __init__(self, scenario: Scenario, *, snapshots_stay: bool | None = None) -> None:
        self._scenario = scenario
        self._deleters = scenario.has("expirer", "cleaner", "dropper", "untagger")
        self._schemas_matter = scenario.has("alterer", "dropper")
        self._tags_matter = scenario.has("restorer", "tagger", "consumer", "stream")
        self._branches_matter = scenario.has("brancher", "unbrancher")
        self._copies_matter = sum(actor.kind == "cloner" for actor in scenario.actors) > 1
        self._hints_matter = scenario.hints or scenario.has("foreign", "locked", "rollback")
        only = {actor.kind for actor in scenario.actors} <= _COMMITS_ONLY
        self.snapshots_stay = only if snapshots_stay is None else snapshots_stay
        self.mistaken = False
        schema = scenario.schema
        rides = schema is not None and schema.options.get(opt.COMMIT_GROUP) == opt.GROUP_AUTO
        # riders and recoveries use the files of another actor before a snapshot names them; riders use no lists of manifests
        self._lists_owned = not scenario.has("recoverer")
        self._owned = not rides and self._lists_owned

    def holds(self, request: Request | None, index: int, objects: Objects) -> bool:
        """Whether a request concerns its own actor only, and the actor cannot sleep before it."""
        if request is None or request.operation == "drop":
            return False
        label, awaited = self._scenario.actors[index].holds
        if awaited and request.label.startswith(label):
            return False
        key = request.key or (request.keys[0] if request.keys else "")
        if key.startswith("schema/"):
            return not self._schemas_matter
        if key.startswith("branch/") and self._branches_matter:
            return False
        if key.startswith(CHECKPOINTS):
            return True
        if key.startswith(COPIES):
            return not self._copies_matter
        if key.startswith(_TAGGED):
            return not self._tags_matter
        if key == "snapshot/LATEST" and not self._hints_matter:
            return True
        if key.startswith("snapshot/snapshot-"):
            return self.snapshots_stay and request.operation in ("read", "create") and key in objects
        if key == EARLIEST:
            return self.snapshots_stay and request.operation == "read" and key in objects
        if key.startswith(("snapshot/", FOLDER)):
            return False
        if request.operation == "delete":
            owned = self._owned or (self._lists_owned and all(k.startswith(_LISTS) for k in request.keys))
            return self.snapshots_stay and owned and not _shared(request)
        if request.operation == "read":
            return not self._deleters and key in objects
        return request.operation == "write"

    def left(self, in_flight: tuple[Request, ...], objects: Objects) -> tuple[Request, ...]:
        """The requests in flight that can still do something. A create of a snapshot that exists and stays can do nothing, nor
        a write of a file of its writer's own that holds these bytes, as no other bytes are ever written under its name.
        """
        return tuple(request for request in in_flight if not self._is_void(request, objects))

    def _is_void(self, request: Request, objects: Objects) -> bool:
        if not self.snapshots_stay or request.key not in objects:
            return False
        if request.operation == "create":
            return request.key.startswith("snapshot/snapshot-")
        own = self._owned and request.key.startswith(_OWN)
        return own and request.operation == "write" and objects[request.key] == request.data

    def checked(self, request: Request, before: Objects, after: Objects) -> None:
        """Note whether a request did what nobody was to do."""
        if self.snapshots_stay and before is not after:
            for key in request.keys or (request.key,):
                if key in before and _stays(key, request) and before[key] != after.get(key):
                    self.mistaken = True


def _stays(key: str, request: Request) -> bool:
    return (
        key == EARLIEST
        or key.startswith("snapshot/snapshot-")
        or (request.operation == "write" and key.startswith(_OWN))
    )


def _shared(request: Request) -> bool:
    return any(key.startswith(("snapshot/", "schema/", "lakelatch/", *_TAGGED)) for key in request.keys)
