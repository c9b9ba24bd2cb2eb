"""Which cases of a large family `make test` runs; `make test-full` runs all of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def rows_one_in(n: int, rows: Iterable[tuple[Any, ...]]) -> list[Any]:
    """As :func:`one_in`, of cases that have several values each."""
    return [
        row if number % n == 0 else pytest.param(*row, marks=pytest.mark.full)
        for number, row in enumerate(rows)
    ]


def one_in(n: int, cases: Iterable[Any], *, always: Iterable[Any] = ()) -> list[Any]:
    """The cases as parameters; all but every ``n``-th and those of ``always`` are marked full."""
    keep = list(always)
    return [
        case if number % n == 0 or case in keep else pytest.param(case, marks=pytest.mark.full)
        for number, case in enumerate(cases)
    ]
