"""The ring: edges of one thread on their way to the recorder.

A preallocated shared-memory file with one writer (a training thread) and one
reader (the recorder). The writer never waits, never allocates, never does I/O;
when it would overrun the reader it drops the record and leaves a hole in the
sequence, which the reader turns into a Gap. The file outlives both processes, so
what was written before a kill can still be read.

``probe.ring.reader`` needs numpy and is imported by its users, never here:
the training process only writes.
"""

from .layout import Code, Record
from .writer import RingWriter

__all__ = ["Code", "Record", "RingWriter"]
