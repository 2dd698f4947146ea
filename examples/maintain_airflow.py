"""An Airflow DAG that maintains a catalog every night: one task for each database.

Put it into Airflow's folder of DAGs, and set LAKE_URL. `maintain_database` is what a task runs; it needs no Airflow.
"""

from __future__ import annotations

import os
from datetime import datetime, timedelta, timezone
from typing import Any

import lakelatch as ll

LAKE_URL = os.environ.get("LAKE_URL", "s3://lake")


def databases(url: str = LAKE_URL) -> list[str]:
    """What the tasks are mapped over, looked up at each run."""
    return ll.open_catalog(url).databases()


def maintain_database(database: str, url: str = LAKE_URL) -> dict[str, Any]:
    """Maintain the tables of one database. Raises if one of them failed, so that Airflow tries again."""
    done = ll.open_catalog(url).maintain(database, progress=lambda count, total, one: print(f"{count}/{total} {one}"))
    if done.failed:
        raise RuntimeError(str(done))
    return {"tables": len(done.tables), "had something to do": sum(one.due for one in done.tables)}


try:
    from airflow.decorators import dag, task
except ImportError:  # outside of Airflow, the functions above are all there is
    pass
else:

    @dag(
        schedule="17 2 * * *",
        start_date=datetime(2026, 1, 1, tzinfo=timezone.utc),
        catchup=False,
        max_active_runs=1,
        default_args={"retries": 2, "retry_delay": timedelta(minutes=10)},
    )
    def maintain_lake() -> None:
        task(maintain_database).expand(database=task(databases)())

    maintain_lake()
