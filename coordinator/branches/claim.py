"""The file by which a branch's name is taken, and the creation of single files.

Owns: `Claim`, its file, `claim_of`; `Answer` and `create`. Must not know: what is copied into a branch.
Invariants: the name of a branch belongs to whoever creates its claim, with one atomic create (decision 55). The claim is the
first file of a branch and the last one that goes. Its content says what the branch is made from, so that a creation that was cut
off can be finished, and so that it is known later where the branch began.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from enum import Enum

from ...backends.store import AlreadyThere, Created, ObjectNotFound, Store
from ...core.errors import OutcomeUnknown, StoreUnavailable, TableCorrupt
from ...core.json_text import parse_json
from ..surroundings import MACHINE, Surroundings, backoff_s
from .names import branch_root

_SENDS = 4


class Answer(Enum):
    CREATED = "created"
    SAME = "the name held the same bytes"
    OTHER = "the name holds other bytes"


@dataclass(frozen=True)
class Claim:
    """What a branch is made from.

    Attributes:
        maker: identifies the call that made the claim.
        snapshot, identity: of the snapshot that it begins with; None for none.
        tag: the tag that was given, which the branch gets too.
        schema: the newest schema that is copied.
        renamed: the earlier name of a branch that is being renamed.
        time_ms: by the maker's clock, in milliseconds since 1970.
    """

    maker: str
    source: str
    snapshot: int | None
    identity: str | None
    tag: str | None
    schema: int
    time_ms: int
    renamed: str | None = None
    deleted: bool = False

    def same_work(self, other: Claim) -> bool:
        return replace(self, maker="", time_ms=0, schema=0) == replace(other, maker="", time_ms=0, schema=0)

    def to_json(self) -> bytes:
        return json.dumps({"version": 1, **asdict(self)}, indent=2, ensure_ascii=False).encode()


def claim_key(branch: str) -> str:
    """Apache Paimon does not look into this folder.

    >>> claim_key("dev")
    'branch/branch-dev/lakelatch/origin'
    """
    return f"{branch_root(branch)}lakelatch/origin"


def claim_of(store: Store, branch: str) -> Claim | None:
    """None for a branch that Apache Paimon made, or for none. Raises TableCorrupt if the file is damaged."""
    key = claim_key(branch)
    try:
        raw = parse_json(store.get(key))
    except ObjectNotFound:
        return None
    except ValueError as error:
        raise TableCorrupt(
            f"{key} is not JSON: {error}", next_step="it may be deleted: the branch works without"
        ) from error
    try:
        raw.pop("version", None)
        return Claim(**raw)
    except (TypeError, AttributeError) as error:
        raise TableCorrupt(
            f"{key} does not say what the branch was made from: {error}",
            next_step="it may be deleted: the branch works without",
        ) from error


def create(store: Store, key: str, data: bytes, around: Surroundings = MACHINE) -> Answer:
    """Create a file, and find out what the name holds if the store did not say.

    Raises:
        StoreUnavailable: the store refused; nothing was created.
        OutcomeUnknown: the store does not say whether the file was created. The whole operation can be run again.
    """
    unanswered = False
    for sends in range(_SENDS):
        if sends:
            around.sleep(backoff_s(sends))
        try:
            answer = store.put_if_absent(key, data)
            if isinstance(answer, Created):
                return Answer.CREATED
            unanswered = unanswered or not isinstance(answer, AlreadyThere) or answer.earlier_send
            held = store.get(key)
        except ObjectNotFound:  # it may still arrive, or was deleted again
            continue
        except StoreUnavailable:  # it proves that this request was not applied, but nothing about an earlier one
            if unanswered:
                continue
            raise
        if held != data:
            return Answer.OTHER
        return Answer.CREATED if unanswered else Answer.SAME
    raise OutcomeUnknown(
        f"it is not known whether {key} was created in {store.url}",
        identity={"file": key},
        next_step="run the same call again: it finishes what was begun",
    )
