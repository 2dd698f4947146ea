"""Which journal a command uses.

Owns: the environment variable, the default path, and their order.
Must not know: the content of a journal.
"""

from __future__ import annotations

import os
from pathlib import Path

JOURNAL = "LAKELATCH_JOURNAL"
"""The environment variable that names a journal for every command."""


def default_journal() -> Path:
    """Where `write` keeps its journal by default: in the user's state folder."""
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(state) / "lakelatch" / "journal.jsonl"


def journal_path(argument: str | None) -> Path:
    """The journal that `write` uses and `explain` reads, unless the table names one."""
    return Path(argument or os.environ.get(JOURNAL) or default_journal())
