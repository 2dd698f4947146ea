"""Refuses streams over the data source by name, and says what works instead. Streams themselves do not exist yet.

Owns: the two refusals. Must not know: tables. Invariant: A stream fails before it has read or written anything.
"""

from __future__ import annotations

from typing import Any, NoReturn

from pyspark.sql.datasource import DataSourceStreamReader

from ..core.errors import Unsupported
from .worker_errors import one_sentence


def refuse_stream_writer() -> NoReturn:
    """Raise `Unsupported` for `df.writeStream.format("lakelatch")`."""
    raise Unsupported(
        "writeStream with format 'lakelatch' is not supported yet",
        next_step="use writeStream.foreachBatch(f), where f(rows, batch_id) calls lakelatch.spark.write(rows, url,"
        " commit_user='NAME OF THE QUERY', identifier=batch_id): a repeated batch then lands once",
    )


class NoStreamReader(DataSourceStreamReader):
    """Raises `Unsupported` for `spark.readStream.format("lakelatch")` at the stream's first question.

    Spark 4.1 hides an error that `streamReader` itself raises behind an `UnboundLocalError` of its own.
    """

    def _refuse(self) -> NoReturn:
        with one_sentence():
            raise Unsupported(
                "readStream with format 'lakelatch' is not supported yet",
                next_step="read the table in a batch job, with lakelatch.spark.read(spark, url) or spark.read",
            )

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        self._refuse()

    def latestOffset(self, *_: Any) -> dict[str, Any]:  # noqa: N802 - Spark's name
        self._refuse()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Any:
        self._refuse()

    def read(self, partition: Any) -> Any:
        self._refuse()

    def commit(self, end: dict[str, Any]) -> None:
        self._refuse()
