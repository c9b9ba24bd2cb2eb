"""Callbacks, writes, tables and snapshots that are asked for nonsense: answered or refused in a line.

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
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from dashboard.access import Access
from dashboard.alerts.rules import rule_of
from dashboard.alerts.settings import Settings
from dashboard.app import create_app
from dashboard.data import sensors
from probe.store.files import write_json
from probe.store.layout import RUN_FILE
from probe.store.live import LiveDevice, LivePage, LiveTime, write_live
from tests.contract.test_comparisons import HOSTILE
from tests.contract.test_dashboard_access import dependencies, payload
from tests.fakes.stored_run import NS, counter, energy_source, stored_run
from tests.unit.dashboard.test_run_parts import BEGIN, write_logged

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
        run = stored_run(folder, [source], 10.0, run_id=run_id, name=name, steps=90, config={"a": 1})
        write_logged(run, sealed=True)
    (folder / "torn" / RUN_FILE).write_text('{"schema": 1, "id"')
    live = folder / "live"
    meta = json.loads((live / RUN_FILE).read_text())
    now_ns = time.monotonic_ns()
    anchor = {"monotonic_ns": now_ns, "wall_ns": time.time_ns()}
    begin = {"status": "running", "end_ns": None, "begin_ns": now_ns - 10 * NS, "anchor": anchor}
    write_json(live / RUN_FILE, meta | begin)
    device = LiveDevice("nvml:GPU-0:energy", "gpu0", "GPU-0", "measured", 2500.0, 250.0)
    times = (LiveTime("forward", 0, 4.0, 40),)
    write_live(live, LivePage(now_ns, time.time(), devices=(device,), times=times, steps=40))
    return folder


def nonsense(chance: random.Random, depth: int = 0) -> Any:
    kinds = [
        lambda: None,
        lambda: chance.choice([True, False]),
        lambda: chance.choice([0, -1, 2**63, 1e308, -0.0, 3]),
        lambda: "".join(chance.choices(LETTERS, k=chance.randrange(40))),
        lambda: chance.choice(["plain", "hostile", "torn", "1-2", "last-1", "../x", "<b>"]),
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


def test_fuzzed_callbacks_are_answered_or_refused(app: Flask) -> None:
    chance = random.Random(20261122)
    known = [
        one
        for one in dependencies(app)
        if one["clientside_function"] is None and "sensors" not in one["output"]
    ]
    assert len(known) >= 10
    asker = app.test_client()
    codes: dict[int, int] = {}
    for turn in range(600):
        one = chance.choice(known)
        body = payload(one, nonsense(chance))
        for part in body["inputs"] + body["state"]:
            part["value"] = nonsense(chance)
        if turn % 3 == 0:  # not even a request of ours
            key = chance.choice([*body, "inputs", "outputs"])
            body[key] = nonsense(chance)
            if turn % 9 == 0:
                body.pop(chance.choice(list(body)))
        answer = asker.post("/_dash-update-component", json=body)
        codes[answer.status_code] = codes.get(answer.status_code, 0) + 1
        assert answer.status_code < 500, (body, answer.text[:300])
        assert "Traceback" not in answer.text and 'File "/' not in answer.text
    assert codes.get(200, 0) > 200, codes


