"""Carries out the effects of one commit on a store.

Owns: `CommitRun`, which maps each effect of the machine to store requests and their result to an event. Must not know: the order
of effects (the machine), threads and time budgets (the driver).
Invariant: an effect returns exactly one event, also when the store fails.
"""

from __future__ import annotations

from .collecting import Collecting
from .publishing import Publishing
from .uploading import Uploading


class CommitRun(Collecting, Uploading, Publishing):
    """All steps of one commit (see `RunState` for its attributes)."""
