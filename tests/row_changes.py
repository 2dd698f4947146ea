"""Random tables, sources and changes of rows, and what DuckDB makes of the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

import lakelatch as ll

VECTORS, TRACKED = {"deletion-vectors.enabled": "true"}, {"row-tracking.enabled": "true"}
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("p", pa.int32()),
        ("k", pa.string()),
        ("a", pa.int32()),
        ("b", pa.int64()),
        ("x", pa.float64()),
        ("m", pa.decimal128(9, 2)),
        ("d", pa.date32()),
    ]
)


@dataclass(frozen=True)
class Kind:
    """A kind of table.

    Attributes:
        key: the columns of its primary key.
        fixed: columns that must not get other values.
        deletes: can its rows be deleted?
    """

    options: dict[str, str]
    partition_by: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    deletes: bool = True

    @property
    def fixed(self) -> tuple[str, ...]:
        return self.key or (() if self.deletes else self.partition_by)


KINDS = {
    "copies": Kind({}),
    "vectors": Kind(VECTORS, ("p",)),
    "tracked": Kind(TRACKED, ("p",)),
    "tracked vectors": Kind(VECTORS | TRACKED),
    "buckets": Kind({"bucket": "3", "bucket-key": "a"}),
    "buckets with vectors": Kind(VECTORS | {"bucket": "2", "bucket-key": "k"}, ("p",)),
    "evolution": Kind(TRACKED | {"data-evolution.enabled": "true"}, ("p",), deletes=False),
    "orc": Kind({"file.format": "orc"}, ("p",)),
    "key": Kind({"bucket": "2"}, key=("id",)),
    "key and vectors": Kind({"bucket": "1"} | VECTORS, key=("id",)),
    "key in partitions": Kind({"bucket": "2", "changelog-producer": "input"}, ("p",), ("p", "id")),
    "dynamic buckets": Kind({"bucket": "-1"}, key=("id",)),
}


class Case:
    """A table of lakelatch, and the same rows in DuckDB."""

    def __init__(self, random: Random, kind: Kind, name: str, local: bool = False) -> None:
        self.random, self.kind, self.next_id, self.moved = random, kind, 0, 0
        options = {"write-only": "true"} if random.random() < 0.3 and not kind.key else {}
        self.table = ll.create_table(
            name if local else f"memory://row-changes-random/{name}",
            SCHEMA,
            partition_by=list(kind.partition_by),
            primary_key=list(kind.key),
            options=kind.options | options,
        )
        self.peer = duckdb.connect(config={"threads": 1})
        self.peer.execute(
            "CREATE TABLE t (id BIGINT, p INT, k VARCHAR, a INT, b BIGINT, x DOUBLE, m DECIMAL(9, 2), d DATE)"
        )
        for _ in range(random.randint(1, 4)):
            self.append()

    def append(self) -> None:
        """Add rows to both."""
        count = self.random.choice([1, 3, 20, 60])
        rows = self._rows(range(self.next_id, self.next_id + count))
        self.next_id += count
        self.table.append(rows)
        self.peer.register("new_rows", rows)
        self.peer.execute("INSERT INTO t SELECT * FROM new_rows")

    def _rows(self, ids: Any) -> pa.Table:
        r = self.random

        def maybe(value: Any) -> Any:
            return None if r.random() < 0.15 else value

        rows = [
            {
                "id": i,
                "p": r.randint(0, 2),
                "k": maybe(r.choice(["x", "y", "zz", "", "ä%"])),
                "a": maybe(r.randint(-3, 6)),
                "b": maybe(r.choice([0, 1, 2, 1 << 40])),
                "x": maybe(r.choice([0.0, -0.0, 1.5, float("inf"), -2.25])),
                "m": maybe(r.choice([100, 125, -35, 999999])),
                "d": maybe(r.choice([0, 19000, 19001, -4000])),
            }
            for i in ids
        ]
        table = pa.Table.from_pylist(rows, pa.schema([*list(SCHEMA)[:6], ("m", pa.int32()), ("d", pa.int32())]))
        m = pc.multiply(table.column("m").cast(pa.decimal128(10, 0)), pa.scalar(1).cast(pa.decimal128(19, 0)))
        m = pc.divide(m.cast(pa.decimal128(12, 2)), pa.scalar("100").cast(pa.decimal128(3, 0)))
        table = table.set_column(6, "m", m.cast(pa.decimal128(9, 2), safe=False))
        return table.set_column(7, "d", table.column("d").cast(pa.date32()))

    # -------------------------------------------------------------------------------------------------- random SQL

    def condition(self, t: str = "", s: str = "") -> str:
        """A condition on a row of the table (`t` is the alias with its dot), or of the source as well (`s`)."""
        r = self.random
        o = s if s and r.random() < 0.5 else t
        tests = [
            lambda: f"{o}a {r.choice(['=', '<', '>=', '<>'])} {r.randint(-2, 5)}",
            lambda: f"{o}p = {r.randint(0, 2)}",
            lambda: f"{o}k {r.choice(['', 'NOT '])}IN ('x', 'zz', NULL)",
            lambda: f"{o}{r.choice(['a = ', 'k <> ', 'k LIKE ', 'b BETWEEN 0 AND '])}NULL",
            lambda: f"{o}k LIKE '{r.choice(['%z', 'x%', '_', 'ä%'])}'",
            lambda: f"{o}{r.choice('abkxmd')} IS {r.choice(['', 'NOT '])}NULL",
            lambda: f"{o}b BETWEEN 1 AND 5",
            lambda: f"{o}x > {r.choice(['0', '1.0', '-3'])}",
            lambda: f"{o}m {r.choice(['<', '>='])} 1.0",
            lambda: f"{o}d < DATE '2022-01-08'",
            lambda: f"{o}id % {r.randint(2, 5)} = 0",
            lambda: f"{o}id {r.choice(['<', '>='])} {r.randint(0, max(self.next_id, 1))}",
            lambda: f"{o}a + {o}b > 2",
            lambda: f"{t}a {r.choice(['=', '<'])} {s or t}b",
            lambda: f"COALESCE({o}k, 'y') = 'y'",
        ]
        text = r.choice(tests)()
        if r.random() < 0.35:
            text = f"{text} {r.choice(['AND', 'OR'])} {r.choice(['', 'NOT '])}({self.condition(t, s)})"
        return f"NOT ({text})" if r.random() < 0.1 else text

    def value(self, column: str, t: str = "", s: str = "") -> str:
        """An expression that fits a column."""
        r = self.random
        o = s if s and r.random() < 0.6 else t
        numbers = [
            f"{o}a + 1",
            f"{r.randint(0, 9)}",
            f"COALESCE({o}a, 0) * 2",
            f"CASE WHEN {o}b > 1 THEN {o}a ELSE -1 END",
            "NULL",
        ]
        texts = [
            f"{o}k || '!'",
            "'new'",
            f"UPPER({o}k)",
            f"COALESCE({o}k, {t or o}k, '-')",
            f"CASE WHEN {o}a > 2 THEN 'big' END",
        ]
        values = {
            "id": [f"{o}id + {self.next_id}"],
            "p": [str(r.randint(0, 3)), f"{o}a % 3"],
            "k": texts,
            "a": numbers,
            "b": [*numbers, f"{o}b - {o}a", f"-{o}b"],
            "x": [f"{o}x / 2", f"{o}a / 4", f"{o}x + {o}a", "1.25", "NULL"],
            "m": [f"{o}m / 3", f"{o}m + 1.005", f"{o}a * 1.5", "NULL", "0.1"],
            "d": [f"{o}d + 1", "DATE '2024-02-29'", f"{o}d"],
        }
        return r.choice(values[column])

    def assigned(self, t: str = "", s: str = "") -> dict[str, str]:
        free = [n for n in SCHEMA.names if n not in self.kind.fixed and (n != "id" or not s)]
        chosen = self.random.sample(free, self.random.randint(1, 3))
        return {name: self.value(name, t, s) for name in chosen}

    # ---------------------------------------------------------------------------------------------------- changes

    def change(self) -> tuple[str, Callable[[], Any]]:
        """A random change: as SQL, and as a call of lakelatch."""
        roll = self.random.random()
        if roll < 0.2 and self.kind.deletes:
            where = self.condition()
            return f"DELETE FROM t WHERE {where}", lambda: self.table.delete(where=where)
        if roll < 0.45:
            where, given = self.condition(), self.assigned()
            return f"UPDATE t SET {_set(given)} WHERE {where}", lambda: self.table.update(where, set=given)
        return self.merge()

    def merge(self) -> tuple[str, Callable[[], Any]]:
        r = self.random
        source = self._source()
        self.peer.register("src", source)
        on = r.choice(
            [
                "t.id = s.id",
                "t.id = s.id",
                "t.id = s.id AND t.p = s.p",
                "s.id = t.id AND t.a < 5",
                "t.id = s.id AND s.b >= t.b",
            ]
        )
        if self.kind.key:
            on = " AND ".join(f"t.{name} = s.{name}" for name in self.kind.key)
        elif r.random() < 0.2:
            on = r.choice(
                ["t.k = s.k AND t.a = s.a", "t.b = s.a AND t.p = s.p", "t.x = s.x AND t.id < 9", "t.id = s.id + 1"]
            )
        merge = self.table.merge(source, on=on)
        sql = [f"MERGE INTO t USING src AS s ON {on}"]
        for _ in range(r.randint(0, 2)):
            test = self.condition("t.", "s.")
            deletes = self.kind.deletes and r.random() < 0.35
            given = self.assigned("t.", "s.")
            sql.append(f"WHEN MATCHED AND {test} THEN " + ("DELETE" if deletes else f"UPDATE SET {_set(given)}"))
            merge = merge.when_matched_delete(test) if deletes else merge.when_matched_update(given, test)
        if r.random() < 0.7:
            free = [n for n in SCHEMA.names if n not in self.kind.fixed]
            if on == "t.id = s.id" and not self.kind.fixed:
                sql.append("WHEN MATCHED THEN UPDATE SET " + ", ".join(f"{n} = s.{n}" for n in SCHEMA.names))
                merge = merge.when_matched_update_all()
            else:
                given = {n: f"s.{n}" for n in free if n != "id"}
                sql.append(f"WHEN MATCHED THEN UPDATE SET {_set(given)}")
                merge = merge.when_matched_update(given)
        if r.random() < 0.3:
            test = self.condition("s.")
            self.moved += 100_000
            given = {"id": f"s.id + {self.moved}", "p": "s.p", "k": self.value("k", "s."), "m": self.value("m", "s.")}
            sql.append(
                f"WHEN NOT MATCHED AND {test} THEN INSERT ({', '.join(given)}) VALUES ({', '.join(given.values())})"
            )
            merge = merge.when_not_matched_insert(given, test)
        if r.random() < 0.7:
            names = ", ".join(SCHEMA.names)
            sql.append(f"WHEN NOT MATCHED THEN INSERT ({names}) VALUES ({', '.join(f's.{n}' for n in SCHEMA.names)})")
            merge = merge.when_not_matched_insert_all()
        if r.random() < 0.25:
            test = self.condition("t.")
            deletes = self.kind.deletes and r.random() < 0.5
            given = self.assigned("t.")
            sql.append(
                f"WHEN NOT MATCHED BY SOURCE AND {test} THEN " + ("DELETE" if deletes else f"UPDATE SET {_set(given)}")
            )
            merge = (
                merge.when_not_matched_by_source_delete(test)
                if deletes
                else merge.when_not_matched_by_source_update(given, test)
            )
        if len(sql) == 1:
            sql.append("WHEN MATCHED THEN UPDATE SET b = s.b")
            merge = merge.when_matched_update({"b": "s.b"})
        return " ".join(sql), merge.execute

    def _source(self) -> pa.Table:
        r = self.random
        ids = r.sample(range(self.next_id + 10), r.randint(0, min(self.next_id + 2, 25)))
        self.next_id += 10
        rows = self._rows(ids)
        if r.random() < 0.2 and len(ids) and not self.kind.key:
            rows = pa.concat_tables([rows, rows.slice(0, 1).set_column(0, "id", pa.array([None], pa.int64()))])
        return rows

    # ------------------------------------------------------------------------------------------------------ results

    def ours(self) -> list[tuple[Any, ...]]:
        return sorted_rows(self.table.to_arrow())

    def theirs(self) -> list[tuple[Any, ...]]:
        return sorted_rows(self.peer.execute("SELECT * FROM t").to_arrow_table().cast(SCHEMA))


def _set(given: dict[str, str]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in given.items())


def sorted_rows(rows: pa.Table) -> list[tuple[Any, ...]]:
    x = pc.add(rows.column("x"), 0.0)  # the sign of zero is no difference in SQL
    rows = rows.set_column(rows.schema.get_field_index("x"), "x", x)
    return sorted((tuple(row.values()) for row in rows.to_pylist()), key=repr)
