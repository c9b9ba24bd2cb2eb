"""The techniques that a stack can hold, one module each."""

GROUP = "optimizers.techniques"  # entry points of third parties' techniques
