"""The report of a run: built from the store, rendered in several formats."""
