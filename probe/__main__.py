"""``python -m probe`` is the command ``probe``."""

from .cli.main import main

main()
