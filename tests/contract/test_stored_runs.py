"""Stored runs read as they always did: reports, comparisons and exports, byte for byte.

The runs are in ``tests/fixtures/stored_runs.tar.xz``, their outputs in ``golden.tar.xz``. After a
change that is meant to alter outputs: ``python -m tests.fixtures.make_golden``.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fixtures import outputs
from tests.fixtures.archives import GOLDEN, STORED_RUNS, unpack
from tests.fixtures.golden import VERSIONS_FILE, differences, versions

FEWEST_RUNS = 13
SHOWN_DIFFERENCES = 5


def probe(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Run the command in a folder, as the golden outputs were made."""
    return subprocess.run(
        [sys.executable, "-m", "probe", *words],
        cwd=folder,
        capture_output=True,
        check=False,
        env=outputs.environment(folder) | environment,
    )


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stored")
    unpack(STORED_RUNS, folder)
    return folder / "runs"


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("golden")
    unpack(GOLDEN, folder)
    return folder


@pytest.mark.timeout(900)
@pytest.mark.parametrize("every", [8, pytest.param(1, marks=pytest.mark.full)])
def test_outputs_are_the_golden_ones_byte_for_byte(
    every: int, golden: Path, runs: Path, tmp_path: Path
) -> None:
    changed = version_changes(json.loads((golden / VERSIONS_FILE).read_text()))
    if changed:
        pytest.skip(f"the golden outputs were made with other versions: {changed}")
    outputs_now = outputs.collect(tmp_path, every)
    (outputs_now / VERSIONS_FILE).write_text(versions())
    chosen = {VERSIONS_FILE} | {
        command.output for task in outputs.tasks(runs)[::every] for command in task
    }
    differing = list(differences(golden, outputs_now, None if every == 1 else chosen))
    if differing:
        names = "\n".join(text.partition("\n")[0] for text in differing)
        details = "\n".join(differing[:SHOWN_DIFFERENCES])
        pytest.fail(
            f"{len(differing)} outputs differ:\n{names}\n\nThe first ones:\n{details}\n"
            f"\nAll of them are in {golden} and {outputs_now}",
            pytrace=False,
        )


def version_changes(before: dict[str, str]) -> str:
    now = json.loads(versions())
    return ", ".join(
        f"{name} {before.get(name)}, here {now.get(name)}"
        for name in sorted(before | now)
        if before.get(name) != now.get(name)
    )


def test_golden_outputs_were_made_with_the_versions_of_the_constraints(golden: Path) -> None:
    lines = (outputs.ROOT / "constraints.txt").read_text()
    constraints = {
        normalised_name(name): version
        for name, version in re.findall(r"^([A-Za-z0-9_.-]+)==(.+)$", lines, re.M)
    }
    for name, version in json.loads((golden / VERSIONS_FILE).read_text()).items():
        if name not in ("python", "machine"):
            assert version == constraints[normalised_name(name)], "make the golden outputs anew"


def normalised_name(package: str) -> str:
    return re.sub(r"[-_.]+", "-", package).lower()


def test_stored_runs_ended_in_every_way(runs: Path) -> None:
    rows = json.loads(probe(runs.parent, "ls", "runs", "--json").stdout)
    assert len(rows) >= FEWEST_RUNS and not any(row["problem"] for row in rows)
    assert {row["status"] for row in rows} == {"finished", "failed", "killed", "lost"}


def test_the_list_says_of_killed_runs_what_their_reports_say(runs: Path, tmp_path: Path) -> None:
    """Their run.json lacks it. The first list reads the runs, the second one the cache."""
    kept = {"XDG_CACHE_HOME": str(tmp_path), "HOME": str(tmp_path), "PROBE_CALIBRATION": ""}
    lists = [probe(runs.parent, "ls", "runs", "--json", **kept) for _ in range(2)]
    assert lists[0].stdout == lists[1].stdout
    killed = [row for row in json.loads(lists[0].stdout) if row["status"] in ("killed", "lost")]
    assert len(killed) > 1
    for row in killed:
        text = probe(runs.parent, "report", f"runs/{row['id']}", "--format", "json").stdout
        report = json.loads(text)
        assert row["energy_j"] == report["total"]["energy_j"] and row["energy_j"] > 0
        assert row["steps"] == report["run"]["steps"]


def test_every_exporter_and_every_format_is_among_the_outputs(runs: Path) -> None:
    words = {word for task in outputs.tasks(runs) for command in task for word in command.words}
    exporters = {
        line.split()[0] for line in probe(runs.parent, "export").stdout.decode().splitlines()
    }
    assert len(exporters) > 10 and exporters <= words
    for command in (("report", "x"), ("compare", "x", "y")):
        message = probe(runs.parent, *command, "--format", "none").stderr.decode()
        formats = set(message.rpartition("there are ")[2].partition(")")[0].split(", "))
        assert len(formats) > 3 and formats <= words


@pytest.mark.parametrize("seed", ["0", "1"])
def test_a_report_does_not_depend_on_time_zone_home_or_hashes(
    seed: str, runs: Path, golden: Path, tmp_path: Path
) -> None:
    (run,) = runs.glob("*-two-hosts")
    for format_ in ("text", "json"):
        report = probe(
            runs.parent,
            "report",
            f"{outputs.RUNS_DIR}/{run.name}",
            "--format",
            format_,
            TZ="Asia/Kolkata",
            HOME=str(tmp_path / "nobody"),
            PYTHONHASHSEED=seed,
        )
        assert report.stdout == (golden / "two-hosts" / f"report.{format_}").read_bytes()
