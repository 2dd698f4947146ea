"""The stores that the contract suite runs on: each test gets a root of its own in every one of them."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from lakelatch.backends.faulty import FaultyStore
from lakelatch.backends.local import LocalStore
from lakelatch.backends.memory import MemoryStore
from lakelatch.backends.metered import MeteredStore
from lakelatch.backends.s3 import S3Store
from lakelatch.backends.store import Store

from .generic_store import GenericStore

KINDS = ("memory", "local", "s3", "generic", "metered", "faulty")

Stores = Callable[[str], Store]


def stores_of(kind: str, request: pytest.FixtureRequest) -> Stores:
    """A function from a path to the store of this kind there; the same path is the same place."""
    place = uuid.uuid4().hex
    if kind == "local":
        folder = request.getfixturevalue("tmp_path")
        return lambda path: LocalStore(f"{folder}/{path}")
    if kind == "s3":
        url, options = request.getfixturevalue("s3")
        return lambda path: S3Store(f"{url}/{place}/{path}", options)
    if kind == "generic":
        return lambda path: GenericStore(f"generic://{place}/{path}")
    if kind == "metered":
        return lambda path: MeteredStore(MemoryStore(f"memory://{place}/{path}"))
    if kind == "faulty":
        return lambda path: FaultyStore(MemoryStore(f"memory://{place}/{path}"), 0, {})
    return lambda path: MemoryStore(f"memory://{place}/{path}")


@pytest.fixture(params=KINDS)
def stores(request: pytest.FixtureRequest) -> Any:
    return stores_of(request.param, request)


@pytest.fixture
def store(stores: Stores) -> Store:
    return stores("table")
