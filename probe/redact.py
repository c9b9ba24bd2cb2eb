"""Secrets out of what is stored or printed."""
