"""A fleet: every host is scraped, a central Prometheus knows them all."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

import pytest

from tests.fakes import processes
from tests.fakes.prometheus_server import needs_prometheus, query, wait_for
from tests.fakes.two_host_job import ended, job, needs_hosts

pytestmark = [pytest.mark.paced, needs_hosts]
LATE_S = 8
WINDOW_S = 20  # what is scraped may be a second older at one end of it than at the other
FLEET = processes.ROOT / "examples/fleet"


@needs_prometheus
def test_every_host_is_scraped_and_a_central_store_knows_the_fleet(tmp_path: Path) -> None:
    """The files of examples/fleet, with their addresses put in."""
    here = tmp_path / "fleet"
    here.mkdir()
    central, agent = processes.free_port(), processes.free_port()
    for name in ("agent.yml", "central.yml"):
        text = (FLEET / name).read_text().replace("127.0.0.1:9090", f"127.0.0.1:{central}")
        (here / name).write_text(text.replace("scrape_interval: 5s", "scrape_interval: 1s"))
    (here / "token").write_text("secret")
    started = []
    try:
        started.append(
            prometheus(
                here,
                "central",
                central,
                "--web.enable-remote-write-receiver",
                f"--storage.tsdb.path={here / 'central'}",
            )
        )
        extra = {"PROBE_PROMETHEUS": "0.0.0.0:9400", "PROBE_TOKEN": "secret"}
        with job(tmp_path, "--seconds", "58", extra=extra) as nodes:
            (here / "nodes.json").write_text(
                json.dumps([{"targets": [f"{node.host.address}:9400" for node in nodes]}])
            )
            started.append(
                prometheus(
                    here,
                    "agent",
                    agent,
                    "--enable-feature=agent",
                    f"--storage.agent.path={here / 'agent'}",
                )
            )
            base = f"http://127.0.0.1:{central}"
            assert processes.wait_until(
                lambda: len(query(base, 'up{job="phasewatt",cluster="here"} == 1')) == 2, 60
            )
            watts = f"sum by (instance) (deriv(phasewatt_gpu_energy_joules_total[{WINDOW_S}s]))"
            assert processes.wait_until(lambda: len(query(base, watts)) == 2)
            time.sleep(WINDOW_S + 12)  # the seconds that are looked at are of the training alone
            # An agent sends in batches: of the last seconds the central store knows a part.
            for row in query(base, watts, ago_s=LATE_S):
                node = next(
                    n
                    for n in nodes
                    if n.host.address == row["metric"]["instance"].partition(":")[0]
                )
                shown = float(row["value"][1])
                now = max(
                    node.rig.gpu(gpu).tape[node.rig.gpu(gpu).tape_count - 1].time_ns
                    for gpu in range(2)
                )
                then = now - LATE_S * 10**9
                true = sum(
                    node.rig.true_energy_j(gpu, then - WINDOW_S * 10**9, then) for gpu in range(2)
                )
                # A recorder on a busy machine is some seconds late; a lost GPU would be half.
                assert shown == pytest.approx(true / WINDOW_S, rel=0.25)
            ended(tmp_path, nodes)
    finally:
        for process in reversed(started):
            process.kill()
            process.wait(timeout=processes.HUNG_S)


def prometheus(folder: Path, name: str, port: int, *options: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [
            "prometheus",
            f"--config.file={folder / name}.yml",
            f"--web.listen-address=127.0.0.1:{port}",
            "--log.level=warn",
            *options,
        ],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wait_for(f"http://127.0.0.1:{port}/-/ready", "Ready")
    return process
