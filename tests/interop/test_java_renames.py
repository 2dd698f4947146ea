"""Tables whose options name columns, altered at random: Apache Paimon (Java) opens them, and reads what lakelatch reads (G8):
1.4.2, and 2.0.0 where its jar is given.

A seed gives the same table and alterations again; `LAKELATCH_NIGHTLY=1` draws fifty times as many.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from figures import NIGHTLY
from interop.agreement import our_rows
from values import assert_same_rows

import lakelatch as ll
from lakelatch.core.errors import InvalidArgument

pytestmark = [pytest.mark.java, pytest.mark.given]
SEEDS = range(600 if NIGHTLY else 12)
ROWS = "ARRAY<ROW<id INT, n INT>>"
OPTIONS: list[dict[str, str]] = [
    {"merge-engine": "partial-update", "fields.g.sequence-group": "a,b"},
    {"merge-engine": "partial-update", "fields.g,h.sequence-group": "a", "fields.a.aggregate-function": "sum"},
    {
        "merge-engine": "partial-update",
        "fields.g.sequence-group": "a",
        "partial-update.remove-record-on-sequence-group": "g",
    },
    {
        "merge-engine": "aggregation",
        "fields.a.aggregate-function": "sum",
        "fields.r.aggregate-function": "nested_update",
    },
    {
        "merge-engine": "aggregation",
        "fields.r.aggregate-function": "nested_update",
        "fields.r.nested-key": "id",
        "fields.a.aggregate-function": "max",
    },
    {"sequence.field": "g,h", "fields.a.stats-mode": "none"},
    {"changelog-producer": "input", "changelog-producer.row-deduplicate-ignore-fields": "a,b"},
    {"record-level.expire-time": "9999 d", "record-level.time-field": "g"},
    {"file-index.bloom-filter.columns": "a,h", "file-index.bloom-filter.a.items": "9"},
]


@pytest.mark.parametrize("seed", SEEDS)
def test_java_reads_what_we_read_after_any_alteration(seed: int, tmp_path: Path, each_java: dict[str, Any]) -> None:
    rng = random.Random(f"renames {seed}")
    columns = [("k", "INT NOT NULL"), *((name, "INT") for name in "abgh"), ("r", ROWS)]
    options = {"bucket": "1", **OPTIONS[seed % len(OPTIONS)]}
    table = ll.create_table(str(tmp_path / "t"), ll.Schema(columns), primary_key=["k"], options=options)
    names, told = {name: name for name in "abghr"}, [f"{options}"]

    def write() -> None:
        rows = []
        for key in range(4):
            row: dict[str, Any] = {"k": key}
            for first, name in names.items():
                some = [{"id": rng.randrange(3), "n": rng.randrange(9)} for _ in range(2)]
                row[name] = some if first == "r" else rng.choice([None, 1, 2, 3])
            rows.append(row)
        opened = ll.open_table(table.url)
        kinds = [f.name for f in opened.arrow_schema.field(names["r"]).type.value_type] if "r" in names else []
        for row in rows if "r" in names else []:
            row[names["r"]] = [dict(zip(kinds, part.values(), strict=True)) for part in row[names["r"]]]
        opened.upsert(pa.Table.from_pylist(rows, opened.arrow_schema))

    def changes() -> list[Any]:
        first = rng.choice([*names])
        match rng.randrange(4):
            case 0:
                return [ll.drop_column(names[first])]
            case 1 if first == "r":
                part = ll.open_table(table.url).arrow_schema.field(names["r"]).type.value_type[0].name
                return [ll.rename_column(f"{names['r']}.element.{part}", f"p{rng.randrange(1000)}")]
            case 2:
                other = rng.choice([*names])
                if other == first:
                    return []
                one, two = names[first], names[other]
                return [ll.rename_column(one, "_"), ll.rename_column(two, one), ll.rename_column("_", two)]
            case _:
                return [ll.rename_column(names[first], f"{first}.x{rng.randrange(1000)}"[-rng.choice([3, 9]) :])]

    write()
    for _ in range(rng.randint(2, 5)):
        made = changes()
        before = ll.open_table(table.url).schema
        try:
            ll.open_table(table.url).alter(*made)
        except InvalidArgument as refused:
            told.append(f"refused: {refused}")
            continue
        after = {f.id: f.name for f in ll.open_table(table.url).schema.fields}
        ids = {f.name: f.id for f in before.fields}
        names.update({first: after[ids[name]] for first, name in names.items() if ids[name] in after})
        for first in [
            first for first, name in names.items() if ids.get(name, -1) not in after and name not in after.values()
        ]:
            del names[first]
        told.append(f"{names}")
        write()
        ours = our_rows(ll.open_table(table.url))
        for release, java in each_java.items():
            assert_same_rows(java.rows(tmp_path / "t"), ours, "\n".join([release, *told]))
