"""The tables of the paper *Systematic Training Compute Optimization*."""
