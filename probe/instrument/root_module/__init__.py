"""Finds the root module of a training that was not passed to ``watch``."""
