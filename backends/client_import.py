"""Imports the client library of a store, which takes tenths of a second, so that Ctrl-C is not lost meanwhile.

Owns: `import_client`. Must not know: which stores there are, what their clients do.
Invariant (H23): an interrupt that arrives during the import is raised in the caller, after the import.
"""

from __future__ import annotations

import importlib
import sys
import threading
from typing import Any

from .requests.threads import LAST_SECONDS, Threads

_THREAD = Threads(1, "lakelatch-import", is_awaited=False)


def import_client(name: str) -> Any:
    """The module of this name, imported if it was not yet. Raises ImportError.

    Modules may drop an interrupt that arrives while they are imported. `xml.etree`, which most clients need, takes it
    for a missing accelerator, and a program that somebody wants to stop would go on. Python raises interrupts in the
    main thread only, so that thread lets another one import. If it is interrupted, it waits for the import: were the
    interpreter to end meanwhile, it would forget that it was interrupted.

    >>> import_client("json.decoder").__name__
    'json.decoder'
    """
    if name not in sys.modules and threading.current_thread() is threading.main_thread():
        _import_beside(name)
    return importlib.import_module(name)


def _import_beside(name: str) -> None:
    is_over = threading.Event()

    def load() -> None:
        try:
            importlib.import_module(name)
        finally:
            is_over.set()

    try:
        _THREAD.submit(load).result()
    finally:
        is_over.wait(LAST_SECONDS)  # not for the future: an interrupt may have come while it was made
