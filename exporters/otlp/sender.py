"""Points as data of the OpenTelemetry SDK, and the sender to a collector."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING

from probe.redact import redact_text
from probe.report.model import RunInfo

from .._shared.live_runs import LiveRun
from .._shared.metrics import PREFIX, MetricDefinition, MetricType
from .._shared.run import ExportRefused
from .points import Point

if TYPE_CHECKING:
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
        ExportMetricsServiceRequest,
    )
    from opentelemetry.sdk.metrics.export import Metric, MetricsData

TIMEOUT_S = 5.0
SEMCONV = "https://opentelemetry.io/schemas/1.44.0"
_PATH = "/v1/metrics"


def metrics_data(
    points: Iterable[Point], resource: Mapping[str, str], begin_ns: int, end_ns: int
) -> MetricsData:
    """Points as the SDK's data: cumulative sums since ``begin_ns`` (ns since 1970).

    Raises:
        ExportRefused: the SDK is not installed.
    """
    try:
        from opentelemetry.sdk.metrics import export as sdk
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    except ImportError:
        raise _missing() from None
    grouped: dict[MetricDefinition, list[Point]] = {}
    for point in points:
        grouped.setdefault(point.metric, []).append(point)

    def metric(definition: MetricDefinition, same_metric: list[Point]) -> Metric:
        rows = [
            sdk.NumberDataPoint(dict(point.attributes), begin_ns, end_ns, point.value)
            for point in same_metric
        ]
        cumulative = sdk.AggregationTemporality.CUMULATIVE
        data = (
            sdk.Gauge(rows)
            if definition.type is MetricType.GAUGE
            else sdk.Sum(rows, cumulative, definition.type is MetricType.COUNTER)
        )
        return sdk.Metric(definition.name, definition.help, definition.unit, data)

    scope = sdk.ScopeMetrics(
        InstrumentationScope(PREFIX),
        [metric(definition, same_metric) for definition, same_metric in grouped.items()],
        SEMCONV,
    )
    return sdk.MetricsData([sdk.ResourceMetrics(Resource(dict(resource)), [scope], SEMCONV)])


def resource_of(run: RunInfo | LiveRun, host: str = "") -> dict[str, str]:
    """Resource attributes of a stored or a live run; ``host`` if it is not the run's own."""
    return {
        "service.name": PREFIX,
        "host.name": host or run.host,
        f"{PREFIX}.run.id": run.id,
        f"{PREFIX}.run.name": run.name,
    }


def _missing() -> ExportRefused:
    return ExportRefused(
        "otlp needs OpenTelemetry's SDK: "
        "pip install opentelemetry-sdk opentelemetry-exporter-otlp-proto-http"
    )


def encoded(data: MetricsData) -> ExportMetricsServiceRequest:
    """The protobuf message. Raises ExportRefused."""
    try:
        from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
    except ImportError:
        raise _missing() from None
    return encode_metrics(data)


class Sender:
    """OTLP over HTTP; headers and certificates come from OTEL_EXPORTER_OTLP_* as everywhere."""

    def __init__(self, endpoint: str):
        if not endpoint.startswith(("http://", "https://")):
            raise ExportRefused(
                f"endpoint={redact_text(endpoint)!r} is not a URL: write for example http://localhost:4318"
            )
        try:
            from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        except ImportError:
            raise _missing() from None
        url = endpoint if endpoint.endswith(_PATH) else endpoint.rstrip("/") + _PATH
        self.url = redact_text(url)  # as it may be printed
        self._exporter = OTLPMetricExporter(endpoint=url, timeout=TIMEOUT_S)
        # Its log lines are replaced by our one-line error.
        logging.getLogger("opentelemetry.exporter.otlp").setLevel(logging.CRITICAL)

    def __enter__(self) -> Sender:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def send(self, data: MetricsData) -> None:
        """Send the data. Raises ExportRefused if the collector did not take it."""
        from opentelemetry.sdk.metrics.export import MetricExportResult

        if self._exporter.export(data) is not MetricExportResult.SUCCESS:
            raise ExportRefused(f"{self.url} did not take the metrics: is a collector there?")

    def close(self) -> None:
        """Close the connection."""
        self._exporter.shutdown()
