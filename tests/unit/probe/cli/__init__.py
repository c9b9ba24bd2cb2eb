"""Commands, in this process."""
