"""OTLP metrics through the OpenTelemetry SDK, with the names of its hardware conventions.

    probe export RUN --to otlp                        a file for a collector's otlpjsonfile receiver
    probe export RUN --to otlp --set endpoint=http://localhost:4318     the same figures, sent
    probe serve runs --otlp http://localhost:4318     live runs, every ten seconds

Names and units: OpenTelemetry semantic conventions for hardware (hw.energy, hw.power, hw.gpu.*),
status development; what they do not know is called probe.*.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from probe.store.live import LivePage
from probe.units import NS_PER_S

from ._errors import ExportRefused
from ._prometheus_metrics import LiveRun, wall_s
from ._report_fields import kind_of, kind_of_row
from ._run import StoredRun, write_whole
from ._serving import Runs

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import Metric, MetricsData

EVERY_S = 10.0
TIMEOUT_S = 5.0
SEMCONV = "https://opentelemetry.io/schemas/1.44.0"
_PATH = "/v1/metrics"
_TYPES = {"gpu": "gpu", "cpu": "cpu", "dram": "memory", "ram": "memory"}

# quantity of a meter -> (name, unit); levels that may fall are up-down counters there
_GAUGES = {
    "utilization": ("hw.gpu.utilization", "1"),
    "memory_utilization": ("hw.gpu.memory.utilization", "1"),
    "temperature": ("hw.temperature", "Cel"),
}
_LEVELS = {"memory_used": ("hw.gpu.memory.usage", "By")}


@dataclass(frozen=True, slots=True)
class Point:
    """One figure; ``kind`` is ``counter``, ``level`` (an up-down counter) or ``gauge``."""

    name: str
    unit: str
    about: str
    kind: str
    value: float
    attributes: Mapping[str, str | int]


@dataclass(frozen=True, slots=True)
class Otlp:
    """OTLP metrics: a file, or sent to a collector (--set endpoint=http://host:4318)."""

    name: ClassVar[str] = "otlp"
    output: ClassVar[str] = "{id}.otlp.jsonl"

    endpoint: str = ""

    def export(self, run: StoredRun, output: Path) -> str:
        report = run.report
        begin_ns, end_ns = round(run.begin_s * NS_PER_S), round(run.end_s * NS_PER_S)
        points = list(report_points(report))
        data = metrics_data(points, _resource(report["run"]), begin_ns, end_ns)
        if self.endpoint:
            with _Sender(self.endpoint) as sender:
                sender.send(data)
            return f"{sender.url}: {len(points)} figures sent"
        from google.protobuf.json_format import MessageToDict

        content = MessageToDict(_encoded(data))
        write_whole(output, json.dumps(content, allow_nan=False) + "\n")
        return f"{output}: {len(points)} figures as OTLP JSON"


EXPORTER = Otlp()


class Pusher:
    """Sends what live runs say to a collector until :meth:`close`; what fails is told once."""

    def __init__(self, runs: Runs, endpoint: str, every_s: float = EVERY_S):
        """Raises ExportRefused if the packages are missing or the endpoint is no URL."""
        self._runs, self._every_s = runs, every_s
        self._sender = _Sender(endpoint)
        self.url = self._sender.url
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="otlp", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Send once more, then stop."""
        self._done.set()
        self._thread.join(2 * TIMEOUT_S)
        self._sender.close()

    def _run(self) -> None:
        broken = False
        while True:
            last = self._done.wait(self._every_s)
            try:
                for run in self._runs():
                    for page in run.live.pages:
                        self._sender.send(page_data(run, page))
                broken = False
            except ExportRefused as error:
                if not broken:
                    print(
                        f"probe: {error}; it is tried again every {self._every_s:g} s", flush=True
                    )
                broken = True
            if last:
                return


def page_data(run: LiveRun, page: LivePage) -> MetricsData:
    """What one node says of a run now."""
    begin_s = wall_s(run.meta, int(run.meta.get("begin_ns") or 0)) or page.wall_s
    resource = _resource({**run.meta, "host": page.node})
    return metrics_data(
        live_points(page), resource, round(begin_s * NS_PER_S), round(page.wall_s * NS_PER_S)
    )


def report_points(report: Mapping[str, Any]) -> Iterator[Point]:
    """The figures of a report."""
    run, total = report["run"], report["total"]
    ids: dict[str, str] = {}
    for row in report["sources"]:
        if row["energy_j"] is None:
            continue
        kind = kind_of_row(row)
        own = _hardware(row["device"], row["uuid"] or row["source"], row["model"], kind)
        if row["in_total"]:
            ids[row["device"]] = str(own["hw.id"])
            yield _energy(kind, row["energy_j"], own)
        elif row["provenance"] == "modelled":
            yield Point(
                "probe.modelled.energy",
                "J",
                "A model's energy, not measured",
                "counter",
                row["energy_j"],
                own,
            )
    yield Point("probe.run.duration", "s", "From begin to end", "gauge", run["duration_s"], {})
    yield Point("probe.run.steps", "{step}", "Optimizer steps", "counter", run["steps"], {})
    low, high = total["energy_j_interval"] or (None, None)
    yield from _bounded("probe.run.energy", "Measured energy", total["energy_j"], low, high, {})
    for key, name, unit, about in (
        ("co2e_g", "probe.run.co2e", "g", "Of the measured energy"),
        ("modelled_energy_j", "probe.run.modelled_energy", "J", "A model's, not measured"),
        ("modelled_co2e_g", "probe.run.modelled_co2e", "g", "Of the modelled energy"),
        ("coverage", "probe.run.coverage", "1", "Share that lies between meter updates"),
    ):
        if total[key] is not None:
            yield Point(name, unit, about, "gauge", total[key], {})
    for row in report["phases"]:
        at: dict[str, str | int] = {
            "probe.phase": row["phase"],
            "hw.name": row["device"],
            "hw.id": ids.get(row["device"], row["device"]),
            "probe.provenance": row["provenance"],
        }
        yield Point("probe.phase.duration", "s", "Time in a phase", "gauge", row["time_s"], at)
        low, high = row["energy_j_interval"] or (None, None)
        yield from _bounded(
            "probe.phase.energy",
            "Energy of a phase",
            row["energy_j"],
            low,
            high,
            at | {"probe.status": row["status"]},
        )


def live_points(page: LivePage) -> Iterator[Point]:
    """What a live page says; ``hw.energy`` counts from the run's begin."""
    ids: dict[str, str] = {}
    for device in page.devices:
        ids[device.device] = device.uuid or device.source
        kind = kind_of(device.device, device.device_kind)
        own = _hardware(device.device, ids[device.device], "", kind)
        if device.provenance == "measured":
            yield _energy(kind, device.energy_j, own)
            if device.power_w is not None:
                name = "hw.host.power" if kind == "psys" else "hw.power"
                yield Point(
                    name, "W", "Mean power over the last second", "gauge", device.power_w, own
                )
        else:
            yield Point(
                "probe.modelled.energy",
                "J",
                "A model's energy, not measured",
                "counter",
                device.energy_j,
                own,
            )
    for row in page.phases:
        at = {
            "probe.phase": row.phase,
            "hw.name": row.device,
            "hw.id": ids.get(row.device, row.device),
        }
        yield Point(
            "probe.phase.energy",
            "J",
            "Energy handed to a phase; never revised",
            "counter",
            row.given_j,
            at,
        )
    for spent in page.times:
        yield Point(
            "probe.phase.duration",
            "s",
            "Time in a phase on the host",
            "counter",
            spent.seconds,
            {"probe.phase": spent.phase, "probe.rank": spent.rank},
        )
    for value in page.values:
        if kind_of(value.device, value.device_kind) != "gpu":
            continue
        own = _hardware(value.device, ids.get(value.device, value.device), "", "gpu")
        if value.quantity in _GAUGES:
            name, unit = _GAUGES[value.quantity]
            yield Point(name, unit, "", "gauge", value.value, own)
        elif value.quantity in _LEVELS:
            name, unit = _LEVELS[value.quantity]
            yield Point(name, unit, "", "level", value.value, own)
    yield Point("probe.steps", "{step}", "Optimizer steps that closed", "counter", page.steps, {})


def metrics_data(
    points: Iterable[Point], resource: Mapping[str, str], begin_ns: int, end_ns: int
) -> MetricsData:
    """As the SDK holds it: cumulative sums from ``begin_ns``, since 1970. Raises ExportRefused."""
    try:
        from opentelemetry.sdk.metrics import export as sdk
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    except ImportError:
        raise _missing() from None
    grouped: dict[str, list[Point]] = {}
    for point in points:
        grouped.setdefault(point.name, []).append(point)

    def metric(name: str, mine: list[Point]) -> Metric:
        rows = [
            sdk.NumberDataPoint(dict(one.attributes), begin_ns, end_ns, one.value) for one in mine
        ]
        cumulative = sdk.AggregationTemporality.CUMULATIVE
        kind = mine[0].kind
        data = sdk.Gauge(rows) if kind == "gauge" else sdk.Sum(rows, cumulative, kind == "counter")
        return sdk.Metric(name, mine[0].about, mine[0].unit, data)

    scope = sdk.ScopeMetrics(
        InstrumentationScope("phasewatt"),
        [metric(name, mine) for name, mine in grouped.items()],
        SEMCONV,
    )
    return sdk.MetricsData([sdk.ResourceMetrics(Resource(dict(resource)), [scope], SEMCONV)])


def _resource(run: Mapping[str, Any]) -> dict[str, str]:
    """Of report["run"] or run.json."""
    return {
        "service.name": "phasewatt",
        "host.name": str(run.get("host") or ""),
        "probe.run.id": str(run.get("id") or ""),
        "probe.run.name": str(run.get("name") or ""),
    }


def _hardware(device: str, id_: str, model: str, kind: str) -> dict[str, str | int]:
    type_ = _TYPES.get(kind)
    names: dict[str, str | int] = {"hw.id": id_, "hw.name": device}
    return names | ({"hw.type": type_} if type_ else {}) | ({"hw.model": model} if model else {})


def _energy(kind: str, joules: float, own: Mapping[str, str | int]) -> Point:
    name = "hw.host.energy" if kind == "psys" else "hw.energy"
    return Point(name, "J", "Energy since the run's begin, measured", "counter", joules, own)


def _bounded(
    name: str,
    about: str,
    best: float | None,
    low: float | None,
    high: float | None,
    attributes: Mapping[str, str | int],
) -> Iterator[Point]:
    for bound, value in (("best", best), ("lower", low), ("upper", high)):
        if value is not None:
            yield Point(name, "J", about, "gauge", value, {**attributes, "probe.bound": bound})


def _missing() -> ExportRefused:
    return ExportRefused(
        "otlp needs OpenTelemetry's SDK: "
        "pip install opentelemetry-sdk opentelemetry-exporter-otlp-proto-http"
    )


def _encoded(data: MetricsData) -> Any:
    try:
        from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
    except ImportError:
        raise _missing() from None
    return encode_metrics(data)


class _Sender:
    """OTLP over HTTP; headers and certificates come from OTEL_EXPORTER_OTLP_* as everywhere."""

    def __init__(self, endpoint: str):
        if not endpoint.startswith(("http://", "https://")):
            raise ExportRefused(
                f"endpoint={endpoint!r} is no URL: write for example http://localhost:4318"
            )
        try:
            from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        except ImportError:
            raise _missing() from None
        self.url = endpoint if endpoint.endswith(_PATH) else endpoint.rstrip("/") + _PATH
        self._exporter = OTLPMetricExporter(endpoint=self.url, timeout=TIMEOUT_S)
        # What it would log is told by us, in one line.
        logging.getLogger("opentelemetry.exporter.otlp").setLevel(logging.CRITICAL)

    def __enter__(self) -> _Sender:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(self, data: MetricsData) -> None:
        """Raises ExportRefused if the collector did not take it."""
        from opentelemetry.sdk.metrics.export import MetricExportResult

        if self._exporter.export(data) is not MetricExportResult.SUCCESS:
            raise ExportRefused(f"{self.url} did not take the metrics: is a collector there?")

    def close(self) -> None:
        """Give the connection back."""
        self._exporter.shutdown()
