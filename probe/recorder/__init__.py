"""The recorder: one process per node that drains rings, reads sensors and writes the store.

The training process only meets :mod:`probe.recorder.spawn`; everything else runs
on the other side of a double fork.
"""
