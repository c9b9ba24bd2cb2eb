"""Entries and their frameworks: who imports what, and what is said where one is missing or old."""

from __future__ import annotations

import os
import subprocess
import sys
import types

import pytest

from probe.errors import ProbeError
from probe.integrations.frameworks import FrameworkError, imported
from tests.fakes.packages import need
from tests.fakes.processes import ROOT

FRAMEWORKS = {
    "hf": "transformers",
    "lightning": "lightning",
    "accelerate": "accelerate",
    "keras": "keras",
    "ray": "ray",
    "skorch": "skorch",
    "stable_baselines3": "stable-baselines3",
}
MODULES = ["pytorch_lightning", *(package.replace("-", "_") for package in FRAMEWORKS.values())]


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=os.environ | {"KERAS_BACKEND": "torch"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_importing_probe_and_watching_import_no_framework() -> None:
    code = "import sys, probe, probe.integrations; probe.watch; print(*sys.modules)"
    loaded = {name.partition(".")[0] for name in python(code).stdout.split()}
    assert "probe" in loaded and not loaded & {*MODULES, "torch"}


@pytest.mark.full
@pytest.mark.parametrize("framework", MODULES)
def test_a_framework_imports_nothing_of_ours(framework: str) -> None:
    need(framework)
    # Ray cannot be imported where amdsmi is installed without its library.
    code = "import sys; sys.modules['amdsmi'] = None\n"
    done = python(f"{code}import {framework}; print(*sys.modules)")
    assert done.returncode == 0, done.stderr[-2000:]
    assert "probe" not in {name.partition(".")[0] for name in done.stdout.split()}


@pytest.mark.parametrize("entry", FRAMEWORKS)
def test_a_missing_framework_is_one_line(entry: str) -> None:
    code = (
        "import sys\n"
        f"for name in {MODULES}:\n"
        "    sys.modules[name] = None\n"
        f"try:\n    import probe.integrations.{entry}\n"
        "except ImportError as error:\n    print(type(error).__name__, error)\n"
    )
    said = python(code).stdout
    assert said.startswith("FrameworkError ") and said.count("\n") == 1
    assert f"pip install '{FRAMEWORKS[entry]}>=" in said


def test_an_old_framework_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    old = types.ModuleType("old_framework")
    old.__version__ = "4.9.2"
    monkeypatch.setitem(sys.modules, "old_framework", old)
    assert imported("old-framework", "4.9") is old
    with pytest.raises(FrameworkError, match=r"old-framework 4.9.2 is older than 4.50: pip inst"):
        imported("old-framework", "4.50")
    assert issubclass(FrameworkError, ProbeError)
