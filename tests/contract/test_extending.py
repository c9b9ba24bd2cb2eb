"""Every example of docs/EXTEND.md does what the page says, written down as the page has it."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

import dashboard.pages
from dashboard.access import Access
from dashboard.app import create_app
from dashboard.pages import pages
from exporters import ExportRefused, StoredRun, exporter_of
from probe.report.formats import render
from probe.store.runs import create_run
from tests.fakes import processes
from tests.fakes.exported_runs import PLAIN, stored_run
from tests.fakes.recordings import RecordedRuns, needs
from tests.fakes.reports import full_report

PAGE = (processes.ROOT / "docs/EXTEND.md").read_text(encoding="utf-8")
BLOCKS = {
    match["name"]: match["code"]
    for match in re.finditer(
        r"^```python\n# (?P<name>\w+\.py)\n(?P<code>.*?)^```", PAGE, re.MULTILINE | re.DOTALL
    )
}

# A training under the page's hook, by a framework of three calls.
FRAMEWORK = (
    processes.AWAIT_RECORDER
    + """
import sys
import torch
from my_framework import EnergyHook
from probe.session.watch import active_run

class Trainer:
    epochs = 2
    model = torch.nn.Linear(4, 1)
    logged = []
    def log(self, numbers): self.logged.append(numbers)
    def fit(self, hook):
        hook.on_begin(self)
        await_recorder(active_run())
        print(active_run().path)
        optimizer = torch.optim.SGD(self.model.parameters(), 0.1)
        for _ in range(5 * self.epochs):
            batch = torch.randn(8, 4), torch.randn(8, 1)
            self.model(batch[0]).sum().backward()
            optimizer.step()
            hook.on_batch(self, batch)
        hook.on_end(self)
        assert active_run() is None

Trainer().fit(EnergyHook(name="framework"))
"""
)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The page's modules and entry points, as an installed package that this process finds."""
    folder = tmp_path / "site"
    about = folder / "my_package-1.0.dist-info"
    about.mkdir(parents=True)
    for name, code in BLOCKS.items():
        (folder / name).write_text(code, encoding="utf-8")
        monkeypatch.delitem(sys.modules, name.removesuffix(".py"), raising=False)
    (announced,) = re.findall(r"^```toml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    groups = tomllib.loads(announced)["project"]["entry-points"]
    about.joinpath("METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1.0\n")
    about.joinpath("entry_points.txt").write_text(
        "\n".join(
            f"[{group}]\n" + "".join(f"{name} = {what}\n" for name, what in entries.items())
            for group, entries in groups.items()
        )
    )
    monkeypatch.syspath_prepend(str(folder))
    return folder


def environment(package: Path, **more: str) -> dict[str, str]:
    return {"PYTHONPATH": f"{processes.ROOT}:{package}", **more}


def test_the_page_has_an_example_of_each_kind() -> None:
    names = "battery phase_lines one_line double_batch longest my_framework"
    assert list(BLOCKS) == [f"{name}.py" for name in names.split()]


def test_the_sensor_records_what_the_kernel_shows(package: Path, tmp_path: Path) -> None:
    battery = tmp_path / "sys/class/power_supply/BAT0"
    battery.mkdir(parents=True)
    (battery / "power_now").write_text("12500000\n")
    extra = environment(package, PROBE_SYS_ROOT=str(tmp_path / "sys"))
    script = (
        processes.AWAIT_RECORDER
        + "import probe\nwith probe.watch(name='laptop') as run:\n    print(run.path, flush=True)\n"
        + "    await_source(run, 'battery:BAT0:power')\n    time.sleep(2.5)\n"
    )
    done = processes.run(script, tmp_path, extra=extra)
    assert done.returncode == 0, done.stderr
    run = StoredRun(Path(done.stdout.split()[0]))
    (power,) = [s for s in run.reader.series() if s.source.id == "battery:BAT0:power"]
    assert len(power.value) and {float(watts) for watts in power.value} == {12.5}


def test_a_battery_that_cannot_be_read_is_no_zero(package: Path, tmp_path: Path) -> None:
    battery = tmp_path / "sys/class/power_supply/BAT0"
    battery.mkdir(parents=True)
    (battery / "power_now").write_text("1000000")
    code = """
import sys
from pathlib import Path
from probe.errors import SensorUnavailable
from probe.model import Gap, Sample
from probe.sensors import SensorContext, discover_sensors
sensor = discover_sensors()["battery"](SensorContext(sys_root=Path("sys")))
sensor.open()
assert [type(r) for r in sensor.read()] == [Sample]
file = Path("sys/class/power_supply/BAT0/power_now")
file.write_text("no number")
(gap,) = sensor.read()
assert isinstance(gap, Gap) and "ValueError" in gap.reason
file.unlink()
try:
    sensor.open()
except SensorUnavailable as error:
    print(error.remedy)
"""
    done = processes.run(code, tmp_path, extra=environment(package))
    assert done.returncode == 0, done.stderr
    assert done.stdout == "unplug the laptop\n"


@needs(PLAIN)
def test_the_exporter_writes_a_stored_run(
    package: Path, tmp_path: Path, recorded_runs: RecordedRuns
) -> None:
    run = stored_run(recorded_runs[PLAIN])
    written = tmp_path / "phases.jsonl"
    said = exporter_of("phase-lines", {"unit": "kWh"}).export(run, written)
    lines = [json.loads(line) for line in written.read_text().splitlines()]
    assert said == f"{written}: {len(lines)} phases"
    rows = run.report.phases
    assert [line["seconds"] for line in lines] == [row.time_s for row in rows]
    for line, row in zip(lines, rows, strict=True):
        assert ("energy" in line) == (row.energy_j is not None)
        assert row.energy_j is None or line["energy"] == row.energy_j / 3.6e6
    with pytest.raises(ExportRefused, match="choose from J, kWh"):
        exporter_of("phase-lines", {"unit": "cal"}).export(run, written)


def test_the_format_shows_what_is_known(package: Path) -> None:
    report = full_report()
    line = render(report, "one-line")
    assert isinstance(line, str) and line.startswith(report.run.title)
    joules = report.total.energy_j
    assert joules is not None and f"{joules:.0f} J" in line


def test_the_technique_changes_the_plan(package: Path) -> None:
    pytest.importorskip("torch")
    from optimizers import Plan, Stack
    from optimizers.errors import TechniqueRefused

    stack = Stack.of("double_batch(times=4),schedule")
    assert stack.plan(Plan(batch_size=8)).batch_size == 32
    assert "4 times fewer steps" in stack.table(Plan(batch_size=8))
    with pytest.raises(TechniqueRefused, match="2 or more"):
        Stack.of("double_batch(times=1)").plan(Plan(batch_size=8))


def test_the_page_of_the_dashboard_lists_runs(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    extra = tmp_path / "pages"
    extra.mkdir()
    (extra / "longest.py").write_text(BLOCKS["longest.py"])
    runs = tmp_path / "runs"
    runs.mkdir()
    create_run(runs, "20260101-000000-abc", shared=False, fields={"name": "the first"})
    monkeypatch.setattr(dashboard.pages, "__path__", [*dashboard.pages.__path__, str(extra)])
    pages.cache_clear()
    try:
        app = create_app(runs, Access())
        layout = json.dumps(app.test_client().get("/_dash-layout").get_json())
        assert '"/longest"' in layout
        shown = pages()["dashboard.pages.longest"].layout(
            SimpleNamespace(library=SimpleNamespace(rows=lambda: ROWS)),  # type: ignore[arg-type]
            {},
        )
        text = json.dumps(shown.to_plotly_json(), default=lambda part: part.to_plotly_json())
        assert text.index("the longer") < text.index("no name: its id")
        assert "61 s" in text and "unknown" not in text
    finally:
        pages.cache_clear()
        sys.modules.pop("dashboard.pages.longest", None)


ROWS = [
    {"id": "no name: its id", "name": "", "duration_s": 2.0},
    {"id": "2", "name": "the longer", "duration_s": 61.2},
    {"id": "3", "name": "unknown", "duration_s": None},
]


def test_the_integration_records_a_training(package: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    done = processes.run(FRAMEWORK, tmp_path, extra=environment(package))
    assert done.returncode == 0, done.stderr
    report = StoredRun(Path(done.stdout.split()[0])).report
    assert report.run.name == "framework" and report.run.status == "finished"
    assert report.run.steps == 10
    assert report.run.config == {"epochs": 2}
    assert report.values["samples"].sum == 80
