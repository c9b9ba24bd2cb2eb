"""Callbacks, writes, tables, snapshots asked for nonsense: answered, or refused in a line.

Every callback of the app is asked, with what its own page would send but for one value or more.
"""

from __future__ import annotations

import json
import os
import random
import string
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from flask import Flask

from dashboard.access import Access
from dashboard.alerts.rules import rule
from dashboard.alerts.settings import Settings
from dashboard.app import create_app
from dashboard.context import CONFIG_KEY
from dashboard.data import sensors
from probe.store.files import write_json
from probe.store.layout import RUN_FILE
from probe.store.live import LiveDevice, LivePage, LiveTime, write_live
from tests.contract.test_comparisons import HOSTILE
from tests.contract.test_dashboard_access import dependencies, payload
from tests.fakes.stored_run import NS, counter, energy_source, stored_run
from tests.unit.dashboard.test_run_parts import BEGIN, write_logged

LETTERS = string.printable + "é\u2028\x00"
OWN = {"Origin": "http://localhost"}
RUNS = ("plain", "hostile", "other", "live", "torn")
TURNS = [
    pytest.param(150, id="few"),
    pytest.param(1000, id="thousand", marks=[] if "PROVE" in os.environ else pytest.mark.full),
]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fuzz") / "runs"
    for run_id in RUNS:
        name = HOSTILE if run_id == "hostile" else run_id
        source = energy_source(0), counter(BEGIN, 10.0, 250.0)
        run = stored_run(
            folder, [source], 10.0, run_id=run_id, name=name, steps=90, config={"a": 1}
        )
        write_logged(run, sealed=True)
    (folder / "torn" / RUN_FILE).write_text('{"schema": 1, "id"')
    return folder


def heartbeat(folder: Path) -> None:
    """One run is live now: without a beat it would be lost some seconds later."""
    live = folder / "live"
    meta = json.loads((live / RUN_FILE).read_text())
    now_ns = time.monotonic_ns()
    anchor = {"monotonic_ns": now_ns, "wall_ns": time.time_ns()}
    begin = {"status": "running", "end_ns": None, "begin_ns": now_ns - 10 * NS, "anchor": anchor}
    write_json(live / RUN_FILE, meta | begin)
    device = LiveDevice("nvml:GPU-0:energy", "gpu0", "GPU-0", "measured", 2500.0, 250.0)
    times = (LiveTime("forward", 0, 4.0, 40),)
    write_live(live, LivePage(now_ns, time.time(), devices=(device,), times=times, steps=40))


def nonsense(chance: random.Random, depth: int = 0) -> Any:
    kinds = [
        lambda: None,
        lambda: chance.choice([True, False]),
        lambda: chance.choice([0, -1, 2**63, 1e308, -0.0, 3]),
        lambda: "".join(chance.choices(LETTERS, k=chance.randrange(40))),
        lambda: chance.choice([*RUNS, "1-2", "last-1", "../x", "<b>"]),
    ]
    if depth < 3:
        kinds += [
            lambda: [nonsense(chance, depth + 1) for _ in range(chance.randrange(4))],
            lambda: {
                str(nonsense(chance, 3)): nonsense(chance, depth + 1)
                for _ in range(chance.randrange(4))
            },
            lambda: {"t": nonsense(chance, 3), "d": nonsense(chance, 3)},
            lambda: {
                "base": nonsense(chance, 3),
                "others": nonsense(chance, 3),
                "target": nonsense(chance, 3),
            },
        ]
    return chance.choice(kinds)()


def usual(part: dict[str, Any], chance: random.Random) -> Any:
    """What the page itself would send for an input or a state."""
    name, of = str(part["id"]), str(part["property"])
    asked = {"t": "1-4", "d": "gpu0", "v": "loss", "x": "energy", "run": "plain"}
    if name in ("run", "ranks-run"):
        return chance.choice(RUNS)
    if name in ("span", "later"):
        return asked
    if name == "gains-asked":
        sides = {"base": "plain", "others": ["other", "hostile"], "target": "loss<=1.5"}
        return sides | {"weights": "time=1,energy=2", "max": "time=30s", "x": "time"}
    if name == "runs-asked":
        return {"q": "plain -x", "sort": "-energy", "page": "2", "by": "host", "archived": "1"}
    if "intervals" in of or "clicks" in of:
        return chance.randrange(100)
    return chance.choice([None, "", "running 1 2", "plain", "/run/plain", "?t=1-2"])


def a_callback(
    app: Flask, callbacks: list[dict[str, Any]], chance: random.Random, turn: int
) -> Any:
    """Sent with all that is usual, with one value that is not, or with none."""
    callback = callbacks[turn % len(callbacks)]  # each comes round
    body = payload(callback, None)
    parts = body["inputs"] + body["state"]
    for part in parts:
        part["value"] = usual(part, chance)
    kind = turn // len(callbacks) % 4
    if kind == 1:
        chance.choice(parts)["value"] = nonsense(chance)
    elif kind == 2:
        for part in parts:
            part["value"] = nonsense(chance)
    elif kind == 3:  # not even a request of ours
        body[chance.choice([*body, "inputs", "outputs"])] = nonsense(chance)
        if chance.random() < 0.3:
            body.pop(chance.choice(list(body)))
    return app.test_client().post("/_dash-update-component", json=body)


def a_write(app: Flask, chance: random.Random) -> Any:
    keys = ["add", "remove", "note", "note_before", "archived", "x"]
    sent = nonsense(chance)
    if chance.random() < 0.6:
        sent = {chance.choice(keys): nonsense(chance, 2) for _ in range(2)}
    run = quote(chance.choice([*RUNS, str(nonsense(chance, 3))]), safe="")
    return app.test_client().post(f"/labels/{run}", json=sent, headers=OWN)


def a_file(app: Flask, chance: random.Random) -> Any:
    """A snapshot, a table or a CSV, of what there is or of nonsense."""
    run = quote(chance.choice([*RUNS, str(nonsense(chance, 3))]), safe="")
    view = quote(chance.choice(["power", "logged", "burn", "drift", "quality", "x\x00"]), safe="")
    path = chance.choice(
        [
            f"/snapshot/run/{run}",
            f"/snapshot/ranks/{run}",
            "/snapshot/runs",
            "/snapshot/gains",
            "/snapshot/sensors",
            f"/table/run/{run}/{view}",
            f"/csv/run/{run}/{view}",
            f"/csv/gains/{view}-0",
        ]
    )
    keys = ["t", "d", "v", "x", "q", "sort", "page", "by", "base", "other", "target", "weights"]
    query = {chance.choice(keys): str(nonsense(chance, 3)) for _ in range(3)}
    if chance.random() < 0.5:
        query |= {"base": "plain", "other": "other"}
    return app.test_client().get(path, query_string=query)


@pytest.fixture
def app(directory: Path, monkeypatch: pytest.MonkeyPatch) -> Flask:
    """With alerts that hold, and a `probe doctor` that says nonsense."""
    chance = random.Random(3)

    def doctor(*_: Any, **__: Any) -> subprocess.CompletedProcess[str]:
        machine = {"sensors": nonsense(chance), "versions": nonsense(chance), "python": "3"}
        return subprocess.CompletedProcess([], 0, json.dumps(machine), "")

    monkeypatch.setattr(sensors.subprocess, "run", doctor)
    settings = Settings((rule("energy > 1 J"), rule("no step for 1 s"), rule("loss not finite")))
    made = create_app(directory, Access(), settings=settings)
    heartbeat(directory)
    made.config[CONFIG_KEY].alerts.check()
    assert made.config[CONFIG_KEY].alerts.alerts()
    return made


@pytest.mark.parametrize("turns", TURNS)
def test_whatever_is_asked_is_answered_or_refused_in_a_line(turns: int, app: Flask) -> None:
    chance = random.Random(20261126)
    asked_callbacks = [
        callback for callback in dependencies(app) if callback["clientside_function"] is None
    ]
    asked = " ".join(callback["output"] for callback in asked_callbacks)
    for part in ("run-head", "comparison", "objective", "run-labels", "alert-bar", "sensors"):
        assert part in asked
    codes: Counter[int] = Counter()
    callbacks = 0
    for turn in range(turns + turns // 4):
        if turn % 5 < 4:
            answer = a_callback(app, asked_callbacks, chance, callbacks)
            callbacks += 1
        else:
            answer = (a_write if chance.random() < 0.5 else a_file)(app, chance)
        codes[answer.status_code] += 1
        assert answer.status_code < 500, (turn, answer.status_code, answer.text[:300])
        text = answer.text if len(answer.data) < 1_000_000 else ""
        assert "Traceback" not in text and 'File "/' not in text
        if answer.status_code >= 400:
            assert answer.text.count("\n") <= 1 and len(answer.text) < 2000
    assert callbacks == turns >= 2 * len(asked_callbacks) and codes[200] > turns / 4, codes
