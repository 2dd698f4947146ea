"""Which journal a command uses.

Owns: the environment variable, the default path, and their order. Must not know: the content of a journal.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ...backends.files.user_folders import user_folder

JOURNAL = "LAKELATCH_JOURNAL"


def default_journal() -> Path:
    return user_folder("XDG_STATE_HOME", ".local/state") / "lakelatch" / "journal.jsonl"


def journal_lines(argument: str | None) -> list[Any]:
    """None where there is no such file. Raises InvalidArgument if it was named and does not exist."""
    from ...coordinator.journal.file_journal import FileJournal
    from ...core.errors import InvalidArgument

    path = journal_path(argument)
    if path.is_file():
        return list(FileJournal(path).lines())
    if argument is not None:
        raise InvalidArgument(f"there is no journal {path}")
    return []


def journal_path(argument: str | None) -> Path:
    """The journal that `write` uses and `explain` reads, unless the table names one."""
    return Path(argument or os.environ.get(JOURNAL) or default_journal())
