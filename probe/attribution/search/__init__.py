"""Which responses explain the first part of a run."""
