"""The patches of torch that turn its calls into signals."""
