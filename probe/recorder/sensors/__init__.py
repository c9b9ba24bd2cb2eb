"""The sensors of a node, each read by a loop of its own."""
