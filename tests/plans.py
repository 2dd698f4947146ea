"""What Spark is going to do for a frame."""

from __future__ import annotations

import contextlib
import io
from typing import Any


def plan_of(df: Any) -> str:
    """The physical plan as text, from classic sessions and from Spark Connect."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        df.explain()
    return out.getvalue()
