"""The engines of merge_into.py, each behind the same calls: `create`, `merge`, `delete`, and `sums` of the rows that are left."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

from spark_upsert import connector

CHOSEN = "k % 1000 = 7"
"""The rows to delete: one in a thousand, because `k` is a hash."""
COLUMNS = ("id", "k", "amt", "name", "city", "ts")
UPDATED = ("amt", "city")


class Lakelatch:
    """`LakeTable`, in Spark."""

    in_spark = True

    def __init__(self, spark: Any, vectors: bool) -> None:
        self.spark, self.options = spark, {"deletion-vectors.enabled": "true"} if vectors else {}

    def create(self, source: str, url: str) -> None:
        import lakelatch.spark as lake

        lake.write(self.spark.read.parquet(source), url, options=self.options)

    def merge(self, url: str, source: str) -> None:
        import lakelatch.spark as lake

        target = lake.LakeTable.forPath(self.spark, url)
        merge = target.merge(self.spark.read.parquet(source), "t.id = s.id")
        merge.whenMatchedUpdate(set={c: f"s.{c}" for c in UPDATED}).whenNotMatchedInsertAll().execute()

    def delete(self, url: str) -> None:
        import lakelatch.spark as lake

        lake.LakeTable.forPath(self.spark, url).delete(CHOSEN)

    def sums(self, url: str) -> list[Any]:
        import lakelatch.spark as lake

        return _sums(lake.read(self.spark, url))


class LakelatchPython(Lakelatch):
    """`Table.merge` and `Table.delete`."""

    in_spark = False

    def create(self, source: str, url: str) -> None:
        import pyarrow.parquet as pq

        import lakelatch as ll

        table = ll.create_table(url, pq.read_schema(next(Path(source).glob("*.parquet"))), options=self.options)
        with table.transaction() as tx:
            for file in sorted(Path(source).glob("*.parquet")):
                tx.append(pq.read_table(file))

    def merge(self, url: str, source: str) -> None:
        import pyarrow.parquet as pq

        import lakelatch as ll

        merge = ll.open_table(url).merge(pq.read_table(source), on=["id"])
        merge.when_matched_update({c: f"s.{c}" for c in UPDATED}).when_not_matched_insert_all().execute()

    def delete(self, url: str) -> None:
        import lakelatch as ll

        ll.open_table(url).delete(where=CHOSEN)

    def sums(self, url: str) -> list[Any]:
        import lakelatch as ll

        return _sums_of_arrow(ll.open_table(url).to_dataset())


class Sql(ABC):
    """MERGE INTO and DELETE FROM in Spark's SQL."""

    in_spark = True

    def __init__(self, spark: Any, vectors: bool) -> None:
        self.spark, self.vectors = spark, vectors

    @abstractmethod
    def name(self, url: str) -> str:
        """The table at a URL, as statements name it."""

    def merge(self, url: str, source: str) -> None:
        matched = ", ".join(f"{c} = s.{c}" for c in UPDATED)
        names, values = ", ".join(COLUMNS), ", ".join(f"s.{c}" for c in COLUMNS)
        self.spark.sql(
            f"MERGE INTO {self.name(url)} AS t USING parquet.`{source}` AS s ON t.id = s.id WHEN MATCHED THEN UPDATE SET"
            f" {matched} WHEN NOT MATCHED THEN INSERT ({names}) VALUES ({values})"
        ).collect()

    def delete(self, url: str) -> None:
        self.spark.sql(f"DELETE FROM {self.name(url)} WHERE {CHOSEN}").collect()

    def sums(self, url: str) -> list[Any]:
        return _sums(self.spark.table(self.name(url)))


class Paimon(Sql):
    """Apache Paimon's connector. The table is in the warehouse's database `default`."""

    def name(self, url: str) -> str:
        return f"paimon.default.`{Path(url).name}`"

    def create(self, source: str, url: str) -> None:
        options = f"'deletion-vectors.enabled' = '{str(self.vectors).lower()}'"
        ddl = "id BIGINT, k INT, amt DOUBLE, name STRING, city STRING, ts TIMESTAMP"
        self.spark.sql(f"CREATE TABLE {self.name(url)} ({ddl}) TBLPROPERTIES ({options})")
        self.spark.read.parquet(source).writeTo(self.name(url)).append()


class Delta(Sql):
    """delta-spark."""

    def name(self, url: str) -> str:
        return f"delta.`{url}`"

    def create(self, source: str, url: str) -> None:
        vectors = str(self.vectors).lower()
        writer = self.spark.read.parquet(source).write.format("delta")
        writer.option("delta.enableDeletionVectors", vectors).save(url)


class DeltaRs:
    """delta-rs, the Delta library without Spark."""

    in_spark = False

    def __init__(self, spark: Any, vectors: bool) -> None:
        return

    def create(self, source: str, url: str) -> None:
        import pyarrow.parquet as pq
        from deltalake import write_deltalake

        for file in sorted(Path(source).glob("*.parquet")):
            write_deltalake(url, pq.read_table(file), mode="append")

    def merge(self, url: str, source: str) -> None:
        import pyarrow.parquet as pq
        from deltalake import DeltaTable

        merge = DeltaTable(url).merge(pq.read_table(source), "t.id = s.id", source_alias="s", target_alias="t")
        merge.when_matched_update({c: f"s.{c}" for c in UPDATED}).when_not_matched_insert_all().execute()

    def delete(self, url: str) -> None:
        from deltalake import DeltaTable

        DeltaTable(url).delete(CHOSEN)

    def sums(self, url: str) -> list[Any]:
        from deltalake import DeltaTable

        return _sums_of_arrow(DeltaTable(url).to_pyarrow_dataset())


KINDS: dict[str, Any] = {
    "lakelatch": Lakelatch,
    "lakelatch-python": LakelatchPython,
    "paimon": Paimon,
    "delta": Delta,
    "delta-rs": DeltaRs,
}


def _sums(rows: Any) -> list[Any]:
    found = rows.selectExpr("count(*)", "sum(id)", "sum(CAST(amt AS DECIMAL(28, 3)))", "sum(length(city))").first()
    return [str(value) for value in found]


def _sums_of_arrow(rows: Any) -> list[Any]:
    import duckdb

    told = duckdb.sql("SELECT count(*), sum(id), sum(CAST(amt AS DECIMAL(28, 3))), sum(length(city)) FROM rows")
    return [str(value) for value in told.fetchall()[0]]


def settings(engine: str, warehouse: Path, delta_jars: str | None) -> dict[str, str] | None:
    """The session's settings; None if the engine cannot run here."""
    if engine == "paimon":
        jar = connector()
        return (
            None
            if jar is None
            else {
                "spark.jars": str(jar),
                "spark.sql.extensions": "org.apache.paimon.spark.extensions.PaimonSparkSessionExtensions",
                "spark.sql.catalog.paimon": "org.apache.paimon.spark.SparkCatalog",
                "spark.sql.catalog.paimon.warehouse": str(warehouse),
            }
        )
    if engine == "delta":
        jars = sorted(map(str, Path(delta_jars).glob("*.jar"))) if delta_jars else []
        return (
            None
            if not jars
            else {
                "spark.jars": ",".join(jars),
                "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
                "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            }
        )
    return {}
