"""Baseboard controllers: a Redfish service on loopback, and an ``ipmitool`` that is a script."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any

TOKEN = "s3cret-t0ken"
RESOURCE = "/redfish/v1/Chassis/1/Power"
DCMI = """
    Instantaneous power reading:                   412 Watts
    Minimum during sampling period:                190 Watts
    Maximum during sampling period:                733 Watts
    Average power reading over sample period:      398 Watts
    IPMI timestamp:                           Wed Nov 26 10:00:00 2025
    Sampling period:                          00000001 Seconds.
    Power reading state is:                   activated
"""


class RedfishService:
    """Answers with a power reading to who has the token; ``mode`` says what goes wrong."""

    def __init__(self) -> None:
        self.watts, self.mode, self.asked = 500.0, "", 0
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                service.asked += 1
                if service.mode == "slow":
                    time.sleep(3.0)
                if service.mode == "redirect":
                    self.send_response(302)
                    self.send_header("Location", "http://127.0.0.1:9/elsewhere")
                    self.end_headers()
                    return
                allowed = self.headers.get("X-Auth-Token") == TOKEN
                self.send_response(200 if allowed else 401)
                self.end_headers()
                if allowed:
                    self.wfile.write(service.body())

            def log_message(self, *_: Any) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}{RESOURCE}"

    def body(self) -> bytes:
        if self.mode == "nonsense":
            return b"<html>maintenance</html>"
        if self.mode == "no power":
            return json.dumps({"PowerControl": [{"PowerConsumedWatts": None}]}).encode()
        if self.mode == "metrics":
            return json.dumps({"PowerWatts": {"Reading": self.watts}}).encode()
        return json.dumps({"PowerControl": [{"PowerConsumedWatts": self.watts}]}).encode()

    def __enter__(self) -> RedfishService:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def ipmitool(folder: Path, says: str = DCMI, *, code: int = 0, wait_s: float = 0) -> Path:
    """A folder for PATH with an ``ipmitool`` that says this."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "answer.txt").write_text(says)
    script = folder / "ipmitool"
    script.write_text(
        f'#!/bin/sh\n[ "$*" = "dcmi power reading" ] || exit 9\nsleep {wait_s}\n'
        f"cat {folder / 'answer.txt'}\nexit {code}\n"
    )
    script.chmod(0o755)
    return folder
