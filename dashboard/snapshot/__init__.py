"""A page as one file that can be sent, without what is nobody else's business."""
