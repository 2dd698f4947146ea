"""The store that the tests of this room share."""

from __future__ import annotations

import pytest
from fragile import Fragile
from histories import make


@pytest.fixture
def store() -> Fragile:
    """A store that holds an empty table."""
    made = Fragile()
    make(made)
    return made
