"""Post-import hooks: once, in time, and without a trace."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

from probe.instrument.patches.import_hooks import when_imported


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    folder = tmp_path / "latecomer"
    folder.mkdir()
    (folder / "__init__.py").write_text("from . import inner\nvalue = 1\n")
    (folder / "inner.py").write_text("value = 2\n")
    (tmp_path / "broken_latecomer.py").write_text("raise ImportError('its own')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    before = list(sys.meta_path)
    yield "latecomer"
    assert sys.meta_path == before
    for name in [n for n in sys.modules if n.startswith("latecomer")]:
        del sys.modules[name]


def test_called_once_after_the_import(package: str) -> None:
    seen: list[Any] = []
    when_imported(package, lambda module: seen.append(module.value))
    when_imported(f"{package}.inner", lambda module: seen.append(module.value))
    assert seen == []
    module = importlib.import_module(package)
    assert seen == [2, 1]
    assert type(module.__spec__.loader).__name__ == "SourceFileLoader"
    assert module.__loader__ is module.__spec__.loader
    when_imported(package, lambda module: seen.append("at once"))
    assert seen[-1] == "at once"


def test_withdrawn(package: str) -> None:
    seen: list[Any] = []
    withdraw = when_imported(package, seen.append)
    withdraw()
    withdraw()
    importlib.import_module(package)
    assert seen == []


def test_a_callback_that_raises_does_not_fail_the_import(package: str) -> None:
    when_imported(package, lambda _module: 1 / 0)
    assert importlib.import_module(package).value == 1


def test_a_module_that_fails_or_is_not_there(package: str) -> None:
    seen: list[Any] = []
    withdrawals = [
        when_imported("broken_latecomer", seen.append),
        when_imported("no_such_thing", seen.append),
    ]
    with pytest.raises(ImportError, match="its own"):
        importlib.import_module("broken_latecomer")
    with pytest.raises(ModuleNotFoundError, match="no_such_thing"):
        importlib.import_module("no_such_thing")
    assert seen == []
    for withdraw in withdrawals:
        withdraw()
