"""Deletion vectors and changelogs of tables with a primary key, made by lakelatch and by Apache Paimon (Java)."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from lakelatch.core.metadata.deletion_vector import encode_vector

pytestmark = pytest.mark.java


def test_vectors_are_written_byte_for_byte_as_java_does(paimon_java: Any) -> None:
    from jpype import JClass, JLong

    rng = random.Random("vectors")
    rows = [[0], [2, 0, 1], range(5000), range(0, 30_000, 2), range(70_000, 70_100), rng.sample(range(500_000), 20_000)]
    rows += [[*range(100), *range(200, 205), 131_072], [rng.randrange(1 << 17) for _ in range(3)]]
    output, stream = JClass("java.io.ByteArrayOutputStream"), JClass("java.io.DataOutputStream")
    for name, is_wide in (("BitmapDeletionVector", False), ("Bitmap64DeletionVector", True)):
        for positions in rows:
            vector = JClass(f"org.apache.paimon.deletionvectors.{name}")()
            for position in positions:
                vector.delete(JLong(position))
            out = output()
            vector.serializeTo(stream(out))
            assert encode_vector(np.array(positions), is_wide) == bytes(out.toByteArray()), (name, positions)
