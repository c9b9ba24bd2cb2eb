"""An accelerator of a vendor that nobody here knows: its sensor is one file, the rest follows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dashboard.data.power import power
from dashboard.data.run import OpenRun
from exporters._shared.live_runs import live_run
from exporters.prometheus.live import live_families
from probe.store.live import read_live
from tests.fakes import processes

pytestmark = pytest.mark.paced

WATTS = {"hot": 300.0, "cool": 100.0}

# The made-up device is a file: when it was written (ns), joules at that moment, and watts since.
SENSOR = """
import os, struct

from probe.model import DeviceKind, Kind, Provenance, Sample, Source


class Acme:
    name = "acme"

    def __init__(self, context):
        self.absent, self.warnings = [], []
        self._clock, self._next_ns = context.clock, 0

    def open(self):
        return [
            Source(
                id="acme:NPU-7:energy",
                device="npu0",
                device_kind=DeviceKind.ACCELERATOR,
                vendor="acme",
                uuid="NPU-7",
                quantity="energy",
                unit="J",
                kind=Kind.COUNTER,
                provenance=Provenance.MEASURED,
                method="counter",
                resolution_s=0.001,
                in_total=True,
            )
        ]

    def read(self):
        with open(os.environ["ACME_DEVICE"], "rb") as file:
            since_ns, joules, watts = struct.unpack("<qdd", file.read(24))
        now_ns = self._clock.now_ns()
        self._next_ns = now_ns + 5_000_000
        return [Sample("acme:NPU-7:energy", now_ns, joules + watts * (now_ns - since_ns) / 1e9)]

    def next_read_ns(self):
        return self._next_ns

    def close(self):
        pass
"""

TRAINING = """
import os, struct, sys, time
import probe

since_ns, joules, watts = time.monotonic_ns(), 5.0, 0.0
device = os.open(os.environ["ACME_DEVICE"], os.O_RDWR | os.O_CREAT)

def draw(new_watts):
    global since_ns, joules, watts
    now_ns = time.monotonic_ns()
    joules += watts * (now_ns - since_ns) / 1e9
    since_ns, watts = now_ns, new_watts
    os.pwrite(device, struct.pack("<qdd", since_ns, joules, watts), 0)

draw(0.0)
with probe.watch(name="acme") as run:
    end = time.monotonic() + 6.0
    while time.monotonic() < end:
        for phase, power in (("hot", 300.0), ("cool", 100.0)):
            with run.phase(phase):
                draw(power)
                time.sleep(0.06)
"""


def install(package: Path) -> None:
    """The sensor as a third party's package: one file and its entry point."""
    info = package / "acme_npu-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-npu\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[probe.sensors]\nacme = acme_npu:Acme\n")
    (package / "acme_npu.py").write_text(SENSOR)


def test_phase_joules_of_another_vendor_reach_report_exports_and_dashboard(tmp_path: Path) -> None:
    install(tmp_path / "site")
    extra = {
        "PYTHONPATH": f"{processes.ROOT}:{tmp_path / 'site'}",
        "ACME_DEVICE": str(tmp_path / "npu0"),
        "CUDA_VISIBLE_DEVICES": "",  # says nothing of another vendor's devices
    }
    done = processes.run(TRAINING, tmp_path, extra=extra)
    assert done.returncode == 0, done.stderr

    out = processes.probe(tmp_path, "report", "latest", "--format", "json")
    assert out.returncode == 0, out.stderr
    report = json.loads(out.stdout)
    (source,) = (s for s in report["sources"] if s["device"] == "npu0")
    assert source["in_total"]
    assert report["total"]["energy_j"] == pytest.approx(source["energy_j"])
    rows = {row["phase"]: row for row in report["phases"] if row["device"] == "npu0"}
    for phase, watts in WATTS.items():
        low, high = rows[phase]["energy_j_interval"]
        truth_j = watts * rows[phase]["time_s"]
        assert low < rows[phase]["energy_j"] < high
        assert rows[phase]["energy_j"] == pytest.approx(truth_j, rel=0.15)
        assert rows[phase]["provenance"] == "estimated"
    assert any("no device timestamps were recorded" in line for line in report["warnings"])

    run = processes.only_run(tmp_path)
    out = processes.probe(tmp_path, "export", "latest", "--to", "prometheus", "-o", "acme.prom")
    assert out.returncode == 0, out.stderr
    text = (tmp_path / "acme.prom").read_text()
    for bound in ("best", "lower", "upper"):
        assert any(
            line.startswith("phasewatt_phase_energy_estimate_joules")
            and all(part in line for part in ('device="npu0"', 'phase="hot"', f'"{bound}"'))
            for line in text.splitlines()
        )

    page = read_live(run, linger_s=1e9)
    assert page is not None
    meta = json.loads((run / "run.json").read_text())
    families = {family.name: family for family in live_families([live_run(meta, page)], 0)}
    (sample,) = (
        s for s in families["phasewatt_gpu_energy_joules"].samples if s.name.endswith("total")
    )
    assert sample.labels["device"] == "npu0"

    opened = OpenRun(run)
    (hot,) = (p for p in opened.report_now().phases if (p.device, p.phase) == ("npu0", "hot"))
    assert hot.energy_j_interval == tuple(rows["hot"]["energy_j_interval"])
    drawn = power(opened, (0.0, opened.duration_s))
    assert drawn is not None
    assert "npu0" in drawn.devices
