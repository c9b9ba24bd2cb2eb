"""Real searches: trainings that fail, hang and diverge, kills, budgets, what is refused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from optimizers.search import plan
from optimizers.search.command_line import CommandLine
from optimizers.search.knobs import read_knobs
from optimizers.search.objective import Objective
from optimizers.search.outcome import Job, Limits, State
from optimizers.search.trainings.processes import ProcessTrainings
from probe.cli.main import main
from probe.compare import compare
from probe.store.catalogue.labels import read_labels
from probe.store.reader import RunReader
from probe.store.runs import list_runs
from probe.target import Target
from tests.fakes import processes
from tests.fakes.nvml import NvmlRig
from tests.fakes.sensor_driver import ROOT
from tests.scripts import SCRIPTS

pytest.importorskip("optuna", reason="optuna is not installed")

SCRIPT = [sys.executable, str(SCRIPTS / "train_for_search.py")]
KILLS = 10 if os.environ.get("PROVE") else 3
TARGET = ("--target", "loss<=0.2")
# `probe search` in a process of its own, with short rounds and a short proof.
SHORT = """
import sys
from optimizers.search import plan
from probe.cli.main import main
plan.ROUNDS, plan.MOST_PAIRS = ((3, 2),), 3
main(["search", "--json", *sys.argv[1:]])
"""
SEEDED = ("--", *SCRIPT, "--mode", "{mode}", "--seed", "{seed}")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where searches of this process are kept; short rounds and proofs."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setattr(plan, "_START_S", 2.0)
    monkeypatch.setattr(plan, "ROUNDS", ((3, 2),))
    monkeypatch.setattr(plan, "MOST_PAIRS", 3)
    return tmp_path / "search"


def searched(place: Path, capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    with pytest.raises(SystemExit) as ended:
        main(["search", "--dir", str(place), "--json", *words])
    said = capsys.readouterr()
    assert ended.value.code == 0, said.err
    return json.loads(said.out)


def refused(place: Path, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as ended:
        main(["search", "--dir", str(place), *words])
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert ended.value.code == 1 and last.startswith("probe: ")
    return last


@pytest.mark.paced
def test_what_fails_hangs_and_diverges_is_charged_and_the_search_goes_on(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    modes = "mode=fast,slow,nan,crash,hang,kill"
    result = searched(place, capsys, "--knob", modes, *TARGET, "--budget", "10min", *SEEDED)
    why = {row["settings"]["mode"]: row["why"] for row in result["configurations"]}
    assert set(why) == {None, "fast", "slow", "nan", "crash", "hang", "kill"}
    assert "the data are not there" in why["crash"] and "SIGKILL" in why["kill"]
    assert "not finite" in why["nan"] and "not done after" in why["hang"]
    assert "takes at most" in why["slow"]
    for state in ("reached", "pruned", "failed", "diverged", "hung"):
        assert result["by_state"][state] >= 1
    assert result["by_state"]["failed"] == 2
    assert result["search"]["seconds"] + result["proof"]["seconds"] <= 600
    # The champion's proof is what `probe compare` says of these runs.
    assert result["champion"] == {"mode": "fast"} and result["pairs"] == 3
    sides = [
        ",".join(str(place / run) for run in result["runs"][side])
        for side in ("default", "champion")
    ]
    same = compare(sides[0], [sides[1]], target="loss<=0.2").comparisons[0]
    assert same.time_s.gain == pytest.approx(result["gain"], rel=1e-6)
    assert same.time_s.verdict == {"pays": "gain"}.get(result["verdict"], result["verdict"])
    if result["verdict"] == "pays":
        total = result["search"]["seconds"] + result["proof"]["seconds"]
        assert result["pays_back"] == -(-total // result["gain"])
    # Each is a run in a folder of its own that lists leave out.
    runs = [run for parent in place.glob("*/*/runs") for run in list_runs(parent)]
    assert len(runs) == result["search"]["trainings"] + result["proof"]["trainings"] - 1  # crash
    assert all(read_labels(run).archived for run in runs)
    assert sum(file.stat().st_size for file in place.rglob("*") if file.is_file()) < 1e9
    # Once more: nothing is trained, the answer is the same; without words, too.
    assert searched(place, capsys) == result
    other = refused(place, capsys, "--knob", "mode=fast", *TARGET, "--budget", "1h", *SEEDED)
    assert "holds another search" in other


@pytest.mark.full
@pytest.mark.paced
def test_a_search_that_is_killed_goes_on(tmp_path: Path) -> None:
    place = tmp_path / "search"
    start = [sys.executable, "-c", SHORT, "--dir", str(place), "--knob", "mode=fast,slow"]
    start += [*TARGET, "--budget", "1h", *SEEDED]
    environment = processes.environment(tmp_path / "runs")

    def trained() -> int:
        return len(list(place.glob("*/*/log.txt")))

    for kill in range(KILLS):
        with subprocess.Popen(
            start, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as search:
            before = trained()
            processes.wait_until(lambda b=before, s=search: trained() > b or s.poll() is not None)
            time.sleep(0.3 * kill % 1.0)
            search.send_signal(signal.SIGKILL)
    done = subprocess.run(
        start,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=processes.HUNG_S,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    interrupted = result["by_state"].get("interrupted", 0)
    assert interrupted >= 1
    # A training that is killed as it begins has cost nothing and is not counted.
    counted = result["search"]["trainings"] + result["proof"]["trainings"]
    assert trained() - interrupted <= counted <= trained()
    assert result["by_state"]["reached"] >= 1
    assert result["verdict"] in ("pays", "costs", "no evidence")


@pytest.mark.paced
def test_joules_are_searched_and_charged_where_a_meter_measures_them(tmp_path: Path) -> None:
    rig = NvmlRig(tmp_path, gpus=1, power_w=60.0, period_s=0.1, jitter_s=0.0002)
    words = [sys.executable, "-c", SHORT, "--dir", str(tmp_path / "search")]
    words += ["--objective", "energy", "--knob", "mode=frugal", *TARGET, "--budget", "1h,1MJ"]
    done = subprocess.run(
        [*words, *SEEDED, "--pace", "3"],
        env=processes.environment(tmp_path / "runs", rig.env()),
        capture_output=True,
        text=True,
        check=False,
        timeout=processes.HUNG_S,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    values = {row["settings"]["mode"]: row["value"] for row in result["configurations"][::-1]}
    assert values["frugal"] < values[None]
    joules = [part["joules"] for part in (result["search"], result["proof"]) if part["trainings"]]
    assert all(0 < each < 1e6 for each in joules)


@pytest.mark.full
@pytest.mark.paced
def test_two_hosts_share_a_search_and_its_budget(tmp_path: Path) -> None:
    """Both are here, under names of their own; money of the machine's hours is the objective."""
    words = [sys.executable, "-c", SHORT, "--dir", str(tmp_path / "search"), "--quiet"]
    words += ["--objective", "cost", "--hourly", "3.6", "--storage", f"sqlite:///{tmp_path}/s.db"]
    words += ["--knob", "mode=fast,slow", *TARGET, "--budget", "1h", *SEEDED]
    hosts = [
        subprocess.Popen(
            words,
            env=processes.environment(tmp_path / "runs", {"PROBE_NODE": name}),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in ("one", "two")
    ]
    said = [host.communicate(timeout=processes.HUNG_S) for host in hosts]
    assert [host.returncode for host in hosts] == [0, 0], said
    results = [json.loads(out) for out, _ in said]
    last = max(results, key=lambda each: each["search"]["trainings"] + each["proof"]["trainings"])
    trained = last["search"]["trainings"] + last["proof"]["trainings"]
    assert trained == len(list((tmp_path / "search").glob("*/*/log.txt")))
    values = {row["settings"]["mode"]: row["value"] for row in last["configurations"]}
    assert 0 < values["fast"] < values[None]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([*TARGET, "--budget", "1h", "--", "true"], "name what may be changed"),
        (["--knobs", "threads", "--budget", "1h", "--", "true"], "--target 'loss<=2.5'"),
        (["--knobs", "threads", *TARGET, "--", "true"], "say what the search may use"),
        (["--knobs", "threads", *TARGET, "--budget", "much", "--", "true"], "write a time"),
        (["--knobs", "threads", "--target", "x", "--budget", "1h", "--", "true"], "target='x'"),
        (["--knobs", "thraeds", *TARGET, "--budget", "1h", "--", "true"], "did you mean 'threads'"),
        (
            ["--objective", "joy", "--knobs", "threads", *TARGET, "--budget", "1h", "--", "true"],
            "choose from time, energy",
        ),
        (
            ["--objective", "cost", "--knobs", "threads", *TARGET, "--budget", "1h", "--", "true"],
            "needs a price",
        ),
        (
            [
                *("--objective", "cost", "--price", "much", "--knobs", "threads", *TARGET),
                *("--budget", "1h", "--", "true"),
            ],
            "much",
        ),
        (
            [
                *("--storage", "nosuch://x", "--knobs", "threads", *TARGET),
                *("--budget", "1h", "--", "true"),
            ],
            "cannot be opened",
        ),
        (["--knobs", "threads", *TARGET, "--budget", "1h", "--", "nosuchprogram"], "cannot run"),
        (["--knobs", "threads", *TARGET, "--budget", "1h", "--", "true"], "it recorded 0 runs"),
        (["--knobs", "threads", *TARGET, "--budget", "1h", "--", "false"], "it ended with 1"),
        ([], "there is no search in"),
        (
            [*("--knobs", "threads", "--target", "accuracy>=0.9", "--budget", "1h", "--"), *SCRIPT],
            "it never logged accuracy, the target's metric; it logged loss",
        ),
        (
            [*("--knobs", "threads", "--target", "loss<=0.01", "--budget", "1h", "--"), *SCRIPT],
            "it ended at loss=0.09441, short of loss<=0.01",
        ),
        (
            ["--knobs", "threads", *TARGET, "--budget", "9s", "--", *SCRIPT, "--pace", "3"],
            "too small for two trials",
        ),
    ],
)
def test_one_line_for_what_cannot_be_searched(
    words: list[str], said: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said in refused(place, capsys, *words)


@pytest.mark.parametrize(
    "words", [["--objective", "energy", "--budget", "1h"], ["--budget", "1h,1kWh"]]
)
def test_joules_are_refused_where_nothing_measures_them(words: list[str], tmp_path: Path) -> None:
    nothing = {"PROBE_POWERCAP_ROOT": str(tmp_path), "PROBE_SYS_ROOT": str(tmp_path)}
    done = processes.probe(
        tmp_path, "search", "--knobs", "threads", *TARGET, *words, "--", "true", extra=nothing
    )
    assert done.returncode == 1 and "needs a meter: none here" in done.stderr
    assert len(done.stderr.splitlines()) == 1 and not (tmp_path / "runs").exists()


def test_without_optuna_one_line_says_how_to_install_it(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    words = ["--knobs", "threads", *TARGET, "--budget", "1h", "--", "true"]
    assert "pip install 'phasewatt[search]'" in refused(place, capsys, *words)


def test_a_stack_is_filled_in_and_techniques_that_do_not_go_together_cost_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = NvmlRig(tmp_path, gpus=1, power_w=90.0, period_s=0.1)
    for name, value in {**rig.env(), "PYTHONPATH": str(ROOT)}.items():
        monkeypatch.setenv(name, value)
    words = [sys.executable, str(SCRIPTS / "train_tiny_gpt.py"), "--samples", "64"]
    words += ["--stack", "{stack}", "--seed", "{seed}"]
    knobs = read_knobs("schedule,clipping,topk,powersgd", [], {"stack"})
    trainings = ProcessTrainings(
        tmp_path,
        CommandLine(words, knobs),
        Objective("time"),
        Target.of("loss<=9"),
        needs_joules=False,
    )
    own: dict[str, str | None] = {knob.name: None for knob in knobs}
    assert trainings.refused(own) == ""
    both = trainings.refused(own | {"topk": "topk", "powersgd": "powersgd"})
    assert "does not go with" in both and "\n" not in both
    settings = own | {"schedule": "schedule", "clipping": "clipping"}
    assert trainings.refused(settings) == ""
    outcome = trainings.train(Job("trials/0", settings, 3), Limits())
    assert outcome.state is State.REACHED and outcome.run is not None, outcome
    config = RunReader(tmp_path / outcome.run).meta["config"]
    assert {each["technique"] for each in config["techniques"]} == {"schedule", "clipping"}
    assert config["seed"] == 3
