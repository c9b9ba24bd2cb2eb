"""Meters of the whole node, at its power supply."""
