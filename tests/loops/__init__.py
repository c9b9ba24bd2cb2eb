"""Loops that people write, each with an independent count of what it does."""
