"""Bad input gets a clear error: whatever happened to the bytes, every decoder gives values or an error of the tree (H11)."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
from figures import NIGHTLY
from fuzz.decoders import DATA_FILES, DECODERS, unpacked
from fuzz.hunt import Hunt, hunt
from report import tell

INPUTS = 20_000 if NIGHTLY else 1000
SLOW_ONES = dict.fromkeys(DATA_FILES, 0.3)
"""What share of these inputs a decoder gets that is slow."""
SEED = int(os.environ.get("LAKELATCH_FUZZ_SEED", "1"))


@pytest.fixture(scope="module")
def hunts() -> Iterator[list[Hunt]]:
    """What came of it, told at the end."""
    found: list[Hunt] = []
    yield found
    tell(f"fuzz: {sum(h.inputs for h in found)} inputs to {len(found)} decoders; the slowest took "
         f"{max((h.longest for h in found), default=0):.2f} s")  # fmt: skip
    for each in found:
        tell(f"  {each}")


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Golden tables."""
    return unpacked(tmp_path_factory.mktemp("golden"))


@pytest.fixture(scope="module")
def child() -> Iterator[ProcessPoolExecutor]:
    """What ends a process, takes gigabytes or goes on for ever is found as well."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as child:
        yield child


@pytest.mark.timeout(3600 if NIGHTLY else 300)
@pytest.mark.parametrize("name", DECODERS)
def test_damage_ends_in_values_or_an_error_of_the_tree(
    name: str, tables: list[Path], hunts: list[Hunt], child: ProcessPoolExecutor
) -> None:
    inputs = int(INPUTS * SLOW_ONES.get(name, 1))
    found = child.submit(hunt, name, inputs, SEED, tables).result()
    hunts.append(found)
    assert not found.escapes, "\n".join(found.escapes)
    assert found.refused > found.inputs / 20, "the damage did no harm"
