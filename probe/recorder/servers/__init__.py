"""Servers that a recorder starts when the run asks for them."""
