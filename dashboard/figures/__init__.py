"""Charts: plain data in, a figure with a caption and a table out. No file, no server, no clock."""
