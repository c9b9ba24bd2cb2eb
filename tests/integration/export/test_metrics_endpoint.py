"""`probe serve` and the endpoint of a run: who may ask, and what cannot be served."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from probe.store.files import read_json
from tests.fakes import processes
from tests.fakes.prometheus_server import fetch, wait_for


def test_one_endpoint_for_all_live_runs_behind_a_token(tmp_path: Path) -> None:
    port = processes.free_port()
    env = processes.environment(tmp_path / "runs")
    (tmp_path / "runs").mkdir()
    command = [
        sys.executable,
        "-m",
        "probe",
        "serve",
        str(tmp_path / "runs"),
        "--port",
        str(port),
        "--token",
        "sesame",
    ]
    serve = processes.closed_after_test(
        subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)
    )
    stop = tmp_path / "stop"
    runs = [
        processes.start(processes.UNTIL_FILE, tmp_path, str(stop), name=f"s{i}.py")
        for i in range(2)
    ]
    try:
        assert serve.stdout is not None and f":{port}/metrics" in serve.stdout.readline()
        url = f"http://127.0.0.1:{port}/metrics"
        with pytest.raises(urllib.error.HTTPError) as refused:
            fetch(url)
        assert refused.value.code == 401
        with pytest.raises(urllib.error.HTTPError):
            fetch(url, Authorization="Bearer wrong")

        def both_runs_and_their_phases() -> bool:
            text = fetch(url, Authorization="Bearer sesame")
            return text.count("phasewatt_run_info{") == 2 and text.count('phase="compute"') >= 2

        assert processes.wait_until(both_runs_and_their_phases)
    finally:
        stop.touch()
        for process in runs:
            process.communicate(timeout=processes.HUNG_S)
        serve.terminate()
        assert serve.wait(timeout=processes.HUNG_S) == 0


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
def test_the_endpoint_speaks_tls(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-days",
            "1",
            "-subj",
            "/CN=localhost",
            "-addext",
            "subjectAltName=IP:127.0.0.1",
            "-keyout",
            str(key),
            "-out",
            str(certificate),
        ],
        check=True,
        capture_output=True,
    )
    port = processes.free_port()
    (tmp_path / "runs").mkdir()
    serve = processes.closed_after_test(
        subprocess.Popen(
            [
                sys.executable,
                "-m",
                "probe",
                "serve",
                str(tmp_path / "runs"),
                "--port",
                str(port),
                "--cert",
                str(certificate),
                "--key",
                str(key),
            ],
            env=processes.environment(tmp_path / "runs"),
            stdout=subprocess.PIPE,
            text=True,
        )
    )
    try:
        assert serve.stdout is not None and "https://127.0.0.1" in serve.stdout.readline()
        trusted = ssl.create_default_context(cafile=str(certificate))
        url = f"https://127.0.0.1:{port}/metrics"
        with urllib.request.urlopen(url, context=trusted, timeout=processes.HUNG_S) as answer:
            assert answer.status == 200
        with pytest.raises(urllib.error.URLError):
            urllib.request.urlopen(url, timeout=processes.HUNG_S)  # nobody vouches for it
    finally:
        serve.terminate()
        assert serve.wait(timeout=processes.HUNG_S) == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--cert", "/nowhere.pem", "--key", "/nowhere.key"], "give a certificate"),
        (["--host", "0.0.0.0"], "give a token"),
        (["--port", "99999"], "1 to 65535"),
        (["/nowhere"], "there is no directory"),
    ],
)
def test_what_cannot_be_served_is_one_clear_line(
    words: list[str], said: str, tmp_path: Path
) -> None:
    done = processes.probe(tmp_path, "serve", *words)
    assert done.returncode == 1
    assert said in done.stderr and len(done.stderr.splitlines()) == 1


def test_a_port_that_is_taken_is_a_warning_and_tried_again(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        stop = tmp_path / "stop"
        script = processes.UNTIL_FILE.replace('name="plain"', f'name="plain", prometheus={port}')
        process = processes.start(script, tmp_path, str(stop))
        assert process.stdout is not None
        run = Path(process.stdout.readline().strip())
        meta = run / "run.json"  # where a recorder says that it could not listen
        assert processes.wait_until(lambda: str(port) in str(read_json(meta).get("warnings")))
    url = f"http://127.0.0.1:{port}/metrics"
    wait_for(url, "phasewatt_run_info")
    stop.touch()
    process.communicate(timeout=processes.HUNG_S)
    assert process.returncode == 0
    wait_for(url, "phasewatt_run_ended")  # its last figures are fetched, so the recorder may go
