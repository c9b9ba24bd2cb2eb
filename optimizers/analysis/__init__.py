"""What a step costs in memory and operations, and what follows from it."""
