"""A training that hangs: which rank, in which phase since when, and where its threads stand."""
