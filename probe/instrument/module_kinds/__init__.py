"""Phases of forward and backward by kind of module."""
