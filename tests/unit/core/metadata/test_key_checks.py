"""Schemas of tables with a primary key: what Apache Paimon could not open is refused (compared with Java in tests/interop)."""

from __future__ import annotations

import pytest
from key_schemas import COLUMNS, REFUSED

import lakelatch as ll
from lakelatch.core.errors import InvalidArgument


@pytest.mark.parametrize(("keys", "partitions", "options", "said"), REFUSED)
def test_a_schema_that_apache_paimon_refuses_is_refused_here(
    keys: list[str], partitions: list[str], options: dict[str, str], said: str
) -> None:
    with pytest.raises(InvalidArgument) as refused:
        ll.create_table(
            "memory://key-checks/t", ll.Schema(COLUMNS), partition_by=partitions, primary_key=keys, options=options
        )
    assert said in str(refused.value)


def test_a_change_that_makes_such_a_schema_is_refused() -> None:
    table = ll.create_table(
        "memory://key-checks/changed",
        ll.Schema(COLUMNS),
        primary_key=["k"],
        options={"sequence.field": "n", "bucket": "1"},
    )
    with pytest.raises(InvalidArgument, match=r"sequence\.field"):
        table.alter(ll.drop_column("n"))
    with pytest.raises(InvalidArgument, match="changelog-producer"):
        table.alter(ll.set_option("changelog-producer", "inputs"))
    table.alter(ll.set_option("changelog-producer", "input"))
