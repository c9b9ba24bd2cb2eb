"""`probe compare`, `advise` and `tables` over runs that the real recorder made."""

from __future__ import annotations

import csv
import functools
import io
import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import numpy as np
import pytest

from probe.cli.main import main
from probe.store import files
from probe.store.reader import RunReader
from tests.fakes import processes
from tests.fakes.nvml import NvmlRig
from tests.fakes.recordings import RecordedRuns, Recording, needs
from tests.fakes.selection import rows_one_in
from tests.scripts import SCRIPTS

SCRIPT = SCRIPTS / "train_for_compare.py"
STEPS = 120


def train(
    folder: Path, name: str, seed: int, steps: int = STEPS, rig: NvmlRig | None = None, **given: Any
) -> None:
    env = processes.environment(folder / "runs", rig.env() if rig else {})
    done = subprocess.run(
        [sys.executable, str(SCRIPT), name, str(seed), str(steps), json.dumps(given)],
        env=env,
        capture_output=True,
        text=True,
        timeout=processes.HUNG_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def compared(folder: Path, *words: str) -> dict[str, Any]:
    out = processes.probe(folder, "compare", *words, "--format", "json")
    assert out.returncode == 0, out.stderr
    return dict(json.loads(out.stdout))


SIDES = {"base": {}, "half": {"backward_ms": 15.0}, "wait": {"data_ms": 24.0}}


def _record(name: str, seed: int, folder: Path) -> None:
    """On a rig of its own, with the same card in it as all others."""
    rig = NvmlRig(folder, gpus=1, power_w=60.0, period_s=0.1, jitter_s=0.0002)
    train(folder, name, seed, rig=rig, target="accuracy>=0.75", **SIDES[name])


RUNS = [
    Recording(f"compared-{name}-{seed}", functools.partial(_record, name, seed), 7.0)
    for seed in range(3)
    for name in SIDES
]


pytestmark = [pytest.mark.paced, needs(*RUNS)]


@pytest.fixture(scope="module")
def runs(recorded_runs: RecordedRuns, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Base, one whose backward takes half the time, one with a data wait of 30 %: three seeds."""
    folder = tmp_path_factory.mktemp("compared")
    for recording in RUNS:
        shutil.copytree(recorded_runs[recording] / "runs", folder / "runs", dirs_exist_ok=True)
    return folder


@dataclass(frozen=True)
class Truth:
    """Means over the runs of one name, from their begin to their end."""

    to_target_s: float  # 7.2 of 10 evaluations reach it
    energy_j: float  # what the simulated card drew, also between the phases on a busy machine
    to_target_j: float
    early_j: float  # in the first third of the way to the target
    each_to_target_s: tuple[float, ...]  # by seed
    width_j: float  # of the reports' intervals: the card is not read before the recorder has begun

    @staticmethod
    def of(recorded_runs: RecordedRuns, name: str) -> Truth:
        to_target, energies, to_target_j, early_j, widths = [], [], [], [], []
        for recording in (made for made in RUNS if made.name.startswith(f"compared-{name}-")):
            folder = recorded_runs[recording]
            (run,) = (folder / "runs").glob("*/run.json")
            (rig,) = folder.glob("nvml-rig-*")
            reader = RunReader(run.parent)
            begin_ns, end_ns = reader.begin_ns, reader.end_ns()
            evaluated_ns, _ = reader.values()["eval_accuracy"]
            early_ns, reached_ns = np.interp(
                [7.2 / 3, 7.2], np.arange(11), [begin_ns, *evaluated_ns]
            ).astype(int)
            to_target.append((reached_ns - begin_ns) / 1e9)
            card = NvmlRig.attach(rig)
            energies.append(card.true_energy_j(0, begin_ns, end_ns))
            to_target_j.append(card.true_energy_j(0, begin_ns, int(reached_ns)))
            early_j.append(card.true_energy_j(0, begin_ns, int(early_ns)))
            out = processes.probe(folder, "report", run.parent.name, "--format", "json")
            low, high = json.loads(out.stdout)["total"]["energy_j_interval"]
            assert low <= energies[-1] <= high
            widths.append(high - low)

        def mean(values: list[float]) -> float:
            return sum(values) / len(values)

        return Truth(
            to_target_s=mean(to_target),
            energy_j=mean(energies),
            to_target_j=mean(to_target_j),
            early_j=mean(early_j),
            each_to_target_s=tuple(to_target),
            width_j=mean(widths),
        )


@pytest.fixture(scope="module")
def base(recorded_runs: RecordedRuns) -> Truth:
    return Truth.of(recorded_runs, "base")


@pytest.fixture(scope="module")
def half(recorded_runs: RecordedRuns) -> Truth:
    return Truth.of(recorded_runs, "half")


def test_a_gain_is_found_where_it_is(runs: Path, base: Truth, half: Truth) -> None:
    report = compared(runs, "base", "half")
    assert report["mode"] == "to_target" and report["target"] == {
        "metric": "accuracy",
        "direction": ">=",
        "value": 0.75,
    }
    (comparison,) = report["comparisons"]
    assert len(report["base"]["ids"]) == 3 and comparison["paired"] and comparison["runs"] == 3
    truth = base.to_target_j - half.to_target_j
    low, high = comparison["energy_j"]["interval"]
    assert low <= truth <= high
    # On a busy machine the recorders are late: what was drawn before is a third of the gain.
    late = max(base.width_j, half.width_j) > truth / 3
    assert comparison["verdict"] == "gain" or (late and comparison["verdict"] == "no evidence")
    assert abs(comparison["energy_j"]["gain"] / truth - 1) < (0.5 if late else 0.2)
    assert comparison["energy_j"]["progress"] == 0.0
    assert sum(cell["energy_j"] or 0.0 for cell in comparison["cells"]) == pytest.approx(
        comparison["energy_j"]["gain"], rel=1e-9
    )
    assert sum(cell["time_s"] for cell in comparison["cells"]) == pytest.approx(
        comparison["time_s"]["gain"], rel=1e-9
    )
    if comparison["verdict"] != "gain":
        assert comparison["four"] is None
        return
    # The simulated card tells its activity; where it tells none, memory-bound is not separated.
    assert (comparison["four"]["memory"] is None) == (not report["memory_separated"])
    shares = [share for share in comparison["four"].values() if share is not None]
    assert sum(shares) == pytest.approx(1.0)
    assert {"compute", "waiting", "overhead"} <= comparison["four_rest"].keys()
    # A third of the way, and of the gain unless the machine was busier then.
    early = (base.early_j - half.early_j) / truth
    assert comparison["four"]["early"] == pytest.approx(early, abs=0.1)


def test_every_format_and_a_file(runs: Path) -> None:
    comparisons = compared(runs, "base", "half", "wait")["comparisons"]
    text = processes.probe(runs, "compare", "base", "half", "wait").stdout
    assert all(f"→ {comparison['verdict']}" in text for comparison in comparisons)
    rows = csv.DictReader(
        io.StringIO(
            processes.probe(runs, "compare", "base", "half", "wait", "--format", "csv").stdout
        )
    )
    totals = {row["other"]: row["verdict"] for row in rows if row["stage"] == row["class"] == "all"}
    assert totals == {
        comparison["other"]["name"]: comparison["energy_j"]["verdict"] for comparison in comparisons
    }
    out = processes.probe(runs, "compare", "base", "half", "--format", "html", "-o", "c.html")
    assert out.returncode == 0 and (runs / "c.html").read_text().startswith("<!doctype html>")
    assert "| time |" in processes.probe(runs, "compare", "base", "half", "--format", "md").stdout


def test_sides_by_id_prefix_and_list(runs: Path) -> None:
    by_name = compared(runs, "base", "half")
    ids = ",".join(by_name["base"]["ids"])
    again = compared(runs, ids, "half")
    assert again["comparisons"] == by_name["comparisons"] and again["base"] == by_name["base"]
    comparison = compared(
        runs, by_name["base"]["ids"][0], by_name["comparisons"][0]["other"]["ids"][0]
    )
    (single,) = comparison["comparisons"]
    assert single["verdict"] == "no evidence"
    assert single["energy_j"]["gain"] > 0 and single["energy_j"]["interval"] is None
    assert single["reason"] == "one run a side: no interval; a verdict needs 2 or more runs a side"


def test_another_target_on_the_command_line(runs: Path) -> None:
    easy = compared(runs, "base", "half", "--target", "accuracy>=0.5")
    assert easy["target"]["value"] == 0.5
    hard = compared(runs, "base", "half", "--target", "accuracy>=0.99")["comparisons"][0]
    assert hard["verdict"] == "no evidence" and hard["reason"].startswith("target missed by 3 of 3")
    assert hard["energy_j"]["gain"] is None and hard["four"] is None


def test_advice_ranks_the_wait_first_and_its_bound_holds(runs: Path) -> None:
    out = processes.probe(runs, "advise", "wait", "--json")
    assert out.returncode == 0, out.stderr
    first = json.loads(out.stdout)["advice"][0]
    assert first["what"] == "data wait" and first["rests_on"][0]["phase"] == "data"
    assert 0.25 < first["at_most_s"] / json.loads(out.stdout)["duration_s"] < 0.4
    # Without the wait the same work costs less, by no more than was said.
    comparison = compared(runs, "wait", "base", "--target", "accuracy>=0.75")["comparisons"][0]
    assert 0 < comparison["energy_j"]["gain"] <= first["at_most_j"]
    assert 0 < comparison["time_s"]["gain"] <= first["at_most_s"]
    assert "1. data wait: at most" in processes.probe(runs, "advise", "wait").stdout


def test_tables_of_the_paper(runs: Path, base: Truth, half: Truth) -> None:
    out = processes.probe(runs, "tables", "base", "half", "--format", "json")
    assert out.returncode == 0, out.stderr
    rows = {row["what"]: row for table in json.loads(out.stdout)["tables"] for row in table["rows"]}
    ratio = half.to_target_s / base.to_target_s
    time = rows["time to accuracy ≥ 0.75"]
    assert time["percent"] == pytest.approx(100 * (ratio - 1), abs=2)
    saved_s = np.subtract(base.each_to_target_s, half.each_to_target_s)
    clear = saved_s.mean() > 5 * saved_s.std(ddof=1)  # else the machine was busy; t of 2 is 4.3
    assert time["unit"] == "min" and time["verdict"] == ("gain" if clear else ANY)
    assert time["paper"]["percent"] == {"value": -26.2, "printed": "−26.2"}
    samples = STEPS * 32
    assert rows["energy per sample"]["other"] == pytest.approx(
        half.energy_j / samples, abs=half.width_j / 2 / samples
    )
    assert rows["energy-delay product"]["other"] > 0 and rows["CO2e"]["other"] > 0
    assert rows["communication-bound"]["ours"] == "n/a: one rank"
    for what in ("attention: time", "FLOPs utilisation", "+ mixed precision"):
        assert rows[what]["ours"] == "not measured"
    assert rows["net speed-up (21)"]["value"] == pytest.approx(1 / ratio, rel=0.07)
    assert rows["doubling time (22)(23)"]["value"] > 0
    text = processes.probe(runs, "tables", "base", "half")
    assert "Table IV: scaling over ranks" in text.stdout and "14.8 (exactly 15.0" in text.stdout


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short run of a model without a meter."""
    folder = tmp_path_factory.mktemp("plain")
    train(folder, "base", 0, steps=20, width=4, target="accuracy>=0.75")
    return folder


@pytest.mark.parametrize(
    ("given", "said"),
    rows_one_in(
        2,
        [
            ({"dataset": "another"}, "other data: toy against another"),
            ({"target": "accuracy>=0.5"}, "another target: accuracy>=0.75 against accuracy>=0.5"),
            ({"samples": 7}, "another sample budget, so another schedule: 640 against 7"),
            ({"width": 5}, "another model (names and shapes of its parameters): "),
        ],
    ),
)
def test_what_is_not_comparable_is_named(given: dict[str, Any], said: str, plain: Path) -> None:
    name = "-".join(given)
    train(plain, name, 0, steps=20, **({"target": "accuracy>=0.75"} | given))
    (comparison,) = compared(plain, "base", name)["comparisons"]
    assert not comparison["comparable"] and comparison["verdict"] == "no evidence"
    assert comparison["reason"].startswith(f"not comparable: {said}")


@pytest.mark.parametrize(
    ("given", "reason"),
    rows_one_in(
        2,
        [
            ({"forward_ms": 6.0, "final": 0.6}, "quality: accuracy is 33 % worse"),
            ({"forward_ms": 6.0}, "one run a side"),
            ({"forward_ms": 6.0, "silent": True}, "not comparable: how good the models became is"),
            ({"forward_ms": 6.0, "dataset": "another"}, "not comparable: other data: "),
        ],
    ),
)
def test_other_models_of_the_same_task_are_held_to_their_quality(
    given: dict[str, Any], reason: str, plain: Path
) -> None:
    name = "narrow-" + "-".join(given)
    target = None if "silent" in given else "accuracy>=0.75"
    train(plain, name, 0, steps=20, width=3, target=target, **given)
    report = compared(plain, "base", name, "--same-task")
    (comparison,) = report["comparisons"]
    assert comparison["reason"].startswith(reason), comparison["reason"]
    # A sleep takes its time at least, on a busy machine too: 18 ms of the base, 6 of the other.
    forward = next(row for row in comparison["phases"] if row["phase"] == "forward")
    base_s, other_s = (forward[side]["time_s"] for side in ("base", "other"))
    assert base_s >= 17e-3 / 32 and other_s >= 5e-3 / 32
    assert forward["gain_s"] == pytest.approx(base_s - other_s)
    assert any("taken to do the same job" in line for line in report["warnings"])
    assert not any("may be of training data" in line for line in report["warnings"])
    refused = compared(plain, "base", name)
    assert not refused["comparisons"][0]["comparable"]
    assert any("compared with --same-task" in line for line in refused["warnings"])


def test_other_hardware_is_named(runs: Path, tmp_path: Path) -> None:
    place = tmp_path / "rig"
    place.mkdir()
    rig = NvmlRig(place, gpus=1, power_w=60.0, period_s=0.1)
    rig.gpu(0).name = b"NVIDIA Other"
    (tmp_path / "runs").mkdir()
    train(tmp_path, "other", 0, steps=60, rig=rig, target="accuracy>=0.75", samples=120 * 32)
    base = compared(runs, "base", "half")["base"]["ids"][0]
    (comparison,) = compared(
        runs, str(runs / "runs" / base), str(next((tmp_path / "runs").iterdir()))
    )["comparisons"]
    assert comparison["reason"].startswith("not comparable: other hardware: NVIDIA H100")
    assert "against NVIDIA Other" in comparison["reason"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["compare", "base", "nosuch"], "no run 'nosuch'"),
        (["compare", "base", "base"], "on two sides"),
        (["compare", "base", "half", "--target", "accuracy"], "write for example 'accuracy>=0.95'"),
        (["compare", "base", "half", "--target", "f1>=0.5"], "did not log f1, the target's metric"),
        (["compare", "base", "half", "--format", "xml"], "--format: no 'xml' (there are text"),
        (["compare", "base,half", "wait"], None),
        (["compare", "base"], "arguments are required: OTHER"),
        (["compare", "base", "half", "-o", "/nosuch/c.html"], "cannot write /nosuch/c.html"),
        (["tables", "base", "half", "--ablation", "/nosuch"], "holds no finished ablation"),
        (["tables", "base", "half", "--format", "xml"], "(there are text, md, json)"),
        (["advise", "nosuch"], "no run 'nosuch'"),
    ],
)
def test_one_line_for_bad_input(
    runs: Path,
    words: list[str],
    said: str | None,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PROBE_DIR", str(runs / "runs"))
    with pytest.raises(SystemExit) as ended:
        main(words)
    stderr = capfd.readouterr().err
    if said is None:  # runs of one model and task may be taken together, whatever they are called
        assert ended.value.code == 0, stderr
        return
    assert ended.value.code == 1 and said in stderr and len(stderr.strip().splitlines()) == 1


def test_a_run_that_was_killed_is_left_out(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "runs", tmp_path / "runs")
    other = next(p for p in (tmp_path / "runs").glob("*half*"))
    meta = files.read_json(other / "run.json")
    files.write_json(other / "run.json", meta | {"status": "killed"})
    report = compared(tmp_path, "base", "half")
    line = f"{other.name} is left out: it was killed"
    assert report["warnings"] == report["left_out"] == [line]
    assert len(report["comparisons"][0]["other"]["ids"]) == 2
    assert line in processes.probe(tmp_path, "compare", "base", "half").stdout


def test_a_side_of_killed_runs_says_which_and_another_side_goes_on(
    runs: Path, tmp_path: Path
) -> None:
    shutil.copytree(runs / "runs", tmp_path / "runs")
    killed = sorted((tmp_path / "runs").glob("*half*"))
    for run in killed:
        files.write_json(run / "run.json", files.read_json(run / "run.json") | {"status": "killed"})
    done = processes.probe(tmp_path, "compare", "base", "half")
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert all(f"{run.name} was killed" in done.stderr for run in killed)
    report = compared(tmp_path, "base", "half", "wait")
    assert "half is left out: none of its runs finished" in report["left_out"]
    assert [comparison["other"]["name"] for comparison in report["comparisons"]] == ["wait"]


def test_a_run_that_is_missing_is_left_out_by_name(runs: Path) -> None:
    report = compared(runs, "base", "half,nosuch")
    (line,) = report["left_out"]
    assert line.startswith("nosuch is left out: no run 'nosuch' in")
    assert len(report["comparisons"][0]["other"]["ids"]) == 3


# The phase that got cheaper, and by how many seconds per step of 32 samples.
SAVED = {("base", "half"): ("backward", 0.015), ("wait", "base"): ("data", 0.018)}


@pytest.mark.parametrize("sides", SAVED)
def test_the_gain_stands_in_the_phase_that_got_cheaper(sides: tuple[str, str], runs: Path) -> None:
    """By time: joules of short runs may be refused (benchmarks/energy/phase_gains.py has them)."""
    (comparison,) = compared(runs, *sides, "--target", "accuracy>=0.75")["comparisons"]
    cheaper, saved_per_step_s = SAVED[sides]
    rows = {row["phase"]: row for row in comparison["phases"]}
    saved_s = comparison["per_sample"]["gain_s"]
    # On a busy machine the other phases may be longer on one side than on the other.
    assert rows[cheaper]["gain_s"] == pytest.approx(saved_per_step_s / 32, rel=0.15)
    assert max(rows, key=lambda phase: rows[phase]["gain_s"]) == cheaper
    low_s, high_s = rows[cheaper]["gain_s_interval"]
    # Sleeps of a busy machine end late, which is no sampling error: as wide as for the gain itself.
    assert 0 < low_s <= saved_per_step_s / 32 * 1.15 and saved_per_step_s / 32 * 0.85 <= high_s
    # Of three pairs, and adjusted for all phases, wider ones are no evidence.
    clear = high_s - low_s < 0.6 * rows[cheaper]["gain_s"]
    assert rows[cheaper]["time_verdict"] == ("gain" if clear else ANY)
    assert sum(row["gain_s"] for row in rows.values()) == pytest.approx(saved_s, rel=1e-9)
    assert sum(row["gain_j"] or 0.0 for row in rows.values()) == pytest.approx(
        comparison["per_sample"]["gain_j"], rel=1e-9
    )
