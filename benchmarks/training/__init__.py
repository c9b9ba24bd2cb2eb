"""What the trainer, its techniques and reducing gradients cost."""
