"""What a technique says when it cannot be had with its options, or on a plan."""

from __future__ import annotations

import pytest

from optimizers.errors import TechniqueRefused
from optimizers.plan import Plan
from optimizers.technique import Technique


def refusal(technique: Technique, plan: Plan | None = None) -> str:
    """The line with which ``technique`` refuses ``plan``; it begins with the technique's name."""
    with pytest.raises(TechniqueRefused) as refused:
        technique.plan(plan or Plan())
    line = str(refused.value)
    assert line.startswith(technique.name) and "\n" not in line, line
    return line
