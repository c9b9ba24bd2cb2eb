"""What a run keeps of how it was made, and `probe diff` of two runs that differ in one thing."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from probe.recorder.manifest import code_of
from probe.store import files
from tests.fakes import processes

pytestmark = pytest.mark.paced

LOOP = """
import sys, torch, probe
if "deterministic" in sys.argv:
    torch.use_deterministic_algorithms(True)
torch.manual_seed(3)
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
with probe.watch(model, optimizer, name="made", config={"lr": 0.1}) as run:
    for _ in range(20):
        model(torch.ones(1, 8)).sum().backward()
        optimizer.step()
print(run.id)
"""


def git(folder: Path, *words: str) -> None:
    subprocess.run(
        ["git", "-c", "user.name=x", "-c", "user.email=x@example.org", *words],
        cwd=folder, check=True, capture_output=True,
    )  # fmt: skip


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q")
    (tmp_path / "train.py").write_text("one\n")
    (tmp_path / ".gitignore").write_text("runs\n*.txt\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    return tmp_path


def trained(folder: Path, *words: str, **extra: str) -> str:
    done = processes.run(LOOP, folder, *words, extra=extra)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()[-1]


def test_each_difference_is_named_and_nothing_else(repository: Path) -> None:
    base = trained(repository)
    alike = trained(repository)
    changed = trained(repository, "deterministic", OMP_NUM_THREADS="1", NCCL_DEBUG="INFO")
    (repository / "train.py").write_text("two\n")
    dirty = trained(repository)

    def differences(other: str) -> dict[tuple[str, str], tuple[str, str]]:
        done = processes.probe(repository, "diff", base, other, "--format", "json")
        assert done.returncode == 0, done.stderr
        return {
            (row["group"], row["what"]): (row["first"], row["second"])
            for row in json.loads(done.stdout)["differences"]
        }

    assert differences(alike) == {}
    assert "were made alike" in processes.probe(repository, "diff", base, alike).stdout
    changes = differences(changed)
    assert changes["torch", "deterministic"] == ("False", "True")
    assert changes["environment", "NCCL_DEBUG"] == ("absent", "INFO")
    assert {group for group, _ in changes} <= {"torch", "environment", "command"}
    changes = differences(dirty)
    assert changes["code", "changed_files"] == ("0", "1")
    assert set(changes) == {("code", "changed_files"), ("code", "diff_hash")}
    packages = json.loads((repository / "runs" / base / "run.json").read_text())["packages"]
    assert "torch" in packages and "numpy" in packages


def test_packages_that_are_gathered_late_are_kept(tmp_path: Path) -> None:
    """As on a slow disk: the training ends before the versions of all packages are read."""
    pipe = tmp_path / "path/slow-1.0.dist-info/METADATA"
    pipe.parent.mkdir(parents=True)
    os.mkfifo(pipe)
    run = tmp_path / "runs" / trained(tmp_path, PYTHONPATH=f"{processes.ROOT}:{tmp_path / 'path'}")
    assert processes.status_at_end(run) == "finished"
    kept = files.read_json(run / "run.json") or {}
    assert kept["packages"] is None and kept["total"]

    def written() -> bool:
        with contextlib.suppress(OSError):  # the recorder has not opened it yet
            writes = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
            os.write(writes, b"Metadata-Version: 2.1\nName: slow\nVersion: 1.0\n")
            os.close(writes)
        return bool((files.read_json(run / "run.json") or {})["packages"])

    assert processes.wait_until(written)
    late = files.read_json(run / "run.json") or {}
    assert late["packages"]["slow"] == "1.0" and "torch" in late["packages"]
    assert late | {"packages": None} == kept


def fake_numpy(folder: Path, version: str) -> str:
    """A PYTHONPATH on which NumPy says that it is of this version."""
    info = folder / version / f"numpy-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: numpy\nVersion: {version}\n")
    return f"{processes.ROOT}:{info.parent}"


def test_a_package_a_stack_and_the_data_are_told_apart(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """The script lies in a repository, the working directory does not."""
    folder, source = tmp_path_factory.mktemp("work"), tmp_path_factory.mktemp("source")
    packages = tmp_path_factory.mktemp("packages")
    git(source, "init", "-q")
    code = LOOP.replace("import sys,", "import json, sys,")
    code = code.replace('{"lr": 0.1}', "json.loads(sys.argv[1])")
    script = processes.write(source / "train.py", code)
    git(source, "add", ".")
    git(source, "commit", "-qm", "first")

    def trained_with(dtype: str, version: str, data: str) -> str:
        techniques = {"precision": {"dtype": dtype}}
        config = json.dumps({"lr": 0.1, "stack": "precision", "techniques": techniques})
        extra = {"PYTHONPATH": fake_numpy(packages, version), "PROBE_DATA": data}
        done = subprocess.run(
            [sys.executable, str(script), config],
            capture_output=True, text=True, cwd=folder, timeout=processes.HUNG_S, check=False,
            env=processes.environment(folder / "runs", extra),
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout.split()[-1]

    first = trained_with("bf16", "98.1", "digits")
    second = trained_with("fp16", "98.2", "letters")
    done = processes.probe(folder, "diff", first, second, "--format", "json")
    rows = {
        (row["group"], row["what"]): (row["first"], row["second"])
        for row in json.loads(done.stdout)["differences"]
        if row["group"] != "command"
    }
    assert rows == {
        ("packages", "numpy"): ("98.1", "98.2"),
        ("config", "techniques.precision.dtype"): ("bf16", "fp16"),
        ("data", "data"): ("digits", "letters"),
        ("machine", "version of numpy"): ("98.1", "98.2"),
    }
    commit = json.loads((folder / "runs" / first / "run.json").read_text())["code"]["commit"]
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=source, capture_output=True, text=True, check=True
    )
    assert commit == head.stdout.strip()
    shown = processes.probe(folder, "diff", first, second).stdout
    assert max(map(len, shown.splitlines())) <= 80
    assert "techniques.precision.dtype" in shown and "98.2" in shown
    assert "seeds of numpy and random" in " ".join(shown.split())


def test_what_an_old_run_did_not_keep_is_said(repository: Path) -> None:
    runs, new = repository / "runs", trained(repository)
    for name in ("old", "older"):
        shutil.copytree(runs / new, runs / name)
        kept = json.loads((runs / name / "run.json").read_text())
        gone = ("code", "packages", "crc32")
        files.write_json(
            runs / name / "run.json", {key: kept[key] for key in kept if key not in gone}
        )
    shown = processes.probe(repository, "diff", "old", new)
    assert shown.returncode == 0 and "not recorded" in shown.stdout
    shown_json = json.loads(
        processes.probe(repository, "diff", "old", new, "--format", "json").stdout
    )
    groups = [(row["group"], row["what"], row["first"]) for row in shown_json["differences"]]
    assert groups == [("code", "all of it", None), ("packages", "all of it", None)]
    shown = processes.probe(repository, "diff", "old", "older")
    assert "were made alike" in shown.stdout
    assert "not recorded of either: code, packages" in shown.stdout


def test_secrets_are_not_kept(repository: Path) -> None:
    run = trained(
        repository, NCCL_TOKEN="ghp_" + "a" * 36, TORCH_PASSWORD="swordfish", CUDA_NOTE="plain"
    )
    kept = "".join(path.read_text() for path in (repository / "runs" / run).rglob("*.json"))
    assert "CUDA_NOTE" in kept and "ghp_aaaa" not in kept and "swordfish" not in kept
    assert "TORCH_PASSWORD" in kept  # that it is set may make the difference


def test_a_hostile_repository_runs_nothing(repository: Path) -> None:
    trap = repository / "trap.sh"
    trap.write_text("#!/bin/sh\ntouch " + str(repository / "sprung.txt") + "\n")
    trap.chmod(0o755)
    keys = "core.fsmonitor diff.external core.pager core.hooksPath diff.x.textconv diff.x.command"
    for key in (*keys.split(), "filter.x.clean", "filter.x.smudge"):
        git(repository, "config", key, str(trap))
    (repository / ".gitattributes").write_text("*.py diff=x filter=x\n")
    (repository / "train.py").write_text("three\n")
    code = code_of(repository)
    assert not (repository / "sprung.txt").exists()
    assert code is not None and code["changed_files"] == 1 and len(code["commit"]) == 40
    git(repository, "status")
    assert (repository / "sprung.txt").exists(), "it was no trap"


def test_changes_are_those_that_git_sees(repository: Path) -> None:
    (repository / "more").mkdir()
    for number in range(4):
        (repository / "more" / f"{number}.py").write_text(f"{number}\n")
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "more")
    clean = code_of(repository)
    assert clean is not None and clean["changed_files"] == 0 and clean["diff_hash"] == ""
    (repository / "more" / "1.py").unlink()
    (repository / "train.py").write_text("two\n")
    (repository / "new.py").write_text("not in the commit\n")
    dirty = code_of(repository / "more")  # from any folder in it
    assert dirty is not None and dirty["changed_files"] == 2
    (repository / "train.py").write_text("three\n")
    again = code_of(repository)
    assert again is not None and again["diff_hash"] != dirty["diff_hash"]
    (repository / "train.py").write_text("two\n")
    assert code_of(repository) == dirty
