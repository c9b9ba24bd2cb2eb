"""What Prometheus is told, read back by the client library's own parsers."""

from __future__ import annotations

from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as openmetrics_of
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_in
from prometheus_client.parser import text_string_to_metric_families as text_in

from exporters import ExportRefused
from exporters._shared.live_runs import live_run
from exporters.prometheus.endpoint import Address, RunsCollector
from exporters.prometheus.families import LONGEST, label
from exporters.prometheus.live import MOST_PHASES, REST
from probe.store.live import Live, LiveDevice, LivePage, LivePhase, LiveTime, LiveValue

HOSTILE = 'a\nb"c\\d<script>{}\u2028é' + "x" * 10_000


def page(**values):
    devices = (
        LiveDevice("gpu0", "nvml:u:energy", "measured", 1000.0, 250.0, 5, "u"),
        LiveDevice("cpu", "codecarbon:cpu", "modelled", 80.0, 10.0, 5),
    )
    phases = (
        LivePhase("forward", "gpu0", 600.0, 640.0, 600.0, 680.0, "resolved"),
        LivePhase("data", "gpu0", 0.0),
        LivePhase("unattributed", "gpu0", 400.0),
    )
    given = {
        "time_ns": 10,
        "wall_s": 1.0,
        "node": "n",
        "steps": 7,
        "gaps": 2,
        "last_edge_ns": 9,
        "devices": devices,
        "phases": phases,
        "times": (LiveTime("forward", 0, 3.0, 7),),
        "values": (
            LiveValue("gpu0", "utilization", "gauge", 0.5, 9),
            LiveValue("gpu0", "sm_clock", "gauge", 1.4e9, 9),
            LiveValue("gpu0", "power_cap_time", "counter", 2.5, 9),
            LiveValue("gpu0", "clock_event_reasons", "gauge", 4.0, 9),
        ),
    }
    return LivePage(**(given | values))


def registry(*runs):
    collectors = CollectorRegistry(auto_describe=False)
    collectors.register(RunsCollector(lambda: list(runs)))
    return collectors


def run(name="r", id_="i", **values):
    meta = {
        "id": id_,
        "name": name,
        "host": "h",
        "started": "s",
        "anchor": {"wall_ns": 10**18, "monotonic_ns": 0},
        "begin_ns": 10**9,
    }
    return live_run(meta, Live((page(**values),)))


def samples(text, parse=text_in):
    return {
        (s.name, tuple(sorted(s.labels.items()))): s.value
        for family in parse(text)
        for s in family.samples
    }


def value(metrics, metric, /, **labels):
    (matching,) = [
        v for (n, at), v in metrics.items() if n == metric and set(labels.items()) <= set(at)
    ]
    return matching


def test_counters_gauges_and_the_refused():
    metrics = samples(generate_latest(registry(run())).decode())
    assert value(metrics, "phasewatt_gpu_energy_joules_total", device="gpu0", run="i") == 1000.0
    assert value(metrics, "phasewatt_gpu_power_watts") == 250.0
    assert value(metrics, "phasewatt_cpu_modelled_power_watts") == 10.0
    assert value(metrics, "phasewatt_phase_energy_joules_total", phase="forward") == 600.0
    assert value(metrics, "phasewatt_phase_energy_joules_total", phase="unattributed") == 400.0
    assert value(metrics, "phasewatt_phase_energy_estimate_joules", bound="lower") == 600.0
    assert not [
        k
        for k in metrics
        if k[0].startswith("phasewatt_phase_energy_estimate") and ("phase", "data") in k[1]
    ]
    assert value(metrics, "phasewatt_phase_time_seconds_total", rank="0") == 3.0
    assert value(metrics, "phasewatt_gpu_utilization_ratio") == 0.5
    assert value(metrics, "phasewatt_gpu_clock_hertz", domain="sm") == 1.4e9
    assert value(metrics, "phasewatt_gpu_throttled_seconds_total", reason="power_cap") == 2.5
    assert value(metrics, "phasewatt_run_info", name="r") == 1.0
    assert not [k for k in metrics if "cpu_energy" in k[0]]  # a model is never a measured joule


def test_a_run_of_a_batch_job_has_its_labels():
    job = {"scheduler": "slurm", "job_id": "77", "account": "ml", "step_id": "0"}
    metrics = samples(generate_latest(registry(replace(run(), scheduler=job))).decode())
    assert value(metrics, "phasewatt_run_info", slurm_job_id="77", slurm_account="ml") == 1.0
    assert not [k for k in metrics if k[0] == "phasewatt_run_info" and "step_id" in str(k[1])]


def test_openmetrics_with_an_exemplar():
    text = openmetrics_of(registry(run())).decode()
    steps = next(f for f in openmetrics_in(text) if f.name == "phasewatt_steps")
    (total,) = [s for s in steps.samples if s.name == "phasewatt_steps_total"]
    assert total.exemplar.labels == {"step": "7"}
    assert text.endswith("# EOF\n")


@pytest.mark.parametrize(
    ("write", "parse"), [(generate_latest, text_in), (openmetrics_of, openmetrics_in)]
)
def test_hostile_names_stay_one_label(write, parse):
    phases = (LivePhase(HOSTILE, "gpu0", 1.0),)
    text = write(registry(run(name=HOSTILE, id_=HOSTILE, phases=phases, node=HOSTILE))).decode()
    metrics = samples(text, parse)
    assert value(metrics, "phasewatt_phase_energy_joules_total", phase=label(HOSTILE)) == 1.0
    assert all(len(v) <= LONGEST for _, at in metrics for _, v in at)
    assert max(map(len, text.splitlines())) < 2000
    assert label("\ud800") == "?"  # half a character is none


def test_a_flood_of_phase_names_is_bounded_and_nothing_is_lost():
    phases = tuple(LivePhase(f"p{i}", "gpu0", float(i)) for i in range(1000))
    metrics = samples(generate_latest(registry(run(phases=phases))).decode())
    by_phase = {
        dict(at)["phase"]: v
        for (n, at), v in metrics.items()
        if n == "phasewatt_phase_energy_joules_total"
    }
    assert len(by_phase) == MOST_PHASES + 1 and REST in by_phase
    assert sum(by_phase.values()) == pytest.approx(sum(range(1000)))


def test_several_runs_side_by_side():
    metrics = samples(generate_latest(registry(run(id_="a"), run(id_="b"))).decode())
    assert value(metrics, "phasewatt_steps_total", run="a") == value(
        metrics, "phasewatt_steps_total", run="b"
    )


@pytest.mark.parametrize(
    "address",
    [
        {"host": "0.0.0.0"},
        {"host": "::"},
        {"host": "192.0.2.7"},
        {"port": 70000},
        {"certfile": "x.pem"},
    ],
)
def test_addresses_that_are_refused(address):
    with pytest.raises(ExportRefused):
        Address(**address)


def test_loopback_needs_no_token_others_may_listen_with_one():
    Address("127.0.0.1"), Address("::1"), Address("localhost"), Address("0.0.0.0", token="t")
