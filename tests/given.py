"""What lies outside of the checkout, for those who have it: all golden tables, and the tools of Apache Paimon.

Owns: the only way for a test out of the checkout. Must not know: who looks at what lies there.
A test looks there only where an environment variable names the folder, as `make given` has it. So a run says the same on every
machine, whatever lies beside its checkout. `Fence` turns away Python's own reads of what does.
"""

from __future__ import annotations

import os
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

FOLDERS = {"golden": "LAKELATCH_GOLDEN", "tools": "LAKELATCH_TOOLS"}
"""What can be given, and the variable that names its folder."""
READS = ("open", "os.listdir", "os.scandir")


def given(what: str) -> Path | None:
    """The folder of what was given, by a name of `FOLDERS`; None without it."""
    named = os.environ.get(FOLDERS[what])
    return Path(named) if named else None


class Fence:
    """Refuses Python's reads of what lies beside a checkout, unless it was given or belongs to the machine.

    Args:
        checkout: the checkout; what lies beside it is what its parent holds by now.
        of_the_machine: folders that tests may read on any machine, such as those of Python.
    """

    def __init__(self, checkout: Path, of_the_machine: list[Path]) -> None:
        folders = [*of_the_machine, *filter(None, map(given, FOLDERS))]
        inside = f"{checkout}{os.sep}"
        found = {
            f"{place(folder).rstrip(os.sep)}{os.sep}"
            for folder in folders
            for place in (os.path.abspath, os.path.realpath)
        }
        self._free = tuple(folder for folder in found if not inside.startswith(folder))
        others = [f"{checkout.parent / name}{os.sep}" for name in os.listdir(checkout.parent) if name != checkout.name]
        public = (os.sep, tempfile.gettempdir(), os.path.expanduser("~"))
        self._beside = () if str(checkout.parent) in public else tuple(others)

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event not in READS or not arguments or not isinstance(arguments[0], str | bytes):
            return
        path = os.path.abspath(os.fsdecode(arguments[0]))
        if self.guards(path):
            raise AssertionError(  # no OSError, which Path.glob takes for an empty folder
                f"a test reads {path}, which lies outside of the checkout: pack what it needs, or take it from tests/given.py"
            )

    def guards(self, path: str) -> bool:
        """Whether this absolute path lies beside the checkout."""
        folder = f"{path}{os.sep}"
        return folder.startswith(self._beside) and not folder.startswith(self._free)


def of_this_machine() -> list[Path]:
    named = [os.environ.get("LAKELATCH_CACHE"), os.environ.get("JAVA_HOME"), tempfile.gettempdir(), *sys.path]
    named += [sys.prefix, sys.base_prefix, os.path.expanduser("~/.cache"), *sysconfig.get_paths().values()]
    return [Path(each) for each in named if each and os.path.isabs(each)]
