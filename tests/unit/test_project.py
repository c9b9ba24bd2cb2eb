"""The project as others meet it: imports, public names, wheel, help."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest

import probe
from probe.cli.main import command_names, main
from probe.instrument import state_machine

ROOT = Path(__file__).resolve().parents[2]
HEAVY = {"torch", "pandas", "dash", "codecarbon", "pyarrow", "numpy", "pynvml", "psutil"}


def python(code: str, *, cwd: Path, executable: str = sys.executable) -> str:
    done = subprocess.run(
        [executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=cwd,
        check=False,
        # One thread: other tests run beside, and those of OpenMP wait by spinning.
        env={"PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_probe_pulls_nothing_heavy(tmp_path: Path) -> None:
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import probe; print(*sys.modules)"
    loaded = {name.partition(".")[0] for name in python(code, cwd=tmp_path).split()}
    assert not loaded & HEAVY


def test_the_public_names_are_these() -> None:
    assert sorted(probe.__all__) == [
        "GroupReport",
        "ProbeError",
        "Report",
        "Run",
        "RunReader",
        "StoreError",
        "UsageError",
        "__version__",
        "open_report",
        "open_run",
        "phase",
        "start",
        "watch",
    ]
    assert all(hasattr(probe, name) for name in probe.__all__)


def test_every_folder_of_code_is_a_package_and_the_versions_agree() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    for top in ("probe", "optimizers", "exporters", "dashboard"):
        folders = {path.parent for path in (ROOT / top).rglob("*.py")}
        # Started by path, as the interpreter's own: the launcher puts its folder on the path.
        assert all((folder / "__init__.py").exists() for folder in folders)
    assert project["project"]["version"] == probe.__version__


@pytest.mark.full
def test_the_wheel_installs_and_measures_outside_the_checkout(tmp_path: Path) -> None:
    built = subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr[-2000:]
    (wheel,) = tmp_path.glob("*.whl")
    # Its own environment; the dependencies come from this one, so nothing is downloaded.
    venv.create(tmp_path / "venv", with_pip=False)
    target = next((tmp_path / "venv" / "lib").iterdir()) / "site-packages"
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--no-index",
            "--target",
            str(target),
            str(wheel),
        ],
        check=True,
    )
    import numpy

    (target / "borrowed.pth").write_text(str(Path(numpy.__file__).parents[1]) + "\n")
    code = """
import probe, time
with probe.watch(name="wheel", dir="runs") as run:
    with run.phase("work"):
        time.sleep(0.3)
print(probe.__file__)
print(run.report())
"""
    out = python(code, cwd=tmp_path, executable=str(tmp_path / "venv" / "bin" / "python"))
    assert str(tmp_path) in out.splitlines()[0]
    assert "work" in out
    assert (target / "probe" / "py.typed").exists()
    assert (
        any((target / "probe" / "instrument").glob("state_machine.*.so")) == state_machine.COMPILED
    )


@pytest.mark.parametrize("command", [None, *command_names()])
def test_help_of_every_command_names_its_arguments(
    command: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*([] if command is None else [command]), "--help"])
    printed = capsys.readouterr().out
    assert ended.value.code == 0
    assert printed.startswith("usage: probe")
    if command is None:
        assert all(name in printed for name in command_names())
