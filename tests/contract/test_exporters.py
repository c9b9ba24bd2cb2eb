"""What every exporter promises: the report's figures, whole files, else one clear line."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from urllib.request import urlopen

import pytest
from google.protobuf import json_format
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

from exporters import ExportRefused, StoredRun, exporter_of, exporters
from probe.cli.main import main
from probe.report.model import Totals
from probe.store.reader import last_sample_ns
from probe.store.runs import create_run
from tests.fakes import processes
from tests.fakes.exported_runs import HOSTILE, HOSTILE_PLAIN, PLAIN, stored_run
from tests.fakes.nvml import NvmlRig
from tests.fakes.otlp_collector import Collector, figures
from tests.fakes.recordings import RecordedRuns, needs

TRACKERS = ("mlflow", "tensorboard", "trackio", "wandb")  # they own what they write
SENT = ("pushgateway",)  # no file at all
OPTIONS = {"sci": {"embodied_g": "120", "per": "100"}}

pytestmark = needs(PLAIN, HOSTILE_PLAIN)


@pytest.fixture(scope="module")
def stored(recorded_runs: RecordedRuns) -> StoredRun:
    return stored_run(recorded_runs[PLAIN])


@pytest.fixture(scope="module")
def hostile(recorded_runs: RecordedRuns) -> StoredRun:
    return stored_run(recorded_runs[HOSTILE_PLAIN])


def names() -> list[str]:
    return sorted(exporters())


def refused(words: list[str], capsys: pytest.CaptureFixture[str], *, code: int = 1) -> str:
    """The one line that `probe export …` says before it ends with ``code``."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(["export", *words])
    (line,) = capsys.readouterr().err.splitlines()
    assert ended.value.code == code, line
    return line


def options_of(name: str) -> list[str]:
    return [f"--set={key}={value}" for key, value in OPTIONS.get(name, {}).items()]


def export(name: str, run: StoredRun, output: Path) -> str:
    return exporter_of(name, OPTIONS.get(name)).export(run, output)


def test_the_destinations_that_are_promised() -> None:
    assert set(names()) >= {
        "prometheus",
        "codecarbon",
        "huggingface",
        "sci",
        "mllog",
        "boamps",
        "grafana",
        "parquet",
        "perfetto",
        "chrome",
        "otlp",
        *TRACKERS,
        *SENT,
    }


@pytest.mark.parametrize("name", sorted(set(names()) - {*TRACKERS, *SENT}))
def test_it_writes_one_whole_file_and_says_so(name: str, stored: StoredRun, tmp_path: Path) -> None:
    output = tmp_path / "new" / "file"
    said = export(name, stored, output)
    assert said.startswith(str(output)) and "\n" not in said
    assert os.listdir(output.parent) == ["file"] and output.stat().st_size > 100
    first = output.read_bytes()
    export(name, stored, output)
    assert output.read_bytes() == first  # the same run twice is the same file


@pytest.mark.parametrize("name", sorted(set(names()) - {*TRACKERS, *SENT}))
def test_a_hostile_name_stays_inside(name: str, hostile: StoredRun, tmp_path: Path) -> None:
    output = tmp_path / "file"
    export(name, hostile, output)
    assert os.listdir(tmp_path) == ["file"]
    if name == "mllog":
        assert all(line.startswith(":::MLLOG {") for line in output.read_text().splitlines())
    if name == "codecarbon":
        with open(output, newline="", encoding="utf-8") as file:
            (row,) = csv.DictReader(file)
        assert row["project_name"] == HOSTILE


@pytest.mark.parametrize("name", sorted(set(names()) - {*SENT}))
def test_what_cannot_be_written_leaves_nothing(
    name: str, stored: StoredRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    with pytest.raises(OSError):
        export(name, stored, blocked / "below")
    assert os.listdir(tmp_path) == ["file"]
    output = ["-o", str(blocked / "below")]
    words = [str(stored.path), "--to", name, *output, *options_of(name)]
    assert "cannot write" in refused(words, capsys)
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--to", "nowhere"], "no exporter 'nowhere' (there are"),
        (["--to", "sci"], "embodied"),
        (["--to", "sci", "--set", "embodied_g=heavy"], "is not a number"),
        (["--to", "sci", "--set", "colour=red"], "no option 'colour'"),
        (["--to", "sci", "--set", "embodied_g"], "write OPTION=VALUE"),
        (["--to", "perfetto", "--set", "steps=9:2"], "steps="),
        (["--to", "chrome", "--set", "merge=/nowhere.json"], "cannot read"),
        (["--to", "otlp", "--set", "endpoint=localhost"], "is not a URL"),
        (["--to", "pushgateway"], "--set url="),
        (["--to", "parquet", "--set", "table=edges"], "write samples or spans"),
        (["--to", "pushgateway", "--set", "url=http://127.0.0.1:9"], "did not take the figures"),
        (["--to", "otlp", "--set", "endpoint=http://127.0.0.1:9"], "did not take the metrics"),
    ],
)
def test_bad_words_get_one_clear_line(
    words: list[str],
    said: str,
    stored: StoredRun,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert said in refused([str(stored.path), *words, "-o", str(tmp_path / "x")], capsys)
    assert not (tmp_path / "x").exists()


def test_an_empty_run_gets_one_clear_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = create_run(tmp_path / "runs", "empty", shared=False, fields={"name": "empty"})
    for name in names():
        words = [str(run), "--to", name, "-o", str(tmp_path / "x"), *options_of(name)]
        assert "holds nothing yet" in refused(words, capsys, code=2), name
    assert not (tmp_path / "x").exists()


def test_a_run_that_goes_on_says_so_and_its_file_is_whole(tmp_path: Path) -> None:
    rig = NvmlRig(tmp_path, gpus=1, power_w=200.0, period_s=0.1)
    process = processes.start(processes.PLAIN, tmp_path, "600", extra=rig.env())
    assert process.stdout is not None
    run = process.stdout.readline().strip()
    try:
        assert processes.wait_until(lambda: any(map(last_sample_ns, Path(run).glob("node-*"))))
        for name in ("prometheus", "codecarbon", "perfetto"):
            output = tmp_path / "out" / name
            output.parent.mkdir(exist_ok=True)
            out = processes.probe(tmp_path, "export", run, "--to", name, "-o", str(output))
            assert out.returncode == 0, out.stderr
            assert "still going on" in out.stdout and len(out.stdout.splitlines()) == 1
            assert output.exists() and not list(output.parent.glob(".*"))
    finally:
        process.kill()
        process.communicate()


def test_a_package_that_is_missing_is_named(
    stored: StoredRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    for name, package in (
        ("perfetto", "perfetto.trace_builder.proto_builder"),
        ("huggingface", "huggingface_hub"),
        ("otlp", "opentelemetry.sdk.metrics"),
    ):
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(ExportRefused, match="pip install"):
            export(name, stored, tmp_path / "x")
    assert not list(tmp_path.iterdir())


# -- the figures ---------------------------------------------------------------------------


@pytest.fixture
def total(stored: StoredRun) -> Totals:
    reported = stored.report.total
    assert reported.energy_j == pytest.approx(400.0 * stored.report.run.duration_s, rel=0.03)
    return reported


def modelled(stored: StoredRun) -> float:
    return float(stored.report.total.modelled_energy_j or 0.0)


def test_prometheus_figures(stored: StoredRun, total: Totals, tmp_path: Path) -> None:
    from prometheus_client.parser import text_string_to_metric_families as parse

    export("prometheus", stored, tmp_path / "x")
    exported = [s for f in parse((tmp_path / "x").read_text()) for s in f.samples]
    energy = {
        s.labels["bound"]: s.value for s in exported if s.name == "phasewatt_run_energy_joules"
    }
    assert energy["best"] == total.energy_j
    assert [energy["lower"], energy["upper"]] == list(total.energy_j_interval or ())
    phases = {
        (s.labels["device"], s.labels["phase"], s.labels["bound"]): s.value
        for s in exported
        if s.name == "phasewatt_phase_energy_estimate_joules"
    }
    with_energy = [row for row in stored.report.phases if row.energy_j is not None]
    rows = [row for row in with_energy if not row.is_modelled]
    modelled_phases = {
        (s.labels["device"], s.labels["phase"]): s.value
        for s in exported
        if s.name == "phasewatt_phase_modelled_energy_joules"
    }
    assert modelled_phases == {
        (row.device, row.phase): row.energy_j for row in with_energy if row.is_modelled
    }
    assert len(rows) == sum(key[2] == "best" for key in phases)
    for row in rows:
        assert phases[row.device, row.phase, "best"] == row.energy_j


@pytest.mark.skipif(
    shutil.which("prometheus-pushgateway") is None,
    reason="needs a gateway (Debian: apt-get install prometheus-pushgateway)",
)
def test_a_real_gateway_holds_each_run_once(
    stored: StoredRun,
    hostile: StoredRun,
    total: Totals,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    port = processes.free_port()
    kept = tmp_path_factory.mktemp("gateway") / "kept"  # Debian's keeps its figures for the next
    gateway = subprocess.Popen(
        [
            "prometheus-pushgateway",
            f"--web.listen-address=127.0.0.1:{port}",
            f"--persistence.file={kept}",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    url = f"http://127.0.0.1:{port}"

    def ready() -> bool:
        with contextlib.suppress(OSError):
            return bool(urlopen(f"{url}/-/ready").read())
        return False

    try:
        assert processes.wait_until(ready)
        for run in (stored, hostile, stored):
            said = exporter_of("pushgateway", {"url": url}).export(run, tmp_path / "x")
            assert said == f"{url}: final figures of {run.id} pushed"
        from prometheus_client.parser import text_string_to_metric_families as parse

        exported = [
            s
            for f in parse(urlopen(f"{url}/metrics").read().decode())
            for s in f.samples
            if s.name == "phasewatt_run_energy_joules" and s.labels["bound"] == "best"
        ]
        assert {s.labels["run"]: s.value for s in exported} == {
            stored.id: total.energy_j,
            hostile.id: hostile.report.total.energy_j,
        }
        assert len(exported) == 2 and not list(tmp_path.iterdir())
    finally:
        gateway.terminate()
        gateway.wait(timeout=processes.HUNG_S)


def test_codecarbon_figures_and_other_rows(
    stored: StoredRun, hostile: StoredRun, total: Totals, tmp_path: Path
) -> None:
    import pandas

    path = tmp_path / "emissions.csv"
    export("codecarbon", hostile, path)
    export("codecarbon", stored, path)
    export("codecarbon", stored, path)  # again: replaced, not doubled
    table = pandas.read_csv(path)
    assert len(table) == 2
    row = table[table.run_id == stored.id].iloc[0]
    assert row.gpu_energy * 3.6e6 == pytest.approx(total.energy_j)
    assert row.energy_consumed * 3.6e6 == pytest.approx(total.energy_j + modelled(stored))
    assert row.emissions * 1e3 == pytest.approx(total.co2e_g + total.modelled_co2e_g)
    assert row.gpu_power == pytest.approx(400.0, rel=0.03)
    assert row.duration == pytest.approx(stored.report.run.duration_s)
    assert row.country_iso_code == "FRA" and row.country_name == "France"
    assert row.gpu_count == 2
    # CodeCarbon's own dashboard reads it.
    from codecarbon.viz.data import Data

    summary = Data().get_project_summary(Data.get_project_data(table, stored.name).data)
    assert summary["total"]["emissions"] == pytest.approx(row.emissions)


def test_huggingface_round_trip(stored: StoredRun, total: Totals, tmp_path: Path) -> None:
    from huggingface_hub import ModelCard

    export("huggingface", stored, tmp_path / "card.md")
    written = ModelCard.load(tmp_path / "card.md").data.to_dict()["co2_eq_emissions"]
    assert written["emissions"] == pytest.approx(total.co2e_g + total.modelled_co2e_g)  # grams
    assert written["geographical_location"] == "France" and written["hardware_used"].startswith(
        "2 x "
    )


def test_sci_figures(stored: StoredRun, total: Totals, tmp_path: Path) -> None:
    export("sci", stored, tmp_path / "x")
    written = json.loads((tmp_path / "x").read_text())
    energy = written["E"]["value"] * written["I"]["value"]
    assert energy == pytest.approx(total.co2e_g + total.modelled_co2e_g)
    assert written["M"]["value"] == 120 and written["R"]["value"] == pytest.approx(150 * 8 / 100)
    assert written["sci"] == pytest.approx((energy + 120) / 12)


def test_otlp_figures_arrive_at_a_collector(
    stored: StoredRun, total: Totals, tmp_path: Path
) -> None:
    with Collector() as collector:
        exporter = exporter_of("otlp", {"endpoint": collector.url})
        said = exporter.export(stored, tmp_path / "x")
    assert said.startswith(f"{collector.url}/v1/metrics: ") and not (tmp_path / "x").exists()
    (request,) = collector.requests
    sent = figures(request.resource_metrics[0])
    export("otlp", stored, tmp_path / "file")
    (line,) = (tmp_path / "file").read_text().splitlines()
    assert (
        figures(json_format.ParseDict(json.loads(line), MetricsData()).resource_metrics[0]) == sent
    )
    about = request.resource_metrics[0].resource.attributes
    resource = {attribute.key: attribute.value.string_value for attribute in about}
    assert resource["phasewatt.run.id"] == stored.id and resource["service.name"] == "phasewatt"
    cards = {key: value for key, value in sent.items() if key[0] == "hw.energy"}
    assert len(cards) == 2 and sum(cards.values()) == pytest.approx(total.energy_j)
    assert all(("hw.type", "gpu") in key for key in cards)
    assert sent["phasewatt.run.energy", ("phasewatt.bound", "best")] == total.energy_j
    for row in stored.report.phases:
        if row.energy_j is not None and not row.is_modelled:
            low, high = row.energy_j_interval or (None, None)
            bounds = {
                dict(key[1:])["phasewatt.bound"]: value
                for key, value in sent.items()
                if key[0] == "phasewatt.phase.energy_estimate"
                and ("phasewatt.phase", row.phase) in key
                and ("hw.name", row.device) in key
            }
            assert bounds["best"] == row.energy_j
            assert bounds.get("lower") == low and bounds.get("upper") == high


def test_boamps_figures(stored: StoredRun, total: Totals, tmp_path: Path) -> None:
    from codecarbon.output_methods.boamps.models import BoAmpsReport

    export("boamps", stored, tmp_path / "x")
    written = json.loads((tmp_path / "x").read_text())
    (measure,) = written["measures"]
    joules = total.energy_j + modelled(stored)
    assert measure["powerConsumption"] * 3.6e6 == pytest.approx(joules)
    assert measure["measurementMethod"] == "phasewatt"
    assert BoAmpsReport.from_dict(written).to_dict() == written


def test_mllog_readings_hold_the_energy(stored: StoredRun, total: Totals, tmp_path: Path) -> None:
    export("mllog", stored, tmp_path / "x")
    lines = [
        json.loads(line.removeprefix(":::MLLOG "))
        for line in (tmp_path / "x").read_text().splitlines()
    ]
    assert "not a valid MLPerf" in lines[0]["metadata"]["warning"]
    joules = sum(
        line["value"] * line["metadata"]["seconds"]
        for line in lines
        if line["key"] == "power_reading"
    )
    assert joules == pytest.approx(total.energy_j, rel=1e-3)


def test_parquet_tables_hold_the_joules_and_the_seconds(
    stored: StoredRun, total: Totals, tmp_path: Path
) -> None:
    import pandas

    export("parquet", stored, tmp_path / "samples")
    table = pandas.read_parquet(tmp_path / "samples")
    seconds = table.time.map(lambda at: at.timestamp())
    inside = (seconds >= stored.begin_s) & (seconds <= stored.end_s)
    energy = table[(table.quantity == "energy") & inside]
    spent = energy.groupby("device", observed=True).value.agg(lambda v: v.max() - v.min())
    # Between the first and the last reading inside: two updates of two cards are missing at most.
    extrapolated = (1 - total.coverage) * total.energy_j
    assert spent.sum() == pytest.approx(total.energy_j, abs=4 * 0.1 * 200.0 + extrapolated)
    assert set(energy.unit) == {"J"} and str(table.time.dt.tz) == "UTC"
    assert abs(table.time.iloc[0].timestamp() - stored.begin_s) < 20.0  # the recorder's start
    exporter_of("parquet", {"table": "spans"}).export(stored, tmp_path / "spans")
    spans = pandas.read_parquet(tmp_path / "spans")
    spent = (spans.end - spans.begin).dt.total_seconds().groupby(spans.phase, observed=True).sum()
    rows = {r.phase: r.time_s for r in stored.report.phases if r.device == "gpu0"}
    assert spent["forward"] == pytest.approx(rows["forward"], rel=1e-6)
    assert spans.step.is_monotonic_increasing and set(spans.clock) == {"host"}


def slices(path: Path) -> Iterator[tuple[str, int, int]]:
    """(track, begin, end) of a native trace; raises if begins and ends do not match."""
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos

    trace = protos.Trace.FromString(path.read_bytes())
    names: dict[int, str] = {}
    tracks: dict[int, str] = {}
    open_: dict[int, list[tuple[str, int]]] = {}
    for packet in trace.packet:
        if packet.HasField("track_descriptor"):
            tracks[packet.track_descriptor.uuid] = packet.track_descriptor.name
        for interned in packet.interned_data.event_names:
            names[interned.iid] = interned.name
        event = packet.track_event
        if not packet.HasField("track_event"):
            continue
        if event.type == event.TYPE_SLICE_BEGIN:
            assert event.name_iid in names
            open_.setdefault(event.track_uuid, []).append((names[event.name_iid], packet.timestamp))
        elif event.type == event.TYPE_SLICE_END:
            _, begin = open_[event.track_uuid].pop()
            yield tracks[event.track_uuid], begin, packet.timestamp
    assert not any(open_.values())


def test_perfetto_slices_nest_and_add_up(stored: StoredRun, tmp_path: Path) -> None:
    export("perfetto", stored, tmp_path / "x")
    slices_read = list(slices(tmp_path / "x"))
    spent = sum(end - begin for track, begin, end in slices_read if track == "phases") / 1e9
    rows = [
        r
        for r in stored.report.phases
        if r.device == "gpu0" and r.phase not in ("unattributed", "unresolved")
    ]
    assert spent == pytest.approx(sum(r.time_s for r in rows), rel=1e-6)
    assert all(begin <= end for _, begin, end in slices_read)


@pytest.mark.full
def test_chrome_lies_over_a_profile_of_the_same_run(tmp_path: Path) -> None:
    script = f"""
    import sys, time
    sys.path.insert(0, {str(processes.ROOT)!r})
    import torch, probe
    with probe.watch() as run:
        time.sleep(1.5)
        with torch.profiler.profile() as profiler:
            for _ in range(3):
                with run.phase("ours"), torch.profiler.record_function("theirs"):
                    time.sleep(0.03)
        profiler.export_chrome_trace(sys.argv[1])
    """
    profile = tmp_path / "profile.json"
    done = processes.run(script, tmp_path, str(profile))
    assert done.returncode == 0, done.stderr
    run = StoredRun(next((tmp_path / "runs").iterdir()))
    exporter_of("chrome", {"merge": str(profile)}).export(run, tmp_path / "both.json")
    events = json.loads((tmp_path / "both.json").read_text())["traceEvents"]
    assert len(events) > len(json.loads(profile.read_text())["traceEvents"])
    ours, theirs = (
        sorted(
            (e["ts"], e["dur"])
            for e in events
            if e.get("ph") == "X" and e["name"] == name and e.get("cat") != "gpu_user_annotation"
        )
        for name in ("ours", "theirs")
    )
    assert len(ours) == len(theirs) == 3
    # µs; the same moments on both clocks. A busy machine may pause between the two begins.
    gaps = [other - our_time for (our_time, _), (other, _) in zip(ours, theirs, strict=True)]
    assert min(map(abs, gaps)) < 3000
    assert all(-3000 < gap < took for gap, (_, took) in zip(gaps, ours, strict=True))
    assert all(took > 29_000 for _, took in ours)


def test_energy_is_weighted_by_when_it_was_used(
    stored: StoredRun, total: Totals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    middle = (stored.begin_s + stored.end_s) / 2
    times = [
        datetime.fromtimestamp(at, UTC).isoformat()
        for at in (stored.begin_s - 10, middle, stored.end_s + 10)
    ]
    path = tmp_path / "grid.csv"
    path.write_text(
        "time,carbon_intensity\n"
        + "".join(f"{at},{value}\n" for at, value in zip(times, (100, 300, 0), strict=True))
    )
    out = processes.probe(
        tmp_path,
        "report",
        str(stored.path),
        "--format",
        "json",
        "--intensity",
        str(path),
        "--price",
        "0.25 EUR",
    )
    assert out.returncode == 0, out.stderr
    report = json.loads(out.stdout)
    written, kwh = report["total"], total.energy_j / 3.6e6
    assert written["co2e_g"] == pytest.approx(200 * kwh, rel=0.02)  # half at 100, half at 300
    assert written["cost"] == pytest.approx(0.25 * kwh) and report["cost"]["currency"] == "EUR"
    # Whoever multiplies energy by the mean gets the same.
    monkeypatch.setenv("PROBE_INTENSITY", str(path))
    again = StoredRun(stored.path)
    export("sci", again, tmp_path / "x")
    sci = json.loads((tmp_path / "x").read_text())
    both = again.report.total.co2e_g + again.report.total.modelled_co2e_g
    assert sci["E"]["value"] * sci["I"]["value"] == pytest.approx(both)
    text = processes.probe(tmp_path, "report", str(stored.path), extra={"PROBE_PRICE": "cheap"})
    assert text.returncode == 0 and "PROBE_PRICE" in text.stdout
    bad = processes.probe(tmp_path, "report", str(stored.path), "--price", "cheap")
    assert bad.returncode == 1 and len(bad.stderr.splitlines()) == 1


def test_options_do_not_leak_into_the_next_export() -> None:
    exporter = exporter_of("sci", {"embodied_g": "5"})
    assert replace(exporter) == exporter  # type: ignore[type-var]
    assert exporter_of("sci").embodied_g is None  # type: ignore[attr-defined]
    assert not re.search(r"\s", exporter.name)
