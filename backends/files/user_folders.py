"""The folders in which a user's programs keep what is theirs.

Owns: where they are, also for a user without a home. Must not know: what is kept there. Source: XDG Base Directory Specification.
"""

from __future__ import annotations

import os
from pathlib import Path


def user_folder(variable: str, below_home: str) -> Path:
    """The folder that a variable of the environment names, else one in the user's home.

    >>> os.environ["LAKELATCH_DOCTEST"] = "/srv/state"
    >>> user_folder("LAKELATCH_DOCTEST", ".local/state").as_posix()
    '/srv/state'
    """
    named = os.environ.get(variable)
    if named:
        return Path(named)
    try:
        return Path.home() / below_home
    except RuntimeError:  # a container gives its processes a user id that has no entry anywhere: their home is /
        return Path("/") / below_home
