"""A collector of OTLP metrics over HTTP, in this process: the protocol's own messages."""

from __future__ import annotations

import gzip
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)


class Collector:
    """Listens on loopback while the ``with`` lasts; keeps what arrives."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.arrived = threading.Event()
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                if self.path != "/v1/metrics":
                    self.send_error(404)
                    return
                collector.requests.append(ExportMetricsServiceRequest.FromString(body))
                collector.arrived.set()
                answer = ExportMetricsServiceResponse().SerializeToString()
                self.send_response(200)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                """Quietly."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Collector:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def figures(resource: Any) -> dict[tuple[Any, ...], float]:
    """(name, sorted attributes…) → value of one resource's metrics."""
    by_name = {}
    for scope in resource.scope_metrics:
        for metric in scope.metrics:
            data = metric.sum if metric.HasField("sum") else metric.gauge
            for point in data.data_points:
                attributes = sorted(
                    (a.key, a.value.string_value or a.value.int_value) for a in point.attributes
                )
                value = point.as_double if point.HasField("as_double") else point.as_int
                by_name[metric.name, *attributes] = value
    return by_name
