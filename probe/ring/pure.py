"""Stands for the module ``cython`` where that is not installed: nothing is compiled there."""

compiled = False
