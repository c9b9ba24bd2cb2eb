"""The techniques that a stack can hold, one module each."""
