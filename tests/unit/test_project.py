"""The project as it is handed out: what it imports, exports, installs and promises in the README."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import probe
from tests.integration import scripts

ROOT = scripts.ROOT
HEAVY = {"torch", "pandas", "dash", "codecarbon", "pyarrow", "numpy"}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())

# What the README's lines take for granted: somebody's training.
TRAINING = """
import torch
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loss_fn = torch.nn.CrossEntropyLoss()
data = torch.utils.data.TensorDataset(torch.randn(32, 8), torch.randint(2, (32,)))
loader = torch.utils.data.DataLoader(data, batch_size=8)
def evaluate(): model(torch.randn(4, 8))
"""


def test_import_is_light(tmp_path: Path) -> None:
    code = "import sys, probe; print(*{name.partition('.')[0] for name in sys.modules})"
    result = scripts.run(code, tmp_path)
    assert result.returncode == 0, result.stderr
    assert not HEAVY & set(result.stdout.split())


def test_the_public_names_are_these_and_no_others() -> None:
    assert probe.__all__ == ["ProbeError", "Run", "__version__", "open_run", "phase", "watch"]
    assert all(hasattr(probe, name) for name in probe.__all__)


def test_the_version_is_told_once() -> None:
    assert probe.__version__ == PROJECT["project"]["version"]


def test_every_package_is_listed() -> None:
    """They are named by hand; one that is forgotten is missing only from the wheel."""
    ours = [ROOT / name for name in ("probe", "exporters", "dashboard", "optimizers")]
    found = {".".join(file.parent.relative_to(ROOT).parts)
             for top in ours for file in top.rglob("__init__.py")}
    assert set(PROJECT["tool"]["setuptools"]["packages"]) == found
    assert {p.parent for top in ours for p in top.rglob("*.py")} == {
        ROOT.joinpath(*name.split(".")) for name in found
    }


def test_the_command_is_installed() -> None:
    (script,) = (e for e in entry_points(group="console_scripts") if e.name == "probe")
    assert script.value == "probe.cli:main"


def test_torch_is_pinned_for_its_own_install() -> None:
    """The Makefile installs this line before everything else."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    assert len([line for line in lines if re.fullmatch(r"torch==[\d.]+", line)]) == 1
    pinned = {re.sub(r"[-_.]+", "-", line.split("==")[0]).lower() for line in lines if "==" in line}
    wanted = set(PROJECT["project"]["dependencies"])
    for extra in PROJECT["project"]["optional-dependencies"].values():
        wanted |= set(extra)
    names = {re.sub(r"[-_.]+", "-", re.split(r"[<>=\[]", line)[0]).lower() for line in wanted}
    assert names - pinned <= {"setuptools", "wheel"}  # pip does not freeze these two


@pytest.mark.slow
def test_the_wheel_works_outside_the_checkout(tmp_path: Path) -> None:
    source, site = tmp_path / "source", tmp_path / "site"
    source.mkdir()
    for name in PROJECT["tool"]["setuptools"]["packages"]:
        if "." not in name:
            shutil.copytree(ROOT / name, source / name,
                            ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    python = sys.executable
    call([python, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), "."],
         source)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        held = set(packed.namelist())
    written = {str(f.relative_to(source)) for f in (source / "probe").rglob("*.py")}
    assert {*written, "probe/py.typed"} <= held
    assert any(name.endswith("licenses/LICENSE") for name in held)
    call([python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target",
          str(site), str(wheel)], tmp_path)
    # A whole run: the recorder must find the package too.
    code = f"""
        import sys
        sys.path.insert(0, {str(site)!r})
        import probe, time
        with probe.watch(name="away", dir={str(tmp_path / "runs")!r}) as run:
            with run.phase("work"):
                time.sleep(0.5)
        print(probe.__file__)
        print([row["phase"] for row in run.report().data["phases"]])
    """
    where, phases = call([python, "-I", "-c", "if True:" + code], tmp_path).splitlines()
    assert Path(where).is_relative_to(site)
    assert "'work'" in phases


@pytest.mark.slow
def test_the_code_of_the_readme_runs(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert blocks
    for block in blocks:
        result = scripts.run(TRAINING + block, tmp_path)
        assert result.returncode == 0, result.stderr
        assert "forward" in result.stdout


@pytest.mark.parametrize("line", re.findall(
    r"^(?:\.venv/bin/)?(?:probe|make) (\w+)", (ROOT / "README.md").read_text(), re.MULTILINE
))
def test_the_commands_of_the_readme_exist(line: str) -> None:
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    commands = call([sys.executable, "-m", "probe", "--help"], ROOT)
    assert line in targets or re.search(rf"^\s+{line}\b", commands, re.MULTILINE)


def call(command: list[str], where: Path) -> str:
    """What it prints; it must succeed."""
    done = subprocess.run(command, cwd=where, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
