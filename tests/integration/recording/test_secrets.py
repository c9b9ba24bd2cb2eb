"""What a run leaves behind holds none of the secrets that its command, config or errors held."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporters import ExportRefused
from exporters.otlp.sender import Sender
from exporters.pushgateway import Pushgateway
from probe.recorder.log import log
from tests.fakes import processes

SECRET = "Zk93xQv7LmT2pRw8"
FAILING = f"""
import probe
config = {{"api_key": "{SECRET}", "nested": {{"db_password": "{SECRET}"}}, "max_tokens": 512}}
with probe.watch(name="secrets", config=config) as run:
    raise RuntimeError("401 for https://u:{SECRET}@h/x?token={SECRET}")
"""
COMMAND = [f"--api-key={SECRET}", "--password", SECRET, f"TOK={SECRET}", "--max-tokens", "512"]


def test_no_file_of_a_run_holds_a_secret(tmp_path: Path) -> None:
    done = processes.run(
        FAILING, tmp_path, *COMMAND, extra={"WANDB_API_KEY": SECRET, "TOKEN_OF_ENV": SECRET}
    )
    assert done.returncode == 1
    run = processes.only_run(tmp_path)
    holding = [
        path for path in run.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()
    ]
    assert holding == []
    text = (run / "run.json").read_text()
    assert "401 for https://***@h/x?token=***" in text
    assert "max_tokens" in text and "--max-tokens" in text


def test_no_file_of_a_started_command_holds_a_secret(tmp_path: Path) -> None:
    done = processes.probe(tmp_path, "run", "--", "true", *COMMAND)
    assert done.returncode == 0, done.stderr
    run = processes.only_run(tmp_path)
    assert SECRET not in (run / "run.json").read_text()
    assert "--max-tokens" in (run / "run.json").read_text()


def test_the_recorders_log_holds_no_secret(capsys: pytest.CaptureFixture[str]) -> None:
    log(f"OSError: https://u:{SECRET}@h refused password={SECRET}")
    assert capsys.readouterr().err == "OSError: https://***@h refused password=***\n"


def test_printed_addresses_hold_no_password() -> None:
    address = f"http://u:{SECRET}@127.0.0.1:9/x"
    with pytest.raises(ExportRefused) as refused:
        Sender(address.removeprefix("http:"))
    assert SECRET not in str(refused.value)
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    with Sender(address) as sender:
        assert sender.url == "http://***@127.0.0.1:9/x/v1/metrics"
        assert SECRET in sender._exporter._endpoint
    assert Pushgateway().url == ""
