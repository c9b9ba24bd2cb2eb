"""How ``make prove`` keeps its figures: per sources they depend on, never of a dirty tree."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import sources
from benchmarks.claims import ITEMS
from benchmarks.harness import results


def test_every_promise_names_files_that_exist() -> None:
    assert len({item.number for item in ITEMS}) == len(ITEMS) >= 32
    for item in ITEMS:
        assert sources.closure(item.places)


def test_a_change_of_the_dashboard_leaves_the_estimators_figures_valid() -> None:
    of = {item.show.__name__: {str(p) for p in sources.closure(item.places)} for item in ITEMS}
    estimator = of["simulated_joules"]
    assert "probe/attribution/regression/solve.py" in estimator
    assert "tests/fakes/power_traces.py" in estimator  # imported by the benchmark
    assert not any(path.startswith("dashboard/") for path in estimator)
    assert "dashboard/app.py" in of["pages"]


def test_the_digest_follows_the_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "ROOT", tmp_path)
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    (tmp_path / "package" / "used.py").write_text("x = 1\n")
    (tmp_path / "package" / "main.py").write_text("from .used import x\n")
    first = sources.digest(["package/main.py"])
    (tmp_path / "package" / "unused.py").write_text("y = 1\n")
    assert sources.digest(["package/main.py"]) == first
    sources._imports.cache_clear()
    (tmp_path / "package" / "used.py").write_text("x = 2\n")
    assert sources.digest(["package/main.py"]) != first


@pytest.mark.parametrize("commit", ["abc1234", "abc1234-dirty"])
def test_a_result_is_only_written_for_a_commit(
    commit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "RESULTS", tmp_path)
    monkeypatch.setattr(results, "machine", lambda: {"commit": commit})
    results.save("figure", {"value": 3})
    written = tmp_path / "figure.json"
    if commit.endswith("-dirty"):
        assert not written.exists()
    else:
        assert json.loads(written.read_text())["value"] == 3
