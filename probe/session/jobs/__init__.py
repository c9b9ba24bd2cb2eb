"""The job that a process belongs to: its rank, its launcher, its batch system, its other hosts."""
