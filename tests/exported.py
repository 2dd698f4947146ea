"""What a process would export by OpenTelemetry's SDK, kept in memory."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from lakelatch.coordinator.watching import telemetry


class Exported:
    """Providers of the SDK for one test: the process has one of each for ever, so they are put where the library asks."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._spans, self._metrics = InMemorySpanExporter(), InMemoryMetricReader()
        tracers, meters = TracerProvider(), MeterProvider([self._metrics])
        tracers.add_span_processor(SimpleSpanProcessor(self._spans))
        patch.setattr(telemetry.trace, "get_tracer", tracers.get_tracer)
        instruments = telemetry.Instruments(meters.get_meter("test"))
        patch.setattr(telemetry, "instruments", lambda: instruments)

    def spans(self) -> list[ReadableSpan]:
        """Those that have ended, in that order."""
        return list(self._spans.get_finished_spans())

    def metrics(self) -> dict[str, dict[tuple[Any, ...], Any]]:
        """Name -> values of the labels, sorted by their names -> sum, or count of a histogram."""
        data = self._metrics.get_metrics_data()
        found: dict[str, dict[tuple[Any, ...], Any]] = {}
        for metric in (m for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics):
            for point in metric.data.data_points:
                labels = tuple(value for _, value in sorted(point.attributes.items()))
                found.setdefault(metric.name, {})[labels] = getattr(point, "value", getattr(point, "count", None))
        return found
