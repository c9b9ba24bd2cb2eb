"""Meters of NVIDIA GPUs, through NVML."""
