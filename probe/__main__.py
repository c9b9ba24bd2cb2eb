"""``python -m probe`` is the command ``probe``."""

from .cli import main

main()
