"""Packages that a test's program needs."""

from __future__ import annotations

import importlib.util

import pytest


def need(package: str) -> None:
    """Skip the test if a package is not installed; it is not imported for that."""
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed: pip install {package}")
