"""Meters of AMD GPUs, through amdsmi."""
