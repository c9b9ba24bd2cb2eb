"""Runs of a day and of a week: recorded, stored, reported."""
