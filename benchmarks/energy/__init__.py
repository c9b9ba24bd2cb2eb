"""How right joules per phase and comparisons are."""
