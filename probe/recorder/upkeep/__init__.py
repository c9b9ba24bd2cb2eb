"""Segments are joined as they become many, and thinned as they become old."""
