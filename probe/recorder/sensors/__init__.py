"""The sensors of a node, each read by its own loop."""
