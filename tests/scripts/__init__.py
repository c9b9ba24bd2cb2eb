"""Programs that tests start in processes of their own; each says in its docstring how."""

from pathlib import Path

SCRIPTS = Path(__file__).parent
