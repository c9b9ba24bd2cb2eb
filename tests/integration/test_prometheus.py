"""A live training under the real Prometheus: what it scrapes, what its own tool says of it."""

from __future__ import annotations

import itertools
import json
import shutil
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from exporters.grafana import READY
from exporters.grafana.build import queries
from tests.fakes.nvml import NvmlRig
from tests.fakes.nvml_calibration import calibrated

from ..fakes import processes

pytestmark = pytest.mark.alone

RULES = processes.ROOT / "exporters" / "rules"
needs_prometheus = pytest.mark.skipif(
    shutil.which("prometheus") is None or shutil.which("promtool") is None,
    reason="needs Prometheus and promtool (Debian: apt-get install prometheus)",
)

# Two phases whose power the rig takes; the port is the first argument, seconds the second.
TRAINING = f"""
import os, random, sys, time
sys.path.insert(0, {str(processes.ROOT)!r})
import probe, torch
from tests.fakes.nvml import NvmlRig
rig = NvmlRig.attach(os.environ["NVML_RIG"])
weight = torch.nn.Parameter(torch.ones(1))
optimizer = torch.optim.SGD([weight], 1e-3)
with probe.watch(name="live", prometheus=int(sys.argv[1])) as run:
    print(run.path, flush=True)
    end = time.monotonic() + float(sys.argv[2])
    while time.monotonic() < end:
        with run.phase("hot"):
            rig.set_power(0, 400.0)
            time.sleep(random.uniform(0.02, 0.05))
        with run.phase("cool"):
            rig.set_power(0, 100.0)
            time.sleep(random.uniform(0.01, 0.04))
        weight.square().sum().backward()
        optimizer.step()
"""


def fetch(url: str, **headers: str) -> str:
    request = urllib.request.Request(url, headers=headers)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return str(answer.read().decode())


def wait_for(url: str, needle: str, seconds: float = 20.0) -> str:
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
        process.wait(timeout=20)


def query(base: str, expression: str) -> list[dict[str, Any]]:
    answer = json.loads(fetch(f"{base}/api/v1/query?query={quote(expression)}"))
    assert answer["status"] == "success", answer
    return list(answer["data"]["result"])


def single(base: str, expression: str) -> float:
    (one,) = query(base, expression)
    return float(one["value"][1])


@needs_prometheus
@pytest.mark.slow
def test_the_real_server_sees_the_watts_of_a_live_training(tmp_path: Path) -> None:
    rig = NvmlRig(tmp_path, gpus=2, power_w=150.0, period_s=0.1)
    rig.gpu(0).gpm = 2
    port = processes.free_port()
    seconds = 44.0
    # Calibrated, or the first 45 s would go by before phases are known.
    env = rig.env() | calibrated(rig, tmp_path / "calibration")
    process = processes.start(TRAINING, tmp_path, str(port), str(seconds), extra=env)
    assert process.stdout is not None
    run = Path(process.stdout.readline().strip())
    began = time.monotonic()
    metrics = f"http://127.0.0.1:{port}/metrics"
    try:
        wait_for(metrics, "probe_gpu_energy_joules_total")
        with server(tmp_path / "prometheus", port) as base:
            while time.monotonic() - began < seconds - 4:
                time.sleep(0.5)
            text = fetch(metrics)
            checked = subprocess.run(
                ["promtool", "check", "metrics"],
                input=text,
                capture_output=True,
                text=True,
                check=False,
            )
            assert checked.returncode == 0, checked.stdout + checked.stderr
            assert single(base, 'up{job="phasewatt"}') == 1
            # The idle card draws 150 W; the other's true mean is the rig's tape.
            watts = single(base, 'rate(probe_gpu_energy_joules_total{device="gpu1"}[30s])')
            assert watts == pytest.approx(150.0, rel=0.02)
            tape = rig.gpu(0).tape[: rig.gpu(0).tape_count]
            now = tape[-1].time_ns
            recent = [(a, b) for a, b in itertools.pairwise(tape) if b.time_ns > now - 30e9]
            true = sum(a.watts * (b.time_ns - a.time_ns) for a, b in recent) / (
                recent[-1][1].time_ns - recent[0][0].time_ns
            )
            watts = single(base, 'rate(probe_gpu_energy_joules_total{device="gpu0"}[30s])')
            assert watts == pytest.approx(true, rel=0.03)  # the window is not quite the same
            # Counters of phases add up to the device's, and none ever fell.
            for device in ("gpu0", "gpu1"):
                off = single(
                    base,
                    f'sum(probe_phase_energy_joules_total{{device="{device}"}}) / '
                    f'sum(probe_gpu_energy_joules_total{{device="{device}"}})',
                )
                assert off == pytest.approx(1.0, abs=1e-6)
            assert all(
                float(row["value"][1]) == 0
                for row in query(base, "resets(probe_phase_energy_joules_total[2m])")
            )
            # Over less than since the second estimate: what was used before a phase was first told
            # apart is not its own, and on a busy machine that takes more than one.
            hot, cool = (
                single(
                    base,
                    f'sum(rate(probe_phase_energy_joules_total{{device="gpu0",phase="{name}"}}'
                    f'[8s])) / sum(rate(probe_phase_seconds_total{{phase="{name}"}}[8s]))',
                )
                for name in ("hot", "cool")
            )
            assert hot == pytest.approx(400.0, rel=0.15)
            assert cool == pytest.approx(100.0, rel=0.3)
            assert query(base, "run:probe_gpu_power_watts:rate1m")
            assert not query(base, 'ALERTS{alertname="RunStalled"}')
            # Every query of the Grafana dashboard finds something.
            for expression in queries(json.loads(READY.read_text(encoding="utf-8"))):
                asked = expression.replace("$__rate_interval", "15s").replace("$run", ".*")
                assert query(base, asked), asked
            assert query(base, "probe_run_info")[0]["metric"]["run"] == run.name
            # The end: the totals are fetched once more, then the series vanish.
            process.communicate(timeout=60)
            ended = time.monotonic()
            # Over some time: right after the fetch the series is gone.
            while not query(base, "max_over_time(probe_run_ended[2m]) == 1"):
                assert time.monotonic() - ended < 20, "the totals were never fetched"
                time.sleep(0.3)
            last = single(base, "sum(last_over_time(probe_gpu_energy_joules_total[2m]))")
            out = processes.probe(tmp_path, "report", str(run), "--format", "json")
            total = json.loads(out.stdout)["total"]["energy_j"]
            assert last == pytest.approx(total, rel=0.01)
            while query(base, "up") and single(base, "up") == 1:
                assert time.monotonic() - ended < 45, "the recorder stays for ever"
                time.sleep(0.5)
            assert not query(base, "probe_gpu_energy_joules_total")
    finally:
        process.kill()
        process.communicate()


@needs_prometheus
def test_rules_are_valid_and_do_what_they_say() -> None:
    for command in (
        ["check", "rules", "phasewatt.rules.yml"],
        ["test", "rules", "phasewatt.test.yml"],
    ):
        done = subprocess.run(
            ["promtool", *command], cwd=RULES, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_one_endpoint_for_all_live_runs_behind_a_token(tmp_path: Path) -> None:
    port = processes.free_port()
    env = processes.environment(tmp_path / "runs")
    (tmp_path / "runs").mkdir()
    command = [
        sys.executable,
        "-m",
        "probe",
        "serve",
        str(tmp_path / "runs"),
        "--port",
        str(port),
        "--token",
        "sesame",
    ]
    serve = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)
    runs = [processes.start(processes.PLAIN, tmp_path, "9.0", name=f"s{i}.py") for i in range(2)]
    try:
        assert serve.stdout is not None and f":{port}/metrics" in serve.stdout.readline()
        url = f"http://127.0.0.1:{port}/metrics"
        with pytest.raises(urllib.error.HTTPError) as refused:
            fetch(url)
        assert refused.value.code == 401
        with pytest.raises(urllib.error.HTTPError):
            fetch(url, Authorization="Bearer wrong")
        deadline = time.monotonic() + 8
        while time.monotonic() < deadline:
            text = fetch(url, Authorization="Bearer sesame")
            if text.count("probe_run_info{") == 2:
                break
            time.sleep(0.3)
        assert text.count("probe_run_info{") == 2, text
        assert 'phase="compute"' in text
    finally:
        for process in runs:
            process.communicate(timeout=60)
        serve.terminate()
        assert serve.wait(timeout=10) == 0


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
def test_the_endpoint_speaks_tls(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-days",
            "1",
            "-subj",
            "/CN=localhost",
            "-addext",
            "subjectAltName=IP:127.0.0.1",
            "-keyout",
            str(key),
            "-out",
            str(certificate),
        ],
        check=True,
        capture_output=True,
    )
    port = processes.free_port()
    (tmp_path / "runs").mkdir()
    serve = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "probe",
            "serve",
            str(tmp_path / "runs"),
            "--port",
            str(port),
            "--cert",
            str(certificate),
            "--key",
            str(key),
        ],
        env=processes.environment(tmp_path / "runs"),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert serve.stdout is not None and "https://127.0.0.1" in serve.stdout.readline()
        trusted = ssl.create_default_context(cafile=str(certificate))
        url = f"https://127.0.0.1:{port}/metrics"
        with urllib.request.urlopen(url, context=trusted, timeout=10) as answer:
            assert answer.status == 200
        with pytest.raises(urllib.error.URLError):
            urllib.request.urlopen(url, timeout=10)  # nobody vouches for it
    finally:
        serve.terminate()
        assert serve.wait(timeout=10) == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--cert", "/nowhere.pem", "--key", "/nowhere.key"], "cannot listen"),
        (["--host", "0.0.0.0"], "give a token"),
        (["--port", "99999"], "1 to 65535"),
        (["/nowhere"], "there is no directory"),
    ],
)
def test_what_cannot_be_served_is_one_clear_line(
    words: list[str], said: str, tmp_path: Path
) -> None:
    done = processes.probe(tmp_path, "serve", *words)
    assert done.returncode == 1
    assert said in done.stderr and len(done.stderr.splitlines()) == 1


def test_a_port_that_is_taken_is_a_warning_and_tried_again(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        script = processes.PLAIN.replace('name="plain"', f'name="plain", prometheus={port}')
        process = processes.start(script, tmp_path, "12.0")
        time.sleep(7.0)
    wait_for(f"http://127.0.0.1:{port}/metrics", "probe_run_info", 6.0)
    process.communicate(timeout=60)
    assert process.returncode == 0
