"""The pages: what they show runs, links lead somewhere, and what users can name stands there."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from docs.site import pictures
from docs.site.navigation import INSTEAD, PAGES
from docs.site.source import links
from probe.cli.main import command_names, full_parser

ROOT = Path(__file__).resolve().parents[2]
CODE = ("probe", "optimizers", "exporters", "dashboard", "docs", "examples", "benchmarks", "tests")
MARKDOWN = sorted({*ROOT.glob("*.md"), *(f for top in CODE for f in (ROOT / top).rglob("*.md"))})
PUBLIC = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

SETUP = """
import torch
from torch.utils.data import DataLoader, TensorDataset
from torch import nn
model = nn.Sequential(nn.Sequential(*(nn.Sequential(nn.Linear(4, 4)) for _ in range(4))),
                      nn.Linear(4, 2))
dataset = TensorDataset(torch.randn(256, 4), torch.randint(2, (256,)))
loss = lambda model, batch: nn.functional.cross_entropy(model(batch[0]), batch[1])
optimizer = torch.optim.SGD(model.parameters(), 0.1)
loader = DataLoader(TensorDataset(torch.randn(64, 4), torch.randint(2, (64,))), batch_size=8)
loss_fn = torch.nn.CrossEntropyLoss()
def evaluate(): pass
"""

# Each block is the script of a process of its own, a fork of one that has imported torch.
EACH_BLOCK = """
import json, os, sys
import torch._dynamo  # an optimizer's first step imports it
sys.path.insert(0, sys.argv[1])
for number, block in enumerate(json.load(sys.stdin)):
    if os.fork() == 0:
        os.dup2(os.open(f"{number}.txt", os.O_WRONLY | os.O_CREAT), 1)
        exec(compile(block, f"block {number}", "exec"), {"__name__": "__main__"})
        sys.exit()
    assert os.wait()[1] == 0, block
"""


def text_of(pages: list[Path]) -> str:
    return "\n".join(page.read_text(encoding="utf-8") for page in pages)


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def slug(heading: str) -> str:
    """A heading's anchor, as GitHub and the site make it."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
    return re.sub(r"[^\w\- ]", "", plain.strip().lower()).replace(" ", "-")


def anchors(page: Path) -> set[str]:
    text = re.sub(r"^ *```.*?^ *```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    return {slug(heading) for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE)}


@pytest.mark.parametrize("page", MARKDOWN, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for link in links(page.read_text(encoding="utf-8")):
        path, _, anchor = link.partition("#")
        if ":" in path:
            continue
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target), link


def test_every_page_of_a_reader_is_on_the_site() -> None:
    """Each page of docs, and each that one of those leads to; the site has no page in vain."""
    files = {str(page.relative_to(ROOT)) for page in PUBLIC}
    for page in PUBLIC:
        for link in links(page.read_text(encoding="utf-8")):
            path = link.partition("#")[0]
            if path.endswith(".md") and ":" not in path:
                files.add(str((page.parent / path).resolve().relative_to(ROOT)))
    assert files - INSTEAD.keys() <= PAGES.keys()
    assert all((ROOT / file).is_file() for file in PAGES if not file.startswith("("))
    assert len(set(PAGES.values())) == len(PAGES)
    assert not {"search", "genindex", "py-modindex"} & set(PAGES.values()), "the generator's own"


def test_pictures_are_those_that_the_code_draws() -> None:
    kept = {path.name: path.read_text(encoding="utf-8") for path in pictures.FOLDER.iterdir()}
    drawn = {name: draw() for name, draw in pictures.PICTURES.items()}
    assert kept == drawn, "python -m docs.site.pictures"


@pytest.mark.parametrize("frameworks", [False, pytest.param(True, marks=pytest.mark.full)])
def test_every_python_block_runs(tmp_path: Path, frameworks: bool) -> None:
    pytest.importorskip("torch")
    chosen = [
        block
        for block in blocks(text_of(PUBLIC), "python")
        if ("probe.integrations" in block) is frameworks
        and not re.match(r"# \w+\.py\n", block)  # an example of docs/EXTEND.md: test_extending.py
    ]
    assert len(chosen) > 1
    done = subprocess.run(
        [sys.executable, "-c", EACH_BLOCK, str(ROOT)],
        input=json.dumps([f"{SETUP}\n{block}" for block in chosen]),
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
        # One thread: other tests run beside, and those of OpenMP wait by spinning.
        env={"PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    for number, block in enumerate(chosen):
        if "report()" in block:
            assert "forward" in (tmp_path / f"{number}.txt").read_text()


def test_every_block_of_data_is_parsed() -> None:
    text = text_of(MARKDOWN)
    read = [tomllib.loads(block) for block in blocks(text, "toml")]
    read += [yaml.safe_load(block) for block in blocks(text, "yaml")]
    read += [json.loads(block) for block in blocks(text, "json")]
    assert len(read) > 3 and all(read)
    languages = {"", "bash", "python", "toml", "yaml", "json", "text"}
    assert set(re.findall(r"^```(\w*)$", text, re.MULTILINE)) <= languages


def make_targets() -> set[str]:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    return set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))


def test_forms_and_workflows_name_what_exists() -> None:
    files = sorted((ROOT / ".github").rglob("*.yml"))
    texts = {file.stem: file.read_text(encoding="utf-8") for file in files}
    assert {"bug", "meter", "test"} <= texts.keys()
    assert all(isinstance(yaml.safe_load(text), dict) for text in texts.values())
    for text in texts.values():
        assert set(re.findall(r"make ([a-z]+(?!-))\b(?!-)", text)) <= make_targets()
        assert set(re.findall(r"`probe ([a-z]+)", text)) <= set(command_names())
    assert "probe doctor --json" in texts["bug"] and "probe doctor --json" in texts["meter"]
    matrix = yaml.safe_load(texts["test"])["jobs"]["test"]["strategy"]["matrix"]["python"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    claimed = {kind.rpartition(" ")[2] for kind in project["classifiers"] if ":: 3." in kind}
    assert set(matrix) == claimed


def test_every_command_that_a_page_shows_exists() -> None:
    text = text_of(MARKDOWN)
    named = set(re.findall(r"`probe ([a-z]+)", text)) - {"dashboard/"}
    assert named <= set(command_names())
    assert set(re.findall(r"`make ([a-z-]+)`", text)) <= make_targets()
    lines = re.findall(r"^ *(?:\$ )?probe ([a-z]+ .*)$", text, re.MULTILINE)
    lines += re.findall(r"`probe ([a-z]+ [^`]*)`", text_of(PUBLIC))  # elsewhere not always whole
    given = [re.split(r"  | \| ", line)[0] for line in lines]
    assert len(given) > 30
    for line in given:
        words = shlex.split(line.removesuffix("\\"))
        if words[0] in command_names() and not {"…", "COMMAND", "--help"} & {*words}:
            full_parser().parse_args(words)  # raises UsageError


def test_every_program_that_a_page_names_is_there() -> None:
    text = text_of(MARKDOWN)
    modules = set(re.findall(r"python -m ((?:benchmarks|exporters|docs|probe)[\w.]*\w)", text))
    assert len(modules) > 10
    assert all(importlib.util.find_spec(module) for module in modules)
    files = set(re.findall(r"(?:python |`)((?:benchmarks|examples|tests|probe)/[\w/]+\.py)", text))
    assert len(files) > 10
    assert not [file for file in files if not (ROOT / file).is_file()]
