"""Programs that tests start in processes of their own; each says in its docstring how."""

import importlib.util
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parent


def need(package: str) -> None:
    """Skip a test whose program needs a package that is not here; it is not imported for that."""
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed: pip install {package}")
