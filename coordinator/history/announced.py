"""What an expiry has announced: the id below which snapshots are going, or gone.

Owns: `expires_below`. Must not know: who asks. Source: decision 10; H7, H10.
"""

from __future__ import annotations

from .timeline import Timeline


def expires_below(timeline: Timeline) -> int:
    """0 where nothing says so. The hint is read twice, as one answer may be cut off or old (H7); an expiry writes it first."""
    said = timeline.parallel(timeline.hint, ("EARLIEST", "EARLIEST"))
    return max((number for number in said if number is not None), default=0)
