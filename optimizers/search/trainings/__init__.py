"""Real trainings of a search: processes, their runs and their outcomes."""
