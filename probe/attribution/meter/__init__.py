"""What one meter's readings say: when it updates, and its energy between updates."""
