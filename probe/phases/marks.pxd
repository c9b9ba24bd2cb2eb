from ..ring.native cimport monotonic_ns
from ..ring.slots cimport Slots
from .receiver cimport Receiver

cdef int MARK

cdef class Marks(Receiver):
    cdef object _allocated, _device
    cdef Slots _slots
    cdef bint _enriched, _plain
    cdef int _current
    cdef list _user

    cpdef int base(self) except -1
    cpdef mark(self, int code)
    cpdef _force(self, int code)
    cpdef _named(self, int code)
