"""What several destinations need."""
