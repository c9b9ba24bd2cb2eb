"""Which cases of a large family `make test` runs; `make test-full` runs all of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def one_in(n: int, cases: Iterable[Any], *, always: Iterable[Any] = ()) -> list[Any]:
    """The cases as parameters; all but every ``n``-th and those of ``always`` are marked full."""
    keep = list(always)
    return [
        case if number % n == 0 or case in keep else pytest.param(case, marks=pytest.mark.full)
        for number, case in enumerate(cases)
    ]
