"""What a technique says of itself: what it does, its source, its settings, what it predicts."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .. import techniques
from ..errors import TechniqueRefused
from ..plan import Plan
from ..stack import Stack, discover, settings
from ..stack_text import make, read
from ..technique import Technique

# "Jordan et al. 2024", "Chen, Wolfe & Kyrillidis 2021", "Lin et al. (2018)"
_CITED = re.compile(
    r"(?:[A-ZÄÖÜ][\w-]+(?:, | & ))*[A-ZÄÖÜ][\w-]+(?: et al\.)?,? \(?(?:19|20)\d\d(?!\w)"
)


@dataclass(frozen=True, slots=True)
class About:
    """A technique in its own words."""

    what: str
    source: str
    settings: str
    predicts: str


def about(text: str, stack: str, run: Mapping[str, Any]) -> About:
    """A technique in its own words.

    Args:
        text: the technique as a stack's name writes it.
        stack: with it.
        run: run.json of a training on the base, for what the plan was.
    """
    name, options = read(text)
    technique = make(discover()[name], options)
    return About(
        _what(technique), _source(technique), settings(technique), _predicts(name, stack, run)
    )


def _what(technique: Technique) -> str:
    """The first line: of the module where it has one to itself, else of the class."""
    return _one_line((_docs(technique)[0]).split("\n\n")[0])


def _docs(technique: Technique) -> list[str]:
    kind = type(technique)
    docs = [inspect.getdoc(kind) or ""]
    if kind.__module__.startswith(f"{techniques.__name__}."):
        docs.insert(0, inspect.getdoc(importlib.import_module(kind.__module__)) or "")
    return docs


def _source(technique: Technique) -> str:
    """The paper's equation, who its docstrings cite, and the class."""
    cited = [
        match.replace("(", "")
        for doc in _docs(technique)
        for match in _CITED.findall(_one_line(doc))
    ]
    parts = [f"the paper, {technique.equation}"] if technique.equation else []
    kind = type(technique)
    return "; ".join([*parts, *dict.fromkeys(cited), f"`{kind.__module__}.{kind.__name__}`"])


def _predicts(name: str, stack: str, run: Mapping[str, Any]) -> str:
    config = run.get("config") or {}
    batch, lr = config.get("batch_size"), config.get("lr")
    plan = Plan(
        device="cuda" if run.get("accelerators") else "cpu",
        world=int(run.get("ranks") or 1),
        batch_size=batch if isinstance(batch, int) else 1,
        lr=lr if isinstance(lr, int | float) else 1e-3,
    )
    try:
        with_it = Stack.of(stack)
        planned = with_it.plan(plan)
        technique = next(each for each in with_it.on(plan) if each.name == name)
        return technique.predicts(planned) or "nothing"
    except TechniqueRefused as error:
        return f"nothing here: {error}"


def _one_line(text: str) -> str:
    return " ".join(text.replace("``", "`").split())
