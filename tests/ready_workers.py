"""Spark sessions whose Python workers start quickly: the folders that make them so.

Owns: those folders, and the path on which a session's Java finds them. Must not know: sessions.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_HERE = Path(__file__).parent


def environment() -> dict[str, str]:
    """What a program needs in its environment that starts a session and chooses no daemon for tasks itself."""
    return {"SPARK_CONF_DIR": str(_HERE / "spark_conf"), "PYTHONPATH": _path()}


@contextmanager
def on_the_path() -> Iterator[None]:
    """A session that starts within this has them, and no process that is started after it."""
    before = os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = _path()
    try:
        yield
    finally:
        os.environ["PYTHONPATH"] = before


def _path() -> str:
    return os.pathsep.join([str(_HERE / "spark_workers"), os.environ.get("PYTHONPATH", "")])
