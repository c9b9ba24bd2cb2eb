"""Entries in frameworks: the training stays the same, counts are the framework's own."""

from __future__ import annotations

import json
import re
import signal
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from probe.store.reader import RunReader  # noqa: E402
from probe.timeline.spans import decode  # noqa: E402
from probe.units import NS_PER_S  # noqa: E402
from tests.fakes import processes  # noqa: E402
from tests.fakes.nvml import NvmlRig  # noqa: E402
from tests.fakes.packages import need  # noqa: E402
from tests.scripts.train_with_entries import PACE_S  # noqa: E402

STEPS, ROWS, EPOCHS, LENGTH = 6, 22, 2, 16
OF_RANKS = ["hf", "lightning", "pytorch_lightning", "accelerate"]
OF_ONE_PROCESS = [
    "trl",
    "sentence_transformers",
    "keras",
    "keras_jax",
    "skorch",
    "stable_baselines3",
]
FRAMEWORKS = [*OF_RANKS, *OF_ONE_PROCESS]
STEPS_OF = {"skorch": 10, "stable_baselines3": 12}  # the others': STEPS
PACKAGES = {
    "hf": "transformers",
    "keras_jax": "jax",
    "sentence_transformers": "datasets",
}  # the others are called as their entry is
PATHS = {"best_model_checkpoint"}
TIMES = re.compile("phasewatt/|runtime|per_second")


def train(
    tmp_path: Path,
    framework: str,
    *what: str,
    rig: NvmlRig | None = None,
    ranks: int = 0,
    resume: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """Without the entry, then with it; in two ranks only with it."""
    need(PACKAGES.get(framework, framework))
    command = [sys.executable]
    if ranks:
        command += ["-m", "torch.distributed.run", "--nproc-per-node", str(ranks)]
        command += ["--master-port", str(processes.free_port())]
        what = (*what, "alone")
    return subprocess.run(
        [*command, "-m", "tests.scripts.train_with_entries", framework, str(tmp_path), *what],
        env=processes.environment(tmp_path / "runs", rig.env() if rig else None)
        | {"DS_ACCELERATOR": "cpu"}  # else deepspeed looks for a device when it is imported
        | ({"PROBE_RESUMED": str(resume)} if resume else {}),
        cwd=processes.ROOT,
        capture_output=True,
        text=True,
        timeout=processes.HUNG_S,
        check=False,
    )


def left(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    """What each training left."""
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    # Ranks may print at the same time, one line into the other.
    decode = json.JSONDecoder().raw_decode
    return [item for text in done.stdout.split("LEFT ")[1:] for item in decode(text)[0]]


def ended(run: Path) -> dict[str, Any]:
    assert processes.wait_until(lambda: processes.sealed(run))
    assert processes.wait_until(lambda: not processes.has_recorder(run))
    fields: dict[str, Any] = json.loads((run / "run.json").read_text())
    return fields


def without_ours(value: Any) -> Any:
    """What a framework left, without our keys and without its own clock."""
    if isinstance(value, dict):
        kept = {k: v for k, v in value.items() if not TIMES.search(k) and k not in PATHS}
        return {k: without_ours(v) for k, v in kept.items()}
    if isinstance(value, list):  # of names, or of what was logged at a time
        rows = [
            (row, without_ours(row))
            for row in value
            if not (isinstance(row, str) and TIMES.search(row))
        ]
        return [kept for row, kept in rows if kept == row or set(kept) - {"epoch", "step"}]
    return value


def same(plain: dict[str, Any], watched: dict[str, Any]) -> None:
    """Losses, weights and all that the framework kept are equal to the last bit."""
    assert without_ours(plain) == without_ours(watched)
    assert plain["weights"] == watched["weights"]


def test_the_trainer_logs_energy_and_nothing_else_changes(tmp_path: Path) -> None:
    rig = NvmlRig(tmp_path, gpus=1, power_w=200.0, period_s=0.02)
    plain, watched = left(train(tmp_path, "hf", "meter", rig=rig))
    same(plain, watched)
    assert plain["returned"] == watched["returned"]
    trained = [row for row in watched["state"]["log_history"] if "loss" in row]
    assert trained[-1]["phasewatt/energy_j"] > 100
    assert trained[-1]["phasewatt/watts"] == pytest.approx(200, rel=0.1)
    # It was read while the training waited after its second step, and again after its fourth.
    tokens = trained[3]["num_input_tokens_seen"] - trained[1]["num_input_tokens_seen"]
    most_j = trained[-1]["phasewatt/energy_j"]
    least_j = most_j - trained[1]["phasewatt/energy_j"]
    assert least_j <= trained[-1]["phasewatt/j_per_token"] * tokens <= most_j
    assert "phasewatt/energy_j" in watched["seen"]  # by callbacks that come after
    evaluated = [row for row in watched["state"]["log_history"] if "eval_loss" in row]
    assert len(evaluated) == EPOCHS and not any("phasewatt" in key for key in evaluated[0])
    run = ended(processes.only_run(tmp_path))
    assert run["status"] == "finished" and run["steps"] == watched["steps"] == STEPS
    assert run["logged"] == {"samples": EPOCHS * ROWS, "tokens": watched["tokens"]}
    assert run["config"]["trainer"]["gradient_accumulation_steps"] == 2
    assert run["config"]["model"]["hidden_size"] == 32
    assert "hf_aaaa" not in json.dumps(run)


@pytest.mark.full
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_training_is_one_run_and_stays_the_same(tmp_path: Path, framework: str) -> None:
    """`make test-oldest` runs this under the oldest releases, too."""
    plain, watched = left(train(tmp_path, framework))
    same(plain, watched)
    run = ended(processes.only_run(tmp_path))
    assert run["status"] == "finished" and run["steps"] == watched["steps"] == plain["steps"]
    assert run["warnings"] == []
    if framework not in ("keras_jax", "stable_baselines3"):
        assert run["logged"]["samples"] == EPOCHS * (17 if framework == "skorch" else ROWS)


def visits(run: Path) -> list[tuple[str, float]]:
    """Phase and seconds of all that the hooks saw, from the first forward on."""
    reader = RunReader(run)
    (ring, rows), *others = reader.rings(0)
    spans, names = decode(rows, [more for _, more in others]), reader.names(0, ring)
    seconds = (spans.end_ns - spans.begin_ns) / NS_PER_S
    phases = [names[int(code)] for code in spans.code]
    seen = [
        visit
        for visit in zip(phases, seconds.tolist(), strict=True)
        if visit[0] not in ("startup", "other")
    ]
    return seen[[phase for phase, _ in seen].index("forward") :]


@pytest.mark.full
@pytest.mark.alone
@pytest.mark.parametrize("framework", [name for name in FRAMEWORKS if name != "keras_jax"])
def test_an_entry_records_what_watch_does(tmp_path: Path, framework: str) -> None:
    """In the same process, on the same batches; without torch ``watch()`` alone records no phases.

    The same visits in the same order are the same joules wherever a visit takes the same time.
    """
    same(*left(train(tmp_path, framework, "beside")))
    runs = [path.parent for path in (tmp_path / "runs").glob("*/run.json")]
    of = {ended(run)["name"]: visits(run) for run in runs}
    watched, entry = of["watched"], of["entry"]
    assert [phase for phase, _ in watched] == [phase for phase, _ in entry]
    paced = {phase for phase, seconds in watched if seconds > PACE_S}
    # TRL computes the forward again in the backward, so the pace is in that phase.
    assert "forward" in paced and paced & {"backward", "recompute"}
    for phase in paced & {"forward", "backward", "recompute"}:
        middle = [
            statistics.median(
                seconds for name, seconds in phases if name == phase and seconds > PACE_S
            )
            for phases in (watched, entry)
        ]
        assert middle[1] == pytest.approx(middle[0], rel=0.01), phase


@pytest.mark.full
@pytest.mark.parametrize("framework", ["lightning", "pytorch_lightning"])
def test_lightnings_loggers_get_energy(tmp_path: Path, framework: str) -> None:
    rig = NvmlRig(tmp_path, gpus=1, power_w=200.0, period_s=0.02)
    early = ["early"] if framework == "pytorch_lightning" else []  # its base is the other's
    plain, watched = left(train(tmp_path, framework, "meter", *early, rig=rig))
    same(plain, watched)
    ours = [row for row in watched["state"] if "phasewatt/energy_j" in row]
    assert float(ours[-1]["phasewatt/energy_j"]) > 100
    assert float(ours[-1]["phasewatt/watts"]) == pytest.approx(200, rel=0.1)
    assert float(ours[-1]["phasewatt/j_per_token"]) > 0
    run = ended(processes.only_run(tmp_path))
    assert run["status"] == "finished" and run["steps"] == watched["steps"] == STEPS
    assert run["logged"] == {"samples": EPOCHS * ROWS, "tokens": watched["tokens"]}
    assert run["config"]["model"] == {"rate": 0.01}
    assert run["config"]["trainer"]["accumulate_grad_batches"] == 2


@pytest.mark.full
def test_the_tracker_of_accelerate(tmp_path: Path) -> None:
    plain, watched = left(train(tmp_path, "accelerate"))
    same(plain, watched)
    run = ended(processes.only_run(tmp_path))
    assert run["status"] == "finished" and run["steps"] == watched["steps"] == STEPS
    assert run["logged"] == {"samples": EPOCHS * ROWS}
    assert run["config"] == {"rate": 0.01, "hub_token": "***"}
    assert run["warnings"] == []  # a text among the numbers is no mistake
    report = json.loads(processes.probe(tmp_path, "report", "latest", "--format", "json").stdout)
    assert "loss" in json.dumps(report)


@pytest.mark.full
@pytest.mark.parametrize("framework", ["keras", "keras_jax"])
def test_epochs_of_keras_get_energy(tmp_path: Path, framework: str) -> None:
    rig = NvmlRig(tmp_path, gpus=1, power_w=200.0, period_s=0.02)
    plain, watched = left(train(tmp_path, framework, "meter", rig=rig))
    same(plain, watched)
    # All keys have a value for every epoch: tables are made of them.
    assert {len(values) for values in watched["state"].values()} == {EPOCHS}
    assert watched["state"]["phasewatt/energy_j"][-1] > 100
    assert watched["state"]["phasewatt/watts"][-1] == pytest.approx(200, rel=0.1)
    assert set(watched["csv"]) - set(plain["csv"]) == {"phasewatt/energy_j", "phasewatt/watts"}
    folder = processes.only_run(tmp_path)
    run = ended(folder)
    assert run["status"] == "finished" and run["steps"] == watched["steps"] == STEPS
    assert run["config"]["optimizer"]["gradient_accumulation_steps"] == 2
    report = json.loads(processes.probe(tmp_path, "report", "latest", "--format", "json").stdout)
    counts = {phase["phase"]: phase["count"] for phase in report["phases"]}
    batches = STEPS * 2
    if framework == "keras":
        assert run["logged"] == {"samples": EPOCHS * ROWS}
        assert counts["forward"] == counts["backward"] == batches
        assert counts["optimizer"] == STEPS
    else:
        assert counts["train"] == batches - 1 and counts["startup/compile"] == 1
    assert counts["eval"] == EPOCHS


@pytest.mark.full
@pytest.mark.parametrize("framework", ["skorch", "stable_baselines3"])
def test_logs_get_energy(tmp_path: Path, framework: str) -> None:
    rig = NvmlRig(tmp_path, gpus=1, power_w=200.0, period_s=0.02)
    plain, watched = left(train(tmp_path, framework, "meter", rig=rig))
    same(plain, watched)
    ours = [row for row in watched["state"] if "phasewatt/energy_j" in row]
    assert ours[-1]["phasewatt/energy_j"] > 100
    assert ours[-1]["phasewatt/watts"] == pytest.approx(200, rel=0.1)
    run = ended(processes.only_run(tmp_path))
    assert run["status"] == "finished"
    assert run["steps"] == watched["steps"] == STEPS_OF[framework]
    assert run["config"]["trainer"]
    if framework == "skorch":
        assert run["logged"] == {"samples": EPOCHS * 17}  # a fifth of the rows is for validation
        assert ours[-1]["phasewatt/j_per_sample"] > 0


@pytest.mark.full
def test_a_search_over_a_nets_parameters_is_a_run_for_each_fit(tmp_path: Path) -> None:
    """The callback is cloned with the net, and stored with it."""
    need("skorch")
    code = """
import pickle, torch
from sklearn.model_selection import GridSearchCV
from skorch import NeuralNetRegressor
from probe.integrations.skorch import PhasewattCallback
net = NeuralNetRegressor(
    torch.nn.Linear, module__in_features=8, module__out_features=1, max_epochs=1, verbose=0,
    callbacks=[("ours", PhasewattCallback(name="entry"))],
)
x = torch.randn(40, 8).numpy()
search = GridSearchCV(net, {"lr": [0.1, 0.01]}, cv=2).fit(x, x[:, :1])
pickle.loads(pickle.dumps(search.best_estimator_)).partial_fit(x, x[:, :1])
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=processes.environment(tmp_path / "runs"),
        cwd=processes.ROOT,
        capture_output=True,
        text=True,
        timeout=processes.HUNG_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    runs = [ended(path.parent) for path in (tmp_path / "runs").glob("*/run.json")]
    fits = 2 * 2 + 1 + 1  # folds of each setting, the best on all rows, and the stored one again
    assert [run["status"] for run in runs] == ["finished"] * fits
    assert {run["name"] for run in runs} == {"entry"}


def ray(tmp_path: Path, *what: str, rig: NvmlRig | None = None) -> subprocess.CompletedProcess[str]:
    need("ray")
    # Where amdsmi is installed without its library, Ray does not start.
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules/amdsmi.py").write_text("raise ImportError\n")
    environment = processes.environment(tmp_path / "runs", rig.env() if rig else None)
    path = f"{tmp_path / 'modules'}:{environment.get('PYTHONPATH') or processes.ROOT}"
    return subprocess.run(
        [sys.executable, "-m", "tests.scripts.train_in_ray", str(tmp_path), *what],
        env=environment | {"PYTHONPATH": path, "RAY_USAGE_STATS_ENABLED": "0"},
        cwd=processes.ROOT,
        capture_output=True,
        text=True,
        timeout=processes.HUNG_S,
        check=False,
    )


@pytest.mark.full
def test_workers_of_ray_are_ranks_of_one_run(tmp_path: Path) -> None:
    """`make test-oldest` runs this, too."""
    done = ray(tmp_path)
    assert done.returncode == 0, done.stderr[-4000:]
    run = ended(processes.only_run(tmp_path))
    assert run["status"] == "finished" and run["ranks"] == 2 and run["steps"] == STEPS
    assert run["logged"] == {"samples": STEPS * 4 * 2}
    assert run["config"]["trainer"] == {"experiment": "experiment", "workers": 2}


@pytest.mark.full
def test_workers_of_ray_report_energy(tmp_path: Path) -> None:
    rig = NvmlRig(tmp_path, gpus=1, power_w=200.0, period_s=0.02)
    done = ray(tmp_path, "meter", rig=rig)
    assert done.returncode == 0, done.stderr[-4000:]
    reported = json.loads((tmp_path / "reported.json").read_text())
    assert reported["step"] == STEPS
    assert reported["phasewatt/watts"] == pytest.approx(200, rel=0.1)


@pytest.mark.full
def test_a_worker_of_ray_that_raises_has_failed(tmp_path: Path) -> None:
    done = ray(tmp_path, "raise")
    assert done.returncode == 1 and "planted in the training" in done.stderr
    run = ended(processes.only_run(tmp_path))
    assert run["status"] == "failed" and run["error"] == "ValueError: planted in the training"


@pytest.mark.full
def test_workers_of_ray_train_on_where_the_entry_fails(tmp_path: Path) -> None:
    done = ray(tmp_path, "planted")
    assert done.returncode == 0, done.stderr[-4000:]
    assert json.loads((tmp_path / "reported.json").read_text())["step"] == STEPS
    assert "_Worker.begin failed, the training goes on" in done.stdout + done.stderr


@pytest.mark.full
@pytest.mark.parametrize("framework", OF_RANKS)
def test_two_ranks_are_one_run(tmp_path: Path, framework: str) -> None:
    ranks = left(train(tmp_path, framework, ranks=2))
    run = ended(processes.only_run(tmp_path))
    assert run["ranks"] == len(ranks) == 2
    assert ranks[0]["weights"] == ranks[1]["weights"]
    assert run["steps"] == ranks[0]["steps"] == 2 * EPOCHS  # 3 batches of a rank are 2 steps
    # The Trainer fills up, so that both ranks have as many batches. In Accelerate's loop a batch is
    # loaded ahead: of two steps an epoch the second loads none, and samples are not known.
    rows = {"hf": EPOCHS * (ROWS + 2), "accelerate": None}.get(framework, EPOCHS * ROWS)
    assert run["logged"].get("samples") == rows
    if framework == "hf":
        assert run["logged"]["tokens"] == ranks[0]["tokens"] == rows * LENGTH


@pytest.mark.full
@pytest.mark.parametrize("ending", ["raise", "term", "kill"])
@pytest.mark.parametrize("framework", OF_RANKS)
def test_two_ranks_that_end_badly_are_one_run(tmp_path: Path, framework: str, ending: str) -> None:
    done = train(tmp_path, framework, ending, ranks=2)
    # Lightning has a handler for SIGTERM: it ends the training as usual, some batches later.
    handled = "lightning" in framework and ending == "term"
    assert bool(done.returncode) != handled
    run = ended(processes.only_run(tmp_path))
    assert run["ranks"] == 2
    assert run["status"] in (("failed",) if ending == "raise" else ("failed", "killed"))
    assert 2 <= run["steps"] <= 3 + handled  # torchrun ends the slower rank


@pytest.mark.full
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_training_that_raises_has_failed(tmp_path: Path, framework: str) -> None:
    done = train(tmp_path, framework, "raise")
    assert done.returncode == 1 and "Failure: planted in the training" in done.stderr
    run = ended(processes.only_run(tmp_path))
    assert run["status"] == "failed" and run["error"] == "Failure: planted in the training"
    assert run["steps"] == 4


@pytest.mark.full
@pytest.mark.parametrize("ending", ["term", "kill"])
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_training_that_is_ended_by_a_signal_is_kept(
    tmp_path: Path, framework: str, ending: str
) -> None:
    done = train(tmp_path, framework, "alone", ending)
    number = {"term": signal.SIGTERM, "kill": signal.SIGKILL}[ending]
    # Lightning has a handler: it ends the training after the batch, and the process as usual.
    handled = "lightning" in framework and ending == "term"
    assert done.returncode == (0 if handled else -number)
    run = ended(processes.only_run(tmp_path))
    assert run["status"] == ("failed" if handled else "killed")
    assert run["steps"] == 4


@pytest.mark.full
@pytest.mark.parametrize("ending", ["raise", "term", "kill"])
@pytest.mark.parametrize("framework", ["hf", "lightning"])
@pytest.mark.parametrize("ranks", [0, 2])
def test_a_training_that_goes_on_from_a_checkpoint_is_another_attempt(
    tmp_path: Path, framework: str, ending: str, ranks: int
) -> None:
    train(tmp_path, framework, "alone", ending, ranks=ranks)
    folder = processes.only_run(tmp_path)
    before = ended(folder)["steps"]
    watched = left(train(tmp_path, framework, "alone", "resume", ranks=ranks, resume=folder))[0]
    run = ended(processes.only_run(tmp_path))
    steps = 2 * EPOCHS if ranks else STEPS
    assert run["status"] == "finished" and watched["steps"] == steps
    report = json.loads(processes.probe(tmp_path, "report", "latest", "--format", "json").stdout)
    # The second trains the second epoch once more.
    assert [attempt["steps"] for attempt in report["attempts"]] == [before, steps // EPOCHS]


@pytest.mark.full
@pytest.mark.parametrize("framework", ["hf", "lightning"])
def test_what_was_caught_has_failed_and_the_next_is_a_run_of_its_own(
    tmp_path: Path, framework: str
) -> None:
    assert len(left(train(tmp_path, framework, "caught"))) == 2
    runs = sorted((tmp_path / "runs").glob("*/run.json"))
    fields = sorted((ended(run.parent) for run in runs), key=lambda run: run["begin_ns"])
    assert [run["status"] for run in fields] == ["failed", "finished"]
    assert [run["steps"] for run in fields] == [4, STEPS]


@pytest.mark.full
@pytest.mark.parametrize("begin", [(), ("begin",)])
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_an_entry_that_fails_is_one_line(
    tmp_path: Path, framework: str, begin: tuple[str, ...]
) -> None:
    done = train(tmp_path, framework, "planted", *begin)
    same(*left(done))
    lines = [line for line in done.stderr.splitlines() if "planted in the entry" in line]
    assert len(lines) == 1 and lines[0].startswith("phasewatt: Phasewatt")


@pytest.mark.full
def test_two_entries_of_one_trainer_count_once(tmp_path: Path) -> None:
    """``report_to`` has the name, and the list of callbacks the object."""
    plain, watched = left(train(tmp_path, "hf", "registry"))
    same(plain, watched)
    run = ended(processes.only_run(tmp_path))
    assert run["steps"] == STEPS and run["logged"]["tokens"] == watched["tokens"]


def below_probe_run(
    tmp_path: Path, *script: str, where: Path = processes.ROOT
) -> subprocess.CompletedProcess[str]:
    """A script of Python's, started by `probe run`."""
    return subprocess.run(
        [sys.executable, "-m", "probe", "run", "--", sys.executable, *script],
        env=processes.environment(tmp_path / "runs") | {"DS_ACCELERATOR": "cpu"},
        cwd=where,
        capture_output=True,
        text=True,
        timeout=processes.HUNG_S,
        check=False,
    )


REPORTS_TO = """
import sys
import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

sizes = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 64}
texts = [{"input_ids": line, "labels": line} for line in torch.randint(64, (32, 16))]
Trainer(
    LlamaForCausalLM(LlamaConfig(num_hidden_layers=1, num_attention_heads=2, **sizes)),
    TrainingArguments("out", max_steps=4, use_cpu=True, disable_tqdm=True, report_to=NAMES),
    train_dataset=texts,
).train()
print("imported" if "probe.integrations.hf" in sys.modules else "not imported")
"""


@pytest.mark.full
@pytest.mark.parametrize("names", [["phasewatt"], []])
def test_below_probe_run_a_trainer_knows_the_name(tmp_path: Path, names: list[str]) -> None:
    """The script itself imports nothing of ours."""
    need("transformers")
    script = processes.write(tmp_path / "fine_tune.py", REPORTS_TO.replace("NAMES", repr(names)))
    done = below_probe_run(tmp_path, str(script), where=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    assert ("imported" if names else "not imported") in done.stdout.splitlines()
    run = ended(processes.only_run(tmp_path))
    assert (run["name"], run["status"], run["steps"]) == ("fine_tune", "finished", 4)
    assert ("trainer" in (run.get("config") or {})) is bool(names)


@pytest.mark.full
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_below_probe_run_it_is_that_run(tmp_path: Path, framework: str) -> None:
    need(PACKAGES.get(framework, framework))
    script = ["-m", "tests.scripts.train_with_entries", framework, str(tmp_path), "alone"]
    done = below_probe_run(tmp_path, *script)
    (watched,) = left(done)
    run = ended(processes.only_run(tmp_path))
    assert run["status"] == "finished"
    assert run["steps"] == watched["steps"] == STEPS_OF.get(framework, STEPS)
    assert run["config"]
