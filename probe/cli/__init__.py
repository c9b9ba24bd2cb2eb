"""The command ``probe``, one module per command."""
