"""``probe objective`` and the dashboard's page of it, over runs that the real recorder stored."""

from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from dashboard.access import Access
from dashboard.app import create_app
from probe.cli.main import main
from probe.compare import compare
from probe.report.build import run_report
from tests.contract.test_dashboard_access import callback
from tests.fixtures.archives import STORED_RUNS, unpack

NEEDED = (
    "base",
    "half",
    "wait",
    "plain",
    "quick",
    "modelled-only",
    "unmeasured",
    "failed",
    "hostile-name",
)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the stored runs those that are compared here; the dashboard lists all that it finds."""
    folder = tmp_path_factory.mktemp("objective")
    unpack(STORED_RUNS, folder)
    for run in (folder / "runs").iterdir():
        if not any(f"-{name}" in run.name for name in NEEDED):
            shutil.rmtree(run)
    return folder / "runs"


def called(runs: Path, capfd: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of the command."""
    with pytest.raises(SystemExit) as ended:
        main(["objective", *words, "--dir", str(runs)])
    out, err = capfd.readouterr()
    return int(ended.value.code or 0), out, err


def report_of(runs: Path, capfd: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    code, out, err = called(runs, capfd, *words, "--format", "json")
    assert code == 0, err
    return dict(json.loads(out))


def terms(configuration: dict[str, Any]) -> dict[str, Any]:
    return {term["quantity"]: term for term in configuration["terms"]}


def test_the_score_is_made_of_what_the_reports_say(
    runs: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Without a target a run's time and energy are those of its report."""
    printed = report_of(runs, capfd, "plain", "quick", "--weights", "time=2,energy=0.5")
    reports = {
        name: [run_report(path) for path in sorted(runs.glob(f"*-{name}-?"))]
        for name in ("plain", "quick")
    }
    means = {
        name: (
            fmean(report.run.duration_s for report in of),
            fmean(report.total.energy_j or 0.0 for report in of),
        )
        for name, of in reports.items()
    }
    for configuration in printed["configurations"]:
        time_s, energy_j = means[configuration["name"]]
        own = terms(configuration)
        assert own["time"]["value"] == pytest.approx(time_s, rel=0.01)
        assert own["energy"]["value"] == pytest.approx(energy_j, rel=0.01)
        base = means["plain"]
        wanted = 2 * time_s / base[0] + 0.5 * energy_j / base[1]
        assert configuration["score"] == pytest.approx(wanted, rel=0.01)
    low, high = printed["configurations"][1]["score_interval"]
    assert low < printed["configurations"][1]["score"] < high


def test_to_a_target_it_agrees_with_the_comparison(
    runs: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    printed = report_of(runs, capfd, "base", "half")
    (comparison,) = compare("base", ["half"], directory=runs).comparisons
    base, half = (terms(each) for each in printed["configurations"])
    assert printed["target"] == "accuracy>=0.75"
    for name, gain in (
        ("time", comparison.time_s),
        ("energy", comparison.energy_j),
        ("memory", comparison.memory_bytes),
    ):
        assert base[name]["value"] == pytest.approx(gain.base)
        assert half[name]["value"] == pytest.approx(gain.other)
    assert printed["lowest"] == "half"


def test_constraints_the_front_and_what_missed_the_target(
    runs: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ["base", "half", "wait", "--max", "memory=1GiB", "--max", "time=3s"]
    printed = report_of(runs, capfd, *words, "--min", "accuracy=0.7")
    base, half, wait = printed["configurations"]
    assert [each["state"] for each in half["constraints"]] == ["met", "met", "met"]
    assert base["constraints"][1]["state"] == "cannot be said"
    assert half["place"] == "on the front" and base["place"] == "tied"
    assert wait["score"] is None and wait["place"] == "not known"
    assert "the target was missed" in wait["reason"]
    code, text, _ = called(runs, capfd, *words)
    assert code == 0 and text.startswith("half has the lowest C")
    assert "wait has one run: no interval" in text and "Student's t" in text


def test_ids_names_and_latest_are_resolved(runs: Path, capfd: pytest.CaptureFixture[str]) -> None:
    ids = sorted(path.name for path in runs.glob("*-base-?"))
    printed = report_of(runs, capfd, ",".join(ids), "latest", "--target", "accuracy>=0.5")
    assert printed["configurations"][0]["ids"] == ids
    assert printed["configurations"][1]["ids"][0].endswith("modelled-only")
    apart = report_of(runs, capfd, *ids)
    assert [each["name"] for each in apart["configurations"]] == ["base", ids[1]]
    assert all(each["score_interval"] is None for each in apart["configurations"])


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["base", "nosuch"], 1, "no run 'nosuch'"),
        (["base", "base"], 1, "on two sides"),
        (["base", "half", "--weights", "tim=1"], 1, "no weight for 'tim': choose from time"),
        (["base", "half", "--weights", "time=-1"], 1, "write a number that is not negative"),
        (["base", "half", "--max", "memory=6"], 1, "memory needs a unit"),
        (["base", "half", "--max", "memory=6XB"], 1, "'XB' is no unit of memory"),
        (["base", "half", "--max", "los=6"], 1, "no run logged 'los'; they logged eval_accuracy"),
        (["base", "half", "--front", "xyz"], 1, "is not known, so no front is of it"),
        (["base", "half", "--format", "xml"], 1, "(there are text, json)"),
        (["base", "half", "--target", "f1>=1"], 1, "did not log f1"),
        (["modelled", "--weights", "energy=1"], 1, "no meter measured it, a model did"),
        (["failed", "base"], 1, "has no finished run, so it cannot be the base"),
        (["failed"], 2, "none of these runs finished"),
        (["20260101-120000-hostile-name", "--weights", "memory=1"], 1, "peak memory has a weight"),
        ([], 1, "arguments are required: RUN"),
    ],
)
def test_one_line_for_bad_input(
    runs: Path, words: list[str], code: int, said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    found_code, out, err = called(runs, capfd, *words)
    assert found_code == code and out == ""
    assert said in err and len(err.strip().splitlines()) == 1 and "Traceback" not in err


def test_modelled_energy_is_apart(runs: Path, capfd: pytest.CaptureFixture[str]) -> None:
    printed = report_of(runs, capfd, "modelled")
    (only,) = printed["configurations"]
    assert terms(only)["energy"]["value"] is None and only["modelled_energy_j"] > 0
    assert set(printed["weights"]) == {"time", "memory"}
    assert terms(only)["gradient_norm"] == {
        "quantity": "gradient_norm",
        "unit": "",
        "value": None,
        "interval": None,
        "share": None,
        "weight": 0.0,
        "weighted": None,
        "reason": "not logged",
    }


def test_the_page_shows_the_numbers_of_the_command(
    runs: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ["--weights", "time=1,energy=2", "--max", "time=3s", "--max", "memory=1GiB"]
    printed = report_of(runs, capfd, "base", "half", *words)
    app = create_app(runs, Access(), "/")
    query = "base=base&other=half&weights=time%3D1%2Cenergy%3D2&max=time%3D3s%2Cmemory%3D1GiB"
    shown = app.test_client().get(f"/csv/gains/pareto?{query}")
    assert shown.status_code == 200
    rows = list(csv.DictReader(io.StringIO(shown.text)))
    assert len(rows) == 2
    for row, configuration in zip(rows, printed["configurations"], strict=True):
        assert row["name"] == configuration["name"]
        assert float(row["score"]) == pytest.approx(configuration["score"])
        assert float(row["time"]) == pytest.approx(terms(configuration)["time"]["value"])
        assert row["place"].startswith(configuration["place"])
        for constraint in configuration["constraints"]:
            assert constraint["state"] in row["constraints"]
    asked = {"base": "base", "others": ["half"], "weights": "time=1,energy=2", "max": "time=3s"}
    (page,) = [text for _, text in callback(app, "objective.children", asked)]
    assert "half has the lowest C" in page and "The constraints" in page
    assert "time \\u2264 3.00 s" in page or "time ≤ 3.00 s" in page


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({}, "when runs are chosen"),
        ({"base": "base", "others": ["half"], "weights": "tim=1"}, "no weight for"),
        ({"base": "base", "others": ["half"], "max": "memory=6"}, "memory needs a unit"),
        ({"base": "base", "others": ["nosuch"]}, "no run"),
        ({"base": "failed", "others": ["failed"]}, "none of these runs finished"),
        ({"base": "base", "others": ["../base"]}, "write a name or id of a run"),
        ({"base": "base", "others": ["half"], "x": "gradient_norm"}, "choose other axes"),
        ({"base": ["x"], "others": 5, "weights": {}, "max": [None]}, "when runs are chosen"),
    ],
)
def test_the_page_says_in_words_what_cannot_be_drawn(
    runs: Path, asked: dict[str, Any], said: str
) -> None:
    (page,) = [
        text for _, text in callback(create_app(runs, Access(), "/"), "objective.children", asked)
    ]
    assert said in page and "Traceback" not in page
