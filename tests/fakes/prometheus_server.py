"""The real Prometheus on loopback, and how it is asked."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.fakes import processes

RULES = processes.ROOT / "exporters" / "rules"
needs_prometheus = pytest.mark.skipif(
    shutil.which("prometheus") is None or shutil.which("promtool") is None,
    reason="needs Prometheus and promtool (Debian: apt-get install prometheus)",
)


def fetch(url: str, **headers: str) -> str:
    request = urllib.request.Request(url, headers=headers)
    with urllib.request.urlopen(request, timeout=processes.HUNG_S) as answer:
        return str(answer.read().decode())


def wait_for(url: str, needle: str, seconds: float = processes.HUNG_S) -> str:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            text = fetch(url)
        except OSError:
            text = ""
        if needle in text:
            return text
        time.sleep(0.2)
    raise AssertionError(f"{url} never showed {needle!r}: {text[-500:]}")


@contextmanager
def server(folder: Path, target: int) -> Iterator[str]:
    """Debian's Prometheus, scraping one target every second, on loopback."""
    folder.mkdir()
    config = folder / "prometheus.yml"
    config.write_text(
        json.dumps(
            {
                "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
                "rule_files": [str(RULES / "phasewatt.rules.yml")],
                "scrape_configs": [
                    {
                        "job_name": "phasewatt",
                        "static_configs": [{"targets": [f"127.0.0.1:{target}"]}],
                    }
                ],
            }
        )
    )
    checked = subprocess.run(
        ["promtool", "check", "config", str(config)], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    port = processes.free_port()
    process = subprocess.Popen(
        [
            "prometheus",
            f"--config.file={config}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--log.level=warn",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for(f"http://127.0.0.1:{port}/-/ready", "Ready")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(timeout=processes.HUNG_S)


def query(base: str, expression: str, *, ago_s: float = 0.0) -> list[dict[str, Any]]:
    """What the server says now, or said some seconds ago."""
    at = time.time() - ago_s
    answer = json.loads(fetch(f"{base}/api/v1/query?query={quote(expression)}&time={at:.3f}"))
    assert answer["status"] == "success", answer
    return list(answer["data"]["result"])


def single(base: str, expression: str) -> float:
    (value,) = query(base, expression)
    return float(value["value"][1])
