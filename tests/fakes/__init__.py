"""Stand-ins for the outermost real boundaries: libraries, trees, devices; never our functions."""
