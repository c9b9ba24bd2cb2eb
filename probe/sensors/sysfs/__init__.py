"""Meters of accelerators that the kernel shows as files."""
