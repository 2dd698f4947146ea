"""The stores that the tests of this room share."""

from __future__ import annotations

from typing import Any

import pytest
from at_each_request import Struck
from by_hand.histories import new_store
from fragile import Fragile
from histories import make


@pytest.fixture
def store() -> Fragile:
    """A store that holds an empty table."""
    made = Fragile()
    make(made)
    return made


@pytest.fixture
def struck() -> Any:
    """A store for histories that are put together by hand, in which something happens before a chosen request."""
    return new_store(Struck)
