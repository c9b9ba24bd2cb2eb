"""Alerts: in the user's words, from the user alone, once for each change of state."""

from __future__ import annotations

import http.server
import json
import os
import queue
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from dashboard.access import Access
from dashboard.alerts import senders
from dashboard.alerts.rules import rule
from dashboard.alerts.senders import by_command, by_webhook
from dashboard.alerts.settings import Settings, configured, settings
from dashboard.alerts.watcher import Watcher
from dashboard.app import create_app
from dashboard.context import CONFIG_KEY
from dashboard.data.library import Library
from probe.errors import UsageError
from probe.model import RunStatus
from probe.ring.layout import Record
from probe.store import layout
from probe.store.files import write_json
from probe.store.live import LiveDevice, LivePage, LiveRate, LiveTime, write_live
from probe.store.segments import EDGES, SegmentWriter
from tests.fakes.stored_run import NS, counter, energy_source, stored_run

MESSAGE = {"text": "phasewatt: $(touch owned) `touch owned`; touch owned", "rule": "r"}
TOML = 'rules = ["no step for 10 min"]\ncommand = ["touch", "owned"]\n'


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return folder


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    folder = tmp_path / "runs"
    folder.mkdir()
    return folder


def live_run(runs: Path, seconds_ago: float = 60.0, steps: int = 5) -> Path:
    begin_ns = time.monotonic_ns() - int(seconds_ago * NS)
    return stored_run(
        runs,
        [(energy_source(0), counter(begin_ns, 10.0, 200.0))],
        10.0,
        name="<b>live</b>\n--option",
        begin_ns=begin_ns,
        steps=steps,
        status=RunStatus.RUNNING,
        end_ns=0,
    )


def write_values(run: Path, number: int, value: float) -> None:
    folder = layout.rank_dir(run, 0)
    write_json(folder / "names-main0.json", {"900": "loss"})
    SegmentWriter(folder, f"edges-main0-{number}", EDGES).write(
        {
            "time_ns": np.array([time.monotonic_ns()]),
            "payload": np.array([value]).view(np.int64),
            "kind": np.array([int(Record.VALUE)], np.uint8),
            "code": np.array([900], np.uint16),
            "sequence": np.array([9000 + number], np.uint32),
        }
    )


@pytest.mark.parametrize(
    "text",
    "no step for 10 min|no step for 1.5h|cap > 50 %|under the cap > 5%|loss not finite"
    "|eval/loss not finite|energy > 5 kWh| energy  > 100 J ".split("|"),
)
def test_a_rule_is_words(text: str) -> None:
    assert rule(text).text == " ".join(text.split())


@pytest.mark.parametrize(
    "text", ["", "no step", "no step for -1 min", "cap > x %", "energy > 5 cal", "rm -rf /"]
)
def test_other_words_are_refused_in_a_line(text: str) -> None:
    with pytest.raises(UsageError, match="write one like"):
        rule(text)


def test_the_users_own_file_is_read(home: Path, runs: Path) -> None:
    file = configured()
    assert file == home / ".config" / "phasewatt" / "alerts.toml"
    assert settings(runs) == Settings()
    file.parent.mkdir(parents=True)
    file.write_text(TOML)
    alerts = settings(runs, ["loss not finite"], "notify 'a b'", "https://example.org/x")
    assert [each.text for each in alerts.rules] == ["no step for 10 min", "loss not finite"]
    assert alerts.command == ("notify", "a b") and alerts.webhook.endswith("/x")
    assert settings(runs).command == ("touch", "owned")
    file.chmod(0o666)
    with pytest.raises(UsageError, match="can be written by others"):
        settings(runs)
    file.chmod(0o600)
    for wrong in ('rule = ["x"]', "rules = 7", 'command = "touch x"', "rules = [", "rules = [1]"):
        file.write_text(wrong)
        with pytest.raises(UsageError) as refused:
            settings(runs)
        assert "\n" not in str(refused.value).strip() and "alerts.toml" in str(refused.value)
    file.unlink()
    with pytest.raises(UsageError, match="https://"):
        settings(runs, webhook="file:///etc/passwd")


def test_what_is_planted_in_a_directory_of_runs_does_nothing(
    home: Path, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = live_run(runs)
    for folder in (runs, run, runs / "phasewatt", run / ".config" / "phasewatt", run / "node-x"):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "alerts.toml").write_text(TOML)
    meta = json.loads((run / "run.json").read_text())
    planted = {"alerts": TOML, "rules": ["no step for 1 s"], "command": ["touch", "owned"]}
    write_json(run / "run.json", meta | planted)
    monkeypatch.chdir(runs)
    monkeypatch.setenv("XDG_CONFIG_HOME", ".")  # relative: XDG says it does not count
    alerts = settings(runs)
    assert alerts == Settings()
    context = create_app(runs, Access(), "/", alerts).config[CONFIG_KEY]
    assert not context.alerts.is_on
    context.alerts.start()
    context.alerts.check()
    assert context.alerts.alerts() == [] and not list(runs.rglob("owned"))
    # Not even a configuration that leads there is believed.
    link = home / ".config" / "phasewatt"
    link.parent.mkdir()
    link.symlink_to(run)
    with pytest.raises(UsageError, match="not read from there"):
        settings(runs)


def test_a_change_of_state_is_told_once(runs: Path) -> None:
    run = live_run(runs)
    messages: queue.SimpleQueue[dict[str, str]] = queue.SimpleQueue()
    library = Library(runs)
    alerts = Settings((rule("no step for 20 s"), rule("loss not finite"), rule("energy > 1 kJ")))
    watcher = Watcher(library, alerts, lambda message: messages.put(dict(message)) or [])
    watcher._ended.wait = lambda _: True  # type: ignore[method-assign]  # checked by hand
    watcher.start()
    try:
        for _ in range(3):
            watcher.check()
        first = messages.get(timeout=10)
        assert (first["rule"], first["state"]) == ("no step for 20 s", "on")
        assert first["text"].startswith("phasewatt: <b>live</b> --option: no step for 20 s: ")
        (alert,) = watcher.alerts()
        assert "no step for" in alert.detail and alert.run_id == run.name
        write_values(run, 2, float("nan"))
        write_live(
            run,
            LivePage(
                time_ns=time.monotonic_ns(),
                wall_s=time.time(),
                devices=(LiveDevice("gpu0", "s", "measured", 2e3, 200.0, 1),),
            ),
        )
        for _ in range(2):
            time.sleep(0.2)  # a run's newest is looked up at most ten times a second
            watcher.check()
        rules = {messages.get(timeout=10)["rule"] for _ in range(2)}
        assert rules == {"loss not finite", "energy > 1 kJ"}
        write_values(run, 3, 1.0)
        watcher.check()
        over = messages.get(timeout=10)
        assert (over["rule"], over["state"]) == ("loss not finite", "over")
        assert messages.empty() and len(watcher.alerts()) == 2
    finally:
        watcher.close()
    assert not any(thread.is_alive() for thread in watcher._threads)


def test_under_the_cap_is_a_share_of_the_time(runs: Path) -> None:
    run = live_run(runs)
    rates = tuple(
        LiveRate(phase, "gpu0", "power_cap_time", "s", share, 0.0, 1.0, "resolved")
        for phase, share in (("forward", 0.2), ("backward", 0.8))
    )
    times = tuple(LiveTime(phase, 0, 10.0, 5) for phase in ("forward", "backward"))
    page = LivePage(time.monotonic_ns(), time.time(), rates=rates, times=times)
    write_live(run, page)
    opened = Library(runs).open(run.name)
    assert rule("cap > 45 %").holds(opened) == "under the power cap for 50 % of the time"
    assert rule("cap > 55 %").holds(opened) is None


def test_a_command_gets_words_and_no_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    script = "import sys; open('told', 'w').write(sys.argv[1] + '|' + sys.stdin.read())"
    assert by_command([sys.executable, "-c", script], MESSAGE) == ""
    text, _, sent = Path("told").read_text().partition("|")
    assert text == MESSAGE["text"] and json.loads(sent) == MESSAGE
    assert not Path("owned").exists()
    assert "No such file" in by_command(["/nowhere/x"], MESSAGE)
    assert by_command(["false"], MESSAGE) == "false ended with 1"


def test_a_command_that_hangs_is_ended_with_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert senders.LONGEST_S == 10.0
    monkeypatch.setattr(senders, "LONGEST_S", 1.0)
    file = tmp_path / "child"
    script = f"sleep 100 & echo $! > {file}; wait"
    assert "was ended" in by_command(["sh", "-c", script], MESSAGE)
    child = int(file.read_text())
    deadline = time.monotonic() + 10
    while Path(f"/proc/{child}").exists() and time.monotonic() < deadline:
        state = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0]
        if state == "Z":
            break
        time.sleep(0.05)
    else:
        assert not Path(f"/proc/{child}").exists()


@pytest.fixture
def webhook() -> Iterator[tuple[str, list[tuple[str, bytes]]]]:
    seen: list[tuple[str, bytes]] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            seen.append((self.path, body))
            self.send_response(302 if self.path == "/away" else 200)
            self.send_header("Location", "/other")
            self.end_headers()

        def do_GET(self):
            seen.append((self.path, b""))

        def log_message(self, *_):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", seen
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_webhook_gets_json_and_leads_nowhere_else(
    webhook: tuple[str, list[tuple[str, bytes]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    address, seen = webhook
    assert by_webhook(f"{address}/hook", MESSAGE) == ""
    assert seen[0][0] == "/hook" and json.loads(seen[0][1]) == MESSAGE
    assert "302" in by_webhook(f"{address}/away", MESSAGE)
    assert [path for path, _ in seen] == ["/hook", "/away"]
    assert "127.0.0.1" in by_webhook("http://127.0.0.1:1/x?token=abc", MESSAGE)
    assert "token" not in by_webhook("http://127.0.0.1:1/x?token=abc", MESSAGE)


def test_the_page_shows_what_holds_and_escapes_it(runs: Path) -> None:
    live_run(runs)
    app = create_app(runs, Access(), "/", Settings((rule("no step for 20 s"),)))
    context = app.config[CONFIG_KEY]
    context.alerts.check()
    shown = app.test_client().get("/_dash-layout").get_json()
    text = json.dumps(shown)
    assert "alert-bar" in text and "no step for 20 s" in text and "<b>live</b> --option" in text
    assert (
        "alert-bar" not in create_app(runs, Access(), "/").test_client().get("/_dash-layout").text
    )
