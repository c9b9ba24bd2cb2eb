"""A fleet: every host is scraped, a central Prometheus knows them all."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.fakes import processes
from tests.fakes.prometheus_server import needs_prometheus, query, wait_for
from tests.fakes.two_host_job import Node, ended, job, needs_hosts

pytestmark = [pytest.mark.paced, needs_hosts]
LATE_S = 8  # an agent sends in batches: of the last seconds the central store knows a part
WINDOW_S = 20  # what is scraped may be a second older at one end of it than at the other
WATTS = f"sum by (instance) (deriv(phasewatt_gpu_energy_joules_total[{WINDOW_S}s]))"
FLEET = processes.ROOT / "examples/fleet"


@pytest.mark.full
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
        stop = tmp_path / "stop"
        words = ("--seconds", str(processes.HUNG_S), "--until", str(stop))
        with job(tmp_path, *words, extra=extra, joined=True) as nodes:
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
            # Recorders and agents on a busy machine are seconds late now and then, not always.
            seen: list[list[tuple[float, float]]] = []
            assert processes.wait_until(lambda: agree(seen, base, nodes), 150), seen
            stop.touch()
            ended(tmp_path, nodes)
    finally:
        for process in reversed(started):
            process.kill()
            process.wait(timeout=processes.HUNG_S)


def agree(seen: list[list[tuple[float, float]]], base: str, nodes: list[Node]) -> bool:
    """Whether the central store shows both hosts' power as it was; (shown, true) goes to ``seen``.

    Both cards of a host draw much, so that without one of them it would be half.
    """
    rows = query(base, WATTS, ago_s=LATE_S)
    shown = {row["metric"]["instance"].partition(":")[0]: float(row["value"][1]) for row in rows}
    if set(shown) != {node.host.address for node in nodes}:
        return False
    seen.append([(shown[node.host.address], true_watts(node)) for node in nodes])
    return all(watts == pytest.approx(true, rel=0.1) and true > 300 for watts, true in seen[-1])


def true_watts(node: Node) -> float:
    """What a host's two cards drew in the window that is asked for."""
    tapes = (node.rig.gpu(gpu) for gpu in range(2))
    now_ns = max(card.tape[card.tape_count - 1].time_ns for card in tapes)
    then_ns = now_ns - LATE_S * 10**9
    begin_ns = then_ns - WINDOW_S * 10**9
    return sum(node.rig.true_energy_j(gpu, begin_ns, then_ns) for gpu in range(2)) / WINDOW_S


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
