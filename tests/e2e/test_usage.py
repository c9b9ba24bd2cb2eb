"""Every command and option of ``--help``: what it says, how fast it refuses, what was meant."""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
import urllib.error
from collections.abc import Iterator
from pathlib import Path

import pytest

from probe.cli.main import command_names, full_parser, main
from tests.fakes import processes
from tests.fakes.otlp_collector import Collector
from tests.fakes.prometheus_server import fetch

COMMANDS = command_names()
ROOT = Path(__file__).resolve().parents[1]


def commands() -> dict[str, argparse.ArgumentParser]:
    (action,) = (a for a in full_parser()._actions if isinstance(a, argparse._SubParsersAction))
    return dict(action.choices)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_examples_and_says_what_each_option_is(name: str) -> None:
    parser = commands()[name]
    assert "examples:\n  probe " in parser.format_help()
    for action in parser._actions:
        assert action.help or action.dest in ("words", "others"), action
        shown = action.default not in (None, False, [], argparse.SUPPRESS)
        if shown and action.option_strings and action.const is None:
            default = action.default
            text = f"{default:g}" if isinstance(default, float) else str(default)
            assert f"({text})" in str(action.help), f"{action}: no default in its help"


@pytest.mark.parametrize("name", COMMANDS)
def test_an_example_is_what_the_parser_takes(name: str) -> None:
    """Words up to two spaces: what follows is said about it."""
    import shlex
    from importlib import import_module

    for line in import_module(f"probe.cli.commands.{name}").EXAMPLES:
        words = shlex.split(line.split("   ")[0].split(" > ~")[0])
        assert words[0] == "probe"
        full_parser().parse_args(words[1:])


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["reportt"], "did you mean 'report'?"),
        (["report", "--fromat", "json"], "did you mean '--format'?"),
        (["report", "--format", "htlm"], "did you mean 'html'?"),
        (["compare", "a", "b", "--format", "markdown"], "(there are text, json, md, csv, html)"),
        (["compare", "a"], "required: OTHER"),
        (["report", "plainn"], "did you mean 'plain'?"),
        (["compare", "plainn", "plain"], "did you mean 'plain'?"),
        (["export", "--to", "codecrabon"], "did you mean 'codecarbon'?"),
        (["export", "--to", "sci", "--set", "embodied=4"], "did you mean 'embodied_g'?"),
        (["ablate", "--techniques", "precisoin", "--", "x"], "did you mean 'precision'?"),
        (["ablate"], "begin one with --techniques"),
        (["card", "precisoin", "--", "x"], "did you mean 'precision'?"),
        (["card"], "there are no cards in runs/cards"),
        (["search"], "begin one with --knobs"),
        (["ls", "nowhere"], "there is no directory nowhere"),
        (["ls", ".", "--dir", "."], "give one directory"),
        (["share", "plain", "groupp"], "did you mean 'group'?"),
        (["tables", "a", "b", "--table", "V"], "(there are I, II)"),
        (["serve", "--port", "http"], "invalid int value"),
        (["completion", "fish"], "(there are bash, zsh, tcsh)"),
    ],
)
def test_what_is_wrong_and_what_was_meant_is_one_line(
    words: list[str], says: str, tmp_path: Path
) -> None:
    run = tmp_path / "runs" / "20260101-000000-plain-abcdef"
    run.mkdir(parents=True)
    (run / "run.json").write_text('{"schema": 1, "id": "x", "name": "plain", "status": "running"}')
    done = processes.probe(tmp_path, *words)
    assert done.returncode == 1, done
    (line,) = done.stderr.splitlines()
    assert line.startswith("probe: ") and says in line


def test_usage_errors_come_before_slow_imports(tmp_path: Path) -> None:
    slow = {"torch", "numpy", "scipy", "pyarrow", "pandas"}
    for words in (
        ["compare", "a", "b"],
        ["report", "--nosuch"],
        ["ablate", "--techniques", "nosuch", "--", "x"],
        ["card", "nosuch", "--", "x"],
        ["search", "--knobs", "nosuch", "--target", "loss<=1", "--budget", "1h", "--", "x"],
        ["tables", "a", "b"],
    ):
        done = processes.probe(tmp_path, *words, extra={"PYTHONPROFILEIMPORTTIME": "1"})
        assert done.returncode == 1
        imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
        assert "argparse" in imported and not imported & slow, words


def test_completion_knows_commands_and_options(tmp_path: Path) -> None:
    pytest.importorskip("shtab", reason="shtab is not installed")
    script = processes.probe(tmp_path, "completion", "bash").stdout
    (tmp_path / "c.bash").write_text(script)
    asks = (
        "source c.bash; COMP_WORDS=(probe rep); COMP_CWORD=1; _shtab_probe; echo ${COMPREPLY[@]}; "
        "COMP_WORDS=(probe report --int); COMP_CWORD=2; _shtab_probe; echo ${COMPREPLY[@]}"
    )
    done = subprocess.run(
        ["bash", "-c", asks], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["report", "--intensity"]


def test_a_file_that_was_written_is_named(tmp_path: Path) -> None:
    done = processes.probe(tmp_path, "report", "--schema", "-o", "schema.json")
    size = (tmp_path / "schema.json").stat().st_size
    assert done.returncode == 0 and done.stdout == ""
    assert done.stderr == f"wrote schema.json (json, {size / 1024:.3g} KiB)\n"


@contextlib.contextmanager
def serving(folder: Path, command: str, *words: str) -> Iterator[str]:
    """What a server says that answers to 127.0.0.1 and grid.example, on any free port."""
    (folder / "runs").mkdir()
    server = processes.closed_after_test(
        subprocess.Popen(
            [
                *(sys.executable, "-m", "probe", command, "--dir", str(folder / "runs")),
                *("--port", "0", "--host", "127.0.0.1", "--allow-host", "grid.example", *words),
            ],
            env=processes.environment(folder / "runs"),
            stdout=subprocess.PIPE,
            text=True,
        )
    )
    try:
        assert server.stdout is not None
        yield server.stdout.readline()
    finally:
        server.terminate()
        server.wait(timeout=processes.HUNG_S)


def refuses_another_name(url: str) -> bool:
    try:
        fetch(url, Host="other.example")
    except urllib.error.HTTPError as error:
        return error.code == 403
    return False


def test_serve_sends_to_a_collector_and_answers_names_that_it_was_given(tmp_path: Path) -> None:
    with Collector() as collector, serving(tmp_path, "serve", "--otlp", collector.url) as line:
        assert f"sent to {collector.url}" in line
        url = line.split(" at ")[1].split(",")[0]
        assert fetch(url, Host="grid.example") == ""  # no run is live, and nothing is refused
        assert refuses_another_name(url)


def test_the_dashboard_answers_names_that_it_was_given(tmp_path: Path) -> None:
    pytest.importorskip("dash", reason="dash is not installed")
    with serving(tmp_path, "dashboard", "--base-path", "/energy", "--idle", "60") as line:
        url = line.split(" at ")[1].split()[0]
        assert "/energy" in url and "<title>" in fetch(url, Host="grid.example")
        assert refuses_another_name(url)


def test_designs_of_an_ablation_are_tried_in_their_own_order(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    for design, trials in (("cumulative", 4), ("leave-one-out", 5), ("shapley", 5)):
        words = ["--dir", str(tmp_path / design), "--design", design, "--blocks", "1"]
        failing = ["sh", "-c", "exit 3  # {stack} {seed}"]
        with pytest.raises(SystemExit) as ended:
            main(["ablate", *words, "--techniques", "schedule,clipping", "--", *failing])
        complaint = capsys.readouterr().err
        assert ended.value.code == 1 and "Traceback" not in complaint
        assert f"/{trials}" in complaint, (design, complaint)


def test_every_option_is_given_by_a_test() -> None:
    """As text of some test; what it does is the matter of that test."""
    texts = "\n".join(path.read_text(encoding="utf-8") for path in ROOT.rglob("*.py"))
    for name, parser in commands().items():
        for action in parser._actions:
            if action.option_strings and action.dest not in ("help", "format"):
                assert any(f'"{option}"' in texts for option in action.option_strings), (
                    f"probe {name} {action.option_strings[-1]}: no test gives it"
                )
