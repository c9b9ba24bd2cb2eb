"""What `probe run` costs beside its command."""
