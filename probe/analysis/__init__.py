"""A stored run opened for its report: meters, phases, and which meter explains whose phases."""
