"""A page as one file: whole, harmless, small, and silent about who ran it where."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from dashboard.access import Access
from dashboard.app import create_app
from dashboard.chart_data import Origin
from dashboard.data import sensors
from dashboard.snapshot import hidden
from dashboard.snapshot.hidden import GONE, Hidden
from dashboard.snapshot.still import MOST_BYTES, Still, document
from probe.store.catalogue.labels import change_labels
from probe.store.files import write_json
from probe.store.layout import RUN_FILE
from tests.contract.test_comparisons import HOSTILE
from tests.fakes.processes import ROOT
from tests.fakes.stored_run import counter, energy_source, stored_run
from tests.unit.dashboard.test_run_parts import BEGIN, write_logged

# What stands where: each is looked for in the file as it is.
PLANTED = {
    "argv": "--experiment=orca-7-merger",
    "data": "/data/clients/acme-corp/train.parquet",
    "host": "gpu-node-17.internal",
    "user": "alice_w",
    "config": "acme-corp-q3-forecast",
    "deep": "s3://acme-bucket/weights",
    "environment": "nccl-secret-17",
    "warning": "/home/alice_w/projects/orca/loader.py",
    "address": "10.11.12.13",
    "token": "hf_abcdefghijklmnopqrstuvwxyz0123",
}


def planted(directory: Path, run_id: str, name: str) -> Path:
    run = stored_run(
        directory,
        [(energy_source(0), counter(BEGIN, 20.0, 250.0))],
        20.0,
        run_id=run_id,
        name=name,
        begin_ns=BEGIN,
        steps=100,
        command=["train.py", PLANTED["argv"], PLANTED["data"], PLANTED["token"]],
        config={"project": PLANTED["config"], "nested": {"weights": [PLANTED["deep"]]}},
        environment={"NCCL_NAME": PLANTED["environment"]},
        host=PLANTED["host"],
        ended_by=f"FileNotFoundError: {PLANTED['data']} on {PLANTED['host']}",
        status="failed",
        warnings=[
            f"{PLANTED['warning']} is slow on {PLANTED['host']}",
            f"{PLANTED['user']} runs {PLANTED['argv']} at {PLANTED['address']}",
        ],
    )
    write_logged(run, sealed=True)
    return run


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # The directory itself names a user.
    directory = tmp_path_factory.mktemp("snapshots") / "home" / PLANTED["user"] / "runs"
    directory.mkdir(parents=True)
    planted(directory, "one", "plain")
    planted(directory, "two", HOSTILE)
    for run_id in ("three", "four"):
        run = planted(directory, run_id, run_id)
        meta = json.loads((run / RUN_FILE).read_text())
        write_json(run / RUN_FILE, meta | {"status": "finished", "ended_by": ""})
    return directory


def of(directory: Path, path: str) -> str:
    answer = create_app(directory, Access(), "/").test_client().get(f"/snapshot/{path}")
    assert answer.status_code == 200, answer.text
    assert answer.headers["Content-Disposition"].startswith("attachment")
    assert len(answer.data) < MOST_BYTES
    return answer.text


def leaked(text: str) -> list[str]:
    """Values that stand there, as text, in a URL, or in JSON."""
    plain = text.replace("\\/", "/")
    return [kind for kind, value in PLANTED.items() if value in plain]


PATHS = [
    "run/one",
    "run/two",
    "gains?base=three&other=four",
    "ranks/one",
    "runs",
    "runs?by=host&q=orca+-acme&archived=1",
    "runs?by=host&sort=-energy",
]


@pytest.mark.parametrize("path", PATHS)
def test_a_snapshot_says_nothing_of_who_ran_it_where(path: str, directory: Path) -> None:
    text = of(directory, path)
    assert leaked(text) == [] and str(directory) not in text and "train.py" not in text
    assert "orca" not in text and "acme" not in text


def test_the_list_of_runs_is_a_file_with_its_sums_and_notes(directory: Path) -> None:
    note = f"see {PLANTED['data']} on {PLANTED['host']}"
    change_labels(directory / "one", note=note, add=["ours"])
    text = of(directory, "runs?by=host").partition("<script")[0]
    assert "4 runs" in text and "host 1" in text and "ours" in text
    assert text.count("<tr") == 1 + 4 + 2 and "<button type='button' id='theme'>" in text
    assert "see … on host 1" in text and leaked(text) == []
    assert "href" not in text.partition("</head>")[2]
    assert PLANTED["host"] in of(directory, "runs?by=host&with=origin")


def test_the_sensors_are_a_file_without_this_machines_name(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = {
        "what": "RAPL",
        "reason": f"{PLANTED['user']} on {PLANTED['host']} may not read {PLANTED['data']}",
        "remedy": "sudo chmod a+r /sys/class/powercap/intel-rapl:0/energy_uj",
    }
    sensor = {"sensor": "cpu", "sources": [], "absent": [missing], "warnings": []}
    machine = {"sensors": [sensor], "versions": {"torch": "2"}, "python": "3.11"}
    done = subprocess.CompletedProcess([], 0, json.dumps(machine), "")
    monkeypatch.setattr(sensors.subprocess, "run", lambda *_, **__: done)
    monkeypatch.setattr(hidden.socket, "gethostname", lambda: PLANTED["host"])
    text = of(directory, "sensors")
    assert leaked(text) == [] and str(directory) not in text
    # What to do is the same on every machine.
    assert "RAPL" in text and "/sys/class/powercap/intel-rapl:0/energy_uj" in text


def test_who_asks_for_it_gets_command_and_host_but_no_secret(directory: Path) -> None:
    text = of(directory, "run/one?with=origin")
    leaks = leaked(text)
    assert {"argv", "data", "host", "config", "environment"} <= set(leaks)
    assert "token" not in leaks and "hf_" not in text


def test_a_snapshot_asks_nobody(directory: Path) -> None:
    text = of(directory, "run/two")
    markup, _, own = text.split("<script>")  # between them plotly's
    ours = markup + own
    assert not re.search(r"(?:src|href)=['\"](?!data:)", ours)
    assert "default-src 'none'" in text and HOSTILE not in text  # it is escaped
    figures = json.loads(re.search(r"id='figures'>(.*?)</script>", text, re.DOTALL)[1])
    assert len(figures) >= 4 and all(figure["data"] for figure in figures)
    # What was logged is there over each axis.
    assert {"steps", "samples", "time", "energy"} == {
        figure["layout"]["meta"]["over"]
        for figure in figures
        if "over" in figure["layout"].get("meta", {})
    }


def test_no_snapshot_is_a_line_and_no_traceback(directory: Path) -> None:
    client = create_app(directory, Access(), "/").test_client()
    for path in ("run/nothing", "run/..", "gains", "gains?base=one", "gains?base=/etc&other=one"):
        answer = client.get(f"/snapshot/{path}")
        assert answer.status_code in (400, 404) and answer.text.count("\n") == 1, path


def test_words_of_the_command_go_and_phases_stay() -> None:
    origin = Origin(
        ["train.py", "--name=forward", "--run", "big-secret-run-3"], "/x", {"a": "eight"}, {}, {}
    )
    taken_out = Hidden(["nodeA", "nodeB"], [origin])
    text = taken_out.text("forward/attention on nodeB: 3 g/kWh, big-secret-run-3, ~/x/y, C:\\z")
    assert text == f"forward/attention on host 2: 3 g/kWh, {GONE}, {GONE}, {GONE}"
    assert taken_out.json({"x": [1.0, None], "text": ["at nodeA"]}) == {
        "x": [1.0, None],
        "text": ["at host 1"],
    }


def test_a_file_that_would_be_too_large_is_refused() -> None:
    still = Still("t", "t", "x" * MOST_BYTES, Hidden((), ()))
    with pytest.raises(ValueError, match="more than 5000000"):
        document(still)


def test_the_command_writes_the_same_file(directory: Path, tmp_path: Path) -> None:
    file = tmp_path / "run.html"

    def snapshot(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "probe", "snapshot", *words, "--dir", str(directory)],
            capture_output=True,
            text=True,
            check=False,
            cwd=ROOT,
            timeout=60,
        )

    done = snapshot("plain", "-o", str(file))
    assert done.returncode == 0 and "wrote" in done.stderr, done.stderr
    assert leaked(file.read_text()) == [] and "plotly" in file.read_text()
    done = snapshot("plain", "-o", str(file), "--with-origin")
    assert done.returncode == 0 and "argv" in leaked(file.read_text())
    done = snapshot("nothing", "-o", str(file))
    assert done.returncode and done.stderr.count("\n") == 1
