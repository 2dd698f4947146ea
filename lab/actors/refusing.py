"""One object that the store never deletes, in everything that deletes: nothing that is needed goes, and all else goes.

Owns: the scenarios of refused deletions, and `left_behind`, what must hold in the end. Must not know: how they are explored.
Source: H10. Invariant: shipped code expires, cleans, untags and removes branches. Any one object may be the one that stays.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...coordinator.branches.claim import claim_key
from ...core.errors import LakelatchError
from ...core.metadata.snapshot import parse_snapshot
from ..scenarios.scenario import Scenario
from ..scenarios.writers import history
from ..world.reading import newest_schema, view
from ..world.simulated_store import HELD, Objects
from ..world.stage import Stage, file_keys, read_only
from .branching import GIVEN, branch_maker, branch_remover
from .following import follower
from .jobs import Actor, Role, writer
from .maintainers import cleaner, expirer, tagger, untagger

_ONLY_OLD = "bucket-0/data-old1."
_NAMED_BY_ROOTS = ("manifest/", "bucket-", "index/")
_REPLACED = (*history(1), Actor("over", writer(overwrites=True), "overwriter"))
_REPLACED_AND_EXPIRED = (_REPLACED[-1], Actor("gone", expirer(), "expirer"))


def left_behind(objects: Objects, doomed: tuple[str, ...]) -> Iterator[str]:
    """What should be gone by now, apart from the one object that cannot go, and the word that a branch of it is being deleted."""
    held = objects.get(HELD, b"").decode()
    stay = {held, HELD, claim_key("b")} if "branch" in held else {held, HELD}
    needed, named = set[str](), set[str]()
    with read_only(objects) as timeline:
        for key in [key for key in objects if "snapshot/snapshot-" in key or "tag/tag-" in key]:
            try:
                snapshot = parse_snapshot(objects[key], key)
                needed |= view(timeline, snapshot, objects).needs
                entries = timeline.entries(timeline.manifests(snapshot))  # cleaning keeps what is named as deleted, too
                named |= {path for entry in entries for path in file_keys(newest_schema(objects)).data(entry)}
            except LakelatchError:
                if key != held:
                    yield f"{key} is left of what was deleted"
    for key in sorted(objects.keys() - needed - named - stay):
        if key.startswith(_NAMED_BY_ROOTS):
            yield f"{key} is left, though nothing names it"
    for key in sorted(objects.keys() - needed - stay):
        if key.startswith(doomed):
            yield f"{key} was to be deleted, and is left"


def expiring_past_a_refusal() -> Scenario:
    return _past_a_refusal("expiring", Actor("X", expirer(), "expirer"), _REPLACED, ("snapshot/snapshot-1", _ONLY_OLD))


def cleaning_past_a_refusal() -> Scenario:
    orphans = tuple((key, b"an orphan") for key in ("bucket-0/data-old-0", "manifest/manifest-old-0"))
    sweep = Actor("O", cleaner(lambda key: "old" in key), "cleaner")
    return _past_a_refusal("cleaning", sweep, history(1), ("bucket-0/data-old-", "manifest/manifest-old-"), orphans)


def untagging_past_a_refusal() -> Scenario:
    before = (*history(1), Actor("first", tagger("eod", 1), "tagger"), *_REPLACED_AND_EXPIRED)
    return _past_a_refusal("untagging", Actor("D", untagger("eod"), "untagger"), before, ("tag/", _ONLY_OLD))


def unbranching_past_a_refusal() -> Scenario:
    before = (*history(1), Actor("first", branch_maker(1), "brancher"), *_REPLACED_AND_EXPIRED)
    cut = Actor("D", _all(branch_remover(), cleaner(_made_before)), "unbrancher")
    return _past_a_refusal("unbranching", cut, before, ("branch/",), GIVEN)


def _all(*roles: Role) -> Role:
    def role(stage: Stage) -> None:
        for one in roles:
            one(stage)

    return role


def _made_before(key: str) -> bool:
    """Names hold the number of who made them; those who played before have numbers from 100 on."""
    return "-0000006" in key or "old" in key or "over" in key


def _past_a_refusal(
    what: str,
    deletes: Actor,
    before: tuple[Actor, ...],
    doomed: tuple[str, ...],
    given: tuple[tuple[str, bytes], ...] = (),
) -> Scenario:
    actors = (Actor("A", writer()), Actor("F", follower(2), "follower"), deletes)
    name = f"{what} past a refusal"
    return Scenario(name, actors, 1, before=before, faults=frozenset(), given=given, doomed=doomed)


REFUSALS = (
    expiring_past_a_refusal(),
    cleaning_past_a_refusal(),
    untagging_past_a_refusal(),
    unbranching_past_a_refusal(),
)
