"""What watching a run costs."""
