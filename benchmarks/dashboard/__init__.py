"""How fast the dashboard is, and what looking costs the training."""
