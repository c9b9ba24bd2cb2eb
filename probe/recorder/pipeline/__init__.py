"""What happens to readings and spans on their way to the disk and to the live page."""
